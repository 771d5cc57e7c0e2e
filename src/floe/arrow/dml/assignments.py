"""What columns are set to: `SET amount = amount * 2, who.name = 'x'`, and the values of new rows.

A field of a struct is set by its path, and the rest of the struct stays as it is; where the struct is null, the other
fields are null in the new one. Columns that a new row does not name have their write default, or are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.compiled import Compiled, Rows
from floe.arrow.values.compiler import Scope, column
from floe.errors import InvalidExpression, InvalidInput, InvalidValue, NoSuchColumn
from floe.formats.arrow_arrays import constant_array, struct_array
from floe.formats.arrow_types import arrow_type
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType
from floe.sql.values import Name

Columns = Sequence[Compiled]
"""A value for each column of a table."""

_QUOTED = frozenset({"string", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "uuid"})


def updated_columns(schema: Schema, relation: str, given: Mapping[str, Any], scope: Scope) -> Columns:
    """The columns of a table with some of them set; the others are as they are.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "a", INT), Field(2, "b", INT)))
    >>> rows = pa.record_batch({"a": pa.array([1], pa.int32()), "b": pa.array([5], pa.int32())})
    >>> made = updated_columns(schema, "t", {"b": "a + 1"}, Scope({"t": schema}))
    >>> [column.array(Rows.of(t=rows)).to_pylist() for column in made]
    [[1], [2]]
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidInput(
            f"expected the columns to set and their values, found {given!r:.80}",
            hint='write a dictionary such as {"amount": "amount * 2"}',
        )
    chosen = _by_path(schema, given, scope)
    return [
        _updated(field, column(schema, relation, (field.name,), Name(-1, (field.name,))), (field.name,), chosen, scope)
        for field in schema.fields
    ]


def inserted_columns(schema: Schema, given: Mapping[str, Any], scope: Scope) -> Columns:
    """The columns of new rows: some of them given, the others by default."""
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"expected the columns of new rows and their values, found {given!r:.80}",
            hint='write a dictionary such as {"id": "s.id"}',
        )
    chosen = _by_path(schema, given, scope)
    return [_inserted(field, (field.name,), chosen, scope) for field in schema.fields]


def _by_path(schema: Schema, given: Mapping[str, Any], scope: Scope) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, value in given.items():
        path = _path(schema, name, scope)
        for other in found:
            if other[: len(path)] == path[: len(other)]:
                raise InvalidInput(f"{'.'.join(path)!r} is set twice", column=".".join(other))
        found[path] = value
    return found


def _path(schema: Schema, name: Any, scope: Scope) -> tuple[str, ...]:
    if not isinstance(name, str | tuple) or not name:
        raise InvalidInput(f"the name of a column is text, found {name!r:.80}")
    shown = name if isinstance(name, str) else ".".join(name)
    try:
        entry = schema.resolve(name, case_sensitive=scope.case_sensitive)
    except NoSuchColumn:
        first, _, rest = shown.partition(".")
        if rest and first in ("t", "target") and schema.has(rest, case_sensitive=scope.case_sensitive):
            return _path(schema, rest, scope)
        raise
    if entry.in_collection:
        raise InvalidInput("a part of a list or map cannot be set", hint="set the whole column", column=entry.name)
    return tuple(entry.path)


def _updated(
    field: Field, old: Compiled, path: tuple[str, ...], chosen: Mapping[tuple[str, ...], Any], scope: Scope
) -> Compiled:
    if path in chosen:
        return _stored(chosen[path], field, path, scope)
    if not any(other[: len(path)] == path for other in chosen):
        return old
    assert isinstance(field.type, StructType)
    children = [_updated(child, _child(old, child), (*path, child.name), chosen, scope) for child in field.type.fields]
    return _struct(field, children)


def _stored(value: Any, field: Field, path: tuple[str, ...], scope: Scope) -> Compiled:
    try:
        return scope.stored(value, field, ".".join(path))
    except InvalidExpression as error:
        if isinstance(value, str) and "'" not in value and field.type.kind in _QUOTED:
            quotes = f"text is SQL here, in which texts and times have quotes: \"'{value[:40]}'\""
            error.hint = quotes if error.hint is None else f"{error.hint}; {quotes}"
        raise


def _child(struct: Compiled, child: Field) -> Compiled:
    return replace(struct, type=child.type, array=lambda rows: pc.struct_field(struct.array(rows), child.name))


def _struct(field: Field, children: Sequence[Compiled]) -> Compiled:
    """A struct of values, never null."""
    type_ = arrow_type(field.type)

    def array(rows: Rows) -> pa.Array:
        arrays = [child.array(rows) for child in children]
        for child, found in zip(field.type.fields, arrays, strict=True):
            if child.required and found.null_count:
                raise InvalidValue("null for a required field", column=f"{field.name}.{child.name}")
        return struct_array(type_, arrays, rows.count)

    columns = frozenset[Any]().union(*(child.columns for child in children))
    return Compiled(field.type, array, Name(-1, (field.name,)), columns, tuple(children))


def _inserted(field: Field, path: tuple[str, ...], chosen: Mapping[tuple[str, ...], Any], scope: Scope) -> Compiled:
    if path in chosen:
        return _stored(chosen[path], field, path, scope)
    if any(other[: len(path)] == path for other in chosen):
        assert isinstance(field.type, StructType)
        return _struct(field, [_inserted(child, (*path, child.name), chosen, scope) for child in field.type.fields])
    if field.required and field.write_default is None:
        raise InvalidInput(
            "a required column has no value in new rows, and no default",
            hint="name it among the values",
            column=".".join(path),
        )
    type_, value = field.type, field.write_default
    return Compiled(type_, lambda rows: constant_array(type_, value, rows.count), Name(-1, path))
