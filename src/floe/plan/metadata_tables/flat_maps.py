"""The maps and lists of many entries at once, flat: how many items each has, and all items one after another.

This is how Arrow stores them, and so no Python object is made for an item: the first items of all entries are read
together, then the second ones, and so on. Unusual forms (blocks with sizes, several blocks) are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from floe.avro.manifest_layout import Slot
from floe.avro.stored_columns import StoredColumns
from floe.avro.vector_decoder import Offsets, PaddedBytes, UnusualEncoding, read_longs
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes

_STEPS_PER_ENTRY = 64
"""With so many more steps than entries, stepping together is slower than one by one; hostile files are like that."""


@dataclass(frozen=True, slots=True)
class FlatLists:
    """Lists of numbers; those that are not `known` are null, and have a count of 0."""

    known: Mask
    counts: Offsets
    items: Offsets


@dataclass(frozen=True, eq=False)
class FlatMaps:
    """Maps from column ids to numbers or byte strings."""

    known: Mask
    counts: Offsets
    keys: Offsets
    values: Offsets | VarBytes

    def find(self, key: int) -> tuple[Offsets, Offsets]:
        """The entries whose maps have a key, and where their values are among all values."""
        entries, order, keys = self._by_key
        begin, end = np.searchsorted(keys, [key, key + 1])
        places = order[begin:end]
        return entries[places], places

    @cached_property
    def _by_key(self) -> tuple[Offsets, Offsets, Offsets]:
        """The entry of each pair, the pairs in the order of their keys, and the keys in that order."""
        order = np.argsort(self.keys, kind="stable")
        return np.repeat(np.arange(len(self.counts)), self.counts), order, self.keys[order]


def flat_lists(stored: StoredColumns, name: str, rows: Offsets) -> FlatLists:
    """The lists of numbers that some entries have in a field."""
    found = _places(stored, name, rows)
    if found is None:
        return FlatLists(*_nothing(len(rows)), np.zeros(0, np.int64))
    _, at, known = found
    try:
        counts, (items,) = _numbers(stored.scan.window, at, 1)
    except UnusualEncoding:
        lists = [one or () for one in stored.lists(name, rows[known])]
        counts = np.array([len(one) for one in lists], np.int64)
        items = np.array([item for one in lists for item in one], np.int64)
    return FlatLists(known, _spread(counts, known), items)


def flat_maps(stored: StoredColumns, name: str, rows: Offsets) -> FlatMaps:
    """The maps that some entries have in a field."""
    found = _places(stored, name, rows)
    if found is None:
        return FlatMaps(*_nothing(len(rows)), np.zeros(0, np.int64), np.zeros(0, np.int64))
    slot, at, known = found
    window = stored.scan.window
    try:
        if slot.shape == "long_map":
            counts, (keys, numbers) = _numbers(window, at, 2)
            return FlatMaps(known, _spread(counts, known), keys, numbers)
        if slot.shape == "bytes_map":
            counts, keys, strings = _strings(window, at)
            return FlatMaps(known, _spread(counts, known), keys, strings)
    except UnusualEncoding:
        pass
    return _one_by_one(stored, name, rows, known)


def _one_by_one(stored: StoredColumns, name: str, rows: Offsets, known: Mask) -> FlatMaps:
    maps: list[dict[int, Any]] = [one or {} for one in stored.maps(name, rows[known])]
    counts = _spread(np.array([len(one) for one in maps], np.int64), known)
    keys = np.array([key for one in maps for key in one], np.int64)
    values = [value for one in maps for value in one.values()]
    if name in ("lower_bounds", "upper_bounds"):
        return FlatMaps(known, counts, keys, VarBytes.of(values))
    return FlatMaps(known, counts, keys, np.array(values, np.int64))


def _nothing(count: int) -> tuple[Mask, Offsets]:
    return np.zeros(count, np.bool_), np.zeros(count, np.int64)


def _places(stored: StoredColumns, name: str, rows: Offsets) -> tuple[Slot, Offsets, Mask] | None:
    """The slot of a field, where the values of some entries are that have one, and which have."""
    scan = stored.scan
    number = scan.layout.index.get(name)
    if number is None:
        return None
    slot, starts, valid = scan.layout.slots[number], scan.starts[number], scan.valid[number]
    known = np.ones(len(rows), np.bool_) if valid is None else valid[rows]
    return slot, starts[rows[known]] + (slot.tag is not None), known


def _spread(counts: Offsets, known: Mask) -> Offsets:
    found = np.zeros(len(known), np.int64)
    found[known] = counts
    return found


def _open(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets]:
    """How many items the arrays at some places have, and where the first ones are."""
    counts, first = read_longs(window, at)
    if counts.size and (counts.min() < 0 or counts.sum() > window.size):
        raise UnusualEncoding("an array in blocks that tell their size")
    return counts, first.astype(np.int64)


def _close(window: PaddedBytes, at: Offsets, counts: Offsets) -> None:
    """Decline unless an empty block follows the items of every array that has some."""
    if (window.data[at[counts > 0]] != 0).any():
        raise UnusualEncoding("an array in several blocks")


def _steps(counts: Offsets) -> Iterator[tuple[Offsets, Offsets]]:
    """The arrays that have a first item, a second one, and so on, and where these items go among all items."""
    begins = np.cumsum(counts) - counts
    most = int(counts.max(initial=0))
    everywhere = np.arange(len(counts))
    fewest = int(counts.min(initial=most))
    for step in range(most):
        lanes = everywhere if step < fewest else np.flatnonzero(counts > step)
        if most - step > len(lanes) * _STEPS_PER_ENTRY:
            raise UnusualEncoding("arrays of very different lengths")
        yield lanes, begins[lanes] + step


def _numbers(window: PaddedBytes, at: Offsets, parts: int) -> tuple[Offsets, list[Offsets]]:
    """The counts of arrays whose items are so many numbers each, and the first, second, … numbers of all items."""
    counts, place = _open(window, at)
    found = [np.zeros(int(counts.sum()), np.int64) for _ in range(parts)]
    for lanes, flat in _steps(counts):
        after = place[lanes]
        for part in found:
            part[flat], after = read_longs(window, after)
        place[lanes] = after
    _close(window, place, counts)
    return counts, found


def _strings(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets, VarBytes]:
    """The counts of maps of byte strings, and all their keys and strings."""
    counts, place = _open(window, at)
    keys, starts, lengths = (np.zeros(int(counts.sum()), np.int64) for _ in range(3))
    for lanes, flat in _steps(counts):
        keys[flat], after = read_longs(window, place[lanes])
        sizes, after = read_longs(window, after)
        if sizes.min() < 0 or (after + sizes).max() > window.size:
            raise UnusualEncoding("a length beyond the end")
        starts[flat], lengths[flat] = after, sizes
        place[lanes] = after + sizes
    _close(window, place, counts)
    return counts, keys, VarBytes(window.data, starts, lengths)
