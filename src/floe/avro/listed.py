"""Manifests that are read together: what each row of their joined columns inherits from its own manifest.

>>> two = Listed.of([ManifestFile("a", 9, 0, sequence_number=4), ManifestFile("b", 9, 0, sequence_number=5)], [1, 2])
>>> two.spread(lambda manifest: manifest.sequence_number).tolist(), two.manifest_of(2).manifest_path
([4, 5, 5], 'b')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floe.spec.manifests.entries import ManifestFile

__all__ = ["Listed"]

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Listed:
    """Manifests of one spec and content, and how many rows each has, one after another."""

    manifests: tuple[ManifestFile, ...]
    counts: Places

    @classmethod
    def of(cls, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> Listed:
        """The manifests with the counts of their rows.

        >>> len(Listed.of([], []))
        0
        """
        return cls(tuple(manifests), np.array(counts, np.int64))

    def __len__(self) -> int:
        return len(self.manifests)

    def spread(self, value: Callable[[ManifestFile], int]) -> Places:
        """A number of each manifest, for each of its rows."""
        values = np.array([value(manifest) for manifest in self.manifests], np.int64)
        if len(values) and (values == values[0]).all():
            return np.broadcast_to(values[0], (int(self.counts.sum()),))
        return np.repeat(values, self.counts)

    @property
    def begins(self) -> Places:
        """The first row of each manifest, also where it has none."""
        return np.cumsum(self.counts) - self.counts

    def manifest_of(self, row: int) -> ManifestFile:
        """The manifest of a row."""
        return self.manifests[int(np.searchsorted(np.cumsum(self.counts), row, "right"))]

    def take(self, rows: Places) -> Listed:
        """The manifests of some rows, which are in ascending order.

        >>> Listed.of([ManifestFile("a", 9, 0), ManifestFile("b", 9, 0)], [2, 2]).take(np.array([1, 2, 3])).counts
        array([1, 2])
        """
        numbers = np.searchsorted(np.cumsum(self.counts), rows, "right")
        return Listed(self.manifests, np.bincount(numbers, minlength=len(self)).astype(np.int64))
