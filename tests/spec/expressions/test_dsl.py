"""Filters written in Python."""

import math
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from floe.errors import InvalidExpression, InvalidPartitionSpec
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import Column, col
from floe.spec.expressions.nodes import FALSE, TRUE, And, Not, Op, Or, Predicate, Reference, TransformTerm
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR, Bucket, Truncate
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, Field

a = col("a")


def p(op, *literals, term=None):
    return Predicate(op, term or Reference("a"), literals)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (a < 3, p(Op.LT, 3)),
        (a <= 3, p(Op.LT_EQ, 3)),
        (a > 3, p(Op.GT, 3)),
        (a >= 3, p(Op.GT_EQ, 3)),
        (a == 3, p(Op.EQ, 3)),
        (a != 3, p(Op.NOT_EQ, 3)),
        (3 < a, p(Op.GT, 3)),  # noqa: SIM300
        (3 == a, p(Op.EQ, 3)),  # noqa: SIM300
        (a.is_in([1, 2]), p(Op.IN, 1, 2)),
        (a.is_in({1}), p(Op.IN, 1)),
        (a.is_in(n for n in (1, 2)), p(Op.IN, 1, 2)),
        (a.is_in([]), FALSE),
        (a.not_in((1, 2)), p(Op.NOT_IN, 1, 2)),
        (a.not_in([]), TRUE),
        (a.is_null(), p(Op.IS_NULL)),
        (a.is_not_null(), p(Op.NOT_NULL)),
        (a.is_nan(), p(Op.IS_NAN)),
        (a.is_not_nan(), p(Op.NOT_NAN)),
        (a.starts_with("x"), p(Op.STARTS_WITH, "x")),
        (a.not_starts_with("x"), p(Op.NOT_STARTS_WITH, "x")),
        (a.between(1, 5), And((p(Op.GT_EQ, 1), p(Op.LT_EQ, 5)))),
        (a == Decimal("1.50"), p(Op.EQ, Decimal("1.50"))),
        (a == date(2024, 1, 1), p(Op.EQ, date(2024, 1, 1))),
        (a == "x", p(Op.EQ, "x")),
        (a == b"x", p(Op.EQ, b"x")),
        (a.bucket(16) == 3, p(Op.EQ, 3, term=TransformTerm(Bucket(16), Reference("a")))),
        (a.truncate(4) == "ice", p(Op.EQ, "ice", term=TransformTerm(Truncate(4), Reference("a")))),
        (a.year() == 2024, p(Op.EQ, 54, term=TransformTerm(YEAR, Reference("a")))),
        (a.year().is_in([2024, 1970]), p(Op.IN, 54, 0, term=TransformTerm(YEAR, Reference("a")))),
        (a.month() == "2024-05", p(Op.EQ, "2024-05", term=TransformTerm(MONTH, Reference("a")))),
        (a.day() == date(2024, 5, 1), p(Op.EQ, date(2024, 5, 1), term=TransformTerm(DAY, Reference("a")))),
        (a.hour() < "2024-05-01-01", p(Op.LT, "2024-05-01-01", term=TransformTerm(HOUR, Reference("a")))),
        (a.bucket(16).is_null(), p(Op.IS_NULL, term=TransformTerm(Bucket(16), Reference("a")))),
    ],
)  # fmt: skip
def test_filters(made, expected):
    assert made == expected


def test_logic():
    assert (a > 1) & (a < 5) == And((a > 1, a < 5))
    assert (a > 1) | (a < 5) | a.is_null() == Or((a > 1, a < 5, a.is_null()))
    assert ~(a > 1) == Not(a > 1)
    assert ~~(a > 1) == (a > 1)
    assert (a > 1) & TRUE == (a > 1)


