"""How many bytes a decimal of a given precision needs: the one rule that Avro and Parquet share (spec: Appendix A)."""

from __future__ import annotations

from floe.errors import InvalidType
from floe.spec.types import MAX_DECIMAL_PRECISION

__all__ = ["bytes_for_precision"]


def bytes_for_precision(precision: int) -> int:
    """The fewest bytes whose two's complement holds every number of that many digits.

    >>> [bytes_for_precision(p) for p in (1, 2, 3, 9, 18, 19, 38)]
    [1, 1, 2, 4, 8, 9, 16]
    """
    if not 1 <= precision <= MAX_DECIMAL_PRECISION:
        raise InvalidType(f"decimal precision must be 1 to {MAX_DECIMAL_PRECISION}, found {precision}")
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1  # one bit more than the number itself, for the sign
