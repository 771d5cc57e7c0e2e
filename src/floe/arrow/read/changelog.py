"""The changes of a changelog plan as rows, each with what became of it, in which snapshot, and at which place.

Snapshot by snapshot. What only appends is streamed. Where a snapshot deletes and adds rows, they are gathered: a file
that was rewritten to change a few rows has all the others on both sides, and those *carried over* are left out. On
demand what is left is paired by key, and a row deleted and added again under the same key is an update.

Rows numbered so that equal rows have equal numbers: columns of any type, nested ones too, in bulk.

Null equals null and NaN equals NaN. Every column is turned into numbers of its distinct values; those of structs and
of several columns are combined two at a time, and a list is the bytes of its items' numbers.

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

from floe.arrow.reading.extra_columns import column_at, narrowing
from floe.arrow.reading.parallel import Finished, read_in_parallel
from floe.arrow.reading.streams import WAITING_BYTES, OnProgress, Tally, default_workers
from floe.arrow.reading.task_reader import TaskReader
from floe.formats.arrow_conversion import ListBuffers
from floe.formats.arrow_types import arrow_schema
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.registry import Registry
from floe.plan.changelog import AddedRows, ChangelogPlan, ChangeTask, DeletedRows
from floe.spec.schemas.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

# Rows numbered so that equal rows have equal numbers: columns of any type, nested ones too, in bulk.

Numbers = NDArray[np.int64]


def row_numbers(columns: Sequence[pa.Array], count: int) -> Numbers:
    """A number for each of so many rows; rows have the same number if, and only if, they are equal."""
    numbers = np.zeros(count, np.int64)
    for column in columns:
        numbers = _combined(numbers, _numbers(column))
    return numbers


def _combined(one: Numbers, other: Numbers) -> Numbers:
    """Numbers for the pairs of two columns of numbers."""
    if not len(one) or not one.any():
        return other
    return _distinct(pa.array(one * (int(other.max()) + 1) + other))


def _distinct(array: pa.Array) -> Numbers:
    encoded = array.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _numbers(array: pa.Array) -> Numbers:
    type_ = array.type
    if pa.types.is_struct(type_):
        known = np.asarray(array.is_valid()).astype(np.int64)
        children = (pc.struct_field(array, [place]) for place in range(type_.num_fields))
        return row_numbers([pa.array(known), *children], len(array))
    if pa.types.is_list(type_):
        return _repeated(array, [array.values])
    if pa.types.is_map(type_):
        return _repeated(array, [array.keys, array.items])
    if pa.types.is_null(type_):
        return np.zeros(len(array), np.int64)
    return _distinct(array)


def _repeated(array: pa.Array, children: Sequence[pa.Array]) -> Numbers:
    """Lists as the bytes of the numbers of their items."""
    parts = ListBuffers.of(array)
    items = row_numbers([parts.items(child) for child in children], parts.count)
    offsets = np.frombuffer(parts.offsets, np.int32, len(array) + 1).astype(np.int64) * items.itemsize
    data = pa.py_buffer(np.ascontiguousarray(items))
    return _distinct(
        pa.Array.from_buffers(pa.large_binary(), len(array), [parts.validity, pa.py_buffer(offsets), data])
    )


CHANGE_COLUMNS = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)

_DELETE, _INSERT, _UPDATE_BEFORE, _UPDATE_AFTER = 0, 1, 2, 3
_KINDS = ["DELETE", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER"]


def with_change_columns(schema: Schema) -> Schema:
    """The schema with the columns that tell of a change behind its own.

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
    """The changed rows in the columns of a schema, with those that tell of the change behind them.

    With `keys`, the ids of columns that identify a row, a row that a snapshot deletes and adds again under the same key
    is an UPDATE_BEFORE followed by an UPDATE_AFTER; where several rows have one key, they stay what they are. With
    `carry_over` rows that were only carried from one file to another are given too. Progress is told as far as the
    snapshots are planned: more files may come.
    """
    reader = TaskReader(plan.planner.metadata, storage, registry=registry, batch_size=batch_size)
    reading = _Reading(
        reader,
        plan.planner.schema,
        with_change_columns(schema),
        tuple(keys),
        carry_over,
        batch_size,
        default_workers() if workers is None else workers,
        Tally(progress),
    )
    for _, tasks in groupby(plan.tasks(), key=lambda task: task.ordinal):
        yield from reading.of_snapshot(list(tasks))


