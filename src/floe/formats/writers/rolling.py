"""A file after the other: each is closed when it has about the size that the table asks for, and the next is begun.

How large a file will be is only known once its rows are encoded. Of rows that a format gathers first (a row group of
Parquet) the size is assumed to be what they take in memory, which errs on the safe side; when that would fill the file,
they are encoded, and what they really took says how many more there is room for, and serves as guess for the next file.
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
"""What part of the wanted size is enough, so that no tiny row group is added for the rest."""

_ROWS_AT_LEAST = 1000
"""After how many rows the size is looked at, at the soonest."""


@runtime_checkable
class Gathering(Protocol):
    """A file whose rows are gathered in memory before they are encoded, many at once."""

    size_ratio: float | None
    """How many bytes of the file one byte of Arrow data has made, once it is known; may be set before, as a guess."""

    @property
    def gathered_bytes(self) -> int:
        """How many bytes of Arrow data wait."""

    def flush(self) -> None:
        """Encode and write them now."""


class RollingWriter:
    """Files of one partition, one after the other; nothing is opened before there is a row.

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
        self._bytes = target.file_bytes if is_data else target.delete_file_bytes
        self._file: FileAppender[Any] | None = None
        self._gathering: Gathering | None = None  # the same file, if it gathers rows
        self._ratio: float | None = None
        self._done: list[DataFile] = []
        self.locations: list[str] = []
        """Every file that was begun."""

    @property
    def is_open(self) -> bool:
        """Whether a file is being written."""
        return self._file is not None

    @property
    def gathered_bytes(self) -> int:
        """How many bytes of Arrow data wait in memory to be encoded."""
        return 0 if self._gathering is None else self._gathering.gathered_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in as many files as they take."""
        if not batch.num_rows:
            return
        per_row = batch.nbytes / batch.num_rows
        start = 0
        while start < batch.num_rows:
            file = self._open() if self._file is None else self._file
            room = (self._bytes - self._size(file)) / max(per_row * self._guess(), 1e-3)
            part = batch.slice(start, max(int(room) + 1, _ROWS_AT_LEAST))
            file.write(part)
            start += part.num_rows
            if self._is_full(file):
                self.end_file()

    def flush(self) -> None:
        """Write what is gathered in memory."""
        if self._gathering is not None:
            self._gathering.flush()

    def end_file(self) -> None:
        """Close the file that is open; more rows go to another one."""
        file, self._file = self._file, None
        gathering, self._gathering = self._gathering, None
        if file is not None:
            self._done.append(file.close())
        if gathering is not None:
            self._ratio = gathering.size_ratio

    def close(self) -> list[DataFile]:
        """Close the last file; all of them."""
        self.end_file()
        return self._done

    def abort(self) -> list[str]:
        """Throw away everything; gives the files that could not be deleted."""
        file, self._file, self._gathering = self._file, None, None
        if file is not None:
            file.abort()
        left = discard(self._target.storage, self.locations)
        self._done, self.locations = [], []
        return left

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
        self._gathering = file if isinstance(file, Gathering) else None
        if self._gathering is not None:
            self._gathering.size_ratio = self._ratio
        self._file = file
        return file

    def _guess(self) -> float:
        ratio = None if self._gathering is None else self._gathering.size_ratio
        return 1.0 if ratio is None else ratio

    def _size(self, file: FileAppender[Any]) -> float:
        if self._gathering is not None and self._gathering.size_ratio is None:
            return max(file.length, self._gathering.gathered_bytes)
        return file.length

    def _is_full(self, file: FileAppender[Any]) -> bool:
        if self._size(file) < self._bytes * _FULL:
            return False
        self.flush()  # now its size is known
        return file.length >= self._bytes * _FULL


def discard(storage: Storage, locations: Iterable[str]) -> list[str]:
    """Delete files that nobody knows of; gives those that could not be deleted, and never raises for them.

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


def leave_nothing(error: BaseException, left: Sequence[str]) -> None:
    """Tell with an error which files of a failed write could not be deleted."""
    if left:
        more = "" if len(left) == 1 else f" and {len(left) - 1} more"
        error.add_note(
            f"The write was given up, and its files deleted, but not {left[0]}{more}: no table has them, and orphan "
            "removal finds them."
        )
