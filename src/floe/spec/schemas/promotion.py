"""Type promotion: which type a column may be changed to, and how existing values convert (spec: Schema Evolution).

>>> from floe.spec.types import DATE, INT, LONG, TIMESTAMP
>>> can_promote(INT, LONG, 2), can_promote(LONG, INT, 2)
(True, False)
>>> can_promote(DATE, TIMESTAMP, 2), can_promote(DATE, TIMESTAMP, 3)
(False, True)
>>> promote_value(DATE, TIMESTAMP, 1)
86400000000
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from floe.errors import IncompatibleChange, InvalidValue
from floe.spec.partitioning.transforms import Bucket, Identity, Transform, UnknownTransform
from floe.spec.types import DecimalType, ListType, MapType, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY
from floe.spec.values.value_checks import map_items

_SINCE = {("int", "long"): 1, ("float", "double"): 1, ("date", "timestamp"): 3, ("date", "timestamp_ns"): 3}
"""The first format version that allows each promotion; decimals and unknown have their own rules below."""

UNKNOWN_SINCE = 3


class TransformedField(Protocol):
    """A field of a partition spec or of a sort order, as promotion needs it."""

    @property
    def source_ids(self) -> Sequence[int]:
        """The ids of the columns that are transformed."""

    @property
    def transform(self) -> Transform:
        """The transform of the field."""


def can_promote(source: Type, target: Type, format_version: int) -> bool:
    """Whether a column may change from one type to another; the same type is always allowed.

    This looks at the types only: `check_promotion` also considers the partition fields that use the column.
    """
    return source == target or _problem(source, target, format_version) is None


def check_promotion(
    source: Type,
    target: Type,
    format_version: int,
    *,
    column: str,
    field_id: int | None = None,
    partition_fields: Iterable[TransformedField] = (),
) -> None:
    """Raise `IncompatibleChange`, with the reason, unless a column may change from one type to another.

    `partition_fields` are those of all specs of the table: files of an old spec keep their partition values, and
    filters are projected through it.

    >>> from floe.spec.types import INT, STRING
    >>> check_promotion(INT, STRING, 3, column="a")
    Traceback (most recent call last):
    floe.errors.IncompatibleChange: cannot change 'a' from int to string: there is no such promotion (column: a); ...
    """
    if source == target:
        return
    problem = _problem(source, target, format_version)
    if problem:
        reason, hint = problem
        raise IncompatibleChange(
            f"cannot change {column!r} from {source} to {target}: {reason}", hint=hint, column=column
        )
    for field in partition_fields:
        if field_id in field.source_ids and not _same_partition(field.transform, source, target):
            raise IncompatibleChange(
                f"cannot change {column!r} from {source} to {target}: "
                f"a partition field with transform {field.transform} would have other values",
                hint="data already written keeps its partition values, which must mean the same after the change",
                column=column,
            )


def promote_value(source: Type, target: Type, value: Any) -> Any:
    """Convert a value of the old type to the new type.

    The fields of structs are matched by id: values follow renamed fields, and those of dropped fields are left out.

    >>> from floe.spec.types import DATE, TIMESTAMP_NS
    >>> promote_value(DATE, TIMESTAMP_NS, 2**31 - 1)
    Traceback (most recent call last):
    floe.errors.InvalidValue: date 2147483647 (days from 1970-01-01) is out of the range of timestamp_ns
    """
    if value is None or source == target:
        return value
    if source.is_nested and source.kind == target.kind:
        return _promote_nested(source, target, value)
    ticks = _TICKS_PER_DAY.get((source.kind, target.kind))
    if ticks is None:
        return value
    promoted = value * ticks
    if not -(2**63) <= promoted < 2**63:
        raise InvalidValue(f"date {value} (days from 1970-01-01) is out of the range of {target}")
    return promoted


def _promote_nested(source: Type, target: Type, value: Any) -> Any:
    if isinstance(source, ListType) and isinstance(target, ListType):
        return [promote_value(source.element, target.element, item) for item in value]
    if isinstance(source, MapType) and isinstance(target, MapType):
        pairs = [
            (promote_value(source.key, target.key, key), promote_value(source.value, target.value, item))
            for key, item in map_items(value)
        ]
        return dict(pairs) if isinstance(value, dict) else pairs
    target_fields = {child.id: child for child in target.fields}
    return {
        target_fields[child.id].name: promote_value(child.type, target_fields[child.id].type, value[child.name])
        for child in source.fields
        if child.id in target_fields and child.name in value
    }


_TICKS_PER_DAY = {
    ("date", "timestamp"): SECONDS_PER_DAY * MICROS,
    ("date", "timestamp_ns"): SECONDS_PER_DAY * NANOS,
}


def _problem(source: Type, target: Type, format_version: int) -> tuple[str, str | None] | None:
    """Why one type cannot become another, with a hint; None if it can."""
    if source.kind == "unknown":
        return _version_problem(UNKNOWN_SINCE, format_version)
    if isinstance(source, DecimalType) and isinstance(target, DecimalType):
        return _decimal_problem(source, target)
    since = _SINCE.get((source.kind, target.kind))
    if since is not None:
        return _version_problem(since, format_version)
    if source.is_nested != target.is_nested:
        return "a struct, list or map cannot become a primitive, nor the reverse", _REPLACE
    if source.is_nested:
        return "a nested type cannot become another one", "change its fields instead"
    if source.kind == "date" and target.kind in ("timestamptz", "timestamptz_ns"):
        return "a date has no time zone", "timestamp and timestamp_ns are allowed"
    if (target.kind, source.kind) in _SINCE:
        return "values may not fit the narrower type", _REPLACE
    return "there is no such promotion", _REPLACE


_REPLACE = "add a column of the new type and drop the old one"


def _decimal_problem(source: DecimalType, target: DecimalType) -> tuple[str, str | None] | None:
    if source.scale != target.scale:
        return "the scale of a decimal never changes", _REPLACE
    if source.precision > target.precision:
        return "the precision of a decimal can only grow", _REPLACE
    return None


def _version_problem(since: int, format_version: int) -> tuple[str, str | None] | None:
    if format_version >= since:
        return None
    return (
        f"that needs format version {since}; the table has {format_version}",
        "upgrade the table's format version first",
    )


def _same_partition(transform: Transform, source: Type, target: Type) -> bool:
    """Whether a transform gives the same result for each value before and after promotion.

    Integers, floats and decimals are transformed by their numeric value, which promotion keeps, and null stays null.
    A date and the midnight it becomes have the same year, month and day; but identity and bucket use the number itself,
    and a number of days differs from one of micro- or nanoseconds. An unknown transform may do anything.
    """
    if isinstance(transform, UnknownTransform) or not transform.can_transform(target):
        return False
    if source.kind == "date":
        return not isinstance(transform, Identity | Bucket)
    return True
