"""`floe load`: files into a table, in one commit; on an error nothing of them is in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import typer

from floe.catalog.identifiers import format_identifier
from floe.cli.naming import NameIn, Where, find_name, find_table
from floe.cli.output import results
from floe.cli.work.listing import summary_count
from floe.cli.work.reading import column_list
from floe.cli.work.sources import Source, find_files, open_source
from floe.cli.work.text_sources import TextOptions
from floe.errors import FloeError, InvalidInput, InvalidSchema, InvalidValue, NoSuchNamespace, NotFound
from floe.show.progress import Advance, progress_bar
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.summaries import ADDED_DATA_FILES
from floe.spec.schemas.schema import Schema
from floe.table.amounts import many
from floe.table.ddl import parse_columns
from floe.table.lake import Lake
from floe.table.table import Table

__all__ = ["Layout", "Load", "TextOptions", "load"]

_NANOSECONDS_FROM: Final = 3
"""The format version that has timestamps of nanoseconds (spec: Primitive Types)."""


@dataclass(frozen=True)
class Layout:
    """How a table is made that is not there yet."""

    schema: str | None = None
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    format_version: int | None = None
    properties: Mapping[str, str] | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything of it was asked for."""
        return bool(self.schema or self.partition_by or self.sort_by or self.format_version or self.properties)


@dataclass(frozen=True)
class Load:
    """What to load, and how."""

    files: Sequence[str]
    mode: str = "append"
    on: Sequence[str] = ()
    rows_where: str | None = None
    merge_schema: bool = False
    format_: str | None = None
    text: TextOptions = field(default_factory=TextOptions)


def load(
    asked: Load,
    name: str,
    catalog: str | None,
    options: Mapping[str, Any],
    *,
    create: bool = False,
    layout: Layout | None = None,
    consent: bool = False,
    as_json: bool = False,
) -> None:
    """Load files into a table, which is made from them if there is none and that was asked for."""
    begun = perf_counter()
    where, layout = Where(catalog, options), layout or Layout()
    table = _existing(name, where, create=create)
    files = find_files(asked.files, asked.format_)
    if table is None:
        target = find_name(name, where)
        incoming = _Incoming(asked, files, _declared(layout))
        if (layout.format_version or 0) < _NANOSECONDS_FROM:
            incoming.without_nanoseconds()
        with incoming.reading() as reader, _namespace(target, consent=consent):
            made = _create(target, incoming, reader, layout)
        snapshot = made.current_snapshot
    else:
        if layout.is_given:
            raise InvalidInput(
                "the table is there already, so its columns and layout are what they are",
                hint="leave out --schema, --partition-by, --sort-by, --format-version and --property",
                table=table.name,
            )
        incoming = _Incoming(asked, files, table.schema)
        with incoming.reading() as reader:
            snapshot = _write(table, asked, reader)
    _tell(name, table is None, asked.mode, len(files), incoming.rows, snapshot, perf_counter() - begun, as_json)


def _existing(name: str, where: Where, *, create: bool) -> Table | None:
    try:
        found = find_table(name, where)
    except NotFound as error:
        if create:
            return None
        error.hint = f"{error.hint}; --create makes a table from the data" if error.hint else "use --create to make it"
        raise
    return Table(found.pointer, found.state)


def _declared(layout: Layout) -> Schema | None:
    return None if layout.schema is None else parse_columns(layout.schema)


class _Incoming:
    """The rows of all files as one stream; files that lack a column of others have nulls for it."""

    def __init__(self, asked: Load, files: Sequence[str], columns: Schema | None) -> None:
        self._asked, self._files, self._columns = asked, files, columns
        self._first = self._open(files[0])
        self._sizes = [self._first.size]
        schemas = [self._first.schema]
        with self._closing():
            for name in files[1:]:
                source = self._open(name)
                source.close()
                schemas.append(source.schema)
                self._sizes.append(source.size)
            self.schema = _one_schema(schemas, files)
        self.rows = 0

    @contextmanager
    def reading(self) -> Iterator[pa.RecordBatchReader]:
        """The stream, with a progress bar while it is read."""
        with self._closing(), progress_bar("loading", sys.stderr) as advance:
            yield pa.RecordBatchReader.from_batches(self.schema, self._batches(advance))
        self._first.close()

    def without_nanoseconds(self) -> None:
        """Take timestamps as microseconds; those that are finer fail when they come."""
        self.schema = pa.schema([(column.name, _in_micros(column.type)) for column in self.schema])

    def _open(self, name: str) -> Source:
        return open_source(name, self._asked.format_, self._columns, self._asked.text)

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """What is still open is closed if something fails."""
        try:
            yield
        except BaseException:
            self._first.close()
            raise

    def _batches(self, advance: Advance | None) -> Iterator[pa.RecordBatch]:
        before, total = 0, sum(self._sizes)
        for number, name in enumerate(self._files):
            source = self._open(name) if number else self._first
            with closing(source):
                for batch in _guarded(source):
                    self.rows += batch.num_rows
                    yield _aligned(batch, self.schema, name)
                    if advance is not None:
                        advance(before + min(source.done(), source.size), total, self.rows)
            before += source.size


