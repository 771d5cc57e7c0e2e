"""Transforms of whole columns give what the transform gives for each value, in every layout."""

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidPartitionSpec, InvalidValue, UnsupportedFeature
from floe.spec import types as t
from floe.spec.partitioning.columnar_transforms import apply
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Bucket, Truncate, UnknownTransform
from floe.spec.types import DecimalType, FixedType
from floe.spec.values.exact_numbers import decimal_from_unscaled, unscaled_value
from helpers.transforms import COMPUTED, allowed_id
from helpers.value_strategies import values_of

NUMBERS = {"int": np.int32, "date": np.int32}


def to_column(source, values):
    """Values, none of them null, in the layout of their type."""
    if source.kind in ("string", "binary"):
        parts = [v.encode() if isinstance(v, str) else v for v in values]
        return np.frombuffer(b"".join(parts), np.uint8), np.cumsum([0, *map(len, parts)])
    if source.kind in ("uuid", "fixed"):
        parts = [v if isinstance(v, bytes) else v.bytes for v in values]
        width = source.length if isinstance(source, FixedType) else 16
        return np.frombuffer(b"".join(parts), np.uint8).reshape(len(values), width)
    if isinstance(source, DecimalType):
        whole = [unscaled_value(v, source.scale) for v in values]
        words = [[n & (2**64 - 1), (n >> 64) & (2**64 - 1)] for n in whole]
        return np.array(words, np.uint64).reshape(len(values), 2).view(np.int64)
    return np.array(values, NUMBERS.get(source.kind, np.int64))


def from_column(source, column):
    if isinstance(column, tuple):
        data, offsets = column[0].tobytes(), column[1].tolist()
        parts = [data[a:b] for a, b in pairwise(offsets)]
        return [part.decode() for part in parts] if source.kind == "string" else parts
    if isinstance(source, DecimalType) and column.ndim == 2:
        return [
            decimal_from_unscaled((high << 64) + (low & (2**64 - 1)), source.scale) for low, high in column.tolist()
        ]
    return column.tolist()


def one_by_one(transform, source, values):
    """The results, or the error that the first of them raises."""
    try:
        return [transform.apply(source, v) for v in values]
    except InvalidValue as error:
        return type(error)


def at_once(transform, source, values):
    try:
        column, valid = apply(transform, source, to_column(source, values))
    except InvalidValue as error:
        return type(error)
    assert valid is None
    return from_column(transform.result_type(source), column)


@pytest.mark.parametrize(("transform", "source"), COMPUTED, ids=allowed_id)
@settings(max_examples=30)
@given(data=st.data())
def test_columns_give_what_single_values_give(transform, source, data):
    values = data.draw(st.lists(values_of(source), max_size=12))
    assert at_once(transform, source, values) == one_by_one(transform, source, values)


@pytest.mark.parametrize(("transform", "source"), COMPUTED, ids=allowed_id)
@settings(max_examples=10)
@given(data=st.data())
def test_columns_of_objects_give_what_single_values_give(transform, source, data):
    values = data.draw(st.lists(st.none() | values_of(source), max_size=6))
    objects = np.empty(len(values), object)
    objects[:] = values
    expected = one_by_one(transform, source, values)
    try:
        column, valid = apply(transform, source, objects)
    except InvalidValue:
        assert expected is InvalidValue
        return
    assert (valid is None) == (None not in values)
    found = column.tolist() if valid is None else [v if ok else None for v, ok in zip(column, valid, strict=True)]
    assert found == expected


def test_results_that_are_counts_and_dates_have_32_bits():
    micros = np.array([0, 1], np.int64)
    for transform in (YEAR, MONTH, DAY, HOUR, Bucket(8)):
        column, _ = apply(transform, t.TIMESTAMP, micros)
        assert column.dtype == np.int32


def test_truncated_numbers_keep_their_width():
    assert apply(Truncate(3), t.INT, np.array([5], np.int32))[0].dtype == np.int32
    assert apply(Truncate(3), t.LONG, np.array([5], np.int64))[0].dtype == np.int64


def test_every_date_of_two_centuries_against_datetime():
    epoch = date(1970, 1, 1)
    days = np.arange((date(1900, 1, 1) - epoch).days, (date(2101, 1, 1) - epoch).days, dtype=np.int32)
    real = [epoch + timedelta(int(d)) for d in days]
    assert apply(YEAR, t.DATE, days)[0].tolist() == [d.year - 1970 for d in real]
    assert apply(MONTH, t.DATE, days)[0].tolist() == [(d.year - 1970) * 12 + d.month - 1 for d in real]
    assert apply(DAY, t.DATE, days)[0].tolist() == days.tolist()


