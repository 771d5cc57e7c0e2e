"""Truncated bounds: never above a lower one, never below an upper one, and as short as asked."""

import pytest
from hypothesis import example, given, strategies as st
from pyiceberg.utils import truncate as pyiceberg_truncate

from floe.errors import InvalidInput
from floe.spec.codecs.single_value import truncate_lower, truncate_upper
from floe.spec.types import BINARY, LONG, STRING, FixedType
from helpers.value_strategies import TEXT, primitive_types, typed_values

LENGTHS = st.integers(0, 20)
HIGH_TEXT = st.text(st.sampled_from("a\u007f\ud7ff\ue000\uffff\U00010000\U0010ffff"))


def test_lower_bound_of_a_string_is_a_prefix_by_code_points():
    assert truncate_lower(STRING, "iceberg", 4) == "iceb"
    assert truncate_lower(STRING, "\U0001f9ca\U0001f9cb", 1) == "\U0001f9ca"
    assert truncate_lower(STRING, "ice", 4) == "ice"


def test_upper_bound_of_a_string_counts_up_its_last_code_point():
    assert truncate_upper(STRING, "iceberg", 4) == "icec"
    assert truncate_upper(STRING, "a\x7fb", 2) == "a\x80"
    assert truncate_upper(STRING, "\U0001f9ca\U0001f9cb", 1) == "\U0001f9cb"


def test_upper_bound_that_is_short_enough_stays():
    assert truncate_upper(STRING, "iceb", 4) == "iceb"
    assert truncate_upper(STRING, "", 0) == ""
    assert truncate_upper(BINARY, b"\xff\xff", 2) == b"\xff\xff"


def test_upper_bound_steps_over_surrogates():
    assert truncate_upper(STRING, "a\ud7ffb", 2) == "a\ue000"


def test_upper_bound_drops_the_last_code_point_of_all():
    assert truncate_upper(STRING, "ab\U0010ffffc", 3) == "ac"
    assert truncate_upper(STRING, "a\U0010ffff\U0010ffffc", 3) == "b"


def test_upper_bound_that_cannot_be():
    assert truncate_upper(STRING, "\U0010ffff\U0010ffff", 1) is None
    assert truncate_upper(BINARY, b"\xff\xff\xff", 2) is None
    assert truncate_upper(STRING, "a", 0) is None


def test_upper_bound_of_bytes_carries():
    assert truncate_upper(BINARY, b"\x01\x02\x03", 2) == b"\x01\x03"
    assert truncate_upper(BINARY, b"\x01\xff\x03", 2) == b"\x02"
    assert truncate_upper(BINARY, b"\x01\xff\xff\x00", 3) == b"\x02"


def test_lower_bound_of_bytes_is_a_prefix():
    assert truncate_lower(BINARY, b"\x01\x02\x03", 2) == b"\x01\x02"


@given(typed_values(primitive_types()), st.integers(0, 3))
def test_other_types_stay_whole(typed, length):
    type_, value = typed
    if type_ not in (STRING, BINARY):
        assert truncate_lower(type_, value, length) is value
        assert truncate_upper(type_, value, length) is value


def test_fixed_keeps_its_length():
    assert truncate_upper(FixedType(3), b"abc", 1) == b"abc"


def test_negative_length():
    for truncate in (truncate_lower, truncate_upper):
        with pytest.raises(InvalidInput, match="truncated to -1"):
            truncate(LONG, 1, -1)


@given(TEXT | HIGH_TEXT, LENGTHS)
@example("\ud7ff\ud7ff", 1)
@example("\U0010ffff" * 3, 2)
def test_string_bounds_hold(value, length):
    lower, upper = truncate_lower(STRING, value, length), truncate_upper(STRING, value, length)
    assert len(lower) <= length
    assert lower <= value
    assert lower.encode() <= value.encode()
    if upper is None:
        assert set(value[:length]) <= {"\U0010ffff"}
    else:
        assert len(upper) <= length
        assert upper >= value
        assert upper.encode() >= value.encode()


@given(TEXT | HIGH_TEXT, TEXT | HIGH_TEXT, st.integers(1, 5))
def test_upper_bound_of_a_string_is_above_all_with_the_same_prefix(value, tail, length):
    upper = truncate_upper(STRING, value, length)
    if upper is not None and len(value) > length:
        assert upper > value[:length] + tail


@given(st.binary(max_size=8) | st.lists(st.sampled_from([0, 0x7F, 0x80, 0xFF])).map(bytes), LENGTHS)
@example(b"\xff\xff\xff", 2)
def test_binary_bounds_hold(value, length):
    lower, upper = truncate_lower(BINARY, value, length), truncate_upper(BINARY, value, length)
    assert len(lower) <= length
    assert lower <= value
    if upper is None:
        assert set(value[:length]) <= {0xFF}
    else:
        assert len(upper) <= length
        assert upper >= value


@given(TEXT, st.integers(1, 20))
def test_pyiceberg_gives_the_same_upper_bound_of_a_string_but_for_what_it_keeps_behind_a_carry(value, length):
    # PyIceberg counts up without dropping the highest code points behind, which is above too, only longer
    theirs = pyiceberg_truncate.truncate_upper_bound_text_string(value, length)
    ours = truncate_upper(STRING, value, length)
    if theirs is None or len(value) <= length:
        assert theirs == ours
    else:
        assert theirs.startswith(ours)


@given(st.binary(), st.integers(1, 20))
def test_pyiceberg_gives_the_same_upper_bound_of_bytes_but_for_what_it_keeps_behind_a_carry(value, length):
    theirs = pyiceberg_truncate.truncate_upper_bound_binary_string(value, length)
    ours = truncate_upper(BINARY, value, length)
    assert theirs == ours if theirs is None else theirs.startswith(ours)


def test_pyiceberg_counts_up_into_the_surrogates():
    theirs = pyiceberg_truncate.truncate_upper_bound_text_string("a\ud7ffb", 2)
    with pytest.raises(UnicodeEncodeError):
        theirs.encode()
    assert truncate_upper(STRING, "a\ud7ffb", 2).encode() == b"a\xee\x80\x80"
