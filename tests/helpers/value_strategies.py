"""Hypothesis strategies for types and for their values, in the form that `floe.spec.values` describes."""

import struct
from decimal import Decimal

from hypothesis import strategies as st

from floe.spec import types as t
from floe.spec.types import DecimalType, Field, FixedType, GeographyType, GeometryType, ListType, MapType, StructType

PRIMITIVES = [
    t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, DecimalType(9, 2), DecimalType(38, 10), DecimalType(5, 0),
    DecimalType(3, 3), t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS, t.STRING, t.UUID,
    FixedType(3), t.BINARY,
]  # fmt: skip

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOAT32 = st.floats(width=32)


def decimals(type_):
    """Decimals with just the scale of the type."""
    limit = 10**type_.precision - 1
    digits = st.integers(-limit, limit)
    return digits.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -type_.scale)))


def point_wkb(x, y):
    """The well-known binary of a point."""
    return struct.pack("<BIdd", 1, 1, x, y)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
_PLAIN = {
    "boolean": st.booleans(),
    "int": INT32,
    "long": INT64,
    "float": FLOAT32,
    "double": st.floats(),
    "date": INT32,
    "time": st.integers(0, 86_400_000_000 - 1),
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), INT64),
    "string": TEXT,
    "uuid": st.uuids(),
    "binary": st.binary(),
    "geometry": st.builds(point_wkb, FINITE, FINITE),
    "geography": st.builds(point_wkb, FINITE, FINITE),
    "unknown": st.none(),
}


def values_of(type_):
    """Values of a type that are not null; parts of nested values may be, where they are optional."""
    if isinstance(type_, DecimalType):
        return decimals(type_)
    if isinstance(type_, FixedType):
        return st.binary(min_size=type_.length, max_size=type_.length)
    if isinstance(type_, StructType):
        return st.fixed_dictionaries(
            {child.name: _of_field(child) for child in type_.fields if child.required},
            optional={child.name: _of_field(child) for child in type_.fields if child.optional},
        )
    if isinstance(type_, ListType):
        return st.lists(_of_field(type_.element_field), max_size=4)
    if isinstance(type_, MapType):
        key, value = map(_of_field, type_.fields)
        if type_.key.is_nested:
            return st.lists(st.tuples(key, value), max_size=3, unique_by=lambda pair: repr(without_nulls(pair[0])))
        return st.dictionaries(key.filter(lambda k: k == k), value, max_size=4)
    return _PLAIN[type_.kind]


def without_nulls(value):
    """A value without the nulls of its structs, which JSON leaves out."""
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return type(value)(map(without_nulls, value))
    return value


def _of_field(child):
    inner = values_of(child.type)
    return inner if child.required else st.none() | inner


def primitive_types():
    """Any primitive type without geometries and unknown."""
    return st.sampled_from(PRIMITIVES)


def _nested(inner):
    ids = st.integers(1, 10**6)
    struct_type = st.lists(st.tuples(inner, st.booleans()), max_size=3, min_size=1).map(
        lambda parts: StructType(tuple(Field(n + 1, f"f{n}", part, need) for n, (part, need) in enumerate(parts)))
    )
    return (
        struct_type
        | st.builds(ListType, ids, inner, st.booleans())
        | st.builds(MapType, ids, inner, ids, inner, st.booleans())
    )


def all_types():
    """Any type that has a JSON form, nested a few levels deep."""
    geo = st.sampled_from([GeometryType(), GeographyType("EPSG:4326", "karney")])
    return st.recursive(primitive_types() | geo, _nested, max_leaves=4)


def typed_values(types):
    """Pairs of a type and a value of it."""
    return types.flatmap(lambda type_: st.tuples(st.just(type_), values_of(type_)))
