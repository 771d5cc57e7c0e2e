"""Filters as text that reads back as the same filter, and without values for reports."""

import math
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.expression_text import (
    literal_to_text,
    name_to_text,
    term_to_text,
    to_sanitized_text,
    to_text,
)
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundReference,
    Not,
    Op,
    Or,
    Predicate,
    Reference,
    TransformTerm,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.simplification import simplify
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, YEAR, Bucket, Truncate, UnknownTransform
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
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    Field,
    FixedType,
    StructType,
)
from floe.sql.filters import parse_filter

a, b = col("a"), col("b")
PARIS = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (TRUE, "true"),
        (FALSE, "false"),
        (a < 1, "a < 1"),
        (a != 1, "a <> 1"),
        (a.is_in([1, 2]), "a IN (1, 2)"),
        (a.not_in([1]), "a NOT IN (1)"),
        (a.is_null(), "a IS NULL"),
        (a.is_not_null(), "a IS NOT NULL"),
        (a.is_nan(), "isnan(a)"),
        (a.is_not_nan(), "NOT isnan(a)"),
        (~a.is_nan(), "NOT (isnan(a))"),
        (a.starts_with("x"), "a LIKE 'x%'"),
        (a.not_starts_with("x"), "a NOT LIKE 'x%'"),
        (a.starts_with("50%_\\"), r"a LIKE '50\\%\\_\\\\%'"),
        ((a == 1) & ((b == 2) | (b == 3)), "a = 1 AND (b = 2 OR b = 3)"),
        ((a == 1) | ((b == 2) & (b == 3)), "a = 1 OR (b = 2 AND b = 3)"),
        (~((a == 1) & (b == 2)), "NOT (a = 1 AND b = 2)"),
        (~(a == 1), "NOT a = 1"),
        (col("a b.in") == 1, "`a b`.`in` = 1"),
        (col("a", "b") == 1, "`a`.`b` = 1"),
        (a == "it's", r"a = 'it\'s'"),
        (a == "a\\b", r"a = 'a\\b'"),
        (a == 0.1, "a = 0.1D"),
        (a == math.inf, "a = double('Infinity')"),
        (a == Decimal("1.50"), "a = 1.50"),
        (a == Decimal("1E+3"), "a = 1E+3BD"),
        (a == b"\x0a\xff", "a = X'0aff'"),
        (a == date(2024, 5, 17), "a = DATE '2024-05-17'"),
        (a == datetime(2024, 5, 17, 1), "a = TIMESTAMP_NTZ '2024-05-17 01:00:00'"),
        (a == datetime(2024, 5, 17, tzinfo=UTC), "a = TIMESTAMP '2024-05-17 00:00:00+00:00'"),
        (a == datetime(1970, 1, 1, 1, tzinfo=PARIS), "a = TIMESTAMP '1970-01-01 00:00:00+00:00'"),
        (a == time(1, 2, 3), "a = TIME '01:02:03'"),
        (a == uuid.UUID(int=0), "a = UUID '00000000-0000-0000-0000-000000000000'"),
        (a == True, "a = true"),  # noqa: E712
        (Predicate(Op.EQ, Reference("a"), (None,)), "a = NULL"),
        (Predicate(Op.STARTS_WITH, Reference("a"), (None,)), "a LIKE NULL"),
        (a.bucket(16) == 1, "bucket(16, a) = 1"),
        (a.truncate(2) == "x", "truncate(2, a) = 'x'"),
        (a.day() == "2024-05-17", "days(a) = '2024-05-17'"),
        (Predicate(Op.EQ, Reference("a"), ([1],)), "a = [1]"),
    ],
)  # fmt: skip
def test_text(expr, text):
    assert to_text(expr) == text
    assert str(expr) == text


def test_terms_and_names():
    assert term_to_text(TransformTerm(IDENTITY, Reference("a"))) == "identity(a)"
    assert term_to_text(TransformTerm(UnknownTransform("zorder"), Reference("a"))) == "zorder(a)"
    assert name_to_text("a`b") == "`a``b`"
    assert name_to_text(("a.b",)) == "`a.b`"


def test_an_integer_of_any_length_prints():
    assert literal_to_text(10**5000).startswith("1")


