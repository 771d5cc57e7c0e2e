"""Numbers: `+ - * / % div`, signs, rounding, powers; moments plus days and intervals are handed to `moments`.

Results have Spark's types: the wider of two whole numbers, double for `/` of whole numbers, and for decimals as many
digits as the result can have, at most 38. An overflow and a division by zero are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import rescaled
from floe.arrow.values.coercion import FLOATS, MOMENTS, NUMBERS, WHOLE, bounded_decimal, decimal_of
from floe.arrow.values.compiled import Compiled, Known, Site, known, literal_of, plain
from floe.arrow.values.functions.datetimes import add_to_moment
from floe.errors import InvalidValue
from floe.spec.types import DOUBLE, FLOAT, INT, LONG, DecimalType, Type
from floe.sql.type_names import decimal_for
from floe.sql.values import INTERVAL

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
_WIDEST = 76
_BY_ZERO = "division by zero"
_Kernel = Callable[[pa.Array, pa.Array], pa.Array]


# two numbers --------------------------------------------------------------------------------------------------


def _binary(site: Site, values: Sequence[Compiled]) -> Compiled:
    """`+`, `-`, `*` and `%`."""
    one, other = values
    kinds = {one.type.kind, other.type.kind}
    if site.name in "+-" and (INTERVAL.kind in kinds or kinds & set(MOMENTS)):
        return add_to_moment(site, one, other)
    one, other = (_number(site, value, beside) for value, beside in zip(values, values[::-1], strict=True))
    if one.type.kind in FLOATS or other.type.kind in FLOATS:
        return _same(site, one, other, FLOAT if one.type == other.type == FLOAT else DOUBLE)
    if one.type.kind in WHOLE and other.type.kind in WHOLE:
        return _same(site, one, other, INT if one.type == other.type == INT else LONG)
    return _of_decimals(site, one, other)


def _number(site: Site, value: Compiled, beside: Compiled | None = None) -> Compiled:
    """The value as a number: text is taken as a double, beside whole numbers as one of them, and null as an int."""
    if value.type.kind in NUMBERS:
        return value
    if value.type.kind not in ("string", "unknown"):
        site.mismatch([value], "numbers")
    if value.type.kind == "unknown":
        return site.cast(value, INT)
    return site.cast(value, LONG if beside is not None and beside.type.kind in WHOLE else DOUBLE)


def _same(site: Site, one: Compiled, other: Compiled, type_: Type) -> Compiled:
    return site.eager(type_, [site.cast(one, type_), site.cast(other, type_)], _KERNELS[site.name])


def _remainder(one: pa.Array, other: pa.Array) -> pa.Array:
    """What is left after division, with the sign of the first; exact for whole numbers."""
    if pa.types.is_floating(one.type):
        _refuse_zero(one, other)
        known = pc.and_(one.is_valid(), other.is_valid())
        found = np.fmod(_numbers(one), np.where(_numbers(other) == 0, 1, _numbers(other)))
        return pc.if_else(known, pa.array(found, one.type), pa.scalar(None, one.type))
    lowest = pa.scalar(-1, other.type)
    safe = pc.if_else(pc.equal(other, lowest), pa.scalar(1, other.type), other)  # of -1 nothing is left, nor of 1
    return pc.subtract_checked(one, pc.multiply_checked(pc.divide_checked(one, safe), safe))


def _numbers(array: pa.Array) -> Any:
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False)


def _refuse_zero(one: pa.Array, other: pa.Array) -> None:
    zero = pc.and_(pc.equal(other, pa.scalar(0, other.type)), one.is_valid())
    if pc.any(zero).as_py():
        raise InvalidValue(_BY_ZERO, hint="test for zero before, or use NULLIF(divisor, 0)")


_KERNELS: dict[str, _Kernel] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "%": _remainder,
    "mod": _remainder,
}


def _divide(site: Site, values: Sequence[Compiled]) -> Compiled:
    """`/`: of decimals a decimal, of everything else a double."""
    one, other = (_number(site, value) for value in values)
    kinds = {one.type.kind, other.type.kind}
    if "decimal" in kinds and not kinds & set(FLOATS):
        return _of_decimals(site, one, other)
    return site.eager(DOUBLE, [site.cast(one, DOUBLE), site.cast(other, DOUBLE)], _float_quotient)


def _float_quotient(one: pa.Array, other: pa.Array) -> pa.Array:
    _refuse_zero(one, other)
    return pc.divide(one, other)


def _whole_quotient(site: Site, values: Sequence[Compiled]) -> Compiled:
    one, other = (_number(site, value) for value in values)
    if one.type.kind not in WHOLE or other.type.kind not in WHOLE:
        site.mismatch(values, "whole numbers")
    return site.eager(LONG, [site.cast(one, LONG), site.cast(other, LONG)], _checked_quotient)


def _checked_quotient(one: pa.Array, other: pa.Array) -> pa.Array:
    _refuse_zero(one, other)
    return pc.divide_checked(one, pc.if_else(pc.equal(other, 0), 1, other))


def _positive_remainder(site: Site, values: Sequence[Compiled]) -> Compiled:
    """`pmod`: never negative for a positive divisor."""
    found = _binary(Site("%", site.node, site.text, site.now_us), values)
    divisor = site.cast(values[1], found.type)

    def kernel(left: pa.Array, other: pa.Array) -> pa.Array:
        if isinstance(found.type, DecimalType):
            return _exactly(lambda a, b: a + b if a < 0 else a, left, other, found.type)
        again = _remainder(pc.add_checked(left, other), other)
        return pc.if_else(pc.less(left, pa.scalar(0, left.type)), again, left)

    return site.eager(found.type, [found, divisor], kernel)


# decimals -----------------------------------------------------------------------------------------------------


def _of_decimals(site: Site, one: Compiled, other: Compiled) -> Compiled:
    """A literal counts as precise as it is written, so that `amount * 2` does not lose digits for nothing."""
    left, right = _decimal_type(one), _decimal_type(other)
    type_ = _RESULTS[site.name](left, right)
    inputs = [site.cast(one, left), site.cast(other, right)]
    return site.eager(type_, inputs, partial(_decimal_kernel, site.name, type_))


def _decimal_type(value: Compiled) -> DecimalType:
    literal = literal_of(value)
    if literal is not None and isinstance(literal.value, int):
        return decimal_for(Decimal(literal.value))
    return decimal_of(value.type)


def _sum_type(one: DecimalType, other: DecimalType) -> DecimalType:
    scale = max(one.scale, other.scale)
    return bounded_decimal(max(one.precision - one.scale, other.precision - other.scale) + scale + 1, scale)


def _product_type(one: DecimalType, other: DecimalType) -> DecimalType:
    return bounded_decimal(one.precision + other.precision + 1, one.scale + other.scale)


def _quotient_type(one: DecimalType, other: DecimalType) -> DecimalType:
    scale = max(6, one.scale + other.precision + 1)
    return bounded_decimal(one.precision - one.scale + other.scale + scale, scale)


def _remainder_type(one: DecimalType, other: DecimalType) -> DecimalType:
    scale = max(one.scale, other.scale)
    return bounded_decimal(min(one.precision - one.scale, other.precision - other.scale) + scale, scale)


_RESULTS: dict[str, Callable[[DecimalType, DecimalType], DecimalType]] = {
    "+": _sum_type,
    "-": _sum_type,
    "*": _product_type,
    "/": _quotient_type,
    "%": _remainder_type,
    "mod": _remainder_type,
}


def _decimal_kernel(name: str, type_: DecimalType, one: pa.Array, other: pa.Array) -> pa.Array:
    """In decimals of 256 bits, rounded once at the end; where those are not wide enough, number by number."""
    (p1, s1), (p2, s2) = ((a.type.precision, a.type.scale) for a in (one, other))
    if name in ("+", "-"):
        wide = pa.decimal256(min(max(p1 - s1, p2 - s2) + max(s1, s2), _WIDEST - 1), max(s1, s2))
        return rescaled(_KERNELS[name](pc.cast(one, wide), pc.cast(other, wide)), type_)
    if name == "*" and p1 + p2 + 1 <= _WIDEST:
        return rescaled(
            pc.multiply_checked(pc.cast(one, pa.decimal256(p1, s1)), pc.cast(other, pa.decimal256(p2, s2))), type_
        )
    if name == "*":
        return _exactly(_EXACT.multiply, one, other, type_)
    _refuse_zero(one, other)
    if name == "/":
        # Arrow cuts the quotient off behind max(4, scale + p2 - s2 + 1) digits; one more than are kept is enough.
        scale = max(s1, type_.scale - p2 + s2)
        if p1 - s1 + scale + p2 + 1 <= _WIDEST:
            wide_one = pc.cast(one, pa.decimal256(p1 - s1 + scale, scale))
            safe = pc.if_else(
                pc.equal(other, pa.scalar(Decimal(0), other.type)), pa.scalar(Decimal(1), other.type), other
            )
            return rescaled(pc.divide_checked(wide_one, pc.cast(safe, pa.decimal256(p2, s2))), type_)
        return _exactly(_EXACT.divide, one, other, type_)
    return _exactly(_EXACT.remainder, one, other, type_)


def _exactly(
    operation: Callable[[Decimal, Decimal], Decimal], one: pa.Array, other: pa.Array, type_: DecimalType
) -> pa.Array:
    unit = Decimal(1).scaleb(-type_.scale)
    found: list[Decimal | None] = []
    for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True):
        if a is None or b is None:
            found.append(None)
            continue
        try:
            found.append(operation(a, b).quantize(unit, context=_EXACT))
        except InvalidOperation:
            raise InvalidValue(f"overflow: a result does not fit {type_}") from None
    try:
        return pa.array(found, pa.decimal128(type_.precision, type_.scale))
    except pa.ArrowException:
        raise InvalidValue(f"overflow: a result does not fit {type_}") from None


# one number ---------------------------------------------------------------------------------------------------


def _unary(kernel: Callable[[pa.Array], pa.Array]) -> Known:
    """A function that keeps the type of its number."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        (value,) = (_number(site, one) for one in values)
        return site.eager(value.type, [value], kernel)

    return known(make, 1)


