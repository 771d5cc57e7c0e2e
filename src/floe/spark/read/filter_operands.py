"""The operands of Spark's predicates, columns and functions of one column, and the filters for comparisons of them.

`OperandResolver` finds the operand of a part of a predicate. It resolves these functions of columns:

| | |
|---|---|
| functions of the catalog | `bucket`, `truncate`, `years`, `months`, `days`, `hours` |
| dates and timestamps | `CAST(… AS DATE)` and back, `year`, `trunc` (also of casts), `date_add`, `datediff` |
| strings | `left`, `substring` from the first character on |
| integers | `+`, `-`, `*` with a constant, `-c`, `abs` |
| all types | `coalesce` with a constant, casts to types that have the same value |

For a function with integer values, `at_least(v)` is the filter for the rows where the function is at least `v`. All
comparisons are composed of it (`f = v` is `f >= v` and not `f >= v + 1`), so they are ranges of the column, which
prune through every partition transform. Functions nest: `year(CAST(ts AS DATE)) >= 2024` becomes `CAST(ts AS DATE) >=
2024-01-01`, and that becomes a comparison of the timestamp. A function is null exactly where its column is null.

In SQL a condition is true, false or null, so a `Translation` has two filters: for the rows where the condition is true,
and for those where it is false. A filter keeps all rows of its side, and maybe more: a part that cannot be translated
makes a filter wider, never wrong. NOT exchanges the two filters.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from floe.spark.bridge.values import Call, Cast, Column, Node, Value
from floe.spark.schemas import READ_ONLY_TYPES, spark_type
from floe.spec.expressions.binder import bind_predicate
from floe.spec.expressions.expression_text import literal_to_text
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    Op,
    and_,
    or_,
)
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.partitioning.transforms import Bucket, Truncate
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Type
from floe.spec.values.civil_time import MICROS, SECONDS_PER_DAY, civil_from_days, days_from_civil
from floe.spec.values.exact_numbers import decimal_from_unscaled, unscaled_value

# Translated conditions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SideFilter:
    """A filter for the rows where a condition is true, or for those where it is false."""

    filter: Expression = TRUE
    exact: bool = False
    """Whether the filter keeps no other rows."""


@dataclass(frozen=True, slots=True)
class Translation:
    """The filters for a condition."""

    passing: SideFilter = field(default_factory=SideFilter)
    """The rows where the condition is true."""

    failing: SideFilter = field(default_factory=SideFilter)
    """The rows where the condition is false; rows where it is null are on neither side."""

    @property
    def filter(self) -> Expression:
        """A filter that keeps all rows where the condition is true."""
        return self.passing.filter

    @property
    def exact(self) -> bool:
        """Whether `filter` keeps no other rows."""
        return self.passing.exact

    def as_inexact(self) -> Translation:
        """The same filters, not taken as exact."""
        return Translation(replace(self.passing, exact=False), replace(self.failing, exact=False))


UNTRANSLATED: Final = Translation()
"""The translation of an unknown condition: both filters keep all rows."""


def exact_translation(passing: Expression, failing: Expression) -> Translation:
    """A translation whose filters are exact."""
    return Translation(SideFilter(passing, exact=True), SideFilter(failing, exact=True))


ALWAYS_NULL: Final = exact_translation(FALSE, FALSE)
"""A condition that is null for all rows, such as a comparison with null."""


def constant_condition(value: bool) -> Translation:
    """A condition that is true, or false, for all rows."""
    return exact_translation(TRUE, FALSE) if value else exact_translation(FALSE, TRUE)


def negate(condition: Translation) -> Translation:
    """NOT of a condition."""
    return Translation(condition.failing, condition.passing)


def conjunction(conditions: Iterable[Translation]) -> Translation:
    """AND of conditions; it is false where any of them is false."""
    parts = list(conditions)
    return Translation(
        SideFilter(and_(*(part.passing.filter for part in parts)), all(part.passing.exact for part in parts)),
        SideFilter(or_(*(part.failing.filter for part in parts)), all(part.failing.exact for part in parts)),
    )


def disjunction(conditions: Iterable[Translation]) -> Translation:
    """OR of conditions; it is false where all of them are false."""
    return negate(conjunction(negate(condition) for condition in conditions))


# Operands -------------------------------------------------------------------------------------------------------------

AtLeast = Callable[[int], Translation]
"""Translates the condition that an operand is at least some integer."""

_MAX_VALUES: Final = 100
"""The most values of an IN that become a range each; of more values only the least and the greatest are used."""

_BITS: Final = {"int": 32, "date": 32, "long": 64, "timestamp": 64, "timestamptz": 64}
"""The width of the integers that represent values of a type."""


class Operand:
    """A column or a function of one column; `type` is the name of its type in Spark."""

    def __init__(self, ref: BoundReference, type_: str) -> None:
        self.ref, self.type = ref, type_

    def compare(self, op: Op, value: Any) -> Translation:
        """Translate a comparison with a value of Spark's rows that is not null."""
        raise NotImplementedError

    def is_in(self, values: Sequence[Any]) -> Translation:
        """Translate IN with values that are not null."""
        return disjunction(self.compare(Op.EQ, value) for value in values)

    def is_null(self) -> Translation:
        """Translate IS NULL."""
        return exact_translation(bind_predicate(Op.IS_NULL, self.ref), bind_predicate(Op.NOT_NULL, self.ref))

    def matches_none(self) -> Translation:
        """A comparison that is false for all values, and null for null."""
        return exact_translation(FALSE, bind_predicate(Op.NOT_NULL, self.ref))


