"""Transforms: from a column's value to the value that rows are grouped or sorted by (spec: Partition Transforms).

A transform is a value. It knows the types it takes and gives, how to compute (`bind` once per type, then call the
function for every value) and how its results read in a path. Every transform gives null for null.

>>> from floe.spec.types import LONG, STRING, TIMESTAMP
>>> day = parse_transform("day")
>>> day.apply(TIMESTAMP, -1), day.result_type(TIMESTAMP), day.to_human(TIMESTAMP, -1)
(-1, DATE, '1969-12-31')
>>> Truncate(3).apply(STRING, "iceberg"), str(Bucket(16))
('ice', 'bucket[16]')

A transform that this version does not know is kept under its text. Tables that use one can be read, as the spec
asks, but not written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from floe.errors import InvalidPartitionSpec, InvalidValue, UnsupportedFeature
from floe.spec.partitioning.human_text import human_day, human_hour, human_month, human_value, human_year
from floe.spec.partitioning.murmur3 import WIDE, hash_function
from floe.spec.types import DATE, INT, STRING, DecimalType, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY, civil_from_days
from floe.spec.values.exact_numbers import decimal_from_unscaled

__all__ = [
    "DAY",
    "HOUR",
    "IDENTITY",
    "MONTH",
    "VOID",
    "YEAR",
    "Bucket",
    "Day",
    "Hour",
    "Identity",
    "Month",
    "TimeTransform",
    "Transform",
    "Truncate",
    "UnknownTransform",
    "Void",
    "Year",
    "parse_transform",
]

MAX_PARAMETER = 2**31 - 1
"""The number of buckets and the width of truncation are 32-bit integers in every implementation."""

INT_MAX = 2**31 - 1
_INTEGER_BITS = {"int": 32, "long": 64}
_TICKS_PER_SECOND = {"timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS}


class Transform:
    """A function from a column's value to a partition or sort value."""

    __slots__ = ()

    source_kinds: ClassVar[frozenset[str] | None] = None
    """The kinds of type the transform takes; None where that is not a plain list."""

    fixed_result: ClassVar[Type | None] = None
    """The type of the results, if it is the same for every source; None where it is the source's own type."""

    preserves_order: ClassVar[bool] = False
    """Whether `a <= b` means that the transform of `a` is at most that of `b`."""

    is_time: ClassVar[bool] = False
    """Whether the transform is one of year, month, day and hour."""

    is_known: ClassVar[bool] = True
    """Whether this version can compute the transform."""

    def can_transform(self, source: Type) -> bool:
        """Whether values of a type can be transformed.

        >>> from floe.spec.types import DOUBLE, LONG
        >>> Bucket(16).can_transform(LONG), Bucket(16).can_transform(DOUBLE)
        (True, False)
        """
        assert self.source_kinds is not None
        return source.kind in self.source_kinds

    def result_type(self, source: Type) -> Type:
        """The type of the results for values of a type.

        >>> Bucket(16).result_type(STRING)
        INT
        >>> YEAR.result_type(STRING)
        Traceback (most recent call last):
        floe.errors.InvalidPartitionSpec: year cannot be applied to values of type string; it takes date, timestamp, ...
        """
        if not self.can_transform(source):
            kinds = self.source_kinds
            hint = "it takes " + ", ".join(sorted(kinds)) if kinds else "it takes primitive types with an order"
            raise InvalidPartitionSpec(f"{self} cannot be applied to values of type {source}", hint=hint)
        return self.fixed_result or source

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """The function that transforms values of a type; null gives null.

        >>> bucket = Bucket(100).bind(STRING)
        >>> bucket("iceberg"), bucket(None)
        (89, None)
        """
        self.result_type(source)
        function = self._function(source)
        return lambda value: None if value is None else function(value)

    def apply(self, source: Type, value: Any) -> Any:
        """The result for one value; for many values use `bind`.

        >>> Truncate(10).apply(INT, -1)
        -10
        """
        return self.bind(source)(value)

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """Whether rows sorted by this transform of a column are also sorted by the other.

        For truncation the answer depends on the type of the column; without it the answer is the safe one.

        >>> HOUR.satisfies_order_of(DAY), DAY.satisfies_order_of(HOUR), IDENTITY.satisfies_order_of(DAY)
        (True, False, True)
        """
        return self == other

    def to_human(self, source: Type, value: Any) -> str:
        """The text of a result, given the type of the column it came from.

        >>> from floe.spec.types import TIMESTAMP
        >>> HOUR.to_human(TIMESTAMP, 419686), MONTH.to_human(TIMESTAMP, -1), DAY.to_human(TIMESTAMP, None)
        ('2017-11-16-22', '1969-12', 'null')
        """
        return human_value(self.fixed_result or source, value)

    def _function(self, source: Type) -> Callable[[Any], Any]:
        """The function for values that are not null, of a type that is allowed."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Identity(Transform):
    """The value itself."""

    preserves_order: ClassVar[bool] = True

    def can_transform(self, source: Type) -> bool:
        """Every primitive type except geometry and geography."""
        return source.is_primitive and source.kind not in ("geometry", "geography")

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """The function that gives its argument back."""
        self.result_type(source)
        return _same

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """True for every transform that keeps the order."""
        return other.preserves_order

    def __str__(self) -> str:
        return "identity"


@dataclass(frozen=True, slots=True)
class Bucket(Transform):
    """The hash of the value, modulo a number of buckets (spec: Bucket Transform Details)."""

    n: int

    source_kinds: ClassVar[frozenset[str] | None] = frozenset({
        "int", "long", "decimal", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns",
        "string", "uuid", "fixed", "binary",
    })  # fmt: skip
    fixed_result: ClassVar[Type | None] = INT

    def __post_init__(self) -> None:
        _check_parameter("the number of buckets", self.n)

    def _function(self, source: Type) -> Callable[[Any], Any]:
        hash_, n = hash_function(source), self.n
        return lambda value: (hash_(value) & 0x7FFFFFFF) % n

    def __str__(self) -> str:
        return f"bucket[{self.n}]"


@dataclass(frozen=True, slots=True)
class Truncate(Transform):
    """The value cut to a width: numbers down to a multiple of it, text to so many code points, binary to so many bytes.

    A number so close to the lowest of its type that no multiple of the width is left below it has no truncated value
    of that type: computing it raises `InvalidValue` (spec: Truncate Transform Details).
    """

    width: int

    source_kinds: ClassVar[frozenset[str] | None] = frozenset({"int", "long", "decimal", "string", "binary"})
    preserves_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_parameter("the width of truncate", self.width)

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """Longer prefixes order shorter ones; narrow steps of numbers order wide steps that they divide.

        >>> Truncate(10).satisfies_order_of(Truncate(4), STRING), Truncate(10).satisfies_order_of(Truncate(4), INT)
        (True, False)
        """
        if not isinstance(other, Truncate):
            return False
        if self.width == other.width or source is None:
            return self.width == other.width
        if source.kind in ("string", "binary"):
            return other.width <= self.width
        return other.width % self.width == 0

    def _function(self, source: Type) -> Callable[[Any], Any]:
        width = self.width
        if isinstance(source, DecimalType):
            return lambda value: _truncate_decimal(value, width, source)
        if bits := _INTEGER_BITS.get(source.kind):
            return lambda value: _truncate_integer(value, width, source, -(1 << bits - 1))
        return lambda value: value[:width]

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@dataclass(frozen=True, slots=True)
class TimeTransform(Transform):
    """One of year, month, day and hour: a count from the start of 1970, downwards before it."""

    source_kinds: ClassVar[frozenset[str] | None] = frozenset({"date", *_TICKS_PER_SECOND})
    fixed_result: ClassVar[Type | None] = INT
    preserves_order: ClassVar[bool] = True
    is_time: ClassVar[bool] = True

    name: ClassVar[str]
    fineness: ClassVar[int]
    """The order of the four by how short their unit is: 0 for year, 3 for hour."""

    seconds: ClassVar[int] = SECONDS_PER_DAY
    """The seconds of the step that ticks are divided into before `_from_steps`."""

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """True for the same and for every longer unit."""
        return isinstance(other, TimeTransform) and other.fineness <= self.fineness

    def _function(self, source: Type) -> Callable[[Any], Any]:
        from_steps = self._from_steps
        if source.kind == "date":
            return from_steps
        ticks = _TICKS_PER_SECOND[source.kind] * self.seconds
        return lambda value: from_steps(value // ticks)

    @staticmethod
    def _from_steps(steps: int) -> int:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Year(TimeTransform):
    """The years since 1970."""

    name: ClassVar[str] = "year"
    fineness: ClassVar[int] = 0

    @staticmethod
    def _from_steps(steps: int) -> int:
        return civil_from_days(steps)[0] - 1970

    def to_human(self, source: Type, value: Any) -> str:
        """The year, such as `2017`."""
        return "null" if value is None else human_year(value)


@dataclass(frozen=True, slots=True)
class Month(TimeTransform):
    """The months since January 1970."""

    name: ClassVar[str] = "month"
    fineness: ClassVar[int] = 1

    @staticmethod
    def _from_steps(steps: int) -> int:
        year, month, _ = civil_from_days(steps)
        return (year - 1970) * 12 + month - 1

    def to_human(self, source: Type, value: Any) -> str:
        """The month, such as `2017-11`."""
        return "null" if value is None else human_month(value)


@dataclass(frozen=True, slots=True)
class Day(TimeTransform):
    """The days since 1970-01-01, as a date."""

    name: ClassVar[str] = "day"
    fineness: ClassVar[int] = 2
    fixed_result: ClassVar[Type | None] = DATE

    @staticmethod
    def _from_steps(steps: int) -> int:
        return steps

    def to_human(self, source: Type, value: Any) -> str:
        """The day, such as `2017-11-16`."""
        return "null" if value is None else human_day(value)


@dataclass(frozen=True, slots=True)
class Hour(TimeTransform):
    """The hours since the start of 1970; a date has none.

    Hours are 32-bit numbers and end in the year 246953; a later timestamp, or one as early, raises `InvalidValue`.
    """

    name: ClassVar[str] = "hour"
    fineness: ClassVar[int] = 3
    source_kinds: ClassVar[frozenset[str] | None] = frozenset(_TICKS_PER_SECOND)
    seconds: ClassVar[int] = 3600

    @staticmethod
    def _from_steps(steps: int) -> int:
        if not -INT_MAX - 1 <= steps <= INT_MAX:
            raise InvalidValue(f"the hour {steps} hours from 1970 does not fit the int that the hour transform gives")
        return steps

    def to_human(self, source: Type, value: Any) -> str:
        """The hour, such as `2017-11-16-22`."""
        return "null" if value is None else human_hour(value)


@dataclass(frozen=True, slots=True)
class Void(Transform):
    """Always null: what is left of a partition field that was dropped from a v1 table."""

    def can_transform(self, source: Type) -> bool:
        """Every type."""
        return True

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """The function that gives null."""
        return _null

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class UnknownTransform(Transform):
    """A transform of a later version or of another implementation: kept and written again, but not computed.

    What it takes and gives is not known. The reference implementation says string, and so do we; the values in
    manifests may be of any type.
    """

    text: str

    fixed_result: ClassVar[Type | None] = STRING
    is_known: ClassVar[bool] = False

    def can_transform(self, source: Type) -> bool:
        """Every type, for all we know."""
        return True

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """Raise `UnsupportedFeature`."""
        raise UnsupportedFeature(
            f"cannot compute the transform {self.text[:80]!r}: this version does not know it",
            hint="tables that use it can be read, but not written",
        )

    def __str__(self) -> str:
        return self.text


def _check_parameter(what: str, number: int) -> None:
    if type(number) is not int:  # nor a bool or a float, which would get into the text of the transform
        raise InvalidPartitionSpec(f"{what} must be a whole number, found {number!r:.80}")
    if not 1 <= number <= MAX_PARAMETER:
        raise InvalidPartitionSpec(f"{what} must be 1 to {MAX_PARAMETER}, found {number}")


def _same(value: Any) -> Any:
    return value


def _null(value: Any) -> None:
    return None


def _truncate_integer(value: int, width: int, source: Type, lowest: int) -> int:
    result = value - value % width
    if result < lowest:
        raise _below_lowest(value, width, source)
    return result


def _truncate_decimal(value: Decimal, width: int, source: DecimalType) -> Decimal:
    """Truncation of the unscaled number: the width counts units of the last place of the column."""
    unscaled = int(value.scaleb(source.scale, WIDE))
    result = unscaled - unscaled % width
    if result <= -(10**source.precision):
        raise _below_lowest(value, width, source)
    return decimal_from_unscaled(result, source.scale)


def _below_lowest(value: Any, width: int, source: Type) -> InvalidValue:
    return InvalidValue(
        f"truncate[{width}] of {value} is below the lowest {source}",
        hint="no value of the column's type can stand for it; store it in a wider type",
    )


IDENTITY = Identity()
YEAR = Year()
MONTH = Month()
DAY = Day()
HOUR = Hour()
VOID = Void()

_BY_NAME: dict[str, Transform] = {str(t): t for t in (IDENTITY, YEAR, MONTH, DAY, HOUR, VOID)}
_WITH_PARAMETER: dict[str, Callable[[int], Transform]] = {"bucket": Bucket, "truncate": Truncate}
_PARAMETER = re.compile(r"(bucket|truncate)\s*\[\s*([0-9]{1,20})\s*\]", re.IGNORECASE)


def parse_transform(text: str) -> Transform:
    """The transform that a text of table metadata names; case and spaces do not matter.

    >>> parse_transform("Bucket[ 16 ]"), parse_transform("zorder")
    (Bucket(n=16), UnknownTransform(text='zorder'))
    >>> parse_transform("bucket[0]")
    Traceback (most recent call last):
    floe.errors.InvalidPartitionSpec: the number of buckets must be 1 to 2147483647, found 0
    """
    name = text.strip()
    if known := _BY_NAME.get(name) or _BY_NAME.get(name.lower()):
        return known
    if match := _PARAMETER.fullmatch(name):
        return _WITH_PARAMETER[match[1].lower()](int(match[2]))
    return UnknownTransform(text)
