"""Rows changed by writing their files anew: readers have nothing to apply, and writers have more to do.

Only files that hold a changed row are written. A file all of whose rows go is removed without having been read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from floe.arrow.changing.base import Base, Counts, LookedAt, Made, deleted_on_error
from floe.arrow.changing.moving import Assign, Moving, new_rows
from floe.arrow.changing.touched import Touched
from floe.arrow.writing import write_rows
from floe.commit.operations.overwrite import Overwrite

__all__ = ["copy_on_write"]


def copy_on_write(
    base: Base,
    statement: str,
    files: Sequence[Touched],
    counts: Counts,
    *,
    looked: LookedAt,
    assign: Assign | None = None,
    inserted: Iterable[pa.RecordBatch] = (),
) -> Made:
    """The change that takes the place of some files."""
    moving = Moving(base, assign, copying=True)
    lineage = base.tracks_rows and bool(files)
    rows = chain(moving.rows(files), new_rows(base, inserted, lineage=lineage))
    written = write_rows(base.target, rows, row_lineage=lineage)
    counts = replace(counts, copied=moving.stayed)
    if not files and not written:
        return Made(None, counts)
    with deleted_on_error(base.target.storage, written):
        change = Overwrite(
            added=written,
            removed=[touched.task.file for touched in files],
            reads=base.reads(looked, moving.copied),
            **base.snapshot_options(statement, counts),
        )
    return Made(change, counts, tuple(written))
