"""SQL values have the types and results that Spark gives them.

`spark_values.jsonl` has the results of Spark 4.3 (ANSI mode, session time zone UTC) for `SELECT value FROM t`: each
row cast to text, or the class of the error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from floe.arrow.values.casts import cast_array
from floe.arrow.values.compiled import Rows
from floe.arrow.values.compiler import Scope
from floe.errors import InvalidExpression
from floe.formats.columns.arrays import to_array
from floe.formats.columns.arrow_types import arrow_schema
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
)
from floe.spec.values import convert

ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "spark_values.jsonl").read_text().splitlines()]
SPARK_NAMES = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}

SCHEMA = Schema(
    (
        Field(1, "i", INT),
        Field(2, "l", LONG),
        Field(3, "d", DecimalType(8, 2)),
        Field(4, "f", DOUBLE),
        Field(5, "g", FLOAT),
        Field(6, "s", STRING),
        Field(7, "b", BOOLEAN),
        Field(8, "dt", DATE),
        Field(9, "ts", TIMESTAMP),
        Field(10, "st", StructType((Field(13, "a", INT), Field(14, "b", STRING)))),
        Field(11, "arr", ListType(15, INT)),
        Field(12, "mp", MapType(16, STRING, 17, INT)),
    )
)
NAN = float("nan")
TABLE: list[tuple[Any, ...]] = [
    (1, 10, "1.50", 1.5, 1.5, "abc", True, "2024-01-31", "2024-01-31T10:45:30.123456",
     {"a": 1, "b": "x"}, [1, 2, 3], {"k": 1}),
    (2, -3, "123.45", -2.25, 0.1, "zBCd", False, "2023-03-01", "1969-12-31T23:59:59.999999", {"a": 2}, [7], {"j": 2}),
    (7, 100, "-0.05", NAN, 3.0, "", None, "1969-07-20", "2024-02-29T00:00:00", {"b": "y"}, [4, None], {}),
    (None,) * 12,
]  # fmt: skip


def _near(field: Field, value: Any) -> Any:
    return value if value is None or field.type == FLOAT else convert(field.type, value)


ROWS = Rows.of(
    t=pa.RecordBatch.from_arrays(
        [to_array(f.type, [_near(f, row[n]) for row in TABLE]) for n, f in enumerate(SCHEMA.fields)],
        schema=arrow_schema(SCHEMA),
    )
)


@pytest.mark.parametrize("answer", [a for a in ANSWERS if "rows" in a], ids=lambda a: a["value"])
def test_values_are_those_of_spark(answer: dict[str, Any]) -> None:
    value = Scope({"t": SCHEMA}).compile(answer["value"])
    name = str(value.type).replace(", ", ",")
    assert SPARK_NAMES.get(name, name) == answer["type"]
    assert cast_array(value.array(ROWS), value.type, STRING).to_pylist() == answer["rows"]


@pytest.mark.parametrize("answer", [a for a in ANSWERS if "error" in a], ids=lambda a: a["value"])
def test_spark_refuses_too(answer: dict[str, Any]) -> None:
    value = Scope({"t": SCHEMA}).compile(answer["value"])
    with pytest.raises(InvalidExpression) as refused:
        value.array(ROWS)
    assert refused.value.text == answer["value"]
    assert refused.value.position is not None


def test_the_answers_are_there() -> None:
    assert len(ANSWERS) > 370


def test_a_part_of_the_rows_gives_a_part_of_the_results() -> None:
    """Results do not depend on where batches are cut."""
    for answer in (a for a in ANSWERS if "rows" in a):
        value = Scope({"t": SCHEMA}).compile(answer["value"])
        pieces = [Rows.of(t=ROWS.relations["t"].slice(n, 1)) for n in range(ROWS.count)]
        results = [cast_array(value.array(piece), value.type, STRING).to_pylist()[0] for piece in pieces]
        assert results == answer["rows"], answer["value"]
        assert len(value.array(Rows.of(t=ROWS.relations["t"].slice(0, 0)))) == 0, answer["value"]
