"""Filters written as text, in Spark's SQL."""

import contextlib
import math
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidExpression
from floe.spec.expressions.dsl import col
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
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, YEAR, Bucket, Truncate
from floe.sql.filters import parse_filter

a, b = col("a"), col("b")


def eq(literal):
    return Predicate(Op.EQ, Reference("a"), (literal,))


def of(transform, op, literal, name="a"):
    return Predicate(op, TransformTerm(transform, Reference(name)), (literal,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # comparisons
        ("a = 1", a == 1),
        ("a == 1", a == 1),
        ("a <> 1", a != 1),
        ("a != 1", a != 1),
        ("a < 1", a < 1),
        ("a <= 1", a <= 1),
        ("a > 1", a > 1),
        ("a >= 1", a >= 1),
        ("1 < a", a > 1),
        ("1 >= a", a <= 1),
        ("1 = a", a == 1),
        ("(a) = ((1))", a == 1),
        ("((1)) < (a)", a > 1),
        ("a between 1 and 5", a.between(1, 5)),
        ("a not between 1 and 5", ~a.between(1, 5)),
        ("a between 1 and 5 and b = 2", and_(a.between(1, 5), b == 2)),
        ("a in (1, 2)", a.is_in([1, 2])),
        ("a IN ((1), -2)", a.is_in([1, -2])),
        ("a not in (1, null)", Predicate(Op.NOT_IN, Reference("a"), (1, None))),
        ("a in ()", Predicate(Op.IN, Reference("a"))),
        # nulls, NaN, booleans
        ("a is null", a.is_null()),
        ("a IS NOT NULL", a.is_not_null()),
        ("isnull(a)", a.is_null()),
        ("isnotnull(a)", a.is_not_null()),
        ("a = null", eq(None)),
        ("null <> a", Predicate(Op.NOT_EQ, Reference("a"), (None,))),
        ("a <=> 1", and_(a.is_not_null(), a == 1)),
        ("a <=> null", a.is_null()),
        ("null <=> a", a.is_null()),
        ("a is not distinct from 1", and_(a.is_not_null(), a == 1)),
        ("a is distinct from 1", ~and_(a.is_not_null(), a == 1)),
        ("isnan(a)", a.is_nan()),
        ("is_nan(a)", a.is_nan()),
        ("not isnan(a)", a.is_not_nan()),
        ("a is nan", a.is_nan()),
        ("a is not nan", a.is_not_nan()),
        ("a = true", eq(True)),
        ("a", eq(True)),
        ("not a and b", and_(~eq(True), b == True)),  # noqa: E712
        ("a is true", and_(a.is_not_null(), eq(True))),
        ("a is not false", ~and_(a.is_not_null(), eq(False))),
        # prefixes
        ("a like 'x%'", a.starts_with("x")),
        ("a like 'x%%'", a.starts_with("x")),
        ("a like '%'", Predicate(Op.STARTS_WITH, Reference("a"), ("",))),
        ("a like 'x'", a == "x"),
        ("a not like 'x%'", a.not_starts_with("x")),
        ("a not like 'x'", a != "x"),
        ("not a like 'x%'", ~a.starts_with("x")),
        (r"a like '100\\%%'", a.starts_with("100%")),
        (r"a like '100\%%'", a.starts_with("100%")),
        (r"a like 'x\\_y'", a == "x_y"),
        (r"a like '\\\\%'", a.starts_with("\\")),
        ("a like '100!%%' escape '!'", a.starts_with("100%")),
        ("a like null", eq(None)),
        ("startswith(a, 'x')", a.starts_with("x")),
        ("not startswith(a, 'x')", ~a.starts_with("x")),
        # logic
        ("a = 1 and b = 2", And((a == 1, b == 2))),
        ("a = 1 or b = 2 and a = 3", Or((a == 1, And((b == 2, a == 3))))),
        ("(a = 1 or b = 2) and a = 3", And((Or((a == 1, b == 2)), a == 3))),
        ("not a = 1 and b = 2", And((Not(a == 1), b == 2))),
        ("not (a = 1 and b = 2)", Not(And((a == 1, b == 2)))),
        ("! a = 1", Not(a == 1)),
        ("!(a = 1)", Not(a == 1)),
        ("not not a = 1", a == 1),
        ("not ((not a = 1))", a == 1),
        ("a = 1 and (b = 2 and a = 3)", And((a == 1, b == 2, a == 3))),
        ("true", TRUE),
        ("FALSE or a = 1", a == 1),
        ("not true", FALSE),
        ("1 = 1 and a = 1", a == 1),
        ("'a' > 'b'", FALSE),
        ("1 <=> null", FALSE),
        ("null <=> null", TRUE),
        ("null is null", TRUE),
        ("5 is null", FALSE),
        # names
        ("a.b = 1", col("a.b") == 1),
        ("`a b` = 1", col("a b") == 1),
        ("`a.b` = 1", Predicate(Op.EQ, Reference(("a.b",)), (1,))),
        ("`a.b`.c = 1", col("a.b", "c") == 1),
        ("`a`.`b` = 1", col("a", "b") == 1),
        ("a.`b c` = 1", col("a.b c") == 1),
        ("`a``b` = 1", col("a`b") == 1),
        ("a . b = 1", col("a.b") == 1),
        ("st.in.x is null", col("st.in.x").is_null()),
        ("`in` = 1", col("in") == 1),
        ("date = 1 and timestamp = 2", and_(col("date") == 1, col("timestamp") == 2)),
        ("show = 1", col("show") == 1),
        ("comment is null or order = 1", or_(col("comment").is_null(), col("order") == 1)),
        ("1st = 1", col("1st") == 1),
        ("ü = 1", col("ü") == 1),
        ("_x = 1", col("_x") == 1),
        # numbers
        ("a = 1.50", eq(Decimal("1.50"))),
        ("a = -1.50", eq(Decimal("-1.50"))),
        ("a = - -1", eq(1)),
        ("a = +1", eq(1)),
        ("a = .5", eq(Decimal("0.5"))),
        ("a = -.5", eq(Decimal("-0.5"))),
        ("a = 5.", eq(Decimal("5"))),
        ("a = 12345678901234567890.0123456789", eq(Decimal("12345678901234567890.0123456789"))),
        ("a = 123456789012345678901234567890", eq(123456789012345678901234567890)),
        ("a = 1e3", eq(1000.0)),
        ("a = 1.5e-3", eq(0.0015)),
        ("a = 0.1D", eq(0.1)),
        ("a = 5L", eq(5)),
        ("a = 5S or a = 5Y", or_(eq(5), eq(5))),
        ("a = 0.1F", eq(0.10000000149011612)),
        ("a = 5BD", eq(Decimal(5))),
        ("a = 1.5E3BD", eq(Decimal("1.5E3"))),
        ("a = double('Infinity')", eq(math.inf)),
        ("a = float('0.5')", eq(0.5)),
        ("a = cast('1.5' as double)", eq(1.5)),
        ("a = cast('-5' as int)", eq(-5)),
        ("a = cast(7 as decimal(9, 2))", eq(Decimal("7.00"))),
        ("a = '1.5'::double", eq(1.5)),
        # text and bytes
        ("a = 'x'", eq("x")),
        ('a = "x"', eq("x")),
        ("a = 'it''s'", eq("it's")),
        ("a = 'it\\'s'", eq("it's")),
        ("a = 'x' 'y'", eq("xy")),
        ("a = 'a\\\\b'", eq("a\\b")),
        ("a = 'tab\\there'", eq("tab\there")),
        ("a = r'a\\b'", eq("a\\b")),
        ("a = '\\u0041'", eq("A")),
        ("a = 'line\nbreak'", eq("line\nbreak")),
        ("a = 'ü☃😀'", eq("ü☃😀")),
        ("a = ''", eq("")),
        ("a = X'0aFF'", eq(b"\x0a\xff")),
        ("a = x'abc'", eq(b"\x0a\xbc")),
        ("a = X''", eq(b"")),
        ("a = uuid 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", eq(uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"))),
        ("a = cast('x' as binary)", eq(b"x")),
        ("a = cast('true' as boolean)", eq(True)),
        ("a = cast(5 as string)", eq("5")),
        ("a = cast(null as date)", eq(None)),
        # moments
        ("a = date '2024-05-17'", eq(date(2024, 5, 17))),
        ("a = DATE'2024-05-17'", eq(date(2024, 5, 17))),
        ("a = cast('2024-05-17' as date)", eq(date(2024, 5, 17))),
        ("a = date('2024-05-17')", eq(date(2024, 5, 17))),
        ("a = to_date('2024-05-17')", eq(date(2024, 5, 17))),
        ("a = date '+12024-05-17'", eq("+12024-05-17")),
        ("a = timestamp '2024-05-17 10:30:00'", eq(datetime(2024, 5, 17, 10, 30))),
        ("a = timestamp '2024-05-17T10:30:00.5+02:00'", eq(datetime(2024, 5, 17, 8, 30, 0, 500000, tzinfo=UTC))),
        ("a = timestamp_ntz '2024-05-17 10:30:00'", eq(datetime(2024, 5, 17, 10, 30))),
        ("a = timestamp_ntz '2024-05-17 10:30:00.123456789'", eq("2024-05-17 10:30:00.123456789")),
        ("a = cast(date '2024-05-17' as timestamp)", eq(datetime(2024, 5, 17))),
        ("a = time '10:30:00.5'", eq(time(10, 30, 0, 500000))),
        # functions of columns
        ("bucket(16, a) = 3", of(Bucket(16), Op.EQ, 3)),
        ("system.bucket(16, a) = 3", of(Bucket(16), Op.EQ, 3)),
        ("lake.system.bucket(16, a) = 3", of(Bucket(16), Op.EQ, 3)),
        ("truncate(4, a) = 'ice'", of(Truncate(4), Op.EQ, "ice")),
        ("truncate(4, a) like 'ic%'", of(Truncate(4), Op.STARTS_WITH, "ic")),
        ("3 <= bucket(16, a.b)", of(Bucket(16), Op.GT_EQ, 3, "a.b")),
        ("year(a) = 2024", of(YEAR, Op.EQ, 54)),
        ("year(a) in (2024, 1969)", Predicate(Op.IN, TransformTerm(YEAR, Reference("a")), (54, -1))),
        ("2024 > YEAR(a)", of(YEAR, Op.LT, 54)),
        ("years(a) = 54", of(YEAR, Op.EQ, 54)),
        ("month(a) = '2024-05'", of(MONTH, Op.EQ, "2024-05")),
        ("months(a) = 652", of(MONTH, Op.EQ, 652)),
        ("day(a) = '2024-05-17'", of(DAY, Op.EQ, "2024-05-17")),
        ("days(a) = 1", of(DAY, Op.EQ, 1)),
        ("date(a) = date '2024-05-17'", of(DAY, Op.EQ, date(2024, 5, 17))),
        ("to_date(a) = '2024-05-17'", of(DAY, Op.EQ, "2024-05-17")),
        ("cast(a as date) >= '2024-05-17'", of(DAY, Op.GT_EQ, "2024-05-17")),
        ("a::date >= '2024-05-17'", of(DAY, Op.GT_EQ, "2024-05-17")),
        ("hour(a) < '2024-05-17-10'", of(HOUR, Op.LT, "2024-05-17-10")),
        ("hours(a) = 5", of(HOUR, Op.EQ, 5)),
        ("identity(a) = 5", of(IDENTITY, Op.EQ, 5)),
        ("bucket(16, a) is null", Predicate(Op.IS_NULL, TransformTerm(Bucket(16), Reference("a")))),
        # comments and space
        ("a = 1 -- the key", a == 1),
        ("/* the key */ a\n\t= 1", a == 1),
    ],
)
def test_meaning(text, expected):
    found = parse_filter(text)
    assert found == expected
    assert [type(x) for x in literals(found)] == [type(x) for x in literals(expected)]


def literals(expr):
    for child in getattr(expr, "children", ()) or ([expr.child] if isinstance(expr, Not) else []):
        yield from literals(child)
    yield from getattr(expr, "literals", ())


def test_the_example_of_the_issue():
    text = "ts >= '2024-01-01' and (id in (1, 2) or name like 'a%')"
    expected = (col("ts") >= "2024-01-01") & (col("id").is_in([1, 2]) | col("name").starts_with("a"))
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("a > b", "not with another column", "b"),
        ("a = year(b)", "not with another column", "year"),
        ("a + 1 > 3", "a filter cannot compute", "+"),
        ("a > 1 + 2", "a filter cannot compute", "+"),
        ("-a > 3", "cannot compute with a column", "-"),
        ("-'x' = a", "only numbers have a sign", "-"),
        ("a in (select 1)", "cannot hold a query", "select"),
        ("a = (select 1)", "cannot hold a query", "select"),
        ("exists (select 1)", "cannot hold a query", "exists"),
        ("case when a then b end", "cannot use CASE", "case"),
        ("a > interval 1 day", "cannot compute with intervals", "interval"),
        ("a rlike 'x'", "only prefixes", "rlike"),
        ("a not ilike 'x'", "only prefixes", "ilike"),
        ("a like '%x'", "more than a prefix", "'%x'"),
        ("a like 'x_'", "more than a prefix", "'x_'"),
        ("a like 'x%y%'", "more than a prefix", "'x%y%'"),
        ("a like any ('x')", "LIKE takes one pattern", "any"),
        ("a like 5", "must be text", "5"),
        ("a like b", "not with another column", "b"),
        ("a like 'x' escape 'yy'", "one character", "'yy'"),
        (r"a like 'x\\y'", "may only stand before", r"'x\\y'"),
        (r"a like 'x\\'", "may only stand before", r"'x\\'"),
        ("contains(a, 'x')", "cannot use the function contains", "contains"),
        ("f.bucket(16, a) = 1", "cannot use the function f.bucket", "f.bucket"),
        ("current_date() = a", "cannot use the function current_date", "current_date"),
        ("bucket(a, 16) = 1", "takes a number and a column", "bucket"),
        ("bucket(0, a) = 1", "number of buckets", "0"),
        ("truncate(4) = 'x'", "takes a number and a column", "truncate"),
        ("year(a, b) = 1", "takes one column", "year"),
        ("year(year(a)) = 1", "takes one column", "year"),
        ("isnan(5)", "takes one column", "isnan"),
        ("startswith(a, 5)", "takes a column and a text", "startswith"),
        ("month(a) = 5", "counts from 1970", "5"),
        ("day(a) in ('2024-05-17', 5)", "counts from 1970", "5)"),
        ("cast(a as int) = 1", "cannot cast a column to int", "a as"),
        ("a = cast('x' as int)", "not a number", "'x'"),
        ("a = cast('x' as struct)", "unknown type 'struct'", "'x'"),
        ("a = cast('x' as date(3))", "takes no parameters", "'x'"),
        ("a = cast(1.234 as decimal(9, 2))", "more than 2 digits", "1.234"),
        ("a = cast('x' date)", "expected AS", "date"),
        ("a = date '2024-13-01'", "no month 13", "date"),
        ("a = date '2024-01-01 10:00'", "more than a date", "date"),
        ("a = uuid 'x'", "cannot be cast to uuid", "uuid"),
        ("a = timestamp 'x'", "not an ISO timestamp", "timestamp"),
        ("a = X'xyz'", "hexadecimal", "X'xyz'"),
        ("a = 0x12", "expected a column or value", "0x12"),
        ("a = 5.5L", "not a whole number", "5.5L"),
        ("a = 1e300F", "too large for a 32-bit float", "1e300F"),
        ("a[0] = 1", "cannot look into lists and maps", "[0]"),
        ("(a, b) in ((1, 2))", "expected AND, OR or the end", ", b"),
        ("a = 1 b = 2", "expected AND, OR or the end", "b ="),
        ("a = 1; b = 2", "expected AND, OR or the end", ";"),
        ("a = 1 = 2", "cannot be compared again", "= 2"),
        ("(a = 1) = true", "cannot be compared again", "= true"),
        ("a = isnan(b)", "cannot be compared again", ")"),
        ("a = ?", "expected a column or value", "?"),
        ("a = {x}", "expected a column or value", "{"),
        ("a is 5", "expected NULL, TRUE, FALSE", "5"),
        ("a between 1 or 2", "expected AND between", "or"),
        ("a in 1", "expected `(` after IN", "1"),
        ("a in (1 2)", "expected `,` or `)`", "2)"),
        ("5 in (1, 5)", "put the column first", "5"),
        ("and = 1", "back-quotes: `and`", "and"),
        ("a. = 1", "expected a column or value", "= 1"),
        ("a = 1 and", "the filter ends where", ""),
        ("a >", "the filter ends where", ""),
        ("(a = 1", "never closed", "("),
        ("a = 1)", "closes nothing", ")"),
        ("()", "expected a column or value", ")"),
        ("a = 'x", "never closed", "'x"),
        ("a = `x", "never closed", "`x"),
        ("a = 1 /* x", "never closed", "/*"),
        ("5", "a value alone is no condition", "5"),
        ("a = 1 or 'x'", "a value alone is no condition", "'x'"),
        ("null = 1", "cannot be compared", "null"),
        ("decimal('sNaN') = 1.0", "cannot be compared", "'sNaN'"),
        ('"a" = 1', "back-quotes: a", '"a"'),
        ("\"a b\" = 'x'", "back-quotes: `a b`", '"a b"'),
        ("'x' <> \"a\"", "double quotes enclose text", '"a"'),
        ('"a" is not null', "double quotes enclose text", '"a"'),
        ('"a" <=> null', "double quotes enclose text", '"a"'),
        ("\"a\" in ('x')", "double quotes enclose text", '"a"'),
        ("a = 1 && b = 2", "write AND", "&&"),
        ("a = 1 || b = 2", "write OR", "||"),
        ("a = cast(1e999999999BD as int)", "cannot be cast to int", "1e999999999BD"),
        ("a = cast('1e999999999BD' as int)", "cannot be cast to int", "'1e999999999BD'"),
        ("a = cast('1.5' as int)", "cannot be cast to int", "'1.5'"),
        ("1 = 'x'", "cannot be compared", "1"),
        ("double('NaN') = 1.0", "cannot be compared", "'NaN'"),
        ("a = " + "9" * 2000, "more than 1000 digits", "9" * 2000),
    ],
)
def test_errors_point_at_the_place(text, message, place):
    with pytest.raises(InvalidExpression) as caught:
        parse_filter(text)
    assert message in str(caught.value).split("\n")[0]
    assert caught.value.text == text
    assert text[caught.value.position :].startswith(place)