def test_names_are_dotted_or_paths():
    assert (col("who.name") == 1).term == Reference("who.name")
    assert (col("who", "full.name") == 1).term == Reference(("who", "full.name"))
    for wrong in ("", 5, None, ["a"]):
        with pytest.raises(InvalidExpression, match="a column's name is text"):
            col(wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: a == None,  # noqa: E711
        lambda: a != None,  # noqa: E711
        lambda: a < None,
        lambda: a.is_in([1, None]),
        lambda: a.between(1, None),
    ],
)
def test_none_is_no_literal(make):
    with pytest.raises(InvalidExpression, match=r"use is_null\(\) or is_not_null\(\)"):
        make()


def test_columns_are_not_compared_with_columns():
    with pytest.raises(InvalidExpression, match="not with a column"):
        a == col("b")  # noqa: B015


@pytest.mark.parametrize(
    "make",
    [
        lambda: a > 1 & col("b") > 2,
        lambda: a & (col("b") > 2),
        lambda: (col("b") > 2) | a,
        lambda: ~a,
    ],
)
def test_a_column_is_no_filter(make):
    with pytest.raises(InvalidExpression, match="put each comparison in parentheses"):
        make()


@pytest.mark.parametrize(
    "make", [lambda: a + 1, lambda: 1 - a, lambda: a * 2, lambda: a % 2, lambda: -a, lambda: a / 2]
)
def test_nothing_is_computed(make):
    with pytest.raises(InvalidExpression, match="cannot compute with a"):
        make()


def test_filters_and_columns_have_no_truth_value():
    with pytest.raises(TypeError, match=r"combine filters with & \| ~"):
        bool(a > 1)
    with pytest.raises(TypeError, match="combine filters"):
        1 < a < 5  # noqa: B015
    with pytest.raises(TypeError, match="no truth value"):
        bool(a)
    with pytest.raises(TypeError, match=r"is_in\(\)"):
        3 in a  # noqa: B015
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(a)
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_lists_of_values():
    for wrong in ("abc", b"abc", 5):
        with pytest.raises(InvalidExpression, match="list of values"):
            a.is_in(wrong)
    with pytest.raises(InvalidExpression, match=r"use is_in\(\)"):
        a == [1, 2]  # noqa: B015
    assert a.is_in(np.array([1, 2])) == a.is_in([1, 2])
    assert a.is_in([pa.scalar(1), pa.scalar(2)]) == a.is_in([1, 2])


def test_values_of_libraries_become_plain():
    assert type((a == np.int64(5)).literals[0]) is int
    assert type((a == pa.scalar("x")).literals[0]) is str
    assert math.isnan((a == np.float32("nan")).literals[0])


def test_prefixes_are_text():
    with pytest.raises(InvalidExpression, match="a prefix is text"):
        a.starts_with(5)


def test_transforms():
    with pytest.raises(InvalidPartitionSpec):
        a.bucket(0)
    with pytest.raises(InvalidExpression, match="transformed already"):
        a.year().month()
    for made in (a.month(), a.day(), a.hour()):
        with pytest.raises(InvalidExpression, match="counts from 1970"):
            made == 5  # noqa: B015


def test_shown():
    assert isinstance(a, Column)
    assert repr(col("who", "full.name")) == "<column who.`full.name`>"
    assert str(col("ts").day()) == "days(ts)"
    assert str((a > 1) & ~col("b").is_null()) == "a > 1 AND NOT b IS NULL"


@pytest.mark.parametrize("other", ["n = 1", True, None, 3])
def test_a_filter_joins_only_filters(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        (col("a") > 1) & other
    with pytest.raises(TypeError, match="unsupported operand"):
        (col("a") > 1) | other


def test_a_filter_and_a_bare_column_is_an_error_that_says_what_to_write():
    for join in (lambda: (col("a") > 1) & col("flag"), lambda: (col("a") > 1) | col("flag")):
        with pytest.raises(InvalidExpression, match="flag == True"):
            join()


def test_a_whole_array_is_no_literal():
    bound_to = Schema((Field(1, "a", LONG),))
    with pytest.raises(InvalidExpression, match="ndarray"):
        bind(col("a") == np.array([1, 2]), bound_to)
