"""What counts and bounds prove about a predicate, for many files or manifests at once (see `ranges` for the rules).

The facts of one term are arrays with a place for each file: may it hold nulls, NaN, other values, and between which
bounds. `might_match` and `must_match` answer for all files in a few array operations and make no Python object for any
of them.
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
from floe.spec.pruning import ranges
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, KeyColumn
from floe.spec.pruning.ranges import FLOAT_KINDS, Facts, Key, RangePredicate
from floe.spec.pruning.var_bytes import WORD, VarBytes
from floe.spec.types import DecimalType, Type

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class PossibleValues:
    """What is known of one term in each of many sets of rows; True where nothing is known.

    A bound of None is known of no set.
    """

    nulls: Mask
    nans: Mask
    others: Mask
    lower: KeyColumn | None = None
    upper: KeyColumn | None = None

    @property
    def count(self) -> int:
        """How many sets of rows there are."""
        return len(self.nulls)


def might_match(test: RangePredicate, facts: PossibleValues) -> Mask:
    """False only where it is proved that no row passes.

    >>> from floe.spec.types import LONG
    >>> some = np.array([True, True])
    >>> bounds = IntKeys(np.array([3, 8]), some)
    >>> might_match(RangePredicate.of(LONG, Op.LT, (5,)), PossibleValues(~some, ~some, some, bounds, bounds)).tolist()
    [True, False]
    """
    result = facts.others & _some_pass(test, test.op, test.settled, facts)
    if test.null_passes:
        result |= facts.nulls
    if test.nan_passes:
        result |= facts.nans
    return result


def must_match(test: RangePredicate, facts: PossibleValues) -> Mask:
    """True only where it is proved that every row passes.

    >>> from floe.spec.types import LONG
    >>> some = np.array([True, True])
    >>> bounds = IntKeys(np.array([3, 8]), some)
    >>> must_match(RangePredicate.of(LONG, Op.LT, (5,)), PossibleValues(~some, ~some, some, bounds, bounds)).tolist()
    [True, False]
    """
    settled = None if test.settled is None else not test.settled
    fails = facts.others & _some_pass(test, test.op.negated, settled, facts)
    if not test.null_passes:
        fails |= facts.nulls
    if not test.nan_passes:
        fails |= facts.nans
    return ~fails


def _some_pass(test: RangePredicate, op: Op, settled: bool | None, facts: PossibleValues) -> Mask:
    if settled is not None:
        return np.full(facts.count, settled)
    return _SOME_PASS[op](test, facts.lower, facts.upper, facts.count)


# each operation: the rules of `ranges`, on arrays ------------------------------------------------------------


def _unless(keys: KeyColumn | None, count: int, question: Callable[[KeyColumn], Mask]) -> Mask:
    """The answer for the bounds that are known; True for the others, of which anything is possible."""
    return np.ones(count, np.bool_) if keys is None else ~keys.known | question(keys)


def _some_less(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _unless(lower, count, lambda keys: keys.less_than(test.keys[0]))


def _some_at_most(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _unless(lower, count, lambda keys: keys.at_most(test.keys[0]))


def _some_greater(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _unless(upper, count, lambda keys: ~keys.at_most(test.keys[0]))


def _some_at_least(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    return _unless(upper, count, lambda keys: ~keys.less_than(test.keys[0]))


def _places(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> tuple[Any, Any]:
    """Between which of the sorted literals the bounds lie: those from the first to before the second are within."""
    first = np.zeros(count, np.int64)
    last = np.full(count, len(test.keys), np.int64)
    if lower is not None:
        first = np.where(lower.known, lower.rank(test.keys, inclusive=False), first)
    if upper is not None:
        last = np.where(upper.known, upper.rank(test.keys, inclusive=True), last)
    return first, last


def _some_equal(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    if len(test.keys) == 1:
        return _some_at_most(test, lower, upper, count) & _some_at_least(test, lower, upper, count)
    first, last = _places(test, lower, upper, count)
    return np.asarray(first < last)


def _some_differ(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    if lower is None or upper is None:
        return np.ones(count, np.bool_)
    both = lower.known & upper.known
    first, last = _places(test, lower, upper, count)
    if isinstance(lower, IntKeys) and isinstance(upper, IntKeys):
        # no room is left where the literals within are as many as the integers from bound to bound
        full: Mask = (last > first) & (upper.distance(lower) == (last - first - 1).astype(np.uint64))
    else:
        full = (last > first) & lower.equals(upper)
    return ~(both & full)


def _some_start_with(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    (prefix,) = test.keys
    assert isinstance(prefix, bytes)
    return _unless(lower, count, lambda keys: keys.at_most(prefix) | keys.starts_with(prefix)) & _some_at_least(
        test, lower, upper, count
    )


def _some_start_otherwise(test: RangePredicate, lower: KeyColumn | None, upper: KeyColumn | None, count: int) -> Mask:
    (prefix,) = test.keys
    assert isinstance(prefix, bytes)
    if lower is None or upper is None:
        return np.ones(count, np.bool_)
    return ~(lower.known & upper.known & lower.starts_with(prefix) & upper.starts_with(prefix))


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
    Op.NOT_STARTS_WITH: _some_start_otherwise,
}


# transformed terms -------------------------------------------------------------------------------------------


def transform_values(facts: PossibleValues, term: BoundTerm) -> PossibleValues:
    """What is known of a term, given what is known of its column; as `ranges.transformed`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import DATE, Field, TIMESTAMP
    >>> day = BoundTransform(DAY, BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).entry(1)), DATE)
    >>> one = np.array([True])
    >>> facts = PossibleValues(one, ~one, one, None, IntKeys(np.array([-1]), one))
    >>> transform_values(facts, day).upper.values.tolist()
    [-1]
    """
    if isinstance(term, BoundReference) or isinstance(term.transform, Identity):
        return facts
    everything, nothing = np.ones(facts.count, np.bool_), np.zeros(facts.count, np.bool_)
    if isinstance(term.transform, Void):
        return PossibleValues(everything, nothing, nothing)
    if not term.transform.is_known:
        return PossibleValues(everything, everything, everything)
    nans = facts.nans if term.type.kind in FLOAT_KINDS else nothing
    if not term.transform.preserves_order:
        return PossibleValues(facts.nulls, nans, facts.others)
    return PossibleValues(facts.nulls, nans, facts.others, _image(facts.lower, term), _image(facts.upper, term))


def _image(keys: KeyColumn | None, term: BoundTransform) -> KeyColumn | None:
    """The transforms of bounds, by a transform that keeps the order."""
    transform, source = term.transform, term.ref.type
    if keys is None:
        return None
    if isinstance(keys, ByteKeys) and isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _cut(keys, transform, source, term)
    if isinstance(keys, IntKeys) and isinstance(source, DecimalType):
        assert isinstance(transform, Truncate)
        rest = np.mod(keys.values, transform.width)
        return IntKeys(keys.values - rest, keys.known & (keys.values > rest - 10**source.precision))
    if isinstance(keys, IntKeys):
        try:
            values, _ = columnar_transforms.apply(transform, source, np.where(keys.known, keys.values, 0), None)
        except InvalidValue:  # some bound has no result of its own
            return _one_by_one(keys, term)
        assert not isinstance(values, tuple)
        return IntKeys(values.astype(np.int64), keys.known)
    return _one_by_one(keys, term)


def _cut(keys: ByteKeys, transform: Truncate, source: Type, term: BoundTransform) -> KeyColumn:
    """Strings cut short in place; where one may have characters of several bytes, these are counted one by one."""
    width, strings = transform.width, keys.values
    short = VarBytes(strings.data, strings.starts, np.minimum(strings.lengths, width))
    if source.kind == "string":
        reach = min(width, int(strings.lengths.max(initial=0)))
        wide = np.zeros(len(strings), np.bool_)
        for offset in range(0, reach, WORD):
            wide |= (short.words(offset) & np.uint64(0x8080808080808080)) != 0
        if wide.any():
            return _one_by_one(keys, term)
    return ByteKeys(short, keys.known)


def _one_by_one(keys: KeyColumn, term: BoundTransform) -> KeyColumn:
    """As `ranges.transformed`, for the few cases that have no quicker way."""

    def image(key: Key | None) -> Key | None:
        return ranges.transformed(Facts(False, False, True, key, None), term).lower

    if isinstance(keys, ByteKeys):
        old: list[Any] = keys.where(keys.known).values.to_list()
    else:
        assert isinstance(keys, IntKeys | FloatKeys)
        old = keys.values.tolist()
    new = [image(key) if known else None for key, known in zip(old, keys.known.tolist(), strict=True)]
    known = np.array([key is not None for key in new], np.bool_)
    if not ranges.has_int_keys(term.type):
        strings = VarBytes.of([key if isinstance(key, bytes) else None for key in new])
        return ByteKeys(strings, known)
    return IntKeys(np.array([0 if key is None else key for key in new], np.int64), known)
