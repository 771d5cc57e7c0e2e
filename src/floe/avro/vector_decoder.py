r"""Arrays and maps of many entries at once: stepped over, looked into for some keys, or turned into Python's.

Only the usual form is known here: one block with a positive count, and an empty block. The rest is `UnusualEncoding`.

>>> window = PaddedBytes.of(b"\x04\x02\x0a\x04\x0c\x00" * 2)  # {1: 5, 2: 6}, twice
>>> at = np.array([0, 6])
>>> end_of_array(window, at, 2).tolist(), find_counts(window, at, 2).tolist()
([6, 12], [6, 6])

Many Avro values at once: one lane for each entry, all of them moving through the bytes together.

A `PaddedBytes` is a stretch of decoded bytes. Places in it come as arrays, one number for each lane, and go out as
arrays of
the places behind the values. Runs of numbers are stepped over with an index of the bytes that end a number (those below
128), in a fixed number of operations however long the run is.

>>> window = PaddedBytes.of(b"\x02\x80\x01\x04ab")
>>> read_longs(window, np.array([0, 1, 3]))
(array([ 1, 64,  2]), array([1, 3, 4]))
>>> window.after_longs(np.array([0, 1]), np.array([2, 1])).tolist()
[3, 3]

What does not have the usual form raises `UnusualEncoding`, and is read one by one instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Many Avro values at once: one lane for each entry, all of them moving through the bytes together.

Offsets = NDArray[np.int64]
_U64 = np.uint64
_Words = NDArray[np.uint64]

PADDING = 256
"""How many bytes must follow a window, so that words can be read at its end and its index be made of whole words."""

_WORD, _PAGE = 8, 64
_ONE = _U64(1)
_ENDS = _U64(0x8080808080808080)
_GATHER = _U64(0x0002040810204081)
# each step moves every second group of bits down beside its neighbour: 7 bits to 14, to 28, to 56
_JOIN = (
    (_U64(0x007F007F007F007F), _U64(0x7F007F007F007F00), _U64(1)),
    (_U64(0x00003FFF00003FFF), _U64(0x3FFF00003FFF0000), _U64(2)),
    (_U64(0x000000000FFFFFFF), _U64(0x0FFFFFFF00000000), _U64(4)),
)
_HALVES = tuple((_U64(n), _U64((1 << n) - 1), n) for n in (32, 16, 8, 4, 2, 1))


class UnusualEncoding(Exception):
    """The bytes do not have the usual form; whether they are right has to be found out one by one."""


class PaddedBytes:
    """A stretch of bytes with `PADDING` bytes behind it."""

    __slots__ = ("_before", "_ends", "_upto", "data", "size", "words")

    def __init__(self, data: NDArray[np.uint8], size: int) -> None:
        self.data = data
        self.size = size
        self.words: NDArray[Any] = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
        """A word of eight bytes at every place."""

        self._ends: _Words | None = None

    @classmethod
    def of(cls, content: bytes) -> PaddedBytes:
        """The window of some bytes that have no padding yet."""
        return cls(np.frombuffer(content + bytes(PADDING), np.uint8), len(content))

    def _index(self) -> _Words:
        """A bit for every byte that ends a number, and how many of them there are before and up to each word."""
        pages = (self.size + _PAGE) // _PAGE
        words = self.data[: pages * _PAGE].view("<u8").astype(_U64, copy=False)
        # the highest bits of eight bytes, brought side by side by one multiplication
        bits = ((~words & _ENDS) * _GATHER) >> _U64(56)
        self._ends = bits.astype(np.uint8).view("<u8").astype(_U64, copy=False)
        counts = np.bitwise_count(self._ends)
        self._upto = np.cumsum(counts, dtype=np.int32)
        self._before = self._upto - counts
        return self._ends

    def after_longs(self, at: Offsets, count: Offsets) -> Offsets:
        """The places behind that many numbers, at least one in each lane."""
        ends = self._index() if self._ends is None else self._ends
        page = at >> 6
        if page.max(initial=0) >= len(ends):
            raise UnusualEncoding("beyond the end")
        below = (_ONE << (at & 63).view(_U64)) - _ONE
        wanted = self._before[page] + np.bitwise_count(ends[page] & below) + (count - 1)
        if wanted.max(initial=0) >= int(self._upto[-1]):
            raise UnusualEncoding("beyond the end")
        page = np.searchsorted(self._upto, wanted.astype(np.int32), side="right")
        left = (wanted - self._before[page]).astype(np.uint8)
        bits = ends[page]
        place: Offsets = page << 6
        for shift, mask, step in _HALVES:
            low = bits & mask
            found = np.bitwise_count(low)
            further = left >= found
            left = left - found * further
            bits = np.where(further, bits >> shift, low)
            place = place + further * np.int64(step)
        return place + 1


def read_longs(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets]:
    """The numbers at some places, and where they end."""
    first = window.data[at]
    if not (first & 0x80).any():
        numbers = first.astype(np.int64)
        return (numbers >> 1) ^ -(numbers & 1), at + 1
    words = window.words[at].astype(_U64)
    ends = ~words & _ENDS
    lowest = ends & (_U64(0) - ends)
    sizes = ((np.bitwise_count(lowest - _ONE) + np.uint8(1)) >> 3).astype(np.int64)
    words &= (lowest << _ONE) - _ONE  # without an end among eight bytes, all of them are kept
    for low, high, shift in _JOIN:
        words = (words & low) | ((words & high) >> shift)
    long = np.flatnonzero(ends == 0)
    if long.size:
        _finish_long(window, at, words, sizes, long)
    return ((words >> _ONE) ^ (_U64(0) - (words & _ONE))).view(np.int64), at + sizes


def _finish_long(window: PaddedBytes, at: Offsets, words: _Words, sizes: Offsets, lanes: Offsets) -> None:
    """The ninth and tenth bytes of numbers that have them; the tenth has room for one bit."""
    ninth, tenth = window.data[at[lanes] + 8], window.data[at[lanes] + 9]
    ten = ninth >= 0x80
    if (tenth[ten] > 1).any():
        raise UnusualEncoding("a number of more than 64 bits")
    words[lanes] |= (ninth.astype(_U64) & _U64(0x7F)) << _U64(56)
    words[lanes[ten]] |= tenth[ten].astype(_U64) << _U64(63)
    sizes[lanes] = 9 + ten


def end_of_longs(window: PaddedBytes, at: Offsets) -> Offsets:
    """Where the numbers at some places end."""
    if not (window.data[at] & 0x80).any():
        return at + 1
    ends = ~window.words[at].astype(_U64) & _ENDS
    lowest = ends & (_U64(0) - ends)
    sizes = ((np.bitwise_count(lowest - _ONE) + np.uint8(1)) >> 3).astype(np.int64)
    long = np.flatnonzero(ends == 0)
    if long.size:
        ninth, tenth = window.data[at[long] + 8], window.data[at[long] + 9]
        ten = ninth >= 0x80
        if (tenth[ten] > 1).any():
            raise UnusualEncoding("a number of more than 64 bits")
        sizes[long] = 9 + ten
    return at + sizes


def end_of_bytes(window: PaddedBytes, at: Offsets) -> Offsets:
    r"""Where the byte strings at some places end.

    >>> end_of_bytes(PaddedBytes.of(b"\x04abc"), np.array([0])).tolist()
    [3]
    """
    sizes, at = read_longs(window, at)
    if sizes.size and (sizes.min() < 0 or sizes.max() > window.size):
        raise UnusualEncoding("a length beyond the end")
    return at + sizes


_WALKED = 3
_STEPS_PER_LANE = 64
_GUESSES = 4096


def _check_worth(lanes: int, steps: int) -> None:
    """Decline what has few lanes and many steps: it is quicker one by one, and hostile files are made like that."""
    if steps > lanes * _STEPS_PER_LANE:
        raise UnusualEncoding("arrays of very different lengths")


def _open(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets]:
    """How many items the arrays at some places have, and where the first ones are."""
    counts, first = read_longs(window, at)
    if counts.size and (counts.min() < 0 or counts.max() > window.size):
        raise UnusualEncoding("an array in blocks that tell their size")
    return counts, first


def _close(window: PaddedBytes, at: Offsets, counts: Offsets) -> Offsets:
    """The places behind arrays, given those behind their last items: an empty block follows, unless it came first."""
    some = counts > 0
    if (window.data[at][some] != 0).any():
        raise UnusualEncoding("an array in several blocks")
    return at + some


def end_of_array(window: PaddedBytes, at: Offsets, numbers: int) -> Offsets:
    """Where the arrays at some places end, whose items consist of so many numbers."""
    counts, first = _open(window, at)
    return _close(window, _after_items(window, first, counts * numbers), counts)


def _after_items(window: PaddedBytes, first: Offsets, numbers: Offsets) -> Offsets:
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


def find_counts(window: PaddedBytes, at: Offsets, key: int) -> Offsets:
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


def _place_of(window: PaddedBytes, at: int, count: int, key: int) -> int | None:
    """At which place of one map a key is."""
    place = np.array([at])
    for n in range(min(count, _GUESSES)):
        keys, place = read_longs(window, place)
        if keys[0] == key:
            return n
        _, place = read_longs(window, place)
    return None


Slices = tuple[Offsets, Offsets]
"""Where byte strings start, and how long they are; a negative length where there is none."""


def end_of_bounds(window: PaddedBytes, at: Offsets, keys: Collection[int] = ()) -> tuple[Offsets, dict[int, Slices]]:
    """Where maps of byte strings end, and the strings that they have for some keys.

    >>> end, found = end_of_bounds(PaddedBytes.of(bytes.fromhex("0202046162") + bytes(1)), np.array([0]), [1])
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


