"""Functions of dates and timestamps: fields, arithmetic, truncation, construction and the current time.

Timestamps with a zone are computed in UTC. `current_timestamp` is the time when the statement began, the same for all
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import DATETIMES, cast_array
from floe.arrow.values.compiled import Compiled, Function, Site, function, typed_function
from floe.errors import InvalidValue
from floe.formats.columns.arrays import constant_array
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.types import DATE, INT, LONG, STRING, TIMESTAMP, TIMESTAMPTZ, PrimitiveType, Type
from floe.sql.literals import TYPES
from floe.sql.values import INTERVAL

_DAY_US = 86_400_000_000


def _to_datetime(site: Site, value: Compiled) -> Compiled:
    """The value if it is a date or timestamp; text is cast to a timestamp."""
    if value.type.kind in DATETIMES:
        return value
    if value.type.kind not in ("string", "unknown"):
        site.mismatch([value], "a date or timestamp")
    return site.cast(value, TIMESTAMP)


# Fields ---------------------------------------------------------------------------------------------------------------


def _field(kernel: Callable[[pa.Array], pa.Array]) -> Function:
    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = _to_datetime(site, values[0])
        return site.eager(INT, [value], lambda array: pc.cast(kernel(_without_zone(array)), pa.int32()))

    return function(compile_call, 1)


def _without_zone(array: pa.Array) -> pa.Array:
    """Timestamps in UTC without a zone; dates as they are."""
    return pc.cast(array, pa.timestamp(array.type.unit)) if pa.types.is_timestamp(array.type) else array


def _field_of_day(kernel: Callable[[pa.Array], pa.Array]) -> Function:
    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = _to_datetime(site, values[0])
        timestamp = site.cast(value, TIMESTAMP) if value.type.kind == "date" else value
        return site.eager(INT, [timestamp], lambda array: pc.cast(kernel(_without_zone(array)), pa.int32()))

    return function(compile_call, 1)


def _day_of_week(array: pa.Array) -> pa.Array:
    return pc.day_of_week(array, count_from_zero=False, week_start=7)  # 1 is Sunday


def _weekday(array: pa.Array) -> pa.Array:
    return pc.day_of_week(array)  # 0 is Monday


# Arithmetic -----------------------------------------------------------------------------------------------------------


def add_to_datetime(site: Site, left: Compiled, right: Compiled) -> Compiled:
    """Compile `date + 3`, `date - 3`, and dates or timestamps plus or minus an interval."""
    is_subtraction = site.name == "-"
    if right.type.kind in DATETIMES and not is_subtraction:
        left, right = right, left
    if left.type.kind not in DATETIMES:
        site.mismatch([left, right], "a date or timestamp, and days or an interval")
    if right.type.kind in DATETIMES:
        site.fail("dates and timestamps cannot be subtracted from each other", "use datediff(end, start) for days")
    if right.type == INTERVAL:
        return _add_interval(site, left, right, -1 if is_subtraction else 1)
    if left.type.kind != "date":
        site.fail("days cannot be added to a timestamp", "write INTERVAL, such as ts + INTERVAL 3 DAYS")
    return _add_days(site, [left, right], -1 if is_subtraction else 1)


def _add_days(site: Site, values: Sequence[Compiled], sign: int) -> Compiled:
    date, days = site.cast(_to_datetime(site, values[0]), DATE), site.cast(values[1], INT)
    add = pc.add_checked if sign > 0 else pc.subtract_checked
    return site.eager(DATE, [date, days], lambda a, b: pc.cast(add(pc.cast(a, pa.int32()), b), pa.date32()))


def _add_interval(site: Site, datetime: Compiled, interval: Compiled, sign: int) -> Compiled:
    months, micros = interval.node.value  # type: ignore[attr-defined]
    months, micros = sign * months, sign * micros
    if datetime.type.kind == "date" and micros % _DAY_US:
        datetime = site.cast(datetime, TIMESTAMP)
    type_ = datetime.type

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

    return site.eager(type_, [datetime], kernel)


def _plus_months(array: pa.Array, months: Any) -> pa.Array:
    """Add months; the day is the last of the month if the month does not have the day."""
    days = pc.cast(cast_array(_without_zone(array), _iceberg_type(array), DATE), pa.int32())
    is_valid = days.is_valid()
    old_days = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    dates = old_days.view("datetime64[D]")
    old_months = dates.astype("datetime64[M]")
    days_of_month = (dates - old_months.astype("datetime64[D]")).astype(np.int64)
    target_months = old_months + np.asarray(months).astype("timedelta64[M]")
    month_starts = target_months.astype("datetime64[D]")
    month_lengths = ((target_months + np.timedelta64(1, "M")).astype("datetime64[D]") - month_starts).astype(np.int64)
    new_days = month_starts.astype(np.int64) + np.minimum(days_of_month, month_lengths - 1)
    if len(new_days) and (np.abs(new_days) > 2**31 - 1).any():
        raise InvalidValue("overflow: a date does not fit")
    new_dates = pa.array(new_days.astype(np.int32), pa.int32())
    if not pa.types.is_timestamp(array.type):
        return pc.if_else(is_valid, pc.cast(new_dates, pa.date32()), pa.scalar(None, pa.date32()))
    per_day = _DAY_US * (1000 if array.type.unit == "ns" else 1)
    ticks = pc.fill_null(pc.cast(array, pa.int64()), 0).to_numpy(zero_copy_only=False)
    new_ticks = ticks + (new_days - old_days) * per_day
    return pc.if_else(is_valid, pc.cast(pa.array(new_ticks), array.type), pa.scalar(None, array.type))


def _iceberg_type(array: pa.Array) -> Type:
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


# Truncation and construction ------------------------------------------------------------------------------------------

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
        site.fail(f"{site.name} has no unit {name!r}", f"units are {', '.join(dict.fromkeys(_UNITS.values()))}")
    return unit


def _date_trunc(site: Site, values: Sequence[Compiled]) -> Compiled:
    unit, value = _unit(site, values[0]), _to_datetime(site, values[1])
    timestamp = site.cast(value, TIMESTAMP) if value.type.kind == "date" else value
    type_ = timestamp.type
    return site.eager(type_, [timestamp], lambda array: _truncate(array, unit, arrow_type(type_)))


def _trunc(site: Site, values: Sequence[Compiled]) -> Compiled:
    unit = _unit(site, values[1])
    return site.eager(
        DATE, [site.cast(_to_datetime(site, values[0]), DATE)], lambda array: _truncate(array, unit, pa.date32())
    )


def _truncate(array: pa.Array, unit: str, type_: pa.DataType) -> pa.Array:
    return pc.cast(pc.floor_temporal(_without_zone(array), unit=unit), type_)


def _make_date(year: pa.Array, month: pa.Array, day: pa.Array) -> pa.Array:
    is_valid = pc.and_(pc.and_(year.is_valid(), month.is_valid()), day.is_valid())
    years, months, days = (
        pc.fill_null(part, 1).to_numpy(zero_copy_only=False).astype(np.int64) for part in (year, month, day)
    )
    month_starts = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    month_lengths = (
        (month_starts + np.timedelta64(1, "M")).astype("datetime64[D]") - month_starts.astype("datetime64[D]")
    ).astype(np.int64)
    is_invalid = (months < 1) | (months > 12) | (days < 1) | (days > month_lengths)
    if (is_invalid & np.asarray(is_valid.to_numpy(zero_copy_only=False))).any():
        index = int(np.flatnonzero(is_invalid)[0])
        raise InvalidValue(f"there is no date {years[index]}-{months[index]}-{days[index]}")
    dates = pa.array((month_starts.astype("datetime64[D]").astype(np.int64) + days - 1).astype(np.int32), pa.date32())
    return pc.if_else(is_valid, dates, pa.scalar(None, pa.date32()))


def _cast_to(type_: Type) -> Function:
    return function(lambda site, values: site.cast(values[0], type_), 1)


def _unix_seconds(array: pa.Array) -> pa.Array:
    ticks = pc.cast(array, pa.int64()).to_numpy(zero_copy_only=False) if not array.null_count else None
    if ticks is not None:
        return pa.array(np.floor_divide(ticks, 1_000_000))
    seconds = np.floor_divide(pc.fill_null(pc.cast(array, pa.int64()), 0).to_numpy(zero_copy_only=False), 1_000_000)
    return pc.if_else(array.is_valid(), pa.array(seconds), pa.scalar(None, pa.int64()))


def _now(type_: Type) -> Function:
    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        value = site.now_us // _DAY_US if type_ == DATE else site.now_us
        return site.eager(type_, [], lambda count: constant_array(type_, value, count))

    return function(compile_call, 0)


FUNCTIONS: dict[str, Function] = {
    **{name: _cast_to(type_) for name, type_ in TYPES.items()},
    "year": _field(pc.year),
    "quarter": _field(pc.quarter),
    "month": _field(pc.month),
    **dict.fromkeys(("day", "dayofmonth"), _field(pc.day)),
    "dayofyear": _field(pc.day_of_year),
    "dayofweek": _field(_day_of_week),
    "weekday": _field(_weekday),
    "weekofyear": _field(pc.iso_week),
    "hour": _field_of_day(pc.hour),
    "minute": _field_of_day(pc.minute),
    "second": _field_of_day(pc.second),
    "date_add": function(lambda site, values: _add_days(site, values, 1), 2),
    "dateadd": function(lambda site, values: _add_days(site, values, 1), 2),
    "date_sub": function(lambda site, values: _add_days(site, values, -1), 2),
    **dict.fromkeys(("datediff", "date_diff"), typed_function(INT, _days_between, DATE, DATE)),
    "add_months": typed_function(DATE, _add_months, DATE, INT),
    "last_day": typed_function(DATE, _last_day, DATE),
    "date_trunc": function(_date_trunc, 2),
    "trunc": function(_trunc, 2),
    "make_date": typed_function(DATE, _make_date, INT, INT, INT),
    "to_date": _cast_to(DATE),
    **dict.fromkeys(("to_timestamp", "to_timestamp_ntz"), _cast_to(TIMESTAMP)),
    "to_timestamp_ltz": _cast_to(TIMESTAMPTZ),
    "unix_seconds": typed_function(LONG, _unix_seconds, TIMESTAMPTZ),
    "unix_micros": typed_function(LONG, lambda array: pc.cast(array, pa.int64()), TIMESTAMPTZ),
    **dict.fromkeys(("current_date", "curdate"), _now(DATE)),
    **dict.fromkeys(("current_timestamp", "now"), _now(TIMESTAMPTZ)),
    "localtimestamp": _now(TIMESTAMP),
}
