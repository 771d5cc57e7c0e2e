"""The result of planning: files in columns, and tasks made of them when they are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.plan.arrow_columns import text_array
from floe.plan.arrow_tables import deletes_column, deletes_table, files_table
from floe.plan.delete_index import DeleteIndex, Matched
from floe.plan.file_chunks import FileChunk
from floe.plan.report import ScanReport
from floe.plan.splits import pack_tasks, split_settings
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.schemas.schema import Schema

__all__ = ["ScanPlan"]

Places = NDArray[np.int64]

_BLOCK_FILES = 1024
_BLOCK_PAIRS = 2**20


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """The files that a scan reads; `plan_scan` makes it.

    Its length is the number of data files. Everything about them is in columns; `tasks` makes one object after another.
    """

    metadata: TableMetadata
    schema: Schema
    """The schema of the read."""

    filter: Expression
    """The filter, bound to the schema."""

    chunks: Sequence[FileChunk]
    residuals: Sequence[Expression]
    """What is left of the filter for some files; the chunks have the numbers."""

    deletes: DeleteIndex | None
    matched: Sequence[Matched]
    """What the index of deletes knows of the files of each chunk."""

    report: ScanReport

    def __len__(self) -> int:
        return sum(map(len, self.chunks))

    def __repr__(self) -> str:
        return f"<ScanPlan: {len(self)} files, {self.size} bytes>"

    @cached_property
    def record_count(self) -> int:
        """How many rows the files have, before filter and deletes; files that nobody counted are left out."""
        return sum(int(np.maximum(chunk.columns.record_count, 0).sum()) for chunk in self.chunks)

    @cached_property
    def size(self) -> int:
        """How many bytes the data files have."""
        return sum(int(chunk.columns.file_size_in_bytes.sum()) for chunk in self.chunks)

    @property
    def has_deletes(self) -> bool:
        """Whether there are deletes that may apply to files of the plan."""
        return self.deletes is not None and len(self.deletes) > 0

    # tasks ------------------------------------------------------------------------------------------------------

    def tasks(self) -> Iterator[FileTask]:
        """A task for each data file, in the order of the manifests."""
        for number, chunk in enumerate(self.chunks):
            for rows in chunk.blocks(self.block(number)):
                yield from self.some_tasks(number, rows)

    def combined(
        self, *, target_size: int | None = None, lookback: int | None = None, open_file_cost: int | None = None
    ) -> Iterator[tuple[FileTask, ...]]:
        """The tasks cut into stretches and packed into bins of about equal work.

        The sizes are those of the table's properties `read.split.*`, unless others are given.
        """
        settings = split_settings(
            self.metadata.properties, target_size=target_size, lookback=lookback, open_file_cost=open_file_cost
        )
        return pack_tasks(self.tasks(), settings)

    def some_tasks(self, number: int, rows: Places) -> Iterator[FileTask]:
        """The tasks of some files of a chunk."""
        chunk = self.chunks[number]
        codes = np.zeros(len(rows), np.int64) if chunk.residuals is None else chunk.residuals[rows]
        offsets, deletes = self.deletes_of(number, rows)
        objects = [] if self.deletes is None else self.deletes.files(deletes.tolist())
        edges = offsets.tolist()
        for place, (entry, code) in enumerate(zip(chunk.entries(rows), codes.tolist(), strict=True)):
            own = tuple(objects[edges[place] : edges[place + 1]])
            yield FileTask(entry, chunk.spec, own, self.residuals[code])

    def block(self, number: int) -> int:
        """How many files are looked at together: few if each has very many deletes."""
        if self.deletes is None or not len(self.chunks[number]):
            return _BLOCK_FILES
        each = self.deletes.most_pairs(self.matched[number]) // len(self.chunks[number]) + 1
        return max(1, min(_BLOCK_FILES, _BLOCK_PAIRS // each))

    def deletes_of(self, number: int, rows: Places) -> tuple[Places, Places]:
        """The numbers of the deletes of some files of a chunk, and from where to where each file's own go."""
        if self.deletes is None:
            return np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.int64)
        files, deletes = self.deletes.pairs(self.matched[number], rows)
        return np.searchsorted(files, np.arange(len(rows) + 1)), deletes

    def _all_deletes(self, number: int) -> tuple[Places, Places]:
        """The same for all files of a chunk."""
        counts, numbers = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
        for rows in self.chunks[number].blocks(self.block(number)):
            offsets, deletes = self.deletes_of(number, rows)
            counts.append(np.diff(offsets))
            numbers.append(deletes)
        return np.cumsum(np.concatenate(counts)), np.concatenate(numbers)

    def delete_counts(self) -> Iterator[Places]:
        """For each chunk, how many deletes each file has."""
        for number, chunk in enumerate(self.chunks):
            parts = [np.diff(self.deletes_of(number, rows)[0]) for rows in chunk.blocks(self.block(number))]
            yield np.concatenate([np.zeros(0, np.int64), *parts])

    def without_filter(self, chunk: FileChunk) -> Mask:
        """Which files of a chunk have nothing left of the filter: their partition settles it."""
        free = np.array([residual == TRUE for residual in self.residuals], np.bool_)
        return np.full(len(chunk), free[0]) if chunk.residuals is None else free[chunk.residuals]

    def only(self, paths: Collection[str]) -> ScanPlan:
        """The same plan with some of its files alone, by their locations."""
        wanted = pa.array(sorted(paths), pa.string())
        chunks = []
        for chunk in self.chunks:
            rows = np.flatnonzero(np.asarray(pc.is_in(text_array(chunk.columns.file_path), value_set=wanted)))
            if len(rows):
                chunks.append(chunk.taken(rows))
        matched = [] if self.deletes is None else self.deletes.match([(c.columns, c.stats()) for c in chunks])
        return replace(self, chunks=chunks, matched=matched)

    # tables and text --------------------------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """The data files as a table: a row for each, with the numbers of its deletes in `deletes_to_arrow`."""
        deletes = map(self._all_deletes, range(len(self.chunks)))
        return self.files_to_arrow().append_column("deletes", deletes_column(deletes))

    def files_to_arrow(self) -> pa.Table:
        """The same without the numbers of deletes, which may be very many: where all deletes apply to all files."""
        return files_table(self.metadata, self.schema, self.chunks, self.residuals)

    def deletes_to_arrow(self) -> pa.Table:
        """The delete files and deletion vectors that files of the plan may have, in the order of their numbers."""
        return deletes_table(self.metadata, self.schema, [] if self.deletes is None else self.deletes.deletes.chunks)

    def explain(self) -> str:
        """What is read, and what was left out and why."""
        return f"filter            {self.filter}\n{self.report}"
