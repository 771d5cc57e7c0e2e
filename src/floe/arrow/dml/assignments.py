"""Assignments of UPDATE and MERGE (`SET amount = amount * 2, who.name = 'x'`), and the values of inserted rows.

A field of a struct is assigned by its path, and the other fields of the struct keep their values; where the struct is
null, they are null in the new struct. A column without a value in an inserted row gets its write default, or null.
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
from floe.formats.columns.arrays import constant_array, struct_array
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType
from floe.sql.values import Name

Columns = Sequence[Compiled]
"""One compiled value for each column of a table."""

_QUOTED_KINDS = frozenset(
    {"string", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "uuid"}
)


def updated_columns(schema: Schema, relation: str, assignments: Mapping[str, Any], scope: Scope) -> Columns:
    """Compile assignments to the columns of a table; columns without an assignment keep their values.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "a", INT), Field(2, "b", INT)))
    >>> rows = pa.record_batch({"a": pa.array([1], pa.int32()), "b": pa.array([5], pa.int32())})
    >>> columns = updated_columns(schema, "t", {"b": "a + 1"}, Scope({"t": schema}))
    >>> [column.array(Rows.of(t=rows)).to_pylist() for column in columns]
    [[1], [2]]
    """
    if not isinstance(assignments, Mapping) or not assignments:
        raise InvalidInput(
            f"expected the columns to set and their values, found {assignments!r:.80}",
            hint='write a dictionary such as {"amount": "amount * 2"}',
        )
    by_path = _resolve_paths(schema, assignments, scope)
    return [
        _update_field(
            field, column(schema, relation, (field.name,), Name(-1, (field.name,))), (field.name,), by_path, scope
        )
        for field in schema.fields
    ]


def inserted_columns(schema: Schema, values: Mapping[str, Any], scope: Scope) -> Columns:
    """Compile the columns of inserted rows; columns without a value get their write default, or null."""
    if not isinstance(values, Mapping):
        raise InvalidInput(
            f"expected the columns of new rows and their values, found {values!r:.80}",
            hint='write a dictionary such as {"id": "s.id"}',
        )
    by_path = _resolve_paths(schema, values, scope)
    return [_insert_field(field, (field.name,), by_path, scope) for field in schema.fields]


def _resolve_paths(schema: Schema, values: Mapping[str, Any], scope: Scope) -> dict[tuple[str, ...], Any]:
    by_path: dict[tuple[str, ...], Any] = {}
    for name, value in values.items():
        path = _resolve_path(schema, name, scope)
        for other_path in by_path:
            if other_path[: len(path)] == path[: len(other_path)]:
                raise InvalidInput(f"{'.'.join(path)!r} is set twice", column=".".join(other_path))
        by_path[path] = value
    return by_path


def _resolve_path(schema: Schema, name: Any, scope: Scope) -> tuple[str, ...]:
    if not isinstance(name, str | tuple) or not name:
        raise InvalidInput(f"the name of a column must be text, found {name!r:.80}")
    dotted = name if isinstance(name, str) else ".".join(name)
    try:
        entry = schema.resolve(name, case_sensitive=scope.case_sensitive)
    except NoSuchColumn:
        first, _, remainder = dotted.partition(".")
        if remainder and first in ("t", "target") and schema.has(remainder, case_sensitive=scope.case_sensitive):
            return _resolve_path(schema, remainder, scope)
        raise
    if entry.in_collection:
        raise InvalidInput(
            "an element of a list or map cannot be assigned", hint="assign the whole column", column=entry.name
        )
    return tuple(entry.path)


def _update_field(
    field: Field, old_value: Compiled, path: tuple[str, ...], by_path: Mapping[tuple[str, ...], Any], scope: Scope
) -> Compiled:
    if path in by_path:
        return _compile_stored(by_path[path], field, path, scope)
    if not any(assigned[: len(path)] == path for assigned in by_path):
        return old_value
    assert isinstance(field.type, StructType)
    children = [
        _update_field(child, _struct_child(old_value, child), (*path, child.name), by_path, scope)
        for child in field.type.fields
    ]
    return _compile_struct(field, children)


def _compile_stored(value: Any, field: Field, path: tuple[str, ...], scope: Scope) -> Compiled:
    try:
        return scope.stored(value, field, ".".join(path))
    except InvalidExpression as error:
        if isinstance(value, str) and "'" not in value and field.type.kind in _QUOTED_KINDS:
            quotes = f"the value is SQL, in which text and times are quoted: \"'{value[:40]}'\""
            error.hint = quotes if error.hint is None else f"{error.hint}; {quotes}"
        raise


def _struct_child(struct: Compiled, child: Field) -> Compiled:
    return replace(struct, type=child.type, array=lambda rows: pc.struct_field(struct.array(rows), child.name))


def _compile_struct(field: Field, children: Sequence[Compiled]) -> Compiled:
    """A struct of compiled values, which is never null."""
    type_ = arrow_type(field.type)

    def array(rows: Rows) -> pa.Array:
        arrays = [child.array(rows) for child in children]
        for child, child_array in zip(field.type.fields, arrays, strict=True):
            if child.required and child_array.null_count:
                raise InvalidValue("null for a required field", column=f"{field.name}.{child.name}")
        return struct_array(type_, arrays, rows.count)

    columns = frozenset[Any]().union(*(child.columns for child in children))
    return Compiled(field.type, array, Name(-1, (field.name,)), columns, tuple(children))


def _insert_field(
    field: Field, path: tuple[str, ...], by_path: Mapping[tuple[str, ...], Any], scope: Scope
) -> Compiled:
    if path in by_path:
        return _compile_stored(by_path[path], field, path, scope)
    if any(assigned[: len(path)] == path for assigned in by_path):
        assert isinstance(field.type, StructType)
        return _compile_struct(
            field, [_insert_field(child, (*path, child.name), by_path, scope) for child in field.type.fields]
        )
    if field.required and field.write_default is None:
        raise InvalidInput(
            "a required column has no value and no default",
            hint="add it to the values",
            column=".".join(path),
        )
    type_, value = field.type, field.write_default
    return Compiled(type_, lambda rows: constant_array(type_, value, rows.count), Name(-1, path))
