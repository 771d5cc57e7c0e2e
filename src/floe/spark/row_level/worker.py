"""What runs in Spark's Python workers for a statement: new rows go to files, and deleted ones are noted.

Rows come with the number of what is to be done with them. What is deleted of a file is a compressed set of positions,
which goes to the driver: with it a file's deletes need not meet in one task.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.writing import write_rows
from floe.formats.arrow_types import arrow_schema
from floe.spark.workers import settle
from floe.spark.write.worker import from_spark, target_of_task
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.storage.protocol import Storage

__all__ = ["COPY", "DELETE", "INSERT", "UPDATE", "ChangeRows", "Layout", "TaskResult"]

DELETE, UPDATE, INSERT, COPY = 1, 2, 3, 5
"""What is done with a row, by Spark's numbers. Before 4.2, rows of files that are written anew have others."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are in the rows that come: what is done is first, then come the table's columns, if any do."""

    columns: int
    """How many columns of the table there are."""

    file: int | None = None
    position: int | None = None
    """Where the row is, if deletes are noted."""

    row_id: int | None = None
    last_updated: int | None = None
    """What a row keeps when it is moved."""


@dataclass(slots=True)
class TaskResult:
    """What a task did."""

    files: list[DataFile] = field(default_factory=list)
    deleted: dict[str, BitMap64] = field(default_factory=dict)
    """By data file, the rows that are not live there any more."""

    counts: Counter[int] = field(default_factory=Counter)
    """How many rows there were of each number."""


@dataclass(frozen=True)
class ChangeRows:
    """Does what is to be done with the rows that come, and tells it, pickled."""

    metadata: TableMetadata
    storage: Storage
    write_id: str
    overrides: Mapping[str, str]
    layout: Layout
    lineage: bool
    """Whether the files have the ids of their rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the rows of a task."""
        target = target_of_task(self.metadata, self.storage, self.write_id, self.overrides)
        result = TaskResult()
        result.files = write_rows(target, self._rows(batches, result), row_lineage=self.lineage, workers=1)
        settle()
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], ["message"])

    def _rows(self, batches: Iterable[pa.RecordBatch], result: TaskResult) -> Iterator[pa.RecordBatch]:
        """The rows that are written; what is deleted is noted on the way."""
        for batch in batches:
            if not batch.num_rows:
                continue
            operations = np.asarray(batch.column(0))
            numbers, counts = np.unique(operations, return_counts=True)
            result.counts.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
            if self.layout.position is not None:
                self._note_deleted(batch, operations, result.deleted)
            if self.layout.columns:
                written = operations != DELETE
                kept = batch if written.all() else batch.filter(pa.array(written))
                if kept.num_rows:
                    yield self._stored(kept)

    def _note_deleted(self, batch: pa.RecordBatch, operations: NDArray[np.int32], deleted: dict[str, BitMap64]) -> None:
        assert self.layout.file is not None
        assert self.layout.position is not None
        gone = np.flatnonzero((operations == DELETE) | (operations == UPDATE))
        if not len(gone):
            return
        places = pa.array(gone)
        files = batch.column(self.layout.file).take(places).dictionary_encode()
        codes = np.asarray(files.indices)
        positions = np.asarray(batch.column(self.layout.position).take(places)).astype(np.uint64)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(files.dictionary) + 1))
        for number, path in enumerate(files.dictionary.to_pylist()):
            found = BitMap64(positions[order[edges[number] : edges[number + 1]]])
            deleted[path] = deleted[path] | found if path in deleted else found

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns of some rows, and what the rows keep."""
        schema, layout = self.metadata.schema, self.layout
        own = from_spark(batch.select(range(1, 1 + layout.columns)), schema)
        if not self.lineage:
            return own
        kept = [
            pa.nulls(batch.num_rows, pa.int64()) if place is None else batch.column(place)
            for place in (layout.row_id, layout.last_updated)
        ]
        return pa.RecordBatch.from_arrays([*own.columns, *kept], schema=arrow_schema(with_row_lineage(schema)))