class BoundOperand(Operand):
    """A column, or a transform of one that Iceberg's filters support directly."""

    def __init__(self, bound: BoundTerm, type_: str) -> None:
        super().__init__(bound.ref if isinstance(bound, BoundTransform) else bound, type_)
        self.bound = bound

    def compare(self, op: Op, value: Any) -> Translation:
        """Translate a comparison to the same comparison in Iceberg.

        NaN is equal to itself and greater than all numbers, in Spark and in Floe.
        """
        literal = (_literal(self.bound.type, value),)
        return exact_translation(
            bind_predicate(op, self.bound, literal), bind_predicate(op.negated, self.bound, literal)
        )

    def is_in(self, values: Sequence[Any]) -> Translation:
        """Translate IN to Iceberg's IN."""
        literals = tuple(_literal(self.bound.type, value) for value in values)
        if not literals:
            return self.matches_none()
        return exact_translation(
            bind_predicate(Op.IN, self.bound, literals), bind_predicate(Op.NOT_IN, self.bound, literals)
        )


class PrefixOperand(BoundOperand):
    """The first characters of a string, or the first bytes of a binary."""

    def __init__(self, ref: BoundReference, width: int, type_: str) -> None:
        super().__init__(BoundTransform(Truncate(width), ref, ref.type), type_)
        self._column, self._width = BoundOperand(ref, type_), width

    def compare(self, op: Op, value: Any) -> Translation:
        """Translate a comparison of the prefix.

        The prefix equals a value that is shorter only if the whole string does, and a value of its width if the string
        starts with it.
        """
        if op is Op.NOT_EQ:
            return negate(self.compare(Op.EQ, value))
        if op is Op.EQ and len(value) > self._width:
            return self.matches_none()
        if op is Op.EQ and len(value) < self._width:
            return self._column.compare(op, value)
        if op is Op.EQ and isinstance(value, str):
            return self._column.compare(Op.STARTS_WITH, value)
        return super().compare(op, value)

    def is_in(self, values: Sequence[Any]) -> Translation:
        """Translate IN: value by value for few values."""
        return Operand.is_in(self, values) if len(values) <= _MAX_VALUES else super().is_in(values)


