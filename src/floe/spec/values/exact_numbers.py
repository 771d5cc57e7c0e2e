"""Exact steps between integers, decimals and floats, with no rounding that nobody asked for.

Two rules run through Floe. A decimal is its unscaled integer and its scale. And a float *is called* by its shortest
text: the decimal `0.1` names the double that prints as `0.1`, and the 32-bit float that prints as `0.1`, although
neither holds a tenth exactly.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal, Inexact

__all__ = [
    "decimal_from_unscaled",
    "float32_named",
    "float_named",
    "nearest_float32",
    "shortest_float32",
    "unscaled_value",
]

# Wide enough for any decimal of the format (38 digits); the thread's own context, which may be narrower, is not asked.
_WIDE = Context(prec=80, traps=[Inexact])
_FLOAT32 = struct.Struct("<f")


def decimal_from_unscaled(unscaled: int, scale: int) -> Decimal:
    """The decimal of an unscaled integer of at most 80 digits.

    >>> decimal_from_unscaled(1420, 2)
    Decimal('14.20')
    """
    return _WIDE.scaleb(Decimal(unscaled), -scale)


def unscaled_value(value: Decimal, scale: int) -> int | None:
    """The integer that gives `value` at a scale, or None where that would lose digits.

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
    """The 32-bit float nearest to a number, or None where only infinity would be left.

    >>> nearest_float32(0.1), nearest_float32(1e300)
    (0.10000000149011612, None)
    """
    try:
        (out,) = _FLOAT32.unpack(_FLOAT32.pack(value))
    except OverflowError:
        return None
    return float(out)


def shortest_float32(value: float) -> float:
    """The number with the fewest digits that names a 32-bit float.

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


def float_named(value: Decimal) -> float | None:
    """The double that a decimal names: the one that holds it exactly or has it as its shortest text; else None.

    >>> float_named(Decimal("0.1")), float_named(Decimal("0.10000000000000001"))
    (0.1, None)
    """
    if not value.is_finite():
        return None
    number = float(value)
    if math.isinf(number):
        return None
    return number if value in (Decimal(number), Decimal(repr(number))) else None


def float32_named(value: float) -> float | None:
    """The 32-bit float that a double names: the one that holds it exactly or has it as its shortest text; else None.

    >>> float32_named(0.1), float32_named(0.5), float32_named(0.123456789012)
    (0.10000000149011612, 0.5, None)
    """
    if math.isnan(value):
        return value
    near = nearest_float32(value)
    if near is None or (near != value and shortest_float32(near) != value):
        return None
    return near
