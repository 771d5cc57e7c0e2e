"""SQL values apart from Spark's results: names, positions of errors, lazy evaluation, assignment, implied filters."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from floe.arrow.values.compiled import Rows
from floe.arrow.values.compiler import Scope
from floe.arrow.values.filters import implied_filter
from floe.arrow.values.user_values import lit
from floe.errors import FloeError, InvalidExpression, InvalidValue
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    FixedType,
    ListType,
    StructType,
)

INNER = StructType((Field(11, "x", INT), Field(12, "Y", STRING)))
TARGET = Schema((Field(1, "id", LONG, required=True), Field(2, "n", INT), Field(3, "st", INNER), Field(4, "d", DATE)))
SOURCE = Schema((Field(1, "id", LONG), Field(2, "m", INT)))
SCOPE = Scope({"t": TARGET, "s": SOURCE}, {"target": "t", "source": "s"}, now_us=1_700_000_000_000_000)
ALONE = SCOPE.only("t")
STRUCT = pa.struct([("x", pa.int32()), ("Y", pa.string())])


def rows(n: list[int | None], m: list[int | None] | None = None) -> Rows:
    count = len(n)
    target = pa.record_batch(
        {
            "id": pa.array(range(count), pa.int64()),
            "n": pa.array(n, pa.int32()),
            "st": pa.array([None if v is None else {"x": v, "Y": "y"} for v in n], STRUCT),
            "d": pa.array([0] * count, pa.date32()),
        }
    )  # fmt: skip
    source = pa.record_batch({"id": pa.array(range(count), pa.int64()), "m": pa.array(m or n, pa.int32())})
    return Rows.of(t=target, s=source)


def result(text: Any, *, scope: Scope = SCOPE, n: list[int | None] | None = None) -> list[Any]:
    return list(scope.compile(text).array(rows(n or [1, None])).to_pylist())


# names ------------------------------------------------------------------------------------------------------------


def test_names_are_found_with_and_without_their_relation() -> None:
    assert result("n + m") == [2, None]
    assert result("t.id + source.id") == [0, 2]
    assert result("target.st.x") == [1, None]
    assert result("T.n") == [1, None]
    assert result(col("st.x"), scope=ALONE) == [1, None]
    assert result(col("n") > 0, scope=ALONE) == [True, None]


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("id + 1", "may mean t.id or s.id", 0),
        ("n + nn", "no column is named 'nn'", 4),
        ("t.m", "no column is named 't.m'", 0),
        ("st.z", "no column is named 'st.z'", 0),
        ("1 + upperr(n)", "there is no function named upperr; did you mean upper", 4),
        ("1 + upper(n, 2)", "UPPER takes 1 arguments, found 2", 4),
        ("n + st", "+ takes numbers, found struct", 2),
        ("n and 1", "AND takes conditions, found int", 0),
        ("case when n then 1 end", "CASE takes conditions, found int", 10),
        ("n = d", "= cannot combine values of type int and date", 2),
        ("st = st", "cannot be compared", 3),
        ("cast(st as int)", "cannot be used as int", 5),
        ("substring('a', n, 'b')", "'b' is not a valid int", 18),
        ("d - d", "datediff", 2),
        ("interval 3 fortnights", "an interval cannot be 3 fortnights", 0),
        ("n in ()", "IN takes at least one value", 2),
    ],
)
def test_errors_point_at_their_place(text: str, message: str, offset: int) -> None:
    with pytest.raises(InvalidExpression) as refused:
        SCOPE.compile(text).array(rows([1]))
    assert message in str(refused.value)
    assert refused.value.text == text
    assert refused.value.position == offset


def test_deep_values_are_refused() -> None:
    for text in ("(" * 500 + "1" + ")" * 500, "- " * 500 + "n", " + ".join(["n"] * 3000), "not " * 500 + "true"):
        with pytest.raises(InvalidExpression, match="nested"):
            SCOPE.compile(text)
    assert SCOPE.compile(" and ".join(["n > 0"] * 3000)).type.kind == "boolean"


# laziness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("case when n <> 0 then 10 / n else -1 end", [-1.0, 5.0, -1.0]),
        ("if(n = 0, null, 10 / n)", [None, 5.0, None]),
        ("coalesce(nullif(n, 0), 10 / (n + 1))", [10.0, 2.0, None]),
        ("n <> 0 and 10 / n > 1", [False, True, None]),
        ("n = 0 or 10 / n > 1", [True, True, None]),
        ("nvl(n, 1 / 0)", None),
    ],
)
def test_what_is_not_needed_is_not_computed(text: str, expected: list[Any] | None) -> None:
    value = SCOPE.compile(text)
    if expected is None:
        with pytest.raises(InvalidExpression, match="division by zero"):
            value.array(rows([0, 2, None]))
        assert value.array(rows([0, 2])).to_pylist() == [0, 2]
    else:
        assert value.array(rows([0, 2, None])).to_pylist() == expected


# plain Python -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python_value", "type_", "expected"),
    [
        (7, INT, 7),
        (2**40, LONG, 2**40),
        (None, None, None),
        (Decimal("1.50"), DecimalType(3, 2), Decimal("1.50")),
        (lit("n"), STRING, "n"),
        (dt.date(2024, 5, 17), DATE, dt.date(2024, 5, 17)),
        (dt.datetime(2024, 5, 17, tzinfo=dt.UTC), TIMESTAMPTZ, dt.datetime(2024, 5, 17, tzinfo=dt.UTC)),
        (uuid.UUID(int=5), UUID, uuid.UUID(int=5).bytes),
        (1.5, DOUBLE, 1.5),
        ([1, 2], None, [1, 2]),
        ({"x": 1}, None, {"x": 1}),
    ],
)
def test_python_values(python_value: Any, type_: Any, expected: Any) -> None:
    value = SCOPE.compile(python_value)
    assert type_ is None or value.type == type_
    assert value.array(rows([1])).to_pylist() == [expected]


def test_what_is_no_value_is_refused() -> None:
    for python_value in (object(), {1, 2}, "", "   "):
        with pytest.raises(InvalidExpression):
            SCOPE.compile(python_value)


def test_the_time_is_that_of_the_statement() -> None:
    assert result("current_timestamp()", n=[1, 2]) == [dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)] * 2
    assert result("current_date", n=[1]) == [dt.date(2023, 11, 14)]


# storing ----------------------------------------------------------------------------------------------------------


def stored(text: Any, field: Field, n: list[int | None] | None = None) -> list[Any]:
    return list(SCOPE.stored(text, field).array(rows(n or [1])).to_pylist())


def test_columns_take_what_fits() -> None:
    assert stored("n + 1L", Field(1, "a", INT)) == [2]
    assert stored("1.995", Field(1, "a", DecimalType(4, 2))) == [Decimal("2.00")]
    assert stored("n", Field(1, "a", STRING)) == ["1"]
    assert stored("d", Field(1, "a", TIMESTAMPTZ)) == [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]
    assert stored("X'0102'", Field(1, "a", FixedType(2))) == [b"\x01\x02"]
    assert stored(f"'{uuid.UUID(int=7)}'", Field(1, "a", UUID)) == [uuid.UUID(int=7).bytes]
    nested = Field(1, "a", StructType((Field(2, "Y", STRING), Field(3, "x", LONG), Field(4, "z", INT))))
    assert stored("st", nested) == [{"Y": "y", "x": 1, "z": None}]
    assert stored("array(n, 2)", Field(1, "a", ListType(2, LONG))) == [[1, 2]]


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("'7'", Field(1, "a", INT), "type string cannot be assigned to a column of type int"),
        ("true", Field(1, "a", INT), "type boolean cannot be assigned"),
        ("d", Field(1, "a", INT), "type date cannot be assigned"),
        ("n", Field(1, "a", DATE), "write CAST"),
        ("3000000000", Field(1, "a", INT), "does not fit int"),
        ("1234.5", Field(1, "a", DecimalType(4, 2)), "does not fit decimal"),
        ("X'01'", Field(1, "a", FixedType(2)), "fixed[2] takes 2 bytes"),
        ("null", Field(1, "a", INT, required=True), "cannot be set to null"),
        ("nullif(n, 1)", Field(1, "a", INT, required=True), "null for a required column"),
        ("st", Field(1, "a", StructType((Field(2, "x", INT),))), "cannot be assigned"),
    ],
)
def test_columns_refuse_what_does_not_fit(text: str, field: Field, message: str) -> None:
    with pytest.raises(FloeError) as refused:
        stored(text, field)
    assert message in str(refused.value)
    assert isinstance(refused.value, InvalidExpression | InvalidValue)


# filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected", "exact"),
    [
        ("n > 1 + 2", "n > 3", True),
        ("3 < n", "n > 3", True),
        ("not (n = 1 or n is null)", "n <> 1 AND n IS NOT NULL", True),
        ("n in (1, 2) and st.x between 1 and 5", "n IN (1, 2) AND st.x >= 1 AND st.x <= 5", True),
        ("d >= current_date - 7", "d >= DATE '2023-11-07'", True),
        ("n > 1 and n * 2 = 4", "n > 1", False),
        ("n > 1 or n * 2 = 4", "TRUE", False),
        ("not (n > 1 and n * 2 = 4)", "TRUE", False),
        ("n = 1L", "n = 1", True),
        ("n < 2.5", "n <= 2", True),
        ("n in (1L, 3000000000)", "n = 1", True),
        ("n = '1'", "n = 1", True),
        ("t.id > 1.5D", "TRUE", False),
        ("n + 0 = 1", "TRUE", False),
        ("n = null", "FALSE", False),
        ("n in (1, null)", "n = 1", False),
        ("1 = 1", "TRUE", True),
        ("1 / 0 = 1", "TRUE", False),
        ("n = m", "TRUE", False),
        ("m = 3", "TRUE", False),
    ],
)
def test_conditions_as_filters(condition: str, expected: str, exact: bool) -> None:
    implied = implied_filter(SCOPE.condition(condition), "t")
    assert str(bind(implied.filter, TARGET)).upper() == expected.upper()
    assert implied.exact == exact
