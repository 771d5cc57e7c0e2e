"""Which of the files that others added or removed may hold rows that a filter speaks of.

A file is left out only if its partition or its metrics prove that no row of it passes, so that changes in different
partitions, or of different ranges of values, do not conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from floe.commit.conflicts.snapshot_facts import Entries
from floe.errors import InvalidExpression, NoSuchColumn
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, BoundReference, Expression
from floe.spec.expressions.rewrite import field_ids
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning import columnar_metrics, columnar_rows
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.metrics_filter import column_facts, might_match
from floe.spec.pruning.projection import inclusive
from floe.spec.pruning.ranges import Facts
from floe.spec.schemas.schema import Schema

__all__ = ["RowFilter", "may_delete_rows_of"]

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A filter as it reads under one schema."""

    bound: Expression
    schema: Schema


class RowFilter:
    """A filter on the rows of a table, asked about files.

    Names mean the columns of the schema of that id. If it is not given, each schema that has the names is tried: a
    column may have been renamed since, and another may have got its name.
    """

    def __init__(
        self, filter: Expression, metadata: TableMetadata, *, schema_id: int | None = None, case_sensitive: bool = True
    ) -> None:
        self._metadata = metadata
        known = metadata.schemas_by_id.get(-1 if schema_id is None else schema_id)
        self._readings = _readings(filter, metadata.schemas if known is None else (known,), case_sensitive)
        if not self._readings:
            self._readings = [_Reading(TRUE, metadata.schema)]

    def __repr__(self) -> str:
        return f"RowFilter({' or '.join(str(reading.bound) for reading in self._readings)})"

    def data(self, entries: Entries) -> Entries:
        """The data files that may hold rows that pass."""
        return entries.where(self._any(entries, self._partitions, self._metrics))

    def position_deletes(self, entries: Entries) -> Entries:
        """The position deletes that may delete rows that pass; of these only the partition is known."""
        return entries.where(self._any(entries, self._partitions))

    def equality_deletes(self, entries: Entries) -> Entries:
        """The equality deletes that may delete rows that pass.

        A row that is deleted has the values of some row of the delete file, in the columns that are compared.
        """
        entries = self.position_deletes(entries)
        kept = [
            any(might_match(reading.bound, _compared_only(file)) for reading in self._readings)
            for file in entries.files()
        ]
        return entries.where(np.array(kept, np.bool_))

    def _any(self, entries: Entries, *tests: Callable[[_Reading, Entries], Mask]) -> Mask:
        found = np.zeros(len(entries), np.bool_)
        for reading in self._readings:
            mask = np.ones(len(entries), np.bool_)
            for test in tests:
                mask &= test(reading, entries)
            found |= mask
        return found

    def _partitions(self, reading: _Reading, entries: Entries) -> Mask:
        spec = self._metadata.spec_by_id(entries.spec_id)
        projected = inclusive(reading.bound, spec, reading.schema)
        columns = entries.columns
        return columnar_rows.evaluate(projected, columns.partitions, len(columns))[entries.rows]

    def _metrics(self, reading: _Reading, entries: Entries) -> Mask:
        stats = entries.columns.stats(field_ids(reading.bound))
        return columnar_metrics.might_match(reading.bound, stats)[entries.rows]


def _readings(filter: Expression, schemas: tuple[Schema, ...], case_sensitive: bool) -> list[_Reading]:
    found: dict[str, _Reading] = {}
    for schema in schemas:
        try:
            bound = bind(filter, schema, case_sensitive=case_sensitive)
        except (NoSuchColumn, InvalidExpression):
            continue
        found.setdefault(repr(bound), _Reading(bound, schema))
    return list(found.values())


def _compared_only(delete: DataFile) -> DataFile:
    """An equality delete file with the metrics of the columns that it compares; others say nothing of deleted rows."""
    compared = set(delete.equality_ids or ())

    def only(values: dict[int, V] | None) -> dict[int, V] | None:
        return None if values is None else {column: value for column, value in values.items() if column in compared}

    return replace(
        delete,
        value_counts=only(delete.value_counts),
        null_value_counts=only(delete.null_value_counts),
        nan_value_counts=only(delete.nan_value_counts),
        lower_bounds=only(delete.lower_bounds),
        upper_bounds=only(delete.upper_bounds),
    )


# equality deletes against one file ------------------------------------------------------------------------------


def may_delete_rows_of(delete: DataFile, file: DataFile, schema: Schema) -> bool:
    """Whether an equality delete file may hold values of rows of a data file, by the metrics of both.

    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.spec.types import Field, INT
    >>> schema = Schema((Field(1, "id", INT),))
    >>> def counted(content, low, high, **more):
    ...     bounds = {"lower_bounds": {1: low.to_bytes(4, "little")}, "upper_bounds": {1: high.to_bytes(4, "little")}}
    ...     counts = {"value_counts": {1: 3}, "null_value_counts": {1: 0}}
    ...     return DataFile(content, "f.parquet", "parquet", (), 3, 100, **bounds, **counts, **more)
    >>> rows = counted(FileContent.DATA, 10, 20)
    >>> keys = [counted(FileContent.EQUALITY_DELETES, *ids, equality_ids=(1,)) for ids in ((1, 9), (20, 30))]
    >>> [may_delete_rows_of(key, rows, schema) for key in keys]
    [False, True]
    """
    return all(_may_be_equal(field_id, delete, file, schema) for field_id in delete.equality_ids or ())


def _may_be_equal(field_id: int, delete: DataFile, file: DataFile, schema: Schema) -> bool:
    entry = schema.by_id.get(field_id)
    if entry is None or not entry.field.type.is_primitive:
        return True
    reference = BoundReference(entry)
    return _share_a_value(column_facts(reference, delete), column_facts(reference, file))


def _share_a_value(one: Facts, other: Facts) -> bool:
    if (one.nulls and other.nulls) or (one.nans and other.nans):
        return True
    if not (one.others and other.others):
        return False
    apart = (one.upper is not None and other.lower is not None and one.upper < other.lower) or (  # type: ignore[operator]
        other.upper is not None and one.lower is not None and other.upper < one.lower  # type: ignore[operator]
    )
    return not apart
