"""Writers of rows of any partitions to files of their partitions, sorted if the table has a sort order.

`FanoutWriter` takes rows in any order. Rows are buffered until a partition has enough for a row group, or until the
buffers exceed the memory limit: then the partitions with most rows are written, so that memory and the number of open
files stay bounded. Files are encoded by a few threads while the next batches are split. `ClusteredWriter` takes rows
that are grouped by partition, and has one file open at a time.

`PartitionSplitter` numbers the distinct values of each partition field; the numbers of all fields combined identify the
partitions of a batch, and one sort of them groups the rows by partition. Values are converted to Python objects once
for each partition, not for each row.

>>> from floe.spec.partitioning.transform_terms import build_spec
>>> from floe.spec.types import DOUBLE, Field, LONG
>>> schema = Schema((Field(1, "id", LONG),))
>>> split = PartitionSplitter(build_spec(schema, ["bucket(2, id)"]), schema)
>>> [(part.values, part.rows.column("id").to_pylist()) for part in split(pa.record_batch({"id": [1, 2, 3, 4]}))]
[((0,), [1, 2, 4]), ((1,), [3])]

`sort_batch` sorts rows by transforms of columns. Nulls are first or last as each sort field says, and floats have the
order of the spec: `-0.0` before `0.0`, NaN above all other values.

>>> from floe.spec.sort_order import build_order
>>> schema = Schema((Field(1, "x", DOUBLE),))
>>> rows = pa.record_batch({"x": [1.0, float("nan"), None, -0.0]})
>>> sort_batch(rows, build_order(schema, ["x desc"]), schema).column("x").to_pylist()
[nan, 1.0, -0.0, None]

A file that is marked as sorted is sorted from its first row to its last; so rows of a sorted table are buffered until
they are written as whole files. When they exceed the memory limit, each file is sorted by itself.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.errors import InvalidInput
from floe.formats.columns.arrays import to_values
from floe.formats.columns.arrow_types import arrow_type
from floe.formats.columns.conversion import Conformer
from floe.formats.columns.transforms import transform_array
from floe.formats.writers.rolling_writer import RollingWriter, note_undeleted_files
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, check_writable
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.sort_order import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from floe.spec.types import Type

# Split and sort -------------------------------------------------------------------------------------------------------


# Sorting --------------------------------------------------------------------------------------------------------------

_FLOAT_BITS = {"float": (np.int32, np.int32(2**31 - 1)), "double": (np.int64, np.int64(2**63 - 1))}


def can_sort(order: SortOrder) -> bool:
    """Whether rows can be sorted by an order: it has fields, and all of its transforms are known.

    >>> from floe.spec.sort_order import UNSORTED
    >>> can_sort(UNSORTED)
    False
    """
    return bool(order.fields) and all(field.transform.is_known for field in order.fields)


def sort_batch(batch: pa.RecordBatch, order: SortOrder, schema: Schema) -> pa.RecordBatch:
    """Sort a batch, which must have the columns of the schema; the sort is stable.

    A batch that is sorted already is returned as it is.
    """
    columns: list[pa.Array] = []
    directions: list[tuple[str, str]] = []
    for sort_field in order.fields:
        _add_key(sort_field, _sort_key_array(sort_field, batch, schema), columns, directions)
    if not columns or batch.num_rows < 2:
        return batch
    keys = pa.table(columns, [name for name, _ in directions])
    indices = pc.sort_indices(keys, sort_keys=directions)
    index_numbers = indices.to_numpy()
    if bool((index_numbers[1:] > index_numbers[:-1]).all()):
        return batch
    return batch.take(indices)


def nested_column(batch: pa.RecordBatch, entry: SchemaField, schema: Schema) -> pa.Array:
    """A column, or a field inside structs, of a batch with the columns of the schema; null where a struct is null.

    >>> from floe.spec.types import Field, INT, StructType
    >>> schema = Schema((Field(1, "at", StructType((Field(2, "x", INT),))),))
    >>> rows = pa.record_batch({"at": [{"x": 7}, None]})
    >>> nested_column(rows, schema.entry(2), schema).to_pylist()
    [7, None]
    """
    steps = (*entry.ancestors, entry.field)
    array = batch.column([field.id for field in schema.fields].index(steps[0].id))
    for above, step in pairwise(steps):
        array = pc.struct_field(array, [[field.id for field in above.type.fields].index(step.id)])
    return array


def _sort_key_array(field: SortField, batch: pa.RecordBatch, schema: Schema) -> pa.Array:
    entry = schema.entry(field.source_id)
    source = entry.field.type
    key = transform_array(field.transform, source, nested_column(batch, entry, schema))
    kind = field.transform.result_type(source).kind
    return _ordered_bits(key, kind) if kind in _FLOAT_BITS else key


def _ordered_bits(array: pa.Array, kind: str) -> pa.Array:
    """Floats as integers in the same order: the bits of negative ones are inverted."""
    integer, mask = _FLOAT_BITS[kind]
    bits = np.frombuffer(array.buffers()[1], integer, len(array), array.offset * np.dtype(integer).itemsize)
    ordered = np.where(bits < 0, bits ^ mask, bits)
    return pa.array(ordered, mask=np.asarray(array.is_null()) if array.null_count else None)


def _add_key(field: SortField, key: pa.Array, columns: list[pa.Array], directions: list[tuple[str, str]]) -> None:
    if key.null_count:  # nulls have a sort key of their own, as they are first or last whatever the direction
        columns.append(key.is_valid())
        nulls_first = field.null_order is NullOrder.NULLS_FIRST
        directions.append((str(len(directions)), "ascending" if nulls_first else "descending"))
    columns.append(key)
    directions.append((str(len(directions)), "ascending" if field.direction is SortDirection.ASC else "descending"))


# Splitting ------------------------------------------------------------------------------------------------------------

_MAX_CODES = 2**31
_BIT_TYPES = {"float": (pa.int32(), np.uint32), "double": (pa.int64(), np.uint64)}


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of a partition: a hashable key of the partition, its values, and the rows."""

    key: Hashable
    values: tuple[Any, ...]
    rows: pa.RecordBatch


