"""Which rows of a source belong to which rows of a table: an index over the source's keys, looked up column by column.

Keys are compared as SQL compares them: null is equal to nothing (but for `<=>`), NaN is equal to itself, and so are
the two zeros. Each key column becomes numbers, one for each distinct value of the source; several columns together
become one number. All of it is done for many rows at a time.

>>> import pyarrow as pa
>>> index = KeyIndex([pa.array([7, 8, 7, None])], [False])
>>> rows, sources = index.pairs([pa.array([8, None, 7])])
>>> list(zip(rows.tolist(), sources.tolist()))
[(0, 1), (2, 0), (2, 2)]

The source of a MERGE or upsert: rows that a user brought, all of them in memory, in the types of Floe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.dml.base import SOURCE, TARGET, Positions, located
from floe.arrow.input_data import reader_of
from floe.arrow.values.compiled import Compiled, Mask, Rows
from floe.arrow.values.filters import column_of, conjuncts, filter_of, literal_for
from floe.errors import UnsupportedFeature
from floe.formats.arrow_arrays import to_values
from floe.formats.arrow_conversion import Conformer
from floe.formats.arrow_types import arrow_schema, schema_from_arrow
from floe.spec.expressions.literals import COMPARABLE_KINDS
from floe.spec.expressions.nodes import FALSE, Expression, Op, Predicate, Reference, and_, or_
from floe.spec.schemas.schema import Schema
from floe.sql.values import Call


class KeyIndex:
    """The rows of a source by their keys."""

    def __init__(self, keys: Sequence[pa.Array], null_safe: Sequence[bool], usable: Mask | None = None) -> None:
        self._null_safe = tuple(null_safe)
        self._values: list[pa.Array] = []
        self._combined: list[Positions] = []
        """For each key column but the first, the numbers that it makes with those before it, ascending."""

        codes = np.zeros(len(keys[0]), np.int64)
        for number, (key, safe) in enumerate(zip(keys, self._null_safe, strict=True)):
            key = _normal(key)
            values = pc.unique(key)
            self._values.append(values if safe else values.drop_null())
            codes = self._step(number, codes, _numbers(key, self._values[-1], safe))
        numbers = np.arange(codes.max(initial=-1) + 2)
        if usable is not None:
            codes = np.where(usable, codes, -1)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] >= 0]
        self._order = order
        self._starts = np.searchsorted(codes[order], numbers)

    @property
    def has_duplicates(self) -> bool:
        """Whether two rows of the source have the same key."""
        return bool((np.diff(self._starts) > 1).any())

    def first_duplicate(self) -> int:
        """A row of the source whose key another one has too."""
        number = int(np.flatnonzero(np.diff(self._starts) > 1)[0])
        return int(self._order[self._starts[number]])

    def pairs(self, keys: Sequence[pa.Array]) -> tuple[Positions, Positions]:
        """The rows of a table, given by their keys, each beside every row of the source that has the same key."""
        codes = np.zeros(len(keys[0]), np.int64)
        for number, (key, safe) in enumerate(zip(keys, self._null_safe, strict=True)):
            codes = self._step(number, codes, _numbers(_normal(key), self._values[number], safe), known=True)
        rows = np.flatnonzero(codes >= 0)
        found = codes[rows]
        begins = self._starts[found]
        counts = self._starts[found + 1] - begins
        firsts = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
        return np.repeat(rows, counts), self._order[np.repeat(begins, counts) + within]

    def _step(self, number: int, codes: Positions, column: Positions, *, known: bool = False) -> Positions:
        """The numbers of the key columns so far, with one more; -1 where a key is missing."""
        if number == 0:
            return column
        both = np.where((codes >= 0) & (column >= 0), codes * max(len(self._values[number]), 1) + column, -1)
        if not known:
            self._combined.append(np.unique(both[both >= 0]))
        return np.where(both >= 0, located(both, self._combined[number - 1]), -1)


def _normal(key: pa.Array) -> pa.Array:
    """One zero instead of two, and one NaN."""
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), pc.add(key, pa.scalar(0.0, key.type)))


def _numbers(key: pa.Array, values: pa.Array, null_safe: bool) -> Positions:
    found = pc.index_in(key, value_set=values, skip_nulls=not null_safe)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)


# The source of a MERGE or upsert: rows that a user brought, all of them in memory, in the types of Floe.


@dataclass(frozen=True, eq=False)
class Source:
    """Rows by column."""

    schema: Schema
    table: pa.Table
    made_from: Expression | None = None
    """The filter of rows of the very table that is changed, where the source is made from them."""

    read_at: int | None = None
    """The snapshot that they were read from."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, rows: Positions) -> pa.RecordBatch:
        """Some of the rows, in one batch."""
        if not self.table.num_columns:
            return pa.RecordBatch.from_arrays([], names=[])
        return _batch(self.table.take(pa.array(rows)))

    @cached_property
    def whole(self) -> pa.RecordBatch:
        """All rows in one batch."""
        return _batch(self.table)

    def rows(self, name: str) -> Rows:
        """All rows, for values that read nothing but the source."""
        return Rows(len(self), {name: self.whole})


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in table.schema], schema=table.schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def source_of(data: Any, target: Schema, made_from: Expression | None = None, read_at: int | None = None) -> Source:
    """The rows of anything that can be written to a table; Python values are taken as the table's columns are.

    Rows all have to name the same columns: one that is left out in some of them might mean null, or no change.

    >>> from floe.spec.types import DATE, Field
    >>> source_of([{"day": "2024-02-29"}], Schema((Field(1, "day", DATE),))).whole.schema.types
    [DataType(date32[day])]
    """
    reader = reader_of(data, target, alike=True)
    plain = pa.schema([pa.field(field.name, field.type) for field in reader.schema])
    schema = schema_from_arrow(plain)
    conform = Conformer(schema)
    batches = [conform(batch) for batch in reader if batch.num_rows]
    return Source(schema, pa.Table.from_batches(batches, arrow_schema(schema)), made_from, read_at)


