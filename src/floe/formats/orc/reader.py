"""Which stripes of an ORC file are read: those in a split, and of those the ones that a filter may match."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from floe.errors import CorruptFile, FloeError
from floe.formats.orc.protobuf import Message, bytes_of, one_number, read_fields, signed
from floe.formats.orc.tail import OrcNode, Tail
from floe.formats.projection import Projection
from floe.spec.codecs.single_value import encode
from floe.spec.pruning.metrics_filter import compile_might_match
from floe.spec.types import Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

__all__ = ["in_split", "matching", "within_nanoseconds"]

_Bounds = tuple[Any, Any]
_INTEGERS, _DOUBLES, _STRINGS, _DECIMALS, _DATES, _TIMESTAMPS = 2, 3, 4, 6, 7, 9
_MOMENTS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_LATEST_MS = 2**63 // 10**6 - 2 * SECONDS_PER_DAY * 1000


def in_split(tail: Tail, split: tuple[int, int] | None) -> list[int]:
    """The stripes that begin in a range of bytes, as all readers of ORC count them."""
    everything = list(range(len(tail.stripes)))
    if split is None:
        return everything
    start, end = split[0], split[0] + split[1]
    return [n for n in everything if start <= tail.stripes[n].offset < end]


# filters --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def matching(tail: Tail, stripes: list[int], projection: Projection) -> list[int]:
    """Those of the stripes that may have a row which passes the filter, by the statistics in the file's tail."""
    tested = [
        (field_id, _number_at(tail.nodes, path), column.stored)
        for field_id, (path, column) in projection.tested_columns().items()
        if column.stored is not None and column.kind != "variant"
    ]
    statistics = tail.statistics() if tested else []
    if not statistics:
        return stripes
    might_match = compile_might_match(projection.filter)
    return [n for n in stripes if might_match(_facts(tail.stripes[n].rows, statistics[n], tested))]


def _number_at(nodes: Sequence[OrcNode], path: Iterable[int]) -> int:
    """The number of the column at the end of a path through structs."""
    number = 0
    for place in path:
        number = nodes[number].children[place]
    return number


def _facts(rows: int, statistics: Sequence[Message], tested: Iterable[tuple[int, int, Type]]) -> _Facts:
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field_id, number, stored in tested:
        column = statistics[number] if number < len(statistics) else {}
        known = one_number(column, 1, -1)
        if not 0 <= known <= rows:
            continue
        values[field_id], nulls[field_id] = rows, rows - known
        try:
            bounds = _bounds(stored, column)
            if bounds is not None:
                found = encode(stored, bounds[0]), encode(stored, bounds[1])
                lower[field_id], upper[field_id] = found
        except (FloeError, ValueError, OverflowError, ArithmeticError, struct.error, IndexError):
            continue  # rows are read then, which is always right
    return _Facts(rows, values, nulls, None, lower, upper)


def _bounds(stored: Type, column: Message) -> _Bounds | None:
    """The least and the greatest value of a column, or something that is certainly beyond them."""
    rule = _RULES.get(stored.kind)
    if rule is None:
        return None
    field, read = rule
    parts = bytes_of(column, field)
    return read(stored, read_fields(parts[-1])) if parts else None


def _integers(stored: Type, found: Message) -> _Bounds | None:
    if 1 not in found or 2 not in found:
        return None
    return signed(one_number(found, 1)), signed(one_number(found, 2))


def _doubles(stored: Type, found: Message) -> _Bounds | None:
    lower, upper = (struct.unpack("<d", bytes_of(found, field)[-1])[0] for field in (1, 2))
    if math.isnan(lower) or math.isnan(upper):
        return None
    return -0.0 if lower == 0 else lower, 0.0 if upper == 0 else upper


def _strings(stored: Type, found: Message) -> _Bounds | None:
    lower = bytes_of(found, 1) or bytes_of(found, 4)
    upper = bytes_of(found, 2) or bytes_of(found, 5)
    return (lower[-1].decode(), upper[-1].decode()) if lower and upper else None


def _decimals(stored: Type, found: Message) -> _Bounds | None:
    try:
        lower, upper = (Decimal(bytes_of(found, field)[-1].decode()) for field in (1, 2))
    except InvalidOperation:
        raise CorruptFile("a decimal in the file's statistics is no number") from None
    return lower, upper


def _milliseconds(column: Message) -> tuple[int, int] | None:
    parts = bytes_of(column, _TIMESTAMPS)
    found = read_fields(parts[-1]) if parts else {}
    return (signed(one_number(found, 3)), signed(one_number(found, 4))) if 3 in found and 4 in found else None


def _moments(stored: Type, found: Message) -> _Bounds | None:
    """Statistics have milliseconds, and do not say in which time zone local times were meant."""
    if 3 not in found or 4 not in found:
        return None
    leeway = 2 if stored.kind in ("timestamptz", "timestamptz_ns") else 2 * SECONDS_PER_DAY * 1000
    ticks = (NANOS if stored.kind.endswith("_ns") else MICROS) // 1000
    return (signed(one_number(found, 3)) - leeway) * ticks, (signed(one_number(found, 4)) + leeway) * ticks


_RULES: dict[str, tuple[int, Callable[[Type, Message], _Bounds | None]]] = {
    **dict.fromkeys(("int", "long", "time"), (_INTEGERS, _integers)),
    **dict.fromkeys(("float", "double"), (_DOUBLES, _doubles)),
    **dict.fromkeys(_MOMENTS, (_TIMESTAMPS, _moments)),
    "date": (_DATES, _integers),
    "decimal": (_DECIMALS, _decimals),
    "string": (_STRINGS, _strings),
}


def within_nanoseconds(tail: Tail, stripe: int, columns: Iterable[int]) -> bool:
    """Whether statistics say that all timestamps of some columns can be counted in nanoseconds from 1970."""
    statistics = tail.statistics()
    if not statistics:
        return False
    for number in columns:
        column = statistics[stripe][number] if number < len(statistics[stripe]) else {}
        if one_number(column, 1, -1) == 0:
            continue
        range_ = _milliseconds(column)
        if range_ is None or range_[0] < -_LATEST_MS or range_[1] > _LATEST_MS:
            return False
    return True
