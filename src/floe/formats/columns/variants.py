"""Variants read from shredded columns: put together again from typed columns and what is left (Parquet: Shredding).

A shredded variant has a `typed_value` beside its `value`: a column of one type, a list, or a struct with such a pair
for each field. Where both are null there is no value; where both are set, an object is stored partly in each.

The bytes of variants, put together and taken apart (Parquet: Variant Binary Encoding).

A variant is a dictionary of names, its *metadata*, and a *value*, which refers to the names by number. What is here
builds values of single types, objects and arrays, and looks into objects; it is what shredded files need.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.arrow_arrays import struct_array
from floe.formats.arrow_types import arrow_type
from floe.spec.types import VARIANT

# The bytes of variants, put together and taken apart (Parquet: Variant Binary Encoding).

NULL_VALUE = b"\x00"
"""The value that is null; unlike a variant that is not there at all."""

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_SHORT_STRING_BYTES = 63
_VERSION = 1


def names_of(metadata: bytes) -> tuple[str, ...]:
    r"""The names in a dictionary, by number.

    >>> names_of(b"\x01\x02\x00\x01\x03abc")
    ('a', 'bc')
    """
    if not metadata or metadata[0] & 0x0F != _VERSION:
        raise CorruptFile(
            f"the metadata of a variant has version {_VERSION}, found {bytes(metadata[:1]).hex() or None}"
        )
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    first = 1 + width
    strings = first + (count + 1) * width
    if strings > len(metadata):
        raise CorruptFile(f"the metadata of a variant claims {count} names, but ends too early for them")
    ends = _numbers(metadata, first, count + 1, width)
    if any(a > b for a, b in pairwise(ends)) or strings + ends[-1] > len(metadata):
        raise CorruptFile("the names of a variant do not lie within its metadata")
    try:
        return tuple(metadata[strings + start : strings + end].decode() for start, end in pairwise(ends))
    except UnicodeDecodeError:
        raise CorruptFile("a name in the metadata of a variant is not UTF-8") from None


def object_items(value: bytes, names: Sequence[str]) -> dict[str, bytes]:
    r"""The fields of an object, by name, or CorruptFile if the value is no object.

    >>> object_items(b"\x02\x01\x00\x00\x02\x0c\x07", ("a",))
    {'a': b'\x0c\x07'}
    """
    if not value or value[0] & 0x03 != _OBJECT:
        raise CorruptFile("a partly shredded variant must be an object")
    header = value[0] >> 2
    count_width = 4 if header & 0x10 else 1
    id_width, offset_width = ((header >> 2) & 0x03) + 1, (header & 0x03) + 1
    count = int.from_bytes(value[1 : 1 + count_width], "little")
    ids_at = 1 + count_width
    offsets_at = ids_at + count * id_width
    data_at = offsets_at + (count + 1) * offset_width
    if data_at > len(value):
        raise CorruptFile(f"an object of a variant claims {count} fields, but ends too early for them")
    ids = _numbers(value, ids_at, count, id_width)
    offsets = _numbers(value, offsets_at, count + 1, offset_width)
    # values need not lie in the order of the fields, so each ends where the next one in the bytes begins
    ends = dict(pairwise(sorted(offsets)))
    items = {}
    for number, start in zip(ids, offsets, strict=False):
        if number >= len(names) or start not in ends or data_at + ends[start] > len(value):
            raise CorruptFile("a field of a variant's object lies outside of it")
        items[names[number]] = value[data_at + start : data_at + ends[start]]
    return items


def encode_object(items: Mapping[str, bytes], numbers: Mapping[str, int]) -> bytes:
    """The value of an object with these fields; all names must be in the dictionary.

    >>> object_items(encode_object({"b": b"x", "a": b"yz"}, {"a": 0, "b": 1}), ("a", "b"))
    {'a': b'yz', 'b': b'x'}
    """
    ordered = sorted(items, key=str.encode)
    try:
        ids = [numbers[name] for name in ordered]
    except KeyError as error:
        raise CorruptFile(f"the metadata of a variant lacks the name {error.args[0]!r:.80}") from None
    offsets, data = _joined(items[name] for name in ordered)
    id_width, offset_width = _width(max(ids, default=0)), _width(offsets[-1])
    large = len(ids) > 0xFF
    header = (large << 4) | ((id_width - 1) << 2) | (offset_width - 1)
    head = bytes([header << 2 | _OBJECT]) + len(ids).to_bytes(4 if large else 1, "little")
    return head + _bytes_of(ids, id_width) + _bytes_of(offsets, offset_width) + data


def encode_array(values: Sequence[bytes]) -> bytes:
    r"""The value of an array of values.

    >>> encode_array([b"\x00", b"\x0c\x07"]).hex()
    '0302000103000c07'
    """
    offsets, data = _joined(values)
    width, large = _width(offsets[-1]), len(values) > 0xFF
    head = bytes([((large << 2) | (width - 1)) << 2 | _ARRAY]) + len(values).to_bytes(4 if large else 1, "little")
    return head + _bytes_of(offsets, width) + data


def encode_primitive(kind: str, value: Any) -> bytes:
    """The value of one of the single types, by the name that the encoding has for it.

    >>> encode_primitive("int8", 7).hex(), encode_primitive("string", "a").hex(), encode_primitive("true", None).hex()
    ('0c07', '0561', '04')
    """
    if kind == "string":
        data: bytes = value.encode()
        if len(data) <= _SHORT_STRING_BYTES:
            return bytes([len(data) << 2 | _SHORT_STRING]) + data
    number, body = _PRIMITIVE_KINDS[kind]
    return bytes([number << 2 | _PRIMITIVE]) + body(value)


def _packed(layout: str) -> Callable[[Any], bytes]:
    return struct.Struct(layout).pack


def _sized(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def _decimal(width: int) -> Callable[[tuple[int, int]], bytes]:
    return lambda value: bytes([value[0]]) + value[1].to_bytes(width, "little", signed=True)


_PRIMITIVE_KINDS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "null": (0, lambda value: b""),
    "true": (1, lambda value: b""),
    "false": (2, lambda value: b""),
    "int8": (3, _packed("<b")),
    "int16": (4, _packed("<h")),
    "int32": (5, _packed("<i")),
    "int64": (6, _packed("<q")),
    "double": (7, _packed("<d")),
    "decimal4": (8, _decimal(4)),
    "decimal8": (9, _decimal(8)),
    "decimal16": (10, _decimal(16)),
    "date": (11, _packed("<i")),
    "timestamptz": (12, _packed("<q")),
    "timestamp": (13, _packed("<q")),
    "float": (14, _packed("<f")),
    "binary": (15, _sized),
    "string": (16, lambda value: _sized(value.encode())),
    "time": (17, _packed("<q")),
    "timestamptz_ns": (18, _packed("<q")),
    "timestamp_ns": (19, _packed("<q")),
    "uuid": (20, bytes),
}


def _numbers(data: bytes, start: int, count: int, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "little") for at in range(start, start + count * width, width)]


def _bytes_of(numbers: Iterable[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _joined(values: Iterable[bytes]) -> tuple[list[int], bytes]:
    offsets, parts = [0], []
    for value in values:
        parts.append(value)
        offsets.append(offsets[-1] + len(value))
    return offsets, b"".join(parts)


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


Names = tuple[Sequence[str], Mapping[str, int]]
"""The names of a variant's dictionary by number, and their numbers by name."""

