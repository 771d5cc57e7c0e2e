"""Filters as JSON: Java's form, the newer form of the expressions spec, and the corpus."""

import contextlib
import json
import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidExpression, NoSuchColumn, UnsupportedFeature
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.expression_json import expression_from_json, expression_to_json
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
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
from floe.spec.partitioning.transforms import DAY, YEAR, Bucket, Truncate
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    FixedType,
    StructType,
)
from floe.sql.filters import parse_filter
from helpers.corpus import expected, table_names
from helpers.three_valued import passes

a, b = col("a"), col("b")
SCHEMA = Schema(
    (
        Field(1, "id", LONG),
        Field(2, "s", STRING),
        Field(3, "d", DOUBLE),
        Field(4, "price", DecimalType(9, 2)),
        Field(5, "day", DATE),
        Field(6, "t", TIME),
        Field(7, "ts", TIMESTAMP),
        Field(8, "tz", TIMESTAMPTZ),
        Field(9, "ns", TIMESTAMP_NS),
        Field(10, "u", UUID),
        Field(11, "bin", BINARY),
        Field(12, "fx", FixedType(2)),
        Field(13, "flag", BOOLEAN),
        Field(14, "st", StructType((Field(15, "a.b", INT),))),
    )
)


def ref(name):
    return {"type": "reference", "name": name}


# Java's form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "as_json"),
    [
        (TRUE, True),
        (FALSE, False),
        (a < 1, {"type": "lt", "term": "a", "value": 1}),
        (a <= 1, {"type": "lt-eq", "term": "a", "value": 1}),
        (a > 1, {"type": "gt", "term": "a", "value": 1}),
        (a >= 1, {"type": "gt-eq", "term": "a", "value": 1}),
        (a == 1, {"type": "eq", "term": "a", "value": 1}),
        (a != 1, {"type": "not-eq", "term": "a", "value": 1}),
        (a.is_in([1, 2]), {"type": "in", "term": "a", "values": [1, 2]}),
        (a.not_in(["x"]), {"type": "not-in", "term": "a", "values": ["x"]}),
        (a.is_null(), {"type": "is-null", "term": "a"}),
        (a.is_not_null(), {"type": "not-null", "term": "a"}),
        (a.is_nan(), {"type": "is-nan", "term": "a"}),
        (a.is_not_nan(), {"type": "not-nan", "term": "a"}),
        (a.starts_with("x"), {"type": "starts-with", "term": "a", "value": "x"}),
        (a.not_starts_with("x"), {"type": "not-starts-with", "term": "a", "value": "x"}),
        (~(a == 1), {"type": "not", "child": {"type": "eq", "term": "a", "value": 1}}),
        (
            (a == 1) & (b == 2.5),
            {
                "type": "and",
                "left": {"type": "eq", "term": "a", "value": 1},
                "right": {"type": "eq", "term": "b", "value": 2.5},
            },
        ),
        (
            a.bucket(16) == 3,
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "a"}, "value": 3},
        ),
        (a == True, {"type": "eq", "term": "a", "value": True}),  # noqa: E712
        (col("who.name") == "x", {"type": "eq", "term": "who.name", "value": "x"}),
    ],
)
def test_java_form_both_ways(expr, as_json):
    assert expression_to_json(expr) == as_json
    assert expression_from_json(as_json) == expr
    assert expression_from_json(json.loads(json.dumps(as_json))) == expr


