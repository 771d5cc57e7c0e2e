"""Whether values differ, null from null not, at any depth: `differs(a, b, …)` asks pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.functions.arity import ANY, Known, known
from floe.arrow.values.functions.comparing import compare, in_common
from floe.arrow.values.rows import Compiled, Site
from floe.spec.types import BOOLEAN

__all__ = ["FUNCTIONS"]


def _differs(site: Site, values: Sequence[Compiled]) -> Compiled:
    if len(values) % 2:
        site.fail("differs takes pairs of values")
    pairs: list[Compiled] = []
    for one, other in zip(values[::2], values[1::2], strict=True):
        if one.type.is_nested or one.type.kind == "variant":
            pairs += [one, site.cast(other, one.type)]
        else:
            pairs += in_common(site, [one, other])[1]

    def kernel(*arrays: pa.Array) -> pa.Array:
        found = (different(one, other) for one, other in zip(arrays[::2], arrays[1::2], strict=True))
        return reduce(pc.or_, found)

    return site.eager(BOOLEAN, pairs, kernel)


def different(one: pa.Array, other: pa.Array) -> pa.Array:
    """Where two arrays of one type differ; never null.

    >>> different(pa.array([1, None, 3]), pa.array([1, None, None])).to_pylist()
    [False, False, True]
    """
    if pa.types.is_null(one.type):
        return pa.repeat(False, len(one))
    if pa.types.is_struct(one.type):
        unlike = pc.xor(one.is_null(), other.is_null())
        names = [one.type.field(n).name for n in range(one.type.num_fields)]
        inside = (different(pc.struct_field(one, name), pc.struct_field(other, name)) for name in names)
        return reduce(pc.or_, inside, unlike)
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return pa.array([_unlike(a, b) for a, b in pairs], pa.bool_())
    return pc.invert(compare("<=>", one, other))


def _unlike(one: Any, other: Any) -> bool:
    return bool(one != other) and repr(one) != repr(other)  # NaN is not equal to itself, but looks the same


FUNCTIONS: dict[str, Known] = {"differs": known(_differs, 2, ANY)}
