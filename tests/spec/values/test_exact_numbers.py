"""Exact steps between integers, decimals and floats, checked against NumPy and fractions."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from floe.spec.values.exact_numbers import (
    decimal_from_unscaled,
    float32_of_double,
    float_of_decimal,
    nearest_float32,
    shortest_float32,
    unscaled_value,
)


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_unscaled_integer_and_scale_make_a_decimal_and_back(unscaled, scale):
    with decimal.localcontext(prec=5):  # the thread's context must not matter
        value = decimal_from_unscaled(unscaled, scale)
        assert value.as_tuple().exponent == -scale
        assert unscaled_value(value, scale) == unscaled
    assert Fraction(value) == Fraction(unscaled, 10**scale)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30), st.integers(0, 20))
def test_unscaled_value_is_exact_or_none(value, scale):
    exact = Fraction(value) * 10**scale
    assert unscaled_value(value, scale) == (exact.numerator if exact.denominator == 1 else None)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "1E+999999", "1E-999999"])
def test_decimals_without_an_unscaled_value(text):
    assert unscaled_value(Decimal(text), 2) is None


def test_zeros_of_any_exponent():
    assert unscaled_value(Decimal("0E+999999"), 2) == unscaled_value(Decimal("-0E-999999"), 2) == 0


@given(st.floats())
def test_nearest_float32_agrees_with_numpy(value):
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    found = nearest_float32(value)
    if found is None:
        assert math.isinf(expected)
        assert not math.isinf(value)
    else:
        assert found == expected or (math.isnan(found) and math.isnan(expected))


@given(st.floats(width=32, allow_nan=False))
def test_shortest_float32_names_the_float_as_numpy_prints_it(value):
    assert shortest_float32(value) == float(str(np.float32(value)))
    assert float32_of_double(shortest_float32(value)) == value


def test_a_double_that_names_no_float32():
    assert float32_of_double(0.1) == float(np.float32(0.1))
    assert float32_of_double(0.10000000149011612) == float(np.float32(0.1))  # the float32 itself
    assert float32_of_double(0.100000001) is None
    assert float32_of_double(1e300) is None
    assert float32_of_double(16777217.0) is None
    assert float32_of_double(math.inf) == math.inf


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_names_a_double_by_its_shortest_text_or_its_exact_value(value):
    assert float_of_decimal(Decimal(repr(value))) == value
    assert float_of_decimal(Decimal(value)) == value


@pytest.mark.parametrize(
    "text", ["0.10000000000000001", "1E+400", "1E-400", "9007199254740993", "NaN", "sNaN", "Infinity"]
)
def test_decimals_that_name_no_double(text):
    assert float_of_decimal(Decimal(text)) is None
