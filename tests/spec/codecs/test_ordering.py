"""The order of values of each type."""

import math
import struct
from functools import cmp_to_key
from itertools import pairwise
from uuid import UUID as Uuid

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidInput
from floe.spec import types as t
from floe.spec.types import DecimalType, Field, FixedType, GeographyType, GeometryType, ListType, MapType, StructType
from floe.spec.values.value_order import compare, sort_key
from helpers.value_strategies import primitive_types, values_of

NEGATIVE_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000000"))[0]


@pytest.mark.parametrize("type_", [t.FLOAT, t.DOUBLE], ids=str)
def test_floats_run_from_minus_nan_to_nan_with_minus_zero_below_zero(type_):
    in_order = [NEGATIVE_NAN, -math.inf, -1.5, -1e-30, -0.0, 0.0, 1e-30, 1.5, math.inf, math.nan]
    backwards = in_order[::-1]
    found = sorted(backwards, key=sort_key(type_))
    assert [struct.pack(">d", x) for x in found] == [struct.pack(">d", x) for x in in_order]


@given(st.lists(st.floats(allow_nan=False)))
def test_floats_are_in_the_order_of_numbers(numbers):
    found = sorted(numbers, key=sort_key(t.DOUBLE))
    assert all(one <= other for one, other in pairwise(found))


def test_nan_equals_itself():
    assert compare(t.DOUBLE, math.nan, math.nan) == 0
    assert compare(t.DOUBLE, -0.0, 0.0) == -1


def test_uuids_compare_as_unsigned_bytes():
    # Java's UUID.compareTo takes the halves for signed numbers and would turn these round
    low, high = Uuid("7fffffff-ffff-ffff-ffff-ffffffffffff"), Uuid("80000000-0000-0000-0000-000000000000")
    assert compare(t.UUID, low, high) == -1


def test_bytes_compare_unsigned_and_a_prefix_comes_first():
    for type_ in (t.BINARY, FixedType(2)):
        assert compare(type_, b"\x7f", b"\x80") == -1
        assert compare(type_, b"\x01", b"\x01\x00") == -1


@given(values_of(t.STRING), values_of(t.STRING))
def test_strings_compare_as_their_utf8_bytes(one, other):
    first, second = one.encode(), other.encode()
    assert compare(t.STRING, one, other) == (first > second) - (first < second)


def test_strings_beyond_the_basic_plane_come_last():
    # as UTF-16, which Java compares, the surrogates of U+10000 would come before U+FFFF
    assert compare(t.STRING, "\uffff", "\U00010000") == -1


@given(primitive_types().flatmap(lambda x: st.tuples(st.just(x), st.lists(values_of(x), max_size=8))))
def test_order_is_total_and_keys_agree_with_compare(typed):
    type_, values = typed
    by_key = sorted(values, key=sort_key(type_))
    by_compare = sorted(values, key=cmp_to_key(lambda a, b: compare(type_, a, b)))
    assert list(map(repr, by_key)) == list(map(repr, by_compare))
    for one, other in pairwise(by_key):
        assert compare(type_, one, other) in (-1, 0)
        assert compare(type_, other, one) == -compare(type_, one, other)


@given(st.lists(values_of(DecimalType(9, 2))))
def test_decimals_and_integers_are_in_the_order_of_numbers(numbers):
    assert sorted(numbers, key=sort_key(DecimalType(9, 2))) == sorted(numbers)


def test_structs_and_lists_compare_part_by_part_with_null_first():
    point = StructType((Field(1, "x", t.INT), Field(2, "y", t.DOUBLE)))
    in_order = [{}, {"x": None, "y": 1.0}, {"x": 1}, {"x": 1, "y": math.inf}, {"x": 1, "y": math.nan}, {"x": 2}]
    backwards = in_order[::-1]
    assert sorted(backwards, key=sort_key(point)) == in_order
    lists = [[], [None], [None, 1], [1], [1, None], [1, 2], [2]]
    backwards = lists[::-1]
    assert sorted(backwards, key=sort_key(ListType(1, t.INT))) == lists


def test_maps_compare_entry_by_entry_in_the_order_of_keys():
    counts = MapType(1, t.STRING, 2, t.INT)
    assert compare(counts, {"b": 1, "a": 2}, {"a": 2, "b": 1}) == 0
    assert compare(counts, {"a": None}, {"a": 1}) == -1
    nested = MapType(1, ListType(3, t.INT), 2, t.INT)
    assert compare(nested, [([1], 1)], [([2], 0)]) == -1


@pytest.mark.parametrize("type_", [t.VARIANT, GeometryType(), GeographyType(), ListType(1, t.VARIANT)], ids=str)
def test_types_without_an_order(type_):
    with pytest.raises(InvalidInput, match="no order"):
        sort_key(type_)
