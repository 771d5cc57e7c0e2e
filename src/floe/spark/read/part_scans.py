"""The scans inside the plan that replaces a table scan (`floe.spark.read.rewrite`).

A `TableScan` that Spark's reader cannot read alone is divided. `NativeScan` reads data files with Spark's Parquet
reader, `ArrowScan` reads data files with the Arrow reader in Python workers, and an `EqualityDeletesScan` reads delete
files for an anti-join. They share the plan and the runtime filters of the `TableScan`. The functions that create input
partitions and reader factories for both readers serve the undivided scan too.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from floe.arrow.read.deletes import EqualityDeletes, KeyColumns
from floe.arrow.read.extra_columns import with_columns
from floe.formats.registry import default_registry
from floe.plan.tasks import SplitSettings, pack_bins, pack_tasks
from floe.spark.bridge.interfaces.read import Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.parquet_readers import file_partitions
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import Call, Column, Node, paths_in
from floe.spark.read.arrow_reader import (
    ReadTasks,
    pickle_tasks,
    python_partitions,
    python_reader_factory,
    to_spark_batch,
    unpickle_tasks,
)
from floe.spark.read.deletes import EqualityDeleteGroup, PartitionScopes, deletion_bitmaps
from floe.spark.read.native_reader import (
    DELETED_ROWS,
    SCOPE,
    SEQUENCE_NUMBER,
    NativeColumns,
    native_columns,
    reader_factory,
    split_files,
)
from floe.spark.read.scan_source import NO_PREDICATES, PlannedFiles, PushedPredicates, ScanSource
from floe.spark.read.statistics import TableStatistics, estimated_width
from floe.spark.schemas import spark_schema
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.storage.protocol import Storage

if TYPE_CHECKING:
    from floe.spark.read.scan import TableScan


_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"

# Input partitions and reader factories --------------------------------------------------------------------------------


def native_partitions(
    jvm: Jvm,
    files: pa.Table,
    storage: Storage,
    columns: NativeColumns,
    splits: SplitSettings,
    bitmaps: Mapping[str, bytes] | None = None,
) -> Any:
    """The splits of files for Spark's Parquet reader, packed into partitions, the largest first.

    `bitmaps` are the deleted rows of files, by path.
    """
    if not len(files):
        return jvm.array(_INPUT, [])
    file_splits = split_files(files, storage, columns.constants, splits.target_size, bitmaps)
    types, size = columns.constant_types, splits.target_size
    return file_partitions(jvm, file_splits.largest_first(), types, size, splits.open_file_cost)


def native_factory(jvm: Jvm, columns: NativeColumns, pushed: PushedPredicates) -> Any:
    """The factory of Spark's Parquet readers, with the predicates by which they may prune row groups.

    These are predicates on columns that have the same name in all files. Predicates on floats that NaN may match are
    left out: Spark sorts NaN above all numbers, but the bounds of row groups do not include it.
    """
    kinds = {field.name: field.type.kind for field in columns.data if field.id in columns.unique_names}
    chosen = []
    for index in pushed.pruning:
        paths = list(paths_in(pushed.trees[index]))
        if paths and all(len(path) == 1 and path[0] in kinds for path in paths):
            is_floating = any(kinds[path[0]] in ("float", "double") for path in paths)
            if not is_floating or _is_upper_bound(pushed.trees[index]):
                chosen.append(index)
    return reader_factory(jvm, columns, pushed.array, chosen)


def _is_upper_bound(tree: Node) -> bool:
    """Whether a predicate is an upper bound of a column, which NaN never matches."""
    match tree:
        case Call("<" | "<=", (Column(), _)):
            return True
    return False


def columnar_mode(jvm: Jvm, factory: Any) -> Any:
    """Spark's `ColumnarSupportMode` for the readers of a factory."""
    mode = "SUPPORTED" if factory.supportColumnarReads(None) else "UNSUPPORTED"
    return jvm.constant("org.apache.spark.sql.connector.read.Scan$ColumnarSupportMode", mode)


def arrow_partitions(jvm: Jvm, files: PlannedFiles, splits: SplitSettings) -> Any:
    """The tasks of files for the Arrow reader, packed into partitions."""
    return python_partitions(jvm, map(pickle_tasks, pack_tasks(files.tasks(), splits)))


def arrow_factory(jvm: Jvm, source: ScanSource, columns: Schema) -> Any:
    """The factory of readers that run the Arrow reader in Python workers."""
    read = ReadTasks(source.executor_metadata, source.storage, columns)
    return python_reader_factory(jvm, read, spark_schema(columns.fields))


# Scans of data files --------------------------------------------------------------------------------------------------


class FileShare:
    """The files of a table scan that belong to one part of it.

    Files are assigned by path when the scan is divided, so runtime filters that come later do not move them.
    """

    def __init__(self, paths: frozenset[str], *, inside: bool = True) -> None:
        self.paths = paths
        self._inside = inside

    def key(self) -> Any:
        """Equal for two shares with the same files."""
        return (self.paths, self._inside)

    def select(self, files: PlannedFiles) -> PlannedFiles:
        """The files that are in the share."""
        return files.select_paths(self.paths, inside=self._inside)


