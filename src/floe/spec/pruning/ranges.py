"""Keys, the form in which bounds and literals are compared, and predicates on ranges of values (spec: Scan Planning).

Keys are integers (also for decimals of up to 18 digits, by their unscaled value), floats, or byte strings in the order
of the values. Strings are compared by their UTF-8 bytes.

A `RangePredicate` decides two things about the possible values of a column in a file, or of a partition field in a
manifest. *Might* some row pass: if null, NaN or a value between the bounds passes. *Must* all rows pass: if neither
null, NaN nor a value between the bounds passes the negated predicate. `range_evaluation` evaluates it for many files.

>>> from floe.spec.types import LONG
>>> RangePredicate.of(LONG, Op.GT, (10,)).keys
(10,)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from floe.errors import InvalidExpression, InvalidValue
from floe.spec.expressions.nodes import BoundPredicate, BoundTransform, Op
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.partitioning.transforms import Truncate
from floe.spec.types import DecimalType, Type
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


# Keys ------------------------------------------------------------------------------------------------------------


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
    """Sixteen bytes whose unsigned order is the order of the numbers."""
    low, high = 0, 2 * _WIDE_OFFSET - 1
    return min(max(unscaled + _WIDE_OFFSET, low), high).to_bytes(WIDE_DECIMAL_BYTES, "big")


def in_microseconds(key: Any) -> Any:
    """Whether a bound of nanoseconds may be in microseconds, as Java writes it for ORC; takes numbers or arrays.

    In microseconds, all timestamps in the range of nanoseconds are below the limit. In nanoseconds, the limit is some
    months after 1970.

    >>> in_microseconds(1_577_934_245_123_456), in_microseconds(1_577_934_245_123_456_789)
    (True, False)
    """
    return abs(key) <= _MOST_MICROSECONDS


def _key_value(type_: Type, key: Key) -> Any:
    """The value of a key; None if there is none, as for bytes that are not UTF-8."""
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


def transform_key(key: Key, term: BoundTransform) -> Key | None:
    """The key of a transform's result for the value of a key; None if there is no result.

    >>> from floe.spec.expressions.nodes import BoundReference
    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import DATE, TIMESTAMP, Field
    >>> ts = BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).entry(1))
    >>> transform_key(86_400_000_000, BoundTransform(DAY, ts, DATE))
    1
    """
    transform, source = term.transform, term.ref.type
    if source.kind == "string" and isinstance(transform, Truncate) and isinstance(key, bytes):
        beginning = key[: transform.width]
        if beginning.isascii():  # as many characters as bytes
            return beginning
    value = _key_value(source, key)
    if value is None:
        return None
    try:
        return literal_key(term.type, transform.bind(source)(value))
    except InvalidValue:  # the transform has no result for the bound, such as an hour out of range
        return None


# Predicates ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangePredicate:
    """A predicate that is evaluated on ranges of values instead of values."""

    op: Op
    keys: tuple[Key, ...]
    """The keys of the literals, sorted and without NaN."""

    discrete: bool
    """Whether keys are integers with nothing between neighbours."""

    null_passes: bool
    nan_passes: bool

    constant: bool | None
    """The result for all values other than null and NaN; None if it depends on the value."""

    @classmethod
    def of(cls, type_: Type, op: Op, literals: tuple[Any, ...]) -> RangePredicate:
        """The predicate for a term of a type.

        >>> from floe.spec.types import DOUBLE
        >>> RangePredicate.of(DOUBLE, Op.IS_NAN, ()).constant
        False
        """
        test = value_test(type_, op, literals)
        null_passes, nan_passes = test(None), type_.kind in FLOAT_KINDS and test(math.nan)
        keys: tuple[Key, ...] = ()
        constant = _CONSTANT_RESULTS.get(op)
        if constant is None:
            all_keys = [literal_key(type_, value) for value in literals]
            keys = tuple(sorted(key for key in all_keys if key == key))
            if not keys:  # all literals are NaN, which is greater than every other value
                constant = op in (Op.LT, Op.LT_EQ, Op.NOT_EQ, Op.NOT_IN)
        return cls(op, keys, has_int_keys(type_), null_passes, nan_passes, constant)

    @classmethod
    def for_predicate(cls, predicate: BoundPredicate) -> RangePredicate:
        """The range predicate of a bound predicate.

        >>> from floe.spec.expressions.nodes import BoundReference
        >>> from floe.spec.schemas.schema import Schema
        >>> from floe.spec.types import Field, INT
        >>> ref = BoundReference(Schema((Field(1, "a", INT),)).entry(1))
        >>> RangePredicate.for_predicate(BoundPredicate(Op.IN, ref, (3, 1))).keys
        (1, 3)
        """
        return cls.of(predicate.term.type, predicate.op, predicate.literals)


_CONSTANT_RESULTS = {Op.IS_NULL: False, Op.NOT_NULL: True, Op.IS_NAN: False, Op.NOT_NAN: True}
"""The results of operations without literals for values other than null and NaN."""
