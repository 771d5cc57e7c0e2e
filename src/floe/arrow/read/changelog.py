"""Reads the rows of a changelog plan, with the type, ordinal and snapshot of each change.

Snapshots are read one after the other. A snapshot that only adds or only deletes rows is streamed. The rows of one that
does both are loaded and compared: a file that was rewritten to change a few rows has all its other rows on both sides,
and these *carried-over* rows are removed. With identifier columns, a row that is deleted and added again with the same
key is an update.

Rows are compared by numbers: `row_numbers` gives equal rows equal numbers, for columns of any type, nested ones too.
Null equals null and NaN equals NaN. Each column is replaced by the indexes of its distinct values; the numbers of
structs and of several columns are combined two at a time, and a list is the bytes of its items' numbers.

>>> import pyarrow as pa
>>> row_numbers([pa.array([[1], [1, 2], [1], None, None]), pa.array(["a", "a", "a", "b", "b"])], 5).tolist()
[0, 1, 0, 2, 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.arrow.read.extra_columns import column_by_id, make_projector
from floe.arrow.read.parallel import Finished, read_in_parallel
from floe.arrow.read.streams import WAITING_BYTES, OnProgress, ProgressCounter, default_workers
from floe.arrow.read.task_reader import TaskReader
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.columns.conversion import ListBuffers
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.registry import Registry
from floe.plan.changelog import AddedRows, ChangelogPlan, ChangeTask, DeletedRows
from floe.spec.schemas.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

# Row numbers ----------------------------------------------------------------------------------------------------------

Numbers = NDArray[np.int64]


def row_numbers(columns: Sequence[pa.Array], count: int) -> Numbers:
    """A number for each of `count` rows; two rows have the same number if and only if they are equal."""
    numbers = np.zeros(count, np.int64)
    for column in columns:
        numbers = _combine_numbers(numbers, _numbers(column))
    return numbers


def _combine_numbers(first: Numbers, second: Numbers) -> Numbers:
    """Number the distinct pairs of two columns of numbers."""
    if not len(first) or not first.any():
        return second
    return _distinct_indexes(pa.array(first * (int(second.max()) + 1) + second))


def _distinct_indexes(array: pa.Array) -> Numbers:
    encoded = array.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _numbers(array: pa.Array) -> Numbers:
    type_ = array.type
    if pa.types.is_struct(type_):
        is_valid = np.asarray(array.is_valid()).astype(np.int64)
        children = (pc.struct_field(array, [index]) for index in range(type_.num_fields))
        return row_numbers([pa.array(is_valid), *children], len(array))
    if pa.types.is_list(type_):
        return _list_numbers(array, [array.values])
    if pa.types.is_map(type_):
        return _list_numbers(array, [array.keys, array.items])
    if pa.types.is_null(type_):
        return np.zeros(len(array), np.int64)
    return _distinct_indexes(array)


def _list_numbers(array: pa.Array, children: Sequence[pa.Array]) -> Numbers:
    """Number lists or maps: each is compared by the bytes of its items' numbers."""
    buffers = ListBuffers.of(array)
    items = row_numbers([buffers.items(child) for child in children], buffers.count)
    offsets = np.frombuffer(buffers.offsets, np.int32, len(array) + 1).astype(np.int64) * items.itemsize
    data = pa.py_buffer(np.ascontiguousarray(items))
    return _distinct_indexes(
        pa.Array.from_buffers(pa.large_binary(), len(array), [buffers.validity, pa.py_buffer(offsets), data])
    )


# Changes --------------------------------------------------------------------------------------------------------------

CHANGE_COLUMNS = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)