@pytest.mark.parametrize(
    ("literal", "as_json"),
    [
        (Decimal("14.20"), "14.20"),
        (b"\x0a\xff", "0aff"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (date(2024, 5, 17), "2024-05-17"),
        (time(1, 2, 3), "01:02:03"),
        (datetime(2024, 5, 17, 1, 2, 3), "2024-05-17T01:02:03"),
        (datetime(2024, 5, 17, 1, 2, 3, tzinfo=UTC), "2024-05-17T01:02:03+00:00"),
        (math.inf, "Infinity"),
    ],
)
def test_literals_that_become_text(literal, as_json):
    assert expression_to_json(a == literal)["value"] == as_json


@pytest.mark.parametrize("literal", [None, float("nan"), [1]])
def test_literals_that_json_has_no_place_for(literal):
    with pytest.raises(InvalidExpression, match="cannot be written in the JSON of a filter"):
        expression_to_json(Predicate(Op.EQ, Reference("a"), (literal,)))


def test_three_parts_nest_as_java_nests_them_and_many_stay_shallow():
    three = expression_to_json(and_(a == 1, a == 2, a == 3))
    assert three["left"]["type"] == "and"
    assert three["right"] == {"type": "eq", "term": "a", "value": 3}
    many = or_(*(Predicate(Op.EQ, Reference("a"), (n,)) for n in range(3000)))
    text = json.dumps(expression_to_json(many))
    assert expression_from_json(json.loads(text)) == many


@pytest.mark.parametrize(
    ("found", "expr"),
    [
        ("true", TRUE),
        ("FALSE", FALSE),
        ({"type": "true"}, TRUE),
        ({"type": "false"}, FALSE),
        ({"type": "literal", "value": True}, TRUE),
        ({"type": "LT_EQ", "term": "a", "value": 1}, a <= 1),
        ({"type": "is_null", "term": {"type": "reference", "term": "a"}}, a.is_null()),
        ({"type": "eq", "term": "a", "value": {"type": "literal", "value": 1}}, a == 1),
        ({"type": "in", "term": "a", "values": [1, {"type": "literal", "value": 2}]}, a.is_in([1, 2])),
        ({"type": "in", "term": "a", "values": []}, Predicate(Op.IN, Reference("a"))),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "Day", "term": ref("a")}, "value": "2024-05-17"},
            a.day() == "2024-05-17",
        ),
        ({"type": "not", "child": {"type": "not", "child": {"type": "is-nan", "term": "a"}}}, a.is_nan()),
    ],
)
def test_other_spellings(found, expr):
    assert expression_from_json(found) == expr


def test_bound_filters_are_written_with_the_json_of_their_types():
    expr = bind(
        (col("price") == 14.2) & (col("day") > "2024-05-17") & (col("bin") == b"\x0a") & (col("st", "a.b") < 5), SCHEMA
    )
    parts = [expression_to_json(part) for part in expr.children]
    assert parts == [
        {"type": "eq", "term": "price", "value": "14.20"},
        {"type": "gt", "term": "day", "value": "2024-05-17"},
        {"type": "eq", "term": "bin", "value": "0A"},
        {"type": "lt", "term": "st.a.b", "value": 5},
    ]
    assert bind(expression_from_json(expression_to_json(expr), SCHEMA), SCHEMA) == expr


@pytest.mark.parametrize(
    ("name", "value", "sql"),
    [
        ("day", 19860, "day = date '2024-05-17'"),
        ("day", "2024-05-17", "day = date '2024-05-17'"),
        ("t", 3_600_000_000, "t = time '01:00:00'"),
        ("ts", 1510871468000000, "ts = timestamp '2017-11-16 22:31:08'"),
        ("tz", 1510871468000000, "tz = timestamp '2017-11-16 22:31:08'"),
        ("tz", "2017-11-16T22:31:08+00:00", "tz = timestamp '2017-11-16 22:31:08'"),
        ("ns", 1510871468000000, "ns = timestamp '2017-11-16 22:31:08'"),  # microseconds, as Java takes it
        ("ns", "2017-11-16T22:31:08.000000001", "ns = timestamp '2017-11-16 22:31:08.000000001'"),
        ("price", "14.20", "price = 14.2"),
        ("price", 14.2, "price = 14.2"),
        ("bin", "0aFF", "bin = X'0aff'"),
        ("fx", "0102", "fx = X'0102'"),
        ("u", "00000000-0000-0000-0000-000000000001", "u = '00000000-0000-0000-0000-000000000001'"),
        ("d", "-Infinity", "d = double('-Infinity')"),
        ("id", 5, "id = 5"),
        ("flag", True, "flag = true"),
    ],
)
def test_a_schema_gives_literals_their_type(name, value, sql):
    found = expression_from_json({"type": "eq", "term": name, "value": value}, SCHEMA)
    assert bind(found, SCHEMA) == bind(parse_filter(sql), SCHEMA)


