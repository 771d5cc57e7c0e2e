"""Rows sorted in columns: the order of `floe.spec.sort_order`, which compares value by value."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.rows import rows_to_batch
from floe.formats.writers.partitioned import can_sort, sort_batch
from floe.spec.partitioning.transforms import UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED, SortField, SortOrder, build_order, sort_key
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
    StructType,
    Type,
)
from helpers.value_strategies import values_of

WAYS = ["asc nulls first", "asc nulls last", "desc nulls first", "desc nulls last"]
TYPES = [BOOLEAN, INT, LONG, FLOAT, DOUBLE, DecimalType(38, 4), DATE, TIMESTAMPTZ, STRING, UUID, BINARY]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_the_order_of_values(type_: Type, data: st.DataObject) -> None:
    schema = Schema((Field(1, "n", LONG), Field(2, "x", type_), Field(3, "y", INT)))
    values = data.draw(st.lists(st.tuples(st.none() | values_of(type_), st.none() | st.integers(0, 1)), max_size=12))
    rows = [{"n": n, "x": x, "y": y} for n, (x, y) in enumerate(values)]
    terms = [f"x {data.draw(st.sampled_from(WAYS))}", f"y {data.draw(st.sampled_from(WAYS))}"]
    order = build_order(schema, data.draw(st.permutations(terms)))
    actual = sort_batch(rows_to_batch(schema, rows), order, schema).column("n").to_pylist()
    assert actual == [row["n"] for row in sorted(rows, key=sort_key(order, schema))]


@given(values=st.lists(st.none() | st.integers(-100, 100), max_size=20))
def test_transforms_and_columns_inside_structs(values: list[int | None]) -> None:
    schema = Schema((Field(1, "n", LONG), Field(2, "in", StructType((Field(3, "x", LONG),)))))
    rows: list[dict[str, Any]] = [
        {"n": n, "in": {"x": x} if x is None or x % 7 else None} for n, x in enumerate(values)
    ]
    order = build_order(schema, ["bucket(3, in.x) desc", "truncate(10, in.x) nulls last"])
    actual = sort_batch(rows_to_batch(schema, rows), order, schema).column("n").to_pylist()
    assert actual == [row["n"] for row in sorted(rows, key=sort_key(order, schema))]


def test_what_is_sorted_is_not_copied() -> None:
    schema = Schema((Field(1, "n", LONG),))
    batch = pa.record_batch({"n": [1, 1, 2]}, schema=arrow_schema(schema))
    assert sort_batch(batch, build_order(schema, ["n"]), schema) is batch


def test_which_orders_can_be_made() -> None:
    assert not can_sort(UNSORTED)
    assert not can_sort(SortOrder((SortField((1,), UnknownTransform("zorder")),), 1))
