"""Which row groups of a Parquet file are read: those in a split, and of those the ones that a filter may match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from floe.errors import FloeError
from floe.spec.codecs.single_value import encode
from floe.spec.expressions.nodes import Expression
from floe.spec.pruning.metrics_filter import compile_might_match
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

__all__ = ["GroupFacts", "TestedColumn", "facts_of", "in_split", "matching", "runs", "start_of"]

_MAX_RUN_BYTES = 32 * 1024 * 1024
"""Row groups are read together up to this size, so that small ones cost little and large ones are not all in memory."""


def start_of(group: pq.RowGroupMetaData) -> int:
    """Where a row group begins: at the first page, or dictionary page, of its first column."""
    if not group.num_columns:
        return 4
    column = group.column(0)
    dictionary = column.dictionary_page_offset
    if column.has_dictionary_page and dictionary is not None and 0 < dictionary < column.data_page_offset:
        return int(dictionary)
    return int(column.data_page_offset)


def in_split(metadata: pq.FileMetaData, split: tuple[int, int] | None) -> list[int]:
    """The row groups whose middle lies in a range of bytes, as all readers of Parquet count them.

    So each row group belongs to exactly one of the splits that cover a file, wherever they are cut.
    """
    everything = list(range(metadata.num_row_groups))
    if split is None:
        return everything
    start, end = split[0], split[0] + split[1]
    return [n for n in everything if start <= _middle(metadata.row_group(n)) < end]


def _middle(group: pq.RowGroupMetaData) -> int:
    size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
    return start_of(group) + int(size) // 2


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
    metadata: pq.FileMetaData, groups: Sequence[int], where: Expression, columns: Sequence[TestedColumn]
) -> list[int]:
    """Those of the row groups that may have a row which passes a bound filter, by the statistics in the footer."""
    if not columns:
        return list(groups)
    might_match = compile_might_match(where)
    return [n for n in groups if might_match(facts_of(metadata.row_group(n), columns))]


def facts_of(group: pq.RowGroupMetaData, columns: Sequence[TestedColumn]) -> GroupFacts:
    """What the statistics in the footer say of some columns of a row group."""
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in columns:
        chunk = group.column(column.leaf)
        statistics = chunk.statistics
        if statistics is None:
            continue
        values[column.field_id] = chunk.num_values
        if statistics.has_null_count:
            nulls[column.field_id] = statistics.null_count
        if statistics.has_min_max:
            for bounds, raw in ((lower, statistics.min_raw), (upper, statistics.max_raw)):
                bound = _bound(column, raw)
                if bound is not None:
                    bounds[column.field_id] = bound
    return GroupFacts(group.num_rows, values, nulls, None, lower, upper)


def _bound(column: TestedColumn, raw: Any) -> bytes | None:
    """A bound in the single-value encoding, or None where it is not known for sure what it means."""
    stored = column.stored
    if pa.types.is_unsigned_integer(column.arrow) or pa.types.is_float16(column.arrow):
        return None
    try:
        return encode(stored, _value(stored, column.arrow, raw))
    except (FloeError, TypeError, ValueError, OverflowError):
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
