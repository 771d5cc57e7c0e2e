"""The rows that a statement writes: changed ones, those that are copied beside them, and new ones.

In a v3 table rows keep their ids when they are moved. One that is changed loses the number of the commit that changed
it last, so that the commit's own takes its place; one that is only copied keeps it (spec: Row Lineage).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from floe.arrow.changing.base import Base
from floe.arrow.changing.touched import Positions, Touched, located
from floe.formats.arrow_types import arrow_schema
from floe.spec.expressions.nodes import TRUE
from floe.spec.schemas.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, POS
from floe.spec.schemas.schema import Schema

__all__ = ["Assign", "Moving", "new_rows"]

Assign: TypeAlias = Callable[[pa.RecordBatch, Positions, Positions], list[pa.Array]]
"""Makes the columns of changed rows, from the rows as they were, the clause that changes each, and its source row."""


@dataclass(eq=False)
class Moving:
    """The rows of files that change, made while they are written; it counts as it goes."""

    base: Base
    assign: Assign | None
    copying: bool
    """Whether rows that stay as they are are written too, because their files are removed."""

    copied: dict[str, int] = field(default_factory=dict)
    """How many rows of each file were taken over, changed or not."""

    stayed: int = 0
    """How many of them are as they were."""

    def rows(self, files: Iterable[Touched]) -> Iterator[pa.RecordBatch]:
        """The rows of some files that have a place in the files to come."""
        for touched in files:
            if not touched.whole and (self.copying or len(touched.updated)):
                yield from self._file(touched)

    def _file(self, touched: Touched) -> Iterator[pa.RecordBatch]:
        stored = self.base.stored_schema
        schema = Schema((*stored.fields, POS))
        written = arrow_schema(stored)
        where = TRUE if self.copying else None
        for batch in self.base.reader.batches(touched.task, schema, where=where):
            positions = np.asarray(batch.column(batch.num_columns - 1), np.int64)
            batch = batch.select(range(batch.num_columns - 1))
            changed = located(positions, touched.updated)
            stays = (changed < 0) & (located(positions, touched.deleted) < 0) & self.copying
            parts = [batch.filter(pa.array(stays))] if stays.any() else []
            if (changed >= 0).any():
                parts.append(self._changed(batch.filter(pa.array(changed >= 0)), touched, changed[changed >= 0]))
            if not parts:
                continue
            count = sum(part.num_rows for part in parts)
            self.copied[touched.path] = self.copied.get(touched.path, 0) + count
            self.stayed += int(stays.sum())
            parts = [pa.RecordBatch.from_arrays(part.columns, schema=written) for part in parts]
            if len(parts) == 1:
                yield parts[0]
            else:  # in the order that the rows had
                order = np.argsort(np.concatenate([np.flatnonzero(stays), np.flatnonzero(changed >= 0)]))
                yield pa.concat_batches(parts).take(pa.array(order))

    def _changed(self, rows: pa.RecordBatch, touched: Touched, places: Positions) -> pa.RecordBatch:
        assert self.assign is not None
        own = len(self.base.schema.fields)
        made = self.assign(rows.select(range(own)), touched.clause[places], touched.source[places])
        names = rows.schema.names
        lineage = [
            pa.nulls(rows.num_rows, pa.int64()) if names[n] == LAST_UPDATED_SEQUENCE_NUMBER.name else rows.column(n)
            for n in range(own, rows.num_columns)
        ]
        return pa.RecordBatch.from_arrays([*made, *lineage], names)


def new_rows(base: Base, batches: Iterable[pa.RecordBatch], *, lineage: bool) -> Iterator[pa.RecordBatch]:
    """Rows that are inserted, in the columns of those that are moved; ids are given to them by the commit."""
    written = arrow_schema(base.stored_schema if lineage else base.schema)
    for batch in batches:
        missing = len(written) - batch.num_columns
        columns = [*batch.columns, *(pa.nulls(batch.num_rows, pa.int64()) for _ in range(missing))]
        yield pa.RecordBatch.from_arrays(columns, schema=written)