def test_counts_of_transforms_stay_counts():
    found = expression_from_json(
        {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "ts"}, "value": 19860}, SCHEMA
    )
    assert str(bind(found, SCHEMA)) == "days(ts) = DATE '2024-05-17'"


# the newer form -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "expr"),
    [
        ({"type": "is-null", "child": ref("a")}, a.is_null()),
        ({"type": "not-null", "child": ref("a")}, a.is_not_null()),
        ({"type": "is-nan", "child": ref("a")}, a.is_nan()),
        ({"type": "not-nan", "child": ref("a")}, a.is_not_nan() | a.is_null()),
        ({"type": "lt", "left": ref("a"), "right": 5}, a < 5),
        ({"type": "lt", "left": 5, "right": ref("a")}, a > 5),
        ({"type": "gt-eq", "left": ref("a"), "right": {"type": "literal", "value": 5}}, a >= 5),
        ({"type": "not-eq", "left": ref("a"), "right": 5}, (a != 5) | a.is_null()),
        ({"type": "starts-with", "left": ref("a"), "right": "x"}, a.starts_with("x")),
        ({"type": "not-starts-with", "left": ref("a"), "right": "x"}, a.not_starts_with("x") | a.is_null()),
        ({"type": "in", "child": ref("a"), "values": [1, 2]}, a.is_in([1, 2])),
        ({"type": "not-in", "child": ref("a"), "values": [1, 2]}, a.not_in([1, 2]) | a.is_null()),
        (
            {
                "type": "in",
                "child": ref("a"),
                "values": {"type": "literals", "values": ["1.50"], "data-type": "decimal(9,2)"},
            },
            a.is_in([Decimal("1.50")]),
        ),
        (
            {"type": "eq", "left": ref("a"), "right": {"type": "literal", "value": "2024-05-17", "data-type": "date"}},
            a == "2024-05-17",
        ),
        ({"type": "not", "child": {"type": "lt", "left": ref("a"), "right": 5}}, ~((a < 5) & a.is_not_null())),
        (
            {"type": "eq", "left": {"type": "apply", "function": "bucket", "arguments": [16, ref("a")]}, "right": 3},
            Predicate(Op.EQ, TransformTerm(Bucket(16), Reference("a")), (3,)),
        ),
        (
            {
                "type": "eq",
                "left": {
                    "type": "apply",
                    "function": {"catalog": "iceberg_functions", "identifier": ["truncate"]},
                    "arguments": [{"type": "literal", "value": 4}, ref("a")],
                },
                "right": "x",
            },
            Predicate(Op.EQ, TransformTerm(Truncate(4), Reference("a")), ("x",)),
        ),
        (
            {"type": "eq", "left": {"type": "apply", "function": ["year"], "arguments": [ref("a")]}, "right": 48},
            Predicate(Op.EQ, TransformTerm(YEAR, Reference("a")), (48,)),
        ),
    ],
)
def test_newer_form(found, expr):
    assert expression_from_json(found) == expr


def test_fields_are_found_by_id_in_a_schema():
    found = expression_from_json({"type": "lt", "left": {"type": "reference", "id": 15}, "right": 5}, SCHEMA)
    assert bind(found, SCHEMA).term.field_id == 15
    with pytest.raises(InvalidExpression, match=r"field 15 .*pass the schema"):
        expression_from_json({"type": "is-null", "child": {"type": "reference", "id": 15}})
    with pytest.raises(NoSuchColumn):
        expression_from_json({"type": "is-null", "child": {"type": "reference", "id": 99}}, SCHEMA)


