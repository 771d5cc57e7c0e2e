"""Writes the rows of a row-level statement: updated, copied and inserted ones, and the deletes of merge-on-read.

`copy_on_write` rewrites the files that contain a changed row, with their unchanged rows. A file of which all rows are
deleted is removed without being read.

`merge_on_read` writes deletes for the deleted and updated rows, and new files for the updated and inserted ones. Format
version 2 has position delete files, version 3 deletion vectors. A vector holds all deleted positions of its data file:
also those of the vector that it replaces, and those of position delete files from before an upgrade. These deletes are
removed with it, except delete files that apply to other data files too (spec: Deletion Vectors).

In format version 3, rows keep their ids when they are rewritten. An updated row has null for its last updated sequence
number, so that readers use that of the commit; a copied row keeps its number (spec: Row Lineage).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from floe.arrow.dml.base import (
    Base,
    Counts,
    FileChanges,
    Positions,
    ReadSet,
    StatementResult,
    delete_on_error,
    row_positions,
    search_sorted,
)
from floe.arrow.writer import write_rows
from floe.commit.operations.data_changes import Overwrite, RowDelta
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.writers import write_deletion_vectors, write_position_deletes
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE
from floe.spec.manifests.entries import DataFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, POS
from floe.spec.schemas.schema import Schema

Assign: TypeAlias = Callable[[pa.RecordBatch, Positions, Positions], list[pa.Array]]
"""Computes the columns of updated rows, from the old rows, and the clause and the source row of each."""


@dataclass(eq=False)
class RowRewriter:
    """Generates the rows of changed files while they are written, and counts them."""

    base: Base
    assign: Assign | None
    copies_unchanged: bool
    """Whether unchanged rows are written too, because their files are removed."""

    written_rows: dict[str, int] = field(default_factory=dict)
    """The number of rows that were written of each file, updated or not."""

    unchanged_rows: int = 0
    """The number of unchanged rows among them."""

    def rows(self, files: Iterable[FileChanges]) -> Iterator[pa.RecordBatch]:
        """The rows of some files that are written to new files."""
        for changes in files:
            if not changes.whole_file and (self.copies_unchanged or len(changes.updated)):
                yield from self._file_batches(changes)

    def _file_batches(self, changes: FileChanges) -> Iterator[pa.RecordBatch]:
        stored_schema = self.base.stored_schema
        read_schema = Schema((*stored_schema.fields, POS))
        written_schema = arrow_schema(stored_schema)
        where = TRUE if self.copies_unchanged else None
        for batch in self.base.reader.batches(changes.task, read_schema, where=where):
            positions = row_positions(batch)
            batch = batch.select(range(batch.num_columns - 1))
            update_indexes = search_sorted(positions, changes.updated)
            is_updated = update_indexes >= 0
            is_unchanged = ~is_updated & (search_sorted(positions, changes.deleted) < 0) & self.copies_unchanged
            parts = [batch.filter(pa.array(is_unchanged))] if is_unchanged.any() else []
            if is_updated.any():
                parts.append(self._update_rows(batch.filter(pa.array(is_updated)), changes, update_indexes[is_updated]))
            if not parts:
                continue
            count = sum(part.num_rows for part in parts)
            self.written_rows[changes.path] = self.written_rows.get(changes.path, 0) + count
            self.unchanged_rows += int(is_unchanged.sum())
            parts = [pa.RecordBatch.from_arrays(part.columns, schema=written_schema) for part in parts]
            if len(parts) == 1:
                yield parts[0]
            else:  # restore the order of the rows
                order = np.argsort(np.concatenate([np.flatnonzero(is_unchanged), np.flatnonzero(is_updated)]))
                yield pa.concat_batches(parts).take(pa.array(order))

    def _update_rows(self, rows: pa.RecordBatch, changes: FileChanges, indexes: Positions) -> pa.RecordBatch:
        assert self.assign is not None
        column_count = len(self.base.schema.fields)
        columns = self.assign(rows.select(range(column_count)), changes.clause[indexes], changes.source[indexes])
        names = rows.schema.names
        no_sequence_number = pa.nulls(rows.num_rows, pa.int64())
        lineage = [
            no_sequence_number if names[index] == LAST_UPDATED_SEQUENCE_NUMBER.name else rows.column(index)
            for index in range(column_count, rows.num_columns)
        ]
        return pa.RecordBatch.from_arrays([*columns, *lineage], names)


def insert_batches(base: Base, batches: Iterable[pa.RecordBatch], *, lineage: bool) -> Iterator[pa.RecordBatch]:
    """Inserted rows in the columns of rewritten ones; with `lineage`, ids are null, and the commit assigns them."""
    written_schema = arrow_schema(base.stored_schema if lineage else base.schema)
    for batch in batches:
        missing_columns = len(written_schema) - batch.num_columns
        columns = [*batch.columns, *(pa.nulls(batch.num_rows, pa.int64()) for _ in range(missing_columns))]
        yield pa.RecordBatch.from_arrays(columns, schema=written_schema)


# Merge-on-read --------------------------------------------------------------------------------------------------------


def merge_on_read(
    base: Base,
    statement: str,
    files: Sequence[FileChanges],
    counts: Counts,
    *,
    read_set: ReadSet,
    assign: Assign | None = None,
    inserted: Iterable[pa.RecordBatch] = (),
) -> StatementResult:
    """The change that deletes the changed rows by position, and adds files with the updated and inserted rows."""
    rewriter = RowRewriter(base, assign, copies_unchanged=False)
    has_updates = any(len(changes.updated) for changes in files)
    lineage = base.tracks_rows and has_updates
    rows = chain(rewriter.rows(files), insert_batches(base, inserted, lineage=lineage))
    written = write_rows(base.target, rows, row_lineage=lineage)
    if not files and not written:
        return StatementResult(None, counts)
    changed_files = [changes for changes in files if not changes.whole_file]
    with delete_on_error(base.target.storage, written):
        deletes, replaced = write_deletes(base, changed_files)
        written += deletes
        change = RowDelta(
            written,
            removed=[*(changes.task.file for changes in files if changes.whole_file), *replaced],
            referenced=[changes.path for changes in changed_files],
            positions={changes.path: changes.positions for changes in changed_files},
            reads=base.reads(read_set),
            **base.snapshot_options(statement, counts),
        )
    return StatementResult(change, counts, tuple(written))


def write_deletes(base: Base, files: Sequence[FileChanges]) -> tuple[list[DataFile], list[DataFile]]:
    """Write deletes for the deleted and updated rows of some files; returns them and the deletes that they replace."""
    return _write_vectors(base, files) if base.tracks_rows else _write_delete_files(base, files)


def _write_delete_files(base: Base, files: Sequence[FileChanges]) -> tuple[list[DataFile], list[DataFile]]:
    positions_of_files = [(changes.task.file, changes.task.spec, changes.positions) for changes in files]
    return write_position_deletes(base.target, positions_of_files), []


def _write_vectors(base: Base, files: Sequence[FileChanges]) -> tuple[list[DataFile], list[DataFile]]:
    """Write deletion vectors; returns them and the deletes that they replace."""
    positions_of_files: list[tuple[DataFile, PartitionSpec, BitMap64]] = []
    replaced: list[DataFile] = []
    for changes in files:
        deleted_before = base.reader.deleted_positions(changes.task)
        positions_of_files.append((changes.task.file, changes.task.spec, deleted_before | changes.positions))
        replaced += _replaced_deletes(changes.task)
    return write_deletion_vectors(base.target, positions_of_files), replaced


def _replaced_deletes(task: FileTask) -> list[DataFile]:
    """The position deletes of a task that apply to its file alone."""
    path = task.file.file_path
    return [
        delete
        for delete in task.deletes
        if (delete.is_deletion_vector and delete.referenced_data_file == path)
        or (delete.is_position_delete_file and delete.target_path == path)
    ]


# Copy-on-write --------------------------------------------------------------------------------------------------------


def copy_on_write(
    base: Base,
    statement: str,
    files: Sequence[FileChanges],
    counts: Counts,
    *,
    read_set: ReadSet,
    assign: Assign | None = None,
    inserted: Iterable[pa.RecordBatch] = (),
) -> StatementResult:
    """The change that replaces some files by files with their unchanged, updated and inserted rows."""
    rewriter = RowRewriter(base, assign, copies_unchanged=True)
    lineage = base.tracks_rows and bool(files)
    rows = chain(rewriter.rows(files), insert_batches(base, inserted, lineage=lineage))
    written = write_rows(base.target, rows, row_lineage=lineage)
    counts = replace(counts, copied=rewriter.unchanged_rows)
    if not files and not written:
        return StatementResult(None, counts)
    with delete_on_error(base.target.storage, written):
        change = Overwrite(
            added=written,
            removed=[changes.task.file for changes in files],
            reads=base.reads(read_set, rewriter.written_rows),
            **base.snapshot_options(statement, counts),
        )
    return StatementResult(change, counts, tuple(written))
