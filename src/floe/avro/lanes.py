r"""Many Avro values at once: one lane for each entry, all of them moving through the bytes together.

A `Window` is a stretch of decoded bytes. Places in it come as arrays, one number for each lane, and go out as arrays of
the places behind the values. Runs of numbers are stepped over with an index of the bytes that end a number (those below
128), in a fixed number of operations however long the run is.

>>> window = Window.of(b"\x02\x80\x01\x04ab")
>>> read_longs(window, np.array([0, 1, 3]))
(array([ 1, 64,  2]), array([1, 3, 4]))
>>> window.after_longs(np.array([0, 1]), np.array([2, 1])).tolist()
[3, 3]

What does not have the usual form raises `Declined`, and is read one by one instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PADDING", "Declined", "Places", "Window", "end_of_bytes", "end_of_longs", "read_longs"]

Places = NDArray[np.int64]
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


class Declined(Exception):
    """The bytes do not have the usual form; whether they are right has to be found out one by one."""


class Window:
    """A stretch of bytes with `PADDING` bytes behind it."""

    __slots__ = ("_before", "_ends", "_upto", "data", "size", "words")

    def __init__(self, data: NDArray[np.uint8], size: int) -> None:
        self.data = data
        self.size = size
        self.words: NDArray[Any] = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
        """A word of eight bytes at every place."""

        self._ends: _Words | None = None

    @classmethod
    def of(cls, content: bytes) -> Window:
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

    def after_longs(self, at: Places, count: Places) -> Places:
        """The places behind that many numbers, at least one in each lane."""
        ends = self._index() if self._ends is None else self._ends
        page = at >> 6
        if page.max(initial=0) >= len(ends):
            raise Declined("beyond the end")
        below = (_ONE << (at & 63).view(_U64)) - _ONE
        wanted = self._before[page] + np.bitwise_count(ends[page] & below) + (count - 1)
        if wanted.max(initial=0) >= int(self._upto[-1]):
            raise Declined("beyond the end")
        page = np.searchsorted(self._upto, wanted.astype(np.int32), side="right")
        left = (wanted - self._before[page]).astype(np.uint8)
        bits = ends[page]
        place: Places = page << 6
        for shift, mask, step in _HALVES:
            low = bits & mask
            found = np.bitwise_count(low)
            further = left >= found
            left = left - found * further
            bits = np.where(further, bits >> shift, low)
            place = place + further * np.int64(step)
        return place + 1


def read_longs(window: Window, at: Places) -> tuple[Places, Places]:
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


def _finish_long(window: Window, at: Places, words: _Words, sizes: Places, lanes: Places) -> None:
    """The ninth and tenth bytes of numbers that have them; the tenth has room for one bit."""
    ninth, tenth = window.data[at[lanes] + 8], window.data[at[lanes] + 9]
    ten = ninth >= 0x80
    if (tenth[ten] > 1).any():
        raise Declined("a number of more than 64 bits")
    words[lanes] |= (ninth.astype(_U64) & _U64(0x7F)) << _U64(56)
    words[lanes[ten]] |= tenth[ten].astype(_U64) << _U64(63)
    sizes[lanes] = 9 + ten


def end_of_longs(window: Window, at: Places) -> Places:
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
            raise Declined("a number of more than 64 bits")
        sizes[long] = 9 + ten
    return at + sizes


def end_of_bytes(window: Window, at: Places) -> Places:
    r"""Where the byte strings at some places end.

    >>> end_of_bytes(Window.of(b"\x04abc"), np.array([0])).tolist()
    [3]
    """
    sizes, at = read_longs(window, at)
    if sizes.size and (sizes.min() < 0 or sizes.max() > window.size):
        raise Declined("a length beyond the end")
    return at + sizes