class IntegerFunction(Operand):
    """A function with integer values, whose comparisons are ranges of its column."""

    def __init__(
        self, ref: BoundReference, type_: str, at_least: AtLeast, to_integer: Callable[[Any], int] = int
    ) -> None:
        super().__init__(ref, type_)
        self.at_least, self._to_integer = at_least, to_integer

    def compare(self, op: Op, value: Any) -> Translation:
        """Translate a comparison, composed of `at_least` of the value and of the next integer."""
        return self._compare_integer(op, self._to_integer(value))

    def _compare_integer(self, op: Op, value: int) -> Translation:
        match op:
            case Op.GT_EQ:
                return self.at_least(value)
            case Op.GT:
                return self.at_least(value + 1)
            case Op.EQ:
                return conjunction([self.at_least(value), negate(self.at_least(value + 1))])
            case Op.LT | Op.LT_EQ | Op.NOT_EQ:
                return negate(self._compare_integer(op.negated, value))
            case _:
                return UNTRANSLATED

    def is_in(self, values: Sequence[Any]) -> Translation:
        """Translate IN: a range for each value."""
        numbers = sorted({self._to_integer(value) for value in values})
        if not numbers:
            return self.matches_none()
        if len(numbers) > _MAX_VALUES:
            within = conjunction([self.at_least(numbers[0]), negate(self.at_least(numbers[-1] + 1))])
            return Translation(passing=within.as_inexact().passing)
        return disjunction(self._compare_integer(Op.EQ, integer) for integer in numbers)


class CoalesceOperand(Operand):
    """COALESCE: an operand, or a value where the operand is null."""

    def __init__(self, operand: Operand, value: Any) -> None:
        super().__init__(operand.ref, operand.type)
        self._operand, self._value = operand, value

    def compare(self, op: Op, value: Any) -> Translation:
        """Translate a comparison; rows where the operand is null match if the value does."""
        return self._with_nulls(self._operand.compare(op, value), value_test(self.ref.type, op, (value,))(self._value))

    def is_in(self, values: Sequence[Any]) -> Translation:
        """Translate IN; rows where the operand is null match if the value does."""
        matches = any(value_test(self.ref.type, Op.EQ, (value,))(self._value) for value in values)
        return self._with_nulls(self._operand.is_in(values), matches)

    def _with_nulls(self, translation: Translation, matches: bool) -> Translation:
        nulls = self._operand.is_null()
        return disjunction([translation, nulls]) if matches else conjunction([translation, negate(nulls)])

    def is_null(self) -> Translation:
        """Translate IS NULL, which is always false."""
        return constant_condition(False)


def column_at_least(ref: BoundReference) -> AtLeast | None:
    """`at_least` of a column, for decimals by unscaled value; None unless its values are represented by integers."""
    type_ = ref.type
    if isinstance(type_, DecimalType):
        lowest, highest = 1 - 10**type_.precision, 10**type_.precision - 1
    elif type_.kind in _BITS:
        highest = 2 ** (_BITS[type_.kind] - 1) - 1
        lowest = -highest - 1
    else:
        return None
    not_null, nothing = bind_predicate(Op.NOT_NULL, ref), FALSE

    def at_least(value: int) -> Translation:
        if value <= lowest:
            return exact_translation(not_null, nothing)
        if value > highest:
            return exact_translation(nothing, not_null)
        literal = (decimal_from_unscaled(value, type_.scale) if isinstance(type_, DecimalType) else value,)
        return exact_translation(BoundPredicate(Op.GT_EQ, ref, literal), BoundPredicate(Op.LT, ref, literal))

    return at_least


def unscaled_integer(type_: DecimalType) -> Callable[[Any], int]:
    """A function that returns the unscaled value of decimals of a type; it raises ValueError for other decimals."""

    def to_integer(value: Decimal) -> int:
        integer = unscaled_value(value, type_.scale)
        if integer is None:
            raise ValueError(f"{value} is not a {type_}")
        return integer

    return to_integer


def _literal(type_: Type, value: Any) -> Any:
    """A value of Spark's rows as a literal of a filter."""
    if type_.kind in ("date", "timestamp", "timestamptz"):
        return literal_to_text(int(value), type_).partition("'")[2].rpartition("'")[0]
    if type_.kind == "uuid" and str(uuid.UUID(value)) != value:
        # in Spark the column is a string, and other spellings of a UUID are not equal to it
        raise ValueError(f"{value!r} is not the canonical text of a UUID")
    return value


# Resolution of operands -----------------------------------------------------------------------------------------------

_HOUR: Final = 3600 * MICROS
_DAY: Final = SECONDS_PER_DAY * MICROS
_FARTHEST_ZONE: Final = 18 * _HOUR
"""The greatest offset of a time zone from UTC (`java.time.ZoneOffset`)."""

