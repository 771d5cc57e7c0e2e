"""A stream of batches as a user holds it: an iterator that can be closed, and that every Arrow library takes."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

__all__ = ["BatchStream"]


class BatchStream:
    """Record batches, read while they are taken; each can be taken once.

    Close it, or use it in a `with` block, to stop before the end: threads and files are let go of then.

    >>> stream = BatchStream(pa.schema([("n", pa.int64())]), iter([pa.record_batch({"n": [1, 2]})]))
    >>> stream.schema.names, [batch.num_rows for batch in stream]
    (['n'], [2])
    """

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        """The Arrow schema of all batches."""

        self._batches = batches

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def read_all(self) -> pa.Table:
        """Everything that has not been taken yet, as one table."""
        with self:
            return pa.Table.from_batches(list(self._batches), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a pyarrow reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream for any library that knows Arrow's C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Read no more; closing twice does nothing."""
        if hasattr(self._batches, "close"):
            self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BatchStream: {', '.join(self.schema.names) or 'no columns'}>"
