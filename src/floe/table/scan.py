"""Reads of a table: `Scan` of a snapshot, `ChangeScan` of the changes between two snapshots, `AppendedRows`.

`RowSource` has what they have in common: the rows as Arrow batches and tables, pandas, Polars or dictionaries. Each
call reads the files again. A source has `__arrow_c_stream__`, so DuckDB, Polars, pandas, pyarrow and others accept it
as it is: `duckdb.sql("select count(*) from scan")`, `polars.DataFrame(scan)`, `pyarrow.table(scan)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa

from floe.arrow.read.changelog import CHANGE_COLUMNS, read_changes, with_change_columns
from floe.arrow.read.row_condition import RowCondition, compile_filter
from floe.arrow.read.streams import BatchStream, OnProgress, count_plan, read_plan
from floe.commit.pointer import TableState
from floe.errors import InvalidInput, NoSuchColumn
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.rows import Row, batch_to_rows
from floe.plan.changelog import ChangelogPlan, plan_changelog
from floe.plan.scan import ScanOptions, plan_appends, plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshot_selection import SnapshotRange, choose_snapshot, schema_for, snapshots_in_range
from floe.plugins import load_library
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.metadata.snapshots import Snapshot, check_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.column_projection import select
from floe.spec.schemas.schema import Schema
from floe.sql.filters import as_filter
from floe.sql.printer import name_text, type_text
from floe.storage.environment import Environment
from floe.storage.protocol import Storage
from floe.table.display import Card, snapshot_line
from floe.table.hints import SCAN_NAMES, explain_missing_files, raise_no_attribute
from floe.table.human_values import Timestamp, timestamp_millis


class RowSource(ABC):
    """Something that rows can be read from, in many forms."""

    schema: Schema
    """The columns that are read."""

    _limit: int | None = None

    @abstractmethod
    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        """All rows as Arrow batches."""

    @abstractmethod
    def _card(self) -> Card:
        """What notebooks show."""

    # how many rows -----------------------------------------------------------------------------------------------

    def limit(self, rows: int) -> Self:
        """The same source with at most so many rows; reading stops when there are enough.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> lake.create_table("db.t", "id bigint").scan().limit(10).to_arrow().num_rows
        0
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise InvalidInput(f"limit must be a number of rows, 0 or more; found {rows!r:.80}")
        limited = copy(self)
        limited._limit = rows if self._limit is None else min(rows, self._limit)
        return limited

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, as an Arrow table."""
        return self.limit(rows).to_arrow()

    # Arrow -----------------------------------------------------------------------------------------------------------

    def to_batches(
        self,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        workers: int | None = None,
        progress: OnProgress | None = None,
        ordered: bool = True,
    ) -> BatchStream:
        """The rows as a stream of Arrow record batches, in bounded memory; close it to stop early.

        A batch has at most `batch_size` rows; `workers` threads read. `progress` is called with a `Progress`, in the
        thread that takes the batches. With `ordered=False` batches come as soon as they are read.
        """
        for name, number in (("batch_size", batch_size), ("workers", 1 if workers is None else workers)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidInput(f"{name} must be a whole number, 1 or more; found {number!r:.80}")
        return BatchStream(
            arrow_schema(self.schema),
            self._stream(batch_size=batch_size, workers=workers, progress=progress, ordered=ordered),
        )

    def _stream(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        if self._limit is None:
            return self._read(batch_size=batch_size, workers=workers, progress=progress, ordered=ordered)
        if workers is None and self._limit <= DEFAULT_BATCH_SIZE:
            workers = 1  # the first file most likely has enough rows: others would be read in vain
        batches = self._read(batch_size=batch_size, workers=workers, progress=progress, ordered=ordered)
        return _first_rows(batches, self._limit)

    def to_arrow(self, *, workers: int | None = None, progress: OnProgress | None = None) -> pa.Table:
        """All rows as one Arrow table."""
        return self.to_batches(workers=workers, progress=progress).read_all()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows for libraries that support Arrow's C stream interface."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """The columns for libraries that support Arrow's C data interface."""
        return arrow_schema(self.schema).__arrow_c_schema__()

    # other forms -------------------------------------------------------------------------------------------------

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas DataFrame; options are those of `pyarrow.Table.to_pandas`."""
        load_library("pandas", needed_by="to_pandas", install="pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """All rows as a Polars DataFrame."""
        polars = load_library("polars", needed_by="to_polars", install="polars")
        return polars.from_arrow(self.to_arrow())

    def to_rows(self) -> Iterator[Row]:
        """The rows as dictionaries, one by one; `floe.spec.values` describes the form of values.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> list(lake.create_table("db.t", "id bigint").scan().to_rows())
        []
        """
        with self.to_batches() as batches:
            for batch in batches:
                yield from batch_to_rows(self.schema, batch)

    def _repr_html_(self) -> str:
        return self._card().html()


def column_lines(schema: Schema) -> list[str]:
    """The columns for display, one line each.

    >>> from floe.spec.types import LONG, Field
    >>> column_lines(Schema((Field(1, "id", LONG),)))
    ['id  long']
    """
    return [f"{name_text(field.name)}  {type_text(field.type)}" for field in schema.fields] or ["none"]


def _first_rows(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    try:
        while count > 0 and (batch := next(batches, None)) is not None:
            yield batch.slice(0, count)
            count -= batch.num_rows
    finally:
        if hasattr(batches, "close"):
            batches.close()


class Scan(RowSource):
    """A read of a table, made by `Table.scan`.

    A scan always returns the same rows, whatever is committed meanwhile, until its snapshot expires.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint, name string")
    >>> scan = t.scan(columns=["name"], where="id > 5")
    >>> scan
    <Scan of db.t: name where id > 5, no snapshot yet>
    >>> scan.count(), scan.files(), scan.to_arrow().schema.names
    (0, [], ['name'])
    """

    def __init__(
        self,
        state: TableState,
        table: str,
        storage: Storage,
        *,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of_ms: int | None = None,
        environment: Environment,
        case_sensitive: bool = True,
    ) -> None:
        metadata = state.metadata
        self._state, self._metadata, self._table, self._storage = state, metadata, table, storage
        self._case_sensitive = case_sensitive
        self.snapshot: Snapshot | None = choose_snapshot(metadata, snapshot=snapshot, ref=ref, as_of_ms=as_of_ms)
        """The snapshot that is read; None while the table has none."""

        self.table_schema: Schema = schema_for(metadata, snapshot=snapshot, ref=ref, as_of_ms=as_of_ms)
        """All columns of the table as the snapshot is read."""

        # compiled here, so that an invalid filter fails at once
        condition = compile_filter(where, self.table_schema, environment, case_sensitive=case_sensitive)
        self.where: Expression = condition.filter
        """The filter that planning prunes files by; every row that is read matches it."""

        self._row_condition = condition.row_condition
        self._where_text = str(where) if self._row_condition is not None else str(self.where)
        self.schema: Schema = self.table_schema if columns is None else self._selected(columns)
        """The columns that are read."""

    def _selected(self, columns: str | Sequence[str]) -> Schema:
        if not isinstance(columns, Iterable):
            raise InvalidInput(f"columns must be a list of names, found {columns!r:.80}")
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if not isinstance(name, str):
                raise InvalidInput(f"the name of a column must be text, found {name!r:.80}")
        partitions = unified_partition_type(self._metadata.partition_specs, self._metadata.schemas)
        selected = select(self.table_schema, names, case_sensitive=self._case_sensitive, partition_type=partitions)
        change_columns = [field.name for field in selected.fields if field in CHANGE_COLUMNS]
        if change_columns:
            raise NoSuchColumn(
                f"a scan has no column {change_columns[0]!r}: only changelogs have it",
                hint="read `table.changes()`",
                table=self._table,
            )
        return selected

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise_no_attribute(self, name, SCAN_NAMES)

    @property
    def _has_filter(self) -> bool:
        return self.where is not TRUE or self._row_condition is not None

    def plan(self) -> ScanPlan:
        """The files to be read, each with its deletes and its residual filter; planned once."""
        return self._plan

    @cached_property
    def _plan(self) -> ScanPlan:
        with explain_missing_files(self._state, self._table):
            return plan_scan(
                self._metadata,
                self._storage,
                snapshot=self.snapshot,
                options=ScanOptions(schema=self.table_schema, where=self.where, case_sensitive=self._case_sensitive),
            )

    def files(self) -> list[str]:
        """The locations of the data files to be read."""
        paths: list[str] = self.plan().files_to_arrow()["file_path"].to_pylist()
        return paths

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        return self._matching_rows(
            self.schema, batch_size=batch_size, workers=workers, progress=progress, ordered=ordered
        )

    def _matching_rows(self, schema: Schema, **options: Any) -> Iterator[pa.RecordBatch]:
        with explain_missing_files(self._state, self._table):
            if self._row_condition is None:
                yield from read_plan(self.plan(), schema, self._storage, **options)
                return
            rows = RowCondition(self._row_condition, self.table_schema, schema)
            for batch in read_plan(self.plan(), rows.read_schema, self._storage, **options):
                matching = rows.filter(batch)
                if matching.num_rows:
                    yield matching

    def count(self, *, workers: int | None = None, progress: OnProgress | None = None) -> int:
        """The number of rows: from metadata where that is exact, and by reading the other files."""
        if self._row_condition is None:
            with explain_missing_files(self._state, self._table):
                count = count_plan(self.plan(), self._storage, workers=workers, progress=progress)
        else:
            batches = self._matching_rows(Schema(()), workers=workers, progress=progress, ordered=False)
            count = sum(batch.num_rows for batch in batches)
        return count if self._limit is None else min(count, self._limit)

    def explain(self) -> str:
        """What would be read and why, as text: the snapshot, the files read and pruned, the residual filter."""
        snapshot = "none yet" if self.snapshot is None else snapshot_line(self.snapshot)
        columns = ", ".join(field.name for field in self.schema) or "none"
        lines = {"table": self._table, "snapshot": snapshot, "columns": columns}
        if self._row_condition is not None:
            lines["row condition"] = self._where_text
        return "\n".join([*(f"{label:<18}{text}" for label, text in lines.items()), self.plan().explain()])

    def __repr__(self) -> str:
        columns = ", ".join(field.name for field in self.schema.fields[:8]) + ", …" * (len(self.schema) > 8)
        where = f" where {self._where_text}" if self._has_filter else ""
        limit = "" if self._limit is None else f", at most {self._limit} rows"
        snapshot = "no snapshot yet" if self.snapshot is None else f"snapshot {self.snapshot.snapshot_id}"
        return f"<Scan of {self._table}: {columns or 'no columns'}{where}{limit}, {snapshot}>"

    def _card(self) -> Card:
        rows: list[tuple[str, str | Sequence[str]]] = [("columns", column_lines(self.schema))]
        if self._has_filter:
            rows.append(("where", self._where_text))
        if self._limit is not None:
            rows.append(("limit", f"{self._limit:,}"))
        rows.append(("snapshot", "none yet" if self.snapshot is None else snapshot_line(self.snapshot)))
        return Card(self._table, "scan", tuple(rows))


# Changes between snapshots ----------------------------------------------------------------------------------------


class ChangeScan(RowSource):
    """The changes after one snapshot up to and including another, made by `Table.changes`.

    Rows have the table's columns, then `_change_type` (INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER), `_change_ordinal`
    (the index of the snapshot in the range, from 0) and `_commit_snapshot_id`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> changes = lake.create_table("db.t", "id bigint").changes()
    >>> changes, list(changes.plan().tasks())
    (<changes of db.t: 0 snapshots>, [])
    >>> changes.to_arrow().schema.names
    ['id', '_change_type', '_change_ordinal', '_commit_snapshot_id']
    """

    def __init__(
        self,
        state: TableState,
        table: str,
        storage: Storage,
        *,
        since: int | Timestamp | None = None,
        until: int | Timestamp | None = None,
        branch: str | None = None,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        updates: bool = False,
        identifiers: str | Sequence[str] | None = None,
        carry_over: bool = False,
        case_sensitive: bool = True,
    ) -> None:
        self._state, self._metadata, self._table, self._storage = state, state.metadata, table, storage
        self._range = SnapshotRange(
            after=_snapshot_id(self._metadata, since), until=_snapshot_id(self._metadata, until), branch=branch
        )
        self._where = as_filter(where)
        if self._where is not None:  # bound here, so that an invalid filter fails at once
            bind(self._where, self._metadata.schema, case_sensitive=case_sensitive)
        self._case_sensitive = case_sensitive
        self._options = ScanOptions(where=self._where, case_sensitive=case_sensitive)
        self._carry_over = carry_over
        self._keys = self._identifiers(updates, identifiers)
        self.row_schema: Schema = self._selected(columns)
        """The columns of the table that are read."""

        self.schema: Schema = with_change_columns(self.row_schema)
        self.snapshots: tuple[Snapshot, ...] = snapshots_in_range(self._metadata, self._range)
        """The snapshots of the range, oldest first."""

    def _selected(self, columns: str | Sequence[str] | None) -> Schema:
        if columns is None:
            return self._metadata.schema
        names = [columns] if isinstance(columns, str) else list(columns)
        partitions = unified_partition_type(self._metadata.partition_specs, self._metadata.schemas)
        selected = select(self._metadata.schema, names, case_sensitive=self._case_sensitive, partition_type=partitions)
        # the change columns are always added, after the others
        return Schema(tuple(field for field in selected.fields if field not in CHANGE_COLUMNS), selected.schema_id)

    def _identifiers(self, updates: bool, names: str | Sequence[str] | None) -> tuple[int, ...]:
        """The field ids of the columns that identify a row; none unless updates are asked for."""
        schema = self._metadata.schema
        if not updates:
            if names is not None:
                raise InvalidInput("identifiers need updates=True", hint="pass updates=True with them")
            return ()
        if names is None:
            if not schema.identifier_field_ids:
                raise InvalidInput(
                    "the table has no identifier columns, which updates are matched by",
                    hint="pass identifiers=[…], or set them in the table's schema",
                    table=self._table,
                )
            return schema.identifier_field_ids
        columns = [names] if isinstance(names, str) else names
        return tuple(schema.field(name, case_sensitive=self._case_sensitive).id for name in columns)

    def plan(self) -> ChangelogPlan:
        """Every change, snapshot by snapshot: files added, files removed, rows deleted; rewrites are no changes."""
        return plan_changelog(self._metadata, self._storage, self._range, options=self._options)

    def appends(self) -> ScanPlan:
        """The files that appends added, even if their rows were changed later."""
        return plan_appends(self._metadata, self._storage, self._range, options=self._options)

    def appended(self) -> AppendedRows:
        """The rows of `appends`."""
        card = replace(self._card(), kind="appended rows")
        return AppendedRows(self, self._state, self._table, self._storage, card)

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        with explain_missing_files(self._state, self._table):
            yield from read_changes(
                self.plan(),
                self.row_schema,
                self._storage,
                keys=self._keys,
                carry_over=self._carry_over,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
            )

    def _card(self) -> Card:
        rows: list[tuple[str, str | Sequence[str]]] = [("columns", column_lines(self.row_schema))]
        if self._where is not None:
            rows.append(("where", str(self._where)))
        rows.append(("snapshots", [snapshot_line(snapshot) for snapshot in self.snapshots] or "none"))
        return Card(self._table, "changes", tuple(rows))

    def __repr__(self) -> str:
        count = len(self.snapshots)
        return f"<changes of {self._table}: {count} snapshot{'' if count == 1 else 's'}>"


class AppendedRows(RowSource):
    """The rows that appends added in a range of snapshots, even if they were changed later: `changes.appended()`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> lake.create_table("db.t", "id bigint").changes().appended().to_arrow().num_rows
    0
    """

    def __init__(self, changes: ChangeScan, state: TableState, table: str, storage: Storage, card: Card) -> None:
        self._changes, self._state, self._table, self._storage = changes, state, table, storage
        self._shown = card
        self.schema = changes.row_schema

    def plan(self) -> ScanPlan:
        """The files that were appended."""
        return self._changes.appends()

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        with explain_missing_files(self._state, self._table):
            yield from read_plan(
                self.plan(),
                self.schema,
                self._storage,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
                ordered=ordered,
            )

    def _card(self) -> Card:
        return self._shown

    def __repr__(self) -> str:
        return f"<appended rows of {self._changes!r}>"


def _snapshot_id(metadata: TableMetadata, end: int | Timestamp | None) -> int | None:
    """The snapshot at an end of a range, given by its id, a branch or tag, or a timestamp."""
    if isinstance(end, str) and end in metadata.refs:
        return metadata.refs[end].snapshot_id
    if isinstance(end, str | datetime | date):
        return metadata.snapshot_as_of(timestamp_millis(end, metadata)).snapshot_id
    if end is not None:
        check_snapshot_id(end)
    return end
