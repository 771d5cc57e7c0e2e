"""Filters on rows: SQL's three values, NaN, signed zero, nested columns, transformed terms, tuples."""

import math
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidExpression
from floe.spec import types as t
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Constant,
    Not,
    Op,
    Or,
)
from floe.spec.expressions.row_evaluation import compile_row_filter, compile_tuple_filter, evaluate, value_test
from floe.spec.partitioning.transforms import DAY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, StructType
from helpers.filter_strategies import COLUMNS, filters, predicates, references, rows, safe_rows, value_in

NAN = math.nan
NUMBERS = Schema((Field(1, "a", t.INT), Field(2, "x", t.DOUBLE), Field(3, "s", t.STRING)))
A, X, S = (BoundReference(NUMBERS.entry(i)) for i in (1, 2, 3))


@pytest.mark.parametrize("op", [Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ])
def test_a_comparison_with_null_is_not_true(op):
    assert not evaluate(BoundPredicate(op, A, (5,)), {"a": None})


@pytest.mark.parametrize(
    ("op", "literals"),
    [(Op.IN, (1, 2)), (Op.NOT_IN, (1, 2))],
)
def test_null_is_neither_in_a_set_nor_out_of_it(op, literals):
    assert not evaluate(BoundPredicate(op, A, literals), {"a": None})


@pytest.mark.parametrize("op", [Op.STARTS_WITH, Op.NOT_STARTS_WITH])
def test_null_neither_has_nor_lacks_a_prefix(op):
    assert not evaluate(BoundPredicate(op, S, ("a",)), {"s": None})


@pytest.mark.parametrize("op", [Op.IS_NAN, Op.NOT_NAN])
def test_null_is_neither_nan_nor_a_number(op):
    assert not evaluate(BoundPredicate(op, X), {"x": None})


def test_only_null_tests_are_true_of_null():
    assert evaluate(BoundPredicate(Op.IS_NULL, A), {"a": None})
    assert not evaluate(BoundPredicate(Op.NOT_NULL, A), {"a": None})


# NaN is the greatest number and equal to itself
@pytest.mark.parametrize(
    ("op", "literal", "passes"),
    [
        (Op.LT, 1.0, False), (Op.LT_EQ, 1.0, False), (Op.GT, 1.0, True), (Op.GT_EQ, 1.0, True),
        (Op.GT, math.inf, True), (Op.LT_EQ, math.inf, False), (Op.EQ, 1.0, False), (Op.NOT_EQ, 1.0, True),
        (Op.LT, NAN, False), (Op.LT_EQ, NAN, True), (Op.GT, NAN, False), (Op.GT_EQ, NAN, True),
        (Op.EQ, NAN, True), (Op.NOT_EQ, NAN, False),
    ],
)  # fmt: skip
def test_nan_is_the_greatest_number_and_equals_itself(op, literal, passes):
    assert value_test(t.DOUBLE, op, (literal,))(NAN) is passes


@pytest.mark.parametrize(
    ("op", "passes"),
    [
        (Op.LT, True),
        (Op.LT_EQ, True),
        (Op.GT, False),
        (Op.GT_EQ, False),
        (Op.EQ, False),
        (Op.NOT_EQ, True),
    ],
)
def test_every_number_is_below_nan(op, passes):
    assert value_test(t.DOUBLE, op, (NAN,))(math.inf) is passes


def test_nan_in_a_set():
    assert value_test(t.FLOAT, Op.IN, (1.0, NAN))(NAN)
    assert not value_test(t.FLOAT, Op.IN, (1.0, 2.0))(NAN)
    assert not value_test(t.FLOAT, Op.NOT_IN, (1.0, NAN))(NAN)
    assert value_test(t.FLOAT, Op.NOT_IN, (1.0, 2.0))(NAN)
    assert not value_test(t.FLOAT, Op.NOT_IN, (1.0, NAN))(None)


def test_is_nan():
    assert value_test(t.DOUBLE, Op.IS_NAN)(NAN)
    assert not value_test(t.DOUBLE, Op.NOT_NAN)(NAN)
    assert value_test(t.DOUBLE, Op.NOT_NAN)(1.0)


@pytest.mark.parametrize(
    ("op", "literals"), [(Op.EQ, (0.0,)), (Op.GT_EQ, (0.0,)), (Op.LT_EQ, (-0.0,)), (Op.IN, (0.0, 1.0))]
)
def test_minus_zero_equals_zero(op, literals):
    test = value_test(t.DOUBLE, op, literals)
    assert test(-0.0)
    assert test(0.0)
    assert not value_test(t.DOUBLE, Op.LT, (0.0,))(-0.0)


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (t.STRING, "\uffff", "\U0001f600"),  # by code points, not by UTF-16 units
        (t.STRING, "a", "aa"),
        (t.UUID, UUID(int=2**127 - 1), UUID(int=2**127)),  # unsigned
        (t.BINARY, b"\x7f", b"\x80"),
        (t.BOOLEAN, False, True),
        (t.DATE, -1, 0),
        (t.DecimalType(9, 2), Decimal("-1.00"), Decimal("0.10")),
    ],
    ids=str,
)
def test_the_order_of_each_type(type_, low, high):
    assert value_test(type_, Op.LT, (high,))(low)
    assert value_test(type_, Op.GT, (low,))(high)
    assert not value_test(type_, Op.GT_EQ, (high,))(low)


