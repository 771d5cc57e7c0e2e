"""Transforms: functions from a column's value to a partition value or sort value (spec: Partition Transforms).

A transform has the types that it accepts and returns, a function for each source type (`bind` it once, then call it for
every value), and the text of its results in paths. All transforms return null for null.

>>> from floe.spec.types import LONG, STRING, TIMESTAMP
>>> day = parse_transform("day")
>>> day.apply(TIMESTAMP, -1), day.result_type(TIMESTAMP), day.to_human(TIMESTAMP, -1)
(-1, DATE, '1969-12-31')
>>> Truncate(3).apply(STRING, "iceberg"), str(Bucket(16))
('ice', 'bucket[16]')

A transform that this version does not know is kept as its text. Tables that use one can be read, as the spec requires,
but not written.

The text of partition values in paths is that of the reference implementation, because the spec has no rule and a
partition should have the same folder for all writers: a float as Java prints it, bytes in base64, null as `null`, years
padded to four digits, and no sign before longer ones.

>>> from floe.spec.types import BINARY, DOUBLE, TIME
>>> human_value(DOUBLE, 1e7), human_value(TIME, 81060_000000), human_value(BINARY, b"ice")
('1.0E7', '22:31', 'aWNl')

The end of the module has the JSON of source columns and transforms, which partition fields and sort fields share (spec:
Appendix C). Every problem in it is an `InvalidMetadata` with its JSON path.

>>> source_ids_from_json({"source-id": 4}), source_ids_from_json({"source-ids": [1, 2]})
((4,), (1, 2))
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from floe.errors import InvalidInput, InvalidMetadata, InvalidPartitionSpec, InvalidValue, UnsupportedFeature
from floe.spec.partitioning.murmur3 import WIDE, hash_function
from floe.spec.types import DATE, INT, STRING, DecimalType, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY, civil_from_days, time_to_text, timestamp_to_text
from floe.spec.values.exact_numbers import decimal_from_unscaled, nearest_float32

# Partition values as text ----------------------------------------------------------------------------------------

EPOCH_YEAR = 1970


def human_year(years: int) -> str:
    """The text of a year, from the number of years since 1970.

    >>> human_year(47), human_year(-1971)
    ('2017', '-001')
    """
    return f"{EPOCH_YEAR + years:04}"


def human_month(months: int) -> str:
    """The text of a month, from the number of months since January 1970.

    >>> human_month(574), human_month(-1)
    ('2017-11', '1969-12')
    """
    years, month = divmod(months, 12)
    return f"{human_year(years)}-{month + 1:02}"


def human_day(days: int) -> str:
    """The text of a day, from the number of days since 1970-01-01.

    >>> human_day(17486), human_day(-1)
    ('2017-11-16', '1969-12-31')
    """
    year, month, day = civil_from_days(days)
    return f"{year:04}-{month:02}-{day:02}"


def human_hour(hours: int) -> str:
    """The text of an hour, from the number of hours since the start of 1970.

    >>> human_hour(419686), human_hour(-1)
    ('2017-11-16-22', '1969-12-31-23')
    """
    days, hour = divmod(hours, 24)
    return f"{human_day(days)}-{hour:02}"


def human_value(type_: Type, value: Any) -> str:
    """The text of a value of a type in a path, before escaping.

    >>> from floe.spec.types import BOOLEAN, TIMESTAMP
    >>> human_value(BOOLEAN, True), human_value(TIMESTAMP, -1), human_value(BOOLEAN, None)
    ('true', '1969-12-31T23:59:59.999999', 'null')
    """
    if value is None:
        return "null"
    return _BY_KIND.get(type_.kind, _default_text)(value)


def _default_text(value: Any) -> str:
    """The text of a value by its Python type."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double(value)
    return str(value)


def _time(value: int) -> str:
    """The format of Java's LocalTime: seconds only if needed, the fraction in groups of three digits."""
    text = time_to_text(value, MICROS)
    clock, _, fraction = text.partition(".")
    if fraction:
        return f"{clock}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"
    return clock.removesuffix(":00")


