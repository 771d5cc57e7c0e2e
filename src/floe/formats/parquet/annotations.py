"""Logical types that pyarrow does not write, put into the footer of a file: UUID, VARIANT, GEOMETRY, GEOGRAPHY.

pyarrow writes the values of these types rightly, but not in every version what they mean. The footer's schema is so
completed after it has made the footer, and before the file is published (Parquet: Logical Types, File Format).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from floe.formats.parquet.compact_thrift import BINARY, BYTE, I32, STRUCT, Value, read_struct, write_struct
from floe.spec.codecs.parquet_types import LogicalAnnotation, parquet_type
from floe.spec.schemas.schema import Schema
from floe.spec.types import EDGE_ALGORITHMS

__all__ = ["annotations_of", "with_annotations"]

_SCHEMA, _ELEMENT_ID, _LOGICAL_TYPE = 2, 9, 10
_LENGTH_AND_MAGIC = 8


def _text(text: str | None) -> Value:
    return Value(BINARY, (text or "").encode())


def _uuid(annotation: LogicalAnnotation) -> dict[int, Value]:
    return {14: Value(STRUCT, {})}


def _variant(annotation: LogicalAnnotation) -> dict[int, Value]:
    return {16: Value(STRUCT, {1: Value(BYTE, annotation.version)})}


def _geometry(annotation: LogicalAnnotation) -> dict[int, Value]:
    return {17: Value(STRUCT, {1: _text(annotation.crs)})}


def _geography(annotation: LogicalAnnotation) -> dict[int, Value]:
    algorithm = EDGE_ALGORITHMS.index((annotation.algorithm or EDGE_ALGORITHMS[0]).lower())
    return {18: Value(STRUCT, {1: _text(annotation.crs), 2: Value(I32, algorithm)})}


_UNIONS: dict[str, Callable[[LogicalAnnotation], dict[int, Value]]] = {
    "UUID": _uuid,
    "VARIANT": _variant,
    "GEOMETRY": _geometry,
    "GEOGRAPHY": _geography,
}


def annotations_of(schema: Schema) -> dict[int, LogicalAnnotation]:
    """The annotations that have to be put in, by field id.

    >>> from floe.spec.types import Field, GeometryType, LONG
    >>> annotations_of(Schema((Field(1, "a", LONG), Field(2, "g", GeometryType()))))
    {2: LogicalAnnotation(name='GEOMETRY', ... crs='OGC:CRS84', ...)}
    """
    found = {}
    for entry in schema.by_id.values():
        stored = parquet_type(entry.field.type)
        if stored is not None and stored.logical is not None and stored.logical.name in _UNIONS:
            found[entry.field.id] = stored.logical
    return found


def with_annotations(tail: bytes, annotations: dict[int, LogicalAnnotation]) -> bytes:
    """The end of a Parquet file, which holds the whole footer, with annotations for columns of some ids."""
    length = int.from_bytes(tail[-_LENGTH_AND_MAGIC:-4], "little")
    start = len(tail) - _LENGTH_AND_MAGIC - length
    footer = read_struct(tail[start:-_LENGTH_AND_MAGIC])
    for element in _elements(footer):
        found = element.get(_ELEMENT_ID)
        annotation = annotations.get(found.content) if found is not None else None
        if annotation is not None:
            element[_LOGICAL_TYPE] = Value(STRUCT, _UNIONS[annotation.name](annotation))
    written = write_struct(footer)
    return tail[:start] + written + len(written).to_bytes(4, "little") + tail[-4:]


def _elements(footer: dict[int, Value]) -> Iterator[dict[int, Any]]:
    _, elements = footer[_SCHEMA].content
    yield from elements