def test_all_16_bit_numbers_truncated_to_many_widths():
    numbers = np.arange(-(2**15), 2**15, dtype=np.int32)
    for width in (1, 2, 3, 7, 10, 16, 100, 999, 2**14, 2**15, 2**16 + 1, 2**31 - 1):
        expected = np.array([n - n % width for n in numbers.tolist()])
        if expected.min() >= -(2**31):
            assert np.array_equal(apply(Truncate(width), t.INT, numbers)[0], expected)
        assert np.array_equal(apply(Truncate(width), t.LONG, numbers.astype(np.int64))[0], expected)


@pytest.mark.parametrize(
    ("source", "values", "transform"),
    [
        (t.INT, [5, -(2**31)], Truncate(10)),
        (t.INT, [-(2**31)], Truncate(2**31 - 1)),
        (t.LONG, [-(2**63) + 1], Truncate(3)),
        (DecimalType(2, 0), [decimal_from_unscaled(-95, 0)], Truncate(10)),
        (DecimalType(38, 2), [decimal_from_unscaled(-(10**38) + 1, 2)], Truncate(7)),
        (t.TIMESTAMP, [2**63 - 1], HOUR),
        (t.TIMESTAMP, [-(2**63)], HOUR),
    ],
    ids=allowed_id,
)
def test_values_without_a_result_are_refused_unless_null(source, values, transform):
    assert one_by_one(transform, source, values) is InvalidValue
    with pytest.raises(InvalidValue, match="does not fit the type of the result"):
        apply(transform, source, to_column(source, values))
    nulls = np.zeros(len(values), np.bool_)
    _, valid = apply(transform, source, to_column(source, values), nulls)
    assert valid is nulls


def test_the_message_shows_the_value_that_was_refused():
    with pytest.raises(InvalidValue, match=r"truncate\[10\] of -2147483648 of type int does not fit"):
        apply(Truncate(10), t.INT, np.array([1, -(2**31)], np.int32))
    with pytest.raises(InvalidValue, match=r"truncate\[10\] of -95 of type decimal\(2, ?0\)"):
        apply(Truncate(10), DecimalType(2, 0), to_column(DecimalType(2, 0), [decimal_from_unscaled(-95, 0)]))


def test_identity_gives_the_column_back_and_void_gives_nulls():
    values, valid = np.array([1, 2]), np.array([True, False])
    assert apply(IDENTITY, t.LONG, values, valid) == (values, valid)
    assert apply(VOID, t.LONG, values)[1].tolist() == [False, False]
    assert apply(VOID, t.STRING, to_column(t.STRING, ["a", "b", "c"]))[1].tolist() == [False] * 3


def test_unknown_transforms_and_wrong_types_are_refused():
    with pytest.raises(UnsupportedFeature):
        apply(UnknownTransform("x"), t.LONG, np.array([1]))
    with pytest.raises(InvalidPartitionSpec):
        apply(Bucket(2), t.DOUBLE, np.array([1.0]))


def test_text_is_cut_between_code_points_of_every_length():
    words = ["aé€😀" * n for n in range(5)]
    for width in range(1, 20):
        column, _ = apply(Truncate(width), t.STRING, to_column(t.STRING, words))
        assert from_column(t.STRING, column) == [word[:width] for word in words]


def test_var_length_columns_may_begin_anywhere_in_their_bytes():
    data, offsets = to_column(t.STRING, ["skip", "iceberg", "né", ""])
    column, _ = apply(Truncate(3), t.STRING, (data, offsets[1:]))
    assert from_column(t.STRING, column) == ["ice", "né", ""]
    assert apply(Bucket(100), t.STRING, (data, offsets[1:]))[0].tolist()[0] == 89


def test_decimals_around_every_power_of_two_hash_alike():
    source = DecimalType(38, 0)
    edges = [sign * 2**bits + step for bits in range(126) for sign in (-1, 1) for step in (-1, 0, 1)]
    values = [decimal_from_unscaled(n, 0) for n in edges if abs(n) < 10**38]
    assert at_once(Bucket(2**31 - 1), source, values) == one_by_one(Bucket(2**31 - 1), source, values)
