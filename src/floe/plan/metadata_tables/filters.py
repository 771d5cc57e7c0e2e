"""Filters on metadata tables: exact on rows, and sound on manifests that need not be read.

A filter is relaxed to what can be decided early: each test that cannot be is taken as passed, which never loses a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import InvalidInput
from floe.plan.metadata_tables.arrays import array_to_column
from floe.spec.expressions.binding import bind
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
from floe.spec.pruning.manifest_filter import PartitionSummaries, compile_might_match
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

_CONTENTS: dict[ManifestContent, tuple[int, ...]] = {
    ManifestContent.DATA: (FileContent.DATA,),
    ManifestContent.DELETES: (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES),
}


def bind_filter(where: Expression | None, schema: Schema) -> Expression:
    """The filter bound to the table's columns; true without one."""
    if where is None:
        return TRUE
    if not isinstance(where, Expression):
        raise InvalidInput(
            f"a filter must be an expression, found {type(where).__name__}",
            hint="make one with `floe.col`, or from text with `parse_filter`",
        )
    return bind(where, schema)


# rows -----------------------------------------------------------------------------------------------------------------


def columns_of_filter(expression: Expression, schema: Schema) -> Schema:
    """The part of a schema that a bound filter reads."""
    return project(schema, field_ids(expression))


def matching_rows(expression: Expression, rows: pa.RecordBatch | pa.Table, schema: Schema) -> Mask:
    """Which rows pass a bound filter; the rows have at least the columns that it reads."""
    if isinstance(expression, Constant):
        return np.full(rows.num_rows, expression.value)
    columns = {}
    for field_id in field_ids(expression):
        entry = schema.entry(field_id)
        first, *rest = entry.path
        array = rows.column(first)
        for name in rest:
            array = pc.struct_field(array, name)  # null where the struct is null
        columns[field_id] = array_to_column(entry.field.type, array)
    return evaluate(expression, columns, rows.num_rows)


def filter_table(expression: Expression, table: pa.Table, schema: Schema) -> pa.Table:
    """The rows of a whole table that pass."""
    return table if expression == TRUE else table.filter(pa.array(matching_rows(expression, table, schema)))


# relaxed filters ------------------------------------------------------------------------------------------------------


def relaxed(expression: Expression, leaf: Callable[[BoundPredicate], Expression]) -> Expression:
    """The filter with each of its tests replaced by one that is passed at least as often."""
    return fold(
        expression,
        constant=lambda value: TRUE if value else FALSE,
        predicate=leaf,
        all_of=lambda parts: and_(*parts),
        any_of=lambda parts: or_(*parts),
    )


def relaxed_to(expression: Expression, ids: Iterable[int]) -> Expression:
    """The filter with only the tests of some columns left."""
    kept = frozenset(ids)
    return relaxed(expression, lambda predicate: predicate if predicate.term.field_id in kept else TRUE)


class ManifestFilter:
    """Tells which manifests may have files that pass: by partition summaries, content, and spec.

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
        self._compiled: dict[tuple[int, ManifestContent], Callable[[PartitionSummaries], bool]] = {}

    def might_match(self, manifest: ManifestFile) -> bool:
        """False only if no file of the manifest passes."""
        if self._expression == TRUE or manifest.partition_spec_id not in self._types:
            return True
        key = manifest.partition_spec_id, manifest.content
        if key not in self._compiled:
            partition = Schema(self._types[manifest.partition_spec_id].fields)
            constants: dict[int | None, tuple[Any, ...]] = {
                self._content_id: _CONTENTS[manifest.content],
                self._spec_column_id: (manifest.partition_spec_id,),
            }
            simplified = relaxed(self._expression, lambda predicate: self._leaf(predicate, partition, constants))
            self._compiled[key] = compile_might_match(simplified, partition)
        return self._compiled[key](manifest)

    def _leaf(
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
