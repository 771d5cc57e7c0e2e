"""What becomes of the rows of a file: which are deleted, which are changed, by position."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.plan.tasks import FileTask

__all__ = ["NOWHERE", "Positions", "Touched", "bitmap", "located"]

Positions = NDArray[np.int64]
"""Positions of rows in a file, or places in some rows."""

NOWHERE: Positions = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Touched:
    """A file with rows that a statement deletes or changes; positions ascend."""

    task: FileTask
    deleted: Positions = field(default_factory=lambda: NOWHERE)
    updated: Positions = field(default_factory=lambda: NOWHERE)
    clause: Positions = field(default_factory=lambda: NOWHERE)
    """For each changed row, the number of the clause that changes it."""

    source: Positions = field(default_factory=lambda: NOWHERE)
    """For each changed row, the row of the source that it is changed by; -1 for none."""

    whole: bool = False
    """Whether all rows go, as metadata tells; no position is known then."""

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.task.file.file_path

    @property
    def positions(self) -> BitMap64:
        """The rows that are not live in the file afterwards."""
        return bitmap(self.deleted) | bitmap(self.updated)


def bitmap(positions: Positions) -> BitMap64:
    """Positions as a set.

    >>> list(bitmap(np.array([3, 5])))
    [3, 5]
    """
    return BitMap64(positions.astype(np.uint64))


def located(wanted: Positions, among: Positions) -> Positions:
    """Where each of some values stands among ascending ones; -1 for those that do not.

    >>> located(np.array([5, 4]), np.array([3, 5])).tolist()
    [1, -1]
    """
    if not len(among):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return np.where(among[places] == wanted, places, -1)