class PartitionSplitter:
    """Splits batches, which must have the columns and Arrow types of a schema, by partition."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        check_writable(spec)
        self._schema = schema
        self._types = [field.type for field in spec.partition_type(schema)]
        self._fields = [
            (index, field, self._types[index])
            for index, field in enumerate(spec.fields)
            if not isinstance(field.transform, Void)
        ]
        self._empty = (None,) * len(spec.fields)

    def __call__(self, batch: pa.RecordBatch, *, clustered: bool = False) -> Iterator[PartitionRows]:
        """Split a batch; returns the rows of each partition, by first occurrence of the partitions.

        Rows of a partition keep their order. With `clustered`, raises `InvalidInput` unless they are contiguous.
        """
        if not batch.num_rows:
            return
        if not self._fields:
            yield PartitionRows((), self._empty, batch)
            return
        columns = [self._value_codes(batch, field, type_) for _, field, type_ in self._fields]
        combined = _combine_codes([(codes, len(values) + 1) for codes, values, _ in columns])
        codes, firsts = _renumber(combined)
        keys, tuples = self._partitions(columns, firsts)
        if len(keys) == 1:
            yield PartitionRows(keys[0], tuples[0], batch)
            return
        if bool((codes[1:] < codes[:-1]).any()):
            if clustered:
                row = int(np.argmax(codes[1:] < codes[:-1])) + 1
                raise InvalidInput(
                    f"rows of partition {tuples[codes[row]]} are not contiguous",
                    hint="sort the rows by partition, or use the fan-out writer",
                )
            batch = batch.take(pa.array(np.argsort(_narrowest(codes, len(keys)), kind="stable")))
        ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
        start = 0
        for key, values, end in zip(keys, tuples, ends.tolist(), strict=True):
            yield PartitionRows(key, values, batch.slice(start, end - start))
            start = end

    def _value_codes(
        self, batch: pa.RecordBatch, field: PartitionField, type_: Type
    ) -> tuple[NDArray[np.int64], pa.Array, Type]:
        """The code of each row's value, 0 for null and from 1 otherwise; the distinct values; and their type."""
        entry = self._schema.entry(field.source_id)
        values = transform_array(field.transform, entry.field.type, nested_column(batch, entry, self._schema))
        if type_.kind in _BIT_TYPES:
            values = _float_bits(values, type_.kind)
        encoded = values.dictionary_encode()
        indices = encoded.indices
        codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64) + 1, encoded.dictionary, type_

    def _partitions(
        self, columns: list[tuple[NDArray[np.int64], pa.Array, Type]], firsts: NDArray[np.int64]
    ) -> tuple[list[Hashable], list[tuple[Any, ...]]]:
        """The keys and values of partitions, from the first row of each."""
        keys, columns_of_values = [], []
        for codes, stored, type_ in columns:
            indices = codes[firsts] - 1
            chosen = stored.take(pa.array(indices, mask=indices < 0))
            plain = chosen.view(arrow_type(type_)) if type_.kind in _BIT_TYPES else chosen.cast(arrow_type(type_))
            columns_of_values.append(to_values(type_, plain))
            keys.append(
                chosen.to_pylist() if type_.kind in _BIT_TYPES else columns_of_values[-1]
            )  # NaN is not equal to itself
        tuples = []
        for values in zip(*columns_of_values, strict=True):
            partition = list(self._empty)
            for (index, _, _), value in zip(self._fields, values, strict=True):
                partition[index] = value
            tuples.append(tuple(partition))
        return list(zip(*keys, strict=True)), tuples


