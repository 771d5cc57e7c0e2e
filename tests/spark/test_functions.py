"""The catalog's functions give what the transforms of the specification give, for constants as for columns."""

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from floe.spec.partitioning.transforms import parse_transform
from floe.spec.types import parse_type
from floe.spec.values.conversion import convert
from helpers.spark import Spark

CHANCE = random.Random(7)
EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, -32768, 2**31 - 1, -(2**31) + 100, 2**63 - 1, -(2**63) + 100]


def whole(bits: int) -> list[int]:
    return [n for n in EDGES if abs(n) < 2 ** (bits - 1)]


def decimals(precision: int, scale: int) -> list[Decimal]:
    numbers = [n for n in (*EDGES, 2**64, -(2**64), 10**37 + 3, -(10**37) - 3) if abs(n) < 10**precision]
    numbers += [CHANCE.randrange(-(10**precision) + 1000, 10**precision) for _ in range(10)]
    return [Decimal(n).scaleb(-scale) for n in numbers]


def moments(zone: datetime.tzinfo | None) -> list[datetime.datetime]:
    start = datetime.datetime(1970, 1, 1, tzinfo=zone)
    return [
        start + datetime.timedelta(seconds=s, microseconds=m) for s in (0, -1, 86399, -86401, 2**31) for m in (0, 1)
    ]


COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "i": ("int", whole(32)),
    "l": ("long", whole(64)),
    "small": ("decimal(4, 2)", decimals(4, 2)),
    "medium": ("decimal(18, 0)", decimals(18, 0)),
    "large": ("decimal(38, 10)", decimals(38, 10)),
    "fine": ("decimal(38, 37)", decimals(38, 37)),
    "s": ("string", ["", "a", "iceberg", "ß€😀x", "𠜎𠜎𠜎"]),
    "b": ("binary", [b"", b"\x00", bytes(range(256)), b"\xff\xff"]),
    "d": ("date", [moment.date() for moment in moments(None)]),
    "at": ("timestamptz", moments(datetime.UTC)),
    "clock": ("timestamp", moments(None)),
}
CALLS = [
    *((f"bucket(16, {name})", "bucket[16]", name) for name in COLUMNS),
    *((f"truncate(3, {name})", "truncate[3]", name) for name in ("i", "l", "s", "b", "medium", "large", "fine")),
    *((f"truncate(70, {name})", "truncate[70]", name) for name in ("i", "l", "large", "fine")),
    ("truncate(100, small)", "truncate[100]", "small"),
    *((f"{unit}s({name})", unit, name) for unit in ("year", "month", "day") for name in ("d", "at", "clock")),
    *((f"hours({name})", "hour", name) for name in ("at", "clock")),
]


@pytest.fixture(scope="module")
def spark(session: Spark) -> Iterator[Spark]:
    """A table with all values; Spark's clock is far from UTC."""
    session("CREATE NAMESPACE lake.functions")
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    table = session.lake().create_table("functions.t", f"n int, {columns}")
    length = max(len(values) for _, values in COLUMNS.values()) + 1
    filled = {name: values + [None] * (length - len(values)) for name, (_, values) in COLUMNS.items()}
    table.append(pa.table({"n": range(length), **filled}, schema=table.scan().to_arrow().schema))
    session.session.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    yield session
    session.session.conf.set("spark.sql.session.timeZone", "UTC")


def test_columns(spark: Spark) -> None:
    schema = spark.lake().table("functions.t").schema
    rows = spark(f"SELECT {', '.join(f'lake.system.{call}' for call, _, _ in CALLS)} FROM lake.functions.t ORDER BY n")
    for place, (call, transform, name) in enumerate(CALLS):
        type_ = schema.resolve((name,)).field.type
        found = [row[place] for row in rows]
        made = [parse_transform(transform).apply(type_, convert(type_, value)) for value in COLUMNS[name][1]]
        if transform == "day":
            made = [datetime.date(1970, 1, 1) + datetime.timedelta(days=days) for days in made]
        assert found == made + [None] * (len(rows) - len(made)), call


def test_constants(spark: Spark) -> None:
    """Spark computes these before a query runs, from the same expressions."""
    constants: list[tuple[str, str, str, Any, str]] = [
        ("bucket(16, {})", "bucket[16]", "decimal(38, 10)", "-12345678901234567890.0123456789", "DECIMAL(38, 10)"),
        ("truncate(70, {})", "truncate[70]", "decimal(38, 10)", "-12345678901234567890.0123456789", "DECIMAL(38, 10)"),
        ("truncate(70, {})", "truncate[70]", "long", -5000000001, "BIGINT"),
        ("truncate(2, {})", "truncate[2]", "string", "😀𠜎x", "STRING"),
        ("bucket(16, {})", "bucket[16]", "timestamptz", "1969-12-31T23:59:59.999999+00:00", "TIMESTAMP"),
        ("hours({})", "hour", "timestamptz", "1969-12-31T23:59:59.999999+00:00", "TIMESTAMP"),
    ]
    calls = [call.format(f"CAST('{text}' AS {sql})") for call, _, _, text, sql in constants]
    (found,) = spark(f"SELECT {', '.join(f'lake.system.{call}' for call in calls)}")
    types = [parse_type(type_) for _, _, type_, _, _ in constants]
    made = [
        parse_transform(transform).apply(type_, convert(type_, text))
        for (_, transform, _, text, _), type_ in zip(constants, types, strict=True)
    ]
    assert list(found) == made


def test_a_number_too_low_for_its_type_is_told(spark: Spark) -> None:
    with pytest.raises(PySparkException, match="OVERFLOW"):
        spark("SELECT lake.system.truncate(10, -128Y)")
    with pytest.raises(PySparkException, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        spark("SELECT lake.system.truncate(3000, -9.99BD)")
