"""Spark's predicates as Iceberg filters, for pruning: a filter may keep more rows than the predicate, never fewer.

`translate` returns the filter of each predicate, and whether it is exact. `floe.spark.read.filter_operands` has the
functions of columns that can be translated.

Columns of `time` and of nanosecond timestamps are strings of one width in Spark, so that Spark orders them as their
values are ordered. A literal in another spelling would be compared character by character and lose rows, so it is an
error (`check_text_literals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from floe.errors import FloeError, InvalidExpression, InvalidValue
from floe.formats.columns.arrow_types import arrow_type
from floe.spark.bridge.values import Call, Column, Conditions, Node, Value
from floe.spark.read.filter_operands import (
    ALWAYS_NULL,
    UNTRANSLATED,
    OperandResolver,
    SideFilter,
    Translation,
    conjunction,
    constant_condition,
    disjunction,
    negate,
)
from floe.spark.schemas import STRING_TYPES
from floe.spec.expressions.nodes import BoundPredicate, Expression, Op, and_, or_
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type
from floe.spec.values.conversion import convert

_COMPARISONS: Final = {
    "=": Op.EQ,
    "<>": Op.NOT_EQ,
    "<": Op.LT,
    "<=": Op.LT_EQ,
    ">": Op.GT,
    ">=": Op.GT_EQ,
    "STARTS_WITH": Op.STARTS_WITH,
}
_COMPARES_TEXTS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "IN"})


def translate(conditions: Conditions, schema: Schema) -> list[Translation]:
    """Translate each predicate to filters that are bound to a schema.

    >>> from floe.spark.bridge.values import Cast, Column
    >>> from floe.spec.types import TIMESTAMP, Field
    >>> year = Call("EXTRACT YEAR", (Cast("date", Column(("at",))),))
    >>> (translation,) = translate(
    ...     Conditions((Call("=", (year, Value("integer", 2024))),)), Schema((Field(1, "at", TIMESTAMP),))
    ... )
    >>> print(translation.filter, translation.exact)
    at >= TIMESTAMP_NTZ '2024-01-01 00:00:00' AND at < TIMESTAMP_NTZ '2025-01-01 00:00:00' True
    """
    resolver = OperandResolver(schema, case_sensitive=conditions.case_sensitive, time_zone=conditions.time_zone)
    return [_translate_tree(tree, resolver) for tree in conditions.trees]


def combined_filter(conditions: Conditions, schema: Schema) -> Expression:
    """A filter that keeps all rows which match all predicates."""
    return and_(*(translation.filter for translation in translate(conditions, schema)))


def check_text_literals(conditions: Conditions, schema: Schema) -> None:
    """Raise `InvalidExpression` if a column that Spark has as strings is compared with a string in another spelling.

    >>> from floe.spec.types import TIMESTAMP_NS, Field
    >>> later = Call("<", (Column(("n",)), Value("string", "1970-01-01T00:00")))
    >>> check_text_literals(Conditions((later,)), Schema((Field(1, "n", TIMESTAMP_NS),)))
    Traceback (most recent call last):
    floe.errors.InvalidExpression: n is compared with '1970-01-01T00:00', but Spark writes values of timestamp_ns in
    another way (column: n); write '1970-01-01 00:00:00.000000000'
    """
    for tree in conditions.trees:
        _check_tree(tree, schema, case_sensitive=conditions.case_sensitive)


def _check_tree(tree: Node, schema: Schema, *, case_sensitive: bool) -> None:
    if not isinstance(tree, Call):
        return
    columns = [part.path for part in tree.arguments if isinstance(part, Column)]
    if tree.name in _COMPARES_TEXTS and len(columns) == 1 and schema.has(columns[0], case_sensitive=case_sensitive):
        field = schema.resolve(columns[0], case_sensitive=case_sensitive).field
        for part in tree.arguments if field.type.kind in STRING_TYPES else ():
            if isinstance(part, Value) and isinstance(part.value, str):
                _check_literal(".".join(columns[0]), field.type, part.value)
    for part in tree.arguments:
        _check_tree(part, schema, case_sensitive=case_sensitive)


def _check_literal(column: str, type_: Type, text: str) -> None:
    try:
        value = pa.scalar(convert(type_, text), pa.int64()).cast(arrow_type(type_))
        expected = str(value.cast(pa.string()).as_py())
        hint = f"write {expected!r}"
    except (InvalidValue, pa.ArrowException):
        expected, hint = (
            None,
            "cast the column to a type that Spark has, or compare it with a string as SELECT shows it",
        )
    if expected != text:
        raise InvalidExpression(
            f"{column} is compared with {text!r}, but Spark writes values of {type_} in another way",
            hint=hint,
            column=column,
        )


def file_predicate_paths(tree: Node) -> frozenset[str] | None:
    """The paths in a predicate `_file = …` or `_file IN (…)`; None for other predicates."""
    match tree:
        case Call("=" | "IN"):
            (translation,) = translate(Conditions((tree,), case_sensitive=True), Schema((FILE,)))
            if isinstance(translation.filter, BoundPredicate) and translation.filter.op in (Op.EQ, Op.IN):
                return frozenset(map(str, translation.filter.literals))
    return None


def _translate_tree(tree: Node, resolver: OperandResolver) -> Translation:
    match tree:
        case Value(value=None):
            return ALWAYS_NULL
        case Value(value=bool(value)):
            return constant_condition(value)
        case Call("AND", parts):
            return conjunction(_translate_tree(part, resolver) for part in parts)
        case Call("OR", parts):
            return disjunction(_translate_tree(part, resolver) for part in parts)
        case Call("NOT", (part,)):
            return negate(_translate_tree(part, resolver))
        case Call("CASE_WHEN", parts):
            return _translate_case([_translate_tree(part, resolver) for part in parts])
        case Call("COALESCE", (part, Value(value=bool(otherwise)))):
            condition = _translate_tree(part, resolver)
            return (
                Translation(SideFilter(), condition.failing)
                if otherwise
                else Translation(condition.passing, SideFilter())
            )
        case Call(name, arguments):
            try:
                return _translate_call(name, arguments, resolver)
            except (FloeError, ValueError):
                return UNTRANSLATED  # such as a value that the column's type does not have
        case _:
            return UNTRANSLATED


def _translate_case(parts: Sequence[Translation]) -> Translation:
    """Translate CASE: pairs of a condition and its result, and perhaps the result of ELSE, all of them boolean."""
    passing = [
        conjunction([condition, then]).passing.filter for condition, then in zip(parts[::2], parts[1::2], strict=False)
    ]
    failing = [
        conjunction([condition, negate(then)]).passing.filter
        for condition, then in zip(parts[::2], parts[1::2], strict=False)
    ]
    if len(parts) % 2:
        passing.append(parts[-1].passing.filter)
        failing.append(parts[-1].failing.filter)
    return Translation(SideFilter(or_(*passing)), SideFilter(or_(*failing)))


def _translate_call(name: str, arguments: tuple[Node, ...], resolver: OperandResolver) -> Translation:
    match name, arguments:
        case (("IS_NULL" | "IS_NOT_NULL"), (inner,)):
            operand = resolver.resolve(inner)
            if operand is None:
                return UNTRANSLATED
            return operand.is_null() if name == "IS_NULL" else negate(operand.is_null())
        case "IN", (inner, *listed):
            return _translate_in(inner, listed, resolver)
        case _, (Value() as value, inner) if name in _COMPARISONS and not isinstance(inner, Value):
            return _translate_comparison(_COMPARISONS[name].flipped, inner, value, resolver)
        case _, (inner, Value() as value) if name in _COMPARISONS:
            return _translate_comparison(_COMPARISONS[name], inner, value, resolver)
        case "<=>", (inner, Value() as value) | (Value() as value, inner):
            return _translate_null_safe_equal(inner, value, resolver)
        case _:
            return UNTRANSLATED


def _translate_comparison(op: Op, inner: Node, value: Value, resolver: OperandResolver) -> Translation:
    if value.value is None:
        return ALWAYS_NULL
    operand = resolver.resolve(inner)
    return UNTRANSLATED if operand is None else operand.compare(op, value.value)


def _translate_null_safe_equal(inner: Node, value: Value, resolver: OperandResolver) -> Translation:
    """Translate `<=>`: equality where null equals null and nothing else."""
    operand = resolver.resolve(inner)
    if operand is None:
        return UNTRANSLATED
    if value.value is None:
        return operand.is_null()
    equal = operand.compare(Op.EQ, value.value)
    return Translation(equal.passing, conjunction([equal, negate(operand.is_null())]).failing)


def _translate_in(inner: Node, listed: Sequence[Node], resolver: OperandResolver) -> Translation:
    values = [literal.value for literal in listed if isinstance(literal, Value)]
    operand = resolver.resolve(inner)
    if operand is None or len(values) != len(listed):
        return UNTRANSLATED
    condition = operand.is_in([value for value in values if value is not None])
    # with a null in the list IN is never false, but null
    return Translation(condition.passing, ALWAYS_NULL.failing) if None in values else condition
