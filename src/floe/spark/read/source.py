"""The files of a plan that a scan reads: all of them, or those that one of its readers takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.plan.delete_files import DeleteKind
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask

__all__ = ["PlannedFiles"]

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


_NOTHING = np.zeros(0, np.int64)


class _Deletes(NamedTuple):
    """What is known of the deletes of some files."""

    positions: tuple[Places, Places]
    compared: Mask
    """Which of the files have deletes that compare columns."""

    comparing: Mask
    """Which of the plan's deletes these are."""


class PlannedFiles:
    """Some files of a plan, in its order, as columns and as tasks."""

    def __init__(self, plan: ScanPlan, table: pa.Table | None = None, places: Places | None = None) -> None:
        self.plan = plan
        self.table: pa.Table = plan.files_to_arrow() if table is None else table
        """The files as `ScanPlan.files_to_arrow` gives them."""

        self._places = np.arange(self.table.num_rows) if places is None else places

    def __len__(self) -> int:
        return int(self.table.num_rows)

    # choosing ----------------------------------------------------------------------------------------------------

    def keeping(self, kept: Mask) -> PlannedFiles:
        """Some of these."""
        if kept.all():
            return self
        return PlannedFiles(self.plan, self.table.filter(pa.array(kept)), self._places[kept])

    def among(self, paths: Collection[str], *, inside: bool = True) -> PlannedFiles:
        """Those with one of some paths, or those with none of them."""
        found = pc.is_in(self.table["file_path"], value_set=pa.array(paths, pa.string())).to_numpy()
        return self.keeping(found if inside else ~found)

    def first(self, rows: int | None) -> PlannedFiles:
        """As many as have so many rows."""
        if rows is None:
            return self
        counted = np.cumsum(np.maximum(self.record_counts, 0))
        return self.keeping(np.arange(len(self)) <= np.searchsorted(counted, rows))

    # what is known of each ---------------------------------------------------------------------------------------

    @property
    def record_counts(self) -> Places:
        """How many rows each has; -1 where nobody counted."""
        return np.asarray(self.table["record_count"].to_numpy())

    @property
    def partition_numbers(self) -> Places:
        """A number for the partition of each that deletes of the same partition have too; -1 if there are none."""
        numbers = [matched.partition for matched in self.plan.matched]
        return np.concatenate(numbers)[self._places] if numbers else np.full(len(self), -1)

    @cached_property
    def position_deletes(self) -> tuple[Places, Places]:
        """Pairs of a file and the number of a delete that names positions in it."""
        return self._deletes.positions

    @cached_property
    def equality_deletes(self) -> Places:
        """The numbers of the deletes that compare columns of one of the files at least."""
        return np.flatnonzero(self._deletes.comparing)

    @cached_property
    def with_positions(self) -> Mask:
        """Which files have deletes that name positions."""
        found = np.zeros(len(self), np.bool_)
        found[self.position_deletes[0]] = True
        return found

    @cached_property
    def with_keys(self) -> Mask:
        """Which files have deletes that compare columns."""
        return self._deletes.compared

    @cached_property
    def _deletes(self) -> _Deletes:
        """Looked at some files at a time: deletes that compare columns may all apply to all files."""
        compared, index = np.zeros(len(self), np.bool_), self.plan.deletes
        if index is None:
            return _Deletes((_NOTHING, _NOTHING), compared, np.zeros(0, np.bool_))
        comparing = np.zeros(len(index), np.bool_)
        files, numbers = [_NOTHING], [_NOTHING]
        for first, number, rows in self._blocks(self._places):
            offsets, deletes = self.plan.deletes_of(number, rows)
            owners = np.repeat(np.arange(first, first + len(rows)), np.diff(offsets))
            by_key = index.deletes.kind[deletes] >= DeleteKind.EQUALITY
            compared[owners[by_key]] = True
            comparing[deletes[by_key]] = True
            files.append(owners[~by_key])
            numbers.append(deletes[~by_key])
        return _Deletes((np.concatenate(files), np.concatenate(numbers)), compared, comparing)

    @cached_property
    def live_rows(self) -> int:
        """About how many rows are left of them; what equality deletes delete is not known."""
        rows = int(np.maximum(self.record_counts, 0).sum())
        numbers = np.unique(self.position_deletes[1])
        if self.plan.deletes is None or not numbers.size:
            return rows
        return max(0, rows - int(self.plan.deletes.deletes.record_count[numbers].sum()))

    # tasks -------------------------------------------------------------------------------------------------------

    def tasks(self, chosen: Mask | None = None) -> Iterator[FileTask]:
        """A task for each of them, or for some."""
        for _, number, rows in self._blocks(self._places if chosen is None else self._places[chosen]):
            yield from self.plan.some_tasks(number, rows)

    def _blocks(self, places: Places) -> Iterator[tuple[int, int, Places]]:
        """Some files after others: how many were before, the number of their chunk, and their places in it."""
        begin = 0
        for number, chunk in enumerate(self.plan.chunks):
            low, high = np.searchsorted(places, [begin, begin + len(chunk)])
            own, size = places[low:high] - begin, self.plan.block(number)
            for start in range(0, len(own), size):
                yield int(low) + start, number, own[start : start + size]
            begin += len(chunk)