def test_fields_of_structs():
    inner = StructType((Field(2, "b", StructType((Field(3, "c", t.INT),))),))
    schema = Schema((Field(1, "a", inner),))
    passes = compile_row_filter(bind(col("a.b.c") == 7, schema))
    assert passes({"a": {"b": {"c": 7}}})
    assert not passes({"a": {"b": {"c": 8}}})
    is_null = compile_row_filter(bind(col("a.b.c").is_null(), schema))
    for row in ({"a": None}, {}, {"a": {}}, {"a": {"b": None}}, {"a": {"b": {"c": None}}}):
        assert not passes(row)
        assert is_null(row)


def test_transformed_terms():
    schema = Schema((Field(1, "ts", t.TIMESTAMP),))
    term = BoundTransform(DAY, BoundReference(schema.entry(1)), t.DATE)
    passes = compile_row_filter(BoundPredicate(Op.EQ, term, (-1,)))
    assert passes({"ts": -1})
    assert not passes({"ts": 0})
    assert not passes({"ts": None})


def test_parts_of_lists_have_no_single_value():
    schema = Schema((Field(1, "xs", ListType(2, t.INT)),))
    with pytest.raises(InvalidExpression, match=r"xs.element.* list or map"):
        compile_row_filter(BoundPredicate(Op.EQ, BoundReference(schema.entry(2)), (1,)))


def test_filters_must_be_bound():
    with pytest.raises(InvalidExpression, match="bind"):
        compile_row_filter(col("a") == 1)
    with pytest.raises(InvalidExpression, match="bind"):
        compile_row_filter(Not(BoundPredicate(Op.EQ, A, (1,))))


def test_tuples_are_read_by_place():
    partition = Schema((Field(1000, "d", t.DATE), Field(1001, "b", t.INT)))
    bucket = BoundReference(partition.entry(1001))
    passes = compile_tuple_filter(BoundPredicate(Op.IN, bucket, (1, 3)), partition)
    assert passes((0, 3))
    assert not passes((3, 0))
    assert not passes((3, None))
    with pytest.raises(InvalidExpression, match="not a field of the tuple"):
        compile_tuple_filter(BoundPredicate(Op.EQ, A, (1,)), partition)


def test_and_or_of_several_parts():
    parts = tuple(BoundPredicate(Op.GT, A, (n,)) for n in (1, 2, 3))
    assert [evaluate(And(parts), {"a": n}) for n in (1, 2, 3, 4)] == [False, False, False, True]
    assert [evaluate(Or(parts), {"a": n}) for n in (1, 2, 3, 4)] == [False, True, True, True]
    assert evaluate(TRUE, {})
    assert not evaluate(FALSE, {})


# an independent evaluator, which keeps unknown apart from false ------------------------------------------------


def key(value):
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def three_valued(expression, row):
    """True, False or None, as SQL has it."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, And | Or):
        results = [three_valued(child, row) for child in expression.children]
        decisive = isinstance(expression, Or)
        return decisive if decisive in results else None if None in results else not decisive
    if isinstance(expression, Not):
        result = three_valued(expression.child, row)
        return None if result is None else not result
    term, op = expression.term, expression.op
    value = value_in(row, term.field_id)
    if isinstance(term, BoundTransform):
        value = term.transform.apply(term.ref.type, value)
    if op in (Op.IS_NULL, Op.NOT_NULL):
        return (value is None) == (op is Op.IS_NULL)
    if value is None:
        return None
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return math.isnan(value) == (op is Op.IS_NAN)
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return value.startswith(expression.literal) == (op is Op.STARTS_WITH)
    if op.is_set:
        return any(key(value) == key(x) for x in expression.literals) == (op is Op.IN)
    v, x = key(value), key(expression.literal)
    return {Op.LT: v < x, Op.LT_EQ: v <= x, Op.GT: v > x, Op.GT_EQ: v >= x, Op.EQ: v == x, Op.NOT_EQ: v != x}[op]


@given(st.data())
def test_rows_pass_when_the_filter_is_true(data):
    leaf = predicates(references(), transformed=True)
    expression = data.draw(filters(leaf))
    for row in safe_rows(data.draw(rows(max_size=3)), COLUMNS):
        assert evaluate(expression, row) == (three_valued(expression, row) is True)


@given(st.data())
def test_negated_operations_are_true_just_where_the_operation_is_false(data):
    leaf = data.draw(predicates(references()))
    negated = BoundPredicate(leaf.op.negated, leaf.term, leaf.literals)
    for row in data.draw(rows([leaf.term.field_id], max_size=4)):
        assert evaluate(negated, row) == (three_valued(leaf, row) is False)


def test_bucket_of_a_row():
    schema = Schema((Field(1, "id", t.LONG),))
    term = BoundTransform(Bucket(16), BoundReference(schema.entry(1)), t.INT)
    assert evaluate(BoundPredicate(Op.EQ, term, (2017239379 % 16,)), {"id": 34})  # the hash is from Appendix B
