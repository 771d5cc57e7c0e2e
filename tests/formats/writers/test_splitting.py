"""Batches split by partition: each row in the part that the spec's own transforms say, and every row in one."""

import math
import struct
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidInput, InvalidValue, UnsupportedFeature
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.rows import rows_to_batch
from floe.formats.writers.partitioned import PartitionSplitter
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, partition_value_fn
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.partitioning.transforms import UnknownTransform
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
    UUID,
    DecimalType,
    Field,
    FixedType,
    StructType,
    Type,
)
from helpers.value_strategies import values_of

TERMS: list[tuple[Type, list[str]]] = [
    (BOOLEAN, ["x"]),
    (INT, ["x", "bucket(3, x)", "truncate(10, x)", "void(x)"]),
    (LONG, ["x", "bucket(3, x)", "truncate(10, x)"]),
    (FLOAT, ["x"]),
    (DOUBLE, ["x"]),
    (DecimalType(9, 2), ["x", "bucket(3, x)", "truncate(50, x)"]),
    (DecimalType(38, 4), ["x", "bucket(3, x)", "truncate(50, x)"]),
    (DATE, ["x", "year(x)", "month(x)", "day(x)", "bucket(3, x)"]),
    (TIME, ["x", "bucket(3, x)"]),
    (TIMESTAMP, ["x", "year(x)", "month(x)", "day(x)", "hour(x)", "bucket(3, x)"]),
    (TIMESTAMPTZ, ["x", "day(x)", "hour(x)"]),
    (TIMESTAMP_NS, ["x", "day(x)", "bucket(3, x)"]),
    (STRING, ["x", "bucket(3, x)", "truncate(1, x)"]),
    (UUID, ["x", "bucket(3, x)"]),
    (FixedType(4), ["x", "bucket(3, x)"]),
    (BINARY, ["x", "bucket(3, x)", "truncate(1, x)"]),
]


def key_of(value: Any) -> Any:
    """A value that tells partitions apart: floats by their bits, with one NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return value


@pytest.mark.parametrize(("type_", "terms"), TERMS, ids=lambda value: str(value) if isinstance(value, Type) else "")
@settings(max_examples=30)
@given(data=st.data())
def test_each_row_goes_where_its_transforms_say(type_: Type, terms: list[str], data: st.DataObject) -> None:
    schema = Schema((Field(1, "n", LONG), Field(2, "x", type_)))
    pool = data.draw(st.lists(st.none() | values_of(type_), min_size=1, max_size=4))
    rows = [{"n": n, "x": x} for n, x in enumerate(data.draw(st.lists(st.sampled_from(pool), max_size=12)))]
    for term in terms:
        spec = build_spec(schema, [term])
        expected = defaultdict(list)
        tuple_of = partition_value_fn(spec, schema)
        try:
            for row in rows:
                expected[tuple(map(key_of, tuple_of(row)))].append(row["n"])
        except InvalidValue:  # truncated, the lowest numbers are below what the type holds
            with pytest.raises(InvalidValue):
                list(PartitionSplitter(spec, schema)(rows_to_batch(schema, rows)))
            continue
        parts = list(PartitionSplitter(spec, schema)(rows_to_batch(schema, rows)))
        rows_by_partition = {tuple(map(key_of, part.values)): part.rows.column("n").to_pylist() for part in parts}
        assert rows_by_partition == dict(expected)
        assert len({part.key for part in parts}) == len(parts)


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(0, 3), "b": st.sampled_from(["x", "y", None]), "c": st.integers(-5, 5)}
        ),
        max_size=60,
    )
)
def test_several_fields_and_columns_inside_structs(rows: list[dict[str, Any]]) -> None:
    inside = StructType((Field(4, "b", STRING), Field(5, "c", LONG)))
    schema = Schema((Field(1, "n", LONG), Field(2, "a", INT), Field(3, "in", inside)))
    table_rows = [
        {"n": n, "a": row["a"], "in": None if row["c"] == 5 else {"b": row["b"], "c": row["c"]}}
        for n, row in enumerate(rows)
    ]
    spec = build_spec(schema, ["a", "in.b", "bucket(2, in.c)"])
    tuple_of = partition_value_fn(spec, schema)
    expected = defaultdict(list)
    for row in table_rows:
        expected[tuple_of(row)].append(row["n"])
    parts = PartitionSplitter(spec, schema)(rows_to_batch(schema, table_rows))
    assert {part.values: part.rows.column("n").to_pylist() for part in parts} == dict(expected)


def test_more_partitions_than_short_numbers_count() -> None:
    schema = Schema((Field(1, "a", LONG), Field(2, "b", LONG)))
    count = 70_001
    batch = pa.record_batch({"a": [n * 7 % count for n in range(count)], "b": [n % 3 for n in range(count)]})
    parts = list(PartitionSplitter(build_spec(schema, ["a", "b"]), schema)(batch.cast(arrow_schema(schema))))
    assert len(parts) == count
    assert sum(part.rows.num_rows for part in parts) == count
    assert all(part.rows.column("a")[0].as_py() == part.values[0] for part in parts[::997])


def test_rows_that_are_together_are_not_copied() -> None:
    schema = Schema((Field(1, "a", LONG),))
    batch = pa.record_batch({"a": [5, 5, 1, 1, 3]}, schema=arrow_schema(schema))
    first, *_ = PartitionSplitter(build_spec(schema, ["a"]), schema)(batch, clustered=True)
    assert first.rows.column("a").buffers()[1].address == batch.column("a").buffers()[1].address


def test_rows_that_should_be_together_and_are_not() -> None:
    schema = Schema((Field(1, "a", LONG),))
    batch = pa.record_batch({"a": [5, 1, 5]}, schema=arrow_schema(schema))
    with pytest.raises(InvalidInput, match=r"rows of partition \(5,\) are not contiguous"):
        list(PartitionSplitter(build_spec(schema, ["a"]), schema)(batch, clustered=True))


def test_unknown_transforms_are_refused() -> None:
    schema = Schema((Field(1, "a", LONG),))
    spec = PartitionSpec((PartitionField((1,), 1000, "a_zorder", UnknownTransform("zorder")),))
    with pytest.raises(UnsupportedFeature, match="zorder"):
        PartitionSplitter(spec, schema)
