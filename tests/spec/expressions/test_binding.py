"""Binding filters to a schema: names, literals, folding, and what each type allows."""

import math
import uuid
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidExpression, NoSuchColumn
from floe.spec.expressions.binder import bind, bind_predicate, bind_term
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Op,
    Or,
    Predicate,
    Reference,
    TransformTerm,
    and_,
    or_,
)
from floe.spec.partitioning.transforms import IDENTITY, VOID, Bucket, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    ListType,
    MapType,
    StructType,
)
from floe.spec.values.exact_numbers import nearest_float32
from helpers.three_valued import key, passes

SCHEMA = Schema(
    (
        Field(1, "id", LONG, required=True),
        Field(2, "n", INT),
        Field(3, "price", DecimalType(9, 2)),
        Field(4, "f", FLOAT),
        Field(5, "d", DOUBLE),
        Field(6, "s", STRING),
        Field(7, "day", DATE),
        Field(8, "ts", TIMESTAMP),
        Field(9, "tz", TIMESTAMPTZ),
        Field(10, "u", UUID),
        Field(11, "bin", BINARY),
        Field(12, "fx", FixedType(2)),
        Field(13, "flag", BOOLEAN),
        Field(14, "nothing", UNKNOWN),
        Field(15, "v", VARIANT),
        Field(16, "geo", GeographyType()),
        Field(17, "who", StructType((Field(18, "name", STRING, required=True), Field(19, "a.b", INT)))),
        Field(20, "must", StructType((Field(21, "x", INT, required=True),)), required=True),
        Field(22, "tags", ListType(23, STRING)),
        Field(24, "m", MapType(25, STRING, 26, INT)),
        Field(27, "Big", INT),
    )
)
NAN = float("nan")


def bound(expr, **how) -> str:
    return str(bind(expr, SCHEMA, **how))


n, price, f, d, s, day, ts, tz = (col(name) for name in ("n", "price", "f", "d", "s", "day", "ts", "tz"))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        # beyond the values of the type
        (n < 2**31, "n IS NOT NULL"),
        (n <= 2**31, "n IS NOT NULL"),
        (n != 2**31, "n IS NOT NULL"),
        (n > 2**31, "false"),
        (n == 2**31, "false"),
        (n > -(2**40), "n IS NOT NULL"),
        (n < -(2**40), "false"),
        (col("id") < 2**80, "true"),
        (col("id") > 2**80, "false"),
        (col("must.x") != 2**80, "true"),
        # between two values
        (n < 3.5, "n <= 3"),
        (n <= 3.5, "n <= 3"),
        (n > 3.5, "n >= 4"),
        (n >= Decimal("3.5"), "n >= 4"),
        (n == 3.5, "false"),
        (n != 3.5, "n IS NOT NULL"),
        (n == 3.0, "n = 3"),
        (price == Decimal("1.234"), "false"),
        (price < Decimal("1.234"), "price <= 1.23"),
        (price > Decimal("1.234"), "price >= 1.24"),
        (price == 1.5, "price = 1.50"),
        (price == 7, "price = 7.00"),
        (f < 0.1, "f <= 0.09999999403953552"),
        (f == 0.1, "false"),
        (f < 1e39, "f <= 3.4028234663852886e+38"),
        (d == Decimal("0.1"), "d = 0.1"),
        (day < "2024-01-01 12:00:00", "day <= DATE '2024-01-01'"),
        (day == date(2024, 1, 1), "day = DATE '2024-01-01'"),
        (ts >= "2024-01-01", "ts >= TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
        (ts > "2024-01-01T00:00:00.0000001", "ts >= TIMESTAMP_NTZ '2024-01-01 00:00:00.000001'"),
        (tz >= "2024-01-01", "tz >= TIMESTAMP '2024-01-01 00:00:00+00:00'"),
        (tz >= "2024-01-01T00:00:00+01:00", "tz >= TIMESTAMP '2023-12-31 23:00:00+00:00'"),
        # transforms
        (n.bucket(4) == 3, "bucket(4, n) = 3"),
        (s.truncate(2) == "ab", "truncate(2, s) = 'ab'"),
        (ts.year() == 2024, "years(ts) = 54"),
        (ts.month() >= "2024-05", "months(ts) >= 652"),
        (ts.day() == "2024-05-17", "days(ts) = DATE '2024-05-17'"),
        (ts.day() < "2024-05-17 12:00:00", "days(ts) <= DATE '2024-05-17'"),
        (ts.hour() == "2024-05-17-10", "hours(ts) = 476650"),
        # sets
        (n.is_in([3, 1, 3, 1.0]), "n IN (1, 3)"),
        (n.is_in([3, 3]), "n = 3"),
        (n.is_in([3.5, 2**40]), "false"),
        (n.not_in([3.5, 2**40]), "n IS NOT NULL"),
        (n.not_in([3, 3.0]), "n <> 3"),
        (n.not_in([2, 1]), "n NOT IN (1, 2)"),
        (col("u").is_in([uuid.UUID(int=2**127), uuid.UUID(int=1)]),
         "u IN ('00000000-0000-0000-0000-000000000001', '80000000-0000-0000-0000-000000000000')"),
        (col("bin").is_in([b"\xff", b"\x00"]), "bin IN (X'00', X'ff')"),
        # prefixes
        (s.starts_with("a"), "s LIKE 'a%'"),
        (s.starts_with(""), "s IS NOT NULL"),
        (s.not_starts_with(""), "false"),
        # zeros and NaN
        (d == -0.0, "d = 0.0"),
        (d.is_in([0.0, -0.0]), "d = 0.0"),
        (d == NAN, "isnan(d)"),
        (d >= NAN, "isnan(d)"),
        (d != NAN, "NOT isnan(d)"),
        (d < NAN, "NOT isnan(d)"),
        (d <= NAN, "d IS NOT NULL"),
        (d > NAN, "false"),
        (d.is_in([1.0, NAN]), "d = 1.0 OR isnan(d)"),
        (d.not_in([1.0, NAN]), "d <> 1.0 AND NOT isnan(d)"),
        (d.not_in([NAN]), "NOT isnan(d)"),
        (n < NAN, "n IS NOT NULL"),
        (n == NAN, "false"),
    ],
)  # fmt: skip
def test_folding(expr, expected):
    assert bound(expr) == expected


