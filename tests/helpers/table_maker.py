"""Making a table step by step, with rows in real files, while a plain model keeps what it must hold.

The rows that are expected are lists of dictionaries that the steps change by hand, not what a scan gives. Only which
rows a data file holds is read from that file (`Maker.holds`), where a step replaces or removes files by name. A
snapshot is expected to give the rows of its time in the columns of its time; the table and its branches give theirs in
the newest columns.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floe import Lake, Table
from floe.arrow.writer import write_rows
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.columns.transforms import transform_array
from floe.formats.writers.write_target import WriteTarget
from floe.spec import values
from floe.spec.codecs import single_value
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS, position_delete_schema
from floe.spec.schemas.schema import Schema
from helpers.table_rows import Row, Rows, read_file, read_rows

COLUMNS = (
    "id bigint not null, part string, day date, amount decimal(9, 2), price double, at timestamptz, ok boolean, "
    "n int, code binary"
)
PARTS = ("a", "b", None, "ü/c d")
_EPOCH = dt.datetime(1969, 12, 30, 22, 30, tzinfo=dt.UTC)


def new_rows(first: int, count: int, **fixed: Any) -> Rows:
    """Rows with ids from a number on; some values are null."""
    return [
        {
            "id": n,
            "part": PARTS[n % len(PARTS)],
            "day": dt.date(1969, 12, 30) + dt.timedelta(days=n),
            "amount": None if n % 7 == 3 else Decimal(n * 325 - 1000).scaleb(-2),
            # never zero: a bound of 0.0 is written as -0.0, which is less than 0.0 to Java's planner, but not to SQL
            "price": None if n % 5 == 4 else n * 0.25 - 2.125,
            "at": None if n % 11 == 10 else _EPOCH + dt.timedelta(hours=7 * n, microseconds=n),
            "ok": None if n % 3 == 2 else n % 2 == 0,
            "n": -n,
            "code": bytes([n % 256, 255]) if n % 4 else None,
            **fixed,
        }
        for n in range(first, first + count)
    ]


@dataclass
class Made:
    """A table that was made, and what it must hold."""

    operation: str
    version: int
    table: Table
    rows: dict[int, Rows] = field(default_factory=dict)
    """By snapshot, in the columns of its time."""

    branches: dict[str, Rows] = field(default_factory=dict)
    """By branch, in the newest columns; also of a table without a snapshot."""

    @property
    def current(self) -> Rows:
        """The rows of the table as it is."""
        return self.branches.get("main", [])

    def __str__(self) -> str:
        return self.table.name


class Maker:
    """Makes a table step by step; `rows` are those that the main branch has now."""

    def __init__(self, lake: Lake, made: Made) -> None:
        self.lake, self.made, self.table = lake, made, made.table
        self.version = made.version
        self.rows: Rows = []

    def saw(self, snapshot: Snapshot | None, rows: Rows | None = None, branch: str = "main") -> Snapshot:
        """Notes that a snapshot was made, with the rows that its branch has after it."""
        assert snapshot is not None
        if branch == "main" and rows is not None:
            self.rows = rows
        shown = self.rows if rows is None else rows
        self.made.rows[snapshot.snapshot_id] = [dict(row) for row in shown]
        self.made.branches[branch] = [dict(row) for row in shown]
        return snapshot

    def see_columns(self) -> None:
        """Notes that the columns changed: `rows` are in the new ones already."""
        for branch in list(self.made.branches):
            if branch == "main":
                self.made.branches[branch] = [dict(row) for row in self.rows]

    def back_to(self, snapshot: Snapshot, branch: str = "main") -> None:
        """Notes that a branch is at an older snapshot again."""
        rows = self.made.rows[snapshot.snapshot_id]
        self.made.branches[branch] = [dict(row) for row in rows]
        if branch == "main":
            self.rows = [dict(row) for row in rows]

    # steps that many operations need -----------------------------------------------------------------------------

    def write(self, rows: Rows) -> list[DataFile]:
        """Data files with some rows, which are not in the table yet."""
        target = WriteTarget.of(self.table.metadata, self.table.storage)
        return write_rows(target, [pa.Table.from_pylist(rows, schema=arrow_schema(self.table.schema))])

    def append(self, first: int, count: int, *, fast: bool = False, **fixed: Any) -> Snapshot:
        """Adds rows with ids from a number on."""
        rows = new_rows(first, count, **fixed)
        names = [column.name for column in self.table.schema]
        rows = [{name: row.get(name) for name in names} for row in rows]
        return self.saw(self.table.append_files(self.write(rows), fast=fast), self.rows + rows)

    def files(self, where: str | None = None) -> list[DataFile]:
        """The data files that a filter may need."""
        return [task.file for task in self.table.scan(where=where).plan().tasks()]

    def holds(self, file: DataFile) -> Rows:
        """The rows of a data file, deleted ones too."""
        return read_file(self.table.storage, file.file_path, self.table.schema).to_pylist()

    def delete_positions(self, ids: set[int], data: Rows | None = None, *, together: bool = False) -> Snapshot:
        """Deletes the rows of these ids by position delete files, and adds others.

        A delete file is for one data file, or `together` for all that a partition has.
        """
        found: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
        for file in self.files():
            for position, row in enumerate(self.holds(file)):
                if row["id"] in ids:
                    key = (file.spec_id, file.partition, None if together else file.file_path)
                    found.setdefault(key, []).append((file.file_path, position))
        files = [write_position_deletes(self.table, *key[:2], sorted(places)) for key, places in found.items()]
        assert together == any(file.referenced_data_file is None for file in files)
        referenced = {path for places in found.values() for path, _ in places} if together else ()
        snapshot = self.table.row_delta(self.write(data) if data else (), files, referenced=referenced)
        return self.saw(snapshot, self.without(ids) + (data or []))

    def delete_by_vectors(self, where: str) -> Snapshot | None:
        """Deletes rows by deletion vectors; the table has format version 3."""
        assert self.table.format_version == 3
        return self.table.delete(where, options={"write.delete.mode": "merge-on-read"}).snapshot

    def position_deletes_of(self, file: DataFile, positions: list[int]) -> DataFile:
        """A position delete file for some rows of a data file."""
        places = [(file.file_path, position) for position in positions]
        return write_position_deletes(self.table, file.spec_id, file.partition, places)

    def equality_deletes(self, rows: Rows, *names: str) -> list[DataFile]:
        """An equality delete file by some columns, for each partition that the rows are in."""
        return write_equality_deletes(self.table, rows, names)

    def without(self, ids: Iterable[int]) -> Rows:
        """The rows without those of some ids."""
        gone = set(ids)
        return [row for row in self.rows if row["id"] not in gone]


def write_position_deletes(
    table: Table, spec_id: int, partition: tuple[Any, ...], places: list[tuple[str, int]]
) -> DataFile:
    """A position delete file of format version 2."""
    paths, positions = (list(column) for column in zip(*places, strict=True))
    path = _write(table, pa.table([paths, positions], schema=arrow_schema(position_delete_schema())))
    ids = (DELETE_FILE_PATH.id, DELETE_POS.id)
    low, high = (
        {
            ids[0]: single_value.encode(DELETE_FILE_PATH.type, best(paths)),
            ids[1]: single_value.encode(DELETE_POS.type, best(positions)),
        }
        for best in (min, max)
    )
    return DataFile(
        FileContent.POSITION_DELETES,
        path,
        "parquet",
        partition,
        len(places),
        table.storage.stat(path).size,
        value_counts=dict.fromkeys(ids, len(places)),
        null_value_counts=dict.fromkeys(ids, 0),
        lower_bounds=low,
        upper_bounds=high,
        referenced_data_file=paths[0] if len(set(paths)) == 1 else None,
        spec_id=spec_id,
    )


def write_equality_deletes(table: Table, rows: Rows, names: tuple[str, ...]) -> list[DataFile]:
    """Equality delete files by some columns, one for each partition that the rows are in."""
    whole = pa.Table.from_pylist(rows, schema=arrow_schema(table.schema))
    made = []
    for partition, part in _split(whole, table.schema, table.spec):
        kept = part.select(names)
        path = _write(table, kept)
        ids = tuple(table.schema.field(name).id for name in names)
        metrics = {
            kind: {id_: value for id_, value in values.items() if id_ in ids}
            for kind, values in _metrics(part, table.schema).items()
        }
        made.append(
            DataFile(
                FileContent.EQUALITY_DELETES,
                path,
                "parquet",
                partition,
                kept.num_rows,
                table.storage.stat(path).size,
                **metrics,
                equality_ids=ids,
                sort_order_id=0,
                spec_id=table.spec.spec_id,
            )
        )
    return made


def _write(table: Table, rows: pa.Table) -> str:
    path = f"{table.location}/data/{uuid.uuid4()}-deletes.parquet"
    with table.storage.open_write(path) as sink:
        pq.write_table(rows, sink)
    return path


def _split(rows: pa.Table, schema: Schema, spec: PartitionSpec) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, with its partition tuple."""
    if not spec.fields:
        yield (), rows
        return
    sources = [schema.entry(field.source_id).field for field in spec.fields]
    keys = [
        transform_array(field.transform, source.type, rows[source.name])
        for field, source in zip(spec.fields, sources, strict=True)
    ]
    names = [f"key{n}" for n in range(len(keys))]
    keyed = pa.table([*keys, pa.array(range(rows.num_rows))], [*names, "row"])
    types = [field.type for field in spec.partition_type(schema)]
    for group in keyed.group_by(names).aggregate([("row", "list")]).to_pylist():
        partition = tuple(values.convert(t, group[name]) for t, name in zip(types, names, strict=True))
        yield partition, rows.take(group["row_list"])