_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
_TIMESTAMP_TYPES: Final = ("timestamp", "timestamp_ntz")
_INTEGER_TYPES: Final = ("integer", "long")
_BUCKETED_TYPES: Final = frozenset({"int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "binary"})
"""The types that Spark hashes as Iceberg does; a UUID is a string in Spark."""

_CATALOG_FUNCTION: Final = re.compile(r"iceberg\.(\w+)\(")
_DECIMAL: Final = re.compile(r"decimal\(\d+,\s*(\d+)\)")
_UNIT_MONTHS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), 12),
    "QUARTER": 3,
    **dict.fromkeys(("MONTH", "MM", "MON"), 1),
}
_MONDAY: Final = 4
"""The first Monday of 1970, in days since 1970-01-01."""


class OperandResolver:
    """Finds the operands of predicates on the columns of a schema."""

    def __init__(self, schema: Schema, *, case_sensitive: bool, time_zone: str) -> None:
        self._schema, self._case_sensitive = schema, case_sensitive
        self._is_utc = time_zone in _UTC

    def resolve(self, node: Node) -> Operand | None:
        """The operand of a part of a predicate; None if it cannot be translated."""
        match node:
            case Column(path):
                return self._column(path)
            case Cast(type_, inner):
                operand = self.resolve(inner)
                return None if operand is None else self._cast(operand, type_)
            case Call(name, arguments):
                if transform := _CATALOG_FUNCTION.match(name):
                    return self._resolve_transform(transform[1], arguments)
                return self._call(name, arguments)
            case _:
                return None

    def _column(self, path: tuple[str, ...]) -> Operand | None:
        if not self._schema.has(path, case_sensitive=self._case_sensitive):
            return None
        entry = self._schema.resolve(path, case_sensitive=self._case_sensitive)
        type_ = entry.field.type
        if entry.in_collection or type_.kind in READ_ONLY_TYPES:  # Spark has them in another type
            return None
        return BoundOperand(BoundReference(entry), str(spark_type(type_)) if type_.is_primitive else type_.kind)

    # casts -------------------------------------------------------------------------------------------------------

    def _cast(self, operand: Operand, type_: str) -> Operand | None:
        if (
            isinstance(operand, BoundOperand)
            and isinstance(operand.bound, BoundReference)
            and _preserves_value(operand.type, type_)
        ):
            return BoundOperand(operand.bound, type_)
        at_least = _at_least(operand)
        if at_least is None:
            return None
        match operand.type, type_:
            case "integer", "long":
                return IntegerFunction(operand.ref, type_, at_least)
            case "timestamp_ntz", "date":
                return IntegerFunction(operand.ref, type_, lambda days: at_least(days * _DAY))
            case "timestamp", "date":
                local = self._in_zone(at_least)
                return IntegerFunction(operand.ref, type_, lambda days: local(days * _DAY))
            case "date", "timestamp_ntz":
                return IntegerFunction(operand.ref, type_, lambda micros: at_least(_ceil_div(micros, _DAY)))
            case "date", "timestamp":
                return IntegerFunction(
                    operand.ref, type_, self._in_zone(lambda micros: at_least(_ceil_div(micros, _DAY)))
                )
            case ("timestamp", "timestamp_ntz") | ("timestamp_ntz", "timestamp"):
                return IntegerFunction(operand.ref, type_, self._in_zone(at_least))
            case _:
                return None

    def _in_zone(self, at_least: AtLeast) -> AtLeast:
        """The same for local time in the session's time zone: exact for UTC, else wider by the greatest offset."""
        if self._is_utc:
            return at_least
        return lambda micros: Translation(
            at_least(micros - _FARTHEST_ZONE).as_inexact().passing,
            at_least(micros + _FARTHEST_ZONE).as_inexact().failing,
        )

    # functions of Spark --------------------------------------------------------------------------------------------

    def _call(self, name: str, arguments: tuple[Node, ...]) -> Operand | None:
        match name, arguments:
            case "EXTRACT YEAR", (inner,):
                return self._increasing(inner, ("date",), lambda year: days_from_civil(year, 1, 1), "integer")
            case "TRUNC", (inner, Value(value=str(unit))):
                first = _first_of_unit(unit.upper())
                return None if first is None else self._increasing(inner, ("date",), first, "date")
            case "SUBSTRING", (inner, Value(value=0 | 1), Value(value=int(width))):
                return self._prefix(inner, width)
            case "COALESCE", (inner, Value(value=value)) if value is not None:
                operand = self.resolve(inner)
                return None if operand is None else CoalesceOperand(operand, value)
            case "DATE_ADD", (inner, Value(value=int(days))):
                return self._increasing(inner, ("date",), lambda day: day - days, "date")
            case "DATE_DIFF", (inner, Value(value=int(since))):
                return self._increasing(inner, ("date",), lambda days: days + since, "integer")
            case "DATE_DIFF", (Value(value=int(until)), inner):
                return self._decreasing(inner, ("date",), lambda days: until - days, "integer")
            case _:
                return self._arithmetic(name, arguments)

    def _arithmetic(self, name: str, arguments: tuple[Node, ...]) -> Operand | None:
        """An arithmetic function of integers.

        Its filters are not taken as exact: Spark pushes down only arithmetic that fails on overflow, so it must
        evaluate the rows itself.
        """
        match name, arguments:
            case "+", (inner, Value(value=int(by))) | (Value(value=int(by)), inner):
                function = self._increasing(inner, _INTEGER_TYPES, lambda value: value - by)
            case "-", (inner, Value(value=int(by))):
                function = self._increasing(inner, _INTEGER_TYPES, lambda value: value + by)
            case "-", (Value(value=int(start)), inner):
                function = self._decreasing(inner, _INTEGER_TYPES, lambda value: start - value)
            case "-", (inner,):
                function = self._decreasing(inner, _INTEGER_TYPES, lambda value: -value)
            case "*", (inner, Value(value=int(by))) | (Value(value=int(by)), inner) if by > 0:
                function = self._increasing(inner, _INTEGER_TYPES, lambda value: _ceil_div(value, by))
            case "*", (inner, Value(value=int(by))) | (Value(value=int(by)), inner) if by < 0:
                function = self._decreasing(inner, _INTEGER_TYPES, lambda value: value // by)
            case "ABS", (inner,):
                function = self._absolute(inner)
            case _:
                return None
        if function is None:
            return None
        at_least = function.at_least
        return IntegerFunction(function.ref, function.type, lambda value: at_least(value).as_inexact())

    def _increasing(
        self, inner: Node, types: tuple[str, ...], first: Callable[[int], int], type_: str | None = None
    ) -> IntegerFunction | None:
        """An increasing function: it is at least `v` where its operand is at least `first(v)`."""
        operand = self.resolve(inner)
        at_least = None if operand is None or operand.type not in types else _at_least(operand)
        if operand is None or at_least is None:
            return None
        return IntegerFunction(operand.ref, type_ or operand.type, lambda value: at_least(first(value)))

    def _decreasing(
        self, inner: Node, types: tuple[str, ...], last: Callable[[int], int], type_: str | None = None
    ) -> IntegerFunction | None:
        """A decreasing function: it is at least `v` where its operand is at most `last(v)`."""
        function = self._increasing(inner, types, lambda value: last(value) + 1, type_)
        if function is None:
            return None
        exceeds = function.at_least
        return IntegerFunction(function.ref, function.type, lambda value: negate(exceeds(value)))

    def _absolute(self, inner: Node) -> IntegerFunction | None:
        function = self._increasing(inner, _INTEGER_TYPES, lambda value: value)
        if function is None:
            return None
        at_least = function.at_least
        return IntegerFunction(
            function.ref, function.type, lambda value: disjunction([at_least(value), negate(at_least(1 - value))])
        )

    def _prefix(self, inner: Node, width: int) -> Operand | None:
        operand = self.resolve(inner)
        if not isinstance(operand, BoundOperand) or operand.bound.type.kind not in ("string", "binary") or width < 1:
            return None
        return PrefixOperand(operand.ref, width, operand.type) if isinstance(operand.bound, BoundReference) else None

    # functions of the catalog --------------------------------------------------------------------------------------

    def _resolve_transform(self, name: str, arguments: tuple[Node, ...]) -> Operand | None:
        """A partition transform; it uses UTC, whatever the session's time zone is."""
        match name, arguments:
            case "bucket", (Value(value=int(count)), inner):
                return self._bucket(inner, count)
            case "truncate", (Value(value=int(width)), inner):
                return self._truncate(inner, width)
            case "years", (inner,):
                return self._time_transform(inner, lambda years: days_from_civil(1970 + years, 1, 1), "integer")
            case "months", (inner,):
                return self._time_transform(inner, _first_of_month, "integer")
            case "days", (inner,):
                return self._time_transform(inner, lambda days: days, "date")
            case "hours", (inner,):
                return self._increasing(inner, _TIMESTAMP_TYPES, lambda hours: hours * _HOUR, "integer")
            case _:
                return None

    def _time_transform(self, inner: Node, first: Callable[[int], int], type_: str) -> Operand | None:
        of_date = self._increasing(inner, ("date",), first, type_)
        return of_date or self._increasing(inner, _TIMESTAMP_TYPES, lambda value: first(value) * _DAY, type_)

    def _bucket(self, inner: Node, count: int) -> Operand | None:
        operand = self.resolve(inner)
        if not isinstance(operand, BoundOperand) or not isinstance(operand.bound, BoundReference):
            return None
        transform = Bucket(count)
        if operand.ref.type.kind not in _BUCKETED_TYPES or operand.type not in (
            str(spark_type(operand.ref.type)),
            "long",
        ):
            return None
        return BoundOperand(BoundTransform(transform, operand.ref, transform.result_type(operand.ref.type)), "integer")

    def _truncate(self, inner: Node, width: int) -> Operand | None:
        operand = self.resolve(inner)
        if operand is None or width < 1:
            return None
        if operand.type in _INTEGER_TYPES:
            return self._increasing(inner, _INTEGER_TYPES, lambda value: _ceil_div(value, width) * width)
        type_, at_least = operand.ref.type, column_at_least(operand.ref)
        if isinstance(type_, DecimalType) and at_least is not None and operand.type == spark_type(type_):
            return IntegerFunction(
                operand.ref,
                operand.type,
                lambda value: at_least(_ceil_div(value, width) * width),
                unscaled_integer(type_),
            )
        return self._prefix(inner, width)


def _at_least(operand: Operand) -> AtLeast | None:
    """`at_least` of an operand with integer values; None for others."""
    if isinstance(operand, IntegerFunction):
        return operand.at_least
    is_column = isinstance(operand, BoundOperand) and isinstance(operand.bound, BoundReference)
    return (
        column_at_least(operand.ref)
        if is_column and operand.type in (*_INTEGER_TYPES, "date", *_TIMESTAMP_TYPES)
        else None
    )


def _preserves_value(old_type: str, new_type: str) -> bool:
    """Whether a cast returns the same number, or fails."""
    old_scale, new_scale = _DECIMAL.fullmatch(old_type), _DECIMAL.fullmatch(new_type)
    if new_scale:
        return old_type in _INTEGER_TYPES or (old_scale is not None and int(old_scale[1]) <= int(new_scale[1]))
    return (old_type, new_type) in {("integer", "long"), ("integer", "double"), ("float", "double")}


def _ceil_div(value: int, step: int) -> int:
    """A quotient, rounded up."""
    return -(-value // step)


def _first_of_month(months: int) -> int:
    """The first day of a month, which is counted from January 1970 on."""
    return days_from_civil(1970 + months // 12, months % 12 + 1, 1)


def _first_of_unit(unit: str) -> Callable[[int], int] | None:
    """A function that returns the first day of a `trunc` unit on or after a day; None if Spark has no such unit."""
    if unit == "WEEK":
        return lambda day: _MONDAY + 7 * _ceil_div(day - _MONDAY, 7)
    step = _UNIT_MONTHS.get(unit)
    if step is None:
        return None

    def first(day: int) -> int:
        year, month, day_of_month = civil_from_days(day)
        months = (year - 1970) * 12 + month - 1 + (day_of_month > 1)
        return _first_of_month(_ceil_div(months, step) * step)

    return first
