"""`floe load`: files into a table, in one commit; after an error the table is as before."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

import floe
from floe import cli
from floe.catalog.identifiers import format_identifier
from floe.cli.arguments import (
    CatalogArguments,
    CatalogEntry,
    CatalogOption,
    CatalogOptions,
    Debug,
    Json,
    TableName,
    catalog_options,
    find_entry,
    key_values,
    load_table,
    split_names,
)
from floe.cli.ls import summary_count
from floe.errors import FloeError, InvalidInput, NoSuchNamespace, NotFound
from floe.show.terminal import stdout
from floe.spec.metadata.snapshots import ADDED_DATA_FILES, Snapshot
from floe.table.human_values import many

if TYPE_CHECKING:  # `floe load --help` needs neither Arrow nor a table
    import pyarrow as pa

    from floe.table.table import Table

EXAMPLES = """
floe load orders.parquet lake.db.orders
floe load 'data/*.csv' warehouse/db/orders --create --partition-by 'day(ts)'
floe load - lake.db.events --format jsonl < events.jsonl
floe load new.csv lake.db.orders --mode upsert --on order_id
floe load fixed.parquet lake.db.orders --mode overwrite --where "day = '2024-05-17'"
"""

_NANOSECONDS_FROM: Final = 3
"""The format version that has timestamps of nanoseconds (spec: Primitive Types)."""


class Mode(StrEnum):
    """How rows are written."""

    append = "append"
    overwrite = "overwrite"
    overwrite_partitions = "overwrite-partitions"
    upsert = "upsert"


class FileFormat(StrEnum):
    """The formats of files that can be loaded."""

    parquet = "parquet"
    orc = "orc"
    avro = "avro"
    csv = "csv"
    jsonl = "jsonl"


Files: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="Parquet, ORC, Avro, CSV or JSON lines: files, folders, patterns in quotes, or - for standard input.",
        show_default=False,
    ),
]
ModeOption: TypeAlias = Annotated[
    Mode, typer.Option("--mode", "-m", help="Whether to add rows, to replace existing rows, or to update by key.")
]
KeyColumns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="A,B",
        help="With --mode upsert: the key columns; default: the identifier columns of the table.",
        show_default=False,
    ),
]
ReplacedRows: TypeAlias = Annotated[
    str | None,
    typer.Option("--where", metavar="FILTER", help="With --mode overwrite: the rows to replace.", show_default=False),
]
MergeSchema: TypeAlias = Annotated[
    bool, typer.Option("--merge-schema", help="Add columns that only the files have, and widen types.")
]
FormatOption: TypeAlias = Annotated[
    FileFormat | None,
    typer.Option("--format", "-f", help="The format of the files; default: by their names.", show_default=False),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="TEXT",
        help="The delimiter of CSV fields; default: detected from the first lines.",
        show_default=False,
    ),
]
Nulls: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="TEXT", help="A text that means null in CSV; default: empty.", show_default=False),
]
Header: TypeAlias = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether the first line of CSV names the columns.")
]
Create: TypeAlias = Annotated[
    bool, typer.Option("--create", help="Create the table from the files, if it does not exist.")
]
SchemaText: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="COLUMNS",
        help="With --create: the columns, as 'id bigint not null, ts timestamptz'; default: those of the files.",
        show_default=False,
    ),
]
PartitionBy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by", metavar="TERM", help="With --create: a partition field, as 'day(ts)'.", show_default=False
    ),
]
SortBy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--sort-by", metavar="TERM", help="With --create: a sort field, as 'ts desc'.", show_default=False),
]
FormatVersion: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--format-version",
        min=1,
        max=3,
        metavar="N",
        help="With --create: the format version of the table.",
        show_default=False,
    ),
]
Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property", "-p", metavar="KEY=VALUE", help="With --create: a property of the table.", show_default=False
    ),
]
Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="With --create: create the namespace, too, without asking.")
]


def load(
    files: Files,
    table: TableName,
    create: Create = False,
    mode: ModeOption = Mode.append,
    on: KeyColumns = None,
    where: ReplacedRows = None,
    merge_schema: MergeSchema = False,
    format_: FormatOption = None,
    schema: SchemaText = None,
    partition_by: PartitionBy = None,
    sort_by: SortBy = None,
    format_version: FormatVersion = None,
    property_: Properties = None,
    yes: Yes = False,
    delimiter: Delimiter = None,
    null: Nulls = None,
    header: Header = True,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Load files into a table, in one commit.

    Columns are matched by name. After an error the table is as before.
    """
    if on and mode is not Mode.upsert:
        raise typer.BadParameter("--on needs --mode upsert", param_hint="--on")
    if where is not None and mode is not Mode.overwrite:
        raise typer.BadParameter("--where needs --mode overwrite", param_hint="--where")
    started = perf_counter()
    arguments = CatalogArguments(catalog, catalog_options(option))
    write = Write(mode, split_names(on), where, merge_schema)
    layout = Layout(schema, partition_by or (), sort_by or (), format_version, key_values("--property", property_))
    existing = _load_existing(table, arguments, create=create)
    text_options = cli.input_text.TextOptions(delimiter, tuple(null or ("",)), header)
    inputs = cli.input_files.InputFiles.find(files, None if format_ is None else format_.value, text_options)
    if existing is None:
        result = _load_new(find_entry(table, arguments), inputs, layout, consent=yes)
    elif layout.is_empty:
        result = _load_into(existing, inputs, write)
    else:
        raise InvalidInput(
            "the table exists already, with its columns and layout",
            hint="leave out --schema, --partition-by, --sort-by, --format-version and --property",
            table=existing.name,
        )
    summary = Summary(table, existing is None, mode, len(inputs.names), *result, perf_counter() - started)
    summary.print(as_json=json)