def _combine_codes(columns: list[tuple[NDArray[np.int64], int]]) -> NDArray[np.int64]:
    """Combine the codes of several columns, each below its count, into one code."""
    codes_so_far, count = columns[0]
    for codes, column_count in columns[1:]:
        if count * column_count > _MAX_CODES * _MAX_CODES:
            codes_so_far, firsts = _renumber(codes_so_far)
            count = len(firsts)
        codes_so_far, count = codes_so_far * column_count + codes, count * column_count
    return codes_so_far


def _renumber(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Renumber codes from 0 by first occurrence; returns them, and the first row of each."""
    codes = pa.array(numbers).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    highest = np.maximum.accumulate(codes)  # the first row of a code is where it is the highest so far
    return codes, np.concatenate(([0], np.flatnonzero(highest[1:] != highest[:-1]) + 1))


def _narrowest(codes: NDArray[Any], count: int) -> NDArray[Any]:
    """The codes in the narrowest type: NumPy sorts numbers of up to 16 bits by radix sort."""
    return codes.astype(np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32)


def _float_bits(array: pa.Array, kind: str) -> pa.Array:
    """The bits of floats as integers, with a single NaN: partitions are distinguished by bits (spec: Scan Planning)."""
    stored, number = _BIT_TYPES[kind]
    values = array.to_numpy(zero_copy_only=False) if not array.null_count else array.fill_null(0).to_numpy()
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(values.view(number).view(stored.to_pandas_dtype()), stored, mask=mask)


# Writers --------------------------------------------------------------------------------------------------------------


T = TypeVar("T")

_MEMORY = 384 * 1024 * 1024
_OPEN_FILES = 200
_ROWS_AT_ONCE = 131_072
"""How many rows are split at once: enough to be fast, few enough to stay in the processor's cache."""

_HAND_OVER_BYTES = 32 * 1024 * 1024
"""How many buffered bytes of a partition are written to its file at once."""

_WORTH_THREADS = 4 * 1024 * 1024
"""Smaller data is written without threads."""


class RowWriter:
    """The base of both writers: aligns batches with the schema, and closes or deletes the files.

    If a `with` block raises, all files are deleted.
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        schema: Schema | None = None,
        spec: PartitionSpec | None = None,
        order: SortOrder | None = None,
        content: FileContent = FileContent.DATA,
        equality_ids: Sequence[int] = (),
    ) -> None:
        self._target = target
        self._schema = target.schema if schema is None else schema
        self._spec = target.spec if spec is None else spec
        order = target.sort_order if order is None else order
        if not can_sort(order) or not all(sort_field.source_id in self._schema.by_id for sort_field in order.fields):
            order = UNSORTED
        self._order = order
        self._content, self._equality_ids = content, tuple(equality_ids)
        self._metrics = target.metrics(self._schema)
        self._conform = Conformer(self._schema)
        self._split = PartitionSplitter(self._spec, self._schema)

    def write(self, batch: pa.RecordBatch | pa.Table, /) -> None:
        """Add rows; columns are matched by name."""
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            for start in range(0, part.num_rows, _ROWS_AT_ONCE):
                self._add(self._conform(part.slice(start, _ROWS_AT_ONCE)))

    def close(self) -> list[DataFile]:
        """Close all files, and return them."""
        raise NotImplementedError

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            note_undeleted_files(error, self.abort())

    def _add(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def _open_partition(self, partition: Sequence[Any]) -> RollingWriter:
        return RollingWriter(
            self._target,
            spec=self._spec,
            partition=partition,
            schema=self._schema,
            content=self._content,
            sort_order_id=self._order.order_id,
            equality_ids=self._equality_ids,
            metrics=self._metrics,
        )

    def _sort(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return sort_batch(batch, self._order, self._schema) if self._order.fields else batch


@dataclass(eq=False, slots=True)
class _Partition:
    """The buffered rows of a partition, and its files."""

    files: RollingWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    buffered_bytes: int = 0
    work: Future[None] | None = None

    @property
    def memory(self) -> int:
        return self.waiting_bytes + self.buffered_bytes

    def take(self) -> list[pa.RecordBatch]:
        batches, self.waiting, self.waiting_bytes = self.waiting, [], 0
        return batches


class FanoutWriter(RowWriter):
    """Writes rows in any order of partitions, in bounded memory.

    `memory` is the maximum size of buffered rows in bytes, `open_files` the maximum number of open files, `workers` the
    number of threads that encode files: by default one for each processor, none for small data.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.transform_terms import build_spec
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> schema = Schema((Field(1, "id", LONG),))
    >>> spec = build_spec(schema, ["bucket(4, id)"])
    >>> table = new_table_metadata(schema, spec=spec, location="memory:wh/t", uuid=uuid, now_ms=0)
    >>> with FanoutWriter(WriteTarget.of(table, MemoryStorage())) as writer:
    ...     writer.write(pa.record_batch({"id": range(100)}))
    ...     files = writer.close()
    >>> sorted((file.partition, file.record_count) for file in files)
    [((0,), 21), ((1,), 30), ((2,), 22), ((3,), 27)]
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        memory: int = _MEMORY,
        open_files: int = _OPEN_FILES,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(target, **options)
        self._memory, self._max_open = memory, max(open_files, 1)
        self._partitions: dict[Hashable, _Partition] = {}
        self._open: dict[_Partition, None] = {}  # partitions that may have an open file, least recently written first
        self._memory_used = 0
        self._unsplit: list[pa.RecordBatch] = []
        self._unsplit_rows = 0
        self._splits: deque[tuple[float, Future[list[PartitionRows]]]] = deque()
        self._workers = _Workers(os.cpu_count() or 1 if workers is None else workers)

    def _add(self, batch: pa.RecordBatch) -> None:
        self._unsplit.append(batch)  # batches of few rows are split together
        self._unsplit_rows += batch.num_rows
        if self._unsplit_rows >= _ROWS_AT_ONCE // 2:
            self._split_batches()
            while len(self._splits) > self._workers.count:  # limits the batches that are split at a time
                self._distribute(*self._splits.popleft())

    def _split_batches(self) -> None:
        batches, self._unsplit, self._unsplit_rows = self._unsplit, [], 0
        if batches:
            batch = _concatenate(batches)
            per_row = batch.nbytes / max(batch.num_rows, 1)
            self._splits.append((per_row, self._workers.submit(partial(self._split_batch, batch))))

    def _split_batch(self, batch: pa.RecordBatch) -> list[PartitionRows]:
        return list(self._split(batch))

    def _distribute(self, per_row: float, parts: Future[list[PartitionRows]]) -> None:
        for part in parts.result():
            partition = self._partitions.get(part.key)
            if partition is None:
                partition = self._partitions[part.key] = _Partition(self._open_partition(part.values))
            size = int(part.rows.num_rows * per_row)
            partition.waiting.append(part.rows)
            partition.waiting_bytes += size
            self._memory_used += size
            if partition.waiting_bytes >= _HAND_OVER_BYTES and not self._order.fields:
                self._write_waiting(partition)
        if self._memory_used > self._memory:
            self._free_memory()

    def _write_waiting(self, partition: _Partition, *, flush: bool = False) -> None:
        """Write the buffered rows to the partition's file, which may buffer them again until they make a row group."""
        self._wait(partition)
        self._open.pop(partition, None)
        while len(self._open) >= self._max_open:  # close the least recently written one
            other = next(iter(self._open))
            del self._open[other]
            self._wait(other)
            other.files.end_file()
            other.buffered_bytes = 0
        self._open[partition] = None
        rows = partition.take()

        def write() -> None:
            partition.files.write(self._sort(_concatenate(rows)))
            if self._order.fields:
                partition.files.end_file()
            elif flush:
                partition.files.flush()
            partition.buffered_bytes = partition.files.buffered_bytes

        partition.work = self._workers.submit(write)

    def _free_memory(self) -> None:
        """Write the partitions with most rows, until three quarters of the memory are free."""
        for partition in self._partitions.values():
            self._wait(partition)
        for partition in sorted(self._partitions.values(), key=lambda candidate: candidate.memory, reverse=True):
            if self._count_memory() <= self._memory // 4:
                break
            self._write_waiting(partition, flush=True)
        for partition in self._partitions.values():
            self._wait(partition)
            if len(partition.waiting) > 1:  # slices, each of which keeps its whole batch in memory
                partition.waiting = [_concatenate(partition.waiting)]
        self._count_memory()

    def _count_memory(self) -> int:
        self._memory_used = sum(partition.memory for partition in self._partitions.values() if partition.work is None)
        return self._memory_used

    def _wait(self, partition: _Partition) -> None:
        work, partition.work = partition.work, None
        if work is not None:
            work.result()

    def close(self) -> list[DataFile]:
        """Write the buffered rows, close all files, and return them by first occurrence of their partitions."""
        if not self._splits and sum(batch.nbytes for batch in self._unsplit) < _WORTH_THREADS:
            self._workers.run_inline()
        self._split_batches()
        while self._splits:
            self._distribute(*self._splits.popleft())
        partitions = list(self._partitions.values())
        try:
            for partition in partitions:
                self._wait(partition)
                partition.work = self._workers.submit(partial(self._finish_partition, partition))
            for partition in partitions:
                self._wait(partition)
        finally:
            self._workers.stop()
        return [file for partition in partitions for file in partition.files.close()]

    def _finish_partition(self, partition: _Partition) -> None:
        if partition.waiting:
            partition.files.write(self._sort(_concatenate(partition.take())))
        partition.files.end_file()

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        self._workers.stop()
        self._unsplit = []
        self._splits.clear()
        return [location for partition in self._partitions.values() for location in partition.files.abort()]


class ClusteredWriter(RowWriter):
    """Writes rows that are grouped by partition; raises `InvalidInput` if a partition occurs again."""

    def __init__(self, target: WriteTarget, **options: Any) -> None:
        super().__init__(target, **options)
        self._key: Hashable = None
        self._current: RollingWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._written: dict[Hashable, RollingWriter] = {}

    def _add(self, batch: pa.RecordBatch) -> None:
        for part in self._split(batch, clustered=True):
            if self._current is None or part.key != self._key:
                if part.key in self._written:
                    raise InvalidInput(
                        f"rows of partition {part.values} occur again, after rows of others",
                        hint="sort the rows by partition, or use the fan-out writer",
                    )
                self._end_partition()
                self._key, self._current = part.key, self._open_partition(part.values)
                self._written[part.key] = self._current
            self._waiting.append(part.rows)
            if not self._order.fields:
                self._write()
            elif sum(rows.nbytes for rows in self._waiting) > _MEMORY:
                self._write()
                self._current.end_file()

    def _write(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows and self._current is not None:
            self._current.write(self._sort(_concatenate(rows)))

    def _end_partition(self) -> None:
        self._write()
        if self._current is not None:
            self._current.end_file()
        self._current = None

    def close(self) -> list[DataFile]:
        """Close the last file, and return all files in the order in which they were written."""
        self._end_partition()
        return [file for files in self._written.values() for file in files.close()]

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        self._waiting, self._current = [], None
        return [location for files in self._written.values() for location in files.abort()]


class _Workers:
    """A pool of threads, created with the first task; with a count of 1, tasks run in the calling thread."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        if self.count > 1:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="floe-write")
            return self._pool.submit(work)
        done: Future[T] = Future()
        done.set_result(work())
        return done

    def run_inline(self) -> None:
        """Run further tasks in the calling thread, unless there are threads already."""
        if self._pool is None:
            self.count = 1

    def stop(self) -> None:
        """Wait for running tasks, and cancel the others."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _concatenate(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    listed = list(batches)
    return listed[0] if len(listed) == 1 else pa.concat_batches(listed)
