r"""Values as Avro bytes, by their type: the exact counterpart of `type_to_avro`, one value at a time.

Structs are tuples in the order of their fields here; maps are dicts, lists are sequences.

>>> from floe.spec.types import INT, STRING, Field
>>> write = writer(StructType((Field(1, "a", INT, required=True), Field(2, "b", STRING))))
>>> write((3, "x")), write((3, None))
(b'\x06\x02\x02x', b'\x06\x00')
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from floe.avro.varints import encode_long
from floe.errors import InvalidInput, InvalidValue, UnsupportedFeature
from floe.spec.codecs.decimal_width import bytes_for_precision
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType, Type
from floe.spec.values.exact_numbers import unscaled_value

__all__ = ["Writer", "optional", "writer"]

Writer = Callable[[Any], bytes]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def _bytes(value: bytes) -> bytes:
    return encode_long(len(value)) + value


def _string(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise InvalidValue(f"a string that UTF-8 cannot hold: {value!r:.80}") from None
    return encode_long(len(data)) + data


_PLAIN: dict[str, Writer] = {
    "unknown": lambda value: b"",
    "boolean": lambda value: b"\1" if value else b"\0",
    **dict.fromkeys(
        ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), encode_long
    ),
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "string": _string,
    "binary": _bytes,
    "uuid": lambda value: bytes(value.bytes),
}


def writer(type_: Type) -> Writer:
    """What writes values of a type that are not null."""
    if isinstance(type_, StructType):
        return _struct(type_)
    if isinstance(type_, ListType):
        item = optional(type_.element_field)
        return lambda values: _blocks([item(value) for value in values])
    if isinstance(type_, MapType):
        key, value = writer(type_.key), optional(type_.value_field)
        return lambda pairs: _blocks([key(k) + value(v) for k, v in pairs.items()])
    if isinstance(type_, DecimalType):
        return _decimal(type_)
    if isinstance(type_, FixedType):
        return _fixed(type_.length)
    try:
        return _PLAIN[type_.kind]
    except KeyError:
        raise UnsupportedFeature(f"values of type {type_} are not written into manifests") from None


def optional(child: Field) -> Writer:
    """What writes the values of a field: behind the byte of a union, if it may be null."""
    own = writer(child.type)
    if child.type.kind == "unknown":
        return own
    if child.required:
        return _required(child.name, own)
    return lambda value: b"\0" if value is None else b"\2" + own(value)


def _required(name: str, own: Writer) -> Writer:
    def write(value: Any) -> bytes:
        if value is None:
            raise InvalidInput(f"{name} is required, and there is none")
        return own(value)

    return write


def _struct(type_: StructType) -> Writer:
    children = tuple(map(optional, type_.fields))
    return lambda values: b"".join([write(value) for write, value in zip(children, values, strict=True)])


def _blocks(items: list[bytes]) -> bytes:
    return b"".join([encode_long(len(items)), *items, b"\0"]) if items else b"\0"


def _fixed(length: int) -> Writer:
    def write(value: bytes) -> bytes:
        if len(value) != length:
            raise InvalidValue(f"a value of fixed[{length}] must have {length} bytes, found {len(value)}")
        return bytes(value)

    return write


def _decimal(type_: DecimalType) -> Writer:
    width = bytes_for_precision(type_.precision)

    def write(value: Any) -> bytes:
        unscaled = unscaled_value(value, type_.scale)
        if unscaled is None or abs(unscaled) >= 10**type_.precision:
            raise InvalidValue(f"{value} is not a value of type {type_}")
        return unscaled.to_bytes(width, "big", signed=True)

    return write
