"""Which files of a manifest have rows that pass a filter: some of them perhaps, or all of them for sure.

Each predicate is asked of the partition values and of the metrics, and what either proves counts; so a filter of which
one part is proved by the partition and another by the metrics is proved (the answers are at least those of residuals).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from floe.avro.manifests import ManifestColumns
from floe.spec.expressions.folding import fold
from floe.spec.expressions.nodes import BoundPredicate, Expression
from floe.spec.expressions.rewrite import field_ids
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning import columnar_metrics
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_rows import evaluate
from floe.spec.pruning.projection import project_predicate
from floe.spec.schemas.schema import Schema

__all__ = ["match_files"]

_Answers: TypeAlias = tuple[Mask, Mask]


def match_files(expression: Expression, spec: PartitionSpec, columns: ManifestColumns) -> _Answers:
    """For each entry of a manifest, whether some row of its file may pass a bound filter, and whether all must.

    No row of an empty file passes.
    """
    count = len(columns)
    stats = columns.stats(field_ids(expression))
    partition = Schema(columns.partition_type.fields)

    def leaf(predicate: BoundPredicate) -> _Answers:
        might, must = columnar_metrics.might_match(predicate, stats), columnar_metrics.must_match(predicate, stats)
        for inclusive, strict in project_predicate(predicate, spec, partition):
            might = might & evaluate(inclusive, columns.partitions, count)
            must = must | evaluate(strict, columns.partitions, count)
        return might, must

    def all_of(parts: Sequence[_Answers]) -> _Answers:
        return reduce(np.logical_and, [m for m, _ in parts]), reduce(np.logical_and, [m for _, m in parts])

    def any_of(parts: Sequence[_Answers]) -> _Answers:
        return reduce(np.logical_or, [m for m, _ in parts]), reduce(np.logical_or, [m for _, m in parts])

    might, must = fold(
        expression,
        constant=lambda value: (np.full(count, value), np.full(count, value)),
        predicate=leaf,
        all_of=all_of,
        any_of=any_of,
    )
    return might & np.not_equal(columns.record_count, 0), must
