r"""Many numbers and maps as Avro bytes at once: the counterpart of `lanes`.

A number's groups of seven bits are spread over the bytes of a word, and the bytes that belong to it are kept; so the
work is a few operations on whole arrays, and Python only cuts the result into one piece for each entry.

>>> pack_longs([1, -65, 8192])
[b'\x02', b'\x81\x01', b'\x80\x80\x01']
>>> pack_counts([{1: 5}, None, {}])
[b'\x02\x02\x02\n\x00', b'\x00', b'\x02\x00']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.avro.records import encode_long
from floe.errors import InvalidValue

_U64 = np.uint64
_FEW = 32
_WORD = 8
_IN_A_BYTE = 64
_SPREAD = (  # the reverse of joining: 56 bits to two of 28, to four of 14, to eight of 7
    (_U64(0x000000000FFFFFFF), _U64(0x00FFFFFFF0000000), _U64(4)),
    (_U64(0x00003FFF00003FFF), _U64(0x0FFFC0000FFFC000), _U64(2)),
    (_U64(0x007F007F007F007F), _U64(0x3F803F803F803F80), _U64(1)),
)
_MORE = [_U64(int.from_bytes(b"\x80" * n + bytes(_WORD - n), "little")) for n in range(_WORD)]
_CONTINUED = np.array([0, *_MORE], _U64)
"""The bits that say that another byte follows, for numbers of 0 to 8 bytes."""


def _array(values: Iterable[int], count: int) -> NDArray[np.int64]:
    try:
        return np.fromiter(values, np.int64, count)
    except OverflowError:
        raise InvalidValue("a count or size of a file has more than 64 bits") from None
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"a count or size of a file must be a number: {error}") from None


def _zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(_U64)


def _sizes(zigzag: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """How many bytes each number takes."""
    sizes = np.ones(len(zigzag), np.uint8)
    largest = int(zigzag.max(initial=0))
    limit = 1 << 7
    while largest >= limit:
        sizes += zigzag >= _U64(limit)
        limit <<= 7
    return sizes


def _spread(zigzag: NDArray[np.uint64], sizes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The bytes of numbers of at most eight bytes, each in a word."""
    words = zigzag
    for low, high, shift in _SPREAD:
        words = (words & low) | ((words & high) << shift)
    return words | _CONTINUED[sizes]


