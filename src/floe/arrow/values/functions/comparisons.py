"""Comparisons and logic with three values: null is neither true nor false, NaN equals itself and is the greatest.

One value of several: CASE, IF, COALESCE, NULLIF, GREATEST, LEAST.

A branch is asked only of the rows that take it: `case when n <> 0 then total / n end` divides nothing by zero.

Whether values differ, null from null not, at any depth: `differs(a, b, …)` asks pair by pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.coercion import common_type_of
from floe.arrow.values.compiled import ANY, Compiled, Known, Mask, Rows, Site, known, masked, plain
from floe.errors import InvalidValue
from floe.formats.arrow_arrays import to_array
from floe.formats.arrow_types import arrow_type
from floe.spec.types import BOOLEAN, DOUBLE, STRING, Type

_Kernel = Callable[[pa.Array, pa.Array], pa.Array]


def in_common(site: Site, values: Sequence[Compiled]) -> tuple[Type, list[Compiled]]:
    """The values in the type that they have in common."""
    type_ = common_type_of([value.type for value in values])
    if type_ is None:
        types = " and ".join(dict.fromkeys(str(value.type) for value in values))
        site.fail(f"values of type {types} cannot be used together in {site.name.upper()}", "turn one with CAST")
    return type_, [site.cast(value, type_) for value in values]


# comparisons --------------------------------------------------------------------------------------------------


def _comparison(site: Site, values: Sequence[Compiled]) -> Compiled:
    type_, given = in_common(site, values)
    if type_.is_nested or type_.kind in ("variant", "geometry", "geography", "interval"):
        site.fail(f"values of type {type_} cannot be compared", "compare their fields")
    if type_.kind == "unknown":
        return site.eager(BOOLEAN, given, _nothing_equal if site.name == "<=>" else _unknown)
    name = site.name
    return site.eager(BOOLEAN, given, lambda one, other: compare(name, one, other))


def _unknown(one: pa.Array, other: pa.Array) -> pa.Array:
    return pa.nulls(len(one), pa.bool_())


def _nothing_equal(one: pa.Array, other: pa.Array) -> pa.Array:
    return pa.repeat(True, len(one))


def compare(name: str, one: pa.Array, other: pa.Array) -> pa.Array:
    """Two columns of one type, compared.

    >>> compare("<=>", pa.array([1, None]), pa.array([2, None])).to_pylist()
    [False, True]
    """
    if name == "<=>":
        neither = pc.and_(one.is_null(), other.is_null())
        return pc.or_(pc.fill_null(compare("=", one, other), False), neither)
    if pa.types.is_boolean(one.type):
        one, other = pc.cast(one, pa.int8()), pc.cast(other, pa.int8())
    if pa.types.is_floating(one.type) and (_has_nan(one) or _has_nan(other)):
        return _compare_floats(name, one, other)
    return _COMPARISONS[name](one, other)


def _has_nan(array: pa.Array) -> bool:
    return bool(pc.any(pc.is_nan(array)).as_py())


def _compare_floats(name: str, one: pa.Array, other: pa.Array) -> pa.Array:
    nans = pc.is_nan(one), pc.is_nan(other)
    ranks = [pc.cast(nan, pa.int8()) for nan in nans]
    decided = _COMPARISONS[name](*ranks)  # where one of them is NaN: by being it
    found = pc.if_else(pc.or_(*nans), decided, _COMPARISONS[name](one, other))
    return pc.if_else(pc.and_(one.is_valid(), other.is_valid()), found, None)


_COMPARISONS: dict[str, _Kernel] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _in(site: Site, values: Sequence[Compiled]) -> Compiled:
    if len(values) == 1:
        site.fail("IN takes at least one value in its parentheses")
    type_, given = in_common(site, values)
    if type_.is_nested or type_.kind in ("unknown", "variant", "interval"):
        site.fail(f"values of type {type_} cannot be compared", "compare their fields")
    value, *members = given
    if type_.kind not in ("float", "double") and all(member.is_constant for member in members):
        found = [member.constant() for member in members]
        listed = to_array(type_, [one for one in found if one is not None])
        has_null = len(listed) < len(found)
        test = site.eager(BOOLEAN, [value], lambda array: _one_of(array, listed, has_null))
        return replace(test, inputs=(value, *members))
    return site.eager(
        BOOLEAN,
        given,
        lambda array, *others: reduce(pc.or_kleene, (compare("=", array, other) for other in others)),
    )


def _one_of(array: pa.Array, listed: pa.Array, has_null: bool) -> pa.Array:
    found = pc.is_in(array, value_set=listed)
    unknown = pc.or_(array.is_null(), pc.invert(found)) if has_null else array.is_null()
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


# logic --------------------------------------------------------------------------------------------------------


def _joined(decided: bool, join: _Kernel) -> Known:
    """AND and OR: from left to right, and the right side is asked only of rows that the left has not decided."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        parts = [_condition(site, value) for value in values]

        def array(rows: Rows) -> pa.Array:
            found = parts[0].array(rows)
            for part in parts[1:]:
                open_ = ~masked(found if decided else pc.invert(found))
                if open_.all():
                    found = join(found, part.array(rows))
                elif open_.any():
                    others = pc.replace_with_mask(
                        pa.nulls(rows.count, pa.bool_()), pa.array(open_), part.array(rows.filter(open_))
                    )
                    found = join(found, others)
            return found

        return site.lazy(BOOLEAN, parts, array)

    return known(make, 1, ANY)


