"""One value of several: CASE, IF, COALESCE, NULLIF, GREATEST, LEAST.

A branch is asked only of the rows that take it: `case when n <> 0 then total / n end` divides nothing by zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.functions.arity import ANY, Known, known
from floe.arrow.values.functions.comparing import compare, in_common
from floe.arrow.values.rows import Compiled, Mask, Rows, Site
from floe.formats.arrow_types import arrow_type
from floe.spec.types import BOOLEAN, Type

__all__ = ["FUNCTIONS"]


def _case(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Conditions and values in turn; the last value, if it is alone, is that of ELSE."""
    conditions = [_condition(site, value) for value in values[: len(values) // 2 * 2 : 2]]
    type_, results = in_common(site, [*values[1 : len(conditions) * 2 : 2], *values[len(conditions) * 2 :]])

    def array(rows: Rows) -> pa.Array:
        left = np.arange(rows.count)
        parts: list[tuple[np.ndarray, Compiled | None]] = []
        for condition, result in zip(conditions, results, strict=False):
            true = condition.mask(rows if len(left) == rows.count else rows.take(left))
            parts.append((left[true], result))
            left = left[~true]
        parts.append((left, results[-1] if len(results) > len(conditions) else None))
        return _together(rows, parts, type_)

    return site.lazy(type_, [*conditions, *results], array)


def _together(rows: Rows, parts: Sequence[tuple[np.ndarray, Compiled | None]], type_: Type) -> pa.Array:
    """A column whose rows come from several values, each asked of its own rows alone."""
    arrays, places = [], []
    for chosen, value in parts:
        if not len(chosen):
            continue
        whole = len(chosen) == rows.count
        if value is None:
            arrays.append(pa.nulls(len(chosen), arrow_type(type_)))
        else:
            arrays.append(value.array(rows if whole else rows.take(chosen)))
        if whole:
            return arrays[-1]
        places.append(chosen)
    if not arrays:
        return pa.nulls(0, arrow_type(type_))
    return pa.concat_arrays(arrays).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))


def _condition(site: Site, value: Compiled) -> Compiled:
    if value.type.kind not in ("boolean", "unknown"):
        site.fail(f"a condition is true or false, found {value.type}", at=value.node.at)
    return site.cast(value, BOOLEAN)


def _coalesce(site: Site, values: Sequence[Compiled]) -> Compiled:
    type_, given = in_common(site, values)

    def array(rows: Rows) -> pa.Array:
        found = given[0].array(rows)
        for value in given[1:]:
            missing: Mask = np.asarray(found.is_null().to_numpy(zero_copy_only=False))
            if not missing.any():
                break
            there = np.flatnonzero(~missing)
            more = value.array(rows.filter(missing))
            order = np.argsort(np.concatenate([there, np.flatnonzero(missing)]), kind="stable")
            found = pa.concat_arrays([found.take(pa.array(there)), more]).take(pa.array(order))
        return found

    return site.lazy(type_, given, array)


def _nullif(site: Site, values: Sequence[Compiled]) -> Compiled:
    _, (one, other) = in_common(site, values)
    first = values[0]
    return site.eager(
        first.type,
        [first, one, other],
        lambda kept, a, b: pc.if_else(pc.fill_null(compare("=", a, b), False), pa.scalar(None, kept.type), kept),
    )


def _nvl2(site: Site, values: Sequence[Compiled]) -> Compiled:
    test = site.eager(BOOLEAN, values[:1], lambda array: array.is_valid())
    return _case(site, [test, *values[1:]])


def _extreme(sign: str) -> Known:
    """`greatest` and `least`, which leave out nulls; NaN is the greatest."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        type_, given = in_common(site, values)
        if type_.is_nested or type_.kind in ("variant", "unknown"):
            site.fail(f"values of type {type_} have no order")

        def kernel(*arrays: pa.Array) -> pa.Array:
            found = arrays[0]
            for array in arrays[1:]:
                better = pc.or_(pc.fill_null(compare(sign, array, found), False), found.is_null())
                found = pc.if_else(better, array, found)
            return found

        return site.eager(type_, given, kernel)

    return known(make, 2, ANY)


FUNCTIONS: dict[str, Known] = {
    "case": known(_case, 2, ANY),
    "if": known(_case, 3),
    "iff": known(_case, 3),
    "coalesce": known(_coalesce, 1, ANY),
    **dict.fromkeys(("nvl", "ifnull"), known(_coalesce, 2)),
    "nvl2": known(_nvl2, 3),
    "nullif": known(_nullif, 2),
    "greatest": _extreme(">"),
    "least": _extreme("<"),
}
