"""The scans inside a rewritten plan: files for Spark's reader, files for the Arrow reader, and equality delete files.

For both readers there are functions that make the input partitions and the reader factory.

Equality delete files that compare the same columns are joined with together (spec: Scan Planning, Equality Delete
Files): global deletes, and deletes of one partition. A row is deleted if it equals a row of the delete files and its
data sequence number is strictly less than theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.reading.deletes import KeyColumns, key_columns
from floe.plan.delete_files import DeleteKind
from floe.plan.tasks import SplitSettings, pack_tasks
from floe.spark.bridge.interfaces.read import Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.parquet_readers import partitioned_files
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import Call, Column, Node, paths_in
from floe.spark.read.native import BITS, NativeColumns, reader_factory
from floe.spark.read.position_deletes import bit_sets
from floe.spark.read.source import PlannedFiles, Pushed, Source
from floe.spark.read.splits import file_parts
from floe.spark.read.worker import ReadTasks, pickled_tasks, python_partitions, python_reader_factory
from floe.spark.schemas import spark_schema
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field
from floe.storage.protocol import Storage

if TYPE_CHECKING:
    from floe.spark.read.scan import TableScan


# The two readers: which partitions each gets, and what makes it in executors.

_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"


def native_partitions(
    jvm: Jvm,
    files: pa.Table,
    storage: Storage,
    columns: NativeColumns,
    splits: SplitSettings,
    bits: Mapping[str, bytes] | None = None,
) -> Any:
    """Files in parts for Spark's reader, packed into partitions, the largest first."""
    if not len(files):
        return jvm.array(_INPUT, [])
    parts = file_parts(files, storage, columns.constants, splits.target_size, bits)
    return partitioned_files(jvm, parts.largest_first(), columns.kinds, splits.target_size, splits.open_file_cost)


def native_factory(jvm: Jvm, columns: NativeColumns, pushed: Pushed) -> Any:
    """What makes Spark's readers; predicates on columns that have their names in all files leave out row groups.

    But not those that NaN may pass: it is above all numbers to Spark, and not in the bounds that row groups have.
    """
    own = {field.name: field.type.kind for field in columns.data if field.id in columns.own_names}
    chosen = []
    for place in pushed.places:
        paths = list(paths_in(pushed.trees[place]))
        if paths and all(len(path) == 1 and path[0] in own for path in paths):
            floating = any(own[path[0]] in ("float", "double") for path in paths)
            if not floating or _is_below(pushed.trees[place]):
                chosen.append(place)
    return reader_factory(jvm, columns, pushed.array, chosen)


def _is_below(tree: Node) -> bool:
    """Whether a predicate says that a column is below some value."""
    match tree:
        case Call("<" | "<=", (Column(), _)):
            return True
    return False


def columnar_mode(jvm: Jvm, factory: Any) -> Any:
    """Whether the rows of a reader come in columns."""
    mode = "SUPPORTED" if factory.supportColumnarReads(None) else "UNSUPPORTED"
    return jvm.constant("org.apache.spark.sql.connector.read.Scan$ColumnarSupportMode", mode)


def arrow_partitions(jvm: Jvm, files: PlannedFiles, splits: SplitSettings) -> Any:
    """Files in parts for the Arrow reader, packed into partitions."""
    return python_partitions(jvm, map(pickled_tasks, pack_tasks(files.tasks(), splits)))


def arrow_factory(jvm: Jvm, source: Source, columns: Schema) -> Any:
    """What has workers read with the Arrow reader."""
    read = ReadTasks(source.shipped_metadata, source.storage, columns)
    return python_reader_factory(jvm, read, spark_schema(columns.fields))


# The equality deletes of a read, as files of rows to be joined with (spec: Scan Planning, Equality Delete Files).