def test_an_error_shows_the_line_and_the_place():
    with pytest.raises(InvalidExpression) as caught:
        parse_filter("a = 1\n  and b > c")
    assert str(caught.value).splitlines() == [
        "a filter compares a column with values, not with another column",
        "    and b > c",
        "            ^",
    ]


def test_an_empty_filter_is_an_error():
    for text in ("", "  ", "-- nothing"):
        with pytest.raises(InvalidExpression, match="leave it out to read all rows"):
            parse_filter(text)
    with pytest.raises(InvalidExpression, match="a filter is text"):
        parse_filter(5)


# size and depth -------------------------------------------------------------------------------------------------------


def test_a_long_list():
    found = parse_filter("a in (" + ", ".join(map(str, range(20_000))) + ")")
    assert found == a.is_in(range(20_000))


def test_many_alternatives():
    found = parse_filter(" or ".join(f"a = {n}" for n in range(5000)))
    assert found == Or(tuple(a == n for n in range(5000)))


def test_deep_nesting_is_read_or_refused_but_never_overflows():
    assert parse_filter("(" * 4000 + "a = 1" + ")" * 4000) == (a == 1)
    assert parse_filter("a = " + "(" * 4000 + "1" + ")" * 4000) == (a == 1)
    assert parse_filter("not " * 5001 + "a = 1") == not_(a == 1)
    assert parse_filter("(a = 1 or " * 1000 + "a = 1" + ")" * 1000) == Or((a == 1,) * 1001)
    for text in (
        "(" * 6000 + "a = 1" + ")" * 6000,
        "(a = 1 or (b = 1 and " * 200 + "a = 1" + "))" * 200,
        "a = " + "-(" * 1000 + "1" + ")" * 1000,
        "a = " + "cast(" * 1000 + "1" + " as int)" * 1000,
        "year(" * 1000 + "a" + ")" * 1000 + " = 1",
        "(" * 4000,
    ):
        with pytest.raises(InvalidExpression, match=r"nested|nests|ends"):
            parse_filter(text)


pieces = st.sampled_from([*"ab1.'`()=<>!-+,% \n\\x", " and ", " or ", " not ", " in ", " is null", " like ", "date"])


@given(st.lists(pieces).map("".join))
def test_any_text_is_a_filter_or_a_clear_error(text):
    with contextlib.suppress(InvalidExpression):
        parse_filter(text)


def test_sqlglot_is_imported_only_when_text_is_read():
    code = "import sys, floe.spec.expressions.binder, floe.spec.expressions.dsl; assert 'sqlglot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
