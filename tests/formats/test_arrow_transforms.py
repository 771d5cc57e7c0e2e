"""Transforms of Arrow columns: every type, slices, chunks, nulls and other layouts, against single values."""

import uuid
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidPartitionSpec, InvalidValue, UnsupportedFeature
from floe.formats.columns.transforms import transform_array
from floe.spec import types as t
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Bucket, Truncate, UnknownTransform
from floe.spec.types import DecimalType, FixedType
from helpers.corpus import table_names
from helpers.partitioned_files import arrow_values, partitioned_files
from helpers.transforms import ALLOWED, allowed_id
from helpers.value_strategies import values_of

ARROW = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"), "string": pa.string(), "uuid": pa.binary(16), "binary": pa.binary(),
}  # fmt: skip


def arrow_type(source):
    if isinstance(source, DecimalType):
        return pa.decimal128(source.precision, source.scale)
    return pa.binary(source.length) if isinstance(source, FixedType) else ARROW[source.kind]


def arrow_array(source, values):
    if source.kind == "uuid":
        values = [v if v is None else v.bytes for v in values]
    target = arrow_type(source)
    if pa.types.is_temporal(target):
        width = pa.int32() if source.kind == "date" else pa.int64()
        return pa.array(values, width).view(target)
    return pa.array(values, target)


def results(transform, source, values):
    try:
        return [transform.apply(source, v) for v in values]
    except InvalidValue:
        return InvalidValue


def arrow_results(transform, source, array):
    try:
        transformed = transform_array(transform, source, array)
    except InvalidValue:
        return InvalidValue
    if isinstance(transformed, pa.Array):
        transformed.validate(full=True)
        transformed = pa.chunked_array([transformed])
    return arrow_values(transform.result_type(source), transformed)


@pytest.mark.parametrize(("transform", "source"), ALLOWED, ids=allowed_id)
@settings(max_examples=15)
@given(data=st.data())
def test_arrays_give_what_single_values_give(transform, source, data):
    values = data.draw(st.lists(st.none() | values_of(source), max_size=12))
    expected = repr(results(transform, source, values))  # NaN equals itself in its text
    array = arrow_array(source, values)
    assert repr(arrow_results(transform, source, array)) == expected
    # a slice, so that buffers do not begin where the array does
    padding = [None] * data.draw(st.integers(1, 9))
    sliced = arrow_array(source, [*padding, *values, *padding])[len(padding) : len(padding) + len(values)]
    assert repr(arrow_results(transform, source, sliced)) == expected
    # chunks, some of them empty
    cut = data.draw(st.integers(0, len(values)))
    chunked = pa.chunked_array([array[:cut], array[cut:], array[:0]], array.type)
    assert repr(arrow_results(transform, source, chunked)) == expected


@pytest.mark.parametrize(("transform", "source"), ALLOWED, ids=allowed_id)
def test_empty_and_all_null_arrays(transform, source):
    array = arrow_array(source, [])
    assert len(transform_array(transform, source, array)) == 0
    assert len(transform_array(transform, source, pa.chunked_array([], array.type))) == 0
    nulls = transform_array(transform, source, pa.nulls(3, array.type))
    nulls.validate(full=True)
    assert nulls.to_pylist() == [None] * 3


@pytest.mark.parametrize(("transform", "source"), ALLOWED, ids=allowed_id)
def test_types_of_results(transform, source):
    actual = transform_array(transform, source, arrow_array(source, [])).type
    assert actual == arrow_type(transform.result_type(source))