def _condition(site: Site, value: Compiled) -> Compiled:
    if value.type.kind not in ("boolean", "unknown"):
        site.fail(f"{site.name.upper()} takes conditions, found {value.type}", at=value.node.at)
    return site.cast(value, BOOLEAN)


def _not(site: Site, values: Sequence[Compiled]) -> Compiled:
    return site.eager(BOOLEAN, [_condition(site, values[0])], pc.invert)


def _is_null(site: Site, values: Sequence[Compiled]) -> Compiled:
    return site.eager(BOOLEAN, values, lambda array: array.is_null())


def _is_not_null(site: Site, values: Sequence[Compiled]) -> Compiled:
    return site.eager(BOOLEAN, values, lambda array: array.is_valid())


def _is_nan(array: pa.Array) -> pa.Array:
    return pc.fill_null(pc.is_nan(array), False)


# patterns -----------------------------------------------------------------------------------------------------


def _like(ignore_case: bool) -> Known:
    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        value, pattern = (site.cast(one, STRING) for one in values[:2])
        escape = site.constant_of(site.cast(values[2], STRING), "an escape character") if len(values) > 2 else "\\"
        if escape is None or len(escape) != 1:
            site.fail("ESCAPE takes one character")

        def kernel(array: pa.Array, patterns: pa.Array) -> pa.Array:
            return _matched(array, patterns, lambda one: _like_regex(one, escape, ignore_case))

        return site.eager(BOOLEAN, [value, pattern], kernel)

    return known(make, 2, 3)


def _like_regex(pattern: str, escape: str, ignore_case: bool) -> str:
    out: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            if following is None or following not in (escape, "%", "_"):
                raise InvalidValue(
                    f"the pattern {pattern[:40]!r} has {escape!r} before what needs no escape",
                    hint="escape % and _ and the escape character itself",
                )
            out.append(re.escape(following))
        else:
            out.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    return f"(?s{'i' if ignore_case else ''})\\A(?:{''.join(out)})\\z"


def _rlike(array: pa.Array, patterns: pa.Array) -> pa.Array:
    return _matched(array, patterns, lambda one: one)


def _matched(array: pa.Array, patterns: pa.Array, regex: Callable[[str], str]) -> pa.Array:
    """Each text with the pattern of its row, one distinct pattern after the other."""
    encoded = patterns.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    if len(known) == 1 and not encoded.null_count:
        return pc.match_substring_regex(array, pattern=regex(known[0]))
    numbers = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    found: Any = pa.nulls(len(array), pa.bool_())
    for number, pattern in enumerate(known):
        rows = numbers == number
        part = pc.match_substring_regex(array.filter(pa.array(rows)), pattern=regex(pattern))
        found = pc.replace_with_mask(found, pa.array(np.asarray(rows)), part)
    return found


FUNCTIONS: dict[str, Known] = {
    **{name: known(_comparison, 2) for name in (*_COMPARISONS, "<=>")},
    "in": known(_in, 1, ANY),
    "and": _joined(False, pc.and_kleene),
    "or": _joined(True, pc.or_kleene),
    "not": known(_not, 1),
    "isnull": known(_is_null, 1),
    "isnotnull": known(_is_not_null, 1),
    "isnan": plain(BOOLEAN, _is_nan, DOUBLE),
    "like": _like(False),
    "ilike": _like(True),
    **dict.fromkeys(("rlike", "regexp", "regexp_like"), plain(BOOLEAN, _rlike, STRING, STRING)),
}

# One value of several: CASE, IF, COALESCE, NULLIF, GREATEST, LEAST.


def _case(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Conditions and values in turn; the last value, if it is alone, is that of ELSE."""
    conditions = [_boolean_condition(site, value) for value in values[: len(values) // 2 * 2 : 2]]
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


def _boolean_condition(site: Site, value: Compiled) -> Compiled:
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


CONDITIONALS: dict[str, Known] = {
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

# Whether values differ, null from null not, at any depth: `differs(a, b, …)` asks pair by pair.


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


DISTINCT: dict[str, Known] = {"differs": known(_differs, 2, ANY)}
