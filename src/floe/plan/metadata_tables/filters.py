"""Filters on metadata tables: exact on rows, and inclusive on the manifests that are read.

To prune early, a filter is relaxed to the predicates that can be decided then. Others count as true, so that no
matching row is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import InvalidInput
from floe.plan.arrow_columns import array_to_column
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Constant,
    Expression,
    Op,
    and_,
    fold,
    or_,
)
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import FileContent, ManifestContent, ManifestFile
from floe.spec.pruning.column_evaluation import evaluate
from floe.spec.pruning.metrics_evaluation import gather_summaries, manifests_might_match
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

_CONTENTS: dict[ManifestContent, tuple[int, ...]] = {
    ManifestContent.DATA: (FileContent.DATA,),
    ManifestContent.DELETES: (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES),
}


def bind_filter(where: Expression | None, schema: Schema) -> Expression:
    """The filter bound to the columns of a metadata table; true without a filter."""
    if where is None:
        return TRUE
    if not isinstance(where, Expression):
        raise InvalidInput(
            f"a filter must be an expression, found {type(where).__name__}",
            hint="build one with `floe.col`, or from text with `parse_filter`",
        )
    return bind(where, schema)


# rows -----------------------------------------------------------------------------------------------------------------


def columns_of_filter(expression: Expression, schema: Schema) -> Schema:
    """The part of a schema that a bound filter reads."""
    return project(schema, field_ids(expression))


def matching_rows(expression: Expression, rows: pa.RecordBatch | pa.Table, schema: Schema) -> Mask:
    """A mask of the rows that match a bound filter; `rows` has at least the columns that it reads."""
    if isinstance(expression, Constant):
        return np.full(rows.num_rows, expression.value)
    columns = {}
    for field_id in field_ids(expression):
        entry = schema.entry(field_id)
        first, *nested = entry.path
        array = rows.column(first)
        for name in nested:
            array = pc.struct_field(array, name)  # null where the struct is null
        columns[field_id] = array_to_column(entry.field.type, array)
    return evaluate(expression, columns, rows.num_rows)


def filter_table(expression: Expression, table: pa.Table, schema: Schema) -> pa.Table:
    """The rows of a table that match."""
    return table if expression == TRUE else table.filter(pa.array(matching_rows(expression, table, schema)))


# relaxed filters ------------------------------------------------------------------------------------------------------


def relax(expression: Expression, relax_predicate: Callable[[BoundPredicate], Expression]) -> Expression:
    """The filter with each predicate replaced by an expression that matches at least the same rows."""
    return fold(
        expression,
        constant=lambda value: TRUE if value else FALSE,
        predicate=relax_predicate,
        all_of=lambda parts: and_(*parts),
        any_of=lambda parts: or_(*parts),
    )


class ManifestFilter:
    """Selects the manifests that may have matching files: by partition summaries, content, and spec.

    `partition_ids` has for each field of the table's `partition` the id of the partition field; `content_id` and
    `spec_column_id` are the columns that hold a file's content and spec, if the table has them.
    """

    def __init__(
        self,
        expression: Expression,
        partition_types: Mapping[int, StructType],
        partition_ids: Mapping[int, int],
        *,
        content_id: int | None = None,
        spec_column_id: int | None = None,
    ) -> None:
        self._expression = expression
        self._types = partition_types
        self._partition_ids = partition_ids
        self._content_id = content_id
        self._spec_column_id = spec_column_id

    def select(self, manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
        """The manifests that may have matching files, in their order."""
        all_manifests = list(manifests)
        if self._expression == TRUE:
            return all_manifests
        keep = np.ones(len(all_manifests), np.bool_)
        indexes_by_kind: dict[tuple[int, ManifestContent], list[int]] = {}
        for index, manifest in enumerate(all_manifests):
            indexes_by_kind.setdefault((manifest.partition_spec_id, manifest.content), []).append(index)
        for (spec_id, content), indexes in indexes_by_kind.items():
            if spec_id in self._types:
                keep[indexes] = self._might_match(spec_id, content, [all_manifests[index] for index in indexes])
        return [manifest for manifest, matches in zip(all_manifests, keep.tolist(), strict=True) if matches]

    def _might_match(self, spec_id: int, content: ManifestContent, manifests: Sequence[ManifestFile]) -> Mask:
        """A mask of the manifests, of one spec and content, that may have matching files."""
        partition = Schema(self._types[spec_id].fields)
        constants: dict[int | None, tuple[Any, ...]] = {
            self._content_id: _CONTENTS[content],
            self._spec_column_id: (spec_id,),
        }
        simplified = relax(self._expression, lambda predicate: self._relax_predicate(predicate, partition, constants))
        return manifests_might_match(simplified, gather_summaries(manifests, partition), len(manifests))

    def _relax_predicate(
        self, predicate: BoundPredicate, partition: Schema, constants: Mapping[int | None, tuple[Any, ...]]
    ) -> Expression:
        term, op = predicate.term, predicate.op
        possible = constants.get(term.field_id)
        if possible is not None and isinstance(term, BoundReference):
            test = value_test(term.type, op, predicate.literals)
            return TRUE if any(map(test, possible)) else FALSE
        partition_id = self._partition_ids.get(term.field_id)
        if partition_id is None:
            return TRUE
        if partition_id not in partition.by_id:  # the spec has no such field, so it is null for all files
            return TRUE if op is Op.IS_NULL else FALSE
        target = BoundReference(partition.entry(partition_id))
        moved = target if isinstance(term, BoundReference) else BoundTransform(term.transform, target, term.type)
        return BoundPredicate(op, moved, predicate.literals)