_VALUE, _TYPED = "value", "typed_value"


def assemble_variants(array: pa.Array) -> pa.Array:
    r"""The variants of a struct array as it is stored: `metadata`, `value`, and perhaps `typed_value`.

    >>> stored = pa.array([{"metadata": b"\x01\0\0", "value": None, "typed_value": 7}])
    >>> assemble_variants(stored).to_pylist()
    [{'metadata': b'\x01\x00\x00', 'value': b'\x18\x07\x00\x00\x00\x00\x00\x00\x00'}]
    """
    metadata = _part(array, "metadata")
    if metadata is None:
        raise CorruptFile("a variant without metadata")
    known = np.asarray(array.is_valid()) if array.null_count else None
    if not _is_shredded(array):
        value = _part(array, _VALUE)
    else:
        value = pa.array(_assembled(array, _dictionaries(metadata, known), known), pa.binary())
    if value is None or (value.null_count and _holes(value, known)):
        value = _null_for_missing(value, known, len(array))
    if metadata.null_count and _holes(metadata, known):
        raise CorruptFile("a variant without metadata")
    parts = [part if pa.types.is_binary(part.type) else part.cast(pa.binary()) for part in (metadata, value)]
    return struct_array(arrow_type(VARIANT), parts, len(array), known)


def _part(array: pa.Array, name: str) -> pa.Array | None:
    place = array.type.get_field_index(name)
    return None if place < 0 else array.field(place)


def _is_shredded(array: pa.Array) -> bool:
    typed = _part(array, _TYPED)
    return typed is not None and typed.null_count < len(typed)


def _holes(array: pa.Array, known: Any) -> bool:
    """Whether something is null although the variant is there."""
    nulls = np.asarray(array.is_null())
    return bool((nulls if known is None else nulls & known).any())


def _null_for_missing(value: pa.Array | None, known: Any, count: int) -> pa.Array:
    """A variant at the top with neither part is null, as a value."""
    if value is None:
        return pa.array([NULL_VALUE] * count, pa.binary())
    return value.cast(pa.binary()).fill_null(NULL_VALUE)


