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

__all__ = ["EqualityReach"]

Places = NDArray[np.int64]


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
