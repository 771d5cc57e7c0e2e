"""The join of a MERGE: the source in memory, an index of its keys, and the ON condition.

`split_condition` splits the ON condition into equality keys, conditions on one side alone, and the rest. For example,
`t.id = s.id and t.day = s.day and s.valid and t.day >= '2024-01-01' and t.a < s.b` has two keys; source rows that are
not valid and older table rows cannot match; and `t.a < s.b` is evaluated on the pairs of rows with equal keys. The key
values of the source and the conditions on the table form a filter that prunes the files of the table.

`KeyIndex` finds the source rows of many table rows at a time. Keys are compared as in SQL: null equals nothing (except
with `<=>`), NaN equals itself, and the two zeros are equal. Each key column is replaced by the indexes of the distinct
values of the source, and several columns are combined to one number.

>>> import pyarrow as pa
>>> index = KeyIndex([pa.array([7, 8, 7, None])], [False])
>>> rows, sources = index.pairs([pa.array([8, None, 7])])
>>> list(zip(rows.tolist(), sources.tolist()))
[(0, 1), (2, 0), (2, 2)]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.dml.base import SOURCE, TARGET, Positions, search_sorted
from floe.arrow.input_data import batch_reader
from floe.arrow.values.compiled import Compiled, Mask, Rows
from floe.arrow.values.filters import column_reference, conjuncts, filter_literal, implied_filter
from floe.errors import UnsupportedFeature
from floe.formats.columns.arrays import to_values
from floe.formats.columns.arrow_types import arrow_schema, schema_from_arrow
from floe.formats.columns.conversion import Conformer
from floe.spec.expressions.literals import COMPARABLE_KINDS
from floe.spec.expressions.nodes import FALSE, Expression, Op, Predicate, Reference, and_, or_
from floe.spec.schemas.schema import Schema
from floe.sql.values import Call


class KeyIndex:
    """An index of the rows of a source by key."""

    def __init__(self, keys: Sequence[pa.Array], null_safe: Sequence[bool], is_usable: Mask | None = None) -> None:
        self._null_safe = tuple(null_safe)
        self._values: list[pa.Array] = []
        self._combined: list[Positions] = []
        """For each key column but the first, the ascending codes of its combinations with the columns before it."""

        codes = np.zeros(len(keys[0]), np.int64)
        for column_index, (key, is_null_safe) in enumerate(zip(keys, self._null_safe, strict=True)):
            key = _normalize_floats(key)
            values = pc.unique(key)
            self._values.append(values if is_null_safe else values.drop_null())
            codes = self._combine(column_index, codes, _value_indexes(key, self._values[-1], is_null_safe))
        all_codes = np.arange(codes.max(initial=-1) + 2)
        if is_usable is not None:
            codes = np.where(is_usable, codes, -1)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] >= 0]
        self._order = order
        self._starts = np.searchsorted(codes[order], all_codes)

    @property
    def has_duplicates(self) -> bool:
        """Whether several source rows have the same key."""
        return bool((np.diff(self._starts) > 1).any())

    def first_duplicate(self) -> int:
        """The index of a source row whose key another row has too."""
        number = int(np.flatnonzero(np.diff(self._starts) > 1)[0])
        return int(self._order[self._starts[number]])

    def pairs(self, keys: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """The pairs of table rows and source rows with equal keys, as two arrays of row indexes."""
        codes = np.zeros(len(keys[0]), np.int64)
        for column_index, (key, is_null_safe) in enumerate(zip(keys, self._null_safe, strict=True)):
            codes = self._combine(
                column_index,
                codes,
                _value_indexes(_normalize_floats(key), self._values[column_index], is_null_safe),
                is_lookup=True,
            )
        rows = np.flatnonzero(codes >= 0)
        matched_codes = codes[rows]
        begins = self._starts[matched_codes]
        counts = self._starts[matched_codes + 1] - begins
        firsts = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
        return np.repeat(rows, counts), self._order[np.repeat(begins, counts) + within]

    def _combine(
        self, column_index: int, codes: Positions, value_indexes: Positions, *, is_lookup: bool = False
    ) -> Positions:
        """Combine the codes of the key columns so far with one more; -1 where the source does not have the key."""
        if column_index == 0:
            return value_indexes
        pair_codes = np.where(
            (codes >= 0) & (value_indexes >= 0), codes * max(len(self._values[column_index]), 1) + value_indexes, -1
        )
        if not is_lookup:
            self._combined.append(np.unique(pair_codes[pair_codes >= 0]))
        return np.where(pair_codes >= 0, search_sorted(pair_codes, self._combined[column_index - 1]), -1)


def _normalize_floats(key: pa.Array) -> pa.Array:
    """Replace -0.0 by 0.0, and every NaN by the same one."""
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), pc.add(key, pa.scalar(0.0, key.type)))


def _value_indexes(key: pa.Array, values: pa.Array, null_safe: bool) -> Positions:
    indexes = pc.index_in(key, value_set=values, skip_nulls=not null_safe)
    return np.asarray(pc.fill_null(indexes, -1).to_numpy(zero_copy_only=False), np.int64)


# Source ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of the source of a MERGE or upsert, in memory."""

    schema: Schema
    table: pa.Table
    table_filter: Expression | None = None
    """The filter of the scan, if the source is a scan of the table that is changed; else None."""

    table_snapshot_id: int | None = None
    """The snapshot of that scan."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, indexes: Positions) -> pa.RecordBatch:
        """The rows at some indexes, in one batch."""
        if not self.table.num_columns:
            return pa.RecordBatch.from_arrays([], names=[])
        return _to_batch(self.table.take(pa.array(indexes)))

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """All rows in one batch."""
        return _to_batch(self.table)

    def rows(self, name: str) -> Rows:
        """All rows as a relation, for values that read only the source."""
        return Rows(len(self), {name: self.batch})


def _to_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in table.schema], schema=table.schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def load_source(
    data: Any, target: Schema, table_filter: Expression | None = None, table_snapshot_id: int | None = None
) -> Source:
    """Load data of any form that can be written; Python values are converted to the types of the table's columns.

    All rows must have the same columns: a missing column could mean null or no change.

    >>> from floe.spec.types import DATE, Field
    >>> load_source([{"day": "2024-02-29"}], Schema((Field(1, "day", DATE),))).batch.schema.types
    [DataType(date32[day])]
    """
    reader = batch_reader(data, target, same_columns=True)
    without_metadata = pa.schema([pa.field(field.name, field.type) for field in reader.schema])
    schema = schema_from_arrow(without_metadata)
    conform = Conformer(schema)
    batches = [conform(batch) for batch in reader if batch.num_rows]
    return Source(schema, pa.Table.from_batches(batches, arrow_schema(schema)), table_filter, table_snapshot_id)


# ON condition ---------------------------------------------------------------------------------------------------------

MAX_LISTED_KEYS = 256
"""Up to this many distinct keys prune files by an IN predicate; more prune by their minimum and maximum."""


MAX_PAIRS = 200_000_000
"""The maximum number of pairs that are compared if the ON condition has no equality key."""


_PAIRS_PER_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False, slots=True)
class Key:
    """A table value and a source value that must be equal; null equals null if `null_safe` (`<=>`)."""

    target: Compiled
    source: Compiled
    null_safe: bool


@dataclass(frozen=True, eq=False)
class JoinCondition:
    """An ON condition, split into parts that are all required."""

    source: Source
    keys: Sequence[Key]
    target_conditions: Sequence[Compiled]
    """Conditions on columns of the table alone."""

    source_conditions: Sequence[Compiled]
    """Conditions on columns of the source alone."""

    pair_conditions: Sequence[Compiled]
    """Conditions on columns of both that are not equality keys."""

    @property
    def target_values(self) -> list[Compiled]:
        """All values that read columns of the table."""
        return [*(key.target for key in self.keys), *self.target_conditions, *self.pair_conditions]

    @cached_property
    def usable_sources(self) -> Mask:
        """Which source rows pass the conditions on the source."""
        rows = self.source.rows(SOURCE)
        passes = np.ones(len(self.source), np.bool_)
        for condition in self.source_conditions:
            passes[passes] = condition.mask(rows.filter(passes))
        return passes

    @cached_property
    def _index(self) -> KeyIndex:
        keys = [key.source.array(self.source.rows(SOURCE)) for key in self.keys]
        return KeyIndex(keys, [key.null_safe for key in self.keys], self.usable_sources)

    # Planning ---------------------------------------------------------------------------------------------------

    @cached_property
    def filter(self) -> Expression:
        """A filter that matches every table row that some source row may match."""
        if not self.usable_sources.any():
            return FALSE
        return and_(
            *(implied_filter(condition, TARGET).filter for condition in self.target_conditions),
            *map(self._filter_of_key, self.keys),
        )

    def _filter_of_key(self, key: Key) -> Expression:
        """A filter for the key values of the source: an IN predicate if they are few, else their range."""
        column = key.target
        reference = column_reference(column, TARGET)
        if reference is None or column.type.kind not in COMPARABLE_KINDS:
            return and_()
        key_values = pc.unique(key.source.array(self.source.rows(SOURCE)).filter(pa.array(self.usable_sources)))
        nulls: Expression = FALSE
        if key_values.null_count:
            nulls = Predicate(Op.IS_NULL, reference) if key.null_safe else FALSE
            key_values = key_values.drop_null()
        if not len(key_values):
            return nulls
        if len(key_values) <= MAX_LISTED_KEYS:
            values = tuple(filter_literal(column.type, value) for value in to_values(column.type, key_values))
            return or_(nulls, Predicate(Op.IN, reference, values))
        return or_(nulls, self._range(column, reference, key_values))

    def _range(self, column: Compiled, reference: Reference, key_values: pa.Array) -> Expression:
        if column.type.kind in ("uuid", "fixed", "boolean"):
            return and_()
        if column.type.kind in ("float", "double"):
            key_values = key_values.filter(pc.invert(pc.is_nan(key_values)))
            if not len(key_values):
                return and_()
        min_max = pc.min_max(key_values)
        lowest, highest = (
            to_values(column.type, pa.array([min_max[name].as_py()], key_values.type))[0] for name in ("min", "max")
        )
        in_range = and_(
            Predicate(Op.GT_EQ, reference, (filter_literal(column.type, lowest),)),
            Predicate(Op.LT_EQ, reference, (filter_literal(column.type, highest),)),
        )
        return or_(in_range, Predicate(Op.IS_NAN, reference)) if column.type.kind in ("float", "double") else in_range

    # Pairs ------------------------------------------------------------------------------------------------------

    def pairs(self, rows: pa.RecordBatch) -> Iterator[tuple[Positions, Positions]]:
        """The pairs of table rows and source rows that match, as arrays of row indexes, in blocks.

        All pairs of a table row are in one block.
        """
        table_rows = Rows.of(**{TARGET: rows})
        passes = np.ones(rows.num_rows, np.bool_)
        for condition in self.target_conditions:
            passes[passes] = condition.mask(table_rows.filter(passes))
        indexes = np.flatnonzero(passes)
        for targets, sources in self._candidates(table_rows.filter(passes)):
            keep = np.ones(len(targets), np.bool_)
            for condition in self.pair_conditions:
                row_pairs = Rows(
                    int(keep.sum()),
                    {
                        TARGET: rows.take(pa.array(indexes[targets[keep]])),
                        SOURCE: self.source.take(sources[keep]),
                    },
                )
                keep[keep] = condition.mask(row_pairs)
            yield indexes[targets[keep]], sources[keep]

    def _candidates(self, rows: Rows) -> Iterator[tuple[Positions, Positions]]:
        if self.keys:
            targets, sources = self._index.pairs([key.target.array(rows) for key in self.keys])
            yield from _pair_blocks(targets, sources)
            return
        sources_of_row = np.flatnonzero(self.usable_sources)
        rows_per_block = max(1, _PAIRS_PER_BLOCK // max(len(sources_of_row), 1))
        for start in range(0, rows.count, rows_per_block):
            targets = np.arange(start, min(start + rows_per_block, rows.count))
            yield np.repeat(targets, len(sources_of_row)), np.tile(sources_of_row, len(targets))

    def check_size(self, rows: int) -> None:
        """Raise `UnsupportedFeature` if there is no equality key and too many pairs would have to be compared."""
        pairs = rows * int(self.usable_sources.sum())
        if not self.keys and pairs > MAX_PAIRS:
            raise UnsupportedFeature(
                f"the ON condition has no equality of a table column and a source column, so {pairs:,} pairs of rows "
                f"would have to be compared; the limit is {MAX_PAIRS:,}",
                hint="add a condition such as t.id = s.id, or restrict the table rows with conditions on t",
            )


def _pair_blocks(targets: Positions, sources: Positions) -> Iterator[tuple[Positions, Positions]]:
    """Split pairs into blocks, without separating the pairs of a table row; `targets` are ascending."""
    start = 0
    while start < len(targets):
        end = min(start + _PAIRS_PER_BLOCK, len(targets))
        if end < len(targets):
            row_start = int(np.searchsorted(targets, targets[end]))
            end = row_start if row_start > start else int(np.searchsorted(targets, targets[end], side="right"))
        yield targets[start:end], sources[start:end]
        start = end


def split_condition(condition: Compiled, source: Source) -> JoinCondition:
    """Split an ON condition at its top-level ANDs."""
    keys: list[Key] = []
    target_conditions: list[Compiled] = []
    source_conditions: list[Compiled] = []
    pair_conditions: list[Compiled] = []
    for part in conjuncts(condition):
        if (key := _equality_key(part)) is not None:
            keys.append(key)
        elif part.uses(TARGET) and part.uses(SOURCE):
            pair_conditions.append(part)
        else:
            (target_conditions if part.uses(TARGET) else source_conditions).append(part)
    return JoinCondition(source, keys, target_conditions, source_conditions, pair_conditions)


def _equality_key(part: Compiled) -> Key | None:
    if not isinstance(part.node, Call) or part.node.function not in ("=", "<=>"):
        return None
    target, source = part.inputs
    if target.uses(SOURCE):
        target, source = source, target
    is_key = target.uses(TARGET) and not target.uses(SOURCE) and source.uses(SOURCE) and not source.uses(TARGET)
    is_comparable = target.type.kind in COMPARABLE_KINDS
    return Key(target, source, part.node.function == "<=>") if is_key and is_comparable else None
