"""The columns of ORC files as pyarrow writes them: their types with ids and attributes, and arrays made to fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from floe.errors import UnsupportedFeature
from floe.formats.arrow_conversion import Repeated
from floe.formats.arrow_types import arrow_type
from floe.spec.codecs.orc_types import field_attributes
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.spec.values.civil_time import MICROS, NANOS

__all__ = ["Shape", "moments_in", "numbered", "shape_of", "stored_field"]

_TICKS = {
    **dict.fromkeys(("timestamp", "timestamptz"), MICROS),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), NANOS),
}
"""How many units of each kind of timestamp make a second."""

Shape = Callable[[pa.Array], pa.Array]
"""From arrays of the type that `arrow_type` gives to those that are written."""


def _stored_type(type_: Type) -> pa.DataType:
    """The Arrow type that pyarrow writes as the ORC type of a type."""
    if isinstance(type_, StructType):
        return pa.struct([stored_field(child) for child in _stored_children(type_)])
    if isinstance(type_, ListType):
        return pa.list_(stored_field(type_.element_field))
    if isinstance(type_, MapType):
        return pa.map_(stored_field(type_.key_field), stored_field(type_.value_field))
    if type_.kind == "time":
        return pa.int64()
    if type_.kind in ("uuid", "fixed"):
        return pa.binary()
    return arrow_type(type_)


def _stored_children(type_: StructType) -> list[Field]:
    return [child for child in type_.fields if child.type.kind != "unknown"]


def stored_field(field: Field) -> pa.Field:
    """The column that pyarrow writes for a field, with the attributes that its ORC type gets.

    >>> from floe.spec.types import TIME
    >>> stored_field(Field(1, "t", TIME)).type
    DataType(int64)
    """
    if field.type.kind == "unknown":
        raise UnsupportedFeature(
            "ORC has no form for lists and maps of type unknown", hint="give the elements a type", column=field.name
        )
    attributes = field_attributes(field)
    return pa.field(field.name, _stored_type(field.type), nullable=field.optional, metadata=attributes)


def shape_of(type_: Type) -> Shape:
    """What makes the arrays of a type those that are written.

    Structs are copied where they are a part of a longer one, of which pyarrow would write the wrong rows.
    """
    wanted = _stored_type(type_)
    if isinstance(type_, StructType):
        return _struct_shape(type_, wanted)
    if isinstance(type_, ListType):
        return _repeated_shape([shape_of(type_.element)], wanted)
    if isinstance(type_, MapType):
        return _repeated_shape([shape_of(type_.key), shape_of(type_.value)], wanted)
    if type_.kind == "time":
        return lambda array: array.view(wanted)
    if type_.kind in ("uuid", "fixed"):
        return lambda array: array.cast(wanted)
    return (lambda array: pa.concat_arrays([array])) if type_.kind == "variant" else (lambda array: array)


def _struct_shape(type_: StructType, wanted: pa.DataType) -> Shape:
    places = [place for place, child in enumerate(type_.fields) if child.type.kind != "unknown"]
    shapes = [shape_of(type_.fields[place].type) for place in places]

    def shape(array: pa.Array) -> pa.Array:
        array = pa.concat_arrays([array]) if array.offset or array.null_count else array
        children = [_whole(own(array.field(place))) for place, own in zip(places, shapes, strict=True)]
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:1], children=children)

    return shape


def _whole(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([array]) if array.offset else array


def _repeated_shape(shapes: Sequence[Shape], wanted: pa.DataType) -> Shape:
    """Lists have one shape inside, maps two."""

    def shape(array: pa.Array) -> pa.Array:
        parts = Repeated.of(array)
        stored = [array.values] if len(shapes) == 1 else [array.keys, array.items]
        made = [_whole(own(parts.items(part))) for own, part in zip(shapes, stored, strict=True)]
        if len(made) == 2:
            entries = pa.struct([wanted.key_field, wanted.item_field])
            made = [pa.Array.from_buffers(entries, parts.count, [None], children=made)]
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=made)

    return shape


def numbered(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[tuple[str, int] | None]:
    """The dotted name and id of each type of the file, in the order of their numbers; a variant's parts have none."""
    for field in fields:
        own = (*path, field.name)
        yield ".".join(own), field.id
        if field.type.kind == "variant":
            yield from (None, None)
        elif field.type.is_nested:
            children = _stored_children(field.type) if isinstance(field.type, StructType) else field.type.fields
            yield from numbered(children, own)


def moments_in(type_: Type, array: pa.Array) -> Iterator[tuple[pa.Array, int]]:
    """The timestamps that a shaped array is or has inside, with how many units of theirs make a second.

    >>> from floe.spec.types import TIMESTAMP
    >>> times = pa.array([[7]], pa.list_(pa.timestamp("us")))
    >>> [(len(found), ticks) for found, ticks in moments_in(ListType(1, TIMESTAMP), times)]
    [(1, 1000000)]
    """
    if type_.kind in _TICKS:
        yield array, _TICKS[type_.kind]
    elif isinstance(type_, StructType):
        for place, child in enumerate(_stored_children(type_)):
            yield from moments_in(child.type, array.field(place))
    elif isinstance(type_, ListType):
        yield from moments_in(type_.element, array.values)
    elif isinstance(type_, MapType):
        yield from moments_in(type_.key, array.keys)
        yield from moments_in(type_.value, array.items)
