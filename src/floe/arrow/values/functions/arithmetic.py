"""Functions of numbers: `+ - * / % div`, signs, rounding, powers, logarithms and bits.

`+` and `-` with dates, timestamps or intervals are compiled by `datetimes`. Results have Spark's types: the wider of
two integer types, double for `/` of integers, and for decimals as many digits as the result can have, at most 38. An
overflow and a division by zero are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import DATETIMES, FLOATS, INTEGERS, NUMBERS, bounded_decimal, decimal_of, rescale
from floe.arrow.values.compiled import Compiled, Function, Site, function, literal_of, typed_function
from floe.arrow.values.functions.datetimes import add_to_datetime
from floe.errors import InvalidValue
from floe.spec.types import DOUBLE, FLOAT, INT, LONG, DecimalType, Type
from floe.sql.literals import decimal_for
from floe.sql.values import INTERVAL

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
_MAX_WIDE_PRECISION = 76
_BY_ZERO = "division by zero"
_Kernel = Callable[[pa.Array, pa.Array], pa.Array]


# Binary operators -----------------------------------------------------------------------------------------------------


def _binary(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `+`, `-`, `*` and `%`."""
    left, right = values
    kinds = {left.type.kind, right.type.kind}
    if site.name in "+-" and (INTERVAL.kind in kinds or kinds & set(DATETIMES)):
        return add_to_datetime(site, left, right)
    left, right = (_to_number(site, value, beside) for value, beside in zip(values, values[::-1], strict=True))
    if left.type.kind in FLOATS or right.type.kind in FLOATS:
        return _compute_in_type(site, left, right, FLOAT if left.type == right.type == FLOAT else DOUBLE)
    if left.type.kind in INTEGERS and right.type.kind in INTEGERS:
        return _compute_in_type(site, left, right, INT if left.type == right.type == INT else LONG)
    return _compute_decimals(site, left, right)


def _to_number(site: Site, value: Compiled, other: Compiled | None = None) -> Compiled:
    """Cast a value to a number: text to double, or to bigint if the other operand is an integer; null to int."""
    if value.type.kind in NUMBERS:
        return value
    if value.type.kind not in ("string", "unknown"):
        site.mismatch([value], "numbers")
    if value.type.kind == "unknown":
        return site.cast(value, INT)
    return site.cast(value, LONG if other is not None and other.type.kind in INTEGERS else DOUBLE)


def _compute_in_type(site: Site, left: Compiled, right: Compiled, type_: Type) -> Compiled:
    return site.eager(type_, [site.cast(left, type_), site.cast(right, type_)], _KERNELS[site.name])


def _remainder(dividend: pa.Array, divisor: pa.Array) -> pa.Array:
    """The remainder of a division, with the sign of the dividend; exact for integers."""
    if pa.types.is_floating(dividend.type):
        _check_divisor(dividend, divisor)
        is_valid = pc.and_(dividend.is_valid(), divisor.is_valid())
        remainders = np.fmod(_to_numpy(dividend), np.where(_to_numpy(divisor) == 0, 1, _to_numpy(divisor)))
        return pc.if_else(is_valid, pa.array(remainders, dividend.type), pa.scalar(None, dividend.type))
    # Dividing the least integer by -1 overflows; the remainder for 1 is 0 too.
    minus_one, plus_one = pa.scalar(-1, divisor.type), pa.scalar(1, divisor.type)
    safe_divisor = pc.if_else(pc.equal(divisor, minus_one), plus_one, divisor)
    return pc.subtract_checked(dividend, pc.multiply_checked(pc.divide_checked(dividend, safe_divisor), safe_divisor))


def _to_numpy(array: pa.Array) -> Any:
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False)


def _check_divisor(dividend: pa.Array, divisor: pa.Array) -> None:
    is_zero = pc.and_(pc.equal(divisor, pa.scalar(0, divisor.type)), dividend.is_valid())
    if pc.any(is_zero).as_py():
        raise InvalidValue(_BY_ZERO, hint="test for zero first, or use NULLIF(divisor, 0)")