def _kept(words: NDArray[np.uint64], sizes: NDArray[np.uint8]) -> bytes:
    """The first bytes of each word, one word after another.

    Whole words are put where their bytes begin, in order, so that each covers what is left over of the one before it.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    packed = np.empty(int(ends[-1]) + _WORD, np.uint8)
    places: NDArray[Any] = np.ndarray((len(packed) - _WORD + 1,), "<u8", packed, strides=(1,))
    places[ends - sizes] = words
    return packed[:-_WORD].tobytes()


def _pieces(packed: bytes, sizes: NDArray[Any]) -> list[bytes]:
    edges = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
    return [packed[begin:end] for begin, end in pairwise(edges)]


def pack_longs(values: Sequence[int]) -> list[bytes]:
    """The bytes of each number."""
    if len(values) < _FEW:
        return [encode_long(value) for value in values]
    zigzag = _zigzag(_array(values, len(values)))
    sizes = _sizes(zigzag)
    if sizes.max(initial=0) > _WORD:
        return [encode_long(value) for value in values]
    return _pieces(_kept(_spread(zigzag, sizes), sizes), sizes)


def pack_long_lists(lists: Sequence[Sequence[int] | None]) -> list[bytes]:
    r"""The bytes of optional lists of numbers.

    >>> pack_long_lists([None, (), (4, 5)])
    [b'\x00', b'\x02\x00', b'\x02\x04\x08\n\x00']
    """
    some = [one for one in lists if one]
    sizes = _array(map(len, some), len(some))
    total = int(sizes.sum())
    if total < _FEW:
        return [_list(one) for one in lists]
    zigzag = _zigzag(_array(chain.from_iterable(some), total))
    widths = _sizes(zigzag)
    if widths.max() > _WORD:
        return [_list(one) for one in lists]
    return _wrapped(lists, sizes, _kept(_spread(zigzag, widths), widths), np.cumsum(widths, dtype=np.int64))


def _list(values: Sequence[int] | None) -> bytes:
    if not values:
        return b"\0" if values is None else b"\2\0"
    return b"".join((b"\2", encode_long(len(values)), *map(encode_long, values), b"\0"))


def pack_counts(maps: Sequence[Mapping[int, int] | None]) -> list[bytes]:
    """The bytes of optional maps from column ids to numbers."""
    some = [one for one in maps if one]
    sizes = _array(map(len, some), len(some))
    total = int(sizes.sum())
    if total < _FEW:
        return [_counts(one) for one in maps]
    keys = _flat_keys(some, total)
    values = _array(chain.from_iterable(one.values() for one in some), total)
    zigzag = _zigzag(values)
    widths = _sizes(zigzag)
    if keys.min() < 0 or keys.max() >= _IN_A_BYTE or widths.max() >= _WORD:
        return [_counts(one) for one in maps]
    words = (_spread(zigzag, widths) << _U64(8)) | (keys << 1).view(_U64)  # a pair in a word: its key, then its number
    ends = np.cumsum(widths + np.uint8(1), dtype=np.int64)
    return _wrapped(maps, sizes, _kept(words, widths + np.uint8(1)), ends)


def _flat_keys(maps: Sequence[Mapping[int, Any]], total: int) -> NDArray[np.int64]:
    """The keys of all maps, one after another; mostly they are the same in each."""
    first = tuple(maps[0])
    if all(map(first.__eq__, map(tuple, maps))):
        return np.tile(_array(first, len(first)), len(maps))
    return _array(chain.from_iterable(maps), total)


def _counts(one: Mapping[int, int] | None) -> bytes:
    if not one:
        return b"\0" if one is None else b"\2\0"
    pairs = [encode_long(key) + encode_long(value) for key, value in one.items()]
    return b"".join((b"\2", encode_long(len(one)), *pairs, b"\0"))


def pack_bounds(maps: Sequence[Mapping[int, bytes] | None]) -> list[bytes]:
    r"""The bytes of optional maps from column ids to bounds.

    >>> pack_bounds([{1: b"ab"}, None])
    [b'\x02\x02\x02\x04ab\x00', b'\x00']
    """
    some = [one for one in maps if one]
    sizes = _array(map(len, some), len(some))
    total = int(sizes.sum())
    if total < _FEW:
        return [_bounds(one) for one in maps]
    keys = _flat_keys(some, total)
    bounds = list(chain.from_iterable(one.values() for one in some))
    lengths = _array(map(len, bounds), total)
    if keys.min() < 0 or max(keys.max(), lengths.max()) >= _IN_A_BYTE:
        return [_bounds(one) for one in maps]
    ends = np.cumsum(lengths + 2)
    heads = ends - lengths - 2
    packed = np.empty(int(ends[-1]), np.uint8)
    packed[heads] = keys << 1
    packed[heads + 1] = lengths << 1
    is_bound = np.ones(len(packed), np.bool_)
    is_bound[heads] = False
    is_bound[heads + 1] = False
    packed[is_bound] = np.frombuffer(b"".join(bounds), np.uint8)
    return _wrapped(maps, sizes, packed.tobytes(), ends)


def _wrapped(maps: Sequence[Any], sizes: NDArray[np.int64], packed: bytes, ends: NDArray[np.int64]) -> list[bytes]:
    """The bytes of each optional map or list, given those of all its items together, and where each item ends."""
    edges = [0, *ends[np.cumsum(sizes) - 1].tolist()]
    heads = {size: b"\2" + encode_long(size) for size in set(sizes.tolist())}
    if len(heads) == 1 and len(sizes) == len(maps):  # as nearly always: each has the same columns
        (head,) = heads.values()
        return [head + packed[begin:end] + b"\0" for begin, end in pairwise(edges)]
    pieces = (packed[begin:end] for begin, end in pairwise(edges))
    return [heads[len(one)] + next(pieces) + b"\0" if one else b"\0" if one is None else b"\2\0" for one in maps]


def _bounds(one: Mapping[int, bytes] | None) -> bytes:
    if not one:
        return b"\0" if one is None else b"\2\0"
    pairs = [b"".join((encode_long(key), encode_long(len(bound)), bound)) for key, bound in one.items()]
    return b"".join((b"\2", encode_long(len(one)), *pairs, b"\0"))
