"""The metrics of a Parquet file that somebody else wrote, found from its footer alone.

Counts of NaN are not in a footer, so they stay unknown; bounds are those of the statistics, which may be cut short but
hold. Columns whose statistics mean something else (old timestamps of 96 bits, unsigned numbers) have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from floe.formats.appending import Written
from floe.formats.metrics import Metrics
from floe.formats.metrics_config import MetricsConfig
from floe.formats.parquet.reading import ParquetSource, leaf_at
from floe.formats.parquet.row_groups import GroupFacts, TestedColumn, facts_of
from floe.spec.codecs.bounds import truncate_lower, truncate_upper
from floe.spec.codecs.ordering import sort_key
from floe.spec.codecs.single_value import decode, encode
from floe.spec.schemas.column_resolution import ColumnSource, FromFile

__all__ = ["footer_metrics"]


def footer_metrics(
    source: ParquetSource, sources: Sequence[ColumnSource], config: MetricsConfig
) -> tuple[Metrics, Written]:
    """The metrics of the columns that a table finds in a file, and the sizes and places that a manifest tells."""
    file, rows = source.file, source.file.metadata.num_rows
    columns = []
    for path, one in _stored(sources, ()):
        leaf, type_ = leaf_at(list(file.schema_arrow), path)
        if one.column.stored is not None and config.mode(one.field.id).counts:
            physical = file.schema.column(leaf).physical_type
            columns.append(TestedColumn(one.field.id, leaf, one.column.stored, type_, physical))
    groups = source.row_groups([column.leaf for column in columns])
    facts = [facts_of(group, columns) for group in groups]
    found = Metrics(rows, {}, {}, {}, {}, {})
    sizes: dict[int, int] = {}
    for column in columns:
        field_id = column.field_id
        sizes[field_id] = sum(group.columns[column.leaf].size for group in groups)
        if all(field_id in one.null_value_counts for one in facts):
            found.value_counts[field_id] = rows
            found.null_value_counts[field_id] = sum(one.null_value_counts[field_id] for one in facts)
        if column.physical != "INT96" and config.mode(field_id).bounds:
            _add_bounds(found, column, facts, config.mode(field_id).length)
    return found, Written(source.tail.file_size, sizes or None, tuple(group.start for group in groups) or None)


def _stored(sources: Sequence[ColumnSource], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], FromFile]]:
    """The columns of values outside of lists and maps, with the way to them in the file."""
    for source in sources:
        if not isinstance(source, FromFile):
            continue
        inside = (*path, source.position)
        if source.field.type.kind == "struct":
            yield from _stored(source.children, inside)
        elif not source.field.type.is_nested and source.field.type.kind != "variant":
            yield inside, source


def _add_bounds(found: Metrics, column: TestedColumn, facts: Sequence[GroupFacts], length: int | None) -> None:
    """The lowest and highest bound, if every row group with values has both."""
    field_id, type_ = column.field_id, column.stored
    if type_.kind in ("geometry", "geography", "unknown"):
        return
    with_values = [
        one
        for one in facts
        if one.record_count > one.null_value_counts.get(field_id, 0) or field_id in one.lower_bounds
    ]
    if not with_values or any(
        field_id not in one.lower_bounds or field_id not in one.upper_bounds for one in with_values
    ):
        return
    key = sort_key(type_)
    lower = min((decode(type_, one.lower_bounds[field_id]) for one in with_values), key=key)
    upper = max((decode(type_, one.upper_bounds[field_id]) for one in with_values), key=key)
    if lower != lower or upper != upper:  # NaN, which some writers leave there
        return
    if type_.kind in ("float", "double"):  # zeros of either sign may have been mixed up (Parquet: Statistics)
        lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    if length is not None:
        lower, upper = truncate_lower(type_, lower, length), truncate_upper(type_, upper, length)
    found.lower_bounds[field_id] = encode(type_, lower)
    if upper is not None:
        found.upper_bounds[field_id] = encode(type_, upper)
