r"""Vectorized encoding of longs, lists and maps as Avro, with NumPy: the counterpart of `floe.avro.vector_decoder`.

The groups of seven bits of a long are spread over the bytes of a word, and the words are joined without their unused
bytes. That takes a few operations on arrays; Python code only splits the bytes by entry. Lists and maps are optional:
they are unions with null. Values that do not fit, and small inputs, are encoded one at a time.

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
_MIN_VECTORIZED = 32
_WORD = 8
_ONE_BYTE_LIMIT = 64
_SPREAD_STEPS = (  # split 56 bits into two groups of 28, then four of 14, then eight of 7
    (_U64(0x000000000FFFFFFF), _U64(0x00FFFFFFF0000000), _U64(4)),
    (_U64(0x00003FFF00003FFF), _U64(0x0FFFC0000FFFC000), _U64(2)),
    (_U64(0x007F007F007F007F), _U64(0x3F803F803F803F80), _U64(1)),
)
_CONTINUATION_BITS = [_U64(int.from_bytes(b"\x80" * n + bytes(_WORD - n), "little")) for n in range(_WORD)]
_CONTINUATION = np.array([0, *_CONTINUATION_BITS], _U64)
"""The continuation bits of longs of 0 to 8 bytes: all bytes but the last have the highest bit set."""


def _to_array(values: Iterable[int], count: int) -> NDArray[np.int64]:
    try:
        return np.fromiter(values, np.int64, count)
    except OverflowError:
        raise InvalidValue("a count or size of a file has more than 64 bits") from None
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"a count or size of a file must be a number: {error}") from None


def _zigzag(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(_U64)


def _encoded_sizes(zigzag: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The number of bytes of each encoded long."""
    sizes = np.ones(len(zigzag), np.uint8)
    largest = int(zigzag.max(initial=0))
    limit = 1 << 7
    while largest >= limit:
        sizes += zigzag >= _U64(limit)
        limit <<= 7
    return sizes