OPS = ["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"]


def two_valued(op, value, literal):
    """Expressions spec, Comparisons, for a constant that is neither null nor NaN."""
    if op == "eq":
        return value is not None and value == literal
    if op == "not-eq":
        return not two_valued("eq", value, literal)
    if value is None or value != value:
        return False
    return {"lt": value < literal, "lt-eq": value <= literal, "gt": value > literal, "gt-eq": value >= literal}[op]


@given(
    st.sampled_from(OPS),
    st.sampled_from([-1.0, 0.0, 0.5]),
    st.sampled_from([None, -1.0, 0.0, 0.5, 2.0, math.nan, math.inf]),
    st.integers(0, 3),
)
def test_newer_comparisons_are_two_valued_and_null_safe(op, literal, value, negations):
    found = {"type": op, "left": ref("d"), "right": literal}
    for _ in range(negations):
        found = {"type": "not", "child": found}
    expr = bind(expression_from_json(found, SCHEMA), SCHEMA)
    assert passes(expr, {"d": value}) == (two_valued(op, value, literal) != bool(negations % 2))


@pytest.mark.parametrize(
    "found",
    [
        {"type": "eq", "left": ref("a"), "right": ref("b")},
        {"type": "eq", "left": 1, "right": 2},
        {"type": "starts-with", "left": "x", "right": ref("a")},
        {"type": "is-null", "child": {"type": "apply", "function": "upper", "arguments": [ref("a")]}},
        {"type": "is-null", "child": {"type": "apply", "function": ["ns", "year"], "arguments": [ref("a")]}},
        {
            "type": "is-null",
            "child": {"type": "apply", "function": {"catalog": "c", "identifier": ["year"]}, "arguments": [ref("a")]},
        },
    ],
)
def test_valid_json_that_filters_cannot_say_yet(found):
    with pytest.raises(UnsupportedFeature):
        expression_from_json(found)


# hostile JSON ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "message", "where"),
    [
        (None, "expected an expression", "$"),
        ([], "expected an expression", "$"),
        (5, "expected an expression", "$"),
        ("maybe", "expected an expression", "$"),
        ({}, "name of an operation", "$.type"),
        ({"type": 5}, "name of an operation", "$.type"),
        ({"type": "xor"}, "unknown operation", "$.type"),
        ({"type": "literal", "value": 1}, "true or false", "$.value"),
        ({"type": "and", "left": True}, "right side is missing", "$.right"),
        ({"type": "or", "left": True, "right": {"type": "lt"}}, "left and a right side", "$.right"),
        ({"type": "not"}, "child is missing", "$.child"),
        ({"type": "lt", "term": "a"}, "needs value", "$.value"),
        ({"type": "lt", "term": "a", "value": None}, "expected a value", "$.value"),
        ({"type": "lt", "term": "a", "value": [1]}, "expected a value", "$.value"),
        ({"type": "lt", "term": "a", "value": {"type": "x"}}, "expected a value", "$.value"),
        ({"type": "lt", "term": "a", "value": math.nan}, "NaN", "$.value"),
        ({"type": "lt", "term": "a", "value": 1, "values": [1]}, "takes no values", "$.values"),
        ({"type": "is-null", "term": "a", "value": 1}, "takes no value", "$.value"),
        ({"type": "in", "term": "a", "value": 1}, "takes no value", "$.value"),
        ({"type": "in", "term": "a", "values": 1}, "array of values", "$.values"),
        ({"type": "in", "term": "a", "values": [None]}, "expected a value", "$.values"),
        ({"type": "is-null", "term": 5}, "expected a column", "$.term"),
        ({"type": "is-null", "term": {"type": "x"}}, "expected a column", "$.term"),
        ({"type": "is-null", "term": {"type": "reference"}}, "name of a column", "$.term.name"),
        ({"type": "is-null", "term": {"type": "reference", "id": "1"}}, "a field id", "$.term.id"),
        ({"type": "is-null", "term": {"type": "transform", "term": "a"}}, "name of a transform", "$.term.transform"),
        (
            {"type": "is-null", "term": {"type": "transform", "transform": "bucket[0]", "term": "a"}},
            "buckets",
            "$.term",
        ),
        (
            {"type": "is-null", "term": {"type": "transform", "transform": "day", "term": {"type": "transform"}}},
            "expected a column",
            "$.term.term",
        ),
        ({"type": "is-null"}, "needs a child", "$"),
        ({"type": "in", "child": ref("a")}, "needs a child and values", "$"),
        ({"type": "is-null", "child": {"type": "apply"}}, "name of a function", "$.child.function"),
        (
            {"type": "is-null", "child": {"type": "apply", "function": "year", "arguments": []}},
            "arguments",
            "$.child.arguments",
        ),
        (
            {"type": "eq", "left": ref("a"), "right": {"type": "literal", "value": "x", "data-type": "quux"}},
            "unknown type",
            "$.right",
        ),
        (
            {"type": "eq", "left": ref("a"), "right": {"type": "literal", "value": "x", "data-type": "date"}},
            "date",
            "$.right",
        ),
        (
            {"type": "eq", "left": ref("a"), "right": {"type": "literal", "data-type": "date"}},
            "expected a value",
            "$.right",
        ),
    ],
)
def test_broken_json(found, message, where):
    with pytest.raises(InvalidExpression) as caught:
        expression_from_json(found)
    assert message in caught.value.message
    assert caught.value.context["at"] == where


