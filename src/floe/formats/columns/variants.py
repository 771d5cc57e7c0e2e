r"""Variants: their binary encoding, their values as Python objects, and their assembly from shredded columns.

A variant is a dictionary of names, its *metadata*, and a *value*, which refers to the names by index (Parquet: Variant
Binary Encoding). Whole values are decoded for output only (`decode_variant`). Files need less: `object_items` and the
`encode_…` functions, which read and build objects, arrays and primitive values.

A *shredded* variant has a `typed_value` beside its `value`: a column of one type, a list, or a struct with such a pair
for each field (Parquet: Variant Shredding). Where both are null, there is no value; where both are set, each stores a
part of the fields of an object. `assemble_variants` joins them again.

>>> number, text = encode_primitive("int8", 1), encode_primitive("string", "b")
>>> metadata = bytes([1, 1, 0, 1]) + b"a"
>>> decode_variant(metadata + encode_object({"a": encode_array([number, text])}, {"a": 0}))
{'a': [1, 'b']}
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.columns.arrays import struct_array
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.codecs.single_value import split_variant
from floe.spec.types import VARIANT
from floe.spec.values.civil_time import MICROS, NANOS, date_to_text, time_to_text, timestamp_to_text

NULL_VALUE = b"\x00"
"""The encoded value null, which differs from a variant that is missing."""

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_SHORT_STRING_BYTES = 63
_VERSION = 1
_MAX_DEPTH: Final = 200


# Objects and names ----------------------------------------------------------------------------------------------------


def metadata_names(metadata: bytes) -> tuple[str, ...]:
    r"""The names in the metadata of a variant, by index.

    >>> metadata_names(b"\x01\x02\x00\x01\x03abc")
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
    ends = _read_numbers(metadata, first, count + 1, width)
    if any(a > b for a, b in pairwise(ends)) or strings + ends[-1] > len(metadata):
        raise CorruptFile("the names of a variant do not lie within its metadata")
    try:
        return tuple(metadata[strings + start : strings + end].decode() for start, end in pairwise(ends))
    except UnicodeDecodeError:
        raise CorruptFile("a name in the metadata of a variant is not UTF-8") from None


