"""Hashes of Arrow columns: those of the bytes that each single value has, in every type and layout."""

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.arrow.read.streams import ColumnSketches, countable_columns
from floe.errors import InvalidInput, NoSuchColumn
from floe.formats.columns.arrays import to_array
from floe.formats.columns.transforms import can_hash, hash_column
from floe.spec.codecs.single_value import encode
from floe.spec.codecs.theta_sketches import value_hashes_of
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, STRING, UNKNOWN, Field, GeometryType, ListType, StructType
from helpers.value_strategies import PRIMITIVES, values_of


def expected(type_, values):
    return sorted(value_hashes_of(encode(type_, value) for value in values if value is not None).tolist())


@pytest.mark.parametrize("type_", PRIMITIVES, ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_hashes_are_those_of_the_bytes_of_single_values(type_, data) -> None:
    values = data.draw(st.lists(st.none() | values_of(type_).filter(lambda v: v == v), max_size=12))
    array = to_array(type_, values)
    assert sorted(hash_column(type_, array).tolist()) == expected(type_, values)
    padding = [None] * data.draw(st.integers(1, 9))  # so that buffers do not begin where the array does
    sliced = to_array(type_, [*padding, *values, *padding])[len(padding) : len(padding) + len(values)]
    assert sorted(hash_column(type_, sliced).tolist()) == expected(type_, values)


def test_a_dictionary_counts_by_what_is_used_of_it() -> None:
    array = pa.DictionaryArray.from_arrays([1, 1, None, 2], ["unused", "b", "c"])
    assert sorted(hash_column(STRING, array).tolist()) == expected(STRING, ["b", "c"])


def test_types_without_bytes_of_single_values_have_no_hashes() -> None:
    assert not any(map(can_hash, (UNKNOWN, GeometryType(), StructType(()), ListType(1, INT))))
    assert all(map(can_hash, PRIMITIVES))


# columns ----------------------------------------------------------------------------------------------------------

SCHEMA = Schema(
    (
        Field(1, "id", INT),
        Field(2, "st", StructType((Field(3, "a", STRING), Field(4, "deep", StructType((Field(5, "b", INT),)))))),
        Field(6, "tags", ListType(7, STRING)),
        Field(8, "where", GeometryType()),
        Field(9, "name", STRING),
    )
)


def test_all_columns_are_those_of_single_values_at_the_top() -> None:
    assert [entry.name for entry in countable_columns(SCHEMA)] == ["id", "name"]


def test_columns_inside_structs_are_counted_when_they_are_named() -> None:
    columns = countable_columns(SCHEMA, ["st.a", ("st", "deep", "b"), "ID"], case_sensitive=False)
    sketches = ColumnSketches(columns)
    rows = [
        {"id": 1, "st": {"a": "x", "deep": {"b": 1}}},
        {"id": 1, "st": None},
        {"id": 2, "st": {"a": "y", "deep": None}},
        {"id": None, "st": {"a": None, "deep": {"b": 2}}},
    ]
    sketches.add(pa.RecordBatch.from_pylist(rows))
    sketches.add(pa.RecordBatch.from_pylist(rows))
    assert {field_id: sketch.estimate for field_id, sketch in sketches.by_field_id.items()} == {3: 2, 5: 2, 1: 2}


def test_what_hides_under_a_null_struct_is_not_counted() -> None:
    st_ = pa.StructArray.from_arrays([pa.array(["x", "hidden"])], names=["a"], mask=pa.array([False, True]))
    sketches = ColumnSketches(countable_columns(SCHEMA, ["st.a"]))
    sketches.add(pa.RecordBatch.from_arrays([st_], names=["st"]))
    assert sketches.by_field_id[3].estimate == 1


@pytest.mark.parametrize("name", ["st", "tags", "tags.element", "where"])
def test_other_columns_cannot_be_counted(name) -> None:
    with pytest.raises(InvalidInput, match="cannot be counted"):
        countable_columns(SCHEMA, [name])


def test_a_column_that_is_not_there_is_told() -> None:
    with pytest.raises(NoSuchColumn, match="nme"):
        countable_columns(SCHEMA, ["nme"])
