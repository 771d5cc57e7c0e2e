"""Pushing NOT down and simplifying, checked against the plainest evaluation of SQL's three-valued logic."""

import uuid
from decimal import Decimal
from functools import reduce

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidExpression
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    Constant,
    Not,
    Op,
    Or,
    Predicate,
    Reference,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.simplification import check_depth, field_ids, leaves, rebuild, simplify, without_not
from floe.spec.schemas.schema import Schema
from floe.spec.types import BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, UUID, DecimalType, Field, FixedType
from helpers.three_valued import passes, truth

SCHEMA = Schema(
    (
        Field(1, "a", INT),
        Field(2, "b", INT, required=True),
        Field(3, "s", STRING),
        Field(4, "f", DOUBLE),
        Field(5, "t", BOOLEAN),
    )
)
VALUES = {
    "a": [None, *range(-1, 6)],
    "b": list(range(-1, 6)),
    "s": [None, "", "a", "ab", "abc", "b", "ba"],
    "f": [None, float("-inf"), -1.0, 0.0, 0.5, 1.0, float("inf"), float("nan")],
    "t": [None, False, True],
}
COMPARISONS = [Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ]
LITERALS = {
    "a": st.integers(-1, 5),
    "b": st.integers(-1, 5),
    "s": st.sampled_from(["", "a", "ab", "abc", "b"]),
    "f": st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, float("inf")]),
    "t": st.booleans(),
}


@st.composite
def predicates(draw: st.DrawFn, nulls: bool = True, names: tuple[str, ...] = tuple(LITERALS)) -> Predicate:
    name = draw(st.sampled_from(names))
    ops = [*COMPARISONS, Op.IN, Op.NOT_IN, Op.IS_NULL, Op.NOT_NULL]
    ops += {"s": [Op.STARTS_WITH, Op.NOT_STARTS_WITH], "f": [Op.IS_NAN, Op.NOT_NAN]}.get(name, [])
    op = draw(st.sampled_from(ops))
    literal = st.one_of(LITERALS[name], LITERALS[name], st.none()) if nulls else LITERALS[name]
    count = (0, 0) if op.is_unary else (0, 3) if op.is_set else (1, 1)
    return Predicate(op, Reference(name), tuple(draw(st.lists(literal, min_size=count[0], max_size=count[1]))))


def filters(nulls: bool = True) -> st.SearchStrategy:
    leaf = st.one_of(predicates(nulls), predicates(nulls), predicates(nulls), st.sampled_from([TRUE, FALSE]))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
        ),
        max_leaves=12,
    )


rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


@given(filters(), st.lists(rows, min_size=1, max_size=8))
def test_without_not_has_the_same_truth_in_all_three_values(expr, some_rows):
    flat = without_not(expr)
    assert not any(isinstance(node, Not) for node in nodes(flat))
    for row in some_rows:
        assert truth(flat, row) is truth(expr, row)


@given(filters(), st.lists(rows, min_size=1, max_size=10))
def test_binding_keeps_the_rows_that_pass(expr, some_rows):
    bound = bind(expr, SCHEMA)
    for row in some_rows:
        assert passes(bound, row) == passes(expr, row)


@given(filters(), st.lists(rows, min_size=1, max_size=10))
def test_simplify_keeps_the_rows_that_pass(expr, some_rows):
    simple, simple_unbound = simplify(bind(expr, SCHEMA)), simplify(expr)
    for row in some_rows:
        assert passes(simple, row) == passes(expr, row)
        assert passes(simple_unbound, row) == passes(expr, row)


@settings(max_examples=50)
@given(filters())
def test_simplify_never_makes_a_filter_longer_and_can_be_repeated(expr):
    bound = bind(expr, SCHEMA)
    simple = simplify(bound)
    assert len(list(leaves(simple))) <= len(list(leaves(bound)))
    again = simplify(simple)
    assert len(list(leaves(again))) <= len(list(leaves(simple)))


@st.composite
def one_column(draw: st.DrawFn) -> tuple[str, list[Predicate], bool]:
    """Tests of one column, to be joined by AND or by OR: the rules for joining get the most work here."""
    name = draw(st.sampled_from(list(LITERALS)))
    parts = draw(st.lists(predicates(nulls=False, names=(name,)), min_size=2, max_size=5))
    return name, parts, draw(st.booleans())