@pytest.mark.parametrize(
    ("name", "value"), [("bin", "xyz"), ("price", "x"), ("day", 2**40), ("ts", 2**70), ("t", -1), ("ns", 2**62)]
)
def test_literals_that_are_not_of_the_columns_type(name, value):
    with pytest.raises(InvalidExpression, match="is not a value of type"):
        expression_from_json({"type": "eq", "term": name, "value": value}, SCHEMA)


def test_deep_json_is_refused_without_recursion():
    deep = True
    for level in range(10_000):
        deep = {"type": "or" if level % 2 else "and", "left": deep, "right": {"type": "is-null", "term": "a"}}
    with pytest.raises(InvalidExpression, match="nests"):
        expression_from_json(deep)
    wrong: object = {"type": "x"}
    for _ in range(10_000):
        wrong = {"type": "not", "child": wrong}
    with pytest.raises(InvalidExpression, match="unknown operation") as caught:
        expression_from_json(wrong)
    assert len(str(caught.value)) < 1000


def test_chains_are_flat_and_double_negation_goes():
    chain = {"type": "is-null", "term": "a"}
    for n in range(20_000):
        chain = {"type": "or", "left": chain, "right": {"type": "eq", "term": "a", "value": n}}
    assert len(expression_from_json(chain).children) == 20_001
    nots = {"type": "is-null", "term": "a"}
    for _ in range(20_001):
        nots = {"type": "not", "child": nots}
    assert expression_from_json(nots) == not_(a.is_null())


# property tests -------------------------------------------------------------------------------------------------------

literals = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(), st.booleans())
terms = st.one_of(
    st.text(min_size=1).map(Reference),
    st.builds(TransformTerm, st.sampled_from([DAY, YEAR, Bucket(4)]), st.text(min_size=1).map(Reference)),
)


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    op = draw(st.sampled_from(list(Op)))
    count = 0 if op.is_unary else draw(st.integers(0, 3)) if op.is_set else 1
    return Predicate(op, draw(terms), tuple(draw(literals) for _ in range(count)))