def test_any_depth_prints():
    expr = a == 0
    for level in range(20_000):
        expr = and_(b == level, expr) if level % 2 else or_(b == level, expr)
    assert str(not_(expr)).count("(") == 20_000


# reading back ---------------------------------------------------------------------------------------------------------

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
plain_names = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
odd_names = st.text(alphabet=st.sampled_from("ab`'\" .%é1"), min_size=1, max_size=5)
references = st.one_of(
    plain_names,
    st.tuples(plain_names, plain_names).map(".".join),
    odd_names.filter(lambda name: "." not in name),
    odd_names.filter(lambda name: "." in name).map(lambda name: (name,)),
    st.lists(odd_names, min_size=2, max_size=3).map(tuple),
).map(Reference)
numbers = st.one_of(st.integers(), st.floats(allow_nan=False), st.decimals(allow_nan=False, allow_infinity=False))
moments = st.one_of(st.dates(), st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.times())
free_literals = st.one_of(numbers, texts, st.binary(max_size=5), st.booleans(), moments, st.uuids(), st.none())
transforms = st.one_of(
    st.builds(Bucket, st.integers(1, 2**31 - 1)),
    st.builds(Truncate, st.integers(1, 2**31 - 1)),
    st.sampled_from([YEAR, MONTH, DAY, HOUR, IDENTITY]),
)


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    op = draw(st.sampled_from(list(Op)))
    # a function takes one column by its name; paths of odd names are tried with plain columns
    terms = st.one_of(references, st.builds(TransformTerm, transforms, references))
    term = draw(references if op in (Op.IS_NAN, Op.NOT_NAN) else terms)
    if op.is_unary:
        return Predicate(op, term)
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return Predicate(op, term, (draw(texts),))
    count = st.integers(0, 3) if op.is_set else st.just(1)
    return Predicate(op, term, tuple(draw(free_literals) for _ in range(draw(count))))


def trees(leaf: st.SearchStrategy) -> st.SearchStrategy:
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: and_(*parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: or_(*parts)),
            inner.map(not_),
        ),
        max_leaves=6,
    )


@given(trees(predicates()))
def test_text_reads_back_as_the_same_filter(expr):
    again = parse_filter(to_text(expr))
    assert again == expr
    assert to_text(again) == to_text(expr)


TYPES = [
    BOOLEAN, INT, LONG, FLOAT, DOUBLE, DecimalType(9, 2), DecimalType(38, 10), DATE, TIME, TIMESTAMP, TIMESTAMPTZ,
    TIMESTAMP_NS, TIMESTAMPTZ_NS, STRING, UUID, FixedType(3), BINARY,
]  # fmt: skip
SCHEMA = Schema(
    (
        *(Field(n, f"{type_.kind}_{n}", type_) for n, type_ in enumerate(TYPES, start=1)),
        Field(100, "st", StructType((Field(101, "a.b", INT), Field(102, "in", INT)))),
    )
)

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
BOUND_VALUES = {
    "boolean": st.booleans(),
    "int": int32,
    "long": int64,
    "float": st.floats(width=32, allow_nan=False).map(lambda x: x + 0.0),
    "double": st.floats(allow_nan=False).map(lambda x: x + 0.0),
    "date": int32,
    "time": st.integers(0, 86_399_999_999),
    "timestamp": int64,
    "timestamptz": int64,
    "timestamp_ns": int64,
    "timestamptz_ns": int64,
    "string": texts,
    "uuid": st.uuids(),
    "fixed": st.binary(min_size=3, max_size=3),
    "binary": st.binary(max_size=5),
}


@st.composite
def bound_predicates(draw: st.DrawFn):
    entry = draw(st.sampled_from([e for e in SCHEMA.by_id.values() if e.field.type.is_primitive]))
    type_ = entry.field.type
    if isinstance(type_, DecimalType):
        limit = 10**type_.precision - 1
        values = st.integers(-limit, limit).map(lambda n: Decimal(f"{n}E-{type_.scale}"))
    else:
        values = BOUND_VALUES[type_.kind]
    op = draw(st.sampled_from([Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ]))
    return BoundPredicate(op, BoundReference(entry), (draw(values),))