_KERNELS: dict[str, _Kernel] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "%": _remainder,
    "mod": _remainder,
}


def _divide(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `/`: the quotient of decimals is a decimal, of other numbers a double."""
    dividend, divisor = (_to_number(site, value) for value in values)
    kinds = {dividend.type.kind, divisor.type.kind}
    if "decimal" in kinds and not kinds & set(FLOATS):
        return _compute_decimals(site, dividend, divisor)
    return site.eager(DOUBLE, [site.cast(dividend, DOUBLE), site.cast(divisor, DOUBLE)], _float_quotient)


def _float_quotient(dividend: pa.Array, divisor: pa.Array) -> pa.Array:
    _check_divisor(dividend, divisor)
    return pc.divide(dividend, divisor)


def _integer_division(site: Site, values: Sequence[Compiled]) -> Compiled:
    dividend, divisor = (_to_number(site, value) for value in values)
    if dividend.type.kind not in INTEGERS or divisor.type.kind not in INTEGERS:
        site.mismatch(values, "integers")
    return site.eager(LONG, [site.cast(dividend, LONG), site.cast(divisor, LONG)], _integer_quotient)


def _integer_quotient(dividend: pa.Array, divisor: pa.Array) -> pa.Array:
    _check_divisor(dividend, divisor)
    return pc.divide_checked(dividend, pc.if_else(pc.equal(divisor, 0), 1, divisor))


def _positive_remainder(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `pmod`: the remainder is not negative if the divisor is positive."""
    remainder = _binary(Site("%", site.node, site.text, site.now_us), values)
    divisor = site.cast(values[1], remainder.type)

    def kernel(remainders: pa.Array, divisors: pa.Array) -> pa.Array:
        if isinstance(remainder.type, DecimalType):
            return _compute_exactly(lambda a, b: a + b if a < 0 else a, remainders, divisors, remainder.type)
        positive = _remainder(pc.add_checked(remainders, divisors), divisors)
        return pc.if_else(pc.less(remainders, pa.scalar(0, remainders.type)), positive, remainders)

    return site.eager(remainder.type, [remainder, divisor], kernel)


# Decimals -------------------------------------------------------------------------------------------------------------


def _compute_decimals(site: Site, left: Compiled, right: Compiled) -> Compiled:
    """Compile an operator of decimals; an integer literal has only the digits that it needs, as in `amount * 2`."""
    left_type, right_type = _decimal_type(left), _decimal_type(right)
    type_ = _RESULT_TYPES[site.name](left_type, right_type)
    inputs = [site.cast(left, left_type), site.cast(right, right_type)]
    return site.eager(type_, inputs, partial(_decimal_kernel, site.name, type_))


def _decimal_type(value: Compiled) -> DecimalType:
    literal = literal_of(value)
    if literal is not None and isinstance(literal.value, int):
        return decimal_for(Decimal(literal.value))
    return decimal_of(value.type)


def _sum_type(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(left.scale, right.scale)
    return bounded_decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def _product_type(left: DecimalType, right: DecimalType) -> DecimalType:
    return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)


def _quotient_type(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(6, left.scale + right.precision + 1)
    return bounded_decimal(left.precision - left.scale + right.scale + scale, scale)


def _remainder_type(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(left.scale, right.scale)
    return bounded_decimal(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


_RESULT_TYPES: dict[str, Callable[[DecimalType, DecimalType], DecimalType]] = {
    "+": _sum_type,
    "-": _sum_type,
    "*": _product_type,
    "/": _quotient_type,
    "%": _remainder_type,
    "mod": _remainder_type,
}


def _decimal_kernel(name: str, type_: DecimalType, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compute in 256-bit decimals and round once at the end; value by value if these are not wide enough."""
    (p1, s1), (p2, s2) = ((operand.type.precision, operand.type.scale) for operand in (left, right))
    if name in ("+", "-"):
        wide = pa.decimal256(min(max(p1 - s1, p2 - s2) + max(s1, s2), _MAX_WIDE_PRECISION - 1), max(s1, s2))
        return rescale(_KERNELS[name](pc.cast(left, wide), pc.cast(right, wide)), type_)
    if name == "*" and p1 + p2 + 1 <= _MAX_WIDE_PRECISION:
        return rescale(
            pc.multiply_checked(pc.cast(left, pa.decimal256(p1, s1)), pc.cast(right, pa.decimal256(p2, s2))), type_
        )
    if name == "*":
        return _compute_exactly(_EXACT.multiply, left, right, type_)
    _check_divisor(left, right)
    if name == "/":
        # Arrow truncates the quotient after max(4, scale + p2 - s2 + 1) digits; one more than the result has is enough.
        scale = max(s1, type_.scale - p2 + s2)
        if p1 - s1 + scale + p2 + 1 <= _MAX_WIDE_PRECISION:
            wide_left = pc.cast(left, pa.decimal256(p1 - s1 + scale, scale))
            safe_divisor = pc.if_else(
                pc.equal(right, pa.scalar(Decimal(0), right.type)), pa.scalar(Decimal(1), right.type), right
            )
            return rescale(pc.divide_checked(wide_left, pc.cast(safe_divisor, pa.decimal256(p2, s2))), type_)
        return _compute_exactly(_EXACT.divide, left, right, type_)
    return _compute_exactly(_EXACT.remainder, left, right, type_)


def _compute_exactly(
    operation: Callable[[Decimal, Decimal], Decimal], left: pa.Array, right: pa.Array, type_: DecimalType
) -> pa.Array:
    unit = Decimal(1).scaleb(-type_.scale)
    results: list[Decimal | None] = []
    for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True):
        if a is None or b is None:
            results.append(None)
            continue
        try:
            results.append(operation(a, b).quantize(unit, context=_EXACT))
        except InvalidOperation:
            raise InvalidValue(f"overflow: a result does not fit {type_}") from None
    try:
        return pa.array(results, pa.decimal128(type_.precision, type_.scale))
    except pa.ArrowException:
        raise InvalidValue(f"overflow: a result does not fit {type_}") from None


# Unary functions ------------------------------------------------------------------------------------------------------


def _unary(kernel: Callable[[pa.Array], pa.Array]) -> Function:
    """A function whose result has the type of its argument."""

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        (value,) = (_to_number(site, argument) for argument in values)
        return site.eager(value.type, [value], kernel)

    return function(compile_call, 1)


def _negative(array: pa.Array) -> pa.Array:
    return pc.negate_checked(array)


def _round_to_integer(kernel: Callable[[pa.Array], pa.Array]) -> Function:
    """`floor` and `ceil`: a bigint for doubles, a decimal of scale 0 for decimals."""

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        (value,) = (_to_number(site, argument) for argument in values)
        if value.type.kind in INTEGERS:
            return site.cast(value, LONG)
        if isinstance(value.type, DecimalType):
            type_ = bounded_decimal(value.type.precision - value.type.scale + 1, 0)
            wide_type = pa.decimal256(min(value.type.precision + 1, _MAX_WIDE_PRECISION), value.type.scale)
            return site.eager(type_, [value], lambda array: rescale(kernel(pc.cast(array, wide_type)), type_))
        return site.eager(LONG, [value], lambda array: pc.cast(kernel(array), pa.int64()))

    return function(compile_call, 1)


def _round(mode: str) -> Function:
    """`round` (half up) and `bround` (half to even), with an optional number of digits."""

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = _to_number(site, values[0])
        digits = site.constant_of(site.cast(values[1], INT), "a number of digits") if len(values) > 1 else 0
        if digits is None:
            site.fail(f"{site.name} takes a number of digits, found NULL")
        if isinstance(value.type, DecimalType):
            decimal_type = value.type
            scale = max(0, min(digits, decimal_type.scale))
            type_ = bounded_decimal(
                max(decimal_type.precision - decimal_type.scale + 1 + scale, 1 - min(digits, 0)), scale
            )
            wide_type = pa.decimal256(min(decimal_type.precision + 1, _MAX_WIDE_PRECISION), decimal_type.scale)
            return site.eager(
                type_,
                [value],
                lambda array: pc.cast(
                    pc.round(pc.cast(array, wide_type), digits, round_mode=mode),
                    pa.decimal128(type_.precision, type_.scale),
                ),
            )
        if value.type.kind in INTEGERS and digits >= 0:
            return value
        if value.type.kind in INTEGERS:
            return site.eager(value.type, [value], lambda array: _round_integers(array, digits, mode))
        return site.eager(value.type, [value], lambda array: _round_floats(array, digits, mode))

    return function(compile_call, 1, 2)


def _round_integers(array: pa.Array, digits: int, mode: str) -> pa.Array:
    exact = pc.round(pc.cast(pc.cast(array, pa.int64()), pa.decimal128(20, 0)), digits, round_mode=mode)
    return pc.cast(exact, array.type)


def _round_floats(array: pa.Array, digits: int, mode: str) -> pa.Array:
    """Round the shortest decimal form of each value, as Spark does: 2.675 is rounded to 2.68."""
    rounding = "ROUND_HALF_UP" if mode == "half_towards_infinity" else "ROUND_HALF_EVEN"
    unit, context = Decimal(1).scaleb(-digits), Context(prec=400)

    def rounded(value: float | None) -> float | None:
        if value is None or value != value or abs(value) == float("inf"):
            return value
        return float(Decimal(repr(value)).quantize(unit, rounding, context))

    encoded = array.dictionary_encode()
    return pa.array(map(rounded, encoded.dictionary.to_pylist()), array.type).take(encoded.indices)


def _sign(array: pa.Array) -> pa.Array:
    return pc.cast(pc.sign(array), pa.float64())


def _bitwise(kernel: _Kernel) -> Function:
    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        if any(value.type.kind not in INTEGERS for value in values):
            site.mismatch(values, "integers")
        type_ = INT if all(value.type == INT for value in values) else LONG
        return site.eager(type_, [site.cast(value, type_) for value in values], kernel)

    return function(compile_call, 2)


def _bit_not(site: Site, values: Sequence[Compiled]) -> Compiled:
    if values[0].type.kind not in INTEGERS:
        site.mismatch(values, "an integer")
    return site.eager(values[0].type, values, pc.bit_wise_not)


def _square_root(array: pa.Array) -> pa.Array:
    return pc.sqrt(array)  # NaN of negative numbers, as in Spark


def _logarithm(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """A logarithm that is null for numbers without one, as in Spark."""
    return lambda array: kernel(pc.if_else(pc.greater(array, 0.0), array, None))


FUNCTIONS: dict[str, Function] = {
    **{sign: function(_binary, 2) for sign in ("+", "-", "*", "%", "mod")},
    "/": function(_divide, 2),
    "div": function(_integer_division, 2),
    "pmod": function(_positive_remainder, 2),
    "negative": _unary(_negative),
    "positive": _unary(lambda array: array),
    "abs": _unary(pc.abs_checked),
    "sign": typed_function(DOUBLE, _sign, DOUBLE),
    "signum": typed_function(DOUBLE, _sign, DOUBLE),
    "floor": _round_to_integer(pc.floor),
    "ceil": _round_to_integer(pc.ceil),
    "ceiling": _round_to_integer(pc.ceil),
    "round": _round("half_towards_infinity"),
    "bround": _round("half_to_even"),
    "sqrt": typed_function(DOUBLE, _square_root, DOUBLE),
    "exp": typed_function(DOUBLE, pc.exp, DOUBLE),
    "ln": typed_function(DOUBLE, _logarithm(pc.ln), DOUBLE),
    "log10": typed_function(DOUBLE, _logarithm(pc.log10), DOUBLE),
    "log2": typed_function(DOUBLE, _logarithm(pc.log2), DOUBLE),
    **dict.fromkeys(("power", "pow"), typed_function(DOUBLE, pc.power, DOUBLE, DOUBLE)),
    "&": _bitwise(pc.bit_wise_and),
    "|": _bitwise(pc.bit_wise_or),
    "^": _bitwise(pc.bit_wise_xor),
    "~": function(_bit_not, 1),
}