@pytest.mark.parametrize("op", [Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ])
def test_no_comparison_with_null_is_true(op):
    assert bind(Predicate(op, Reference("n"), (None,)), SCHEMA) == FALSE
    assert bind(~Predicate(op, Reference("n"), (None,)), SCHEMA) == FALSE


def test_null_in_a_list():
    assert bound(Predicate(Op.IN, Reference("n"), (1, None))) == "n = 1"
    assert bound(Predicate(Op.IN, Reference("n"), (None,))) == "false"
    assert bound(Predicate(Op.NOT_IN, Reference("n"), (1, None))) == "false"
    assert bound(~Predicate(Op.IN, Reference("n"), (1, None))) == "false"


def test_an_empty_list_compares_nothing():
    assert bind(Predicate(Op.IN, Reference("n")), SCHEMA) == FALSE
    assert bind(Predicate(Op.NOT_IN, Reference("n")), SCHEMA) == TRUE
    assert bind(Predicate(Op.NOT_IN, Reference("nothing")), SCHEMA) == TRUE


def test_null_tests_of_columns_that_cannot_be_null():
    assert bind(col("id").is_null(), SCHEMA) == FALSE
    assert bind(col("id").is_not_null(), SCHEMA) == TRUE
    assert bind(col("must.x").is_null(), SCHEMA) == FALSE
    assert bound(col("who.name").is_null()) == "who.name IS NULL"  # required, in a struct that may be null


def test_unknown_columns_are_always_null():
    nothing = col("nothing")
    assert bind(nothing.is_null(), SCHEMA) == TRUE
    assert bind(nothing.is_not_null(), SCHEMA) == FALSE
    assert bind(nothing == 5, SCHEMA) == FALSE
    assert bind(nothing != 5, SCHEMA) == FALSE
    assert bind(~nothing.is_in([5]), SCHEMA) == FALSE
    assert bind(nothing.starts_with("x"), SCHEMA) == FALSE


