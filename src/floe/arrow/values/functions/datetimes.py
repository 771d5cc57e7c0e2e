"""Dates and timestamps: parts, arithmetic, truncation, and what time it is. Points in time are seen from UTC.

`current_timestamp` is the moment when the statement began, the same for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import cast_array
from floe.arrow.values.coercion import MOMENTS
from floe.arrow.values.compiled import Compiled, Known, Site, known, plain
from floe.errors import InvalidValue
from floe.formats.arrow_arrays import constant_array
from floe.formats.arrow_types import arrow_type
from floe.spec.types import DATE, INT, LONG, STRING, TIMESTAMP, TIMESTAMPTZ, PrimitiveType, Type
from floe.sql.type_names import TYPES
from floe.sql.values import INTERVAL

_DAY_US = 86_400_000_000


def _moment(site: Site, value: Compiled) -> Compiled:
    """The value as a date or timestamp; text is taken as a date, or as a timestamp if it has more than a date."""
    if value.type.kind in MOMENTS:
        return value
    if value.type.kind not in ("string", "unknown"):
        site.mismatch([value], "a date or timestamp")
    return site.cast(value, TIMESTAMP)


# parts --------------------------------------------------------------------------------------------------------


def _part(kernel: Callable[[pa.Array], pa.Array]) -> Known:
    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = _moment(site, values[0])
        return site.eager(INT, [value], lambda array: pc.cast(kernel(_clock(array)), pa.int32()))

    return known(make, 1)


def _clock(array: pa.Array) -> pa.Array:
    """What the clock of UTC shows, without a zone."""
    return pc.cast(array, pa.timestamp(array.type.unit)) if pa.types.is_timestamp(array.type) else array


def _of_day(kernel: Callable[[pa.Array], pa.Array]) -> Known:
    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = _moment(site, values[0])
        stamp = site.cast(value, TIMESTAMP) if value.type.kind == "date" else value
        return site.eager(INT, [stamp], lambda array: pc.cast(kernel(_clock(array)), pa.int32()))

    return known(make, 1)


def _day_of_week(array: pa.Array) -> pa.Array:
    return pc.day_of_week(array, count_from_zero=False, week_start=7)  # 1 is Sunday


def _weekday(array: pa.Array) -> pa.Array:
    return pc.day_of_week(array)  # 0 is Monday


# arithmetic ---------------------------------------------------------------------------------------------------


def add_to_moment(site: Site, one: Compiled, other: Compiled) -> Compiled:
    """`date + 3`, `date - 3`, and moments plus or minus an interval."""
    minus = site.name == "-"
    if other.type.kind in MOMENTS and not minus:
        one, other = other, one
    if one.type.kind not in MOMENTS:
        site.mismatch([one, other], "a date or timestamp, and days or an interval")
    if other.type.kind in MOMENTS:
        site.fail("the time between two moments has no type here", "use datediff(end, start) for days")
    if other.type == INTERVAL:
        return _add_interval(site, one, other, -1 if minus else 1)
    if one.type.kind != "date":
        site.fail("days cannot be added to a timestamp", "write INTERVAL, such as ts + INTERVAL 3 DAYS")
    return _add_days(site, [one, other], -1 if minus else 1)


def _add_days(site: Site, values: Sequence[Compiled], sign: int) -> Compiled:
    date, days = site.cast(_moment(site, values[0]), DATE), site.cast(values[1], INT)
    add = pc.add_checked if sign > 0 else pc.subtract_checked
    return site.eager(DATE, [date, days], lambda a, b: pc.cast(add(pc.cast(a, pa.int32()), b), pa.date32()))


def _add_interval(site: Site, one: Compiled, other: Compiled, sign: int) -> Compiled:
    months, micros = other.node.value  # type: ignore[attr-defined]
    months, micros = sign * months, sign * micros
    if one.type.kind == "date" and micros % _DAY_US:
        one = site.cast(one, TIMESTAMP)
    type_ = one.type

    def kernel(array: pa.Array) -> pa.Array:
        if months:
            array = _plus_months(array, np.int64(months))
        if not micros:
            return array
        if type_.kind == "date":
            days = pa.scalar(micros // _DAY_US, pa.int32())
            return pc.cast(pc.add_checked(pc.cast(array, pa.int32()), days), array.type)
        ticks = micros * (1000 if array.type.unit == "ns" else 1)
        return pc.cast(pc.add_checked(pc.cast(array, pa.int64()), pa.scalar(ticks, pa.int64())), array.type)

    return site.eager(type_, [one], kernel)


def _plus_months(array: pa.Array, months: Any) -> pa.Array:
    """So many months later, on the last day of the month if it has no such day."""
    days = pc.cast(cast_array(_clock(array), _kind_of(array), DATE), pa.int32())
    known = days.is_valid()
    numbers = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    dates = numbers.view("datetime64[D]")
    in_months = dates.astype("datetime64[M]")
    of_month = (dates - in_months.astype("datetime64[D]")).astype(np.int64)
    wanted = in_months + np.asarray(months).astype("timedelta64[M]")
    begin = wanted.astype("datetime64[D]")
    length = ((wanted + np.timedelta64(1, "M")).astype("datetime64[D]") - begin).astype(np.int64)
    found = begin.astype(np.int64) + np.minimum(of_month, length - 1)
    if len(found) and (np.abs(found) > 2**31 - 1).any():
        raise InvalidValue("overflow: a date does not fit")
    result = pa.array(found.astype(np.int32), pa.int32())
    if not pa.types.is_timestamp(array.type):
        return pc.if_else(known, pc.cast(result, pa.date32()), pa.scalar(None, pa.date32()))
    per_day = _DAY_US * (1000 if array.type.unit == "ns" else 1)
    ticks = pc.fill_null(pc.cast(array, pa.int64()), 0).to_numpy(zero_copy_only=False)
    moved = ticks + (found - numbers) * per_day
    return pc.if_else(known, pc.cast(pa.array(moved), array.type), pa.scalar(None, array.type))


def _kind_of(array: pa.Array) -> Type:
    if not pa.types.is_timestamp(array.type):
        return DATE
    return PrimitiveType("timestamp_ns") if array.type.unit == "ns" else TIMESTAMP


def _add_months(date: pa.Array, months: pa.Array) -> pa.Array:
    counts = pc.fill_null(months, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return pc.if_else(months.is_valid(), _plus_months(date, counts), pa.scalar(None, pa.date32()))


def _last_day(date: pa.Array) -> pa.Array:
    first = pc.floor_temporal(date, unit="month")
    following = pc.cast(_plus_months(first, np.int64(1)), pa.int32())
    return pc.cast(pc.subtract(following, pa.scalar(1, pa.int32())), pa.date32())


def _days_between(end: pa.Array, start: pa.Array) -> pa.Array:
    return pc.subtract_checked(pc.cast(end, pa.int32()), pc.cast(start, pa.int32()))


# truncation and making ----------------------------------------------------------------------------------------

_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}


def _unit(site: Site, value: Compiled) -> str:
    name = site.constant_of(site.cast(value, STRING), "a unit of time")
    unit = _UNITS.get((name or "").lower())
    if unit is None:
        site.fail(f"{site.name} knows no unit {name!r}", f"units are {', '.join(dict.fromkeys(_UNITS.values()))}")
    return unit


def _date_trunc(site: Site, values: Sequence[Compiled]) -> Compiled:
    unit, value = _unit(site, values[0]), _moment(site, values[1])
    stamp = site.cast(value, TIMESTAMP) if value.type.kind == "date" else value
    type_ = stamp.type
    return site.eager(type_, [stamp], lambda array: _floored(array, unit, arrow_type(type_)))


def _trunc(site: Site, values: Sequence[Compiled]) -> Compiled:
    unit = _unit(site, values[1])
    return site.eager(
        DATE, [site.cast(_moment(site, values[0]), DATE)], lambda array: _floored(array, unit, pa.date32())
    )


def _floored(array: pa.Array, unit: str, type_: pa.DataType) -> pa.Array:
    return pc.cast(pc.floor_temporal(_clock(array), unit=unit), type_)


def _make_date(year: pa.Array, month: pa.Array, day: pa.Array) -> pa.Array:
    known = pc.and_(pc.and_(year.is_valid(), month.is_valid()), day.is_valid())
    years, months, days = (
        pc.fill_null(a, 1).to_numpy(zero_copy_only=False).astype(np.int64) for a in (year, month, day)
    )
    begin = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    length = ((begin + np.timedelta64(1, "M")).astype("datetime64[D]") - begin.astype("datetime64[D]")).astype(np.int64)
    wrong = (months < 1) | (months > 12) | (days < 1) | (days > length)
    if (wrong & np.asarray(known.to_numpy(zero_copy_only=False))).any():
        place = int(np.flatnonzero(wrong)[0])
        raise InvalidValue(f"there is no date {years[place]}-{months[place]}-{days[place]}")
    found = pa.array((begin.astype("datetime64[D]").astype(np.int64) + days - 1).astype(np.int32), pa.date32())
    return pc.if_else(known, found, pa.scalar(None, pa.date32()))


def _cast_to(type_: Type) -> Known:
    return known(lambda site, values: site.cast(values[0], type_), 1)


def _unix_seconds(array: pa.Array) -> pa.Array:
    ticks = pc.cast(array, pa.int64()).to_numpy(zero_copy_only=False) if not array.null_count else None
    if ticks is not None:
        return pa.array(np.floor_divide(ticks, 1_000_000))
    filled = np.floor_divide(pc.fill_null(pc.cast(array, pa.int64()), 0).to_numpy(zero_copy_only=False), 1_000_000)
    return pc.if_else(array.is_valid(), pa.array(filled), pa.scalar(None, pa.int64()))


def _now(type_: Type) -> Known:
    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = site.now_us // _DAY_US if type_ == DATE else site.now_us
        return site.eager(type_, [], lambda count: constant_array(type_, value, count))

    return known(make, 0)


FUNCTIONS: dict[str, Known] = {
    **{name: _cast_to(type_) for name, type_ in TYPES.items()},
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    **dict.fromkeys(("day", "dayofmonth"), _part(pc.day)),
    "dayofyear": _part(pc.day_of_year),
    "dayofweek": _part(_day_of_week),
    "weekday": _part(_weekday),
    "weekofyear": _part(pc.iso_week),
    "hour": _of_day(pc.hour),
    "minute": _of_day(pc.minute),
    "second": _of_day(pc.second),
    "date_add": known(lambda site, values: _add_days(site, values, 1), 2),
    "dateadd": known(lambda site, values: _add_days(site, values, 1), 2),
    "date_sub": known(lambda site, values: _add_days(site, values, -1), 2),
    **dict.fromkeys(("datediff", "date_diff"), plain(INT, _days_between, DATE, DATE)),
    "add_months": plain(DATE, _add_months, DATE, INT),
    "last_day": plain(DATE, _last_day, DATE),
    "date_trunc": known(_date_trunc, 2),
    "trunc": known(_trunc, 2),
    "make_date": plain(DATE, _make_date, INT, INT, INT),
    "to_date": _cast_to(DATE),
    **dict.fromkeys(("to_timestamp", "to_timestamp_ntz"), _cast_to(TIMESTAMP)),
    "to_timestamp_ltz": _cast_to(TIMESTAMPTZ),
    "unix_seconds": plain(LONG, _unix_seconds, TIMESTAMPTZ),
    "unix_micros": plain(LONG, lambda array: pc.cast(array, pa.int64()), TIMESTAMPTZ),
    **dict.fromkeys(("current_date", "curdate"), _now(DATE)),
    **dict.fromkeys(("current_timestamp", "now"), _now(TIMESTAMPTZ)),
    "localtimestamp": _now(TIMESTAMP),
}
