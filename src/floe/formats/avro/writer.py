r"""Arrow columns as Avro bytes: one piece of bytes for each row, column by column.

>>> from floe.spec.types import LONG
>>> encode_column(Field(1, "n", LONG), pa.array([1, None, -65]))
[b'\x02\x02', b'\x00', b'\x02\x81\x01']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from floe.avro.packing import pack_longs
from floe.avro.varints import encode_long
from floe.errors import UnsupportedFeature
from floe.formats.arrow_conversion import Repeated
from floe.spec.codecs.decimal_width import bytes_for_precision
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType, Type

__all__ = ["check_storable", "encode_column"]

Pieces = list[bytes]
_TRUTH = {True: b"\1", False: b"\0"}


def check_storable(fields: Iterable[Field], path: tuple[str, ...] = ()) -> None:
    """Raise for what Avro has no form for: lists whose elements are of type unknown, and take no bytes.

    >>> from floe.spec.types import UNKNOWN
    >>> check_storable([Field(1, "l", ListType(2, UNKNOWN))])
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: Avro files cannot hold lists of type unknown (column: l); give the elements a type
    """
    for field in fields:
        own = (*path, field.name)
        if isinstance(field.type, ListType) and not _takes_bytes(field.type.element_field):
            raise UnsupportedFeature(
                "Avro files cannot hold lists of type unknown", hint="give the elements a type", column=".".join(own)
            )
        check_storable(field.type.fields, own)


def _takes_bytes(field: Field) -> bool:
    if field.type.kind == "unknown":
        return False
    if field.optional or not isinstance(field.type, StructType):
        return True
    return any(map(_takes_bytes, field.type.fields))


def encode_column(field: Field, array: pa.Array) -> Pieces:
    """The bytes of each row's value: behind the byte of a union, if it may be null (spec: Appendix A, Avro)."""
    if field.type.kind == "unknown":
        return [b""] * len(array)
    if field.required:
        return _encode(field.type, array)
    if not array.null_count:
        return [b"\2" + piece for piece in _encode(field.type, array)]
    pieces = iter(_encode(field.type, array.drop_null()))
    return [b"\2" + next(pieces) if known else b"\0" for known in array.is_valid().to_pylist()]


def _encode(type_: Type, array: pa.Array) -> Pieces:
    """The bytes of values, none of which is null."""
    if isinstance(type_, StructType):
        return _structs(type_, array)
    if isinstance(type_, ListType):
        return _lists(Repeated.of(array), array.values, lambda items: encode_column(type_.element_field, items))
    if isinstance(type_, MapType):
        return _maps(type_, array)
    if isinstance(type_, DecimalType):
        return _decimals(type_, array)
    return _PLAIN[type_.kind](array)


def _structs(type_: StructType, array: pa.Array) -> Pieces:
    columns = [encode_column(child, array.field(place)) for place, child in enumerate(type_.fields)]
    return [b"".join(pieces) for pieces in zip(*columns, strict=True)] if columns else [b""] * len(array)


def _lists(parts: Repeated, items: pa.Array, encode: Callable[[pa.Array], Pieces]) -> Pieces:
    pieces = encode(parts.items(items))
    edges = np.frombuffer(parts.offsets, np.int32).tolist()
    return [_list(pieces[begin:end]) for begin, end in pairwise(edges)]


def _list(pieces: Pieces) -> bytes:
    return b"".join((encode_long(len(pieces)), *pieces, b"\0")) if pieces else b"\0"


def _maps(type_: MapType, array: pa.Array) -> Pieces:
    """A map with keys that are strings, and a list of pairs, have the same bytes."""
    parts = Repeated.of(array)
    keys = encode_column(type_.key_field, parts.items(array.keys))
    values = encode_column(type_.value_field, parts.items(array.items))
    pairs = [key + value for key, value in zip(keys, values, strict=True)]
    edges = np.frombuffer(parts.offsets, np.int32).tolist()
    return [_list(pairs[begin:end]) for begin, end in pairwise(edges)] if len(array) else []


def _integers(array: pa.Array) -> Pieces:
    number = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pack_longs(array.view(number).to_pylist())


def _booleans(array: pa.Array) -> Pieces:
    return [_TRUTH[value] for value in array.to_pylist()]


def _strings(array: pa.Array) -> Pieces:
    values: list[bytes] = array.view(pa.binary()).to_pylist()
    return [encode_long(len(value)) + value for value in values]


def _of_one_width(array: pa.Array) -> Pieces:
    width = array.type.bit_width // 8
    if not len(array) or not width:
        return [b""] * len(array)
    data = memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width].tobytes()
    return _cut(data, width)


def _cut(data: bytes, width: int) -> Pieces:
    return [data[at : at + width] for at in range(0, len(data), width)]


def _decimals(type_: DecimalType, array: pa.Array) -> Pieces:
    if not len(array):
        return []
    width = bytes_for_precision(type_.precision)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 16 : (array.offset + len(array)) * 16]
    return _cut(np.ascontiguousarray(raw.reshape(-1, 16)[:, :width][:, ::-1]).tobytes(), width)


def _variants(array: pa.Array) -> Pieces:
    metadata, value = _strings(array.field(0)), _strings(array.field(1))
    return [first + second for first, second in zip(metadata, value, strict=True)]


_PLAIN: dict[str, Callable[[Any], Pieces]] = {
    "boolean": _booleans,
    **dict.fromkeys(
        ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _integers
    ),
    **dict.fromkeys(("float", "double", "uuid", "fixed"), _of_one_width),
    **dict.fromkeys(("string", "binary", "geometry", "geography"), _strings),
    "variant": _variants,
}
