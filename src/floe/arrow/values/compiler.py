"""Values compiled against the columns that they may name: each gives a column for some rows.

A `Scope` holds the relations of a statement: the table alone, or the table and the source of a MERGE. Names are looked
up in it, qualified (`t.amount`) or not, and a name that could mean two things is an error.

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

from floe.arrow.values.casts import cast_array
from floe.arrow.values.coercion import can_store
from floe.arrow.values.compiled import Compiled, Rows, Site
from floe.arrow.values.functions import FUNCTIONS
from floe.arrow.values.functions.nested import member
from floe.arrow.values.user_values import as_node, text_of
from floe.errors import InvalidExpression, InvalidValue
from floe.formats.arrow_arrays import constant_array
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, Field, StructType, Type
from floe.sql.values import MAX_DEPTH, Call, Cast, Literal, Member, Name, Node


@dataclass(frozen=True)
class Scope:
    """The relations whose columns values may name, by the names that the statement has for them.

    `aliases` are further names of relations. A name without one is looked up in all of them.
    """

    relations: Mapping[str, Schema]
    aliases: Mapping[str, str] = field(default_factory=dict)
    now_us: int = 0
    """The time of the statement."""

    case_sensitive: bool = True

    def only(self, *relations: str) -> Scope:
        """The scope with fewer relations: what a clause of MERGE can see."""
        kept = {name: self.relations[name] for name in relations}
        return Scope(kept, {a: r for a, r in self.aliases.items() if r in kept}, self.now_us, self.case_sensitive)

    def compile(self, given: Any) -> Compiled:
        """The value that a user gave, ready to be asked for columns."""
        return _Compiler(self, text_of(given)).compile(as_node(given), 0)

    def condition(self, given: Any) -> Compiled:
        """The value, which has to be true or false.

        >>> Scope({"t": Schema(())}).condition("1 + 1")
        Traceback (most recent call last):
        floe.errors.InvalidExpression: a condition is true or false, found int
          1 + 1
            ^
        """
        found = self.compile(given)
        site = Site("condition", found.node, text_of(given), self.now_us)
        if found.type.kind not in ("boolean", "unknown"):
            site.fail(f"a condition is true or false, found {found.type}")
        return site.cast(found, BOOLEAN)

    def stored(self, given: Any, column: Field, name: str | None = None) -> Compiled:
        """The value as a column takes it: cast as far as Spark's store assignment allows, and checked for nulls.

        >>> from floe.spec.types import INT
        >>> Scope({"t": Schema(())}).stored("'7'", Field(1, "n", INT))
        Traceback (most recent call last):
        floe.errors.InvalidExpression: a string is not stored in a column of type int (column: n); write CAST(… AS int)
          '7'
          ^
        """
        found = given if isinstance(given, Compiled) else self.compile(given)
        site = Site("assignment", found.node, None if isinstance(given, Compiled) else text_of(given), self.now_us)
        shown = name or column.name
        target = column.type
        if not can_store(found.type, target):
            with_text = site.text is not None and found.node.at >= 0
            raise InvalidExpression(
                f"a {found.type} is not stored in a column of type {target}",
                text=site.text,
                position=found.node.at if with_text else None,
                hint=f"write CAST(… AS {_sql_name(target)})",
                column=shown,
            )
        if found.node is not None and isinstance(found.node, Literal) and found.node.value is None and column.required:
            raise InvalidExpression("a required column cannot be set to null", column=shown)
        source = found.type

        def store(array: pa.Array) -> pa.Array:
            stored = cast_array(array, source, target)
            if column.required and stored.null_count:
                raise InvalidValue(
                    "null for a required column", hint="leave no null there, or make the column optional", column=shown
                )
            return stored

        def evaluate(rows: Rows) -> pa.Array:
            try:
                return store(found.array(rows))
            except InvalidValue as error:
                raise error.with_context(column=shown) from None

        return Compiled(target, evaluate, found.node, found.columns, (found,))


def _sql_name(type_: Type) -> str:
    return {"long": "bigint", "timestamptz": "timestamp_ltz"}.get(str(type_), str(type_))


@dataclass(frozen=True)
class _Compiler:
    scope: Scope
    text: str | None

    def compile(self, node: Node, depth: int) -> Compiled:
        site = Site("value", node, self.text, self.scope.now_us)
        if depth > 2 * MAX_DEPTH:
            site.fail("values are nested too deeply")
        if isinstance(node, Literal):
            type_, value = node.type, node.value
            if type_.kind == "interval":
                return Compiled(type_, lambda rows: site.fail("an interval is added to moments only"), node)
            return Compiled(type_, lambda rows: constant_array(type_, value, rows.count), node)
        if isinstance(node, Name):
            return self._column(node, site)
        if isinstance(node, Cast):
            inner = self.compile(node.value, depth + 1)
            found = Site("CAST", node, self.text, self.scope.now_us).cast(inner, node.type)
            return Compiled(found.type, found.array, node, found.columns, (inner,))
        if isinstance(node, Member):
            return member(site, self.compile(node.value, depth + 1), node.name)
        assert isinstance(node, Call)
        return self._call(node, depth)

    def _call(self, node: Call, depth: int) -> Compiled:
        shown = node.function.upper() if node.function.isalpha() else node.function
        site = Site(node.function, node, self.text, self.scope.now_us)
        function = FUNCTIONS.get(node.function)
        if function is None:
            near = get_close_matches(node.function, FUNCTIONS, n=3, cutoff=0.7)
            site.fail(
                f"there is no function named {node.function[:60]}",
                f"did you mean {' or '.join(near)}?" if near else None,
            )
        count = len(node.arguments)
        if not function.least <= count <= function.most:
            wants = f"{function.least}" if function.least == function.most else f"at least {function.least}"
            if function.least != function.most and function.most < 100:
                wants = f"{function.least} to {function.most}"
            site.fail(f"{shown} takes {wants} arguments, found {count}")
        values = [self.compile(argument, depth + 1) for argument in node.arguments]
        return function.make(site, values)

    # names -----------------------------------------------------------------------------------------------------

    def _column(self, node: Name, site: Site) -> Compiled:
        found = [*self._qualified(node.parts), *self._unqualified(node.parts)]
        if not found:
            site.fail(f"no column is named {'.'.join(node.parts)!r}", self._advice(node.parts))
        relation, path = found[0]
        if len({one[0] for one in found}) > 1 or len(set(found)) > 1:
            shown = " or ".join(f"{name}.{'.'.join(path)}" for name, path in dict.fromkeys(found))
            site.fail(f"the name {'.'.join(node.parts)!r} may mean {shown}", "write the relation before it")
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
        known = {**{name: name for name in self.scope.relations}, **self.scope.aliases}
        return known.get(name) or {key.lower(): value for key, value in known.items()}.get(name.lower())

    def _path(self, relation: str, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of names in a relation's structs; SQL's names are found whatever their case, if only one is."""
        fields: tuple[Field, ...] = self.scope.relations[relation].fields
        path: list[str] = []
        while parts:
            found = self._field(fields, parts)
            if found is None:
                return None
            child, used = found
            path.append(child.name)
            parts = parts[used:]
            fields = child.type.fields if isinstance(child.type, StructType) else ()
        return tuple(path)

    def _field(self, fields: tuple[Field, ...], parts: tuple[str, ...]) -> tuple[Field, int] | None:
        """The field that the first parts name, with how many those are: a name may have a dot in it."""
        for used in range(1, len(parts) + 1):
            name = ".".join(parts[:used])
            for child in fields:
                if child.name == name:
                    return child, used
            alike = [child for child in fields if child.name.lower() == name.lower()]
            if len(alike) == 1 and not self.scope.case_sensitive:
                return alike[0], used
        return None

    def _advice(self, parts: tuple[str, ...]) -> str:
        names = [name for schema in self.scope.relations.values() for name in (field.name for field in schema.fields)]
        near = get_close_matches(parts[-1], names, n=2, cutoff=0.7)
        if near:
            return f"did you mean {' or '.join(map(repr, near))}?"
        return f"columns are {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"


def column(schema: Schema, relation: str, path: tuple[str, ...], node: Node) -> Compiled:
    """A column of a relation, or a field of a struct in it."""
    first, *rest = path
    found = next(field for field in schema.fields if field.name == first)
    for name in rest:
        inner = found.type.field_named(name) if isinstance(found.type, StructType) else None
        assert inner is not None
        found = inner

    def array(rows: Rows) -> pa.Array:
        values = rows.relations[relation].column(first)
        for name in rest:
            values = pc.struct_field(values, name)
        return values

    return Compiled(found.type, array, node, frozenset({(relation, path)}))
