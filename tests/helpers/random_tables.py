"""Random tables of several specs with deletes of all kinds, whose rows are known; and a planner that takes its time."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.expressions.row_evaluation import compile_row_filter, compile_tuple_filter
from floe.spec.manifests.delete_scope import deletes_for, partition_key
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec, partition_value_fn
from floe.spec.partitioning.transforms import DAY, IDENTITY, VOID, Bucket, Truncate
from floe.spec.pruning.projection import inclusive_projection, partition_schema
from helpers import scalar_pruning
from helpers.filter_strategies import SCHEMA, exact_metrics, pool, safe_rows, value_in
from helpers.planned_tables import TableMaker
from helpers.residuals import compile_residual

INT, DOUBLE, DECIMAL, TIME, TEXT, NEEDED = IDS = [2, 5, 6, 11, 15, 50]

SPECS = (
    UNPARTITIONED,
    PartitionSpec((PartitionField((TEXT,), 1000, "c15", IDENTITY), PartitionField((INT,), 1001, "b", Bucket(4))), 1),
    PartitionSpec((PartitionField((TIME,), 1002, "day", DAY),), 2),
    PartitionSpec(
        (PartitionField((DOUBLE,), 1003, "c5", IDENTITY), PartitionField((DECIMAL,), 1004, "c6", IDENTITY)), 3
    ),
    PartitionSpec((PartitionField((INT,), 1005, "c2_null", VOID),), 4),
    PartitionSpec(
        (PartitionField((TEXT,), 1006, "t", Truncate(2)), PartitionField((INT,), 1007, "n", Truncate(10))), 5
    ),
)
EVERYWHERE = {spec.spec_id for spec in SPECS if spec.is_unpartitioned}
_TUPLES = {spec.spec_id: partition_value_fn(spec, SCHEMA) for spec in SPECS}


@dataclass
class RandomTable:
    """A table, and the rows of its files by path."""

    maker: TableMaker
    data: list[ManifestEntry]
    deletes: list[ManifestEntry]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class _Maker:
    """Makes one table; what it chooses depends on the seed alone.

    All rows come from a few, so that files share partitions and values, and filters and deletes hit and miss.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.table = RandomTable(TableMaker(SCHEMA, SPECS, format_version=3), [], [])
        self.specs = self.rng.sample(SPECS, 2)
        wide = [self.row() for _ in range(3)]
        self.pool = [*wide, *({**self.rng.choice(wide), **self.some_of(self.row())} for _ in range(3))]

    def row(self) -> dict[str, Any]:
        row = {}
        for i in IDS:
            entry = SCHEMA.entry(i)
            values = [v for v in pool(entry.field.type) if safe_rows([{entry.field.name: v}], [i])]
            row[entry.field.name] = self.rng.choice(values if i == NEEDED else [*values, None])
        return row

    def some_of(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in self.rng.sample(list(row), 2)}

    def metrics(self, found: list[dict[str, Any]]) -> dict[str, Any]:
        """Right metrics, with things left out."""
        metrics = exact_metrics(found, IDS)
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            for i in IDS:
                if self.rng.random() < 0.05:
                    getattr(metrics, name).pop(i, None)
            if self.rng.random() < 0.02:
                setattr(metrics, name, None)
        return {name: value for name, value in vars(metrics).items() if name != "record_count"}

    def file(self, content: FileContent) -> DataFile:
        """A file of rows that all lie in one partition."""
        spec = self.rng.choice(self.specs)
        found = self.rng.choices(self.pool, k=self.rng.randint(1, 3))
        partition = _TUPLES[spec.spec_id](found[0])
        key = partition_key(0, partition)
        found = [row for row in found if partition_key(0, _TUPLES[spec.spec_id](row)) == key]
        path = f"{content.name.lower()}-{len(self.table.rows)}"
        self.table.rows[path] = found
        return DataFile(
            content, path, "parquet", partition, len(found), 100, spec_id=spec.spec_id, **self.metrics(found)
        )

    def delete(self) -> DataFile:
        kind = self.rng.choice(["equality", "global", "partition", "file", "bounds", "vector"])
        if kind in ("equality", "global"):
            file = self.file(FileContent.EQUALITY_DELETES)
            file = replace(file, equality_ids=tuple(self.rng.sample(IDS, self.rng.choice([1, 1, 2]))))
            return replace(file, spec_id=0, partition=()) if kind == "global" else file
        target = self.rng.choice(self.table.data).data_file
        path = f"{kind}-{len(self.table.rows)}"
        self.table.rows[path] = []
        positions = DataFile(
            FileContent.POSITION_DELETES, path, "parquet", target.partition, 1, 50, spec_id=target.spec_id
        )
        if kind == "file":
            return replace(positions, referenced_data_file=target.file_path)
        if kind == "bounds":
            bounds = {2147483546: target.file_path.encode()}
            return replace(positions, lower_bounds=bounds, upper_bounds=bounds)
        if kind == "vector":
            return replace(
                positions,
                file_format="puffin",
                referenced_data_file=target.file_path,
                content_offset=4,
                content_size_in_bytes=40,
            )
        return positions

    def entry(self, file: DataFile, numbers: tuple[int, int]) -> ManifestEntry:
        status = self.rng.choices(list(EntryStatus), [5, 3, 1])[0]
        number = self.rng.randint(*numbers)
        return ManifestEntry(status, 1, number, None if status is EntryStatus.ADDED else number, file)

    def make(self) -> RandomTable:
        table, rng = self.table, self.rng
        table.data.extend(self.entry(self.file(FileContent.DATA), (1, 3)) for _ in range(rng.randint(1, 10)))
        numbers = {entry.data_file.file_path: entry.sequence_number or 0 for entry in table.data}
        vectors: set[str | None] = set()
        for _ in range(rng.randint(0, 8)):
            entry = self.entry(self.delete(), (1, 4))
            target = entry.data_file.referenced_data_file
            if entry.data_file.is_deletion_vector:
                if target in vectors or (entry.sequence_number or 0) < numbers[target or ""]:
                    continue  # no table has that
                vectors.add(target)
            table.deletes.append(entry)
        manifests = []
        for entries in (table.data, table.deletes):
            for spec_id in sorted({entry.data_file.spec_id for entry in entries}):
                own = [entry for entry in entries if entry.data_file.spec_id == spec_id]
                cut = rng.randint(0, len(own))
                manifests += [
                    table.maker.manifest(part, snapshot=1, number=5, spec_id=spec_id)
                    for part in (own[:cut], own[cut:])
                    if part
                ]
        table.maker.snapshot(1, manifests)
        return table