class PartScan(SupportsReportStatistics, Batch):
    """A part of a table scan, whose files are all read by the same reader."""

    def __init__(self, scan: TableScan, fields: tuple[Field, ...]) -> None:
        super().__init__(scan.jvm)
        self._scan, self._fields = scan, fields

    def readSchema(self) -> Any:
        """The schema of the rows that the reader returns."""
        return self.jvm.data_type(spark_schema(self._fields))

    def toBatch(self) -> Any:
        """The scan itself, as a batch read."""
        return self

    def columnarSupportMode(self) -> Any:
        """Whether the reader returns columnar batches."""
        return self._columnar

    @cached_property
    def _columnar(self) -> Any:
        return columnar_mode(self.jvm, self._factory)

    def createReaderFactory(self) -> Any:
        """The factory of the readers of partitions, which Spark sends to the executors."""
        return self._factory

    @cached_property
    def _factory(self) -> Any:
        raise NotImplementedError


class DataFilesScan(PartScan, SupportsRuntimeV2Filtering, Rewritable):
    """A scan of some data files of a table scan, which plans for all its parts and takes their runtime filters."""

    def __init__(self, scan: TableScan, share: FileShare, fields: tuple[Field, ...]) -> None:
        super().__init__(scan, fields)
        self._share = share

    def key(self) -> Any:
        """Equal for two scans that read the same rows, so that Spark can reuse the result of one."""
        return (self._scan.key(), self._fields, self._share.key())

    @property
    def source(self) -> ScanSource:
        """The table and snapshot that are read."""
        return self._scan.source

    @property
    def pushed_filter(self) -> Expression:
        """The filter of the predicates that Spark pushed down."""
        return self._scan.pushed_filter

    @property
    def _files(self) -> PlannedFiles:
        return self._share.select(self._scan.files)

    def estimateStatistics(self) -> Any:
        """Rows and bytes for Spark's optimizer; the filter on the rows of a file is not applied."""
        return self._scan.statistics(self._files, self._fields)

    def filterAttributes(self) -> Any:
        """The columns for which Spark may give runtime filters."""
        return self._scan.filterAttributes()

    def filter(self, predicates: Any) -> None:
        """Take runtime filters, for all parts of the table scan."""
        self._scan.filter(predicates)


class NativeScan(DataFilesScan):
    """A scan by Spark's Parquet reader.

    It also returns the columns from which the plan above it computes deletes and metadata columns.
    """

    def __init__(
        self,
        scan: TableScan,
        share: FileShare,
        columns: NativeColumns,
        *,
        scopes: PartitionScopes | None = None,
        joined: str = "",
    ) -> None:
        super().__init__(scan, share, columns.fields)
        self._columns, self._scopes, self._joined = columns, scopes, joined
        self._bitmaps: dict[str, bytes] = {}

    def description(self) -> str:
        """The text of the scan in EXPLAIN, with how deletes are applied."""
        files = self._files
        deletes = int(files.has_position_deletes.sum()) if DELETED_ROWS in self._columns.constants else 0
        how = [f"files with deleted rows: {deletes}, tested in generated code"] if deletes else []
        if self._joined:
            how.append(f"joined with {self._joined}")
        return self._scan.describe(len(files), "read by Spark's Parquet reader", *how)

    def planInputPartitions(self) -> Any:
        """The splits of the files, each with the bitmap of its deleted rows, packed into partitions."""
        files, source = self._files, self._scan.source
        self._scan.record_read(self, files)
        bitmaps = self._deletion_bitmaps(files) if DELETED_ROWS in self._columns.constants else None
        table = files.table if self._scopes is None else self._scopes.add_column(files.table)
        return native_partitions(self.jvm, table, source.storage, self._columns, self._scan.splits, bitmaps)

    def _deletion_bitmaps(self, files: PlannedFiles) -> dict[str, bytes]:
        # loaded once: runtime filters only remove files
        if not self._bitmaps:
            source = self._scan.source
            self._bitmaps = dict(deletion_bitmaps(files, source.table.metadata, source.storage))
        return self._bitmaps

    @cached_property
    def _factory(self) -> Any:
        return native_factory(self.jvm, self._columns, self._scan.pushed)


class ArrowScan(DataFilesScan):
    """A scan by the Arrow reader in Python workers, which applies all deletes itself."""

    def __init__(self, scan: TableScan, share: FileShare, reason: str) -> None:
        super().__init__(scan, share, scan.columns.fields)
        self._reason = reason

    def description(self) -> str:
        """The text of the scan in EXPLAIN, with the reason why Spark's reader cannot read the files."""
        return self._scan.describe(len(self._files), f"read by Arrow reader, for {self._reason}")

    def planInputPartitions(self) -> Any:
        """The tasks of the files, packed into partitions."""
        files = self._files
        self._scan.record_read(self, files)
        return arrow_partitions(self.jvm, files, self._scan.splits)

    @cached_property
    def _factory(self) -> Any:
        return arrow_factory(self.jvm, self._scan.source, Schema(self._fields))


