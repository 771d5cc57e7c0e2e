"""Comparisons, three-valued logic, patterns, and conditional functions.

Null is neither true nor false; NaN equals itself and is greater than all other numbers. The branches of CASE, IF,
COALESCE, AND and OR are evaluated only on the rows that need them, so `case when n <> 0 then total / n end` never
divides by zero. `differs(a, b, …)` is used by upserts: whether the values of any pair differ, at any depth, where null
equals null.
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

from floe.arrow.values.casts import common_type_of
from floe.arrow.values.compiled import ANY, Compiled, Function, Mask, Rows, Site, function, true_mask, typed_function
from floe.errors import InvalidValue
from floe.formats.columns.arrays import to_array
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.types import BOOLEAN, DOUBLE, STRING, Type

_Kernel = Callable[[pa.Array, pa.Array], pa.Array]


def cast_to_common_type(site: Site, values: Sequence[Compiled]) -> tuple[Type, list[Compiled]]:
    """Cast values to their common type; returns the type and the values."""
    type_ = common_type_of([value.type for value in values])
    if type_ is None:
        types = " and ".join(dict.fromkeys(str(value.type) for value in values))
        site.fail(f"{site.name.upper()} cannot combine values of type {types}", "cast one of them with CAST")
    return type_, [site.cast(value, type_) for value in values]


# Comparisons ----------------------------------------------------------------------------------------------------------


def _comparison(site: Site, values: Sequence[Compiled]) -> Compiled:
    type_, operands = cast_to_common_type(site, values)
    if type_.is_nested or type_.kind in ("variant", "geometry", "geography", "interval"):
        site.fail(f"values of type {type_} cannot be compared", "compare their fields")
    if type_.kind == "unknown":
        return site.eager(BOOLEAN, operands, _all_true if site.name == "<=>" else _all_null)
    name = site.name
    return site.eager(BOOLEAN, operands, lambda left, right: compare(name, left, right))


def _all_null(left: pa.Array, right: pa.Array) -> pa.Array:
    return pa.nulls(len(left), pa.bool_())


def _all_true(left: pa.Array, right: pa.Array) -> pa.Array:
    return pa.repeat(True, len(left))


def compare(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare two arrays of the same type.

    >>> compare("<=>", pa.array([1, None]), pa.array([2, None])).to_pylist()
    [False, True]
    """
    if name == "<=>":
        both_null = pc.and_(left.is_null(), right.is_null())
        return pc.or_(pc.fill_null(compare("=", left, right), False), both_null)
    if pa.types.is_boolean(left.type):
        left, right = pc.cast(left, pa.int8()), pc.cast(right, pa.int8())
    if pa.types.is_floating(left.type) and (_has_nan(left) or _has_nan(right)):
        return _compare_floats(name, left, right)
    return _COMPARISONS[name](left, right)


def _has_nan(array: pa.Array) -> bool:
    return bool(pc.any(pc.is_nan(array)).as_py())


def _compare_floats(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    nans = pc.is_nan(left), pc.is_nan(right)
    ranks = [pc.cast(nan, pa.int8()) for nan in nans]
    by_rank = _COMPARISONS[name](*ranks)  # a NaN is greater than any other number
    compared = pc.if_else(pc.or_(*nans), by_rank, _COMPARISONS[name](left, right))
    return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), compared, None)


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
    type_, operands = cast_to_common_type(site, values)
    if type_.is_nested or type_.kind in ("unknown", "variant", "interval"):
        site.fail(f"values of type {type_} cannot be compared", "compare their fields")
    value, *members = operands
    if type_.kind not in ("float", "double") and all(member.is_constant for member in members):
        constants = [member.constant() for member in members]
        members_array = to_array(type_, [constant for constant in constants if constant is not None])
        has_null = len(members_array) < len(constants)
        test = site.eager(BOOLEAN, [value], lambda array: _is_in(array, members_array, has_null))
        return replace(test, inputs=(value, *members))
    return site.eager(
        BOOLEAN,
        operands,
        lambda array, *member_arrays: reduce(pc.or_kleene, (compare("=", array, member) for member in member_arrays)),
    )


def _is_in(array: pa.Array, members: pa.Array, has_null: bool) -> pa.Array:
    is_member = pc.is_in(array, value_set=members)
    is_unknown = pc.or_(array.is_null(), pc.invert(is_member)) if has_null else array.is_null()
    return pc.if_else(is_unknown, pa.scalar(None, pa.bool_()), is_member)


# Logic ----------------------------------------------------------------------------------------------------------------


def _connective(decided: bool, join: _Kernel) -> Function:
    """AND or OR, from left to right: an operand is evaluated only on rows that the ones before it do not decide.

    `decided` is the value of an operand that decides the result: false for AND, true for OR.
    """

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        operands = [_cast_condition(site, value) for value in values]

        def array(rows: Rows) -> pa.Array:
            joined = operands[0].array(rows)
            for operand in operands[1:]:
                is_open = ~true_mask(joined if decided else pc.invert(joined))
                if is_open.all():
                    joined = join(joined, operand.array(rows))
                elif is_open.any():
                    evaluated = pc.replace_with_mask(
                        pa.nulls(rows.count, pa.bool_()), pa.array(is_open), operand.array(rows.filter(is_open))
                    )
                    joined = join(joined, evaluated)
            return joined

        return site.lazy(BOOLEAN, operands, array)

    return function(compile_call, 1, ANY)


