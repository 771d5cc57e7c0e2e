"""What counts and bounds prove about a predicate: may any row pass it, must all of them (spec: Scan Planning).

Everything that is known of a column in a file, or of a partition field in a manifest, is put in one form, `Facts`:
whether a row may be null, may be NaN, may hold an ordinary value, and between which bounds the ordinary values lie.
`RangePredicate` asks it two questions. *Might* some row pass: null, NaN or a value between the bounds would. *Must* all
rows
pass: none of null, NaN and the values between the bounds would pass the opposite test. The second question is so the
first one asked of the negated operation, and both are right by the same few lines.

Bounds and literals are compared as keys: integers (also for decimals of up to 18 digits, by their unscaled value),
floats, or byte strings whose order is that of the values. Text compares by its UTF-8 bytes.

>>> from floe.spec.types import LONG
>>> test = RangePredicate.of(LONG, Op.GT, (10,))
>>> inside = Facts(nulls=False, nans=False, others=True, lower=5, upper=15)
>>> test.might(inside), test.must(inside)
(True, False)
>>> beyond = Facts(nulls=False, nans=False, others=True, lower=11, upper=15)
>>> test.might(beyond), test.must(beyond)
(True, True)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from floe.errors import CorruptFile, InvalidExpression, InvalidValue
from floe.spec.codecs.single_value import decode
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, BoundTerm, Op
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.partitioning.transforms import Identity, Truncate, Void
from floe.spec.types import DecimalType, FixedType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled, unscaled_value

Key = int | float | bytes

FLOAT_KINDS = frozenset({"float", "double"})
BYTES_KINDS = frozenset({"string", "binary", "fixed", "uuid"})
INTEGER_KINDS = frozenset({
    "boolean", "int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns",
})  # fmt: skip

NANOSECOND_KINDS = frozenset({"timestamp_ns", "timestamptz_ns"})
DECODED_KINDS = INTEGER_KINDS | FLOAT_KINDS
MAX_INT64_DIGITS = 18
WIDE_DECIMAL_BYTES = 16  # two's complement of 38 digits
_MOST_MICROSECONDS = 2**63 // 1000
_WIDE_OFFSET = 1 << (8 * WIDE_DECIMAL_BYTES - 1)


class Facts(NamedTuple):
    """What is known of the values of one term in a set of rows.

    A value may be null only if `nulls` is true, NaN only if `nans` is, and anything else only if `others` is. Those
    others lie between the bounds, as far as there are any.
    """

    nulls: bool
    nans: bool
    others: bool
    lower: Key | None = None
    upper: Key | None = None


# keys --------------------------------------------------------------------------------------------------------


def has_int_keys(type_: Type) -> bool:
    """Whether values of a type are compared as 64-bit integers.

    >>> has_int_keys(DecimalType(18, 2)), has_int_keys(DecimalType(19, 2))
    (True, False)
    """
    if isinstance(type_, DecimalType):
        return type_.precision <= MAX_INT64_DIGITS
    return type_.kind in INTEGER_KINDS


def literal_key(type_: Type, value: Any) -> Key:
    r"""The key of a value.

    >>> from decimal import Decimal
    >>> from floe.spec.types import STRING
    >>> literal_key(STRING, "aé"), literal_key(DecimalType(9, 2), Decimal("1.5"))
    (b'a\xc3\xa9', 150)
    """
    kind = type_.kind
    if isinstance(type_, DecimalType):
        unscaled = unscaled_value(value, type_.scale)
        if unscaled is None:
            raise InvalidExpression(f"{value} is not a value of type {type_}", hint="bind the filter with `bind`")
        return unscaled if has_int_keys(type_) else _wide_key(unscaled)
    if kind in INTEGER_KINDS:
        return int(value)
    if kind in FLOAT_KINDS:
        return float(value)
    if kind == "string":
        return str(value).encode("utf-8", "surrogatepass")
    if kind == "uuid":
        return bytes(value.bytes)
    if kind in BYTES_KINDS:
        return bytes(value)
    raise InvalidExpression(f"values of type {type_} cannot be compared")


def _wide_key(unscaled: int) -> bytes:
    """Sixteen bytes whose unsigned order is that of the numbers."""
    low, high = 0, 2 * _WIDE_OFFSET - 1
    return min(max(unscaled + _WIDE_OFFSET, low), high).to_bytes(WIDE_DECIMAL_BYTES, "big")


def bounds_to_keys(type_: Type, lower: bytes | None, upper: bytes | None) -> tuple[Key | None, Key | None]:
    r"""The keys of a pair of serialised bounds; None for a bound that is missing or cannot be trusted.

    Bounds only ever help to skip work, so one that makes no sense is treated as absent rather than as an error: the
    rows are then read, which is always right. That is the case for bytes that are no value of the type, for NaN
    (older ORC writers put it in both bounds when the first value of a file was NaN), for a lower bound above the upper,
    and for nanoseconds that may be microseconds.

    >>> from floe.spec.types import INT, LONG
    >>> bounds_to_keys(LONG, b"\x01\0\0\0", b"\x02\0\0\0\0\0\0\0")  # the lower one was written as an int
    (1, 2)
    >>> bounds_to_keys(INT, b"\x01\0\0\0", b"?")
    (1, None)
    """
    low = None if lower is None else _bound_key(type_, lower)
    high = None if upper is None else _bound_key(type_, upper)
    if low != low or high != high:
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    if type_.kind in NANOSECOND_KINDS and all(key is None or in_microseconds(key) for key in (low, high)):
        return None, None
    if type_.kind == "uuid" and low != high:
        # Java orders UUIDs as two signed numbers. Among bounds that look right that can only have misplaced the second
        # half, so that half proves nothing.
        return _with_second_half(low, b"\x00"), _with_second_half(high, b"\xff")
    return low, high


def in_microseconds(key: Any) -> Any:
    """Whether a bound of nanoseconds may in truth be microseconds, as Java writes it for ORC; numbers or arrays.

    All moments that nanoseconds reach are less than this in microseconds. In nanoseconds it is some months of 1970.

    >>> in_microseconds(1_577_934_245_123_456), in_microseconds(1_577_934_245_123_456_789)
    (True, False)
    """
    return abs(key) <= _MOST_MICROSECONDS


def _with_second_half(key: Key | None, filler: bytes) -> Key | None:
    return key[:8] + filler * 8 if isinstance(key, bytes) else None


def _bound_key(type_: Type, data: bytes) -> Key | None:
    kind = type_.kind
    if kind in DECODED_KINDS:
        try:
            return decode(type_, data)  # type: ignore[no-any-return]
        except CorruptFile:
            return None
    if kind in BYTES_KINDS:
        length = type_.length if isinstance(type_, FixedType) else 16 if kind == "uuid" else len(data)
        return bytes(data) if len(data) == length else None
    if not isinstance(type_, DecimalType) or not 1 <= len(data) <= WIDE_DECIMAL_BYTES:
        return None
    unscaled = int.from_bytes(data, "big", signed=True)
    if not has_int_keys(type_):
        return _wide_key(unscaled)
    return unscaled if -(2**63) <= unscaled < 2**63 else None


def _key_value(type_: Type, key: Key) -> Any:
    """The value of a key; None where there is none, as for bytes that are not UTF-8."""
    if isinstance(type_, DecimalType):
        unscaled = int.from_bytes(key, "big") - _WIDE_OFFSET if isinstance(key, bytes) else int(key)
        return decimal_from_unscaled(unscaled, type_.scale)
    if type_.kind == "string":
        assert isinstance(key, bytes)
        try:
            return key.decode()
        except UnicodeDecodeError:
            return None
    return key


def transformed(facts: Facts, term: BoundTerm) -> Facts:
    """What is known of a term, given what is known of its column.

    A transform that keeps the order turns bounds into bounds. Of others only the nulls are known: a transform gives
    null for null and, but for `void`, for nothing else.

    >>> from floe.spec.expressions.nodes import BoundTransform
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import DATE, Field, TIMESTAMP
    >>> ts = BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).entry(1))
    >>> facts = transformed(Facts(False, False, True, -1, 86_400_000_000), BoundTransform(DAY, ts, DATE))
    >>> facts.lower, facts.upper
    (-1, 1)
    """
    if isinstance(term, BoundReference) or isinstance(term.transform, Identity):
        return facts
    transform, source = term.transform, term.ref.type
    if isinstance(transform, Void):
        return Facts(nulls=True, nans=False, others=False)
    if not transform.is_known:
        return Facts(nulls=True, nans=True, others=True)
    nans = facts.nans and term.type.kind in FLOAT_KINDS
    if not transform.preserves_order:
        return Facts(facts.nulls, nans, facts.others)
    function = transform.bind(source)

    def image(key: Key | None) -> Key | None:
        if source.kind == "string" and isinstance(transform, Truncate) and isinstance(key, bytes):
            beginning = key[: transform.width]
            if beginning.isascii():  # as many characters as bytes, whatever follows
                return beginning
        value = None if key is None else _key_value(source, key)
        if value is None:
            return None
        try:
            return literal_key(term.type, function(value))
        except InvalidValue:  # the transform has no result for the bound itself, say too early an hour
            return None

    return Facts(facts.nulls, nans, facts.others, image(facts.lower), image(facts.upper))


# questions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangePredicate:
    """One predicate, ready to be asked what facts prove about it; see the module's text."""

    op: Op
    keys: tuple[Key, ...]
    """The keys of the literals, sorted and without NaN."""

    discrete: bool
    """Whether keys are integers with nothing between neighbours."""

    null_passes: bool
    nan_passes: bool

    settled: bool | None
    """Whether every ordinary value passes, or none; None where it depends on the value."""

    @classmethod
    def of(cls, type_: Type, op: Op, literals: tuple[Any, ...]) -> RangePredicate:
        """The test for a term of a type.

        >>> from floe.spec.types import DOUBLE
        >>> RangePredicate.of(DOUBLE, Op.IS_NAN, ()).settled
        False
        """
        test = value_test(type_, op, literals)
        null_passes, nan_passes = test(None), type_.kind in FLOAT_KINDS and test(math.nan)
        keys: tuple[Key, ...] = ()
        settled = _SETTLED.get(op)
        if settled is None:
            all_keys = [literal_key(type_, value) for value in literals]
            keys = tuple(sorted(key for key in all_keys if key == key))
            if not keys:  # only NaN, which is greater than every ordinary value
                settled = op in (Op.LT, Op.LT_EQ, Op.NOT_EQ, Op.NOT_IN)
        return cls(op, keys, has_int_keys(type_), null_passes, nan_passes, settled)

    @classmethod
    def for_predicate(cls, predicate: BoundPredicate) -> RangePredicate:
        """The test for a bound predicate.

        >>> from floe.spec.schemas.schema import Schema
        >>> from floe.spec.types import Field, INT
        >>> ref = BoundReference(Schema((Field(1, "a", INT),)).entry(1))
        >>> RangePredicate.for_predicate(BoundPredicate(Op.IN, ref, (3, 1))).keys
        (1, 3)
        """
        return cls.of(predicate.term.type, predicate.op, predicate.literals)

    def might(self, facts: Facts) -> bool:
        """False only if it is proved that no row passes."""
        return (
            (facts.nulls and self.null_passes)
            or (facts.nans and self.nan_passes)
            or (facts.others and self._some_pass(self.op, self.settled, facts))
        )

    def must(self, facts: Facts) -> bool:
        """True only if it is proved that every row passes."""
        return not (
            (facts.nulls and not self.null_passes)
            or (facts.nans and not self.nan_passes)
            or (facts.others and self._some_pass(self.op.negated, _opposite(self.settled), facts))
        )

    def _some_pass(self, op: Op, settled: bool | None, facts: Facts) -> bool:
        if settled is not None:
            return settled
        return _SOME_PASS[op](self.keys, facts.lower, facts.upper, self.discrete)


