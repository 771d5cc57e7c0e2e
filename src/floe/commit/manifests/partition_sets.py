"""Sets of partitions: which manifests and files lie in one of them.

>>> from floe.spec.types import Field, INT
>>> days = PartitionSet.of([(0, (3,)), (0, (None,))])
>>> len(days), print(days.filter(0, StructType((Field(1000, "day", INT),))))
day = 3 OR day IS NULL
(2, None)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from floe.avro.manifests import ManifestColumns
from floe.avro.stored_columns import column_values
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Expression, Op, and_, or_
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_rows import evaluate
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

__all__ = ["NO_PARTITIONS", "PartitionSet"]


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """Partitions of any specs; floats are compared by their bits, with one NaN."""

    keys: frozenset[Hashable] = frozenset()
    tuples: dict[int, tuple[tuple[Any, ...], ...]] = field(default_factory=dict, compare=False)
    """The partition tuples of each spec."""

    @classmethod
    def of(cls, partitions: Iterable[tuple[int, tuple[Any, ...]]]) -> PartitionSet:
        """The set of pairs of spec id and partition tuple."""
        distinct = {partition_key(spec_id, values): (spec_id, values) for spec_id, values in partitions}
        by_spec: dict[int, list[tuple[Any, ...]]] = {}
        for spec_id, values in distinct.values():
            by_spec.setdefault(spec_id, []).append(values)
        return cls(frozenset(distinct), {spec_id: tuple(tuples) for spec_id, tuples in by_spec.items()})

    @classmethod
    def of_files(cls, files: Iterable[DataFile]) -> PartitionSet:
        """The partitions of some files."""
        return cls.of((file.spec_id, file.partition) for file in files)

    def __len__(self) -> int:
        return len(self.keys)

    def filter(self, spec_id: int, partition_type: StructType) -> Expression:
        """A filter on partition tuples that all of the set pass; others may pass too, where a spec has many fields."""
        tuples = self.tuples.get(spec_id)
        if not tuples:
            return FALSE
        schema = Schema(partition_type.fields)
        columns = zip(*tuples, strict=True)
        terms = [BoundReference(schema.entry(child.id)) for child in partition_type]
        return and_(*(_one_of(term, set(values)) for term, values in zip(terms, columns, strict=True)))

    def rows(self, columns: ManifestColumns, among: Mask) -> Mask:
        """Which of a manifest's entries, among some, lie in a partition of the set."""
        type_, count = columns.partition_type, len(columns)
        possible = among & evaluate(self.filter(columns.spec_id, type_), columns.partitions, count)
        rows = np.flatnonzero(possible)
        if not len(type_) or not rows.size:
            return possible
        values = zip(*(column_values(f.type, columns.partition(f.id), rows) for f in type_), strict=True)
        possible[rows] = [partition_key(columns.spec_id, partition) in self.keys for partition in values]
        return possible


NO_PARTITIONS = PartitionSet()
"""The empty set."""


def _one_of(term: BoundReference, values: set[Any]) -> Expression:
    if term.type.kind == "unknown":
        return TRUE
    some = {value for value in values if value is not None and value == value}
    tests: list[Expression] = []
    if some:
        tests.append(BoundPredicate(Op.EQ if len(some) == 1 else Op.IN, term, tuple(sorted(some))))
    if any(value is None for value in values):
        tests.append(BoundPredicate(Op.IS_NULL, term))
    if any(value != value for value in values):
        tests.append(BoundPredicate(Op.IS_NAN, term))
    return or_(*tests)
