"""Variants read from shredded columns: put together again from typed columns and what is left (Parquet: Shredding).

A shredded variant has a `typed_value` beside its `value`: a column of one type, a list, or a struct with such a pair
for each field. Where both are null there is no value; where both are set, an object is stored partly in each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.arrow_types import arrow_type
from floe.formats.arrow_values import struct_array
from floe.formats.variant_encoding import (
    NULL_VALUE,
    encode_array,
    encode_object,
    encode_primitive,
    names_of,
    object_items,
)
from floe.spec.types import VARIANT

__all__ = ["assemble_variants"]

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