def object_items(value: bytes, names: Sequence[str]) -> dict[str, bytes]:
    r"""The fields of an object by name, still encoded; raises `CorruptFile` if the value is not an object.

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
    ids = _read_numbers(value, ids_at, count, id_width)
    offsets = _read_numbers(value, offsets_at, count + 1, offset_width)
    # values need not lie in the order of the fields, so each ends where the next one in the bytes begins
    ends = dict(pairwise(sorted(offsets)))
    items = {}
    for name_id, start in zip(ids, offsets, strict=False):
        if name_id >= len(names) or start not in ends or data_at + ends[start] > len(value):
            raise CorruptFile("a field of a variant's object lies outside of it")
        items[names[name_id]] = value[data_at + start : data_at + ends[start]]
    return items


def encode_object(items: Mapping[str, bytes], name_ids: Mapping[str, int]) -> bytes:
    """Encode an object with some fields; raises `CorruptFile` if the metadata lacks the name of one.

    >>> object_items(encode_object({"b": b"x", "a": b"yz"}, {"a": 0, "b": 1}), ("a", "b"))
    {'a': b'yz', 'b': b'x'}
    """
    ordered = sorted(items, key=str.encode)
    try:
        ids = [name_ids[name] for name in ordered]
    except KeyError as error:
        raise CorruptFile(f"the metadata of a variant lacks the name {error.args[0]!r:.80}") from None
    offsets, data = _concatenate(items[name] for name in ordered)
    id_width, offset_width = _byte_width(max(ids, default=0)), _byte_width(offsets[-1])
    large = len(ids) > 0xFF
    header = (large << 4) | ((id_width - 1) << 2) | (offset_width - 1)
    head = bytes([header << 2 | _OBJECT]) + len(ids).to_bytes(4 if large else 1, "little")
    return head + _write_numbers(ids, id_width) + _write_numbers(offsets, offset_width) + data


def encode_array(values: Sequence[bytes]) -> bytes:
    r"""Encode an array of encoded values.

    >>> encode_array([b"\x00", b"\x0c\x07"]).hex()
    '0302000103000c07'
    """
    offsets, data = _concatenate(values)
    width, large = _byte_width(offsets[-1]), len(values) > 0xFF
    head = bytes([((large << 2) | (width - 1)) << 2 | _ARRAY]) + len(values).to_bytes(4 if large else 1, "little")
    return head + _write_numbers(offsets, width) + data


def encode_primitive(kind: str, value: Any) -> bytes:
    """Encode a value of one of the encoding's primitive types, given by name.

    >>> encode_primitive("int8", 7).hex(), encode_primitive("string", "a").hex(), encode_primitive("true", None).hex()
    ('0c07', '0561', '04')
    """
    if kind == "string":
        data: bytes = value.encode()
        if len(data) <= _SHORT_STRING_BYTES:
            return bytes([len(data) << 2 | _SHORT_STRING]) + data
    type_id, encode = _PRIMITIVE_ENCODERS[kind]
    return bytes([type_id << 2 | _PRIMITIVE]) + encode(value)


def _fixed_encoder(layout: str) -> Callable[[Any], bytes]:
    return struct.Struct(layout).pack


def _prefix_length(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def _unscaled_encoder(width: int) -> Callable[[tuple[int, int]], bytes]:
    """The encoder of decimals, given as scale and unscaled value."""
    return lambda value: bytes([value[0]]) + value[1].to_bytes(width, "little", signed=True)


_PRIMITIVE_ENCODERS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "null": (0, lambda value: b""),
    "true": (1, lambda value: b""),
    "false": (2, lambda value: b""),
    "int8": (3, _fixed_encoder("<b")),
    "int16": (4, _fixed_encoder("<h")),
    "int32": (5, _fixed_encoder("<i")),
    "int64": (6, _fixed_encoder("<q")),
    "double": (7, _fixed_encoder("<d")),
    "decimal4": (8, _unscaled_encoder(4)),
    "decimal8": (9, _unscaled_encoder(8)),
    "decimal16": (10, _unscaled_encoder(16)),
    "date": (11, _fixed_encoder("<i")),
    "timestamptz": (12, _fixed_encoder("<q")),
    "timestamp": (13, _fixed_encoder("<q")),
    "float": (14, _fixed_encoder("<f")),
    "binary": (15, _prefix_length),
    "string": (16, lambda value: _prefix_length(value.encode())),
    "time": (17, _fixed_encoder("<q")),
    "timestamptz_ns": (18, _fixed_encoder("<q")),
    "timestamp_ns": (19, _fixed_encoder("<q")),
    "uuid": (20, bytes),
}


def _read_numbers(data: bytes, start: int, count: int, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "little") for at in range(start, start + count * width, width)]


def _write_numbers(numbers: Iterable[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _concatenate(values: Iterable[bytes]) -> tuple[list[int], bytes]:
    """The offsets of values in their concatenation, and the concatenation."""
    offsets, parts = [0], []
    for value in values:
        parts.append(value)
        offsets.append(offsets[-1] + len(value))
    return offsets, b"".join(parts)


def _byte_width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


# Values as Python objects ---------------------------------------------------------------------------------------------


def decode_variant(data: bytes) -> Any:
    """Decode a variant: objects as dictionaries, arrays as lists, dates, times and UUIDs as text, binary as base64."""
    metadata, value = split_variant(data)
    return _decode(value, metadata_names(metadata), 0)


def _decode(data: bytes, names: Sequence[str], depth: int) -> Any:
    if not data or depth > _MAX_DEPTH:
        raise CorruptFile("a variant ends too early, or is nested too deeply")
    basic, header = data[0] & 0x03, data[0] >> 2
    if basic == _SHORT_STRING:
        return _decode_text(data[1 : 1 + header])
    if basic == _OBJECT:
        return {name: _decode(item, names, depth + 1) for name, item in object_items(data, names).items()}
    if basic == _ARRAY:
        return [_decode(item, names, depth + 1) for item in _array_items(data)]
    decode = _PRIMITIVE_DECODERS.get(header)
    if decode is None:
        raise CorruptFile(f"a variant has no primitive type {header}")
    try:
        return decode(data[1:])
    except (struct.error, IndexError, ValueError):
        raise CorruptFile("a value of a variant ends too early") from None


def _array_items(data: bytes) -> list[bytes]:
    header = data[0] >> 2
    count_width, width = (4 if header & 0x04 else 1), (header & 0x03) + 1
    count = int.from_bytes(data[1 : 1 + count_width], "little")
    first = 1 + count_width
    start = first + (count + 1) * width
    if start > len(data):
        raise CorruptFile(f"an array of a variant claims {count} items, but ends too early for them")
    ends = [int.from_bytes(data[first + n * width : first + (n + 1) * width], "little") for n in range(count + 1)]
    return [data[start + a : start + b] for a, b in pairwise(ends)]


def _decode_text(data: bytes) -> str:
    return data.decode(errors="replace")


def _fixed_decoder(layout: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack_from(layout, data)[0]


def _decimal_decoder(width: int) -> Callable[[bytes], Decimal]:
    def decode(data: bytes) -> Decimal:
        return Decimal(int.from_bytes(data[1 : 1 + width], "little", signed=True)).scaleb(-data[0])

    return decode


def _timestamp_decoder(unit: int, *, utc: bool) -> Callable[[bytes], str]:
    return lambda data: timestamp_to_text(struct.unpack_from("<q", data)[0], unit, utc=utc)


def _after_length(data: bytes) -> bytes:
    return data[4 : 4 + struct.unpack_from("<I", data)[0]]


_PRIMITIVE_DECODERS: Final[dict[int, Callable[[bytes], Any]]] = {
    0: lambda data: None,
    1: lambda data: True,
    2: lambda data: False,
    3: _fixed_decoder("<b"),
    4: _fixed_decoder("<h"),
    5: _fixed_decoder("<i"),
    6: _fixed_decoder("<q"),
    7: _fixed_decoder("<d"),
    8: _decimal_decoder(4),
    9: _decimal_decoder(8),
    10: _decimal_decoder(16),
    11: lambda data: date_to_text(struct.unpack_from("<i", data)[0]),
    12: _timestamp_decoder(MICROS, utc=True),
    13: _timestamp_decoder(MICROS, utc=False),
    14: _fixed_decoder("<f"),
    15: lambda data: base64.b64encode(_after_length(data)).decode(),
    16: lambda data: _decode_text(_after_length(data)),
    17: lambda data: time_to_text(struct.unpack_from("<q", data)[0], MICROS),
    18: _timestamp_decoder(NANOS, utc=True),
    19: _timestamp_decoder(NANOS, utc=False),
    20: lambda data: str(uuid.UUID(bytes=data[:16])),
}


# Shredded columns -----------------------------------------------------------------------------------------------------

NameDictionary = tuple[Sequence[str], Mapping[str, int]]
"""The names in the metadata of a variant by index, and their indices by name."""

_VALUE, _TYPED = "value", "typed_value"


def assemble_variants(array: pa.Array) -> pa.Array:
    r"""Assemble variants from a struct array as it is stored: `metadata`, `value`, and perhaps `typed_value`.

    >>> stored = pa.array([{"metadata": b"\x01\0\0", "value": None, "typed_value": 7}])
    >>> assemble_variants(stored).to_pylist()
    [{'metadata': b'\x01\x00\x00', 'value': b'\x18\x07\x00\x00\x00\x00\x00\x00\x00'}]
    """
    metadata = _child(array, "metadata")
    if metadata is None:
        raise CorruptFile("a variant without metadata")
    valid = np.asarray(array.is_valid()) if array.null_count else None
    if not _is_shredded(array):
        value = _child(array, _VALUE)
    else:
        value = pa.array(_assemble(array, _name_dictionaries(metadata, valid), valid), pa.binary())
    if value is None or (value.null_count and _has_nulls(value, valid)):
        value = _fill_missing(value, valid, len(array))
    if metadata.null_count and _has_nulls(metadata, valid):
        raise CorruptFile("a variant without metadata")
    children = [part if pa.types.is_binary(part.type) else part.cast(pa.binary()) for part in (metadata, value)]
    return struct_array(arrow_type(VARIANT), children, len(array), valid)


def _child(array: pa.Array, name: str) -> pa.Array | None:
    index = array.type.get_field_index(name)
    return None if index < 0 else array.field(index)


def _is_shredded(array: pa.Array) -> bool:
    typed = _child(array, _TYPED)
    return typed is not None and typed.null_count < len(typed)


def _has_nulls(array: pa.Array, valid: Any) -> bool:
    """Whether something is null although the variant itself is not."""
    nulls = np.asarray(array.is_null())
    return bool((nulls if valid is None else nulls & valid).any())


def _fill_missing(value: pa.Array | None, valid: Any, count: int) -> pa.Array:
    """Replace what is missing by the value null: what a variant with neither part means at the top level."""
    if value is None:
        return pa.array([NULL_VALUE] * count, pa.binary())
    return value.cast(pa.binary()).fill_null(NULL_VALUE)


def _name_dictionaries(metadata: pa.Array, valid: Any) -> list[NameDictionary | None]:
    """The name dictionary of each row, parsed once for each distinct metadata."""
    parsed: dict[bytes, NameDictionary] = {}
    dictionaries: list[NameDictionary | None] = []
    for row, data in enumerate(metadata.to_pylist()):
        if data is None or (valid is not None and not valid[row]):
            dictionaries.append(None)
            continue
        if data not in parsed:
            names = metadata_names(data)
            parsed[data] = (names, {name: index for index, name in enumerate(names)})
        dictionaries.append(parsed[data])
    return dictionaries


def _assemble(array: pa.Array, dictionaries: Sequence[NameDictionary | None], valid: Any = None) -> list[bytes | None]:
    """The values of pairs of `value` and `typed_value`; None where there is no value."""
    value, typed = _child(array, _VALUE), _child(array, _TYPED)
    stored = [None] * len(array) if value is None else value.to_pylist()
    if typed is None:
        return stored
    if pa.types.is_struct(typed.type):
        return _assemble_objects(stored, typed, dictionaries)
    shredded = _assemble_lists(typed, dictionaries) if hasattr(typed.type, "value_field") else _encode_column(typed)
    return [encoded if encoded is not None else other for encoded, other in zip(shredded, stored, strict=True)]


def _assemble_objects(
    stored: list[bytes | None], typed: pa.Array, dictionaries: Sequence[NameDictionary | None]
) -> list[bytes | None]:
    is_shredded = typed.is_valid().to_pylist()
    fields = [typed.type.field(index).name for index in range(typed.type.num_fields)]
    columns = [_assemble(typed.field(index), dictionaries) for index in range(typed.type.num_fields)]
    values: list[bytes | None] = []
    for row, (unshredded, dictionary) in enumerate(zip(stored, dictionaries, strict=True)):
        if not is_shredded[row] or dictionary is None:
            values.append(unshredded)
            continue
        items = {} if unshredded is None else object_items(unshredded, dictionary[0])
        for name, column in zip(fields, columns, strict=True):
            encoded = column[row]
            if encoded is not None:
                items[name] = encoded
        values.append(encode_object(items, dictionary[1]))
    return values


def _assemble_lists(typed: pa.Array, dictionaries: Sequence[NameDictionary | None]) -> list[bytes | None]:
    ends = np.asarray(typed.offsets)
    start = int(ends[0])
    counts = np.diff(ends)
    items = typed.values.slice(start, int(ends[-1]) - start)
    item_dictionaries = [names for names, count in zip(dictionaries, counts, strict=True) for _ in range(count)]
    encoded = [NULL_VALUE if item is None else item for item in _assemble(items, item_dictionaries)]
    return [
        encode_array(encoded[end - start - count : end - start]) if valid else None
        for valid, end, count in zip(typed.is_valid().to_pylist(), ends[1:].tolist(), counts.tolist(), strict=True)
    ]


def _encode_column(typed: pa.Array) -> list[bytes | None]:
    """Encode the values of a shredded column of a primitive type."""
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    kind, integers = _primitive_kind(typed.type)
    values = (typed if integers is None else typed.view(integers)).to_pylist()
    encode = _VALUE_ENCODERS.get(kind, lambda value: encode_primitive(kind, value))
    return [None if value is None else encode(value) for value in values]


def _decimal_encoder(kind: str) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        sign, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits)) or "0")
        return encode_primitive(kind, (-exponent, -unscaled if sign else unscaled))

    return encode


_VALUE_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: encode_primitive("true" if value else "false", None),
    **{kind: _decimal_encoder(kind) for kind in ("decimal4", "decimal8", "decimal16")},
}

_PRIMITIVE_KINDS: dict[pa.DataType, tuple[str, pa.DataType | None]] = {
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


def _primitive_kind(type_: pa.DataType) -> tuple[str, pa.DataType | None]:
    """The encoding's name for an Arrow type, and the integer type to view dates, times and timestamps as."""
    kind = _PRIMITIVE_KINDS.get(type_)
    if kind is not None:
        return kind
    if pa.types.is_decimal(type_):
        width = 4 if type_.precision <= 9 else 8 if type_.precision <= 18 else 16
        return f"decimal{width}", None
    if pa.types.is_timestamp(type_) and type_.unit in ("us", "ns"):
        zone, unit = "tz" if type_.tz else "", "_ns" if type_.unit == "ns" else ""
        return f"timestamp{zone}{unit}", pa.int64()
    raise UnsupportedFeature(f"a shredded variant with a column of Arrow's type {type_} cannot be read")
