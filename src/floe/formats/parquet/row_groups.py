"""Which row groups of a Parquet file are read: those in a split, and of those the ones that a filter may match."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from floe.errors import CorruptFile, FloeError
from floe.formats.parquet.footer import RowGroup
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.nodes import Expression
from floe.spec.pruning.metrics_filter import compile_might_match
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

__all__ = ["GroupFacts", "TestedColumn", "facts_of", "in_split", "matching", "runs"]

_MAX_RUN_BYTES = 32 * 1024 * 1024
"""Row groups are read together up to this size, so that small ones cost little and large ones are not all in memory."""

_PLAIN = {
    "BOOLEAN": struct.Struct("<?"),
    "INT32": struct.Struct("<i"),
    "INT64": struct.Struct("<q"),
    "FLOAT": struct.Struct("<f"),
    "DOUBLE": struct.Struct("<d"),
}
"""How values are stored plainly; all others are bytes."""


def in_split(groups: Sequence[RowGroup], split: tuple[int, int], file_size: int) -> list[int]:
    """The row groups whose middle lies in a range of bytes, as all readers of Parquet count them.

    So each row group belongs to exactly one of the splits that cover a file, wherever they are cut.
    """
    start, end = split[0], split[0] + split[1]
    found = []
    for number, group in enumerate(groups):
        middle = group.start + group.size // 2
        if not 0 <= middle <= file_size:  # it would be in no split, and its rows lost
            raise CorruptFile(f"row group {number} has its middle at byte {middle} of a file of {file_size} bytes")
        if start <= middle < end:
            found.append(number)
    return found


def runs(metadata: pq.FileMetaData, groups: Iterable[int]) -> Iterator[list[int]]:
    """The row groups in runs without gaps, each small enough to be read at once."""
    run: list[int] = []
    size = 0
    for group in groups:
        bytes_ = metadata.row_group(group).total_byte_size
        if run and (group != run[-1] + 1 or size + bytes_ > _MAX_RUN_BYTES):
            yield run
            run, size = [], 0
        run.append(group)
        size += bytes_
    if run:
        yield run


# filters --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TestedColumn:
    """A column of the file that a filter tests."""

    field_id: int
    leaf: int
    """Its place among the file's columns of values."""

    stored: Type
    arrow: pa.DataType
    physical: str
    """How Parquet stores its values: `INT32`, `BYTE_ARRAY`, …"""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Counts and bounds of columns in a row group, by field id, as the metrics of a file are told."""

    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def matching(
    groups: Sequence[RowGroup], chosen: Sequence[int], where: Expression, columns: Sequence[TestedColumn]
) -> list[int]:
    """Those of the chosen row groups that may have a row which passes a bound filter, by the footer's statistics."""
    might_match = compile_might_match(where)
    return [n for n in chosen if might_match(facts_of(groups[n], columns))]


def facts_of(group: RowGroup, columns: Sequence[TestedColumn]) -> GroupFacts:
    """What the statistics in the footer say of some columns of a row group."""
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in columns:
        chunk = group.columns[column.leaf]
        values[column.field_id] = chunk.values
        if chunk.nulls is not None:
            nulls[column.field_id] = chunk.nulls
        if chunk.bounds is not None and (chunk.by_type or column.physical in _PLAIN):
            for bounds, raw in zip((lower, upper), chunk.bounds, strict=True):
                bound = _bound(column, raw)
                if bound is not None:
                    bounds[column.field_id] = bound
    return GroupFacts(group.rows, values, nulls, None, lower, upper)


def _bound(column: TestedColumn, raw: bytes) -> bytes | None:
    """A bound in the single-value encoding, or None where it is not known for sure what it means."""
    stored = column.stored
    if pa.types.is_unsigned_integer(column.arrow) or pa.types.is_float16(column.arrow):
        return None
    plain = _PLAIN.get(column.physical)
    try:
        return encode(stored, _value(stored, column.arrow, raw if plain is None else plain.unpack(raw)[0]))
    except (FloeError, TypeError, ValueError, OverflowError, struct.error):
        return None  # rows are read then, which is always right


def _value(stored: Type, arrow: pa.DataType, raw: Any) -> Any:
    if isinstance(stored, DecimalType):
        unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return decimal_from_unscaled(unscaled, stored.scale)
    if stored.kind == "string":
        return raw.decode() if isinstance(raw, bytes) else raw
    if (pa.types.is_time(arrow) or pa.types.is_timestamp(arrow)) and arrow.unit == "ms":
        return raw * 1000
    if pa.types.is_timestamp(arrow) and arrow.unit == "s":
        return None  # Arrow's own, stored in another unit
    if stored.kind == "uuid":
        return None
    return raw