# Scans of equality delete files ---------------------------------------------------------------------------------------


class EqualityDeletesScan(PartScan):
    """A scan of equality delete files: the compared columns, the sequence number and the scope of each row."""

    reader: str
    """The reader, for EXPLAIN."""

    def __init__(self, scan: TableScan, group: EqualityDeleteGroup, fields: tuple[Field, ...]) -> None:
        super().__init__(scan, fields)
        self._group = group

    def key(self) -> Any:
        """Equal for two scans of the same delete files, if their partitions have the same numbers."""
        scopes = tuple(self._group.table["scope"].to_pylist())
        return (self._scan.source.key, self._fields, self._group.paths, self._group.is_global, scopes)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the rows that the reader returns."""
        return self._fields

    def description(self) -> str:
        """The text of the scan in EXPLAIN: table, compared columns, files, rows and scope."""
        group = self._group
        return "; ".join(
            [
                f"Floe table {self._scan.source.name}",
                f"equality deletes by {group}",
                f"files: {len(group.files)}",
                f"rows: {self._group.rows}",
                f"scope: older rows of {'all partitions' if group.is_global else 'the same partition'}",
                f"read by {self.reader}",
            ]
        )

    def estimateStatistics(self) -> Any:
        """Rows and bytes; Spark broadcasts delete files that are small."""
        size = self._group.rows * (8 + sum(estimated_width(field.type) for field in self._fields))
        return TableStatistics(self.jvm, self._group.rows, max(1, size))


class NativeEqualityDeletesScan(EqualityDeletesScan):
    """A scan of equality delete files in Parquet, by Spark's reader."""

    reader = "Spark's Parquet reader"

    def __init__(self, scan: TableScan, group: EqualityDeleteGroup) -> None:
        stored = with_columns(Schema(()), group.columns.entries)
        columns = native_columns(scan.source.table.metadata, Schema((*stored.fields, SEQUENCE_NUMBER, SCOPE)))
        # a file that lacks a column must fail: read as null, it would delete the rows that have null there
        self._columns: NativeColumns = replace(columns, requires_all_columns=True)
        super().__init__(scan, group, columns.fields)

    def planInputPartitions(self) -> Any:
        """The splits of the files, packed into partitions."""
        storage = self._scan.source.storage
        return native_partitions(self.jvm, self._group.table, storage, self._columns, self._scan.splits)

    @cached_property
    def _factory(self) -> Any:
        return native_factory(self.jvm, self._columns, NO_PREDICATES)


class ArrowEqualityDeletesScan(EqualityDeletesScan):
    """A scan of equality delete files in other formats, by the Arrow reader in Python workers."""

    reader = "Arrow reader"

    def __init__(self, scan: TableScan, group: EqualityDeleteGroup) -> None:
        flat = [replace(entry.field, name=f"floe-{entry.field.id}", required=False) for entry in group.columns.entries]
        super().__init__(scan, group, (*flat, SEQUENCE_NUMBER, SCOPE))

    def planInputPartitions(self) -> Any:
        """The files, packed into partitions."""
        splits = self._scan.splits
        sequence_numbers, scopes = (self._group.table[name].to_pylist() for name in ("sequence_number", "scope"))
        tasks = zip(self._group.files, sequence_numbers, scopes, strict=True)
        bins = pack_bins(tasks, lambda task: task[0].file_size_in_bytes, splits.target_size, splits.lookback)
        return python_partitions(self.jvm, map(pickle.dumps, bins))

    @cached_property
    def _factory(self) -> Any:
        source = self._scan.source
        read = ReadEqualityDeletes(source.executor_metadata, source.storage, self._group.columns, self._fields)
        return python_reader_factory(self.jvm, read, spark_schema(self._fields))


@dataclass(frozen=True)
class ReadEqualityDeletes:
    """Reads equality delete files in a Python worker: the compared columns, the sequence number and the scope."""

    metadata: TableMetadata
    storage: Storage
    columns: KeyColumns
    fields: tuple[Field, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that are pickled in the batches, one file after the other."""
        reader = EqualityDeletes(self.metadata, self.storage, default_registry(), budget=0)
        for file, sequence_number, scope in unpickle_tasks(batches):
            for batch in reader.keys(self.columns, file).to_batches():
                sequence_numbers = pa.repeat(pa.scalar(sequence_number, pa.int64()), len(batch))
                scopes = pa.repeat(pa.scalar(scope, pa.int32()), len(batch))
                arrays = [*batch.columns, sequence_numbers, scopes]
                names = [field.name for field in self.fields]
                yield to_spark_batch(pa.RecordBatch.from_arrays(arrays, names=names), self.fields)