def _opposite(settled: bool | None) -> bool | None:
    return None if settled is None else not settled


_SETTLED = {Op.IS_NULL: False, Op.NOT_NULL: True, Op.IS_NAN: False, Op.NOT_NAN: True}
"""What ordinary values answer to the tests that take no literal."""


def _some_in(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    first = 0 if lower is None else bisect_left(keys, lower)
    return first < len(keys) and (upper is None or keys[first] <= upper)


def _some_not_in(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    """Some value differs from all keys, unless the keys leave no room between the bounds."""
    if lower is None or upper is None:
        return True
    held = bisect_right(keys, upper) - bisect_left(keys, lower)
    return bool(held < upper - lower + 1) if discrete else not (held and lower == upper)


def _some_start_with(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    """The texts with a prefix are those from the prefix itself up to the first text beyond all of them."""
    (prefix,) = keys
    return (lower is None or lower[: len(prefix)] <= prefix) and (upper is None or upper >= prefix)


def _some_start_otherwise(keys: Sequence[Any], lower: Any, upper: Any, discrete: bool) -> bool:
    """When both bounds have the prefix, so has everything between them."""
    (prefix,) = keys
    return lower is None or upper is None or not (lower.startswith(prefix) and upper.startswith(prefix))


_SOME_PASS: dict[Op, Callable[[Sequence[Any], Any, Any, bool], bool]] = {
    Op.LT: lambda keys, lower, upper, discrete: lower is None or lower < keys[0],
    Op.LT_EQ: lambda keys, lower, upper, discrete: lower is None or lower <= keys[0],
    Op.GT: lambda keys, lower, upper, discrete: upper is None or upper > keys[0],
    Op.GT_EQ: lambda keys, lower, upper, discrete: upper is None or upper >= keys[0],
    Op.EQ: _some_in,
    Op.NOT_EQ: _some_not_in,
    Op.IN: _some_in,
    Op.NOT_IN: _some_not_in,
    Op.STARTS_WITH: _some_start_with,
    Op.NOT_STARTS_WITH: _some_start_otherwise,
}
"""Whether some ordinary value between the bounds passes, for each operation that takes literals."""