def _guarded(source: Source) -> Iterator[pa.RecordBatch]:
    try:
        yield from source.batches
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FloeError):
            raise
        raise InvalidInput(f"the file cannot be read to its end: {str(error)[:300]}", file=source.name) from None


def _one_schema(schemas: Sequence[pa.Schema], files: Sequence[str]) -> pa.Schema:
    plain = [pa.schema([(column.name, _stored_type(column.type)) for column in schema]) for schema in schemas]
    for schema, name in zip(plain, files, strict=True):
        if len(set(schema.names)) != len(schema.names):
            twice = next(column for column in schema.names if schema.names.count(column) > 1)
            raise InvalidSchema(f"there are two columns {twice!r}", file=name)
    try:
        return pa.unify_schemas(plain, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidSchema(
            f"the files do not have the same columns: {str(error)[:300]}", hint="load them one after the other"
        ) from None


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """The type of a column's values, without how a file happens to encode them."""
    if pa.types.is_dictionary(type_):
        return _stored_type(type_.value_type)
    return pa.string() if pa.types.is_null(type_) else type_


def _in_micros(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) and type_.unit == "ns" else type_


def _aligned(batch: pa.RecordBatch, schema: pa.Schema, file: str) -> pa.RecordBatch:
    columns = []
    for wanted in schema:
        place = batch.schema.get_field_index(wanted.name)
        column = pa.nulls(batch.num_rows, wanted.type) if place < 0 else batch.column(place)
        try:
            columns.append(column if column.type == wanted.type else column.cast(wanted.type))
        except pa.ArrowInvalid as error:
            hint = None
            if pa.types.is_timestamp(wanted.type):
                hint = "--format-version 3 has timestamps of nanoseconds"
            raise InvalidValue(str(error)[:300], hint=hint, column=wanted.name, file=file) from None
    return pa.record_batch(columns, schema=schema)


# into the table -------------------------------------------------------------------------------------------------------


def _write(table: Table, asked: Load, reader: pa.RecordBatchReader) -> Snapshot | None:
    if asked.mode == "overwrite":
        return table.overwrite(reader, where=asked.rows_where, merge_schema=asked.merge_schema)
    if asked.mode == "overwrite-partitions":
        return table.overwrite_partitions(reader, merge_schema=asked.merge_schema)
    if asked.mode == "upsert":
        return table.upsert(reader, on=column_list(asked.on) or None, merge_schema=asked.merge_schema).snapshot
    return table.append(reader, merge_schema=asked.merge_schema)


def _create(target: NameIn, incoming: _Incoming, reader: pa.RecordBatchReader, layout: Layout) -> Table:
    lake = Lake(target.catalog, target.environment)
    declared = _declared(layout)
    with lake.create_table_transaction(
        target.identifier,
        incoming.schema if declared is None else declared,
        partition_by=layout.partition_by,
        sort_by=layout.sort_by,
        format_version=layout.format_version,
        properties=layout.properties,
    ) as tx:
        tx.append(reader)
    return lake.table(target.identifier)


@contextmanager
def _namespace(target: NameIn, *, consent: bool) -> Iterator[None]:
    """The namespace that a new table needs: made if the user agrees, and gone again if the table is not made."""
    namespace = target.identifier[:-1]
    if target.catalog.namespace_exists(namespace):
        yield
        return
    name = format_identifier(namespace)
    if not consent and sys.stdin.isatty() and sys.stderr.isatty():
        consent = typer.confirm(f"There is no namespace {name} in {target.catalog.name}. Make it?", err=True)
    if not consent:
        raise NoSuchNamespace(
            f"there is no namespace {name}", hint="--yes makes it, together with the table", catalog=target.catalog.name
        )
    target.catalog.create_namespace(namespace)
    try:
        yield
    except BaseException:
        with suppress(FloeError):
            target.catalog.drop_namespace(namespace)
        raise


def _tell(
    name: str,
    created: bool,
    mode: str,
    sources: int,
    rows: int,
    snapshot: Snapshot | None,
    seconds: float,
    as_json: bool,
) -> None:
    out = results()
    files = 0 if snapshot is None else summary_count(snapshot.summary, ADDED_DATA_FILES) or 0
    if as_json:
        out.json(
            {
                "table": name,
                "created": created,
                "mode": mode,
                "sources": sources,
                "rows": rows,
                "data_files": files,
                "seconds": round(seconds, 3),
                "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
            }
        )
        return
    if created:
        out.line(f"made {out.paint(name, 'bold')}")
    into = f"{many(rows, 'row')} from {many(sources, 'file')} into {out.paint(name, 'bold')}"
    if snapshot is None:
        out.line(f"nothing to load: {into}")
    else:
        out.line(f"{into}: {many(files, 'data file')}, {seconds:.1f} s, snapshot {snapshot.snapshot_id}")