def _cast_condition(site: Site, value: Compiled) -> Compiled:
    if value.type.kind not in ("boolean", "unknown"):
        site.fail(f"{site.name.upper()} takes conditions, found {value.type}", at=value.node.at)
    return site.cast(value, BOOLEAN)


def _not(site: Site, values: Sequence[Compiled]) -> Compiled:
    return site.eager(BOOLEAN, [_cast_condition(site, values[0])], pc.invert)


def _is_null(site: Site, values: Sequence[Compiled]) -> Compiled:
    return site.eager(BOOLEAN, values, lambda array: array.is_null())


def _is_not_null(site: Site, values: Sequence[Compiled]) -> Compiled:
    return site.eager(BOOLEAN, values, lambda array: array.is_valid())


def _is_nan(array: pa.Array) -> pa.Array:
    return pc.fill_null(pc.is_nan(array), False)


# Patterns -------------------------------------------------------------------------------------------------------------


def _like(ignore_case: bool) -> Function:
    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        value, pattern = (site.cast(argument, STRING) for argument in values[:2])
        escape = site.constant_of(site.cast(values[2], STRING), "an escape character") if len(values) > 2 else "\\"
        if escape is None or len(escape) != 1:
            site.fail("ESCAPE takes one character")

        def kernel(array: pa.Array, patterns: pa.Array) -> pa.Array:
            return _match_patterns(array, patterns, lambda like: _like_regex(like, escape, ignore_case))

        return site.eager(BOOLEAN, [value, pattern], kernel)

    return function(compile_call, 2, 3)


def _like_regex(pattern: str, escape: str, ignore_case: bool) -> str:
    regex: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in (escape, "%", "_"):
                raise InvalidValue(
                    f"the pattern {pattern[:40]!r} has {escape!r} before a character that cannot be escaped",
                    hint="escape only %, _ and the escape character itself",
                )
            regex.append(re.escape(escaped))
        else:
            regex.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return f"(?s{'i' if ignore_case else ''})\\A(?:{''.join(regex)})\\z"


def _rlike(array: pa.Array, patterns: pa.Array) -> pa.Array:
    return _match_patterns(array, patterns, lambda pattern: pattern)


def _match_patterns(array: pa.Array, patterns: pa.Array, regex: Callable[[str], str]) -> pa.Array:
    """Match each text with the pattern of its row, by one Arrow call per distinct pattern."""
    encoded = patterns.dictionary_encode()
    distinct_patterns = encoded.dictionary.to_pylist()
    if len(distinct_patterns) == 1 and not encoded.null_count:
        return pc.match_substring_regex(array, pattern=regex(distinct_patterns[0]))
    pattern_indexes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    matches: Any = pa.nulls(len(array), pa.bool_())
    for index, pattern in enumerate(distinct_patterns):
        rows = pattern_indexes == index
        matches_of_rows = pc.match_substring_regex(array.filter(pa.array(rows)), pattern=regex(pattern))
        matches = pc.replace_with_mask(matches, pa.array(np.asarray(rows)), matches_of_rows)
    return matches


FUNCTIONS: dict[str, Function] = {
    **{name: function(_comparison, 2) for name in (*_COMPARISONS, "<=>")},
    "in": function(_in, 1, ANY),
    "and": _connective(False, pc.and_kleene),
    "or": _connective(True, pc.or_kleene),
    "not": function(_not, 1),
    "isnull": function(_is_null, 1),
    "isnotnull": function(_is_not_null, 1),
    "isnan": typed_function(BOOLEAN, _is_nan, DOUBLE),
    "like": _like(False),
    "ilike": _like(True),
    **dict.fromkeys(("rlike", "regexp", "regexp_like"), typed_function(BOOLEAN, _rlike, STRING, STRING)),
}

# Conditional functions ------------------------------------------------------------------------------------------------


