"""Batches that are to be written: matched by name, converted exactly, refused with the column's name."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from floe.errors import InvalidSchema, InvalidValue
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.columns.conversion import Conformer
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
    Type,
)


def conformed(type_: Type, array: pa.Array) -> pa.Array:
    schema = Schema((Field(1, "a", type_),))
    batch = Conformer(schema)(pa.record_batch({"a": array}))
    assert batch.schema.equals(arrow_schema(schema))
    return batch.column(0)


NOON = dt.datetime(2024, 1, 31, 12, 0, 0, 5)


@pytest.mark.parametrize(
    ("type_", "array", "values"),
    [
        (LONG, pa.array([1, None], pa.int8()), [1, None]),
        (DOUBLE, pa.array([1.5], pa.float32()), [1.5]),
        (STRING, pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (STRING, pa.array(["a"], pa.large_string()), ["a"]),
        (STRING, pa.array(["a", None], pa.string_view()), ["a", None]),
        (TIMESTAMP, pa.array([NOON], pa.timestamp("ns")), [NOON]),
        (TIMESTAMPTZ, pa.array([NOON], pa.timestamp("ns", "Asia/Tokyo")), [NOON.replace(tzinfo=dt.UTC)]),
        (TIMESTAMP, pa.array([1], pa.timestamp("s")), [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        (DATE, pa.array([dt.date(2024, 1, 31)], pa.date64()), [dt.date(2024, 1, 31)]),
        (DecimalType(20, 2), pa.array([Decimal("1.50")], pa.decimal128(5, 2)), [Decimal("1.50")]),
        (UUID, pa.array([bytes(16)], pa.uuid()), [bytes(16)]),
        (ListType(2, LONG), pa.array([[1], None], pa.large_list(pa.int32())), [[1], None]),
        (UNKNOWN, pa.nulls(2), [None, None]),
        (MapType(2, STRING, 3, LONG), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), [[("a", 1)]]),
    ],
    ids=str,
)
def test_other_layouts_are_taken(type_: Type, array: pa.Array, values: list[Any]) -> None:
    assert conformed(type_, array).to_pylist() == values


@pytest.mark.parametrize(
    ("type_", "array", "words"),
    [
        (INT, pa.array([1], pa.int64()), "has long, which cannot be written as int"),
        (LONG, pa.array([1.5]), "has double"),
        (LONG, pa.array(["1"]), "has string"),
        (LONG, pa.array([1], pa.uint64()), "has uint64"),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns")), "lose data"),
        (DecimalType(9, 2), pa.array([Decimal("1.5")], pa.decimal128(9, 1)), r"has decimal\(9, 1\)"),
        (ListType(2, LONG), pa.array([1]), "has long"),
        (StructType((Field(2, "x", INT),)), pa.array([{"y": 1}]), "a.y"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(type_: Type, array: pa.Array, words: str) -> None:
    with pytest.raises((InvalidSchema, InvalidValue), match=words) as raised:
        conformed(type_, array)
    assert raised.value.context["column"].startswith("a")
    assert "file" not in str(raised.value)


def test_order_and_nesting_by_name() -> None:
    point = StructType((Field(3, "x", INT), Field(4, "y", INT, required=True, write_default=9)))
    schema = Schema((Field(1, "id", LONG, required=True), Field(2, "p", ListType(5, point))))
    batch = pa.record_batch({"p": [[{"x": 1}, None]], "id": [7]})
    batch = batch.cast(pa.schema([("p", pa.list_(pa.struct([("x", pa.int32())]))), ("id", pa.int64())]))
    assert Conformer(schema)(batch).to_pylist() == [{"id": 7, "p": [{"x": 1, "y": 9}, None]}]


def test_nulls_where_none_may_be() -> None:
    schema = Schema((Field(1, "id", LONG, required=True),))
    for batch in (
        pa.record_batch({"id": pa.array([1, None])}),
        pa.RecordBatch.from_arrays([pa.array([1, None])], schema=arrow_schema(schema)),
    ):
        with pytest.raises(InvalidValue, match="null in a required column") as raised:
            Conformer(schema)(batch)
        assert raised.value.context == {"column": "id"}
        assert raised.value.hint


def test_a_batch_that_fits_is_passed_on() -> None:
    schema = Schema((Field(1, "id", LONG),))
    batch = pa.RecordBatch.from_arrays([pa.array([1, None])], schema=arrow_schema(schema))
    assert Conformer(schema)(batch) is batch


def test_schemas_may_change_between_batches() -> None:
    conform = Conformer(Schema((Field(1, "id", LONG),)))
    for type_ in (pa.int64(), pa.int32(), pa.int64(), pa.int8()):
        assert conform(pa.record_batch({"id": pa.array([1], type_)})).to_pylist() == [{"id": 1}]
