"""How many bytes each of many decimals needs, which is how many its single value has (spec: Appendix D, binary)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fewest_bytes"]


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
