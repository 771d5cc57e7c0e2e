"""The plan of a scan (`ScanPlan`), its report (`ScanReport`), and its files as Arrow tables.

A plan has files in columns; task objects are created when they are read. The report says what was read and skipped, and
explains why a scan is fast or slow. Engines that work on columns take the files as Arrow tables:

| column | of data files | of deletes |
|---|---|---|
| `content` | | `position_deletes` or `equality_deletes` |
| `file_path`, `file_format`, `record_count`, `file_size_in_bytes` | as in the manifest | the same |
| `spec_id`, `partition` | the tuple as a struct of the fields of all specs | the same |
| `snapshot_id`, `sequence_number`, `file_sequence_number` | with what they inherit | the same |
| `first_row_id`, `sort_order_id`, `split_offsets` | as in the manifest | |
| `key_metadata` | as in the manifest | the same |
| `residual` | what is left of the filter, as SQL | |
| `deletes` | the rows of the other table that apply | |
| `equality_ids`, `referenced_data_file`, `content_offset`, `content_size_in_bytes` | | as in the manifest |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.formats.columns.arrow_types import arrow_type
from floe.plan.arrow_columns import column_to_array, text_array
from floe.plan.delete_index import DeleteIndex, LookupKeys
from floe.plan.file_selection import FileChunk
from floe.plan.metadata_tables.flat_maps import flat_lists
from floe.plan.tasks import FileTask, pack_tasks, split_settings
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import FileContent
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.schema import Schema
from floe.spec.types import BINARY, LONG, STRING, StructType

# Report -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """The counts of one plan; its text is a short table.

    >>> report = ScanReport(
    ...     data_manifests=5, data_manifests_read=2, files_read=90, files_in_partitions=30, files=12, planning_ms=7
    ... )
    >>> print(report)
    data manifests    5 in the snapshot, 3 skipped by partition, 2 read
    delete manifests  0 in the snapshot, 0 skipped by partition, 0 read
    data files        90 in the manifests read, 60 skipped by partition, 18 skipped by metrics, 12 to read
    delete files      0 that may apply
    planned in        7 ms
    """

    data_manifests: int = 0
    """The manifests of data files in the snapshot."""

    data_manifests_read: int = 0
    delete_manifests: int = 0
    delete_manifests_read: int = 0
    files_read: int = 0
    """The live data files of the manifests that were read."""

    files_in_partitions: int = 0
    """Those of them whose partition may hold passing rows."""

    files: int = 0
    """The data files of the plan."""

    file_bytes: int = 0
    delete_files: int = 0
    """The delete files that were indexed, of which each data file has some or none."""

    planning_ms: int = 0

    @property
    def data_manifests_skipped(self) -> int:
        """The manifests that the filter excluded, or that have no live files."""
        return self.data_manifests - self.data_manifests_read

    @property
    def delete_manifests_skipped(self) -> int:
        """The delete manifests whose deletes cannot apply to files of the plan."""
        return self.delete_manifests - self.delete_manifests_read

    @property
    def files_skipped(self) -> int:
        """The live files of the manifests read that the filter excluded."""
        return self.files_read - self.files

    def lines(self) -> Iterator[tuple[str, str]]:
        """The report as pairs of a label and a text."""
        yield (
            "data manifests",
            f"{self.data_manifests} in the snapshot, {self.data_manifests_skipped} skipped by partition, "
            f"{self.data_manifests_read} read",
        )
        yield (
            "delete manifests",
            f"{self.delete_manifests} in the snapshot, {self.delete_manifests_skipped} skipped by partition, "
            f"{self.delete_manifests_read} read",
        )
        yield (
            "data files",
            f"{self.files_read} in the manifests read, {self.files_read - self.files_in_partitions} skipped by "
            f"partition, {self.files_in_partitions - self.files} skipped by metrics, {self.files} to read",
        )
        yield "delete files", f"{self.delete_files} that may apply"
        yield "planned in", f"{self.planning_ms} ms"

    def __str__(self) -> str:
        return "\n".join(f"{label:<18}{text}" for label, text in self.lines())


# Arrow tables -----------------------------------------------------------------------------------------------------

RowIndices = NDArray[np.int64]

# no arrays yet: with the first one pyarrow looks for pandas, which takes long to load
_CONTENT = [content.name.lower() for content in FileContent]


def files_table(
    metadata: TableMetadata,
    schema: Schema,
    chunks: Sequence[FileChunk],
    residuals: Sequence[Expression],
) -> pa.Table:
    """The data files of chunks, without their deletes."""
    type_ = _partition_type(metadata, schema)
    texts = pa.array([str(residual) for residual in residuals], pa.string())
    batches = []
    for chunk in chunks:
        columns = chunk.columns
        codes = np.zeros(len(chunk), np.int32) if chunk.residuals is None else chunk.residuals
        arrays = {
            **_common(columns, type_),
            "first_row_id": column_to_array(LONG, columns.first_row_id),
            "sort_order_id": column_to_array(LONG, columns.sort_order_id).cast(pa.int32()),
            "key_metadata": column_to_array(BINARY, Column(columns.key_metadata)),
            "split_offsets": _lists(columns, "split_offsets", pa.int64()),
            "residual": pa.DictionaryArray.from_arrays(pa.array(codes), texts),
        }
        batches.append(pa.table(arrays, _FILES(type_)))
    return pa.concat_tables(batches) if batches else _FILES(type_).empty_table()


def deletes_column(deletes: Iterable[tuple[RowIndices, RowIndices]]) -> pa.ChunkedArray:
    """The deletes of the files of chunks, as offsets and numbers."""
    arrays = [pa.LargeListArray.from_arrays(offsets, pa.array(numbers, pa.int64())) for offsets, numbers in deletes]
    return pa.chunked_array(arrays, pa.large_list(pa.int64()))


def deletes_table(metadata: TableMetadata, schema: Schema, chunks: Sequence[ManifestColumns]) -> pa.Table:
    """The delete files of chunks."""
    type_ = _partition_type(metadata, schema)
    batches = [
        pa.table(
            {
                "content": pa.array(_CONTENT).take(pa.array(columns.content)),
                **_common(columns, type_),
                "equality_ids": _lists(columns, "equality_ids", pa.int32()),
                "referenced_data_file": column_to_array(STRING, Column(columns.referenced_data_file)),
                "content_offset": column_to_array(LONG, columns.content_offset),
                "content_size_in_bytes": column_to_array(LONG, columns.content_size_in_bytes),
                "key_metadata": column_to_array(BINARY, Column(columns.key_metadata)),
            },
            _DELETES(type_),
        )
        for columns in chunks
    ]
    return pa.concat_tables(batches) if batches else _DELETES(type_).empty_table()


def _partition_type(metadata: TableMetadata, schema: Schema) -> StructType:
    newest_first = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    return unified_partition_type(metadata.partition_specs, [schema, *newest_first])


_COMMON: list[tuple[str, pa.DataType]] = [
    ("snapshot_id", pa.int64()),
    ("sequence_number", pa.int64()),
    ("file_sequence_number", pa.int64()),
]


def _common_fields(type_: StructType) -> list[tuple[str, pa.DataType]]:
    return [
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("spec_id", pa.int32()),
        ("partition", arrow_type(type_)),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        *_COMMON,
    ]


def _schema(
    *before: tuple[str, pa.DataType], after: list[tuple[str, pa.DataType]]
) -> Callable[[StructType], pa.Schema]:
    return lambda type_: pa.schema([*before, *_common_fields(type_), *after])


_FILES = _schema(
    after=[
        ("first_row_id", pa.int64()),
        ("sort_order_id", pa.int32()),
        ("key_metadata", pa.binary()),
        ("split_offsets", pa.list_(pa.int64())),
        ("residual", pa.dictionary(pa.int32(), pa.string())),
    ]
)
_DELETES = _schema(
    ("content", pa.string()),
    after=[
        ("equality_ids", pa.list_(pa.int32())),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("key_metadata", pa.binary()),
    ],
)


def _common(columns: ManifestColumns, type_: StructType) -> dict[str, pa.Array]:
    return {
        "file_path": column_to_array(STRING, Column(columns.file_path)),
        "file_format": pa.array(FORMATS).take(pa.array(columns.file_format)),
        "spec_id": pa.array(np.full(len(columns), columns.spec_id, np.int32)),
        "partition": _partitions(columns, type_),
        "record_count": pa.array(columns.record_count),
        "file_size_in_bytes": pa.array(columns.file_size_in_bytes),
        **{name: column_to_array(LONG, getattr(columns, name)) for name, _ in _COMMON},
    }


def _partitions(columns: ManifestColumns, type_: StructType) -> pa.Array:
    """The partition tuples as structs of the fields of all specs; fields of other specs are null."""
    spec_fields = {field.id for field in columns.partition_type}
    target = arrow_type(type_)
    children = [
        column_to_array(field.type, columns.partition(field.id))
        if field.id in spec_fields
        else pa.nulls(len(columns), target_field.type)
        for field, target_field in zip(type_, target, strict=True)
    ]
    return pa.Array.from_buffers(target, len(columns), [None], children=children)


def _lists(columns: ManifestColumns, name: str, item: pa.DataType) -> pa.Array:
    lists = flat_lists(columns.stored, name, np.arange(len(columns)))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lists.counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(lists.items).cast(item), mask=pa.array(~lists.is_valid))


_BLOCK_FILES = 1024
_BLOCK_PAIRS = 2**20


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """The files that a scan reads, with their deletes and residuals; `plan_scan` creates it.

    Its length is the number of data files. Everything about them is in columns; `tasks` makes one object after another.
    """

    metadata: TableMetadata
    schema: Schema
    """The schema of the read."""

    filter: Expression
    """The filter, bound to the schema."""

    chunks: Sequence[FileChunk]
    residuals: Sequence[Expression]
    """What is left of the filter for some files; the chunks have the numbers."""

    deletes: DeleteIndex | None
    matched: Sequence[LookupKeys]
    """What the index of deletes knows of the files of each chunk."""

    report: ScanReport

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    def __repr__(self) -> str:
        return f"<ScanPlan: {len(self)} files, {self.size} bytes>"

    @cached_property
    def record_count(self) -> int:
        """The number of rows of the files, before filter and deletes; files without a count are left out."""
        return sum(int(np.maximum(chunk.columns.record_count, 0).sum()) for chunk in self.chunks)

    @cached_property
    def size(self) -> int:
        """The size of the data files in bytes."""
        return sum(int(chunk.columns.file_size_in_bytes.sum()) for chunk in self.chunks)

    @property
    def has_deletes(self) -> bool:
        """Whether there are deletes that may apply to files of the plan."""
        return self.deletes is not None and len(self.deletes) > 0

    # tasks ------------------------------------------------------------------------------------------------------

    def tasks(self) -> Iterator[FileTask]:
        """A task for each data file, in the order of the manifests."""
        for number, chunk in enumerate(self.chunks):
            for rows in chunk.blocks(self.block(number)):
                yield from self.some_tasks(number, rows)

    def combined(
        self, *, target_size: int | None = None, lookback: int | None = None, open_file_cost: int | None = None
    ) -> Iterator[tuple[FileTask, ...]]:
        """The tasks split and packed into bins of about equal work.

        The sizes are those of the table's properties `read.split.*`, unless others are given.
        """
        settings = split_settings(
            self.metadata.properties, target_size=target_size, lookback=lookback, open_file_cost=open_file_cost
        )
        return pack_tasks(self.tasks(), settings)

    def some_tasks(self, number: int, rows: RowIndices) -> Iterator[FileTask]:
        """The tasks of the files at these rows of a chunk."""
        chunk = self.chunks[number]
        codes = np.zeros(len(rows), np.int64) if chunk.residuals is None else chunk.residuals[rows]
        offsets, deletes = self.deletes_of(number, rows)
        objects = [] if self.deletes is None else self.deletes.files(deletes.tolist())
        edges = offsets.tolist()
        for index, (entry, code) in enumerate(zip(chunk.entries(rows), codes.tolist(), strict=True)):
            file_deletes = tuple(objects[edges[index] : edges[index + 1]])
            yield FileTask(entry, chunk.spec, file_deletes, self.residuals[code])

    def block(self, number: int) -> int:
        """How many files are looked up together: few if each has very many deletes."""
        if self.deletes is None or not len(self.chunks[number]):
            return _BLOCK_FILES
        each = self.deletes.most_pairs(self.matched[number]) // len(self.chunks[number]) + 1
        return max(1, min(_BLOCK_FILES, _BLOCK_PAIRS // each))

    def deletes_of(self, number: int, rows: RowIndices) -> tuple[RowIndices, RowIndices]:
        """The numbers of the deletes of files of a chunk, and the offsets of each file's numbers."""
        if self.deletes is None:
            return np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.int64)
        files, deletes = self.deletes.pairs(self.matched[number], rows)
        return np.searchsorted(files, np.arange(len(rows) + 1)), deletes

    def _all_deletes(self, number: int) -> tuple[RowIndices, RowIndices]:
        """As `deletes_of`, for all files of a chunk."""
        counts, numbers = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
        for rows in self.chunks[number].blocks(self.block(number)):
            offsets, deletes = self.deletes_of(number, rows)
            counts.append(np.diff(offsets))
            numbers.append(deletes)
        return np.cumsum(np.concatenate(counts)), np.concatenate(numbers)

    def delete_counts(self) -> Iterator[RowIndices]:
        """For each chunk, the number of deletes of each file."""
        for number, chunk in enumerate(self.chunks):
            parts = [np.diff(self.deletes_of(number, rows)[0]) for rows in chunk.blocks(self.block(number))]
            yield np.concatenate([np.zeros(0, np.int64), *parts])

    def without_filter(self, chunk: FileChunk) -> Mask:
        """The files of a chunk without a residual: their partition proves that all rows match."""
        free = np.array([residual == TRUE for residual in self.residuals], np.bool_)
        return np.full(len(chunk), free[0]) if chunk.residuals is None else free[chunk.residuals]

    def only(self, paths: Collection[str]) -> ScanPlan:
        """The plan with only the files at these locations."""
        locations = pa.array(sorted(paths), pa.string())
        chunks = []
        for chunk in self.chunks:
            rows = np.flatnonzero(np.asarray(pc.is_in(text_array(chunk.columns.file_path), value_set=locations)))
            if len(rows):
                chunks.append(chunk.take(rows))
        matched = [] if self.deletes is None else self.deletes.match([(c.columns, c.stats()) for c in chunks])
        return replace(self, chunks=chunks, matched=matched)

    # tables and text --------------------------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """The data files as a table, with the row numbers of their deletes in `deletes_to_arrow`."""
        deletes = map(self._all_deletes, range(len(self.chunks)))
        return self.files_to_arrow().append_column("deletes", deletes_column(deletes))

    def files_to_arrow(self) -> pa.Table:
        """The data files without the numbers of their deletes, which are many if all apply to all files."""
        return files_table(self.metadata, self.schema, self.chunks, self.residuals)

    def deletes_to_arrow(self) -> pa.Table:
        """The delete files and deletion vectors that may apply to files of the plan, in the order of their numbers."""
        return deletes_table(self.metadata, self.schema, [] if self.deletes is None else self.deletes.deletes.chunks)

    def explain(self) -> str:
        """What the scan reads, what it skips, and why."""
        return f"filter            {self.filter}\n{self.report}"
