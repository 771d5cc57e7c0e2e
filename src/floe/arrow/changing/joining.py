"""Which rows of a source belong to which rows of a table: an index over the source's keys, looked up column by column.

Keys are compared as SQL compares them: null is equal to nothing (but for `<=>`), NaN is equal to itself, and so are
the two zeros. Each key column becomes numbers, one for each distinct value of the source; several columns together
become one number. All of it is done for many rows at a time.

>>> import pyarrow as pa
>>> index = KeyIndex([pa.array([7, 8, 7, None])], [False])
>>> rows, sources = index.pairs([pa.array([8, None, 7])])
>>> list(zip(rows.tolist(), sources.tolist()))
[(0, 1), (2, 0), (2, 2)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.changing.touched import Positions, located
from floe.arrow.values.rows import Mask

__all__ = ["KeyIndex"]


class KeyIndex:
    """The rows of a source by their keys."""

    def __init__(self, keys: Sequence[pa.Array], null_safe: Sequence[bool], usable: Mask | None = None) -> None:
        self._null_safe = tuple(null_safe)
        self._values: list[pa.Array] = []
        self._combined: list[Positions] = []
        """For each key column but the first, the numbers that it makes with those before it, ascending."""

        codes = np.zeros(len(keys[0]), np.int64)
        for number, (key, safe) in enumerate(zip(keys, self._null_safe, strict=True)):
            key = _normal(key)
            values = pc.unique(key)
            self._values.append(values if safe else values.drop_null())
            codes = self._step(number, codes, _numbers(key, self._values[-1], safe))
        numbers = np.arange(codes.max(initial=-1) + 2)
        if usable is not None:
            codes = np.where(usable, codes, -1)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] >= 0]
        self._order = order
        self._starts = np.searchsorted(codes[order], numbers)

    @property
    def has_duplicates(self) -> bool:
        """Whether two rows of the source have the same key."""
        return bool((np.diff(self._starts) > 1).any())

    def first_duplicate(self) -> int:
        """A row of the source whose key another one has too."""
        number = int(np.flatnonzero(np.diff(self._starts) > 1)[0])
        return int(self._order[self._starts[number]])

    def pairs(self, keys: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """The rows of a table, given by their keys, each beside every row of the source that has the same key."""
        codes = np.zeros(len(keys[0]), np.int64)
        for number, (key, safe) in enumerate(zip(keys, self._null_safe, strict=True)):
            codes = self._step(number, codes, _numbers(_normal(key), self._values[number], safe), known=True)
        rows = np.flatnonzero(codes >= 0)
        found = codes[rows]
        begins = self._starts[found]
        counts = self._starts[found + 1] - begins
        firsts = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
        return np.repeat(rows, counts), self._order[np.repeat(begins, counts) + within]

    def _step(self, number: int, codes: Positions, column: Positions, *, known: bool = False) -> Positions:
        """The numbers of the key columns so far, with one more; -1 where a key is missing."""
        if number == 0:
            return column
        both = np.where((codes >= 0) & (column >= 0), codes * max(len(self._values[number]), 1) + column, -1)
        if not known:
            self._combined.append(np.unique(both[both >= 0]))
        return np.where(both >= 0, located(both, self._combined[number - 1]), -1)


def _normal(key: pa.Array) -> pa.Array:
    """One zero instead of two, and one NaN."""
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), pc.add(key, pa.scalar(0.0, key.type)))


def _numbers(key: pa.Array, values: pa.Array, null_safe: bool) -> Positions:
    found = pc.index_in(key, value_set=values, skip_nulls=not null_safe)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
