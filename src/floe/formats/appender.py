"""What the Arrow writers of all formats share: batches checked and counted, and the file described at the end.

What pyarrow's writers write to: a stream whose last bytes can be held back, to be completed, or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from floe.errors import FloeError, InvalidInput, InvalidSchema
from floe.formats.arrow_conversion import Conformer
from floe.formats.metrics import Metrics, MetricsCollector
from floe.formats.model import WriteRequest, plain_storage_to_write
from floe.spec.codecs.single_value import decode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.spec.types import STRING
from floe.storage.protocol import Data, FileWriter


@dataclass(frozen=True, slots=True)
class Written:
    """What a format knows about a file that it has finished."""

    file_size: int
    column_sizes: dict[int, int] | None = None
    split_offsets: tuple[int, ...] | None = None


class ArrowAppender:
    """A file that Arrow batches are written to; a format says in `_write_batch` and `_finish` how.

    The stream is open from the start, so that a file that must not be overwritten is found out before any work.
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
        """Add the rows of a batch or table, whose columns are found by name."""
        for one in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            if one.num_rows:
                try:
                    conformed = self._conform(one)
                except FloeError as error:
                    raise error.with_context(file=self.request.location) from None
                self._metrics.add(conformed)
                self._write_batch(conformed)

    @property
    def record_count(self) -> int:
        """How many rows were written."""
        return self._metrics.record_count

    @property
    def length(self) -> int:
        """About how many bytes the file would have if it were closed now."""
        return self.stream.tell()

    def close(self) -> DataFile:
        """Finish the file and describe it."""
        if self._done is None:
            try:
                written = self._finish()
                self.stream.close()
            except BaseException:
                self.abort()
                raise
            self._done = self._describe(written)
        return self._done

    def abort(self) -> None:
        """Throw away what was written; after `close`, does nothing."""
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

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        """Add a batch that has the schema's columns and Arrow types."""
        raise NotImplementedError

    def _finish(self) -> Written:
        """Write what is left; the stream is closed afterwards."""
        raise NotImplementedError

    def _describe(self, written: Written) -> DataFile:
        request, metrics = self.request, self._metrics.result()
        deletes_positions = request.content == FileContent.POSITION_DELETES
        return DataFile(
            content=request.content,
            file_path=request.location,
            file_format=self.file_format,
            partition=request.partition,
            file_size_in_bytes=written.file_size,
            **measured(metrics, written),
            key_metadata=self._key_metadata,
            equality_ids=request.equality_ids or None,
            sort_order_id=None if deletes_positions else request.sort_order_id,
            referenced_data_file=_only_path(metrics.lower_bounds, metrics.upper_bounds) if deletes_positions else None,
            spec_id=request.spec.spec_id if request.spec is not None else 0,
        )


def measured(metrics: Metrics, written: Written) -> dict[str, Any]:
    """What was found out about a file, by the names that a `DataFile` has for it.

    >>> found = measured(Metrics(2, {1: 2}, {}, {}, {}, {}), Written(100, split_offsets=(4,)))
    >>> found["record_count"], found["value_counts"], found["null_value_counts"], found["split_offsets"]
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
    """The one data file that position deletes are for; their bounds are exact."""
    path = lower.get(DELETE_FILE_PATH.id)
    if path is None or upper.get(DELETE_FILE_PATH.id) != path:
        return None
    return str(decode(STRING, path))


def check_request(request: WriteRequest) -> None:
    """Raise unless the parts of a request fit each other."""
    fields = request.spec.fields if request.spec is not None else ()
    if len(fields) != len(request.partition):
        raise InvalidInput(
            f"the partition has {len(request.partition)} values, its spec {len(fields)} fields", file=request.location
        )
    if (request.content == FileContent.EQUALITY_DELETES) != bool(request.equality_ids):
        raise InvalidInput("equality deletes, and they alone, compare columns by id", file=request.location)
    missing = [field_id for field_id in request.equality_ids if field_id not in request.schema.by_id]
    if missing:
        raise InvalidSchema(f"no column to write has the equality ids {missing}", file=request.location)


def file_metadata(request: WriteRequest) -> dict[str, str]:
    """The key-value metadata of a file: what was asked for, and what delete files say about themselves.

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
    own: dict[str, str] = {}
    if request.content == FileContent.POSITION_DELETES:
        own["delete-type"] = "position"
    elif request.content == FileContent.EQUALITY_DELETES:
        own["delete-type"] = "equality"
        own["delete-field-ids"] = ", ".join(map(str, request.equality_ids))
    return {**own, **request.metadata}


# What pyarrow's writers write to: a stream whose last bytes can be held back, to be completed, or dropped.


class HoldingSink:
    """A stream as pyarrow writes to it; closing it does nothing, for the stream is its owner's to close.

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
        """Write on, or hold back, or throw away."""
        if not self._dropping:
            if self._held is None:
                self._forward(data)
            else:
                self._held.append(bytes(data))
        return memoryview(data).nbytes

    def _forward(self, data: Data) -> None:
        self._stream.write(data)

    def drop(self) -> None:
        """From now on nothing is kept; pyarrow's writers end with a footer even when they are only forgotten."""
        self._dropping = True

    def hold(self) -> None:
        """From now on hold back what is written."""
        self._held = []

    def held(self) -> bytes:
        """What was held back, which is the end of the file."""
        return b"".join(self._held or ())

    def tell(self) -> int:
        """How many bytes there are, with those held back."""
        return self._stream.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing but to say so."""
        self.closed = True

    def readable(self) -> bool:
        """False."""
        return False

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """False."""
        return False
