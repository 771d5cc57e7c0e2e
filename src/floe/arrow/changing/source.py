"""The source of a MERGE or upsert: rows that a user brought, all of them in memory, in the types of Floe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from floe.arrow.changing.touched import Positions
from floe.arrow.incoming import reader_of
from floe.arrow.values.rows import Rows
from floe.formats.arrow_types import arrow_schema, schema_from_arrow
from floe.formats.conforming import Conformer
from floe.spec.expressions.nodes import Expression
from floe.spec.schemas.schema import Schema

__all__ = ["Source", "source_of"]


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
