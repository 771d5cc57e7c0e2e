"""The deletes of the files of a scan, in the forms in which Spark applies them.

Position deletes and deletion vectors become bitmaps, one for each data file, which travel with the file; Spark's
generated code tests the bit of each row. The driver loads them as long as they are small, which manifests show in
advance (`within_budget`). Files whose deletes would take more memory are left to the Arrow reader, which loads the
deletes in the workers.

Equality delete files become relations that the data files are anti-joined with. Delete files with the same equality
ids are joined together (`EqualityDeleteGroup`), separately for global deletes and for deletes of a partition. A row is
deleted if it equals a row of the delete files and its data sequence number is strictly less than theirs (spec: Scan
Planning, Equality Delete Files).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.read.deletes import KeyColumns, key_columns
from floe.arrow.read.task_reader import TaskReader
from floe.plan.delete_files import DeleteKind
from floe.plan.tasks import FileTask
from floe.spark.read.scan_source import PlannedFiles
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import SchemaField
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

_POSITION_BYTES: Final = 3
"""The estimated memory of a deleted position while delete files are read."""

_READERS: Final = 8
"""How many threads of the driver read delete files."""

# Position deletes -----------------------------------------------------------------------------------------------------


def within_budget(files: PlannedFiles, budget: int, split_size: int) -> NDArray[np.bool_]:
    """Which files have deleted positions that the driver can load, with `budget` bytes for all of them together.

    Files without position deletes are always among them. A bitmap has a bit for each row of its file and is sent with
    every split of the file.
    """
    mask = np.ones(len(files), np.bool_)
    index = files.plan.deletes
    owners, deletes = files.position_deletes
    if index is None or not owners.size:
        return mask
    splits = np.asarray(files.table["file_size_in_bytes"].to_numpy()) // max(1, split_size) + 1
    bitmap_bytes = (np.maximum(files.record_counts, 0) // 8 + 8) * splits
    delete_bytes = np.maximum(index.deletes.record_count, 0) * _POSITION_BYTES
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    loaded: set[int] = set()
    remaining = budget
    for file, file_deletes in zip(owners[starts].tolist(), np.split(deletes, starts[1:]), strict=True):
        new = set(file_deletes.tolist()) - loaded  # a delete file of several data files is loaded once
        cost = int(bitmap_bytes[file]) + sum(int(delete_bytes[delete]) for delete in new)
        if cost > remaining:
            mask[file] = False
        else:
            remaining -= cost
            loaded |= new
    return mask


def deletion_bitmaps(files: PlannedFiles, metadata: TableMetadata, storage: Storage) -> Mapping[str, bytes]:
    """The bitmaps of the deleted rows of files with position deletes or deletion vectors, by file path."""
    chosen = files.has_position_deletes
    if not chosen.any():
        return {}
    reader = TaskReader(metadata, storage)

    def read(task: FileTask) -> tuple[str, bytes]:
        return task.file.file_path, to_bitmap(reader.deleted_positions(task))

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(map_concurrently(read, files.tasks(chosen), limit=2 * _READERS, executor=pool))


def to_bitmap(positions: BitMap64) -> bytes:
    """A bitmap with a bit for each position up to the last one, least significant bit first, in words of 8 bytes.

    >>> to_bitmap(BitMap64([0, 9, 64])).hex()
    '01020000000000000100000000000000'
    """
    if not positions:
        return b""
    values = np.frombuffer(positions.to_array(), np.uint64).astype(np.int64)
    bitmap = np.zeros((int(values[-1]) // 64 + 1) * 8, np.uint8)
    byte_index = values >> 3
    starts = np.flatnonzero(np.diff(byte_index, prepend=-1))
    bitmap[byte_index[starts]] = np.bitwise_or.reduceat((1 << (values & 7)).astype(np.uint8), starts)
    return bitmap.tobytes()


# Equality deletes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EqualityDeleteGroup:
    """Equality delete files with the same equality ids and the same scope."""

    columns: KeyColumns
    """The columns that are compared."""

    is_global: bool
    """Whether they apply to all partitions, not only to their own."""

    table: pa.Table
    """The files, with the columns of `ScanPlan.deletes_to_arrow`, `scope` and `split_offsets`."""

    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(max(0, file.record_count) for file in self.files)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths of the files."""
        return tuple(file.file_path for file in self.files)

    def may_be_null(self, entry: SchemaField) -> bool:
        """Whether a column of the delete files may have nulls, by their metrics."""
        return bool(entry.ancestors) or not all(_has_no_null(file, entry.field.id) for file in self.files)

    def select_parquet(self, is_parquet: bool) -> EqualityDeleteGroup:
        """The files in Parquet, or with False those in other formats."""
        chosen = [(file.file_format == "parquet") == is_parquet for file in self.files]
        files = tuple(file for file, selected in zip(self.files, chosen, strict=True) if selected)
        return EqualityDeleteGroup(self.columns, self.is_global, self.table.filter(pa.array(chosen, pa.bool_())), files)

    def __str__(self) -> str:
        return f"({', '.join(entry.name for entry in self.columns.entries)})"


class PartitionScopes:
    """The partition numbers of files, which restrict equality deletes to their partition.

    The numbers are valid for one plan only, so they are kept when a runtime filter makes the scan plan again.
    """

    def __init__(self, files: PlannedFiles) -> None:
        self._paths = files.table["file_path"].combine_chunks()
        self._numbers = pa.array(files.partition_ids, pa.int32())

    def add_column(self, table: pa.Table) -> pa.Table:
        """A table of files with the partition numbers as the column `scope`."""
        indexes = pc.index_in(table["file_path"], value_set=self._paths)
        return table.append_column("scope", self._numbers.take(indexes.combine_chunks()))


def group_equality_deletes(files: PlannedFiles) -> list[EqualityDeleteGroup]:
    """The equality delete files that apply to some files, grouped by equality ids and scope."""
    index = files.plan.deletes
    delete_indexes = files.equality_deletes
    if index is None or not delete_indexes.size:
        return []
    table = files.plan.deletes_to_arrow().take(pa.array(delete_indexes))
    table = table.append_column("scope", pa.array(index.deletes.partition[delete_indexes], pa.int32()))
    table = table.append_column("split_offsets", pa.nulls(len(delete_indexes), pa.list_(pa.int64())))
    are_global = (index.deletes.kind[delete_indexes] == DeleteKind.GLOBAL_EQUALITY).tolist()
    rows_by_key: dict[tuple[tuple[int, ...], bool], list[int]] = defaultdict(list)
    for row, ids in enumerate(table["equality_ids"].to_pylist()):
        rows_by_key[tuple(sorted(set(ids or ()))), are_global[row]].append(row)
    groups = []
    for (ids, is_global), rows in sorted(rows_by_key.items()):
        delete_files = tuple(index.files(delete_indexes[rows].tolist()))
        columns = key_columns(files.plan.metadata, ids, delete_files[0].file_path)
        groups.append(EqualityDeleteGroup(columns, is_global, table.take(pa.array(rows)), delete_files))
    return groups


def key_fields(groups: Iterable[EqualityDeleteGroup]) -> list[SchemaField]:
    """The columns that the deletes of some groups compare."""
    return [entry for group in groups for entry in group.columns.entries]


def _has_no_null(file: DataFile, field_id: int) -> bool:
    nulls, values = file.null_value_counts or {}, file.value_counts or {}
    return nulls.get(field_id) == 0 and values.get(field_id) == file.record_count