def _pair(window: PaddedBytes, at: Offsets) -> tuple[Offsets, Offsets, Offsets]:
    """The keys at some places, and where the byte strings behind them start and how long they are."""
    keys, sizes = window.data[at], window.data[at + 1]
    if not ((keys & 0x81) | (sizes & 0x81)).any():  # one byte each, and neither is negative
        return (keys >> 1).astype(np.int64), at + 2, (sizes >> 1).astype(np.int64)
    wide_keys, at = read_longs(window, at)
    wide_sizes, at = read_longs(window, at)
    if wide_sizes.min() < 0 or wide_sizes.max() > window.size:
        raise UnusualEncoding("a length beyond the end")
    return wide_keys, at, wide_sizes


# into Python's lists and dicts ----------------------------------------------------------------------------------


def _groups(counts: Offsets) -> list[tuple[int, Offsets]]:
    """The lanes whose arrays have the same number of items, together."""
    if not counts.size:
        return []
    order = np.argsort(counts, kind="stable")
    sizes, begins = np.unique(counts[order], return_index=True)
    return list(zip(sizes.tolist(), np.split(order, begins[1:]), strict=True))


def _dicts(keys: list[Offsets], values: Iterable[Any], lanes: int) -> list[dict[int, Any]]:
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


def _in_rows(columns: list[Offsets]) -> list[int]:
    return np.stack(columns, axis=1).ravel().tolist() if columns else []


def decode_count_maps(window: PaddedBytes, at: Offsets) -> list[dict[int, int]]:
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


def decode_bound_maps(window: PaddedBytes, raw: bytes, at: Offsets) -> list[dict[int, bytes]]:
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


def decode_long_lists(window: PaddedBytes, at: Offsets) -> list[tuple[int, ...]]:
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
