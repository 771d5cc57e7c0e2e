"""The compiler of SQL values: resolves names and types, and returns values that are evaluated on batches.

A `Scope` has the relations of a statement: the table alone, or the table and the source of a MERGE. Names are resolved
in it, qualified (`t.amount`) or not; an ambiguous name is an error.

>>> import pyarrow as pa
>>> from floe.spec.types import Field, INT
>>> scope = Scope({"t": Schema((Field(1, "a", INT),))})
>>> value = scope.compile("a * 2 + 1")
>>> value.type, value.array(Rows.of(t=pa.record_batch({"a": pa.array([1, None], pa.int32())}))).to_pylist()
(INT, [3, None])
>>> scope.compile("upper(a) || b")
Traceback (most recent call last):
floe.errors.InvalidExpression: no column is named 'b'; columns are a
  upper(a) || b
              ^
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import can_store, cast_array
from floe.arrow.values.compiled import Compiled, Rows, Site
from floe.arrow.values.functions import FUNCTIONS
from floe.arrow.values.functions.nested import member
from floe.arrow.values.user_values import as_node, expression_text
from floe.errors import InvalidExpression, InvalidValue
from floe.formats.columns.arrays import constant_array
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, Field, StructType, Type
from floe.sql.values import MAX_DEPTH, Call, Cast, Literal, Member, Name, Node


@dataclass(frozen=True)
class Scope:
    """The relations that values can refer to, by name.

    `aliases` are further names of relations. An unqualified column name is looked up in all relations.
    """

    relations: Mapping[str, Schema]
    aliases: Mapping[str, str] = field(default_factory=dict)
    now_us: int = 0
    """The time of the statement, in microseconds since 1970: the value of `current_timestamp`."""

    case_sensitive: bool = True

    def only(self, *relations: str) -> Scope:
        """The scope restricted to some relations, for a clause of MERGE that sees only one side."""
        visible = {name: self.relations[name] for name in relations}
        return Scope(
            visible,
            {alias: relation for alias, relation in self.aliases.items() if relation in visible},
            self.now_us,
            self.case_sensitive,
        )

    def compile(self, value: Any) -> Compiled:
        """Compile a value of any form that `as_node` accepts; raises `InvalidExpression` if it is not valid."""
        return _Compiler(self, expression_text(value)).compile(as_node(value), 0)

    def condition(self, value: Any) -> Compiled:
        """Compile a condition; raises `InvalidExpression` if its type is not boolean.

        >>> Scope({"t": Schema(())}).condition("1 + 1")
        Traceback (most recent call last):
        floe.errors.InvalidExpression: a condition must be boolean, found int
          1 + 1
            ^
        """
        compiled = self.compile(value)
        site = Site("condition", compiled.node, expression_text(value), self.now_us)
        if compiled.type.kind not in ("boolean", "unknown"):
            site.fail(f"a condition must be boolean, found {compiled.type}")
        return site.cast(compiled, BOOLEAN)

    def stored(self, value: Any, column: Field, name: str | None = None) -> Compiled:
        """Compile a value that is assigned to a column: cast by Spark's store assignment, and checked for nulls.

        >>> from floe.spec.types import INT
        >>> Scope({"t": Schema(())}).stored("'7'", Field(1, "n", INT))
        Traceback (most recent call last):
        floe.errors.InvalidExpression: a value of type string cannot be assigned to a column of type int (column: n);
        write CAST(… AS int)
          '7'
          ^
        """
        compiled = value if isinstance(value, Compiled) else self.compile(value)
        site = Site(
            "assignment", compiled.node, None if isinstance(value, Compiled) else expression_text(value), self.now_us
        )
        column_name = name or column.name
        target = column.type
        if not can_store(compiled.type, target):
            has_offset = site.text is not None and compiled.node.at >= 0
            raise InvalidExpression(
                f"a value of type {compiled.type} cannot be assigned to a column of type {target}",
                text=site.text,
                position=compiled.node.at if has_offset else None,
                hint=f"write CAST(… AS {_sql_type_name(target)})",
                column=column_name,
            )
        if (
            compiled.node is not None
            and isinstance(compiled.node, Literal)
            and compiled.node.value is None
            and column.required
        ):
            raise InvalidExpression("a required column cannot be set to null", column=column_name)
        source = compiled.type

        def store(array: pa.Array) -> pa.Array:
            stored = cast_array(array, source, target)
            if column.required and stored.null_count:
                raise InvalidValue(
                    "null for a required column",
                    hint="assign a value that is not null, or make the column optional",
                    column=column_name,
                )
            return stored

        def evaluate(rows: Rows) -> pa.Array:
            try:
                return store(compiled.array(rows))
            except InvalidValue as error:
                raise error.with_context(column=column_name) from None

        return Compiled(target, evaluate, compiled.node, compiled.columns, (compiled,))


def _sql_type_name(type_: Type) -> str:
    return {"long": "bigint", "timestamptz": "timestamp_ltz"}.get(str(type_), str(type_))


@dataclass(frozen=True)
class _Compiler:
    scope: Scope
    text: str | None

    def compile(self, node: Node, depth: int) -> Compiled:
        site = Site("value", node, self.text, self.scope.now_us)
        if depth > 2 * MAX_DEPTH:
            site.fail("the value is nested too deeply")
        if isinstance(node, Literal):
            type_, value = node.type, node.value
            if type_.kind == "interval":
                return Compiled(type_, lambda rows: site.fail("an interval can only be added to a datetime"), node)
            return Compiled(type_, lambda rows: constant_array(type_, value, rows.count), node)
        if isinstance(node, Name):
            return self._column(node, site)
        if isinstance(node, Cast):
            inner = self.compile(node.value, depth + 1)
            cast = Site("CAST", node, self.text, self.scope.now_us).cast(inner, node.type)
            return Compiled(cast.type, cast.array, node, cast.columns, (inner,))
        if isinstance(node, Member):
            return member(site, self.compile(node.value, depth + 1), node.name)
        assert isinstance(node, Call)
        return self._call(node, depth)

    def _call(self, node: Call, depth: int) -> Compiled:
        name = node.function.upper() if node.function.isalpha() else node.function
        site = Site(node.function, node, self.text, self.scope.now_us)
        function = FUNCTIONS.get(node.function)
        if function is None:
            similar = get_close_matches(node.function, FUNCTIONS, n=3, cutoff=0.7)
            site.fail(
                f"there is no function named {node.function[:60]}",
                f"did you mean {' or '.join(similar)}?" if similar else None,
            )
        count = len(node.arguments)
        if not function.min_arguments <= count <= function.max_arguments:
            expected = (
                f"{function.min_arguments}"
                if function.min_arguments == function.max_arguments
                else f"at least {function.min_arguments}"
            )
            if function.min_arguments != function.max_arguments and function.max_arguments < 100:
                expected = f"{function.min_arguments} to {function.max_arguments}"
            site.fail(f"{name} takes {expected} arguments, found {count}")
        values = [self.compile(argument, depth + 1) for argument in node.arguments]
        return function.compile_call(site, values)

    # names -----------------------------------------------------------------------------------------------------

    def _column(self, node: Name, site: Site) -> Compiled:
        matches = [*self._qualified(node.parts), *self._unqualified(node.parts)]
        if not matches:
            site.fail(f"no column is named {'.'.join(node.parts)!r}", self._column_hint(node.parts))
        relation, path = matches[0]
        if len({match[0] for match in matches}) > 1 or len(set(matches)) > 1:
            candidates = " or ".join(f"{name}.{'.'.join(path)}" for name, path in dict.fromkeys(matches))
            site.fail(f"the name {'.'.join(node.parts)!r} may mean {candidates}", "write the relation before it")
        return column(self.scope.relations[relation], relation, path, node)

    def _qualified(self, parts: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
        if len(parts) < 2:
            return []
        relation = self._relation(parts[0])
        path = None if relation is None else self._path(relation, parts[1:])
        return [] if relation is None or path is None else [(relation, path)]

    def _unqualified(self, parts: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
        if len(parts) > 1 and self._qualified(parts):
            return []  # the relation is meant, as in SQL
        paths = ((relation, self._path(relation, parts)) for relation in self.scope.relations)
        return [(relation, path) for relation, path in paths if path is not None]

    def _relation(self, name: str) -> str | None:
        by_name = {**{name: name for name in self.scope.relations}, **self.scope.aliases}
        return by_name.get(name) or {key.lower(): value for key, value in by_name.items()}.get(name.lower())

    def _path(self, relation: str, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of a name in a relation and its structs; None if the relation does not have it."""
        fields: tuple[Field, ...] = self.scope.relations[relation].fields
        path: list[str] = []
        while parts:
            match = self._field(fields, parts)
            if match is None:
                return None
            child, used = match
            path.append(child.name)
            parts = parts[used:]
            fields = child.type.fields if isinstance(child.type, StructType) else ()
        return tuple(path)

    def _field(self, fields: tuple[Field, ...], parts: tuple[str, ...]) -> tuple[Field, int] | None:
        """The field that the first parts name, and the number of these parts: a field name may contain dots."""
        for used in range(1, len(parts) + 1):
            name = ".".join(parts[:used])
            for child in fields:
                if child.name == name:
                    return child, used
            same_name = [child for child in fields if child.name.lower() == name.lower()]
            if len(same_name) == 1 and not self.scope.case_sensitive:
                return same_name[0], used
        return None

    def _column_hint(self, parts: tuple[str, ...]) -> str:
        names = [name for schema in self.scope.relations.values() for name in (field.name for field in schema.fields)]
        similar = get_close_matches(parts[-1], names, n=2, cutoff=0.7)
        if similar:
            return f"did you mean {' or '.join(map(repr, similar))}?"
        return f"columns are {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"


def column(schema: Schema, relation: str, path: tuple[str, ...], node: Node) -> Compiled:
    """The compiled value of a column of a relation, or of a field in its structs."""
    first, *nested = path
    field = next(field for field in schema.fields if field.name == first)
    for name in nested:
        child = field.type.field_named(name) if isinstance(field.type, StructType) else None
        assert child is not None
        field = child

    def array(rows: Rows) -> pa.Array:
        values = rows.relations[relation].column(first)
        for name in nested:
            values = pc.struct_field(values, name)
        return values

    return Compiled(field.type, array, node, frozenset({(relation, path)}))
