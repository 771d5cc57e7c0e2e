"""What the Arrow writers of all formats share.

`ArrowAppender` aligns batches with the schema, collects metrics, and describes the finished file; a format implements
how batches are written. pyarrow's writers write to a `HoldingSink`, which can hold back the end of a file, so that the
footer is completed before it is stored, or dropped if the write fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from floe.errors import FloeError, InvalidInput, InvalidSchema
from floe.formats.columns.conversion import Conformer
from floe.formats.metrics import Metrics, MetricsCollector
from floe.formats.model import WriteRequest, plain_storage_to_write
from floe.spec.codecs.single_value import decode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.spec.types import STRING
from floe.storage.protocol import Data, FileWriter


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a format measures of a file that it has written."""

    file_size: int
    column_sizes: dict[int, int] | None = None
    split_offsets: tuple[int, ...] | None = None


class ArrowAppender:
    """Writes Arrow batches to a file; a format implements `write_batch` and `finish`.

    The stream is opened at once, so that an existing file that must not be overwritten is an error before any work.
    """

    def __init__(self, request: WriteRequest, file_format: str) -> None:
        check_request(request)
        self.request = request
        self.file_format = file_format
        storage, self._key_metadata = plain_storage_to_write(request)
        self._conform = Conformer(request.schema)
        self._metrics = MetricsCollector(request.schema, request.effective_metrics)
        self._done: DataFile | None = None
        self.stream: FileWriter = storage.open_write(request.location, overwrite=request.overwrite)

    def write(self, batch: pa.RecordBatch | pa.Table, /) -> None:
        """Add the rows of a batch or table; columns are matched by name."""
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            if part.num_rows:
                try:
                    conformed = self._conform(part)
                except FloeError as error:
                    raise error.with_context(file=self.request.location) from None
                self._metrics.add(conformed)
                self.write_batch(conformed)

    @property
    def record_count(self) -> int:
        """The number of rows written so far."""
        return self._metrics.record_count

    @property
    def length(self) -> int:
        """The approximate size in bytes that the file would have if it were closed now."""
        return self.stream.tell()

    def close(self) -> DataFile:
        """Finish the file and return it as a manifest describes it; further calls return the same."""
        if self._done is None:
            try:
                written = self.finish()
                self.stream.close()
            except BaseException:
                self.abort()
                raise
            self._done = self._describe(written)
        return self._done

    def abort(self) -> None:
        """Discard what was written; does nothing after `close`."""
        if self._done is None:
            self.stream.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch that has the columns and Arrow types of the schema."""
        raise NotImplementedError

    def finish(self) -> WrittenFile:
        """Write the rest of the file; the stream is closed afterwards."""
        raise NotImplementedError

    def _describe(self, written: WrittenFile) -> DataFile:
        request, metrics = self.request, self._metrics.result()
        deletes_positions = request.content == FileContent.POSITION_DELETES
        return DataFile(
            content=request.content,
            file_path=request.location,
            file_format=self.file_format,
            partition=request.partition,
            file_size_in_bytes=written.file_size,
            **data_file_metrics(metrics, written),
            key_metadata=self._key_metadata,
            equality_ids=request.equality_ids or None,
            sort_order_id=None if deletes_positions else request.sort_order_id,
            referenced_data_file=_only_path(metrics.lower_bounds, metrics.upper_bounds) if deletes_positions else None,
            spec_id=request.spec.spec_id if request.spec is not None else 0,
        )


def data_file_metrics(metrics: Metrics, written: WrittenFile) -> dict[str, Any]:
    """The metrics and sizes of a file as keyword arguments of a `DataFile`; empty maps become None.

    >>> fields = data_file_metrics(Metrics(2, {1: 2}, {}, {}, {}, {}), WrittenFile(100, split_offsets=(4,)))
    >>> fields["record_count"], fields["value_counts"], fields["null_value_counts"], fields["split_offsets"]
    (2, {1: 2}, None, (4,))
    """
    return {
        "record_count": metrics.record_count,
        "column_sizes": written.column_sizes or None,
        "value_counts": metrics.value_counts or None,
        "null_value_counts": metrics.null_value_counts or None,
        "nan_value_counts": metrics.nan_value_counts or None,
        "lower_bounds": metrics.lower_bounds or None,
        "upper_bounds": metrics.upper_bounds or None,
        "split_offsets": written.split_offsets or None,
    }


def _only_path(lower: dict[int, bytes], upper: dict[int, bytes]) -> str | None:
    """The data file that all position deletes refer to, or None; their bounds are exact."""
    path = lower.get(DELETE_FILE_PATH.id)
    if path is None or upper.get(DELETE_FILE_PATH.id) != path:
        return None
    return str(decode(STRING, path))


def check_request(request: WriteRequest) -> None:
    """Raise `InvalidInput` or `InvalidSchema` if the parts of a request contradict each other."""
    fields = request.spec.fields if request.spec is not None else ()
    if len(fields) != len(request.partition):
        raise InvalidInput(
            f"the partition has {len(request.partition)} values, its spec {len(fields)} fields", file=request.location
        )
    if (request.content == FileContent.EQUALITY_DELETES) != bool(request.equality_ids):
        raise InvalidInput("equality deletes, and only they, have equality ids", file=request.location)
    missing = [field_id for field_id in request.equality_ids if field_id not in request.schema.by_id]
    if missing:
        raise InvalidSchema(
            f"the schema of the file has no columns with the equality ids {missing}", file=request.location
        )


def file_metadata(request: WriteRequest) -> dict[str, str]:
    """The key-value metadata of a file: that of the request, and the delete type of delete files.

    >>> from floe.spec.schemas.metadata_columns import position_delete_schema
    >>> from floe.storage.memory import MemoryStorage
    >>> file_metadata(
    ...     WriteRequest(
    ...         storage=MemoryStorage(),
    ...         location="memory:d",
    ...         schema=position_delete_schema(),
    ...         content=FileContent.POSITION_DELETES,
    ...     )
    ... )
    {'delete-type': 'position'}
    """
    entries: dict[str, str] = {}
    if request.content == FileContent.POSITION_DELETES:
        entries["delete-type"] = "position"
    elif request.content == FileContent.EQUALITY_DELETES:
        entries["delete-type"] = "equality"
        entries["delete-field-ids"] = ", ".join(map(str, request.equality_ids))
    return {**entries, **request.metadata}


# Sink of pyarrow's writers --------------------------------------------------------------------------------------------


class HoldingSink:
    """A stream as pyarrow's writers use it, whose end can be held back; its owner closes the stream.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> with storage.open_write("memory:a") as stream:
    ...     sink = HoldingSink(stream)
    ...     _ = sink.write(b"rows")
    ...     sink.hold()
    ...     _ = sink.write(b"end")
    ...     sink.tell(), sink.held()
    (7, b'end')
    >>> storage.read("memory:a")
    b'rows'
    """

    mode = "wb"

    def __init__(self, stream: FileWriter) -> None:
        self._stream = stream
        self._held: list[bytes] | None = None
        self._dropping = False
        self.closed = False

    def write(self, data: Data) -> int:
        """Write to the stream, hold back, or discard, depending on the state."""
        if not self._dropping:
            if self._held is None:
                self._forward(data)
            else:
                self._held.append(bytes(data))
        return memoryview(data).nbytes

    def _forward(self, data: Data) -> None:
        self._stream.write(data)

    def drop(self) -> None:
        """Discard all further writes: pyarrow's writers write a footer even when they are only deallocated."""
        self._dropping = True

    def hold(self) -> None:
        """Hold back all further writes."""
        self._held = []

    def held(self) -> bytes:
        """The bytes that were held back: the end of the file."""
        return b"".join(self._held or ())

    def tell(self) -> int:
        """The offset of the next byte, counting those held back."""
        return self._stream.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Do nothing: the stream decides when to write."""

    def close(self) -> None:
        """Mark the sink as closed; the stream stays open."""
        self.closed = True

    def readable(self) -> bool:
        """Whether pyarrow may read: never."""
        return False

    def writable(self) -> bool:
        """Whether pyarrow may write: always."""
        return True

    def seekable(self) -> bool:
        """Whether pyarrow may seek: never."""
        return False