@pytest.mark.parametrize("name", ["v", "geo", "who", "tags", "m"])
def test_columns_that_have_no_order_are_only_tested_for_null(name):
    assert bound(col(name).is_null()) == f"{name} IS NULL"
    assert bound(col(name).is_not_null()) == f"{name} IS NOT NULL"
    for expr in (col(name) == 1, col(name).is_in([1]), col(name).starts_with("x"), col(name).is_nan()):
        with pytest.raises(InvalidExpression, match=f"column: {name}"):
            bind(expr, SCHEMA)


def test_is_null_takes_any_type():
    for entry in SCHEMA.by_id.values():
        if not entry.in_collection:
            assert bind(col(*entry.path).is_null(), SCHEMA) in (
                BoundPredicate(Op.IS_NULL, BoundReference(entry)),
                TRUE if entry.name == "nothing" else FALSE,
            )


def test_in_takes_any_primitive_with_an_order():
    literals = {
        "id": [1, 2], "n": [1, 2], "price": [Decimal("1.50"), 2], "f": [0.5, 1.5], "d": [0.1, 0.2], "s": ["a", "b"],
        "day": ["2024-01-01", date(2024, 1, 2)], "ts": ["2024-01-01", "2024-01-02T10:00:00"],
        "tz": ["2024-01-01", "2024-01-02T10:00:00+01:00"], "u": [uuid.UUID(int=1), uuid.UUID(int=2)],
        "bin": [b"", b"x"], "fx": [b"ab", b"cd"], "flag": [False, True],
    }  # fmt: skip
    for name, values in literals.items():
        assert bind(col(name).is_in(values), SCHEMA).op is Op.IN
        assert bind(col(name).not_in(values), SCHEMA).op is Op.NOT_IN


def test_is_nan_only_of_floats():
    assert bound(f.is_nan() & d.is_not_nan()) == "isnan(f) AND NOT isnan(d)"
    with pytest.raises(InvalidExpression, match=r"only float and double columns .* NaN"):
        bind(n.is_nan(), SCHEMA)


def test_prefixes_only_of_strings():
    for name in ("bin", "n", "u"):
        with pytest.raises(InvalidExpression, match="only strings have prefixes"):
            bind(col(name).starts_with("x"), SCHEMA)


@pytest.mark.parametrize("name", ["tags.element", "m.key", "m.value"])
def test_nothing_inside_lists_and_maps(name):
    with pytest.raises(InvalidExpression, match=r"list or map.*column: "):
        bind(col(name).is_null(), SCHEMA)


def test_names():
    assert bind(col("who", "a.b") > 1, SCHEMA).term.field_id == 19
    assert bind(col("who.a.b") > 1, SCHEMA).term.field_id == 19
    assert bind(col("BIG") > 1, SCHEMA, case_sensitive=False).term.field_id == 27
    with pytest.raises(NoSuchColumn, match="no column is named 'BIG'"):
        bind(col("BIG") > 1, SCHEMA)
    with pytest.raises(NoSuchColumn):
        bind(col("none") > 1, SCHEMA)


def test_errors_name_the_column():
    with pytest.raises(InvalidExpression, match=r"'x' \(str\) cannot be compared with type int \(column: n\)"):
        bind(n == "x", SCHEMA)


def test_transforms_that_cannot_be():
    with pytest.raises(InvalidExpression, match="year cannot be applied to type string"):
        bind(s.year() == 2024, SCHEMA)
    with pytest.raises(InvalidExpression, match="always null"):
        bind(Predicate(Op.IS_NULL, TransformTerm(VOID, Reference("n"))), SCHEMA)
    with pytest.raises(InvalidExpression, match="not known"):
        bind(Predicate(Op.IS_NULL, TransformTerm(UnknownTransform("zorder"), Reference("n"))), SCHEMA)


def test_identity_is_the_column_itself():
    term = bind_term(TransformTerm(IDENTITY, Reference("n")), SCHEMA)
    assert term == BoundReference(SCHEMA.resolve("n"))


def test_terms_and_predicates_can_be_bound_alone():
    term = bind_term(TransformTerm(Bucket(4), Reference("n")), SCHEMA)
    assert isinstance(term, BoundTransform)
    assert term.type == INT
    assert term.nullable
    assert bind_predicate(Op.EQ, term, (1,)) == BoundPredicate(Op.EQ, term, (1,))


