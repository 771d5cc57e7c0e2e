"""The rows that a statement writes: changed ones, those that are copied beside them, and new ones.

In a v3 table rows keep their ids when they are moved. One that is changed loses the number of the commit that changed
it last, so that the commit's own takes its place; one that is only copied keeps it (spec: Row Lineage).

Rows changed by deleting them where they are and adding them anew: little to write, and readers apply the deletes.

Format version 2 has files of position deletes, version 3 deletion vectors. A vector holds all that is deleted of its
data file: what the vector before it had, and what position delete files of an upgraded table say of the file. Both are
removed with it, but for delete files that are for other data files too (spec: Deletion Vectors).

Rows changed by writing their files anew: readers have nothing to apply, and writers have more to do.

Only files that hold a changed row are written. A file all of whose rows go is removed without having been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.arrow.dml.base import Base, Counts, Positions, ReadSet, StatementResult, Touched, deleted_on_error, located
from floe.arrow.writer import write_rows
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.row_delta import RowDelta
from floe.formats.arrow_types import arrow_schema
from floe.formats.writers import write_deletion_vectors, write_position_deletes
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE
from floe.spec.manifests.entries import DataFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, POS
from floe.spec.schemas.schema import Schema

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


# Rows changed by deleting them where they are and adding them anew: little to write, and readers apply the deletes.


def merge_on_read(
    base: Base,
    statement: str,
    files: Sequence[Touched],
    counts: Counts,
    *,
    looked: ReadSet,
    assign: Assign | None = None,
    inserted: Iterable[pa.RecordBatch] = (),
) -> StatementResult:
    """The change that deletes rows by position, and adds others."""
    moving = Moving(base, assign, copying=False)
    moved = any(len(touched.updated) for touched in files)
    lineage = base.tracks_rows and moved
    rows = chain(moving.rows(files), new_rows(base, inserted, lineage=lineage))
    written = write_rows(base.target, rows, row_lineage=lineage)
    if not files and not written:
        return StatementResult(None, counts)
    partly = [touched for touched in files if not touched.whole]
    with deleted_on_error(base.target.storage, written):
        deletes, replaced = deletes_of(base, partly)
        written += deletes
        change = RowDelta(
            written,
            removed=[*(touched.task.file for touched in files if touched.whole), *replaced],
            referenced=[touched.path for touched in partly],
            positions={touched.path: touched.positions for touched in partly},
            reads=base.reads(looked),
            **base.snapshot_options(statement, counts),
        )
    return StatementResult(change, counts, tuple(written))


def deletes_of(base: Base, files: Sequence[Touched]) -> tuple[list[DataFile], list[DataFile]]:
    """What is written for the rows of some files that are gone, and the deletes that it takes the place of."""
    return _vectors(base, files) if base.tracks_rows else _delete_files(base, files)


def _delete_files(base: Base, files: Sequence[Touched]) -> tuple[list[DataFile], list[DataFile]]:
    deleted = [(touched.task.file, touched.task.spec, touched.positions) for touched in files]
    return write_position_deletes(base.target, deleted), []


def _vectors(base: Base, files: Sequence[Touched]) -> tuple[list[DataFile], list[DataFile]]:
    """The vectors, and the deletes that they take the place of."""
    complete: list[tuple[DataFile, PartitionSpec, BitMap64]] = []
    replaced: list[DataFile] = []
    for touched in files:
        before = base.reader.deleted_positions(touched.task)
        complete.append((touched.task.file, touched.task.spec, before | touched.positions))
        replaced += _overtaken(touched.task)
    return write_deletion_vectors(base.target, complete), replaced


def _overtaken(task: FileTask) -> list[DataFile]:
    """The position deletes of a task that are for its file alone."""
    path = task.file.file_path
    return [
        delete
        for delete in task.deletes
        if (delete.is_deletion_vector and delete.referenced_data_file == path)
        or (delete.is_position_delete_file and delete.target_path == path)
    ]


# Rows changed by writing their files anew: readers have nothing to apply, and writers have more to do.


def copy_on_write(
    base: Base,
    statement: str,
    files: Sequence[Touched],
    counts: Counts,
    *,
    looked: ReadSet,
    assign: Assign | None = None,
    inserted: Iterable[pa.RecordBatch] = (),
) -> StatementResult:
    """The change that takes the place of some files."""
    moving = Moving(base, assign, copying=True)
    lineage = base.tracks_rows and bool(files)
    rows = chain(moving.rows(files), new_rows(base, inserted, lineage=lineage))
    written = write_rows(base.target, rows, row_lineage=lineage)
    counts = replace(counts, copied=moving.stayed)
    if not files and not written:
        return StatementResult(None, counts)
    with deleted_on_error(base.target.storage, written):
        change = Overwrite(
            added=written,
            removed=[touched.task.file for touched in files],
            reads=base.reads(looked, moving.copied),
            **base.snapshot_options(statement, counts),
        )
    return StatementResult(change, counts, tuple(written))
