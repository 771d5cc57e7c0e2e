"""Exact conversions between integers, decimals and floats, without implicit rounding.

Two rules hold throughout Floe. A decimal is its unscaled integer and its scale. And a float *is identified* by its
shortest text: the decimal `0.1` means the double that prints as `0.1`, and the 32-bit float that prints as `0.1`,
although neither holds a tenth exactly.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal, Inexact

from floe.errors import InvalidType
from floe.spec.types import MAX_DECIMAL_PRECISION

# Wide enough for any decimal of the format (38 digits); the thread's own context may be narrower.
_WIDE = Context(prec=80, traps=[Inexact])
_FLOAT32 = struct.Struct("<f")


def decimal_from_unscaled(unscaled: int, scale: int) -> Decimal:
    """Return the decimal of an unscaled integer of at most 80 digits.

    >>> decimal_from_unscaled(1420, 2)
    Decimal('14.20')
    """
    return _WIDE.scaleb(Decimal(unscaled), -scale)


def unscaled_value(value: Decimal, scale: int) -> int | None:
    """Return the unscaled integer of `value` at a scale, or None where that would lose digits.

    >>> unscaled_value(Decimal("14.2"), 2), unscaled_value(Decimal("14.205"), 2)
    (1420, None)
    """
    if not value.is_finite():
        return None
    if not value:
        return 0
    if value.adjusted() + scale >= _WIDE.prec:  # 1E+999999 would be a number of a million digits
        return None
    try:
        scaled = _WIDE.scaleb(value, scale)
    except Inexact:
        return None
    unscaled = int(scaled)
    return unscaled if unscaled == scaled else None


def nearest_float32(value: float) -> float | None:
    """Return the 32-bit float nearest to a number, or None where that would be infinity.

    >>> nearest_float32(0.1), nearest_float32(1e300)
    (0.10000000149011612, None)
    """
    try:
        (out,) = _FLOAT32.unpack(_FLOAT32.pack(value))
    except OverflowError:
        return None
    return float(out)


def shortest_float32(value: float) -> float:
    """Return the double with the fewest digits that rounds to a 32-bit float.

    >>> shortest_float32(0.10000000149011612)
    0.1
    """
    if not math.isfinite(value):
        return value
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if nearest_float32(short) == value:
            return short
    return float(f"{value:.9g}")  # nine digits always tell two 32-bit floats apart


def float_of_decimal(value: Decimal) -> float | None:
    """Return the double that equals a decimal or has it as its shortest text; None if there is none.

    >>> float_of_decimal(Decimal("0.1")), float_of_decimal(Decimal("0.10000000000000001"))
    (0.1, None)
    """
    if not value.is_finite():
        return None
    number = float(value)
    if math.isinf(number):
        return None
    return number if value in (Decimal(number), Decimal(repr(number))) else None


def float32_of_double(value: float) -> float | None:
    """Return the 32-bit float that equals a double or has it as its shortest text; None if there is none.

    >>> float32_of_double(0.1), float32_of_double(0.5), float32_of_double(0.123456789012)
    (0.10000000149011612, 0.5, None)
    """
    if math.isnan(value):
        return value
    nearest = nearest_float32(value)
    if nearest is None or (nearest != value and shortest_float32(nearest) != value):
        return None
    return nearest


def bytes_for_precision(precision: int) -> int:
    """Return the fewest bytes whose two's complement holds every number of that many digits.

    Avro and Parquet share this rule (spec: Appendix A).

    >>> [bytes_for_precision(p) for p in (1, 2, 3, 9, 18, 19, 38)]
    [1, 1, 2, 4, 8, 9, 16]
    """
    if not 1 <= precision <= MAX_DECIMAL_PRECISION:
        raise InvalidType(f"decimal precision must be 1 to {MAX_DECIMAL_PRECISION}, found {precision}")
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1  # one bit more than the number itself, for the sign