@given(one_column())
def test_simplify_joins_the_tests_of_one_column_exactly(case):
    name, parts, conjunction = case
    expr = (And if conjunction else Or)(tuple(parts))
    simple = simplify(bind(expr, SCHEMA))
    for value in VALUES[name]:
        assert passes(simple, {name: value}) == passes(expr, {name: value}), value


def nodes(expr):
    yield expr
    for child in getattr(expr, "children", ()):
        yield from nodes(child)
    if isinstance(expr, Not):
        yield from nodes(expr.child)


def simple(expr) -> str:
    return str(simplify(bind(expr, SCHEMA)))


a, b, s, f, t = col("a"), col("b"), col("s"), col("f"), col("t")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((a > 3) & (a > 5), "a > 5"),
        ((a > 3) & (a >= 3), "a > 3"),
        ((a < 3) & (a <= 3) & (a < 9), "a < 3"),
        ((a > 5) & (a < 3), "false"),
        ((a > 3) & (a <= 3), "false"),
        ((a >= 3) & (a <= 3), "a = 3"),
        ((a >= 3) & (a != 3), "a > 3"),
        ((a <= 3) & (a != 3) & (a != 9), "a < 3"),
        (a.is_in([1, 2, 3]) & (a > 1) & (a != 3), "a = 2"),
        (a.is_in([1, 2]) & a.is_in([3, 4]), "false"),
        ((a == 1) & (a == 2), "false"),
        ((a == 1) & a.is_null(), "false"),
        ((a == 1) & a.is_not_null(), "a = 1"),
        (a.is_null() & a.is_not_null(), "false"),
        ((a != 1) & (a != 2), "a NOT IN (1, 2)"),
        ((a > 1) & (b > 2) & (a > 1), "a > 1 AND b > 2"),
        ((a == 1) | (a == 2) | (a == 3), "a IN (1, 2, 3)"),
        ((a > 3) | (a > 5), "a > 3"),
        ((a < 3) | (a >= 3), "a IS NOT NULL"),
        ((b < 3) | (b >= 3), "true"),
        ((a < 3) | (a >= 3) | a.is_null(), "true"),
        ((a < 3) | (a == 3), "a <= 3"),
        ((a != 3) | (a == 3), "a IS NOT NULL"),
        ((a != 3) | (a != 4), "a IS NOT NULL"),
        (a.is_null() | a.is_not_null(), "true"),
        ((a > 1) | a.is_null(), "a > 1 OR a IS NULL"),
        (f.is_nan() & (f > 1), "isnan(f)"),
        (f.is_nan() & (f < 1), "false"),
        (f.is_not_nan() & (f < 1), "f < 1.0"),
        (f.is_nan() | (f > 1), "f > 1.0"),
        (f.is_nan() | f.is_not_nan(), "f IS NOT NULL"),
        (s.starts_with("ab") & s.starts_with("a"), "s LIKE 'ab%'"),
        (s.starts_with("ab") & s.starts_with("b"), "false"),
        (s.starts_with("ab") & s.not_starts_with("a"), "false"),
        (s.starts_with("a") & s.not_starts_with("b"), "s LIKE 'a%'"),
        (s.starts_with("ab") | s.starts_with("a"), "s LIKE 'a%'"),
        (s.starts_with("a") & (s == "b"), "false"),
        ((t == True) | (t == True), "t = true"),  # noqa: E712
        ((t == True) | (t == False), "t IS NOT NULL"),  # noqa: E712
        ((t != True) & (t != False), "false"),  # noqa: E712
        ((a == 1) & ((a == 1) | (b == 2)), "a = 1"),
        ((a == 1) | ((a == 1) & (b == 2)), "a = 1"),
        (((a == 1) & (b == 2)) | ((a == 1) & (b == 2)), "a = 1 AND b = 2"),
        ((a.bucket(4) == 1) & (a == 3), "bucket(4, a) = 1 AND a = 3"),
    ],
)
def test_what_simplify_finds(expr, expected):
    assert simple(expr) == expected


