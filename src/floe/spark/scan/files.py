"""The files of a plan that a scan reads: all of them, or those that one of its readers takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

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


class PlannedFiles:
    """Some files of a plan, in its order, as columns and as tasks."""

    def __init__(self, plan: ScanPlan, table: pa.Table | None = None, places: Places | None = None) -> None:
        self.plan = plan
        self.table: pa.Table = plan.to_arrow() if table is None else table
        """The files as `ScanPlan.to_arrow` gives them."""

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
    def _deletes(self) -> tuple[Places, Places]:
        """Pairs of a file and the number of a delete that applies to it."""
        lists = self.table["deletes"].combine_chunks()
        counts = np.diff(np.asarray(lists.offsets))
        return np.repeat(np.arange(len(self)), counts), np.asarray(lists.flatten())

    def deletes(self, *, equality: bool) -> tuple[Places, Places]:
        """Pairs of a file and a delete of it, either those that compare columns or those that name positions."""
        files, deletes = self._deletes
        if self.plan.deletes is None:
            return files, deletes
        chosen = (self.plan.deletes.deletes.kind[deletes] >= DeleteKind.EQUALITY) == equality
        return files[chosen], deletes[chosen]

    def with_deletes(self, *, equality: bool) -> Mask:
        """Which of them have such deletes."""
        found = np.zeros(len(self), np.bool_)
        found[self.deletes(equality=equality)[0]] = True
        return found

    @cached_property
    def live_rows(self) -> int:
        """About how many rows are left of them; what equality deletes delete is not known."""
        rows = int(np.maximum(self.record_counts, 0).sum())
        numbers = np.unique(self.deletes(equality=False)[1])
        if self.plan.deletes is None or not numbers.size:
            return rows
        return max(0, rows - int(self.plan.deletes.deletes.record_count[numbers].sum()))

    # tasks -------------------------------------------------------------------------------------------------------

    def tasks(self, chosen: Mask | None = None) -> Iterator[FileTask]:
        """A task for each of them, or for some."""
        places = self._places if chosen is None else self._places[chosen]
        begin = 0
        for number, chunk in enumerate(self.plan.chunks):
            low, high = np.searchsorted(places, [begin, begin + len(chunk)])
            own, size = places[low:high] - begin, self.plan.block(number)
            for start in range(0, len(own), size):
                yield from self.plan.some_tasks(number, own[start : start + size])
            begin += len(chunk)