@dataclass(frozen=True, eq=False)
class DeletedKeys:
    """Delete files that compare the same columns, and reach equally far."""

    columns: KeyColumns
    everywhere: bool
    """Whether they reach the whole table, and not only their partitions."""

    table: pa.Table
    """The files, with the columns that readers of files ask for."""

    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """How many rows the files have."""
        return sum(max(0, file.record_count) for file in self.files)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Where the files are."""
        return tuple(file.file_path for file in self.files)

    def may_be_null(self, entry: SchemaField) -> bool:
        """Whether a key may have null in a column, by the counts of the files."""
        return bool(entry.ancestors) or not all(_has_no_null(file, entry.field.id) for file in self.files)

    def in_parquet(self, yes: bool) -> DeletedKeys:
        """Those of the files that are in Parquet, or the others."""
        chosen = [(file.file_format == "parquet") == yes for file in self.files]
        files = tuple(file for file, one in zip(self.files, chosen, strict=True) if one)
        return DeletedKeys(self.columns, self.everywhere, self.table.filter(pa.array(chosen, pa.bool_())), files)

    def __str__(self) -> str:
        return f"({', '.join(entry.name for entry in self.columns.entries)})"


class Scopes:
    """The numbers of the partitions of some files, as one plan has them: another plan may have others."""

    def __init__(self, files: PlannedFiles) -> None:
        self._paths = files.table["file_path"].combine_chunks()
        self._numbers = pa.array(files.partition_numbers, pa.int32())

    def added_to(self, table: pa.Table) -> pa.Table:
        """The same files with a column for the numbers."""
        places = pc.index_in(table["file_path"], value_set=self._paths)
        return table.append_column("scope", self._numbers.take(places.combine_chunks()))


def deleted_keys(files: PlannedFiles) -> list[DeletedKeys]:
    """The equality deletes of some files."""
    index = files.plan.deletes
    numbers = files.equality_deletes
    if index is None or not numbers.size:
        return []
    table = files.plan.deletes_to_arrow().take(pa.array(numbers))
    table = table.append_column("scope", pa.array(index.deletes.partition[numbers], pa.int32()))
    table = table.append_column("split_offsets", pa.nulls(len(numbers), pa.list_(pa.int64())))
    everywhere = (index.deletes.kind[numbers] == DeleteKind.GLOBAL_EQUALITY).tolist()
    groups: dict[tuple[tuple[int, ...], bool], list[int]] = defaultdict(list)
    for place, ids in enumerate(table["equality_ids"].to_pylist()):
        groups[tuple(sorted(set(ids or ()))), everywhere[place]].append(place)
    found = []
    for (ids, reach), places in sorted(groups.items()):
        objects = tuple(index.files(numbers[places].tolist()))
        columns = key_columns(files.plan.metadata, ids, objects[0].file_path)
        found.append(DeletedKeys(columns, reach, table.take(pa.array(places)), objects))
    return found


def compared_columns(keys: Iterable[DeletedKeys]) -> list[SchemaField]:
    """The columns that some deletes compare."""
    return [entry for one in keys for entry in one.columns.entries]


def _has_no_null(file: DataFile, field_id: int) -> bool:
    nulls, values = file.null_value_counts or {}, file.value_counts or {}
    return nulls.get(field_id) == 0 and values.get(field_id) == file.record_count


class Share:
    """Which files of a read are in a part: decided once, whatever filters come later."""

    def __init__(self, paths: frozenset[str], *, inside: bool = True) -> None:
        self.paths = paths
        self._inside = inside

    def key(self) -> Any:
        """What makes two shares the same."""
        return (self.paths, self._inside)

    def of(self, files: PlannedFiles) -> PlannedFiles:
        """Those of the files that are in the part."""
        return files.among(self.paths, inside=self._inside)


class ReadPart(SupportsReportStatistics, Batch):
    """Files that are read in one way."""

    def __init__(self, whole: TableScan, fields: tuple[Field, ...]) -> None:
        super().__init__(whole.jvm)
        self._whole, self._fields = whole, fields

    def readSchema(self) -> Any:
        """The columns that come."""
        return self.jvm.data_type(spark_schema(self._fields))

    def toBatch(self) -> Any:
        """The read itself."""
        return self

    def columnarSupportMode(self) -> Any:
        """Whether rows come in columns."""
        return self._columnar

    @cached_property
    def _columnar(self) -> Any:
        return columnar_mode(self.jvm, self._factory)

    def createReaderFactory(self) -> Any:
        """Who reads the parts."""
        return self._factory

    @cached_property
    def _factory(self) -> Any:
        raise NotImplementedError


class ScanPart(ReadPart, SupportsRuntimeV2Filtering, Rewritable):
    """Some files of a read; what the query finds out is told to the whole."""

    def __init__(self, whole: TableScan, share: Share, fields: tuple[Field, ...]) -> None:
        super().__init__(whole, fields)
        self._share = share

    def key(self) -> Any:
        """The same part of the same read is the same to Spark."""
        return (self._whole.key(), self._fields, self._share.key())

    @property
    def source(self) -> Source:
        """What is read."""
        return self._whole.source

    @property
    def looked_at(self) -> Expression:
        """The rows that are looked at, at most."""
        return self._whole.looked_at

    @property
    def _files(self) -> PlannedFiles:
        return self._share.of(self._whole.files)

    def estimateStatistics(self) -> Any:
        """Rows and bytes, before filters within files."""
        return self._whole.statistics(self._files, self._fields)

    def filterAttributes(self) -> Any:
        """The columns for which filters at run time are of use."""
        return self._whole.filterAttributes()

    def filter(self, predicates: Any) -> None:
        """Plan again with what the query has found out."""
        self._whole.filter(predicates)


class NativePart(ScanPart):
    """Files that Spark's reader reads, with the columns of which deletes and metadata columns are made above it."""

    def __init__(
        self, whole: TableScan, share: Share, columns: NativeColumns, *, scopes: Scopes | None = None, joined: str = ""
    ) -> None:
        super().__init__(whole, share, columns.fields)
        self._columns, self._scopes, self._joined = columns, scopes, joined
        self._bits: dict[str, bytes] = {}

    def description(self) -> str:
        """The table, its state, the files, and how deletes are applied, in words."""
        files = self._files
        deletes = int(files.with_positions.sum()) if BITS in self._columns.constants else 0
        how = [f"files with deleted rows: {deletes}, tested in generated code"] if deletes else []
        if self._joined:
            how.append(f"joined with {self._joined}")
        return self._whole.described(len(files), "read by Spark's Parquet reader", *how)

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions; each file takes along which of its rows are deleted."""
        files, source = self._files, self._whole.source
        self._whole.began(self, files)
        bits = self._deleted(files) if BITS in self._columns.constants else None
        table = files.table if self._scopes is None else self._scopes.added_to(files.table)
        return native_partitions(self.jvm, table, source.storage, self._columns, self._whole.splits, bits)

    def _deleted(self, files: PlannedFiles) -> dict[str, bytes]:
        """The deleted rows; filters at run time only leave out files, so what has been read is kept."""
        if not self._bits:
            source = self._whole.source
            self._bits = dict(bit_sets(files, source.table.metadata, source.storage))
        return self._bits

    @cached_property
    def _factory(self) -> Any:
        return native_factory(self.jvm, self._columns, self._whole.pushed)


class ArrowPart(ScanPart):
    """The other files, which the Arrow reader reads in workers, with their deletes."""

    def __init__(self, whole: TableScan, share: Share, why: str) -> None:
        super().__init__(whole, share, whole.columns.fields)
        self._why = why

    def description(self) -> str:
        """The table, its state, the files, and why they are read in this way, in words."""
        return self._whole.described(len(self._files), f"read by Arrow reader, for {self._why}")

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions."""
        files = self._files
        self._whole.began(self, files)
        return arrow_partitions(self.jvm, files, self._whole.splits)

    @cached_property
    def _factory(self) -> Any:
        return arrow_factory(self.jvm, self._whole.source, Schema(self._fields))
