r"""Arrays and maps of many entries at once: stepped over, looked into for some keys, or turned into Python's.

Only the usual form is known here: one block with a positive count, and an empty block. The rest is `Declined`.

>>> window = Window.of(b"\x04\x02\x0a\x04\x0c\x00" * 2)  # {1: 5, 2: 6}, twice
>>> at = np.array([0, 6])
>>> end_of_array(window, at, 2).tolist(), find_counts(window, at, 2).tolist()
([6, 12], [6, 6])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from floe.avro.lanes import Declined, Places, Window, read_longs

__all__ = ["bounds_maps", "counts_maps", "end_of_array", "end_of_bounds", "find_counts", "long_lists"]

_WALKED = 3
_STEPS_PER_LANE = 64
_GUESSES = 4096


def _check_worth(lanes: int, steps: int) -> None:
    """Decline what has few lanes and many steps: it is quicker one by one, and hostile files are made like that."""
    if steps > lanes * _STEPS_PER_LANE:
        raise Declined("arrays of very different lengths")


def _open(window: Window, at: Places) -> tuple[Places, Places]:
    """How many items the arrays at some places have, and where the first ones are."""
    counts, first = read_longs(window, at)
    if counts.size and (counts.min() < 0 or counts.max() > window.size):
        raise Declined("an array in blocks that tell their size")
    return counts, first


def _close(window: Window, at: Places, counts: Places) -> Places:
    """The places behind arrays, given those behind their last items: an empty block follows, unless it came first."""
    some = counts > 0
    if (window.data[at][some] != 0).any():
        raise Declined("an array in several blocks")
    return at + some


def end_of_array(window: Window, at: Places, numbers: int) -> Places:
    """Where the arrays at some places end, whose items consist of so many numbers."""
    counts, first = _open(window, at)
    return _close(window, _after_items(window, first, counts * numbers), counts)


def _after_items(window: Window, first: Places, numbers: Places) -> Places:
    longest = int(numbers.max(initial=0))
    if longest == 0:
        return first
    if longest <= _WALKED:
        at = first
        for n in range(longest):
            at = np.where(numbers > n, read_longs(window, at)[1], at)
        return at
    if numbers.min() > 0:
        return window.after_longs(first, numbers)
    some = np.flatnonzero(numbers)
    at = first.copy()
    at[some] = window.after_longs(first[some], numbers[some])
    return at


def find_counts(window: Window, at: Places, key: int) -> Places:
    """The numbers that maps have for a key, and -1 where they have none.

    Writers keep one order, so the key is first looked for where the first map has it.
    """
    counts, first = _open(window, at)
    found = np.full(len(at), -1, np.int64)
    lanes = np.flatnonzero(counts)
    if not lanes.size:
        return found
    guess = _place_of(window, int(first[lanes[0]]), int(counts[lanes[0]]), key)
    if guess is not None:
        there = lanes[counts[lanes] > guess]
        place = first[there] if guess == 0 else window.after_longs(first[there], np.full(len(there), 2 * guess))
        keys, values_at = read_longs(window, place)
        values, _ = read_longs(window, values_at)
        hit = keys == key
        found[there[hit]] = values[hit]
        missed = np.ones(len(at), np.bool_)
        missed[there[hit]] = False
        lanes = lanes[missed[lanes]]
    place, n, most = first[lanes], 0, int(counts.max())
    while lanes.size:
        _check_worth(len(lanes), most - n)
        more = counts[lanes] > n
        lanes, place, n = lanes[more], place[more], n + 1
        keys, place = read_longs(window, place)
        values, place = read_longs(window, place)
        hit = keys == key
        if hit.any():
            found[lanes[hit]] = values[hit]
            lanes, place = lanes[~hit], place[~hit]
    return found


def _place_of(window: Window, at: int, count: int, key: int) -> int | None:
    """At which place of one map a key is."""
    place = np.array([at])
    for n in range(min(count, _GUESSES)):
        keys, place = read_longs(window, place)
        if keys[0] == key:
            return n
        _, place = read_longs(window, place)
    return None


Slices = tuple[Places, Places]
"""Where byte strings start, and how long they are; a negative length where there is none."""


def end_of_bounds(window: Window, at: Places, keys: Collection[int] = ()) -> tuple[Places, dict[int, Slices]]:
    """Where maps of byte strings end, and the strings that they have for some keys.

    >>> end, found = end_of_bounds(Window.of(bytes.fromhex("0202046162") + bytes(1)), np.array([0]), [1])
    >>> end.tolist(), [part.tolist() for part in found[1]]
    ([6], [[3], [2]])
    """
    counts, place = _open(window, at)
    found = {key: (np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)) for key in keys}
    if counts.size == 0:
        return at, found
    fewest, most = int(counts.min()), int(counts.max())
    for n in range(most):
        lanes: Any = slice(None) if n < fewest else np.flatnonzero(counts > n)
        _check_worth(len(counts) if n < fewest else len(lanes), most - n)
        own, starts, sizes = _pair(window, place[lanes])
        for key, (slice_starts, slice_sizes) in found.items():
            hit = own == key
            if hit.all():
                slice_starts[lanes], slice_sizes[lanes] = starts, sizes
            elif hit.any():
                which = np.flatnonzero(hit) if n < fewest else lanes[hit]
                slice_starts[which], slice_sizes[which] = starts[hit], sizes[hit]
        if n < fewest:
            place = starts + sizes
        else:
            place = place.copy() if n == fewest else place
            place[lanes] = starts + sizes
    return _close(window, place, counts), found


def _pair(window: Window, at: Places) -> tuple[Places, Places, Places]:
    """The keys at some places, and where the byte strings behind them start and how long they are."""
    keys, sizes = window.data[at], window.data[at + 1]
    if not ((keys & 0x81) | (sizes & 0x81)).any():  # one byte each, and neither is negative
        return (keys >> 1).astype(np.int64), at + 2, (sizes >> 1).astype(np.int64)
    wide_keys, at = read_longs(window, at)
    wide_sizes, at = read_longs(window, at)
    if wide_sizes.min() < 0 or wide_sizes.max() > window.size:
        raise Declined("a length beyond the end")
    return wide_keys, at, wide_sizes


# into Python's lists and dicts ----------------------------------------------------------------------------------


def _groups(counts: Places) -> list[tuple[int, Places]]:
    """The lanes whose arrays have the same number of items, together."""
    if not counts.size:
        return []
    order = np.argsort(counts, kind="stable")
    sizes, begins = np.unique(counts[order], return_index=True)
    return list(zip(sizes.tolist(), np.split(order, begins[1:]), strict=True))


def _dicts(keys: list[Places], values: Iterable[Any], lanes: int) -> list[dict[int, Any]]:
    """One dict for each lane, from the columns of its keys and all values, one lane after another.

    The values come from one iterator, from which each dict takes as many as it has keys.
    """
    if not keys:
        return [{} for _ in range(lanes)]
    table = np.stack(keys, axis=1)
    one_by_one = iter(values)
    if (table == table[0]).all():
        shared = table[0].tolist()
        return [dict(zip(shared, one_by_one, strict=False)) for _ in range(lanes)]
    return [dict(zip(own, one_by_one, strict=False)) for own in table.tolist()]


def _in_rows(columns: list[Places]) -> list[int]:
    return np.stack(columns, axis=1).ravel().tolist() if columns else []


def counts_maps(window: Window, at: Places) -> list[dict[int, int]]:
    """The maps of numbers at some places."""
    counts, first = _open(window, at)
    found: list[dict[int, int]] = [{}] * len(at)
    for count, lanes in _groups(counts):
        _check_worth(len(lanes), count)
        keys, values, place = [], [], first[lanes]
        for _ in range(count):
            key, place = read_longs(window, place)
            value, place = read_longs(window, place)
            keys.append(key)
            values.append(value)
        _close(window, place, counts[lanes])
        for lane, one in zip(lanes.tolist(), _dicts(keys, _in_rows(values), len(lanes)), strict=True):
            found[lane] = one
    return found


def bounds_maps(window: Window, raw: bytes, at: Places) -> list[dict[int, bytes]]:
    """The maps of byte strings at some places of a window, which is that of `raw`."""
    counts, first = _open(window, at)
    found: list[dict[int, bytes]] = [{}] * len(at)
    for count, lanes in _groups(counts):
        _check_worth(len(lanes), count)
        keys, begins, ends, place = [], [], [], first[lanes]
        for _ in range(count):
            key, start, size = _pair(window, place)
            place = start + size
            keys.append(key)
            begins.append(start)
            ends.append(place)
        _close(window, place, counts[lanes])
        strings = [raw[begin:end] for begin, end in zip(_in_rows(begins), _in_rows(ends), strict=True)]
        for lane, one in zip(lanes.tolist(), _dicts(keys, strings, len(lanes)), strict=True):
            found[lane] = one
    return found


def long_lists(window: Window, at: Places) -> list[tuple[int, ...]]:
    """The arrays of numbers at some places."""
    counts, first = _open(window, at)
    found: list[tuple[int, ...]] = [()] * len(at)
    for count, lanes in _groups(counts):
        _check_worth(len(lanes), count)
        values, place = [], first[lanes]
        for _ in range(count):
            value, place = read_longs(window, place)
            values.append(value)
        _close(window, place, counts[lanes])
        rows = np.stack(values, axis=1).tolist() if values else [[] for _ in lanes]
        for lane, row in zip(lanes.tolist(), rows, strict=True):
            found[lane] = tuple(row)
    return found