def random_table(seed: int) -> RandomTable:
    """A table with a snapshot of a few manifests."""
    return _Maker(seed).make()


# the planner that takes its time --------------------------------------------------------------------------------------


@dataclass
class NaivePlan:
    """What the rules one by one give for a file."""

    file: DataFile
    residual: Expression
    deletes: list[DataFile]
    equality: list[DataFile]
    """Equality deletes of that partition and age; whether they reach the file is another question."""


def naive_plan(table: RandomTable, bound: Expression) -> dict[str, NaivePlan]:
    """The plan by the scalar rules, one file after another."""
    found = {}
    live = [entry for entry in table.deletes if entry.is_live]
    might = scalar_pruning.compile_might_match(bound)
    for entry in table.data:
        file = entry.data_file
        spec = SPECS[file.spec_id]
        in_partition = compile_tuple_filter(inclusive_projection(bound, spec, SCHEMA), partition_schema(spec, SCHEMA))
        if not entry.is_live or not in_partition(file.partition) or (bound != TRUE and not might(file)):
            continue
        residual = compile_residual(bound, spec, SCHEMA)(file.partition)
        deletes = [delete.data_file for delete in deletes_for(entry, live, EVERYWHERE)]
        found[file.file_path] = NaivePlan(
            file,
            residual,
            [delete for delete in deletes if not delete.is_equality_delete_file],
            [delete for delete in deletes if delete.is_equality_delete_file],
        )
    return found


def deletes_a_row(table: RandomTable, delete: DataFile, file: DataFile, bound: Expression) -> bool:
    """Whether an equality delete deletes a row of a file that passes the filter."""
    passes = compile_row_filter(bound)
    ids = delete.equality_ids or ()

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        values = (value_in(row, i) for i in ids)
        return tuple("NaN" if value != value else value for value in values)

    gone = {key(row) for row in table.rows[delete.file_path]}
    return any(key(row) in gone for row in table.rows[file.file_path] if passes(row))
