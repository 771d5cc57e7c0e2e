r"""Vectorized decoding of Avro: the same field of many entries at once, with NumPy.

Each entry is a *lane*. The functions take `at`, an array with the offset of a value in each lane, and most return an
array with the offsets where the values end. The bytes are a `PaddedBytes`. Runs of longs are skipped with an index of
the bytes that end a long (those below 128), in a fixed number of operations, however long the run is.

>>> window = PaddedBytes.of(b"\x02\x80\x01\x04ab")
>>> read_longs(window, np.array([0, 1, 3]))
(array([ 1, 64,  2]), array([1, 3, 4]))
>>> window.after_longs(np.array([0, 1]), np.array([2, 1])).tolist()
[3, 3]

Arrays and maps can be skipped, searched for a key, or decoded into Python objects:

>>> window = PaddedBytes.of(b"\x04\x02\x0a\x04\x0c\x00" * 2)  # {1: 5, 2: 6}, twice
>>> at = np.array([0, 6])
>>> end_of_array(window, at, 2).tolist(), find_counts(window, at, 2).tolist()
([6, 12], [6, 6])

Only the form that writers use is supported: an array or map is one block with a positive count, then an empty block.
Everything else raises `UnusualEncoding`; the caller then decodes entry by entry, with `floe.avro.records`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes and longs ----------------------------------------------------------------------------------------------

Offsets = NDArray[np.int64]
_U64 = np.uint64
_Words = NDArray[np.uint64]

PADDING = 256
"""How many bytes follow the content of a `PaddedBytes`: words can be read at its end, and its index has whole words."""

_WORD, _PAGE = 8, 64
_ONE = _U64(1)
_HIGH_BITS = _U64(0x8080808080808080)
_COLLECT_BITS = _U64(0x0002040810204081)
# each step joins pairs of neighbouring groups of bits: 7 bits to 14, to 28, to 56
_JOIN = (
    (_U64(0x007F007F007F007F), _U64(0x7F007F007F007F00), _U64(1)),
    (_U64(0x00003FFF00003FFF), _U64(0x3FFF00003FFF0000), _U64(2)),
    (_U64(0x000000000FFFFFFF), _U64(0x0FFFFFFF00000000), _U64(4)),
)
_HALVES = tuple((_U64(n), _U64((1 << n) - 1), n) for n in (32, 16, 8, 4, 2, 1))


class UnusualEncoding(Exception):
    """The bytes do not have the form that this module supports. They may still be valid."""


class PaddedBytes:
    """Bytes to decode, followed by `PADDING` bytes of padding; `size` is the number of bytes without the padding."""

    __slots__ = ("_before", "_ends", "_upto", "data", "size", "words")

    def __init__(self, data: NDArray[np.uint8], size: int) -> None:
        self.data = data
        self.size = size
        self.words: NDArray[Any] = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
        """The word of eight bytes that starts at each offset."""

        self._ends: _Words | None = None

    @classmethod
    def of(cls, content: bytes) -> PaddedBytes:
        """Copy some bytes and add the padding."""
        return cls(np.frombuffer(content + bytes(PADDING), np.uint8), len(content))

    def _index(self) -> _Words:
        """Build the index: a bit for each byte that ends a long, and the number of set bits before and up to each word.

        A word of the index has the bits of 64 bytes, a *page*.
        """
        pages = (self.size + _PAGE) // _PAGE
        words = self.data[: pages * _PAGE].view("<u8").astype(_U64, copy=False)
        # one multiplication collects the highest bits of eight bytes in one byte
        bits = ((~words & _HIGH_BITS) * _COLLECT_BITS) >> _U64(56)
        self._ends = bits.astype(np.uint8).view("<u8").astype(_U64, copy=False)
        counts = np.bitwise_count(self._ends)
        self._upto = np.cumsum(counts, dtype=np.int32)
        self._before = self._upto - counts
        return self._ends

    def after_longs(self, at: Offsets, count: Offsets) -> Offsets:
        """The offsets behind `count` longs, of which each lane has at least one."""
        ends = self._index() if self._ends is None else self._ends
        page = at >> 6
        if page.max(initial=0) >= len(ends):
            raise UnusualEncoding("beyond the end")
        below = (_ONE << (at & 63).view(_U64)) - _ONE
        end_index = self._before[page] + np.bitwise_count(ends[page] & below) + (count - 1)
        if end_index.max(initial=0) >= int(self._upto[-1]):
            raise UnusualEncoding("beyond the end")
        page = np.searchsorted(self._upto, end_index.astype(np.int32), side="right")
        index_in_page = (end_index - self._before[page]).astype(np.uint8)
        bits = ends[page]
        # binary search for the bit in the word of each lane, in halves of 32, 16, 8, 4, 2 and 1 bits
        offsets: Offsets = page << 6
        for shift, mask, step in _HALVES:
            low = bits & mask
            ends_below = np.bitwise_count(low)
            in_upper_half = index_in_page >= ends_below
            index_in_page = index_in_page - ends_below * in_upper_half
            bits = np.where(in_upper_half, bits >> shift, low)
            offsets = offsets + in_upper_half * np.int64(step)
        return offsets + 1


def read_longs(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets]:
    """Read the longs at some offsets; returns them, and the offsets where they end."""
    first = window.data[at]
    if not (first & 0x80).any():
        numbers = first.astype(np.int64)
        return (numbers >> 1) ^ -(numbers & 1), at + 1
    words = window.words[at].astype(_U64)
    ends = ~words & _HIGH_BITS
    lowest = ends & (_U64(0) - ends)
    sizes = ((np.bitwise_count(lowest - _ONE) + np.uint8(1)) >> 3).astype(np.int64)
    words &= (lowest << _ONE) - _ONE  # if none of the eight bytes is an end, all are kept
    for low, high, shift in _JOIN:
        words = (words & low) | ((words & high) >> shift)
    long = np.flatnonzero(ends == 0)
    if long.size:
        _read_ninth_and_tenth_bytes(window, at, words, sizes, long)
    return ((words >> _ONE) ^ (_U64(0) - (words & _ONE))).view(np.int64), at + sizes


def _read_ninth_and_tenth_bytes(
    window: PaddedBytes, at: Offsets, words: _Words, sizes: Offsets, lanes: Offsets
) -> None:
    """Add the ninth and tenth bytes of the longs that have them; the tenth has one bit."""
    ninth, tenth = window.data[at[lanes] + 8], window.data[at[lanes] + 9]
    has_tenth = ninth >= 0x80
    if (tenth[has_tenth] > 1).any():
        raise UnusualEncoding("a number of more than 64 bits")
    words[lanes] |= (ninth.astype(_U64) & _U64(0x7F)) << _U64(56)
    words[lanes[has_tenth]] |= tenth[has_tenth].astype(_U64) << _U64(63)
    sizes[lanes] = 9 + has_tenth


def end_of_longs(window: PaddedBytes, at: Offsets) -> Offsets:
    """The offsets where the longs at some offsets end."""
    if not (window.data[at] & 0x80).any():
        return at + 1
    ends = ~window.words[at].astype(_U64) & _HIGH_BITS
    lowest = ends & (_U64(0) - ends)
    sizes = ((np.bitwise_count(lowest - _ONE) + np.uint8(1)) >> 3).astype(np.int64)
    long = np.flatnonzero(ends == 0)
    if long.size:
        ninth, tenth = window.data[at[long] + 8], window.data[at[long] + 9]
        has_tenth = ninth >= 0x80
        if (tenth[has_tenth] > 1).any():
            raise UnusualEncoding("a number of more than 64 bits")
        sizes[long] = 9 + has_tenth
    return at + sizes


def end_of_bytes(window: PaddedBytes, at: Offsets) -> Offsets:
    r"""The offsets where the byte strings at some offsets end.

    >>> end_of_bytes(PaddedBytes.of(b"\x04abc"), np.array([0])).tolist()
    [3]
    """
    sizes, at = read_longs(window, at)
    if sizes.size and (sizes.min() < 0 or sizes.max() > window.size):
        raise UnusualEncoding("a length beyond the end")
    return at + sizes


# Arrays and maps ----------------------------------------------------------------------------------------------

_MAX_STEPPED = 3
_MAX_STEPS_PER_LANE = 64
_MAX_SEARCHED_PAIRS = 4096


def _check_lanes(lanes: int, steps: int) -> None:
    """Raise UnusualEncoding for few lanes with many steps: decoding one by one is faster, and limits hostile files."""
    if steps > lanes * _MAX_STEPS_PER_LANE:
        raise UnusualEncoding("arrays of very different lengths")


def _read_counts(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets]:
    """Read the counts of the arrays at some offsets; returns them, and the offsets of the first items."""
    counts, first = read_longs(window, at)
    if counts.size and (counts.min() < 0 or counts.max() > window.size):
        raise UnusualEncoding("an array in blocks with sizes")
    return counts, first


def _skip_end_block(window: PaddedBytes, at: Offsets, counts: Offsets) -> Offsets:
    """The offsets where arrays end, given where their items end: an empty block follows, unless the array is empty."""
    non_empty = counts > 0
    if (window.data[at][non_empty] != 0).any():
        raise UnusualEncoding("an array in several blocks")
    return at + non_empty


def end_of_array(window: PaddedBytes, at: Offsets, numbers: int) -> Offsets:
    """The offsets where the arrays at some offsets end; each item has `numbers` longs."""
    counts, first = _read_counts(window, at)
    return _skip_end_block(window, _skip_items(window, first, counts * numbers), counts)


def _skip_items(window: PaddedBytes, first: Offsets, numbers: Offsets) -> Offsets:
    longest = int(numbers.max(initial=0))
    if longest == 0:
        return first
    if longest <= _MAX_STEPPED:
        at = first
        for n in range(longest):
            at = np.where(numbers > n, read_longs(window, at)[1], at)
        return at
    if numbers.min() > 0:
        return window.after_longs(first, numbers)
    non_empty = np.flatnonzero(numbers)
    at = first.copy()
    at[non_empty] = window.after_longs(first[non_empty], numbers[non_empty])
    return at


def find_counts(window: PaddedBytes, at: Offsets, key: int) -> Offsets:
    """The values of a key in the maps of longs at some offsets; -1 where a map does not have the key."""
    counts, first = _read_counts(window, at)
    counts_of_key = np.full(len(at), -1, np.int64)
    lanes = np.flatnonzero(counts)
    if not lanes.size:
        return counts_of_key
    # writers keep the order of columns, so the key is first expected at its index in the first map
    guessed_index = _index_of_key(window, int(first[lanes[0]]), int(counts[lanes[0]]), key)
    if guessed_index is not None:
        guessed = lanes[counts[lanes] > guessed_index]
        offsets = (
            first[guessed]
            if guessed_index == 0
            else window.after_longs(first[guessed], np.full(len(guessed), 2 * guessed_index))
        )
        keys, value_offsets = read_longs(window, offsets)
        values, _ = read_longs(window, value_offsets)
        matches = keys == key
        counts_of_key[guessed[matches]] = values[matches]
        is_missing = np.ones(len(at), np.bool_)
        is_missing[guessed[matches]] = False
        lanes = lanes[is_missing[lanes]]
    offsets, index, max_count = first[lanes], 0, int(counts.max())
    while lanes.size:
        _check_lanes(len(lanes), max_count - index)
        has_more = counts[lanes] > index
        lanes, offsets, index = lanes[has_more], offsets[has_more], index + 1
        keys, offsets = read_longs(window, offsets)
        values, offsets = read_longs(window, offsets)
        matches = keys == key
        if matches.any():
            counts_of_key[lanes[matches]] = values[matches]
            lanes, offsets = lanes[~matches], offsets[~matches]
    return counts_of_key


def _index_of_key(window: PaddedBytes, at: int, count: int, key: int) -> int | None:
    """The index of a key in the map whose pairs start at an offset; None if it is not found."""
    offsets = np.array([at])
    for index in range(min(count, _MAX_SEARCHED_PAIRS)):
        keys, offsets = read_longs(window, offsets)
        if keys[0] == key:
            return index
        _, offsets = read_longs(window, offsets)
    return None


Slices = tuple[Offsets, Offsets]
"""The start offsets and lengths of byte strings; a negative length for null."""


def end_of_bounds(window: PaddedBytes, at: Offsets, keys: Collection[int] = ()) -> tuple[Offsets, dict[int, Slices]]:
    """The offsets where the maps of byte strings at some offsets end, and the strings of some keys.

    >>> end, slices = end_of_bounds(PaddedBytes.of(bytes.fromhex("0202046162") + bytes(1)), np.array([0]), [1])
    >>> end.tolist(), [array.tolist() for array in slices[1]]
    ([6], [[3], [2]])
    """
    counts, offsets = _read_counts(window, at)
    slices = {key: (np.zeros(len(at), np.int64), np.full(len(at), -1, np.int64)) for key in keys}
    if counts.size == 0:
        return at, slices
    min_count, max_count = int(counts.min()), int(counts.max())
    for index in range(max_count):
        lanes: Any = slice(None) if index < min_count else np.flatnonzero(counts > index)
        _check_lanes(len(counts) if index < min_count else len(lanes), max_count - index)
        pair_keys, starts, sizes = _read_pairs(window, offsets[lanes])
        for key, (slice_starts, slice_sizes) in slices.items():
            matches = pair_keys == key
            if matches.all():
                slice_starts[lanes], slice_sizes[lanes] = starts, sizes
            elif matches.any():
                matching_lanes = np.flatnonzero(matches) if index < min_count else lanes[matches]
                slice_starts[matching_lanes], slice_sizes[matching_lanes] = starts[matches], sizes[matches]
        if index < min_count:
            offsets = starts + sizes
        else:
            offsets = offsets.copy() if index == min_count else offsets
            offsets[lanes] = starts + sizes
    return _skip_end_block(window, offsets, counts), slices


def _read_pairs(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets, Offsets]:
    """Read pairs of a key and a byte string; returns the keys, and the start offsets and lengths of the strings."""
    keys, sizes = window.data[at], window.data[at + 1]
    if not ((keys & 0x81) | (sizes & 0x81)).any():  # one byte each, and neither is negative
        return (keys >> 1).astype(np.int64), at + 2, (sizes >> 1).astype(np.int64)
    wide_keys, at = read_longs(window, at)
    wide_sizes, at = read_longs(window, at)
    if wide_sizes.min() < 0 or wide_sizes.max() > window.size:
        raise UnusualEncoding("a length beyond the end")
    return wide_keys, at, wide_sizes


# Decoding into lists and dicts --------------------------------------------------------------------------------


def _group_by_count(counts: Offsets) -> list[tuple[int, Offsets]]:
    """Group the lanes by the number of items of their arrays."""
    if not counts.size:
        return []
    order = np.argsort(counts, kind="stable")
    sizes, begins = np.unique(counts[order], return_index=True)
    return list(zip(sizes.tolist(), np.split(order, begins[1:]), strict=True))


def _build_dicts(keys: list[Offsets], values: Iterable[Any], lanes: int) -> list[dict[int, Any]]:
    """Build a dict for each lane, from columns of keys, and from values ordered by lane.

    All dicts consume one iterator of values; each takes as many as it has keys.
    """
    if not keys:
        return [{} for _ in range(lanes)]
    table = np.stack(keys, axis=1)
    remaining = iter(values)
    if (table == table[0]).all():
        shared_keys = table[0].tolist()
        return [dict(zip(shared_keys, remaining, strict=False)) for _ in range(lanes)]
    return [dict(zip(lane_keys, remaining, strict=False)) for lane_keys in table.tolist()]


def _flatten_by_lane(columns: list[Offsets]) -> list[int]:
    return np.stack(columns, axis=1).ravel().tolist() if columns else []


def decode_count_maps(window: PaddedBytes, at: Offsets) -> list[dict[int, int]]:
    """Decode the maps of longs at some offsets."""
    counts, first = _read_counts(window, at)
    maps: list[dict[int, int]] = [{}] * len(at)
    for count, lanes in _group_by_count(counts):
        _check_lanes(len(lanes), count)
        keys, values, offsets = [], [], first[lanes]
        for _ in range(count):
            key, offsets = read_longs(window, offsets)
            value, offsets = read_longs(window, offsets)
            keys.append(key)
            values.append(value)
        _skip_end_block(window, offsets, counts[lanes])
        for lane, decoded in zip(lanes.tolist(), _build_dicts(keys, _flatten_by_lane(values), len(lanes)), strict=True):
            maps[lane] = decoded
    return maps


def decode_bound_maps(window: PaddedBytes, raw: bytes, at: Offsets) -> list[dict[int, bytes]]:
    """Decode the maps of byte strings at some offsets; `raw` has the same bytes as the window."""
    counts, first = _read_counts(window, at)
    maps: list[dict[int, bytes]] = [{}] * len(at)
    for count, lanes in _group_by_count(counts):
        _check_lanes(len(lanes), count)
        keys, starts, ends, offsets = [], [], [], first[lanes]
        for _ in range(count):
            key, start, size = _read_pairs(window, offsets)
            offsets = start + size
            keys.append(key)
            starts.append(start)
            ends.append(offsets)
        _skip_end_block(window, offsets, counts[lanes])
        strings = [raw[start:end] for start, end in zip(_flatten_by_lane(starts), _flatten_by_lane(ends), strict=True)]
        for lane, decoded in zip(lanes.tolist(), _build_dicts(keys, strings, len(lanes)), strict=True):
            maps[lane] = decoded
    return maps


def decode_long_lists(window: PaddedBytes, at: Offsets) -> list[tuple[int, ...]]:
    """Decode the arrays of longs at some offsets."""
    counts, first = _read_counts(window, at)
    lists: list[tuple[int, ...]] = [()] * len(at)
    for count, lanes in _group_by_count(counts):
        _check_lanes(len(lanes), count)
        values, offsets = [], first[lanes]
        for _ in range(count):
            value, offsets = read_longs(window, offsets)
            values.append(value)
        _skip_end_block(window, offsets, counts[lanes])
        rows = np.stack(values, axis=1).tolist() if values else [[] for _ in lanes]
        for lane, row in zip(lanes.tolist(), rows, strict=True):
            lists[lane] = tuple(row)
    return lists
