"""Which equality deletes can find a row in which data files, by the metrics of both.

A delete file holds rows, a data file holds rows, and one deletes the other only where they are equal in all columns
that the delete compares. If in one of these columns no value can be in both files, none of its deletes applies. A null
is equal to a null here, and NaN to NaN.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from floe.plan.delete_files import DeleteFiles, DeleteKind
from floe.plan.kept_metrics import joined_stats, taken_stats
from floe.spec.expressions.nodes import BoundReference
from floe.spec.pruning.columnar_facts import ColumnFacts, Mask
from floe.spec.pruning.columnar_metrics import FileStats, column_facts
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, KeyColumn
from floe.spec.schemas.schema import Schema

__all__ = ["EqualityReach", "Nearby"]

Places = NDArray[np.int64]

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class EqualityReach:
    """The values that the equality deletes of a scan can delete."""

    def __init__(self, deletes: DeleteFiles, schemas: Iterable[Schema]) -> None:
        self._place = np.full(len(deletes), -1)
        equality = np.flatnonzero(deletes.kind >= DeleteKind.EQUALITY)
        self._place[equality] = np.arange(len(equality))
        compared = _compared_columns(deletes)
        references = _references(schemas, set().union(*compared) if compared else set())
        self.columns = tuple(sorted(references))
        """The columns that deletes compare, as far as they have metrics: the data files' are needed too."""

        self._references = references
        self._compares = {i: np.array([i in ids for ids in compared], np.bool_) for i in self.columns}
        stats = _stats(deletes, self.columns)
        self._facts = {i: column_facts(references[i], stats) for i in self.columns}

    def facts_of(self, data: FileStats) -> dict[int, ColumnFacts]:
        """What is known of the compared columns in some data files."""
        return {i: column_facts(self._references[i], data) for i in self.columns}

    def reaches(self, data: dict[int, ColumnFacts], files: Places, deletes: Places) -> Mask:
        """For pairs of a data file and an equality delete file, whether rows of both may be equal."""
        places = self._place[deletes]
        result = np.ones(len(files), np.bool_)
        for i in self.columns:
            pairs = np.flatnonzero(result & self._compares[i][places])
            if pairs.size:
                result[pairs] = _may_be_equal(data[i], files[pairs], self._facts[i], places[pairs])
        return result

    def nearby(self, deletes: Places) -> Nearby | None:
        """An index of some equality deletes by the bounds of one column, if they all compare one that has an order."""
        places = self._place[deletes]
        for i in self.columns:
            facts = self._facts[i]
            if (
                self._compares[i][places].all()
                and isinstance(facts.lower, IntKeys)
                and isinstance(facts.upper, IntKeys)
            ):
                unbounded = facts.nulls[places]
                lower = np.where(facts.lower.known[places] & ~unbounded, facts.lower.values[places], _LEAST)
                upper = np.where(facts.upper.known[places] & ~unbounded, facts.upper.values[places], _GREATEST)
                return Nearby(i, deletes, lower, upper)
        return None


class Nearby:
    """Equality deletes in the order of their lower bounds, so that those near a data file are found by bisection.

    >>> nearby = Nearby(1, np.array([7, 8, 9]), np.array([0, 100, 200]), np.array([50, 150, 250]))
    >>> yes = np.ones(2, np.bool_)
    >>> keys = IntKeys(np.array([120, 300]), yes)
    >>> facts = ColumnFacts(~yes, ~yes, yes, keys, keys)
    >>> begins, ends = nearby.ranges({1: facts}, np.array([0, 1]))
    >>> [nearby.deletes[begin:end].tolist() for begin, end in zip(begins, ends)]
    [[8], []]
    """

    def __init__(self, column: int, deletes: Places, lower: Places, upper: Places) -> None:
        order = np.argsort(lower, kind="stable")
        self.deletes = deletes[order]
        self._column = column
        self._lower = lower[order]
        self._highest = np.maximum.accumulate(upper[order])
        """The highest upper bound of a delete and of all before it."""

    def ranges(self, data: dict[int, ColumnFacts], rows: Places) -> tuple[Places, Places]:
        """For some data files the stretch of `deletes` outside of which none can reach them."""
        facts = data[self._column]
        lower, upper = np.full(len(rows), _LEAST), np.full(len(rows), _GREATEST)
        if isinstance(facts.lower, IntKeys):
            lower = np.where(facts.lower.known[rows], facts.lower.values[rows], _LEAST)
        if isinstance(facts.upper, IntKeys):
            upper = np.where(facts.upper.known[rows], facts.upper.values[rows], _GREATEST)
        # a null is only met by deletes that may hold one, and these are without bounds here
        begins = np.searchsorted(self._highest, lower, "left")
        ends = np.searchsorted(self._lower, upper, "right")
        return begins, np.maximum(begins, ends)


def _compared_columns(deletes: DeleteFiles) -> list[frozenset[int]]:
    """The columns that each equality delete file compares."""
    found: list[frozenset[int]] = []
    begin = 0
    for chunk in deletes.chunks:
        kinds = deletes.kind[begin : begin + len(chunk)]
        own = chunk.equality_ids(np.flatnonzero(kinds >= DeleteKind.EQUALITY))
        found.extend(frozenset(ids or ()) for ids in own)
        begin += len(chunk)
    return found


def _references(schemas: Iterable[Schema], ids: set[int]) -> dict[int, BoundReference]:
    """The columns of some ids, in the first schema that has them; those without metrics are left out."""
    found: dict[int, BoundReference] = {}
    for schema in schemas:
        for i in ids - found.keys():
            if schema.find(i) is not None:
                found[i] = BoundReference(schema.entry(i))
    return {i: ref for i, ref in found.items() if ref.type.is_primitive and not ref.entry.in_collection}


def _stats(deletes: DeleteFiles, columns: tuple[int, ...]) -> FileStats:
    parts, begin = [], 0
    for chunk in deletes.chunks:
        kinds = deletes.kind[begin : begin + len(chunk)]
        parts.append(taken_stats(chunk.stats(columns), np.flatnonzero(kinds >= DeleteKind.EQUALITY)))
        begin += len(chunk)
    return joined_stats(parts)


def _may_be_equal(data: ColumnFacts, files: Places, deletes: ColumnFacts, places: Places) -> Mask:
    nulls = data.nulls[files] & deletes.nulls[places]
    nans = data.nans[files] & deletes.nans[places]
    others = data.others[files] & deletes.others[places]
    if data.lower is not None and deletes.upper is not None:
        others &= ~_above(data.lower, files, deletes.upper, places)
    if data.upper is not None and deletes.lower is not None:
        others &= ~_above(deletes.lower, places, data.upper, files)
    return nulls | nans | others


def _above(one: KeyColumn, rows: Places, other: KeyColumn, other_rows: Places) -> Mask:
    """Where both are known, and the one is above the other."""
    mine, theirs = _picked(one, rows), _picked(other, other_rows)
    return mine.known & theirs.known & mine.above(theirs)


def _picked(keys: KeyColumn, rows: Places) -> KeyColumn:
    if isinstance(keys, ByteKeys):
        return ByteKeys(keys.values.take(rows), keys.known[rows])
    if isinstance(keys, FloatKeys):
        return FloatKeys(keys.values[rows], keys.known[rows])
    assert isinstance(keys, IntKeys)
    return IntKeys(keys.values[rows], keys.known[rows])
