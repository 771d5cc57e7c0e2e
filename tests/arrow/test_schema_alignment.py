"""Alignment of input data with a table's schema: what is converted, what is an error, and the error messages."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from floe.arrow.schema_alignment import SchemaAlignment, add_input_columns, infer_schema
from floe.errors import IncompatibleChange, InvalidSchema, InvalidValue
from floe.formats.columns.arrow_types import arrow_schema
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_evolution import SchemaUpdate
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
    ListType,
    MapType,
    StructType,
    Type,
)


def align(array: pa.Array, type_: Type, *, required: bool = False) -> Any:
    schema = Schema((Field(1, "x", type_, required=required),))
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    return SchemaAlignment(batch.schema, schema)(batch)


DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)


@pytest.mark.parametrize(
    ("array", "type_", "expected"),
    [
        (pa.array([1, None], pa.int8()), LONG, [1, None]),
        (pa.array([1, None], pa.int64()), INT, [1, None]),
        (pa.array([2**63 - 1], pa.uint64()), LONG, [2**63 - 1]),
        (pa.array([7], pa.int64()), DOUBLE, [7.0]),
        (pa.array([7], pa.int32()), FLOAT, [7.0]),
        (pa.array([7], pa.int64()), DecimalType(9, 2), [Decimal("7.00")]),
        (pa.array([2**63 - 1], pa.int64()), DecimalType(38, 19), [Decimal(2**63 - 1)]),
        (pa.array([0.5, None, float("inf")], pa.float64()), FLOAT, [0.5, None, float("inf")]),
        (pa.array([1.5], pa.float16()), DOUBLE, [1.5]),
        (pa.array([Decimal("1.230")], pa.decimal128(5, 3)), DecimalType(9, 2), [Decimal("1.23")]),
        (pa.array([Decimal("1")], pa.decimal128(5, 0)), DecimalType(9, 2), [Decimal("1.00")]),
        (pa.array([Decimal("1.2")], pa.decimal256(50, 1)), DecimalType(9, 2), [Decimal("1.20")]),
        (pa.array([NOON], pa.timestamp("ns")), TIMESTAMP, [NOON]),
        (pa.array([NOON], pa.timestamp("s")), TIMESTAMP, [NOON]),
        (pa.array([NOON], pa.timestamp("ns", "Europe/Zurich")), TIMESTAMPTZ, [NOON.replace(tzinfo=dt.UTC)]),
        (pa.array([NOON], pa.timestamp("us")), TIMESTAMP_NS, [NOON]),
        (pa.array([DAY], pa.date64()), DATE, [DAY]),
        (pa.array([dt.time(1)], pa.time32("ms")), TIME, [dt.time(1)]),
        (pa.array([3_600_000_000_000], pa.time64("ns")), TIME, [dt.time(1)]),
        (pa.array(["a"], pa.large_string()), STRING, ["a"]),
        (pa.array(["a"], pa.string_view()), STRING, ["a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), STRING, ["a", "b", "a"]),
        (pa.array([1, 1], pa.int64()).dictionary_encode(), INT, [1, 1]),
        (
            pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint32()), pa.array(["a", "b"], pa.string_view())),
            STRING,
            ["b", None, "a"],
        ),
        (pa.array([b"abcd"], pa.binary()), FixedType(4), [b"abcd"]),
        (pa.array([b"0123456789abcdef"], pa.binary(16)), UUID, [b"0123456789abcdef"]),
        (pa.array([b"a"], pa.large_binary()), BINARY, [b"a"]),
        (pa.nulls(2), STRING, [None, None]),
        (pa.array([[1], None], pa.large_list(pa.int64())), ListType(2, INT), [[1], None]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), ListType(2, LONG), [[1, 2]]),
        (pa.array([[0, 0], None, [1, 2]], pa.list_(pa.int64(), 2)).slice(1), ListType(2, INT), [None, [1, 2]]),
        (pa.array([[1, None]], pa.list_view(pa.int32())), ListType(2, INT), [[1, None]]),
        (
            pa.array([[9], None, [], [1, 2]], pa.large_list_view(pa.int64())).slice(1),
            ListType(2, INT),
            [None, [], [1, 2]],
        ),
        (
            pa.ListViewArray.from_arrays(
                pa.array([2, 0], pa.int32()), pa.array([1, 2], pa.int32()), pa.array([7, 8, 9])
            ),
            ListType(2, LONG),
            [[9], [7, 8]],
        ),
        (
            pa.array([None, {"a": [[1], None]}, {"a": None}], pa.struct({"a": pa.list_(pa.list_view(pa.int64()))})),
            StructType((Field(2, "a", ListType(3, ListType(4, INT))),)),
            [None, {"a": [[1], None]}, {"a": None}],
        ),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            MapType(2, STRING, 3, INT),
            [[("a", 1)]],
        ),
        (
            pa.array([{"b": 1, "a": "x"}], pa.struct([("b", pa.int64()), ("a", pa.large_string())])),
            StructType((Field(2, "a", STRING), Field(3, "b", INT), Field(4, "c", DATE))),
            [{"a": "x", "b": 1, "c": None}],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value) if isinstance(value, Type) else "",
)
def test_types_that_differ_where_nothing_is_lost(array: pa.Array, type_: Type, expected: list[Any]) -> None:
    aligned = align(array, type_)
    assert aligned.schema.equals(arrow_schema(Schema((Field(1, "x", type_),))))
    assert aligned.column("x").to_pylist() == expected


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array([2**31], pa.int64()), INT),
        (pa.array([2**63], pa.uint64()), LONG),
        (pa.array([2**60 + 1], pa.int64()), DOUBLE),
        (pa.array([10**8], pa.int64()), DecimalType(9, 2)),
        (pa.array([0.1], pa.float64()), FLOAT),
        (pa.array([1e300], pa.float64()), FLOAT),
        (pa.array([Decimal("1.234")], pa.decimal128(5, 3)), DecimalType(9, 2)),
        (pa.array([Decimal("12345678.9")], pa.decimal128(9, 1)), DecimalType(9, 2)),
        (pa.array([1], pa.timestamp("ns")), TIMESTAMP),
        (pa.array([2**62], pa.timestamp("us")), TIMESTAMP_NS),
        (pa.array([1], pa.time64("ns")), TIME),
        (pa.array([b"abc"], pa.binary()), FixedType(4)),
        (pa.array([[2**40]], pa.list_(pa.int64())), ListType(2, INT)),
        (pa.array([{"a": 2**40}], pa.struct([("a", pa.int64())])), StructType((Field(2, "a", INT),))),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_errors_with_their_column(array: pa.Array, type_: Type) -> None:
    with pytest.raises(InvalidValue, match=r"does not fit the table's column.*column: x"):
        align(array, type_)


@pytest.mark.parametrize(
    ("input_type", "type_", "message"),
    [
        (pa.string(), LONG, "column x has string, where the table has long; cast x"),
        (pa.int64(), STRING, "column x has long, where the table has string; cast x"),
        (pa.float64(), LONG, "column x has double, where the table has long; cast x"),
        (pa.bool_(), INT, "column x has boolean, where the table has int; cast x"),
        (pa.int64(), BOOLEAN, "column x has long, where the table has boolean; cast x"),
        (pa.string(), BINARY, "column x has string, where the table has binary"),
        (pa.string(), UUID, "column x has string, where the table has uuid"),
        (pa.timestamp("us"), TIMESTAMPTZ, "has timestamp, where the table has timestamptz; say which zone x is in"),
        (pa.timestamp("us", "UTC"), TIMESTAMP, "has timestamptz, where the table has timestamp; drop the zone of x"),
        (pa.timestamp("us"), DATE, "has timestamp, where the table has date"),
        (pa.duration("s"), LONG, r"column x has duration\[s\], where the table has long"),
        (pa.list_(pa.int64()), LONG, "column x has list, where the table has long"),
        (pa.int64(), ListType(2, LONG), "column x has long, where the table has list<long>"),
        (pa.list_(pa.string()), ListType(2, LONG), "column x.element has string, where the table has long"),
        (pa.struct([("a", pa.int64())]), MapType(2, STRING, 3, LONG), "column x has struct, where the table has map"),
        (
            pa.struct([("a", pa.string()), ("z", pa.int8())]),
            StructType((Field(2, "a", LONG), Field(3, "b", LONG, required=True))),
            "column x.z is not in the table; column x.b is missing, and required .long.; column x.a has string",
        ),
    ],
    ids=str,
)
def test_types_that_do_not_fit_are_errors_before_a_row_is_read(
    input_type: pa.DataType, type_: Type, message: str
) -> None:
    with pytest.raises(InvalidSchema, match=message):
        SchemaAlignment(pa.schema([("x", input_type)]), Schema((Field(1, "x", type_),)))


TABLE = Schema(
    (
        Field(1, "id", LONG, required=True),
        Field(2, "note", STRING),
        Field(3, "kind", STRING, required=True, write_default="new"),
    )
)


def test_columns_in_any_order_and_defaults_for_those_left_out() -> None:
    batch = pa.record_batch({"note": ["a"], "id": [1]})
    assert SchemaAlignment(batch.schema, TABLE)(batch).to_pylist() == [{"id": 1, "note": "a", "kind": "new"}]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["note"], "column id is missing, and required .long.; give values for id, or make it optional"),
        (["id", "extra"], "column extra is not in the table; leave extra out, or pass merge_schema=True to add it"),
        (["ID"], "column ID is not in the table; column id is missing.*rename ID to id, or pass case_sensitive=False"),
        (["id", "id"], "column id comes twice"),
    ],
)
def test_names_that_do_not_fit(names: list[str], message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        SchemaAlignment(
            pa.schema([(name, pa.int64() if name.lower() == "id" else pa.string()) for name in names]), TABLE
        )


def test_names_without_regard_to_case() -> None:
    batch = pa.record_batch({"Note": ["a"], "ID": [1]})
    alignment = SchemaAlignment(batch.schema, TABLE, case_sensitive=False)
    assert alignment(batch).to_pylist() == [{"id": 1, "note": "a", "kind": "new"}]
    with pytest.raises(InvalidSchema, match=r"column ID comes twice \(as id too\)"):
        SchemaAlignment(pa.schema({"id": pa.int64(), "ID": pa.int64()}), TABLE, case_sensitive=False)
    twins = Schema((Field(1, "ab", LONG), Field(2, "AB", LONG)))
    with pytest.raises(InvalidSchema, match="column Ab may mean ab or AB"):
        SchemaAlignment(pa.schema({"Ab": pa.int64()}), twins, case_sensitive=False)
    assert SchemaAlignment(pa.schema({"AB": pa.int64()}), twins, case_sensitive=False)


def test_nulls_in_a_required_column_are_found_when_they_come() -> None:
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3, None]})]
    aligned = SchemaAlignment(batches[0].schema, TABLE).align_all(batches)
    assert next(aligned).num_rows == 2
    with pytest.raises(InvalidValue, match=r"null in a required column \(column: id, rows: 2 to 3\)"):
        next(aligned)


def test_a_required_column_of_nothing_but_nulls() -> None:
    with pytest.raises(InvalidSchema, match="column id has only nulls, and is required"):
        SchemaAlignment(pa.schema({"id": pa.null()}), TABLE)


def test_many_problems_are_reported_at_once_but_not_all() -> None:
    wrong = pa.schema([(f"c{n}", pa.int8()) for n in range(30)])
    with pytest.raises(InvalidSchema, match=r"column c0 is not in the table.*column c19.*\(and 11 more\)"):
        SchemaAlignment(wrong, TABLE)


@given(values=st.lists(st.none() | st.floats(width=64), max_size=20))
def test_doubles_are_floats_only_if_they_are_the_same_number(values: list[float | None]) -> None:
    array = pa.array(values, pa.float64())
    with np.errstate(over="ignore"):
        exact = all(value is None or value != value or float(np.float32(value)) == value for value in values)
    if exact:
        assert [repr(value) for value in align(array, FLOAT).column("x").to_pylist()] == [
            repr(value) for value in values
        ]
    else:
        with pytest.raises(InvalidValue, match="is not exactly a float"):
            align(array, FLOAT)


# Merging of schemas ---------------------------------------------------------------------------------------------------


def merged(existing: Schema, incoming: dict[str, pa.DataType], version: int = 2) -> Schema:
    update = SchemaUpdate(existing, format_version=version, last_column_id=existing.highest_field_id)
    add_input_columns(update, pa.schema(incoming), existing, format_version=version)
    return update.apply()


def test_new_columns_are_added_and_narrow_ones_widened() -> None:
    schema = merged(
        Schema((Field(1, "id", INT, required=True), Field(2, "x", FLOAT))),
        {"id": pa.int64(), "x": pa.float64(), "tags": pa.list_(pa.string()), "in": pa.struct([("a", pa.int8())])},
    )
    assert [(field.name, str(field.type.kind), field.required) for field in schema] == [
        ("id", "long", True),
        ("x", "double", False),
        ("tags", "list", False),
        ("in", "struct", False),
    ]


def test_columns_that_can_hold_the_values_stay_as_they_are() -> None:
    table = Schema((Field(1, "at", TIMESTAMP), Field(2, "n", LONG), Field(3, "d", DecimalType(9, 2))))
    schema = merged(table, {"at": pa.timestamp("ns"), "n": pa.int8(), "d": pa.decimal128(5, 3), "n2": pa.uint32()})
    assert schema.fields[:3] == table.fields
    assert schema.field("n2").type == LONG


def test_new_fields_inside_structs_lists_and_maps() -> None:
    inside = StructType((Field(2, "a", LONG),))
    table = Schema((Field(1, "s", inside), Field(3, "l", ListType(4, StructType((Field(5, "a", LONG),))))))
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    schema = merged(table, {"s": struct, "l": pa.list_(struct)})
    assert schema.has("s.b")
    assert schema.has("l.element.b")


def test_columns_are_found_without_regard_to_case() -> None:
    table = Schema((Field(1, "Id", INT, required=True), Field(2, "In", StructType((Field(3, "A", LONG),)))))
    update = SchemaUpdate(table, format_version=2, last_column_id=3, case_sensitive=False)
    incoming = pa.schema({"ID": pa.int64(), "in": pa.struct([("a", pa.int64()), ("b", pa.int64())])})
    add_input_columns(update, incoming, table, format_version=2, case_sensitive=False)
    schema = update.apply()
    assert (schema.field("Id").type, schema.field("Id").required) == (LONG, True)
    assert [field.name for field in schema.field("In").type.fields] == ["A", "b"]


def test_types_that_cannot_merge() -> None:
    with pytest.raises(IncompatibleChange, match="cannot change 'id' from long to string"):
        merged(Schema((Field(1, "id", LONG),)), {"id": pa.string()})
    with pytest.raises(IncompatibleChange, match="the new column x has only nulls, so its type is not known"):
        merged(Schema((Field(1, "id", LONG),)), {"x": pa.null()})
    assert merged(Schema((Field(1, "id", LONG),)), {"x": pa.null()}, version=3).field("x").type.kind == "unknown"


def test_ids_of_another_table_mean_nothing() -> None:
    field = pa.field("other", pa.int64(), metadata={"PARQUET:field_id": "1"})
    update = SchemaUpdate(Schema((Field(1, "id", LONG),)), format_version=2, last_column_id=7)
    add_input_columns(update, pa.schema([field]), Schema((Field(1, "id", LONG),)), format_version=2)
    assert update.apply().field("other").id == 8


def test_times_in_nanoseconds_which_polars_has() -> None:
    nested = pa.struct([("l", pa.list_(pa.time64("ns")))])
    schema = infer_schema(pa.schema({"t": pa.time64("ns"), "s": nested}), format_version=2)
    assert schema.field("t").type == schema.field("s.l.element").type == TIME
    assert merged(Schema(()), {"t": pa.time64("ns")}).field("t").type == TIME


def test_columns_for_a_new_table() -> None:
    arrow = pa.schema([pa.field("at", pa.timestamp("ns")), pa.field("id", pa.int64(), nullable=False)])
    assert [(field.type.kind, field.required) for field in infer_schema(arrow, format_version=2)] == [
        ("timestamp", False),
        ("long", True),
    ]
    assert infer_schema(arrow, format_version=3).field("at").type == TIMESTAMP_NS
