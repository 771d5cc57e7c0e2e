"""The hash of Appendix B: its test values, mmh3's results, and the columnar form against the scalar one."""

import math
import struct
import uuid
from datetime import date, datetime, time
from decimal import Decimal, localcontext

import mmh3
import numpy as np
import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidType
from floe.spec.partitioning.columnar_transforms import hash_fixed_bytes, hash_longs, hash_var_bytes
from floe.spec.partitioning.murmur3 import (
    hash_bytes,
    hash_decimal,
    hash_double,
    hash_function,
    hash_int,
    hash_long,
    hash_value,
)
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
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    ListType,
)
from floe.spec.values import convert
from helpers.value_strategies import INT64, values_of

DAY = (date(2017, 11, 16) - date(1970, 1, 1)).days
SECONDS = int((datetime(2017, 11, 16, 22, 31, 8) - datetime(1970, 1, 1)).total_seconds())

VECTORS = [
    # spec, Appendix B, in the order of its tables
    pytest.param(INT, 34, 2017239379, id="int"),
    pytest.param(LONG, 34, 2017239379, id="long"),
    pytest.param(DecimalType(9, 2), Decimal("14.20"), -500754589, id="decimal"),
    pytest.param(DATE, DAY, -653330422, id="date"),
    pytest.param(TIME, (22 * 3600 + 31 * 60 + 8) * 10**6, -662762989, id="time"),
    pytest.param(TIMESTAMP, SECONDS * 10**6, -2047944441, id="timestamp"),
    pytest.param(TIMESTAMP, SECONDS * 10**6 + 1, -1207196810, id="timestamp-fraction"),
    pytest.param(TIMESTAMPTZ, "2017-11-16T14:31:08-08:00", -2047944441, id="timestamptz"),
    pytest.param(TIMESTAMPTZ, "2017-11-16T14:31:08.000001-08:00", -1207196810, id="timestamptz-fraction"),
    pytest.param(TIMESTAMP_NS, SECONDS * 10**9, -2047944441, id="timestamp_ns"),
    pytest.param(TIMESTAMP_NS, "2017-11-16T22:31:08.000001001", -1207196810, id="timestamp_ns-fraction"),
    pytest.param(TIMESTAMPTZ_NS, "2017-11-16T14:31:08-08:00", -2047944441, id="timestamptz_ns"),
    pytest.param(TIMESTAMPTZ_NS, "2017-11-16T14:31:08.000001001-08:00", -1207196810, id="timestamptz_ns-fraction"),
    pytest.param(STRING, "iceberg", 1210000089, id="string"),
    pytest.param(UUID, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340, id="uuid"),
    pytest.param(FixedType(4), bytes([0, 1, 2, 3]), -188683207, id="fixed"),
    pytest.param(BINARY, bytes([0, 1, 2, 3]), -188683207, id="binary"),
    # types that are not valid for bucketing, but whose hash is specified
    pytest.param(BOOLEAN, True, 1392991556, id="boolean"),
    pytest.param(FLOAT, 1.0, -142385009, id="float-1"),
    pytest.param(FLOAT, 0.0, 1669671676, id="float-0"),
    pytest.param(FLOAT, -0.0, 1669671676, id="float-negative-0"),
    pytest.param(DOUBLE, 1.0, -142385009, id="double-1"),
    pytest.param(DOUBLE, 0.0, 1669671676, id="double-0"),
    pytest.param(DOUBLE, -0.0, 1669671676, id="double-negative-0"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), VECTORS)
def test_appendix_b_hash_vectors(type_, value, expected):
    if isinstance(value, str):
        value = convert(type_, value)
    assert hash_value(type_, value) == expected


def test_unknown_hash_is_always_null():
    assert hash_value(UNKNOWN, None) is None


def test_false_is_hashed_as_zero():
    assert hash_value(BOOLEAN, False) == hash_long(0)


@pytest.mark.parametrize("type_", [VARIANT, ListType(1, INT), UNKNOWN])
def test_no_hash_is_defined_for_variant_and_nested_types(type_):
    with pytest.raises(InvalidType, match="no hash is defined"):
        hash_function(type_)


def test_date_is_hashed_as_eight_bytes_and_not_four():
    assert hash_value(DATE, DAY) == mmh3.hash(struct.pack("<q", DAY)) != mmh3.hash(struct.pack("<i", DAY))


@given(st.integers(-(2**31), 2**31 - 1))
def test_int_hashes_like_the_long_of_the_same_number(number):
    assert hash_int(number) == hash_long(number) == hash_value(INT, number) == hash_value(LONG, number)


