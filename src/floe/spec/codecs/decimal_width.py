"""How many bytes decimals need: all of a precision, as in Avro and Parquet (spec: Appendix A), and each by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidType
from floe.spec.types import MAX_DECIMAL_PRECISION

__all__ = ["bytes_for_precision", "fewest_bytes"]


def bytes_for_precision(precision: int) -> int:
    """The fewest bytes whose two's complement holds every number of that many digits.

    >>> [bytes_for_precision(p) for p in (1, 2, 3, 9, 18, 19, 38)]
    [1, 1, 2, 4, 8, 9, 16]
    """
    if not 1 <= precision <= MAX_DECIMAL_PRECISION:
        raise InvalidType(f"decimal precision must be 1 to {MAX_DECIMAL_PRECISION}, found {precision}")
    largest: int = 10**precision - 1
    return largest.bit_length() // 8 + 1  # one bit more than the number itself, for the sign


def fewest_bytes(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bytes hold each number and its sign: one, and one more for every eight bits beyond seven.

    Numbers are pairs of 64-bit words, the low one first.

    >>> fewest_bytes(np.array([[127, 0], [128, 0], [-128, -1], [0, 1]])).tolist()
    [1, 2, 1, 9]
    """
    # the bits of a negative number, turned over, are as many as those of the number that they make
    low, high = (words[:, n] ^ (words[:, 1] >> 63) for n in (0, 1))
    lengths = np.ones(len(words), np.int64)
    beyond_low = high > 0
    unsigned = low.view(np.uint64)
    for byte in range(1, 9):
        lengths += beyond_low | (unsigned >= np.uint64(1 << (8 * byte - 1)))
    if beyond_low.any():
        for byte in range(1, 8):
            lengths += high >= np.int64(1 << (8 * byte - 1))
    return lengths