def test_unknown_is_not_true_of_a_or_not_a():
    """`a = 1 or not a = 1` leaves out null, so it is no constant."""
    assert simple((a == 1) | ~(a == 1)) == "a IS NOT NULL"


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (BINARY, b"\x7f", b"\x80"),
        (FixedType(2), b"\x00\xff", b"\x01\x00"),
        (STRING, "\uffff", "\U00010000"),  # by code points, which is by UTF-8 bytes; UTF-16 has it the other way
        (STRING, "a", "aa"),
        (UUID, uuid.UUID(int=2**127 - 1), uuid.UUID(int=2**127)),  # unsigned
        (DecimalType(9, 2), Decimal("-1.50"), Decimal("1.40")),
        (DATE, "1969-12-31", "1970-01-01"),
        (DOUBLE, float("-inf"), -1.0),
    ],
)
def test_values_keep_the_order_of_the_spec(type_, low, high):
    schema = Schema((Field(1, "x", type_),))
    x = col("x")
    assert simplify(bind((x >= low) & (x >= high), schema)) == simplify(bind(x >= high, schema))
    assert simplify(bind((x <= low) & (x >= high), schema)) == FALSE


def test_simplify_of_an_unbound_filter_folds_constants_and_repetitions_only():
    expr = And((Constant(True), a > 3, a > 5, a > 3, Or((FALSE, b == 1))))
    assert str(simplify(expr)) == "a > 3 AND a > 5 AND b = 1"


def test_literals_that_python_holds_to_be_equal_are_not_the_same():
    expr = or_(a == 1, a == True, a == 1.0)  # noqa: E712
    assert len(simplify(expr).children) == 3


def test_literals_that_cannot_be_hashed_are_left_alone():
    strange = And((Predicate(Op.EQ, Reference("a"), ([1],)), Predicate(Op.EQ, Reference("a"), ([1],))))
    assert simplify(strange) == strange


def test_de_morgan():
    assert without_not(~((a > 3) & (b.is_null() | ~(a == 1)))) == or_(a <= 3, and_(b.is_not_null(), a == 1))
    assert without_not(Not(Not(TRUE))) == TRUE
    assert without_not(Not(And((TRUE, FALSE)))) == TRUE


def test_not_of_a_bound_filter():
    bound = bind((a > 3) & (b == 1), SCHEMA)
    assert str(without_not(Not(bound))) == "a <= 3 OR b <> 1"


def test_leaves_and_field_ids():
    expr = bind((a > 3) & ((s == "x") | a.is_null()), SCHEMA)
    assert [str(leaf) for leaf in leaves(expr)] == ["a > 3", "s = 'x'", "a IS NULL"]
    assert field_ids(expr) == {1, 3}
    assert field_ids(TRUE) == frozenset()


def test_rebuild_replaces_each_leaf():
    def swap(leaf):
        return Predicate(leaf.op, Reference("z"), leaf.literals)

    assert str(rebuild(~((a > 3) | (b == 1)), swap)) == "z <= 3 AND z <> 1"


def deep(levels: int):
    expr = a == 0
    for level in range(levels):
        expr = and_(b == level, expr) if level % 2 else or_(b == level, expr)
    return expr


def test_any_depth_is_rewritten_without_recursion():
    expr = not_(deep(20_000))
    assert isinstance(without_not(expr), And | Or)
    assert isinstance(simplify(expr), And | Or)
    assert sum(1 for _ in leaves(expr)) == 20_001
    chain = reduce(lambda inner, _: Not(inner), range(20_001), a == 1)
    assert without_not(chain) == (a != 1)


def test_chains_of_one_kind_are_flattened_in_linear_time():
    left_deep = reduce(lambda left, n: Or((left, a == n)), range(20_000), b == 0)
    assert len(without_not(left_deep).children) == 20_001


def test_depth_is_limited_with_a_clear_error():
    assert check_depth(deep(99)) is not None
    with pytest.raises(InvalidExpression, match="more than 100 deep"):
        check_depth(deep(101))


def test_many_alternatives_become_one_list():
    expr = or_(*(Predicate(Op.EQ, Reference("a"), (n,)) for n in range(50_000)))
    simple_ = simplify(bind(expr, SCHEMA))
    assert isinstance(simple_, BoundPredicate)
    assert simple_.op is Op.IN
    assert simple_.literals == tuple(range(50_000))


def test_many_prefixes_and_exclusions_are_joined_quickly():
    names = [f"{n:05}" for n in range(4000)]
    schema = Schema((Field(1, "s", STRING),))
    barred = [col("s").not_starts_with(name) for name in names[1::2]]
    expr = reduce(lambda a, b: a & b, barred, col("s").not_in([name + "x" for name in names]))
    (excluded, *others) = simplify(bind(expr, schema)).children
    assert excluded.literals == tuple(name + "x" for name in names[::2])
    assert len(others) == 2000