@pytest.mark.parametrize(
    "layout", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_other_layouts_of_text(layout):
    words = ["iceberg", None, "é", ""]
    array = pa.array(words, pa.string()).cast(layout)
    assert transform_array(Bucket(100), t.STRING, array).to_pylist() == results(Bucket(100), t.STRING, words)
    assert transform_array(Truncate(3), t.STRING, array).to_pylist() == ["ice", None, "é", ""]


@pytest.mark.parametrize("layout", [pa.large_binary(), pa.binary_view()], ids=str)
def test_other_layouts_of_binary(layout):
    array = pa.array([b"iceberg", None, b"\xff"], pa.binary()).cast(layout)
    assert transform_array(Bucket(100), t.BINARY, array).to_pylist() == [89, None, Bucket(100).apply(t.BINARY, b"\xff")]
    assert transform_array(Truncate(3), t.BINARY, array).to_pylist() == [b"ice", None, b"\xff"]


@pytest.mark.parametrize("layout", [pa.decimal32(9, 2), pa.decimal64(9, 2), pa.decimal256(9, 2)], ids=str)
def test_other_widths_of_decimals(layout):
    values = [Decimal("14.20"), None, Decimal("-0.01")]
    array = pa.array(values, layout)
    assert transform_array(Bucket(100), DecimalType(9, 2), array).to_pylist() == results(
        Bucket(100), DecimalType(9, 2), values
    )
    assert transform_array(Truncate(50), DecimalType(9, 2), array).to_pylist() == [
        Decimal("14.00"),
        None,
        Decimal("-0.50"),
    ]


def test_uuid_extension_type():
    values = [uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), None]
    storage = pa.array([v and v.bytes for v in values], pa.binary(16))
    array = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    assert transform_array(Bucket(2**31 - 1), t.UUID, array).to_pylist() == [1488055340, None]
    assert transform_array(IDENTITY, t.UUID, array) is array
    assert transform_array(VOID, t.UUID, array).to_pylist() == [None, None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_other_units_and_zones_of_timestamps(unit, zone):
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    array = pa.array([1510871468 * ticks, None, -ticks], pa.timestamp(unit, zone))
    source = t.TIMESTAMP if zone is None else t.TIMESTAMPTZ
    assert transform_array(DAY, source, array).to_pylist() == [date(2017, 11, 16), None, date(1969, 12, 31)]
    assert transform_array(HOUR, source, array).to_pylist() == [419686, None, -1]
    assert transform_array(Bucket(2**31 - 1), source, array).to_pylist()[0] == -2047944441 & 0x7FFFFFFF


def test_narrower_integers_and_dates_in_milliseconds():
    assert transform_array(Truncate(10), t.LONG, pa.array([-1, None], pa.int16())).to_pylist() == [-10, None]
    days = pa.array([17486, None], pa.date32()).cast(pa.date64())
    assert transform_array(MONTH, t.DATE, days).to_pylist() == [574, None]


@pytest.mark.parametrize(
    ("source", "array"),
    [
        (t.INT, pa.array([2**31])),
        (t.TIMESTAMP, pa.array([1], pa.timestamp("ns"))),
        (t.STRING, pa.array([b"\xff"])),
        (FixedType(3), pa.array([b"ab"])),
        (DecimalType(3, 1), pa.array([Decimal("1.25")])),
        (t.DATE, pa.array([{"a": 1}])),
    ],
    ids=allowed_id,
)
def test_arrays_that_do_not_hold_values_of_the_type_are_refused(source, array):
    with pytest.raises(InvalidValue, match="does not hold values of type"):
        transform_array(Bucket(4), source, array)


def test_unknown_transforms_and_wrong_types_are_refused():
    with pytest.raises(UnsupportedFeature):
        transform_array(UnknownTransform("x"), t.LONG, pa.array([1]))
    with pytest.raises(InvalidPartitionSpec):
        transform_array(Bucket(2), t.DOUBLE, pa.array([1.0]))
    with pytest.raises(InvalidPartitionSpec):
        transform_array(HOUR, t.DATE, pa.array([1], pa.date32()))


@given(st.lists(st.none() | st.integers(-(2**55), 2**55), max_size=20))
def test_time_transforms_agree_with_arrows_own_functions(values):
    array = pa.array(values, pa.timestamp("us"))
    years = pc.subtract(pc.year(array), 1970)
    months = pc.add(pc.multiply(years, 12), pc.subtract(pc.month(array), 1))
    assert transform_array(YEAR, t.TIMESTAMP, array).to_pylist() == years.to_pylist()
    assert transform_array(MONTH, t.TIMESTAMP, array).to_pylist() == months.to_pylist()
    days = pc.floor_temporal(array, unit="day").cast(pa.date32())
    assert transform_array(DAY, t.TIMESTAMP, array).equals(days)


def test_long_text_is_cut_and_hashed():
    words = ["x" * 100_000, "é" * 70, None]
    array = pa.array(words)
    assert transform_array(Bucket(97), t.STRING, array).to_pylist() == results(Bucket(97), t.STRING, words)
    assert transform_array(Truncate(2**31 - 1), t.STRING, array).to_pylist() == words


@pytest.mark.parametrize("table", table_names("part_", "evo_partition", "plan_", "scale_", "v1_", "hist_", "combo_"))
def test_partition_values_in_manifests_are_the_transforms_of_the_columns(corpus_dir, table):
    for file in partitioned_files(corpus_dir, table):
        columns = file.columns()
        for field, stored in zip(file.spec.fields, file.partition, strict=True):
            source = file.schema.find(field.source_id)
            if source is None or field.source_id not in columns:
                continue
            transformed = transform_array(field.transform, source.type, columns[field.source_id])
            ours = arrow_values(field.transform.result_type(source.type), transformed)
            assert {repr(v) for v in ours} == {repr(stored)}, (file.path, field.name)