def _metrics(rows: pa.Table, schema: Schema) -> dict[str, Any]:
    """Counts and bounds of each column."""
    lower, upper, counts, nulls = {}, {}, {}, {}
    for each in schema:
        column = rows[each.name]
        counts[each.id], nulls[each.id] = len(column), column.null_count
        low, high = pc.min_max(column).as_py().values()
        if low is not None:
            lower[each.id] = single_value.encode(each.type, values.convert(each.type, low))
            upper[each.id] = single_value.encode(each.type, values.convert(each.type, high))
    return {"value_counts": counts, "null_value_counts": nulls, "lower_bounds": lower, "upper_bounds": upper}


def checked(made: Made) -> None:
    """What Floe itself plans gives the rows of the model, for every snapshot and branch."""
    for snapshot in made.table.snapshots:
        expect = made.rows[snapshot.snapshot_id]
        assert read_rows(made.table, made.table.scan(snapshot=snapshot.snapshot_id)) == plain(expect), snapshot
    for branch, rows in made.branches.items():
        assert read_rows(made.table, made.table.scan(ref=branch)) == plain(rows), branch


def plain(rows: Rows) -> list[Row]:
    """Rows in an order that only depends on them, to be compared."""
    return sorted(({name: row[name] for name in sorted(row)} for row in rows), key=repr)
