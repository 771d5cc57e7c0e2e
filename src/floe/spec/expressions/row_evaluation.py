"""Evaluates bound filters on rows: dictionaries by column name, or tuples of partition values.

A filter is compiled once into a function that is called for every row. A row passes if the filter is true; predicates
on null other than `IS NULL` and `IS NOT NULL` are unknown, and unknown is not true. NaN equals itself and is greater
than every other number; `-0.0` equals `0.0`.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, LONG
>>> schema = Schema((Field(1, "id", LONG),))
>>> passes = compile_row_filter(BoundPredicate(Op.GT, BoundReference(schema.entry(1)), (3,)))
>>> passes({"id": 5}), passes({"id": 3}), passes({"id": None})
(True, False, False)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from floe.errors import InvalidExpression
from floe.spec.expressions.nodes import (
    BoundPredicate,
    BoundReference,
    BoundTerm,
    Expression,
    Op,
    all_true,
    any_true,
    fold,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type

Row = TypeVar("Row")
Test = Callable[[Any], bool]


def evaluate(expression: Expression, row: Mapping[str, Any]) -> bool:
    """Whether a row passes a bound filter; for many rows use `compile_row_filter`.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> evaluate(TRUE, {})
    True
    """
    return compile_row_filter(expression)(row)


def compile_row_filter(expression: Expression) -> Callable[[Mapping[str, Any]], bool]:
    """Compile a bound filter into a function of a row, which is a dictionary by column name.

    Structs are dictionaries, too. A field of a null struct is null, and so is a column that the row does not have.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> compile_row_filter(FALSE)({"id": 1})
    False
    """
    return _compile(expression, _row_getter)


def compile_tuple_filter(expression: Expression, schema: Schema) -> Callable[[Sequence[Any]], bool]:
    """Compile a filter that is bound to a flat schema into a function of a tuple with the values of its fields.

    >>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
    >>> from floe.spec.types import Field, INT
    >>> schema = Schema((Field(1000, "day", INT), Field(1001, "bucket", INT)))
    >>> keep = compile_tuple_filter(BoundPredicate(Op.EQ, BoundReference(schema.entry(1001)), (7,)), schema)
    >>> keep((19000, 7)), keep((19000, None))
    (True, False)
    """
    indexes = {field.id: index for index, field in enumerate(schema.fields)}

    def getter(reference: BoundReference) -> Callable[[Sequence[Any]], Any]:
        if reference.field_id not in indexes:
            raise InvalidExpression(
                f"the filter uses {reference.entry.name!r}, which is not a field of the tuple",
                hint="project the filter to the partition spec first",
                column=reference.entry.name,
            )
        index = indexes[reference.field_id]
        return lambda row: row[index]

    return _compile(expression, getter)


def value_test(type_: Type, op: Op, literals: tuple[Any, ...] = ()) -> Test:
    """Compile one operation into a function of a value of a type, which may be null.

    >>> from floe.spec.types import DOUBLE
    >>> above = value_test(DOUBLE, Op.GT, (1.0,))
    >>> above(2.0), above(float("nan")), above(None)
    (True, True, False)
    """
    if type_.kind in ("float", "double") and op not in (Op.IS_NULL, Op.NOT_NULL):
        return _float_test(op, literals)
    return _TESTS[op](*([frozenset(literals)] if op.is_set else literals))


# Values of terms -------------------------------------------------------------------------------------------------


def _row_getter(reference: BoundReference) -> Callable[[Mapping[str, Any]], Any]:
    first, *names = reference.entry.path
    if reference.entry.in_collection:
        raise InvalidExpression(
            f"{reference.entry.name!r} is inside a list or map, so a row may have several values",
            column=reference.entry.name,
        )
    if not names:
        return lambda row: row.get(first)

    def nested(row: Mapping[str, Any]) -> Any:
        value = row.get(first)
        for name in names:
            if value is None:
                return None
            value = value.get(name)
        return value

    return nested


def _compile(expression: Expression, getter: Callable[[BoundReference], Callable[[Row], Any]]) -> Callable[[Row], bool]:
    def leaf(predicate: BoundPredicate) -> Callable[[Row], bool]:
        test = value_test(predicate.term.type, predicate.op, predicate.literals)
        get = _term_getter(predicate.term, getter)
        return lambda row: test(get(row))

    return fold(expression, constant=lambda value: lambda row: value, predicate=leaf, all_of=all_true, any_of=any_true)


def _term_getter(term: BoundTerm, getter: Callable[[BoundReference], Callable[[Row], Any]]) -> Callable[[Row], Any]:
    if isinstance(term, BoundReference):
        return getter(term)
    get, transform = getter(term.ref), term.transform.bind(term.ref.type)
    return lambda row: transform(get(row))


# Operations ------------------------------------------------------------------------------------------------------

_TESTS: dict[Op, Callable[..., Test]] = {
    Op.IS_NULL: lambda: lambda v: v is None,
    Op.NOT_NULL: lambda: lambda v: v is not None,
    Op.LT: lambda x: lambda v: v is not None and v < x,
    Op.LT_EQ: lambda x: lambda v: v is not None and v <= x,
    Op.GT: lambda x: lambda v: v is not None and v > x,
    Op.GT_EQ: lambda x: lambda v: v is not None and v >= x,
    Op.EQ: lambda x: lambda v: v is not None and v == x,
    Op.NOT_EQ: lambda x: lambda v: v is not None and v != x,
    Op.IN: lambda xs: lambda v: v is not None and v in xs,
    Op.NOT_IN: lambda xs: lambda v: v is not None and v not in xs,
    Op.STARTS_WITH: lambda x: lambda v: v is not None and v.startswith(x),
    Op.NOT_STARTS_WITH: lambda x: lambda v: v is not None and not v.startswith(x),
    # for types without NaN
    Op.IS_NAN: lambda: lambda v: False,
    Op.NOT_NAN: lambda: lambda v: v is not None,
}

_NAN_AGAINST_NUMBER = {Op.LT: False, Op.LT_EQ: False, Op.GT: True, Op.GT_EQ: True, Op.EQ: False, Op.NOT_EQ: True}
"""Whether NaN passes a comparison with a number: it is greater than all numbers."""

_NAN_AGAINST_NAN = {Op.LT: False, Op.LT_EQ: True, Op.GT: False, Op.GT_EQ: True, Op.EQ: True, Op.NOT_EQ: False}
_NUMBER_AGAINST_NAN = {Op.LT: True, Op.LT_EQ: True, Op.GT: False, Op.GT_EQ: False, Op.EQ: False, Op.NOT_EQ: True}


def _float_test(op: Op, literals: tuple[float, ...]) -> Test:
    """The operation on floats, where NaN equals itself; by IEEE comparison `-0.0` equals `0.0`."""
    if op is Op.IS_NAN:
        return lambda v: v is not None and v != v
    if op is Op.NOT_NAN:
        return lambda v: v is not None and v == v
    if op.is_set:
        numbers = frozenset(x for x in literals if not math.isnan(x))
        is_in = op is Op.IN
        nan_passes = any(map(math.isnan, literals)) is is_in
        return lambda v: v is not None and ((v in numbers) is is_in if v == v else nan_passes)
    literal = literals[0]
    if math.isnan(literal):
        nan_passes, number_passes = _NAN_AGAINST_NAN[op], _NUMBER_AGAINST_NAN[op]
        return lambda v: v is not None and (number_passes if v == v else nan_passes)
    compare_numbers, nan_passes = _TESTS[op](literal), _NAN_AGAINST_NUMBER[op]
    return lambda v: v is not None and (compare_numbers(v) if v == v else nan_passes)