@dataclass(frozen=True)
class _Reading:
    reader: TaskReader
    table_schema: Schema
    schema: Schema
    keys: tuple[int, ...]
    carry_over: bool
    batch_size: int
    workers: int
    tally: Tally

    @property
    def columns(self) -> Schema:
        """The columns that are wanted of the files."""
        return Schema(self.schema.fields[: -len(CHANGE_COLUMNS)])

    def of_snapshot(self, tasks: Sequence[ChangeTask]) -> Iterator[pa.RecordBatch]:
        """The changes of one snapshot, what it deleted first."""
        added = [task for task in tasks if isinstance(task, AddedRows)]
        deleted = [task for task in tasks if not isinstance(task, AddedRows)]
        if added and deleted and (self.keys or not self.carry_over):
            yield from self._compared(deleted, added)
        else:
            for task, batch in self._batches([*deleted, *added], self.columns):
                kind = _INSERT if isinstance(task, AddedRows) else _DELETE
                yield self._told(batch, np.full(batch.num_rows, kind), task)

    def _batches(self, tasks: Sequence[ChangeTask], columns: Schema) -> Iterator[tuple[ChangeTask, pa.RecordBatch]]:
        """The batches of some tasks, in their order, each with its task."""

        def read(task: ChangeTask) -> Iterator[pa.RecordBatch]:
            if isinstance(task, DeletedRows):
                return self.reader.newly_deleted(task.task, task.added_deletes, columns)
            return self.reader.batches(task.task, columns)

        place = 0
        self.tally.expect(len(tasks), sum(task.task.length for task in tasks))
        for one in read_in_parallel(read, tasks, workers=min(len(tasks), self.workers), budget=WAITING_BYTES):
            if isinstance(one, Finished):
                self.tally.finished(one.item.task)
                place += 1
            else:
                yield tasks[place], one

    def _told(self, rows: pa.RecordBatch, kinds: Numbers, task: ChangeTask) -> pa.RecordBatch:
        """Rows with the columns that tell of the change."""
        told = [
            pa.array(_KINDS).take(pa.array(kinds)),
            pa.repeat(pa.scalar(task.ordinal, pa.int32()), len(kinds)),
            pa.repeat(pa.scalar(task.snapshot_id, pa.int64()), len(kinds)),
        ]
        self.tally.given(len(kinds))
        return pa.RecordBatch.from_arrays([*rows.columns, *told], schema=arrow_schema(self.schema))

    # rows on both sides ----------------------------------------------------------------------------------------------

    def _compared(self, deleted: Sequence[ChangeTask], added: Sequence[ChangeTask]) -> Iterator[pa.RecordBatch]:
        # whole rows are compared, whatever was asked for: else a change of another column would be none
        own = self.table_schema.by_id
        extra = [field for field in self.columns.fields if field.id not in own]
        read = Schema((*self.table_schema.fields, *extra))
        before, after = (self._gathered(tasks, read) for tasks in (deleted, added))
        kinds = np.repeat(np.array([_DELETE, _INSERT]), [before.num_rows, after.num_rows])
        rows = pa.concat_batches([before, after])
        if not self.carry_over and len(kinds):
            numbers = self._numbers(rows, read, [field.id for field in self.table_schema.fields])
            keep = ~_on_both_sides(numbers, kinds)
            rows, kinds = rows.filter(pa.array(keep)), kinds[keep]
        if self.keys and len(kinds):
            order, kinds = _with_updates(self._numbers(rows, read, self.keys), kinds)
            rows = rows.take(pa.array(order))
        if len(kinds):
            told = self._told(narrowing(read, self.columns)(rows), kinds, deleted[0])
            yield from (told.slice(start, self.batch_size) for start in range(0, told.num_rows, self.batch_size))

    def _gathered(self, tasks: Sequence[ChangeTask], columns: Schema) -> pa.RecordBatch:
        nothing = pa.RecordBatch.from_pylist([], arrow_schema(columns))
        return pa.concat_batches([nothing, *(batch for _, batch in self._batches(tasks, columns))])

    @staticmethod
    def _numbers(rows: pa.RecordBatch, schema: Schema, ids: Sequence[int]) -> Numbers:
        return row_numbers([column_at(schema, rows, field_id) for field_id in ids], rows.num_rows)


def _on_both_sides(numbers: Numbers, kinds: Numbers) -> NDArray[np.bool_]:
    """Which rows are deleted and added, each of them once for every time that it is on the other side."""
    deleted, added = (np.bincount(numbers[kinds == kind], minlength=int(numbers.max()) + 1) for kind in (0, 1))
    both = np.minimum(deleted, added)
    found = np.zeros(len(numbers), np.bool_)
    for kind in (_DELETE, _INSERT):
        rows = np.flatnonzero(kinds == kind)
        found[rows] = _turns(numbers[rows]) < both[numbers[rows]]
    return found


def _turns(numbers: Numbers) -> Numbers:
    """For each number how many equal ones come before it."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    turns = np.empty(len(numbers), np.int64)
    turns[order] = np.arange(len(numbers)) - np.repeat(starts, np.diff(starts, append=len(numbers)))
    return turns


def _with_updates(numbers: Numbers, kinds: Numbers) -> tuple[Numbers, Numbers]:
    """The order of the rows, and what they are: pairs of the same key are updates, and stand behind all others."""
    deleted, added = (np.bincount(numbers[kinds == kind], minlength=int(numbers.max()) + 1) for kind in (0, 1))
    updated = ((deleted == 1) & (added == 1))[numbers]
    pairs = np.flatnonzero(updated)
    pairs = pairs[np.lexsort((kinds[pairs], numbers[pairs]))]
    order = np.concatenate([np.flatnonzero(~updated), pairs])
    told = np.where(updated, np.where(kinds == _DELETE, _UPDATE_BEFORE, _UPDATE_AFTER), kinds)
    return order, told[order]
