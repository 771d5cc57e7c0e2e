"""Filters on Arrow data give the rows that the row evaluator gives, in every layout."""

import math
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidValue, NoSuchColumn, UnsupportedFeature
from floe.formats.columns.filters import filter_batch, filter_mask, to_arrow_expression
from floe.spec import types as t
from floe.spec.expressions.binder import bind
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Op
from floe.spec.expressions.row_evaluation import compile_row_filter
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType, StructType
from helpers.filter_strategies import (
    SCHEMA,
    TYPES,
    every_predicate,
    field_ids,
    filters,
    pool,
    predicates,
    references,
    rows,
    safe_rows,
    transform_terms,
)

NAN = math.nan

PLAIN = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"), "string": pa.string(), "uuid": pa.binary(16), "binary": pa.binary(),
}  # fmt: skip


def arrow_type(type_):
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in type_.fields])
    return PLAIN[type_.kind]


def stored(type_, value):
    """A value in the form from which Arrow makes one."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {f.name: stored(f.type, value.get(f.name)) for f in type_.fields}
    return value.bytes if type_.kind == "uuid" else value


def batch_of(rows, schema=SCHEMA):
    return pa.record_batch(
        [pa.array([stored(f.type, row.get(f.name)) for row in rows], arrow_type(f.type)) for f in schema.fields],
        names=[f.name for f in schema.fields],
    )


@given(st.data())
@settings(max_examples=100)
def test_masks_are_those_of_the_row_evaluator(data):
    expression = data.draw(filters(predicates(references(), transformed=True)))
    ids = field_ids(expression)
    data_rows = safe_rows(data.draw(rows(ids)), ids)
    passes = compile_row_filter(expression)
    assert filter_mask(expression, batch_of(data_rows)).to_pylist() == [passes(row) for row in data_rows]


@pytest.mark.parametrize("field_id", range(1, len(TYPES) + 1), ids=lambda n: str(TYPES[n - 1]))
def test_every_test_of_every_type(field_id):
    reference = BoundReference(SCHEMA.entry(field_id))
    name = reference.entry.name
    data_rows = safe_rows([{name: value} for value in (None, *pool(reference.type))], [field_id])
    batch = batch_of(data_rows)
    table = pa.Table.from_batches([batch]).append_column("n", pa.array(range(len(data_rows))))
    for term in (reference, *transform_terms(reference)):
        for leaf in every_predicate(term):
            passes = compile_row_filter(leaf)
            expected = [n for n, row in enumerate(data_rows) if passes(row)]
            assert [n for n, matches in enumerate(filter_mask(leaf, batch).to_pylist()) if matches] == expected, str(
                leaf
            )
            if term is reference:
                assert table.filter(to_arrow_expression(leaf))["n"].to_pylist() == expected, str(leaf)


@given(st.data())
@settings(max_examples=60)
def test_arrow_expressions_select_the_same_rows(data):
    expression = data.draw(filters(predicates(references())))
    data_rows = data.draw(rows(field_ids(expression)))
    passes = compile_row_filter(expression)
    table = pa.Table.from_batches([batch_of(data_rows)]).append_column("n", pa.array(range(len(data_rows)), pa.int64()))
    expected = [n for n, row in enumerate(data_rows) if passes(row)]
    assert table.filter(to_arrow_expression(expression))["n"].to_pylist() == expected


# layouts -----------------------------------------------------------------------------------------------------

TEXT = Schema((Field(1, "s", t.STRING),))
A_ = bind(col("s").starts_with("a") | (col("s") == "b") | col("s").is_in(["c", "d"]), TEXT)
VALUES = ["ab", "b", "c", "x", None]
WANTED = [True, True, True, False, False]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(VALUES),
        pa.array(VALUES, pa.large_string()),
        pa.array(VALUES, pa.string_view()),
        pa.array(VALUES).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4]), pa.array(VALUES)),  # null in the dictionary
        pa.array(["?", *VALUES])[1:],
    ],
    ids=lambda array: str(array.type),
)
def test_layouts_of_text(array):
    batch = pa.record_batch({"s": array})
    assert filter_mask(A_, batch).to_pylist() == WANTED
    assert filter_mask(bind(col("s").is_null(), TEXT), batch).to_pylist() == [False] * 4 + [True]
    assert filter_mask(bind(col("s") != "b", TEXT), batch).to_pylist() == [True, False, True, True, False]


def test_run_end_encoded_columns():
    array = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["b", None]))
    batch = pa.record_batch({"s": array})
    assert filter_mask(A_, batch).to_pylist() == [True, True, False, False, False]
    assert filter_mask(bind(col("s").is_null(), TEXT), batch).to_pylist() == [False, False, True, True, True]


def test_uuids_as_extension_type_and_as_bytes():
    schema = Schema((Field(1, "u", t.UUID),))
    values = [UUID(int=1), UUID(int=1 << 127), None]
    above = bind(col("u") > UUID(int=5), schema)
    for array in (
        pa.array([v and v.bytes for v in values], pa.uuid()),
        pa.array([v and v.bytes for v in values], pa.binary(16)),
    ):
        batch = pa.record_batch({"u": array})
        assert filter_mask(above, batch).to_pylist() == [False, True, False]
        assert pa.Table.from_batches([batch]).filter(to_arrow_expression(above)).num_rows == 1


def test_narrower_numbers_and_other_units_hold_the_values():
    schema = Schema((Field(1, "n", t.LONG), Field(2, "ts", t.TIMESTAMP), Field(3, "d", DecimalType(18, 2))))
    batch = pa.record_batch(
        {
            "n": pa.array([1, 7], pa.int16()),
            "ts": pa.array([1, 2], pa.timestamp("s")),
            "d": pa.array([Decimal("1.00"), Decimal("2.00")], pa.decimal128(9, 2)),
        }
    )
    assert filter_mask(bind(col("n") > 5, schema), batch).to_pylist() == [False, True]
    assert filter_mask(bind(col("ts") > "1970-01-01T00:00:01", schema), batch).to_pylist() == [False, True]
    assert filter_mask(bind(col("d").is_in([Decimal("2"), Decimal("3")]), schema), batch).to_pylist() == [False, True]


def test_a_zone_is_a_matter_of_display():
    schema = Schema((Field(1, "at", t.TIMESTAMPTZ),))
    batch = pa.record_batch({"at": pa.array([0, 3_600_000_000], pa.timestamp("us", "Europe/Paris"))})
    late = bind(col("at") > "1970-01-01T00:30:00+00:00", schema)
    assert filter_mask(late, batch).to_pylist() == [False, True]


def test_arrays_that_cannot_hold_the_type_are_refused():
    schema = Schema((Field(1, "n", t.INT),))
    with pytest.raises(InvalidValue, match="does not hold values of type int"):
        filter_mask(bind(col("n") > 5, schema), pa.record_batch({"n": ["x"]}))


# nested ------------------------------------------------------------------------------------------------------


def test_a_field_of_a_null_struct_is_null():
    schema = Schema((Field(1, "s", StructType((Field(2, "x", t.INT),))),))
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, 2, None], pa.int32())], ["x"], mask=pa.array([False, True, False])
    )
    batch = pa.record_batch({"s": hidden})  # the second row has a 2 beneath its null
    assert filter_mask(bind(col("s.x") >= 1, schema), batch).to_pylist() == [True, False, False]
    assert filter_mask(bind(col("s.x").is_null(), schema), batch).to_pylist() == [False, True, True]
    assert filter_mask(bind(col("s").is_null(), schema), batch).to_pylist() == [False, True, False]
    assert pa.Table.from_batches([batch]).filter(to_arrow_expression(bind(col("s.x") >= 1, schema))).num_rows == 1


def test_columns_that_are_not_there():
    schema = Schema((Field(1, "s", StructType((Field(2, "x", t.INT),))), Field(3, "n", t.INT)))
    batch = pa.record_batch({"s": pa.array([{"y": 1}])})
    with pytest.raises(NoSuchColumn, match="no single column named 'n'"):
        filter_mask(bind(col("n") == 1, schema), batch)
    with pytest.raises(NoSuchColumn, match="no field 'x'"):
        filter_mask(bind(col("s.x") == 1, schema), batch)


# NaN and zero ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [t.FLOAT, t.DOUBLE], ids=str)
def test_nan_is_the_greatest_number(type_):
    schema = Schema((Field(1, "x", type_),))
    x = BoundReference(schema.entry(1))
    values = [-0.0, 0.0, 1.5, math.inf, NAN, None]
    batch = pa.record_batch({"x": pa.array(values, arrow_type(type_))})
    for op, literals, expected in (
        (Op.GT, (1.5,), [0, 0, 0, 1, 1, 0]),
        (Op.GT_EQ, (math.inf,), [0, 0, 0, 1, 1, 0]),
        (Op.LT_EQ, (math.inf,), [1, 1, 1, 1, 0, 0]),
        (Op.NOT_EQ, (0.0,), [0, 0, 1, 1, 1, 0]),
        (Op.IN, (0.0, 1.5), [1, 1, 1, 0, 0, 0]),
        (Op.NOT_IN, (0.0, 1.5), [0, 0, 0, 1, 1, 0]),
        (Op.EQ, (NAN,), [0, 0, 0, 0, 1, 0]),
        (Op.LT, (NAN,), [1, 1, 1, 1, 0, 0]),
        (Op.GT_EQ, (NAN,), [0, 0, 0, 0, 1, 0]),
        (Op.IN, (1.5, NAN), [0, 0, 1, 0, 1, 0]),
        (Op.IS_NAN, (), [0, 0, 0, 0, 1, 0]),
        (Op.NOT_NAN, (), [1, 1, 1, 1, 0, 0]),
    ):
        leaf = BoundPredicate(op, x, literals)
        assert filter_mask(leaf, batch).to_pylist() == [bool(n) for n in expected], op
        assert pa.Table.from_batches([batch]).filter(to_arrow_expression(leaf)).num_rows == sum(expected), op


# whole batches and tables ------------------------------------------------------------------------------------


def test_batches_and_tables_are_filtered():
    schema = Schema((Field(1, "n", t.INT),))
    batch = pa.record_batch({"n": pa.array([1, 2, None, 4], pa.int32())})
    above = bind(col("n") > 1, schema)
    assert filter_batch(above, batch).column("n").to_pylist() == [2, 4]
    table = pa.Table.from_batches([batch, batch])
    assert filter_batch(above, table).column("n").to_pylist() == [2, 4, 2, 4]
    assert filter_batch(above, table.slice(0, 0)).num_rows == 0
    assert filter_batch(FALSE, table).num_rows == 0
    assert filter_batch(TRUE, batch).num_rows == 4
    assert filter_mask(above, batch).null_count == 0


def test_transformed_terms_have_no_arrow_expression():
    schema = Schema((Field(1, "n", t.INT),))
    bound = bind(col("n").bucket(4) == 1, schema)
    with pytest.raises(UnsupportedFeature, match="filter_mask"):
        to_arrow_expression(bound)
    assert filter_mask(bound, pa.record_batch({"n": pa.array([None], pa.int32())})).to_pylist() == [False]


def test_columns_of_type_unknown():
    schema = Schema((Field(1, "n", t.UNKNOWN),))
    n = BoundReference(schema.entry(1))
    batch = pa.record_batch({"n": pa.nulls(2)})
    assert filter_mask(BoundPredicate(Op.IS_NULL, n), batch).to_pylist() == [True, True]