def _spread_bits(zigzag: NDArray[np.uint64], sizes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Encode longs of at most eight bytes, each in a word."""
    words = zigzag
    for low, high, shift in _SPREAD_STEPS:
        words = (words & low) | ((words & high) << shift)
    return words | _CONTINUATION[sizes]


def _join_words(words: NDArray[np.uint64], sizes: NDArray[np.uint8]) -> bytes:
    """Join the first `sizes` bytes of each word.

    Whole words are written at the offsets where their bytes begin, in order, so that each overwrites the unused bytes
    of the one before.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    packed = np.empty(int(ends[-1]) + _WORD, np.uint8)
    words_at_offsets: NDArray[Any] = np.ndarray((len(packed) - _WORD + 1,), "<u8", packed, strides=(1,))
    words_at_offsets[ends - sizes] = words
    return packed[:-_WORD].tobytes()


def _split_bytes(packed: bytes, sizes: NDArray[Any]) -> list[bytes]:
    edges = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
    return [packed[begin:end] for begin, end in pairwise(edges)]


def pack_longs(values: Sequence[int]) -> list[bytes]:
    """Encode longs."""
    if len(values) < _MIN_VECTORIZED:
        return [encode_long(value) for value in values]
    zigzag = _zigzag(_to_array(values, len(values)))
    sizes = _encoded_sizes(zigzag)
    if sizes.max(initial=0) > _WORD:
        return [encode_long(value) for value in values]
    return _split_bytes(_join_words(_spread_bits(zigzag, sizes), sizes), sizes)


def pack_long_lists(lists: Sequence[Sequence[int] | None]) -> list[bytes]:
    r"""Encode optional lists of longs.

    >>> pack_long_lists([None, (), (4, 5)])
    [b'\x00', b'\x02\x00', b'\x02\x04\x08\n\x00']
    """
    non_empty = [values for values in lists if values]
    sizes = _to_array(map(len, non_empty), len(non_empty))
    total = int(sizes.sum())
    if total < _MIN_VECTORIZED:
        return [_encode_list(values) for values in lists]
    zigzag = _zigzag(_to_array(chain.from_iterable(non_empty), total))
    widths = _encoded_sizes(zigzag)
    if widths.max() > _WORD:
        return [_encode_list(values) for values in lists]
    return _wrap_in_unions(
        lists, sizes, _join_words(_spread_bits(zigzag, widths), widths), np.cumsum(widths, dtype=np.int64)
    )


def _encode_list(values: Sequence[int] | None) -> bytes:
    if not values:
        return b"\0" if values is None else b"\2\0"
    return b"".join((b"\2", encode_long(len(values)), *map(encode_long, values), b"\0"))


def pack_counts(maps: Sequence[Mapping[int, int] | None]) -> list[bytes]:
    """Encode optional maps from column ids to longs."""
    non_empty = [counts for counts in maps if counts]
    sizes = _to_array(map(len, non_empty), len(non_empty))
    total = int(sizes.sum())
    if total < _MIN_VECTORIZED:
        return [_encode_counts(counts) for counts in maps]
    keys = _flat_keys(non_empty, total)
    values = _to_array(chain.from_iterable(counts.values() for counts in non_empty), total)
    zigzag = _zigzag(values)
    widths = _encoded_sizes(zigzag)
    if keys.min() < 0 or keys.max() >= _ONE_BYTE_LIMIT or widths.max() >= _WORD:
        return [_encode_counts(counts) for counts in maps]
    words = (_spread_bits(zigzag, widths) << _U64(8)) | (keys << 1).view(
        _U64
    )  # a pair in a word: its key, then its value
    ends = np.cumsum(widths + np.uint8(1), dtype=np.int64)
    return _wrap_in_unions(maps, sizes, _join_words(words, widths + np.uint8(1)), ends)


def _flat_keys(maps: Sequence[Mapping[int, Any]], total: int) -> NDArray[np.int64]:
    """The keys of all maps in one array. The maps usually have the same keys."""
    first = tuple(maps[0])
    if all(map(first.__eq__, map(tuple, maps))):
        return np.tile(_to_array(first, len(first)), len(maps))
    return _to_array(chain.from_iterable(maps), total)


def _encode_counts(counts: Mapping[int, int] | None) -> bytes:
    if not counts:
        return b"\0" if counts is None else b"\2\0"
    pairs = [encode_long(key) + encode_long(value) for key, value in counts.items()]
    return b"".join((b"\2", encode_long(len(counts)), *pairs, b"\0"))


def pack_bounds(maps: Sequence[Mapping[int, bytes] | None]) -> list[bytes]:
    r"""Encode optional maps from column ids to bounds.

    >>> pack_bounds([{1: b"ab"}, None])
    [b'\x02\x02\x02\x04ab\x00', b'\x00']
    """
    non_empty = [bounds_of_file for bounds_of_file in maps if bounds_of_file]
    sizes = _to_array(map(len, non_empty), len(non_empty))
    total = int(sizes.sum())
    if total < _MIN_VECTORIZED:
        return [_encode_bounds(bounds_of_file) for bounds_of_file in maps]
    keys = _flat_keys(non_empty, total)
    bounds = list(chain.from_iterable(bounds_of_file.values() for bounds_of_file in non_empty))
    lengths = _to_array(map(len, bounds), total)
    if keys.min() < 0 or max(keys.max(), lengths.max()) >= _ONE_BYTE_LIMIT:
        return [_encode_bounds(bounds_of_file) for bounds_of_file in maps]
    ends = np.cumsum(lengths + 2)
    heads = ends - lengths - 2
    packed = np.empty(int(ends[-1]), np.uint8)
    packed[heads] = keys << 1
    packed[heads + 1] = lengths << 1
    is_bound = np.ones(len(packed), np.bool_)
    is_bound[heads] = False
    is_bound[heads + 1] = False
    packed[is_bound] = np.frombuffer(b"".join(bounds), np.uint8)
    return _wrap_in_unions(maps, sizes, packed.tobytes(), ends)


def _wrap_in_unions(
    maps: Sequence[Any], sizes: NDArray[np.int64], packed: bytes, ends: NDArray[np.int64]
) -> list[bytes]:
    """Add the union branch, count and end to each optional map or list.

    `packed` has the encoded items of all of them, `ends` the offset where each item ends, `sizes` the numbers of items.
    """
    edges = [0, *ends[np.cumsum(sizes) - 1].tolist()]
    heads = {size: b"\2" + encode_long(size) for size in set(sizes.tolist())}
    if len(heads) == 1 and len(sizes) == len(maps):  # the usual case: all have the same columns
        (head,) = heads.values()
        return [head + packed[begin:end] + b"\0" for begin, end in pairwise(edges)]
    pieces = (packed[begin:end] for begin, end in pairwise(edges))
    return [
        heads[len(optional)] + next(pieces) + b"\0" if optional else b"\0" if optional is None else b"\2\0"
        for optional in maps
    ]


def _encode_bounds(bounds: Mapping[int, bytes] | None) -> bytes:
    if not bounds:
        return b"\0" if bounds is None else b"\2\0"
    pairs = [b"".join((encode_long(key), encode_long(len(bound)), bound)) for key, bound in bounds.items()]
    return b"".join((b"\2", encode_long(len(bounds)), *pairs, b"\0"))