def _negative(array: pa.Array) -> pa.Array:
    return pc.negate_checked(array)


def _to_whole(kernel: Callable[[pa.Array], pa.Array]) -> Known:
    """`floor` and `ceil`: of doubles a bigint, of decimals a decimal without digits behind the point."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        (value,) = (_number(site, one) for one in values)
        if value.type.kind in WHOLE:
            return site.cast(value, LONG)
        if isinstance(value.type, DecimalType):
            type_ = bounded_decimal(value.type.precision - value.type.scale + 1, 0)
            room = pa.decimal256(min(value.type.precision + 1, _WIDEST), value.type.scale)
            return site.eager(type_, [value], lambda array: rescaled(kernel(pc.cast(array, room)), type_))
        return site.eager(LONG, [value], lambda array: pc.cast(kernel(array), pa.int64()))

    return known(make, 1)


def _round(mode: str) -> Known:
    """`round` (half up) and `bround` (half to even), to so many digits."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = _number(site, values[0])
        digits = site.constant_of(site.cast(values[1], INT), "a number of digits") if len(values) > 1 else 0
        if digits is None:
            site.fail(f"{site.name} takes a number of digits, found NULL")
        if isinstance(value.type, DecimalType):
            old = value.type
            scale = max(0, min(digits, old.scale))
            type_ = bounded_decimal(max(old.precision - old.scale + 1 + scale, 1 - min(digits, 0)), scale)
            room = pa.decimal256(min(old.precision + 1, _WIDEST), old.scale)
            return site.eager(
                type_,
                [value],
                lambda array: pc.cast(
                    pc.round(pc.cast(array, room), digits, round_mode=mode), pa.decimal128(type_.precision, type_.scale)
                ),
            )
        if value.type.kind in WHOLE and digits >= 0:
            return value
        if value.type.kind in WHOLE:
            return site.eager(value.type, [value], lambda array: _round_whole(array, digits, mode))
        return site.eager(value.type, [value], lambda array: _round_float(array, digits, mode))

    return known(make, 1, 2)