@dataclass(frozen=True)
class Write:
    """How rows are written to an existing table."""

    mode: Mode
    key_columns: Sequence[str]
    where: str | None
    merge_schema: bool

    def apply(self, table: Table, reader: pa.RecordBatchReader) -> Snapshot | None:
        """Write the rows in one commit."""
        merge_schema = self.merge_schema
        match self.mode:
            case Mode.overwrite:
                return table.overwrite(reader, where=self.where, merge_schema=merge_schema)
            case Mode.overwrite_partitions:
                return table.overwrite_partitions(reader, merge_schema=merge_schema)
            case Mode.upsert:
                return table.upsert(reader, on=self.key_columns or None, merge_schema=merge_schema).snapshot
            case _:
                return table.append(reader, merge_schema=merge_schema)


@dataclass(frozen=True)
class Layout:
    """How a new table is created."""

    schema: str | None = None
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    format_version: int | None = None
    properties: Mapping[str, str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no option asks for a layout."""
        return not (self.schema or self.partition_by or self.sort_by or self.format_version or self.properties)


_Result: TypeAlias = tuple[int, Snapshot | None]
"""The rows that were read, and the snapshot with them; None if there was nothing to commit."""


def _load_existing(name: str, arguments: CatalogArguments, *, create: bool) -> Table | None:
    try:
        loaded = load_table(name, arguments)
    except NotFound as error:
        if create:
            return None
        create_hint = "--create creates a table from the files"
        error.hint = f"{error.hint}; {create_hint}" if error.hint else create_hint
        raise
    return floe.Table(loaded.pointer, loaded.state)


def _load_into(table: Table, inputs: cli.input_files.InputFiles, write: Write) -> _Result:
    rows = inputs.rows(table.schema)
    with rows.reader() as reader:
        snapshot = write.apply(table, reader)
    return rows.count, snapshot


def _load_new(entry: CatalogEntry, inputs: cli.input_files.InputFiles, layout: Layout, *, consent: bool) -> _Result:
    rows = inputs.rows(layout.schema)
    if (layout.format_version or 0) < _NANOSECONDS_FROM:
        rows.without_nanoseconds()
    lake = floe.Lake(entry.catalog, entry.environment)
    with rows.reader() as reader, _namespace_of(entry, consent=consent):
        with lake.create_table_transaction(
            entry.identifier,
            rows.schema if layout.schema is None else layout.schema,
            partition_by=layout.partition_by,
            sort_by=layout.sort_by,
            format_version=layout.format_version,
            properties=layout.properties or None,
        ) as transaction:
            transaction.append(reader)
        snapshot = lake.table(entry.identifier).current_snapshot
    return rows.count, snapshot


@contextmanager
def _namespace_of(entry: CatalogEntry, *, consent: bool) -> Iterator[None]:
    """Create the namespace that a new table needs, if the user agrees; drop it again if the table is not created."""
    namespace = entry.identifier[:-1]
    if entry.catalog.namespace_exists(namespace):
        yield
        return
    name = format_identifier(namespace)
    if not consent and sys.stdin.isatty() and sys.stderr.isatty():
        consent = typer.confirm(f"There is no namespace {name} in {entry.catalog.name}. Create it?", err=True)
    if not consent:
        raise NoSuchNamespace(
            f"there is no namespace {name}", hint="--yes creates it, with the table", catalog=entry.catalog.name
        )
    entry.catalog.create_namespace(namespace)
    try:
        yield
    except BaseException:
        with suppress(FloeError):
            entry.catalog.drop_namespace(namespace)
        raise


@dataclass(frozen=True)
class Summary:
    """What a load did."""

    table: str
    created: bool
    mode: Mode
    files: int
    rows: int
    snapshot: Snapshot | None
    seconds: float

    def print(self, *, as_json: bool) -> None:
        """Print it, as text or as JSON."""
        out, snapshot = stdout(), self.snapshot
        data_files = 0 if snapshot is None else summary_count(snapshot.summary, ADDED_DATA_FILES) or 0
        if as_json:
            out.json(
                {
                    "table": self.table,
                    "created": self.created,
                    "mode": self.mode.value,
                    "sources": self.files,
                    "rows": self.rows,
                    "data_files": data_files,
                    "seconds": round(self.seconds, 3),
                    "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
                }
            )
            return
        name = out.paint(self.table, "bold")
        if self.created:
            out.line(f"created {name}")
        loaded = f"{many(self.rows, 'row')} from {many(self.files, 'file')} into {name}"
        if snapshot is None:
            out.line(f"nothing to load: {loaded}")
        else:
            out.line(
                f"{loaded}: {many(data_files, 'data file')}, {self.seconds:.1f} s, snapshot {snapshot.snapshot_id}"
            )