def test_the_number_of_literals_is_checked():
    with pytest.raises(InvalidExpression, match="takes 1 literal, found 2"):
        bind(Predicate(Op.EQ, Reference("n"), (1, 2)), SCHEMA)
    with pytest.raises(InvalidExpression, match="takes 0 literals, found 1"):
        bind(Predicate(Op.IS_NULL, Reference("n"), (1,)), SCHEMA)


def test_the_result_is_flat_and_without_not():
    expr = ~((n > 1) | ~(And((n < 5, And((s == "a", TRUE))))))
    assert bound(expr) == "n <= 1 AND n < 5 AND s = 'a'"
    assert bind(TRUE, SCHEMA) == TRUE
    assert bind(~TRUE, SCHEMA) == FALSE


def test_binding_again_changes_nothing():
    once = bind((n > 1.5) & (s == "x"), SCHEMA)
    assert bind(once, SCHEMA) == once


def test_depth_is_limited():
    expr = n == 0
    for level in range(300):
        expr = and_(n == level, expr) if level % 2 else or_(n == level, expr)
    with pytest.raises(InvalidExpression, match="nests AND and OR more than 100 deep"):
        bind(expr, SCHEMA)


def test_long_chains_are_not_deep():
    chain = n == 0
    for level in range(5000):
        chain = Or((chain, n == level))
    assert isinstance(bind(chain, SCHEMA), Or)


def test_a_list_of_100_000_values():
    assert len(bind(n.is_in(range(100_000)), SCHEMA).literals) == 100_000


# exactness ------------------------------------------------------------------------------------------------------------

COMPARISONS = st.sampled_from([Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ])
numbers = st.one_of(
    st.integers(-4, 4),
    st.integers(-(2**33), 2**33),
    st.sampled_from([2**31, 2**31 - 1, -(2**31), -(2**31) - 1, 10**7, Decimal("9999999.99"), math.inf, -math.inf]),
    st.floats(-4, 4),
    st.floats(allow_nan=False),
    st.decimals(-4, 4, places=3),
)
ints = st.one_of(st.integers(-4, 4), st.sampled_from([-(2**31), 2**31 - 1]), st.integers(-(2**31), 2**31 - 1))
cents = st.one_of(st.integers(-400, 400), st.integers(-999999999, 999999999)).map(lambda c: Decimal(c).scaleb(-2))
floats32 = st.one_of(st.floats(-4, 4, width=32), st.floats(width=32))


def agrees(name, op, literal, value, meant):
    """The bound comparison says of a value what exact arithmetic says."""
    exact = {
        Op.EQ: key(value) == key(meant), Op.NOT_EQ: key(value) != key(meant), Op.LT: key(value) < key(meant),
        Op.LT_EQ: key(value) <= key(meant), Op.GT: key(value) > key(meant), Op.GT_EQ: key(value) >= key(meant),
    }[op]  # fmt: skip
    predicate = Predicate(op, Reference(name), (literal,))
    assert passes(bind(predicate, SCHEMA), {name: value}) == exact
    assert passes(bind(~predicate, SCHEMA), {name: value}) == (not exact)
    assert not passes(bind(predicate, SCHEMA), {name: None})


@given(COMPARISONS, numbers, ints)
def test_int_columns_compare_exactly(op, literal, value):
    agrees("n", op, literal, value, literal)


@given(COMPARISONS, numbers, cents)
def test_decimal_columns_compare_exactly(op, literal, value):
    is_plain_float = isinstance(literal, float) and math.isfinite(literal)
    agrees("price", op, literal, value, Decimal(repr(literal)) if is_plain_float else literal)


@given(COMPARISONS, numbers, floats32)
def test_float_columns_compare_exactly_with_the_nearest_double(op, literal, value):
    assert math.isnan(value) or nearest_float32(value) == value
    agrees("f", op, literal, value, float(literal))


@given(COMPARISONS, st.one_of(numbers, st.just(NAN)), st.floats())
def test_double_columns_compare_with_the_nearest_double(op, literal, value):
    agrees("d", op, literal, value, float(literal))
