"""Which delete files cannot delete a row that a filter asks for, by their partitions and bounds.

Deletes apply within their partition, so those of partitions that the filter leaves out do not matter. Equality deletes
hold the values that they delete: a row that is deleted and passes the filter is equal to one of theirs in the columns
they compare, which then passes what the filter says about these columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floe.avro.manifests import ManifestColumns
from floe.plan.kept_metrics import taken_stats
from floe.plan.spec_filters import SpecFilter
from floe.spec.expressions.folding import fold
from floe.spec.expressions.nodes import FALSE, TRUE, Expression, and_, or_
from floe.spec.expressions.rewrite import field_ids
from floe.spec.manifests.entries import FileContent
from floe.spec.pruning import columnar_metrics
from floe.spec.pruning.columnar_facts import Mask

__all__ = ["kept_deletes", "relaxed_to"]

Places = NDArray[np.int64]


def kept_deletes(columns: ManifestColumns, which: Mask, spec_filter: SpecFilter, bound: Expression) -> Places:
    """The delete files of some manifests, of those in `which`, that may delete rows passing a bound filter."""
    keep = which & spec_filter.files_kept(columns)
    if bound == TRUE:
        return np.flatnonzero(keep)
    equality = np.flatnonzero(keep & np.equal(columns.content, FileContent.EQUALITY_DELETES))
    compared = [frozenset(ids or ()) for ids in columns.equality_ids(equality)]
    for ids in set(compared):
        relaxed = relaxed_to(bound, ids)
        if relaxed != TRUE:
            rows = equality[[own == ids for own in compared]]
            stats = taken_stats(columns.stats(field_ids(relaxed)), rows)
            keep[rows] = columnar_metrics.might_match(relaxed, stats)
    return np.flatnonzero(keep)


def relaxed_to(bound: Expression, ids: frozenset[int]) -> Expression:
    """What a bound filter says about some columns alone: whatever passes the filter passes this.

    >>> from floe.spec.expressions.binding import bind
    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import INT, Field
    >>> schema = Schema((Field(1, "a", INT), Field(2, "b", INT)))
    >>> print(relaxed_to(bind((col("a") > 1) & (col("b") > 2), schema), frozenset({1})))
    a > 1
    """
    return fold(
        bound,
        constant=lambda value: TRUE if value else FALSE,
        predicate=lambda predicate: predicate if predicate.term.field_id in ids else TRUE,
        all_of=lambda parts: and_(*parts),
        any_of=lambda parts: or_(*parts),
    )