trees = st.recursive(
    st.one_of(predicates(), st.sampled_from([TRUE, FALSE])),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=5).map(lambda parts: and_(*parts)),
        st.lists(inner, min_size=2, max_size=5).map(lambda parts: or_(*parts)),
        inner.map(not_),
    ),
    max_leaves=12,
)


@given(trees)
def test_json_reads_back_as_the_same_filter(expr):
    assert expression_from_json(json.loads(json.dumps(expression_to_json(expr)))) == expr


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["eq", "a", "true", "and", "literal"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "term", "value", "values", "left", "right", "child", "name", "id", "transform"]),
            inner,
        ),
        st.fixed_dictionaries({"type": st.sampled_from([*(op.value for op in Op), "and", "or", "not"])}).flatmap(
            lambda base: st.dictionaries(
                st.sampled_from(["term", "value", "values", "left", "right", "child"]), inner
            ).map(lambda more: {**more, **base})
        ),
    ),
    max_leaves=10,
)


@given(anything, st.booleans())
def test_any_json_is_a_filter_or_a_clear_error(found, with_schema):
    with contextlib.suppress(InvalidExpression, UnsupportedFeature, NoSuchColumn):
        expression_from_json(found, SCHEMA if with_schema else None)


# the corpus -----------------------------------------------------------------------------------------------------------

BACKSLASH_IS_AN_ESCAPE = "p = 'a\\b'"
"""Not Spark's SQL for the JSON beside it: in Spark, as here, `\\b` in quotes is a backspace."""


def test_filters_of_the_corpus(corpus_dir):
    """JSON and SQL of each filter bind to the same, and are written so that they are read again."""
    seen = 0
    for table in table_names(without=("invalid_", "odd_", "view_")):
        answers = expected(corpus_dir, table)
        queries = [case.get("query", case) for case in [*answers.get("cases", []), *answers.get("plans", [])]]
        filters = [query for query in queries if "filter" in query]
        seen += len(filters)
        if filters:
            check_filters(filters, current_schema(corpus_dir / table / answers["metadata"]))
    assert seen > 600


def current_schema(path):
    document = json.loads(path.read_text())
    schemas = document.get("schemas") or [document["schema"]]
    return schema_from_json(next(s for s in schemas if s.get("schema-id", 0) == document.get("current-schema-id", 0)))


def check_filters(filters, schema):
    for query in filters:
        from_json = expression_from_json(query["filter"], schema)
        bound = bind(from_json, schema)
        if query["filter_sql"] != BACKSLASH_IS_AN_ESCAPE:
            assert bind(parse_filter(query["filter_sql"]), schema) == bound, query["filter_sql"]
        assert expression_from_json(expression_to_json(from_json), schema) == from_json
        assert bind(expression_from_json(expression_to_json(bound), schema), schema) == bound
        assert bind(parse_filter(str(bound)), schema) == bound


def test_residuals_of_the_corpus_are_read(corpus_dir):
    seen = 0
    for table in table_names("part_", "plan_"):
        for plan in expected(corpus_dir, table).get("plans", []):
            for file in plan.get("files", []):
                if "residual_json" in file:
                    residual = file["residual_json"]
                    parsed = json.loads(residual) if isinstance(residual, str) else residual
                    assert isinstance(expression_from_json(parsed), And | Or | Not | Predicate | type(TRUE))
                    seen += 1
    assert seen > 100


@pytest.mark.parametrize("text", ["1E+999999999", "-1E-999999999"])
def test_exponents_are_not_written_out(text):
    assert expression_to_json(col("a") > Decimal(text)) == {"type": "gt", "term": "a", "value": text}


@pytest.mark.parametrize("name", ["d", "ts"])
def test_an_integer_too_long_to_print_is_an_error_with_its_place(name):
    schema = Schema((Field(1, "d", DATE), Field(2, "ts", TIMESTAMP)))
    with pytest.raises(InvalidExpression, match=r"very large integer.*\$\.value"):
        expression_from_json({"type": "gt", "term": name, "value": 10**5000}, schema)
