"""Rows changed by deleting them where they are and adding them anew: little to write, and readers apply the deletes.

Format version 2 has files of position deletes, version 3 deletion vectors. A vector holds all that is deleted of its
data file: what the vector before it had, and what position delete files of an upgraded table say of the file. Both are
removed with it, but for delete files that are for other data files too (spec: Deletion Vectors).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import pyarrow as pa
from pyroaring import BitMap64

from floe.arrow.changing.base import Base, Counts, LookedAt, Made, deleted_on_error
from floe.arrow.changing.moving import Assign, Moving, new_rows
from floe.arrow.changing.touched import Touched
from floe.arrow.writing import write_rows
from floe.commit.operations.row_delta import RowDelta
from floe.formats.writers import write_deletion_vectors, write_position_deletes
from floe.plan.tasks import FileTask
from floe.spec.manifests.entries import DataFile
from floe.spec.partitioning.partition_spec import PartitionSpec

__all__ = ["deletes_of", "merge_on_read"]


def merge_on_read(
    base: Base,
    statement: str,
    files: Sequence[Touched],
    counts: Counts,
    *,
    looked: LookedAt,
    assign: Assign | None = None,
    inserted: Iterable[pa.RecordBatch] = (),
) -> Made:
    """The change that deletes rows by position, and adds others."""
    moving = Moving(base, assign, copying=False)
    moved = any(len(touched.updated) for touched in files)
    lineage = base.tracks_rows and moved
    rows = chain(moving.rows(files), new_rows(base, inserted, lineage=lineage))
    written = write_rows(base.target, rows, row_lineage=lineage)
    if not files and not written:
        return Made(None, counts)
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
    return Made(change, counts, tuple(written))


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
