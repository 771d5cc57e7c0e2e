"""The ON condition of a MERGE, taken apart: equal keys to look up, conditions on one side alone, and the rest.

`t.id = s.id and t.day = s.day and s.valid and t.day >= '2024-01-01' and t.a < s.b` has two keys; a source row must be
valid, and a table row of that time, to match at all; and pairs with equal keys are asked for the rest. What the keys of
the source are, and the conditions on the table, say which files have to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.changing.base import SOURCE, TARGET
from floe.arrow.changing.joining import KeyIndex
from floe.arrow.changing.source import Source
from floe.arrow.changing.touched import Positions
from floe.arrow.values.compiling import Compiled, Rows
from floe.arrow.values.filters import column_of, conjuncts, filter_of, literal_for
from floe.arrow.values.nodes import Call
from floe.arrow.values.rows import Mask
from floe.errors import UnsupportedFeature
from floe.formats.arrow_values import to_values
from floe.spec.expressions.literals import COMPARABLE_KINDS
from floe.spec.expressions.nodes import FALSE, Expression, Op, Predicate, Reference, and_, or_

__all__ = ["Key", "Matching", "take_apart"]

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