def _case(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile CASE and IF: conditions and values alternate; a last value without a condition is that of ELSE."""
    conditions = [_cast_condition(site, value) for value in values[: len(values) // 2 * 2 : 2]]
    type_, results = cast_to_common_type(site, [*values[1 : len(conditions) * 2 : 2], *values[len(conditions) * 2 :]])

    def array(rows: Rows) -> pa.Array:
        undecided = np.arange(rows.count)
        branches: list[tuple[np.ndarray, Compiled | None]] = []
        for condition, result in zip(conditions, results, strict=False):
            is_true = condition.mask(rows if len(undecided) == rows.count else rows.take(undecided))
            branches.append((undecided[is_true], result))
            undecided = undecided[~is_true]
        branches.append((undecided, results[-1] if len(results) > len(conditions) else None))
        return _combine_branches(rows, branches, type_)

    return site.lazy(type_, [*conditions, *results], array)


def _combine_branches(rows: Rows, branches: Sequence[tuple[np.ndarray, Compiled | None]], type_: Type) -> pa.Array:
    """A column whose rows come from several values, each evaluated only on its own rows."""
    arrays, row_indexes = [], []
    for indexes, value in branches:
        if not len(indexes):
            continue
        is_all_rows = len(indexes) == rows.count
        if value is None:
            arrays.append(pa.nulls(len(indexes), arrow_type(type_)))
        else:
            arrays.append(value.array(rows if is_all_rows else rows.take(indexes)))
        if is_all_rows:
            return arrays[-1]
        row_indexes.append(indexes)
    if not arrays:
        return pa.nulls(0, arrow_type(type_))
    return pa.concat_arrays(arrays).take(pa.array(np.argsort(np.concatenate(row_indexes), kind="stable")))


def _coalesce(site: Site, values: Sequence[Compiled]) -> Compiled:
    type_, arguments = cast_to_common_type(site, values)

    def array(rows: Rows) -> pa.Array:
        result = arguments[0].array(rows)
        for value in arguments[1:]:
            missing: Mask = np.asarray(result.is_null().to_numpy(zero_copy_only=False))
            if not missing.any():
                break
            present = np.flatnonzero(~missing)
            following = value.array(rows.filter(missing))
            order = np.argsort(np.concatenate([present, np.flatnonzero(missing)]), kind="stable")
            result = pa.concat_arrays([result.take(pa.array(present)), following]).take(pa.array(order))
        return result

    return site.lazy(type_, arguments, array)


def _nullif(site: Site, values: Sequence[Compiled]) -> Compiled:
    _, (left, right) = cast_to_common_type(site, values)
    first = values[0]
    return site.eager(
        first.type,
        [first, left, right],
        lambda array, left_array, right_array: pc.if_else(
            pc.fill_null(compare("=", left_array, right_array), False), pa.scalar(None, array.type), array
        ),
    )


def _nvl2(site: Site, values: Sequence[Compiled]) -> Compiled:
    test = site.eager(BOOLEAN, values[:1], lambda array: array.is_valid())
    return _case(site, [test, *values[1:]])


def _greatest_or_least(sign: str) -> Function:
    """`greatest` or `least`, which ignore nulls; NaN is the greatest."""

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        type_, arguments = cast_to_common_type(site, values)
        if type_.is_nested or type_.kind in ("variant", "unknown"):
            site.fail(f"values of type {type_} have no order")

        def kernel(*arrays: pa.Array) -> pa.Array:
            best = arrays[0]
            for array in arrays[1:]:
                is_better = pc.or_(pc.fill_null(compare(sign, array, best), False), best.is_null())
                best = pc.if_else(is_better, array, best)
            return best

        return site.eager(type_, arguments, kernel)

    return function(compile_call, 2, ANY)


CONDITIONALS: dict[str, Function] = {
    "case": function(_case, 2, ANY),
    "if": function(_case, 3),
    "iff": function(_case, 3),
    "coalesce": function(_coalesce, 1, ANY),
    **dict.fromkeys(("nvl", "ifnull"), function(_coalesce, 2)),
    "nvl2": function(_nvl2, 3),
    "nullif": function(_nullif, 2),
    "greatest": _greatest_or_least(">"),
    "least": _greatest_or_least("<"),
}

# Differences ----------------------------------------------------------------------------------------------------------


def _differs(site: Site, values: Sequence[Compiled]) -> Compiled:
    if len(values) % 2:
        site.fail("differs takes pairs of values")
    pairs: list[Compiled] = []
    for left, right in zip(values[::2], values[1::2], strict=True):
        if left.type.is_nested or left.type.kind == "variant":
            pairs += [left, site.cast(right, left.type)]
        else:
            pairs += cast_to_common_type(site, [left, right])[1]

    def kernel(*arrays: pa.Array) -> pa.Array:
        differences = (different(left, right) for left, right in zip(arrays[::2], arrays[1::2], strict=True))
        return reduce(pc.or_, differences)

    return site.eager(BOOLEAN, pairs, kernel)


def different(left: pa.Array, right: pa.Array) -> pa.Array:
    """Where two arrays of the same type differ; never null.

    >>> different(pa.array([1, None, 3]), pa.array([1, None, None])).to_pylist()
    [False, False, True]
    """
    if pa.types.is_null(left.type):
        return pa.repeat(False, len(left))
    if pa.types.is_struct(left.type):
        null_differs = pc.xor(left.is_null(), right.is_null())
        names = [left.type.field(index).name for index in range(left.type.num_fields)]
        child_differs = (different(pc.struct_field(left, name), pc.struct_field(right, name)) for name in names)
        return reduce(pc.or_, child_differs, null_differs)
    if pa.types.is_nested(left.type):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([_values_differ(a, b) for a, b in pairs], pa.bool_())
    return pc.invert(compare("<=>", left, right))


def _values_differ(left: Any, right: Any) -> bool:
    return bool(left != right) and repr(left) != repr(right)  # NaN does not equal itself, but has the same repr


DISTINCT: dict[str, Function] = {"differs": function(_differs, 2, ANY)}