_DELETE, _INSERT, _UPDATE_BEFORE, _UPDATE_AFTER = 0, 1, 2, 3
_KINDS = ["DELETE", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER"]


def with_change_columns(schema: Schema) -> Schema:
    """The schema with the change columns at its end.

    >>> [field.name for field in with_change_columns(Schema(()))]
    ['_change_type', '_change_ordinal', '_commit_snapshot_id']
    """
    ids = {column.id for column in CHANGE_COLUMNS}
    return replace(schema, fields=(*(field for field in schema.fields if field.id not in ids), *CHANGE_COLUMNS))


def read_changes(
    plan: ChangelogPlan,
    schema: Schema,
    storage: Storage,
    *,
    keys: Sequence[int] = (),
    carry_over: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
    workers: int | None = None,
    progress: OnProgress | None = None,
    registry: Registry | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the changed rows in the columns of a schema, followed by the change columns.

    With `keys`, the field ids of identifier columns, a row that a snapshot deletes and adds again with the same key is
    an UPDATE_BEFORE followed by an UPDATE_AFTER; keys of several rows are not paired. `carry_over` keeps rows that were
    only copied from one file to another. Progress counts the files of the snapshots that are planned so far.
    """
    reader = TaskReader(plan.planner.metadata, storage, registry=registry, batch_size=batch_size)
    changes = _ChangeReader(
        reader,
        plan.planner.schema,
        with_change_columns(schema),
        tuple(keys),
        carry_over,
        batch_size,
        default_workers() if workers is None else workers,
        ProgressCounter(progress),
    )
    for _, tasks in groupby(plan.tasks(), key=lambda task: task.ordinal):
        yield from changes.of_snapshot(list(tasks))


@dataclass(frozen=True)
class _ChangeReader:
    reader: TaskReader
    table_schema: Schema
    schema: Schema
    keys: tuple[int, ...]
    carry_over: bool
    batch_size: int
    workers: int
    counter: ProgressCounter

    @property
    def columns(self) -> Schema:
        """The columns that are read from files."""
        return Schema(self.schema.fields[: -len(CHANGE_COLUMNS)])

    def of_snapshot(self, tasks: Sequence[ChangeTask]) -> Iterator[pa.RecordBatch]:
        """The changes of one snapshot, deleted rows first."""
        added = [task for task in tasks if isinstance(task, AddedRows)]
        deleted = [task for task in tasks if not isinstance(task, AddedRows)]
        if added and deleted and (self.keys or not self.carry_over):
            yield from self._compare(deleted, added)
        else:
            for task, batch in self._batches([*deleted, *added], self.columns):
                kind = _INSERT if isinstance(task, AddedRows) else _DELETE
                yield self._with_change_columns(batch, np.full(batch.num_rows, kind), task)

    def _batches(self, tasks: Sequence[ChangeTask], columns: Schema) -> Iterator[tuple[ChangeTask, pa.RecordBatch]]:
        """The batches of some tasks, in the order of the tasks, each with its task."""

        def read(task: ChangeTask) -> Iterator[pa.RecordBatch]:
            if isinstance(task, DeletedRows):
                return self.reader.newly_deleted_rows(task.task, task.added_deletes, columns)
            return self.reader.batches(task.task, columns)

        task_index = 0
        self.counter.expect(len(tasks), sum(task.task.length for task in tasks))
        for item in read_in_parallel(read, tasks, workers=min(len(tasks), self.workers), budget=WAITING_BYTES):
            if isinstance(item, Finished):
                self.counter.finish_task(item.item.task)
                task_index += 1
            else:
                yield tasks[task_index], item

    def _with_change_columns(self, rows: pa.RecordBatch, kinds: Numbers, task: ChangeTask) -> pa.RecordBatch:
        """Add the change columns to rows."""
        change_columns = [
            pa.array(_KINDS).take(pa.array(kinds)),
            pa.repeat(pa.scalar(task.ordinal, pa.int32()), len(kinds)),
            pa.repeat(pa.scalar(task.snapshot_id, pa.int64()), len(kinds)),
        ]
        self.counter.add_rows(len(kinds))
        return pa.RecordBatch.from_arrays([*rows.columns, *change_columns], schema=arrow_schema(self.schema))

    # Comparison of deleted and added rows ----------------------------------------------------------------------------

    def _compare(self, deleted: Sequence[ChangeTask], added: Sequence[ChangeTask]) -> Iterator[pa.RecordBatch]:
        # All columns are compared, also those that are not selected: otherwise a row of which only another column
        # changed would count as carried over.
        table_fields = self.table_schema.by_id
        extra = [field for field in self.columns.fields if field.id not in table_fields]
        read = Schema((*self.table_schema.fields, *extra))
        before, after = (self._load(tasks, read) for tasks in (deleted, added))
        kinds = np.repeat(np.array([_DELETE, _INSERT]), [before.num_rows, after.num_rows])
        rows = pa.concat_batches([before, after])
        if not self.carry_over and len(kinds):
            numbers = self._numbers(rows, read, [field.id for field in self.table_schema.fields])
            keep = ~_carried_over(numbers, kinds)
            rows, kinds = rows.filter(pa.array(keep)), kinds[keep]
        if self.keys and len(kinds):
            order, kinds = _pair_updates(self._numbers(rows, read, self.keys), kinds)
            rows = rows.take(pa.array(order))
        if len(kinds):
            changes = self._with_change_columns(make_projector(read, self.columns)(rows), kinds, deleted[0])
            yield from (changes.slice(start, self.batch_size) for start in range(0, changes.num_rows, self.batch_size))

    def _load(self, tasks: Sequence[ChangeTask], columns: Schema) -> pa.RecordBatch:
        empty = pa.RecordBatch.from_pylist([], arrow_schema(columns))
        return pa.concat_batches([empty, *(batch for _, batch in self._batches(tasks, columns))])

    @staticmethod
    def _numbers(rows: pa.RecordBatch, schema: Schema, ids: Sequence[int]) -> Numbers:
        return row_numbers([column_by_id(schema, rows, field_id) for field_id in ids], rows.num_rows)


def _carried_over(numbers: Numbers, kinds: Numbers) -> NDArray[np.bool_]:
    """Which rows are both deleted and added; of equal rows, as many on each side as the other side has."""
    deleted, added = (np.bincount(numbers[kinds == kind], minlength=int(numbers.max()) + 1) for kind in (0, 1))
    on_both_sides = np.minimum(deleted, added)
    is_carried_over = np.zeros(len(numbers), np.bool_)
    for kind in (_DELETE, _INSERT):
        rows = np.flatnonzero(kinds == kind)
        is_carried_over[rows] = _occurrence_ranks(numbers[rows]) < on_both_sides[numbers[rows]]
    return is_carried_over


def _occurrence_ranks(numbers: Numbers) -> Numbers:
    """For each number, how many equal numbers come before it."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(numbers)) - np.repeat(starts, np.diff(starts, append=len(numbers)))
    return ranks


def _pair_updates(numbers: Numbers, kinds: Numbers) -> tuple[Numbers, Numbers]:
    """The order of the rows and their kinds: a deleted and an added row of one key become an update, at the end."""
    deleted, added = (np.bincount(numbers[kinds == kind], minlength=int(numbers.max()) + 1) for kind in (0, 1))
    updated = ((deleted == 1) & (added == 1))[numbers]
    pairs = np.flatnonzero(updated)
    pairs = pairs[np.lexsort((kinds[pairs], numbers[pairs]))]
    order = np.concatenate([np.flatnonzero(~updated), pairs])
    final_kinds = np.where(updated, np.where(kinds == _DELETE, _UPDATE_BEFORE, _UPDATE_AFTER), kinds)
    return order, final_kinds[order]
