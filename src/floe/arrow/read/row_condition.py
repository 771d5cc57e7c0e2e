"""The filter of a scan: what planning can use of it, and the condition that is evaluated on the rows.

Most filters compare columns with constants. Planning prunes files by them, and readers evaluate them. Any other
condition that SQL can express, such as `upper(name) = 'A'` or `a > b`, is compiled and evaluated on the rows that were
read; the part of it that compares columns with constants still prunes files.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from floe.arrow.values.compiled import Compiled, Rows
from floe.arrow.values.compiler import Scope
from floe.arrow.values.filters import Condition, compile_row_condition
from floe.errors import InvalidExpression, NoSuchColumn
from floe.formats.columns.arrow_types import arrow_schema, arrow_type
from floe.formats.columns.conversion import Converter, make_converter
from floe.formats.columns.file_columns import resolve_file_columns
from floe.formats.columns.projection import rows_without_columns
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.schemas.column_projection import FromFile
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.sql.filters import as_filter
from floe.storage.environment import Environment

_TABLE: Final = "t"
"""The name of the table in filters: `t.id` and `id` are the same column."""


def compile_filter(
    where: Expression | str | None, schema: Schema, environment: Environment, *, case_sensitive: bool = True
) -> Condition:
    """The condition of a scan; `InvalidExpression` or `NoSuchColumn` if it has no meaning for the schema.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "a", INT), Field(2, "b", INT)))
    >>> condition = compile_filter("a > 5 AND a < b", schema, Environment())
    >>> str(condition.filter), condition.row_condition is None
    ('a > 5', False)
    """
    try:
        plain = as_filter(where)
    except InvalidExpression as error:
        if not isinstance(where, str):
            raise
        return _compile(where, schema, environment, error, case_sensitive=case_sensitive)
    if plain is None:
        return Condition(TRUE)
    try:
        bind(plain, schema, case_sensitive=case_sensitive)
    except NoSuchColumn as error:
        if not isinstance(where, str):
            raise
        return _compile(where, schema, environment, error, case_sensitive=case_sensitive)  # `t.id` is a column too
    return Condition(plain)


def _compile(
    where: str,
    schema: Schema,
    environment: Environment,
    error: InvalidExpression | NoSuchColumn,
    *,
    case_sensitive: bool,
) -> Condition:
    """The condition of a text that is not a plain filter, because of `error`."""
    scope = Scope({_TABLE: schema}, now_us=environment.clock.now_ms() * 1000, case_sensitive=case_sensitive)
    try:
        return compile_row_condition(where, scope, _TABLE)
    except InvalidExpression as other:
        raise _further(error, other) from None


def _further(first: InvalidExpression | NoSuchColumn, second: InvalidExpression) -> Exception:
    """Of the errors of two grammars, that of the grammar which read more of the text: it points at the mistake."""
    position = first.position if isinstance(first, InvalidExpression) else None
    return second if position is not None and (second.position or 0) >= position else first


class RowCondition:
    """Evaluates a condition on batches with the columns of a scan and those that only the condition needs."""

    def __init__(self, condition: Compiled, table_schema: Schema, schema: Schema) -> None:
        self._condition, self._schema = condition, schema
        self._arrow_schema = arrow_schema(schema)
        names = {path[0] for relation, path in condition.columns if relation == _TABLE}
        needed = {field.name: field for field in table_schema.fields if field.name in names}
        fields = [needed.pop(field.name, field) for field in schema.fields]
        self._reductions = [_reduction(full, field) for full, field in zip(fields, schema.fields, strict=True)]
        self.read_schema = Schema((*fields, *needed.values()))
        """The columns that must be read."""

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which the condition is true, in the columns of the scan."""
        mask = self._condition.mask(Rows(batch.num_rows, {_TABLE: batch}))
        matching = batch if mask.all() else batch.filter(pa.array(mask))
        if not self._schema.fields:
            return rows_without_columns(matching.num_rows)
        columns = [
            column if reduce is None else reduce(column)
            for reduce, column in zip(self._reductions, matching.columns[: len(self._reductions)], strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)


def _reduction(full: Field, field: Field) -> Converter | None:
    """From a struct that the condition needs as a whole to the fields of it that the scan reads; None if all are."""
    if full == field:
        return None
    (source,) = resolve_file_columns(Schema((field,)), [FileField.of(full)])
    assert isinstance(source, FromFile)
    return make_converter(source, arrow_type(full.type))