def _round_whole(array: pa.Array, digits: int, mode: str) -> pa.Array:
    exact = pc.round(pc.cast(pc.cast(array, pa.int64()), pa.decimal128(20, 0)), digits, round_mode=mode)
    return pc.cast(exact, array.type)


def _round_float(array: pa.Array, digits: int, mode: str) -> pa.Array:
    """By the digits that a person sees, as Spark does: 2.675 is rounded to 2.68."""
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


def _bits(kernel: _Kernel) -> Known:
    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        if any(value.type.kind not in WHOLE for value in values):
            site.mismatch(values, "whole numbers")
        type_ = INT if all(value.type == INT for value in values) else LONG
        return site.eager(type_, [site.cast(value, type_) for value in values], kernel)

    return known(make, 2)


def _bit_not(site: Site, values: Sequence[Compiled]) -> Compiled:
    if values[0].type.kind not in WHOLE:
        site.mismatch(values, "a whole number")
    return site.eager(values[0].type, values, pc.bit_wise_not)


def _root(array: pa.Array) -> pa.Array:
    return pc.sqrt(array)  # NaN of negative numbers, as in Spark


def _logarithm(kernel: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """Null of numbers that have none, as in Spark."""
    return lambda array: kernel(pc.if_else(pc.greater(array, 0.0), array, None))


FUNCTIONS: dict[str, Known] = {
    **{sign: known(_binary, 2) for sign in ("+", "-", "*", "%", "mod")},
    "/": known(_divide, 2),
    "div": known(_whole_quotient, 2),
    "pmod": known(_positive_remainder, 2),
    "negative": _unary(_negative),
    "positive": _unary(lambda array: array),
    "abs": _unary(pc.abs_checked),
    "sign": plain(DOUBLE, _sign, DOUBLE),
    "signum": plain(DOUBLE, _sign, DOUBLE),
    "floor": _to_whole(pc.floor),
    "ceil": _to_whole(pc.ceil),
    "ceiling": _to_whole(pc.ceil),
    "round": _round("half_towards_infinity"),
    "bround": _round("half_to_even"),
    "sqrt": plain(DOUBLE, _root, DOUBLE),
    "exp": plain(DOUBLE, pc.exp, DOUBLE),
    "ln": plain(DOUBLE, _logarithm(pc.ln), DOUBLE),
    "log10": plain(DOUBLE, _logarithm(pc.log10), DOUBLE),
    "log2": plain(DOUBLE, _logarithm(pc.log2), DOUBLE),
    **dict.fromkeys(("power", "pow"), plain(DOUBLE, pc.power, DOUBLE, DOUBLE)),
    "&": _bits(pc.bit_wise_and),
    "|": _bits(pc.bit_wise_or),
    "^": _bits(pc.bit_wise_xor),
    "~": known(_bit_not, 1),
}