MOST_LISTED = 256
"""Up to so many distinct keys are looked for by name in files; of more, only the least and the greatest."""


MOST_PAIRS = 200_000_000
"""How many pairs of rows are compared one by one, where no key is equal."""


_PAIRS_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False, slots=True)
class Key:
    """Two values that have to be equal, one of the table and one of the source; with `<=>` null equals null."""

    target: Compiled
    source: Compiled
    null_safe: bool


@dataclass(frozen=True, eq=False)
class Matching:
    """An ON condition, ready to be asked."""

    source: Source
    keys: Sequence[Key]
    of_target: Sequence[Compiled]
    of_source: Sequence[Compiled]
    rest: Sequence[Compiled]

    @property
    def target_values(self) -> list[Compiled]:
        """All that reads columns of the table."""
        return [*(key.target for key in self.keys), *self.of_target, *self.rest]

    @cached_property
    def usable(self) -> Mask:
        """The source rows that can match at all."""
        rows = self.source.rows(SOURCE)
        found = np.ones(len(self.source), np.bool_)
        for part in self.of_source:
            found[found] = part.mask(rows.filter(found))
        return found

    @cached_property
    def _index(self) -> KeyIndex:
        keys = [key.source.array(self.source.rows(SOURCE)) for key in self.keys]
        return KeyIndex(keys, [key.null_safe for key in self.keys], self.usable)

    # planning ---------------------------------------------------------------------------------------------------

    @cached_property
    def filter(self) -> Expression:
        """A filter that every row of the table passes that any source row matches."""
        if not self.usable.any():
            return FALSE
        return and_(*(filter_of(part, TARGET).filter for part in self.of_target), *map(self._filter_of_key, self.keys))

    def _filter_of_key(self, key: Key) -> Expression:
        """Where the keys of the source are: listed if they are few, else from the least to the greatest."""
        column = key.target
        reference = column_of(column, TARGET)
        if reference is None or column.type.kind not in COMPARABLE_KINDS:
            return and_()
        found = pc.unique(key.source.array(self.source.rows(SOURCE)).filter(pa.array(self.usable)))
        nulls: Expression = FALSE
        if found.null_count:
            nulls = Predicate(Op.IS_NULL, reference) if key.null_safe else FALSE
            found = found.drop_null()
        if not len(found):
            return nulls
        if len(found) <= MOST_LISTED:
            values = tuple(literal_for(column.type, value) for value in to_values(column.type, found))
            return or_(nulls, Predicate(Op.IN, reference, values))
        return or_(nulls, self._range(column, reference, found))

    def _range(self, column: Compiled, reference: Reference, found: pa.Array) -> Expression:
        if column.type.kind in ("uuid", "fixed", "boolean"):
            return and_()
        if column.type.kind in ("float", "double"):
            found = found.filter(pc.invert(pc.is_nan(found)))
            if not len(found):
                return and_()
        ends = pc.min_max(found)
        low, high = (to_values(column.type, pa.array([ends[end].as_py()], found.type))[0] for end in ("min", "max"))
        inside = and_(
            Predicate(Op.GT_EQ, reference, (literal_for(column.type, low),)),
            Predicate(Op.LT_EQ, reference, (literal_for(column.type, high),)),
        )
        return or_(inside, Predicate(Op.IS_NAN, reference)) if column.type.kind in ("float", "double") else inside

    # pairs ------------------------------------------------------------------------------------------------------

    def pairs(self, rows: pa.RecordBatch) -> Iterator[tuple[Positions, Positions]]:
        """The places of table rows beside those of source rows that match them, some at a time.

        All pairs of a table row come together.
        """
        alone = Rows.of(**{TARGET: rows})
        able = np.ones(rows.num_rows, np.bool_)
        for part in self.of_target:
            able[able] = part.mask(alone.filter(able))
        chosen = np.flatnonzero(able)
        for targets, sources in self._candidates(alone.filter(able)):
            keep = np.ones(len(targets), np.bool_)
            for part in self.rest:
                both = Rows(
                    int(keep.sum()),
                    {
                        TARGET: rows.take(pa.array(chosen[targets[keep]])),
                        SOURCE: self.source.take(sources[keep]),
                    },
                )
                keep[keep] = part.mask(both)
            yield chosen[targets[keep]], sources[keep]

    def _candidates(self, rows: Rows) -> Iterator[tuple[Positions, Positions]]:
        if self.keys:
            targets, sources = self._index.pairs([key.target.array(rows) for key in self.keys])
            yield from _in_blocks(targets, sources)
            return
        usable = np.flatnonzero(self.usable)
        step = max(1, _PAIRS_AT_ONCE // max(len(usable), 1))
        for begin in range(0, rows.count, step):
            targets = np.arange(begin, min(begin + step, rows.count))
            yield np.repeat(targets, len(usable)), np.tile(usable, len(targets))

    def check_size(self, rows: int) -> None:
        """Raise if there are too many pairs to compare, for want of an equal key."""
        pairs = rows * int(self.usable.sum())
        if not self.keys and pairs > MOST_PAIRS:
            raise UnsupportedFeature(
                f"the ON condition compares no column of the table with an equal one of the source, so that {pairs:,} "
                f"pairs of rows would have to be looked at; the limit is {MOST_PAIRS:,}",
                hint="add a condition such as t.id = s.id, or narrow it down with conditions on t",
            )


def _in_blocks(targets: Positions, sources: Positions) -> Iterator[tuple[Positions, Positions]]:
    """Pairs in blocks that do not tear the pairs of a table row apart; `targets` ascend."""
    begin = 0
    while begin < len(targets):
        end = min(begin + _PAIRS_AT_ONCE, len(targets))
        if end < len(targets):
            cut = int(np.searchsorted(targets, targets[end]))
            end = cut if cut > begin else int(np.searchsorted(targets, targets[end], side="right"))
        yield targets[begin:end], sources[begin:end]
        begin = end


def take_apart(condition: Compiled, source: Source) -> Matching:
    """The parts of an ON condition."""
    keys: list[Key] = []
    of_target: list[Compiled] = []
    of_source: list[Compiled] = []
    rest: list[Compiled] = []
    for part in conjuncts(condition):
        if (key := _key(part)) is not None:
            keys.append(key)
        elif part.uses(TARGET) and part.uses(SOURCE):
            rest.append(part)
        else:
            (of_target if part.uses(TARGET) else of_source).append(part)
    return Matching(source, keys, of_target, of_source, rest)


def _key(part: Compiled) -> Key | None:
    if not isinstance(part.node, Call) or part.node.function not in ("=", "<=>"):
        return None
    one, other = part.inputs
    if one.uses(SOURCE):
        one, other = other, one
    apart = one.uses(TARGET) and not one.uses(SOURCE) and other.uses(SOURCE) and not other.uses(TARGET)
    known = one.type.kind in COMPARABLE_KINDS
    return Key(one, other, part.node.function == "<=>") if apart and known else None
