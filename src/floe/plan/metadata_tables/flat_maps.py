"""The maps and lists of many manifest entries, in flat arrays: the count of each, and all items.

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

    is_valid: Mask
    counts: Offsets
    items: Offsets


@dataclass(frozen=True, eq=False)
class FlatMaps:
    """Maps from column ids to numbers or byte strings."""

    is_valid: Mask
    counts: Offsets
    keys: Offsets
    values: Offsets | VarBytes

    def find(self, key: int) -> tuple[Offsets, Offsets]:
        """The entries whose maps have a key, and the indices of its values among all values."""
        entries, order, keys = self._by_key
        begin, end = np.searchsorted(keys, [key, key + 1])
        indices = order[begin:end]
        return entries[indices], indices

    @cached_property
    def _by_key(self) -> tuple[Offsets, Offsets, Offsets]:
        """The entry of each pair, the order of pairs by key, and the sorted keys."""
        order = np.argsort(self.keys, kind="stable")
        return np.repeat(np.arange(len(self.counts)), self.counts), order, self.keys[order]


def flat_lists(stored: StoredColumns, name: str, rows: Offsets) -> FlatLists:
    """The lists of numbers in a field of entries."""
    located = _locate_values(stored, name, rows)
    if located is None:
        return FlatLists(*_nothing(len(rows)), np.zeros(0, np.int64))
    _, offsets, present = located
    try:
        counts, (items,) = _numbers(stored.scan.window, offsets, 1)
    except UnusualEncoding:
        lists = [items_of_entry or () for items_of_entry in stored.lists(name, rows[present])]
        counts = np.array([len(items_of_entry) for items_of_entry in lists], np.int64)
        items = np.array([item for items_of_entry in lists for item in items_of_entry], np.int64)
    return FlatLists(present, _spread(counts, present), items)


def flat_maps(stored: StoredColumns, name: str, rows: Offsets) -> FlatMaps:
    """The maps in a field of entries."""
    located = _locate_values(stored, name, rows)
    if located is None:
        return FlatMaps(*_nothing(len(rows)), np.zeros(0, np.int64), np.zeros(0, np.int64))
    slot, offsets, present = located
    window = stored.scan.window
    try:
        if slot.shape == "long_map":
            counts, (keys, numbers) = _numbers(window, offsets, 2)
            return FlatMaps(present, _spread(counts, present), keys, numbers)
        if slot.shape == "bytes_map":
            counts, keys, strings = _strings(window, offsets)
            return FlatMaps(present, _spread(counts, present), keys, strings)
    except UnusualEncoding:
        pass
    return _read_maps_singly(stored, name, rows, present)


def _read_maps_singly(stored: StoredColumns, name: str, rows: Offsets, present: Mask) -> FlatMaps:
    maps: list[dict[int, Any]] = [by_column or {} for by_column in stored.maps(name, rows[present])]
    counts = _spread(np.array([len(by_column) for by_column in maps], np.int64), present)
    keys = np.array([key for by_column in maps for key in by_column], np.int64)
    values = [value for by_column in maps for value in by_column.values()]
    if name in ("lower_bounds", "upper_bounds"):
        return FlatMaps(present, counts, keys, VarBytes.of(values))
    return FlatMaps(present, counts, keys, np.array(values, np.int64))


def _nothing(count: int) -> tuple[Mask, Offsets]:
    return np.zeros(count, np.bool_), np.zeros(count, np.int64)


def _locate_values(stored: StoredColumns, name: str, rows: Offsets) -> tuple[Slot, Offsets, Mask] | None:
    """The slot of a field, where the values of some entries are that have one, and which have."""
    scan = stored.scan
    number = scan.layout.index.get(name)
    if number is None:
        return None
    slot, starts, valid = scan.layout.slots[number], scan.starts[number], scan.valid[number]
    present = np.ones(len(rows), np.bool_) if valid is None else valid[rows]
    return slot, starts[rows[present]] + (slot.tag is not None), present


def _spread(counts: Offsets, present: Mask) -> Offsets:
    spread = np.zeros(len(present), np.int64)
    spread[present] = counts
    return spread


def _open(window: PaddedBytes, offsets: Offsets) -> tuple[Offsets, Offsets]:
    """How many items the arrays at some places have, and where the first ones are."""
    counts, first = read_longs(window, offsets)
    if counts.size and (counts.min() < 0 or counts.sum() > window.size):
        raise UnusualEncoding("an array in blocks that tell their size")
    return counts, first.astype(np.int64)


def _close(window: PaddedBytes, offsets: Offsets, counts: Offsets) -> None:
    """Decline unless an empty block follows the items of every array that has some."""
    if (window.data[offsets[counts > 0]] != 0).any():
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


def _numbers(window: PaddedBytes, offsets: Offsets, parts: int) -> tuple[Offsets, list[Offsets]]:
    """The counts of arrays whose items are so many numbers each, and the first, second, … numbers of all items."""
    counts, offset = _open(window, offsets)
    columns = [np.zeros(int(counts.sum()), np.int64) for _ in range(parts)]
    for lanes, flat in _steps(counts):
        after = offset[lanes]
        for part in columns:
            part[flat], after = read_longs(window, after)
        offset[lanes] = after
    _close(window, offset, counts)
    return counts, columns


def _strings(window: PaddedBytes, offsets: Offsets) -> tuple[Offsets, Offsets, VarBytes]:
    """The counts of maps of byte strings, and all their keys and strings."""
    counts, offset = _open(window, offsets)
    keys, starts, lengths = (np.zeros(int(counts.sum()), np.int64) for _ in range(3))
    for lanes, flat in _steps(counts):
        keys[flat], after = read_longs(window, offset[lanes])
        sizes, after = read_longs(window, after)
        if sizes.min() < 0 or (after + sizes).max() > window.size:
            raise UnusualEncoding("a length beyond the end")
        starts[flat], lengths[flat] = after, sizes
        offset[lanes] = after + sizes
    _close(window, offset, counts)
    return counts, keys, VarBytes(window.data, starts, lengths)