@given(trees(bound_predicates()))
def test_text_of_a_bound_filter_binds_to_the_same_filter(expr):
    assert bind(parse_filter(to_text(expr)), SCHEMA) == bind(expr, SCHEMA)


# without values -------------------------------------------------------------------------------------------------------

NOW = datetime(2024, 5, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("literal", "word"),
    [
        (0, "(1-digit-int)"),
        (-42, "(2-digit-int)"),
        (10**30, "(31-digit-int)"),
        (1.5, "(1-digit-float)"),
        (0.05, "(0-digit-float)"),
        (12345.0, "(5-digit-float)"),
        (math.inf, "(float)"),
        (Decimal("123.45"), "(3-digit-decimal)"),
        (True, "(boolean)"),
        ("aaa", "(hash-34d05fb7)"),  # from Java's own tests
        ("2024-05-17", "(date-today)"),
        ("2024-05-14", "(date-3-days-ago)"),
        ("2024-99-99", "(hash-"),
        ("2024-05-17T11:58:00Z", "(timestamp-about-now)"),
        ("2024-05-17T10:00:00+00:00", "(timestamp-2-hours-ago)"),
        ("2024-05-27T12:00:00", "(timestamp-10-days-from-now)"),
        ("10:30:00", "(time)"),
        (date(2024, 5, 20), "(date-3-days-from-now)"),
        (date(2020, 1, 1), "(date)"),
        (datetime(2020, 1, 1), "(timestamp)"),
        (time(10), "(time)"),
        (b"secret", "(hash-"),
        (uuid.UUID(int=5), "(hash-"),
    ],
)
def test_words_for_literals(literal, word):
    assert to_sanitized_text(a == literal, now=NOW).startswith(f"a = {word}")


def test_sanitised_text_holds_no_value():
    expr = (a == "secret") & (b.is_in([123456, 654321]) | ~b.starts_with("aaa")) & a.is_not_null()
    text = to_sanitized_text(expr)
    assert text.endswith("(b IN ((6-digit-int), (6-digit-int)) OR NOT b LIKE (hash-34d05fb7)) AND a IS NOT NULL")
    for value in ("secret", "123456", "aaa"):
        assert value not in text


def test_sanitised_bound_filter():
    schema = Schema((Field(1, "d", DATE), Field(2, "t", TIMESTAMPTZ), Field(3, "n", TIME), Field(4, "x", INT)))
    expr = (col("d") == "2024-05-16") & (col("t") > "2024-05-17T10:00:00Z") & (col("n") < "10:00:00") & (col("x") > 99)
    assert to_sanitized_text(bind(expr, schema), now=NOW) == (
        "d = (date-1-days-ago) AND t > (timestamp-2-hours-ago) AND n < (time) AND x > (2-digit-int)"
    )
    assert (
        to_sanitized_text(bind(expr, schema)) == "d = (date) AND t > (timestamp) AND n < (time) AND x > (2-digit-int)"
    )


def test_sanitised_lists_are_cut_as_java_cuts_them():
    assert (
        to_sanitized_text(a.is_in(range(95, 104)))
        == "a IN (" + ", ".join(["(2-digit-int)"] * 5 + ["(3-digit-int)"] * 4) + ")"
    )
    assert to_sanitized_text(a.is_in(range(95, 105))) == (
        "a IN ((2-digit-int), (3-digit-int), ... (8 values hidden, 10 in total))"
    )
    assert to_sanitized_text(a.is_in(f"string_{n}" for n in range(15))) == (
        "a IN ((hash-14128790), (hash-1056a62b), (hash-22fd6340), (hash-3f9d20e4), (hash-136200f0), (hash-25fc9033), "
        "(hash-681d31e2), (hash-6c1796d4), (hash-382d143e), (hash-272f4e5b), ... (5 values hidden, 15 in total))"
    )


def test_trees_keep_their_repr():
    assert repr(TRUE) == "TRUE"
    assert repr(a == 1) == "Predicate(op=<Op.EQ: 'eq'>, term=Reference(name='a'), literals=(1,))"
    assert str(simplify(And((TRUE, Or((FALSE, Not(a == 1))))))) == "a <> 1"


def test_sanitised_takes_every_number_that_is_none():
    for literal in (Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity")):
        assert to_sanitized_text(col("a") == literal) == "a = (decimal)"