@given(st.floats(width=32))
def test_float_hashes_like_its_double(number):
    assert hash_value(FLOAT, number) == hash_value(DOUBLE, number)


@given(st.integers(0, 2**52 - 1), st.booleans())
def test_every_nan_hashes_alike(payload, sign):
    bits = (0x7FF << 52) | payload | (sign << 63)
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    if math.isnan(number):
        assert hash_double(number) == mmh3.hash(struct.pack("<Q", 0x7FF8000000000000))


@pytest.mark.parametrize("nanos", [-1, -999, -1000, -1001, 999, 1000])
def test_nanosecond_timestamps_are_cut_to_microseconds_downwards(nanos):
    assert hash_value(TIMESTAMP_NS, nanos) == hash_value(TIMESTAMP, math.floor(nanos / 1000))


@pytest.mark.parametrize(
    ("unscaled", "data"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x00\x80"),
        (-1, b"\xff"),
        (-128, b"\x80"),
        (-129, b"\xff\x7f"),
        (32767, b"\x7f\xff"),
        (32768, b"\x00\x80\x00"),
        (-32768, b"\x80\x00"),
        (10**38 - 1, bytes.fromhex("4b3b4ca85a86c47a098a223fffffffff")),
        (-(10**38) + 1, bytes.fromhex("b4c4b357a5793b85f675ddc000000001")),
    ],
)
def test_decimal_is_hashed_as_its_fewest_twos_complement_bytes(unscaled, data):
    assert hash_decimal(Decimal(unscaled), 0) == hash_bytes(data)


def test_decimal_hash_does_not_depend_on_scale_or_on_the_callers_context():
    with localcontext() as context:
        context.prec = 3
        assert hash_decimal(Decimal("14.20"), 2) == hash_decimal(Decimal("1420"), 0) == -500754589
        assert hash_decimal(Decimal("12345678901234567890.12"), 2) == hash_decimal(Decimal(1234567890123456789012), 0)


@given(st.binary())
def test_bytes_hash_as_mmh3_does(data):
    assert hash_bytes(data) == mmh3.hash(data, seed=0, signed=True)


@given(values_of(STRING))
def test_strings_hash_as_their_utf8_bytes(text):
    assert hash_value(STRING, text) == mmh3.hash(text.encode("utf-8"), 0)


@given(st.lists(INT64, max_size=30))
def test_columnar_longs_hash_like_single_ones(numbers):
    assert hash_longs(np.array(numbers, np.int64)).tolist() == [hash_long(n) for n in numbers]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, ">i8"])
def test_columnar_longs_take_any_width_and_byte_order(dtype):
    assert hash_longs(np.array([-1, 0, 34], dtype)).tolist() == [hash_long(n) for n in (-1, 0, 34)]


@given(st.integers(0, 21).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n), max_size=8)))
def test_columnar_fixed_bytes_hash_like_single_ones(rows):
    width = len(rows[0]) if rows else 0
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)
    assert hash_fixed_bytes(matrix).tolist() == [hash_bytes(row) for row in rows]


@given(st.lists(st.binary(max_size=90), max_size=30), st.binary(max_size=5), st.sampled_from([np.int32, np.int64]))
def test_columnar_var_bytes_hash_like_single_ones(rows, before, dtype):
    data = np.frombuffer(before + b"".join(rows), np.uint8)
    offsets = np.cumsum([len(before), *map(len, rows)]).astype(dtype)
    assert hash_var_bytes(data, offsets).tolist() == [hash_bytes(row) for row in rows]


def test_columnar_var_bytes_hash_many_rows_of_very_different_lengths():
    random = np.random.default_rng(7)
    lengths = random.choice([0, 1, 2, 3, 4, 5, 31, 63, 64, 65, 66, 1000], 40_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = random.integers(0, 256, offsets[-1], dtype=np.uint8)
    hashes = hash_var_bytes(data, offsets)
    for row in random.choice(len(lengths), 2000):
        assert hashes[row] == hash_bytes(data[offsets[row] : offsets[row + 1]].tobytes())


def test_columnar_hashes_of_nothing():
    assert hash_longs(np.array([], np.int64)).shape == (0,)
    assert hash_var_bytes(np.array([], np.uint8), np.array([0])).shape == (0,)
    assert hash_fixed_bytes(np.zeros((3, 0), np.uint8)).tolist() == [hash_bytes(b"")] * 3


def test_time_of_the_spec_is_micros_from_midnight():
    clock = time(22, 31, 8)
    assert hash_value(TIME, convert(TIME, clock)) == -662762989