def _dictionaries(metadata: pa.Array, known: Any) -> list[Names | None]:
    seen: dict[bytes, Names] = {}
    found: list[Names | None] = []
    for row, data in enumerate(metadata.to_pylist()):
        if data is None or (known is not None and not known[row]):
            found.append(None)
            continue
        if data not in seen:
            names = names_of(data)
            seen[data] = (names, {name: number for number, name in enumerate(names)})
        found.append(seen[data])
    return found


def _assembled(array: pa.Array, names: Sequence[Names | None], known: Any = None) -> list[bytes | None]:
    """The values of pairs of `value` and `typed_value`; None where there is no value."""
    value, typed = _part(array, _VALUE), _part(array, _TYPED)
    stored = [None] * len(array) if value is None else value.to_pylist()
    if typed is None:
        return stored
    if pa.types.is_struct(typed.type):
        return _objects(stored, typed, names)
    shredded = _lists(typed, names) if hasattr(typed.type, "value_field") else _primitives(typed)
    return [one if one is not None else other for one, other in zip(shredded, stored, strict=True)]


def _objects(stored: list[bytes | None], typed: pa.Array, names: Sequence[Names | None]) -> list[bytes | None]:
    there = typed.is_valid().to_pylist()
    fields = [typed.type.field(place).name for place in range(typed.type.num_fields)]
    columns = [_assembled(typed.field(place), names) for place in range(typed.type.num_fields)]
    made: list[bytes | None] = []
    for row, (rest, dictionary) in enumerate(zip(stored, names, strict=True)):
        if not there[row] or dictionary is None:
            made.append(rest)
            continue
        items = {} if rest is None else object_items(rest, dictionary[0])
        for name, column in zip(fields, columns, strict=True):
            found = column[row]
            if found is not None:
                items[name] = found
        made.append(encode_object(items, dictionary[1]))
    return made


def _lists(typed: pa.Array, names: Sequence[Names | None]) -> list[bytes | None]:
    ends = np.asarray(typed.offsets)
    start = int(ends[0])
    counts = np.diff(ends)
    items = typed.values.slice(start, int(ends[-1]) - start)
    of_items = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
    found = [NULL_VALUE if one is None else one for one in _assembled(items, of_items)]
    return [
        encode_array(found[end - start - count : end - start]) if valid else None
        for valid, end, count in zip(typed.is_valid().to_pylist(), ends[1:].tolist(), counts.tolist(), strict=True)
    ]


# single types ---------------------------------------------------------------------------------------------------------


def _primitives(typed: pa.Array) -> list[bytes | None]:
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    kind, numbers = _kind(typed.type)
    values = (typed if numbers is None else typed.view(numbers)).to_pylist()
    encode = _ENCODERS.get(kind, lambda value: encode_primitive(kind, value))
    return [None if value is None else encode(value) for value in values]


def _decimal_encoder(kind: str) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        sign, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits)) or "0")
        return encode_primitive(kind, (-exponent, -unscaled if sign else unscaled))

    return encode


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: encode_primitive("true" if value else "false", None),
    **{kind: _decimal_encoder(kind) for kind in ("decimal4", "decimal8", "decimal16")},
}

_KINDS: dict[pa.DataType, tuple[str, pa.DataType | None]] = {
    pa.bool_(): ("boolean", None),
    pa.int8(): ("int8", None),
    pa.int16(): ("int16", None),
    pa.int32(): ("int32", None),
    pa.int64(): ("int64", None),
    pa.float32(): ("float", None),
    pa.float64(): ("double", None),
    pa.date32(): ("date", pa.int32()),
    pa.time64("us"): ("time", pa.int64()),
    pa.string(): ("string", None),
    pa.large_string(): ("string", None),
    pa.binary(): ("binary", None),
    pa.large_binary(): ("binary", None),
    pa.binary(16): ("uuid", None),
}


def _kind(type_: pa.DataType) -> tuple[str, pa.DataType | None]:
    """The name that the encoding has for a type, and the numbers that its values are, if they are moments."""
    found = _KINDS.get(type_)
    if found is not None:
        return found
    if pa.types.is_decimal(type_):
        width = 4 if type_.precision <= 9 else 8 if type_.precision <= 18 else 16
        return f"decimal{width}", None
    if pa.types.is_timestamp(type_) and type_.unit in ("us", "ns"):
        zone, unit = "tz" if type_.tz else "", "_ns" if type_.unit == "ns" else ""
        return f"timestamp{zone}{unit}", pa.int64()
    raise UnsupportedFeature(f"a shredded variant with a column of Arrow's type {type_}")