def _float(value: float) -> str:
    return _shortest_float_text(value, lambda text: nearest_float32(float(text)) == value)


def _double(value: float) -> str:
    return _shortest_float_text(value, lambda text: float(text) == value)


def _shortest_float_text(value: float, is_exact: Callable[[str], bool]) -> str:
    """The format of Java's Double.toString: the fewest digits, but at least two, that identify the number."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    text = next(text for digits in range(1, 17) if is_exact(text := f"{value:.{digits}e}"))
    mantissa, _, exponent_text = text.partition("e")
    exponent = int(exponent_text)
    sign = "-" if value < 0 else ""
    digits = mantissa.lstrip("-").replace(".", "").rstrip("0")
    if -3 <= exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if 0 <= exponent < 7:
        padded = digits.ljust(exponent + 1, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


_BY_KIND: dict[str, Callable[[Any], str]] = {
    "date": human_day,
    "time": _time,
    "timestamp": lambda value: timestamp_to_text(value, MICROS),
    "timestamptz": lambda value: timestamp_to_text(value, MICROS, utc=True),
    "timestamp_ns": lambda value: timestamp_to_text(value, NANOS),
    "timestamptz_ns": lambda value: timestamp_to_text(value, NANOS, utc=True),
    "float": _float,
    "double": _double,
}

# Transforms ------------------------------------------------------------------------------------------------------

MAX_PARAMETER = 2**31 - 1
"""The highest number of buckets and truncation width: they are 32-bit integers in all implementations."""

INT_MAX = 2**31 - 1
_INTEGER_BITS = {"int": 32, "long": 64}
_TICKS_PER_SECOND = {"timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS}


class Transform:
    """A function from a column's value to a partition or sort value."""

    __slots__ = ()

    source_kinds: ClassVar[frozenset[str] | None] = None
    """The kinds of types that the transform accepts; None if `can_transform` decides."""

    fixed_result: ClassVar[Type | None] = None
    """The type of the results if it is always the same; None if it is the source type."""

    preserves_order: ClassVar[bool] = False
    """Whether `a <= b` implies that the result for `a` is at most that for `b`."""

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
        """Return the function that transforms values of a type; it returns null for null.

        >>> bucket = Bucket(100).bind(STRING)
        >>> bucket("iceberg"), bucket(None)
        (89, None)
        """
        self.result_type(source)
        function = self._function(source)
        return lambda value: None if value is None else function(value)

    def apply(self, source: Type, value: Any) -> Any:
        """Return the result for one value; for many values use `bind`.

        >>> Truncate(10).apply(INT, -1)
        -10
        """
        return self.bind(source)(value)

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """Whether rows sorted by this transform of a column are also sorted by the other.

        For truncate it depends on the type of the column; without the type the result is conservative.

        >>> HOUR.satisfies_order_of(DAY), DAY.satisfies_order_of(HOUR), IDENTITY.satisfies_order_of(DAY)
        (True, False, True)
        """
        return self == other

    def to_human(self, source: Type, value: Any) -> str:
        """The text of a result in a path; `source` is the type of the column.

        >>> from floe.spec.types import TIMESTAMP
        >>> HOUR.to_human(TIMESTAMP, 419686), MONTH.to_human(TIMESTAMP, -1), DAY.to_human(TIMESTAMP, None)
        ('2017-11-16-22', '1969-12', 'null')
        """
        return human_value(self.fixed_result or source, value)

    def _function(self, source: Type) -> Callable[[Any], Any]:
        """The function for values that are not null, of a type that the transform accepts."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Identity(Transform):
    """The unchanged value."""

    preserves_order: ClassVar[bool] = True

    def can_transform(self, source: Type) -> bool:
        """Whether the type is primitive, except geometry and geography."""
        return source.is_primitive and source.kind not in ("geometry", "geography")

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """Return the function that returns its argument."""
        self.result_type(source)
        return _identity

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """Whether the other transform preserves order."""
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
    """The value truncated to a width: numbers to the next lower multiple, strings to code points, binary to bytes.

    If the next lower multiple is below the range of the type, computing it raises `InvalidValue` (spec: Truncate
    Transform Details).
    """

    width: int

    source_kinds: ClassVar[frozenset[str] | None] = frozenset({"int", "long", "decimal", "string", "binary"})
    preserves_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_parameter("the width of truncate", self.width)

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """Whether the other one truncates to a shorter prefix, or numbers to a multiple of this width.

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
    """One of year, month, day and hour: a count from the start of 1970, negative before it."""

    source_kinds: ClassVar[frozenset[str] | None] = frozenset({"date", *_TICKS_PER_SECOND})
    fixed_result: ClassVar[Type | None] = INT
    preserves_order: ClassVar[bool] = True
    is_time: ClassVar[bool] = True

    name: ClassVar[str]
    fineness: ClassVar[int]
    """0 for year, 1 for month, 2 for day, 3 for hour."""

    seconds: ClassVar[int] = SECONDS_PER_DAY
    """The length of the steps that `_from_steps` takes."""

    def satisfies_order_of(self, other: Transform, source: Type | None = None) -> bool:
        """Whether the other transform has the same or a longer unit."""
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
    """The hours since the start of 1970; not for dates.

    Hours are 32-bit integers, up to the year 246953; a timestamp outside their range raises `InvalidValue`.
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
    """Always null: replaces the transform of a partition field that is dropped from a v1 table."""

    def can_transform(self, source: Type) -> bool:
        """Always true: all types are accepted."""
        return True

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """Return the function that returns null."""
        return _always_null

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class UnknownTransform(Transform):
    """A transform of a later version or another implementation: stored as text, but not computed.

    Its result type is string, as in the reference implementation; the values in manifests may have any type.
    """

    text: str

    fixed_result: ClassVar[Type | None] = STRING
    is_known: ClassVar[bool] = False

    def can_transform(self, source: Type) -> bool:
        """Always true, because it is not known."""
        return True

    def bind(self, source: Type) -> Callable[[Any], Any]:
        """Raise `UnsupportedFeature`: the transform cannot be computed."""
        raise UnsupportedFeature(
            f"cannot compute the transform {self.text[:80]!r}: this version does not know it",
            hint="tables that use it can be read, but not written",
        )

    def __str__(self) -> str:
        return self.text


def _check_parameter(label: str, number: int) -> None:
    if type(number) is not int:  # a bool or float would change the text of the transform
        raise InvalidPartitionSpec(f"{label} must be a whole number, found {number!r:.80}")
    if not 1 <= number <= MAX_PARAMETER:
        raise InvalidPartitionSpec(f"{label} must be 1 to {MAX_PARAMETER}, found {number}")


def _identity(value: Any) -> Any:
    return value


def _always_null(value: Any) -> None:
    return None


def _truncate_integer(value: int, width: int, source: Type, lowest: int) -> int:
    result = value - value % width
    if result < lowest:
        raise _out_of_range(value, width, source)
    return result


def _truncate_decimal(value: Decimal, width: int, source: DecimalType) -> Decimal:
    """Truncate the unscaled value: the width counts units of the last digit."""
    unscaled = int(value.scaleb(source.scale, WIDE))
    result = unscaled - unscaled % width
    if result <= -(10**source.precision):
        raise _out_of_range(value, width, source)
    return decimal_from_unscaled(result, source.scale)


def _out_of_range(value: Any, width: int, source: Type) -> InvalidValue:
    return InvalidValue(
        f"truncate[{width}] of {value} is below the lowest {source}",
        hint="store the column in a wider type",
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
    """Parse the text of a transform in table metadata; case and spaces are ignored.

    >>> parse_transform("Bucket[ 16 ]"), parse_transform("zorder")
    (Bucket(n=16), UnknownTransform(text='zorder'))
    >>> parse_transform("bucket[0]")
    Traceback (most recent call last):
    floe.errors.InvalidPartitionSpec: the number of buckets must be 1 to 2147483647, found 0
    """
    name = text.strip()
    if transform := _BY_NAME.get(name) or _BY_NAME.get(name.lower()):
        return transform
    if match := _PARAMETER.fullmatch(name):
        return _WITH_PARAMETER[match[1].lower()](int(match[2]))
    return UnknownTransform(text)


# JSON of source columns and transforms ---------------------------------------------------------------------------


def source_ids_from_json(obj: Mapping[str, Any]) -> tuple[int, ...]:
    """Read the source columns of a field: `source-id`, or `source-ids` if there are several (v3)."""
    if "source-ids" not in obj:
        return (int_from_json(obj.get("source-id"), ".source-id"),)
    ids = obj["source-ids"]
    if not isinstance(ids, list) or not ids:
        raise InvalidMetadata(f"must be a list of at least one field id, found {describe(ids)}").at(".source-ids")
    source_ids = tuple(int_from_json(i, f".source-ids[{n}]") for n, i in enumerate(ids))
    if obj.get("source-id", source_ids[0]) != source_ids[0]:
        raise InvalidMetadata(f"contradicts source-ids, which begins with {source_ids[0]}").at(".source-id")
    return source_ids


def source_ids_to_json(source_ids: tuple[int, ...]) -> dict[str, Any]:
    """Return the source columns as a JSON key: `source-id` for one, `source-ids` for several.

    >>> source_ids_to_json((4,)), source_ids_to_json((1, 2))
    ({'source-id': 4}, {'source-ids': [1, 2]})
    """
    return {"source-id": source_ids[0]} if len(source_ids) == 1 else {"source-ids": list(source_ids)}


def transform_from_json(obj: Mapping[str, Any], source_ids: tuple[int, ...]) -> Transform:
    """Read the transform of a field; with several source columns it is an `UnknownTransform`.

    >>> transform_from_json({"transform": "bucket[4]"}, (1,)), transform_from_json({"transform": "bucket[4]"}, (1, 2))
    (Bucket(n=4), UnknownTransform(text='bucket[4]'))
    """
    text = text_from_json(obj, "transform")
    if len(source_ids) > 1:
        return UnknownTransform(text)
    try:
        return parse_transform(text)
    except InvalidInput as error:
        raise InvalidMetadata(error.message, hint=error.hint).at(".transform") from error


def text_from_json(obj: Mapping[str, Any], key: str) -> str:
    """Read the required string of a key."""
    value = obj.get(key)
    if isinstance(value, str):
        return value
    raise InvalidMetadata("is missing" if value is None else f"must be a string, found {describe(value)}").at(f".{key}")


def int_from_json(json: Any, step: str) -> int:
    """Read a 32-bit integer; `step` is its JSON path."""
    if type(json) is not int:
        problem = "is missing" if json is None else f"must be an integer, found {describe(json)}"
        raise InvalidMetadata(problem).at(step)
    if not -(2**31) <= json < 2**31:
        raise InvalidMetadata("does not fit a 32-bit integer").at(step)
    return json


def object_from_json(json: Any) -> dict[str, Any]:
    """Return a value that must be a JSON object; `InvalidMetadata` if it is not."""
    if isinstance(json, dict):
        return json
    raise InvalidMetadata(f"must be a JSON object, found {describe(json)}")


def describe(json: Any) -> str:
    """Describe a JSON value in a few words, for error messages.

    >>> describe([1] * 1000), describe("x" * 1000), describe(None)
    ('a list', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'", 'null')
    """
    if isinstance(json, str):
        return repr(json if len(json) <= 40 else json[:40] + "…")
    for kind, words in ((dict, "an object"), (list, "a list"), (bool, "true" if json else "false")):
        if isinstance(json, kind):
            return words
    return "null" if json is None else "a number"
