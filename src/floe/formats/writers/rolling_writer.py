"""A writer that starts a new file when one has about the target size of the table.

The size of a file is known only once its rows are encoded. Rows that a format buffers first, such as a row group of
Parquet, are assumed to be as large as in memory, which overestimates them. When that would fill the file, they are
encoded; their actual size determines how many more rows fit, and is the estimate for the next file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from floe.errors import FloeError
from floe.formats.metrics import MetricsConfig
from floe.formats.model import FileAppender, WriteRequest
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

_FULL = 0.9
"""The part of the target size at which a file is full, so that no tiny row group is added to fill it."""

_MIN_STEP_ROWS = 1000
"""How many rows are written at least before the size is checked again."""


@runtime_checkable
class BufferedAppender(Protocol):
    """A file appender that buffers rows in memory before it encodes them."""

    size_ratio: float | None
    """The ratio of bytes in the file to bytes of Arrow data, once it is known; may be set before, as an estimate."""

    @property
    def buffered_bytes(self) -> int:
        """The size of the buffered Arrow data."""

    def flush(self) -> None:
        """Encode and write the buffered rows."""


class RollingWriter:
    """Writes rows of a partition to files of the target size; a file is opened with its first row.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema((Field(1, "id", LONG),)), location="memory:wh/t", uuid=uuid, now_ms=0)
    >>> small = {"write.target-file-size-bytes": "20000", "write.parquet.compression-codec": "none"}
    >>> writer = RollingWriter(WriteTarget.of(table, MemoryStorage(), overrides=small))
    >>> writer.write(pa.record_batch({"id": range(20_000)}))
    >>> files = writer.close()
    >>> len(files) > 2, sum(file.record_count for file in files)
    (True, 20000)
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        spec: PartitionSpec = UNPARTITIONED,
        partition: Sequence[Any] = (),
        schema: Schema | None = None,
        content: FileContent = FileContent.DATA,
        sort_order_id: int | None = None,
        equality_ids: Sequence[int] = (),
        metrics: MetricsConfig | None = None,
    ) -> None:
        self._target = target
        self._spec, self._partition = spec, tuple(partition)
        self._schema = target.schema if schema is None else schema
        self._content = content
        self._sort_order_id = sort_order_id
        self._equality_ids = tuple(equality_ids)
        if metrics is None and content != FileContent.POSITION_DELETES:
            metrics = target.metrics(self._schema)
        self._metrics = metrics
        is_data = content == FileContent.DATA
        self._format = target.file_format if is_data else target.delete_format
        self._model = target.registry.model(self._format, "arrow")
        self._target_bytes = target.file_bytes if is_data else target.delete_file_bytes
        self._file: FileAppender[Any] | None = None
        self._buffered: BufferedAppender | None = None  # the same file, if it buffers rows
        self._ratio: float | None = None
        self._done: list[DataFile] = []
        self.locations: list[str] = []
        """The locations of all files that were opened."""

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._file is not None

    @property
    def buffered_bytes(self) -> int:
        """The size of the Arrow data that waits in memory to be encoded."""
        return 0 if self._buffered is None else self._buffered.buffered_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, to as many files as they need."""
        if not batch.num_rows:
            return
        per_row = batch.nbytes / batch.num_rows
        start = 0
        while start < batch.num_rows:
            file = self._open() if self._file is None else self._file
            room = (self._target_bytes - self._size(file)) / max(per_row * self._expected_ratio(), 1e-3)
            part = batch.slice(start, max(int(room) + 1, _MIN_STEP_ROWS))
            file.write(part)
            start += part.num_rows
            if self._is_full(file):
                self.end_file()

    def flush(self) -> None:
        """Encode and write the buffered rows."""
        if self._buffered is not None:
            self._buffered.flush()

    def end_file(self) -> None:
        """Close the open file, if any; further rows go to a new one."""
        file, self._file = self._file, None
        buffered, self._buffered = self._buffered, None
        if file is not None:
            self._done.append(file.close())
        if buffered is not None:
            self._ratio = buffered.size_ratio

    def close(self) -> list[DataFile]:
        """Close the last file, and return all files."""
        self.end_file()
        return self._done

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        file, self._file, self._buffered = self._file, None, None
        if file is not None:
            file.abort()
        undeleted = discard(self._target.storage, self.locations)
        self._done, self.locations = [], []
        return undeleted

    def _open(self) -> FileAppender[Any]:
        target = self._target
        location = target.new_location(self._format, self._spec, self._partition, content=self._content)
        self.locations.append(location)
        file = self._model.write(
            WriteRequest(
                storage=target.storage,
                location=location,
                schema=self._schema,
                content=self._content,
                properties=target.properties,
                metrics=self._metrics,
                spec=self._spec,
                partition=self._partition,
                sort_order_id=self._sort_order_id,
                equality_ids=self._equality_ids,
                encryption=target.encryption,
            )
        )
        self._buffered = file if isinstance(file, BufferedAppender) else None
        if self._buffered is not None:
            self._buffered.size_ratio = self._ratio
        self._file = file
        return file

    def _expected_ratio(self) -> float:
        ratio = None if self._buffered is None else self._buffered.size_ratio
        return 1.0 if ratio is None else ratio

    def _size(self, file: FileAppender[Any]) -> float:
        if self._buffered is not None and self._buffered.size_ratio is None:
            return max(file.length, self._buffered.buffered_bytes)
        return file.length

    def _is_full(self, file: FileAppender[Any]) -> bool:
        if self._size(file) < self._target_bytes * _FULL:
            return False
        self.flush()  # now the size is known
        return file.length >= self._target_bytes * _FULL


def discard(storage: Storage, locations: Iterable[str]) -> list[str]:
    """Delete files that no metadata refers to; returns those that could not be deleted, without an error.

    >>> from floe.storage.memory import MemoryStorage
    >>> discard(MemoryStorage(), ["memory:a"])
    []
    """
    files = list(locations)
    if not files:
        return []
    try:
        return [deletion.location for deletion in storage.delete_many(files) if not deletion.deleted]
    except (FloeError, OSError):
        return files


def note_undeleted_files(error: BaseException, undeleted: Sequence[str]) -> None:
    """Add a note to the error of a failed write, with the files that could not be deleted."""
    if undeleted:
        more = "" if len(undeleted) == 1 else f" and {len(undeleted) - 1} more"
        error.add_note(
            f"The write failed and its files were deleted, except {undeleted[0]}{more}: no table refers to them, and "
            "orphan removal deletes them."
        )
