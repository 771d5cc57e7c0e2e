"""What counts and bounds prove about a predicate, for many files or manifests at once; see `ranges` for the rules.

`PossibleValues` has an array element for each file: whether a term may have nulls, NaN or other values there, and their
bounds. `might_match` and `must_match` evaluate a predicate on all files with a few array operations, without creating
Python objects for files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidValue
from floe.spec.expressions.nodes import BoundReference, BoundTerm, BoundTransform, Op
from floe.spec.partitioning import columnar_transforms
from floe.spec.partitioning.transforms import Identity, Truncate, Void
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, KeyColumn
from floe.spec.pruning.ranges import FLOAT_KINDS, RangePredicate, has_int_keys, transform_key
from floe.spec.pruning.var_bytes import WORD, VarBytes
from floe.spec.types import DecimalType, Type

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class PossibleValues:
    """The possible values of one term in each of many files or manifests.

    A value may be null only where `nulls` is true, NaN only where `nans` is true, and anything else only where `others`
    is true; the bounds apply to the latter.

    A mask is True where nothing is known. A bound of None is unknown for all of them.
    """

    nulls: Mask
    nans: Mask
    others: Mask
    lower: KeyColumn | None = None
    upper: KeyColumn | None = None

    @property
    def count(self) -> int:
        """The number of files or manifests."""
        return len(self.nulls)


def might_match(test: RangePredicate, possible: PossibleValues) -> Mask:
    """Return for each file whether some row might pass; False only if it is proved that no row passes.

    >>> from floe.spec.types import LONG
    >>> some = np.array([True, True])
    >>> bounds = IntKeys(np.array([3, 8]), some)
    >>> might_match(RangePredicate.of(LONG, Op.LT, (5,)), PossibleValues(~some, ~some, some, bounds, bounds)).tolist()
    [True, False]
    """
    result = possible.others & _some_pass(test, test.op, test.constant, possible)
    if test.null_passes:
        result |= possible.nulls
    if test.nan_passes:
        result |= possible.nans
    return result


def must_match(test: RangePredicate, possible: PossibleValues) -> Mask:
    """Return for each file whether every row must pass; True only if it is proved.

    >>> from floe.spec.types import LONG
    >>> some = np.array([True, True])
    >>> bounds = IntKeys(np.array([3, 8]), some)
    >>> must_match(RangePredicate.of(LONG, Op.LT, (5,)), PossibleValues(~some, ~some, some, bounds, bounds)).tolist()
    [True, False]
    """
    constant = None if test.constant is None else not test.constant
    fails = possible.others & _some_pass(test, test.op.negated, constant, possible)
    if not test.null_passes:
        fails |= possible.nulls
    if not test.nan_passes:
        fails |= possible.nans
    return ~fails


def _some_pass(test: RangePredicate, op: Op, constant: bool | None, possible: PossibleValues) -> Mask:
    if constant is not None:
        return np.full(possible.count, constant)
    return _SOME_PASS[op](test, possible.lower, possible.upper, possible.count)


# Operations: the rules of `ranges`, on arrays --------------------------------------------------------------------


def _check_valid(keys: KeyColumn | None, count: int, question: Callable[[KeyColumn], Mask]) -> Mask:
    """Evaluate a condition on the bounds that are known; True for the others, where every value is possible."""
    return np.ones(count, np.bool_) if keys is None else ~keys.is_valid | question(keys)


def _some_less(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _check_valid(lower, count, lambda keys: keys.less_than(test.keys[0]))


def _some_at_most(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _check_valid(lower, count, lambda keys: keys.at_most(test.keys[0]))


def _some_greater(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _check_valid(upper, count, lambda keys: ~keys.at_most(test.keys[0]))


def _some_at_least(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _check_valid(upper, count, lambda keys: ~keys.less_than(test.keys[0]))


def _rank_bounds(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> tuple[Any, Any]:
    """For each file, the index of the first sorted literal between the bounds, and the index after the last one."""
    first = np.zeros(count, np.int64)
    last = np.full(count, len(test.keys), np.int64)
    if lower is not None:
        first = np.where(lower.is_valid, lower.rank(test.keys, inclusive=False), first)
    if upper is not None:
        last = np.where(upper.is_valid, upper.rank(test.keys, inclusive=True), last)
    return first, last


def _some_equal(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    if len(test.keys) == 1:
        return _some_at_most(test, lower, upper, count) & _some_at_least(test, lower, upper, count)
    first, last = _rank_bounds(test, lower, upper, count)
    return np.asarray(first < last)


def _some_differ(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    if lower is None or upper is None:
        return np.ones(count, np.bool_)
    both = lower.is_valid & upper.is_valid
    first, last = _rank_bounds(test, lower, upper, count)
    if isinstance(lower, IntKeys) and isinstance(upper, IntKeys):
        # all integers between the bounds are literals
        full: Mask = (last > first) & (upper.distance(lower) == (last - first - 1).astype(np.uint64))
    else:
        full = (last > first) & lower.equals(upper)
    return ~(both & full)


def _some_start_with(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    (prefix,) = test.keys
    assert isinstance(prefix, bytes)
    return _check_valid(lower, count, lambda keys: keys.at_most(prefix) | keys.starts_with(prefix)) & _some_at_least(
        test, lower, upper, count
    )


def _some_not_start_with(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    (prefix,) = test.keys
    assert isinstance(prefix, bytes)
    if lower is None or upper is None:
        return np.ones(count, np.bool_)
    return ~(lower.is_valid & upper.is_valid & lower.starts_with(prefix) & upper.starts_with(prefix))


_SOME_PASS: dict[Op, Callable[[RangePredicate, KeyColumn | None, KeyColumn | None, int], Mask]] = {
    Op.LT: _some_less,
    Op.LT_EQ: _some_at_most,
    Op.GT: _some_greater,
    Op.GT_EQ: _some_at_least,
    Op.EQ: _some_equal,
    Op.NOT_EQ: _some_differ,
    Op.IN: _some_equal,
    Op.NOT_IN: _some_differ,
    Op.STARTS_WITH: _some_start_with,
    Op.NOT_STARTS_WITH: _some_not_start_with,
}


# Transformed terms -----------------------------------------------------------------------------------------------


def transform_values(possible: PossibleValues, term: BoundTerm) -> PossibleValues:
    """The possible values of a term, computed from those of its column.

    A transform that preserves order maps bounds to bounds. For others only nulls are known: a transform other than
    `void` returns null for null and for nothing else.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import DATE, Field, TIMESTAMP
    >>> day = BoundTransform(DAY, BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).entry(1)), DATE)
    >>> one = np.array([True])
    >>> possible = PossibleValues(one, ~one, one, None, IntKeys(np.array([-1]), one))
    >>> transform_values(possible, day).upper.values.tolist()
    [-1]
    """
    if isinstance(term, BoundReference) or isinstance(term.transform, Identity):
        return possible
    everything, nothing = np.ones(possible.count, np.bool_), np.zeros(possible.count, np.bool_)
    if isinstance(term.transform, Void):
        return PossibleValues(everything, nothing, nothing)
    if not term.transform.is_known:
        return PossibleValues(everything, everything, everything)
    nans = possible.nans if term.type.kind in FLOAT_KINDS else nothing
    if not term.transform.preserves_order:
        return PossibleValues(possible.nulls, nans, possible.others)
    return PossibleValues(
        possible.nulls, nans, possible.others, _image(possible.lower, term), _image(possible.upper, term)
    )


def _image(keys: KeyColumn | None, term: BoundTransform) -> KeyColumn | None:
    """The results of a transform that preserves order, for bounds."""
    transform, source = term.transform, term.ref.type
    if keys is None:
        return None
    if isinstance(keys, ByteKeys) and isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _truncate_strings(keys, transform, source, term)
    if isinstance(keys, IntKeys) and isinstance(source, DecimalType):
        assert isinstance(transform, Truncate)
        remainder = np.mod(keys.values, transform.width)
        return IntKeys(keys.values - remainder, keys.is_valid & (keys.values > remainder - 10**source.precision))
    if isinstance(keys, IntKeys):
        try:
            values, _ = columnar_transforms.apply(transform, source, np.where(keys.is_valid, keys.values, 0), None)
        except InvalidValue:  # the transform has no result for some bound
            return _transform_one_by_one(keys, term)
        assert not isinstance(values, tuple)
        return IntKeys(values.astype(np.int64), keys.is_valid)
    return _transform_one_by_one(keys, term)


def _truncate_strings(keys: ByteKeys, transform: Truncate, source: Type, term: BoundTransform) -> KeyColumn:
    """Truncate strings without copying them; if one has multi-byte characters, all are truncated one by one."""
    width, strings = transform.width, keys.values
    truncated = VarBytes(strings.data, strings.starts, np.minimum(strings.lengths, width))
    if source.kind == "string":
        longest = min(width, int(strings.lengths.max(initial=0)))
        has_multibyte = np.zeros(len(strings), np.bool_)
        for offset in range(0, longest, WORD):
            has_multibyte |= (truncated.words(offset) & np.uint64(0x8080808080808080)) != 0
        if has_multibyte.any():
            return _transform_one_by_one(keys, term)
    return ByteKeys(truncated, keys.is_valid)


def _transform_one_by_one(keys: KeyColumn, term: BoundTransform) -> KeyColumn:
    """Apply `transform_key` to each bound, for the few cases without an array operation."""
    if isinstance(keys, ByteKeys):
        bounds: list[Any] = keys.where(keys.is_valid).values.to_list()
    else:
        assert isinstance(keys, IntKeys | FloatKeys)
        bounds = keys.values.tolist()
    images = [
        transform_key(key, term) if is_valid else None
        for key, is_valid in zip(bounds, keys.is_valid.tolist(), strict=True)
    ]
    is_valid = np.array([key is not None for key in images], np.bool_)
    if not has_int_keys(term.type):
        strings = VarBytes.of([key if isinstance(key, bytes) else None for key in images])
        return ByteKeys(strings, is_valid)
    return IntKeys(np.array([0 if key is None else key for key in images], np.int64), is_valid)
