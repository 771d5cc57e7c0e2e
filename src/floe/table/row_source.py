"""Rows in every form that somebody may want them in: what scans and changes have in common.

Each call reads anew. What has `__arrow_c_stream__` is taken as it is by DuckDB, Polars, pandas, pyarrow and others:
`duckdb.sql("select count(*) from scan")`, `polars.DataFrame(scan)`, `pyarrow.table(scan)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any, Self

import pyarrow as pa

from floe.arrow.reading.batch_stream import BatchStream
from floe.arrow.reading.streaming import OnProgress
from floe.errors import InvalidInput
from floe.formats.arrow_types import arrow_schema
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.rows import Row, batch_to_rows
from floe.spec.schemas.schema import Schema
from floe.storage.optional_libraries import load_library
from floe.table.cards import Card
from floe.table.column_text import name_text, type_text

__all__ = ["RowSource", "column_lines"]


class RowSource(ABC):
    """Something that rows can be read from."""

    schema: Schema
    """The columns that are read."""

    _limit: int | None = None

    @abstractmethod
    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        """All rows."""

    @abstractmethod
    def _card(self) -> Card:
        """What a notebook shows."""

    # how many --------------------------------------------------------------------------------------------------------

    def limit(self, rows: int) -> Self:
        """The same, but no more than so many rows; reading stops when there are enough.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> lake.create_table("db.t", "id bigint").scan().limit(10).to_arrow().num_rows
        0
        """
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise InvalidInput(f"a limit is a number of rows from 0 on; found {rows!r:.80}")
        limited = copy(self)
        limited._limit = rows if self._limit is None else min(rows, self._limit)
        return limited

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows, as an Arrow table."""
        return self.limit(rows).to_arrow()

    # Arrow -----------------------------------------------------------------------------------------------------------

    def to_batches(
        self,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        workers: int | None = None,
        progress: OnProgress | None = None,
        ordered: bool = True,
    ) -> BatchStream:
        """The rows as a stream of Arrow record batches, in bounded memory; close it to stop early.

        `batch_size` is how many rows a batch has at most, and `workers` how many threads read. `progress` is called
        with a `Progress`, here, as batches are taken. With `ordered=False` batches come as soon as they are read.
        """
        for what, number in (("batch_size", batch_size), ("workers", 1 if workers is None else workers)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidInput(f"{what} is a whole number from 1 on; found {number!r:.80}")
        return BatchStream(
            arrow_schema(self.schema),
            self._stream(batch_size=batch_size, workers=workers, progress=progress, ordered=ordered),
        )

    def _stream(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        if self._limit is None:
            return self._read(batch_size=batch_size, workers=workers, progress=progress, ordered=ordered)
        if workers is None and self._limit <= DEFAULT_BATCH_SIZE:
            workers = 1  # most likely the first file has enough, and others would be read for nothing
        batches = self._read(batch_size=batch_size, workers=workers, progress=progress, ordered=ordered)
        return _first_rows(batches, self._limit)

    def to_arrow(self, *, workers: int | None = None, progress: OnProgress | None = None) -> pa.Table:
        """All rows as one Arrow table."""
        return self.to_batches(workers=workers, progress=progress).read_all()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows for any library that knows Arrow's C stream interface."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        """The columns for any library that knows Arrow's C data interface."""
        return arrow_schema(self.schema).__arrow_c_schema__()

    # others ----------------------------------------------------------------------------------------------------------

    def to_pandas(self, **options: Any) -> Any:
        """All rows as a pandas DataFrame; options are those of `pyarrow.Table.to_pandas`."""
        load_library("pandas", needed_by="to_pandas", install="pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """All rows as a Polars DataFrame."""
        polars = load_library("polars", needed_by="to_polars", install="polars")
        return polars.from_arrow(self.to_arrow())

    def to_rows(self) -> Iterator[Row]:
        """The rows one after the other, as dictionaries with values in the form that `floe.spec.values` describes.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> list(lake.create_table("db.t", "id bigint").scan().to_rows())
        []
        """
        with self.to_batches() as batches:
            for batch in batches:
                yield from batch_to_rows(self.schema, batch)

    def _repr_html_(self) -> str:
        return self._card().html()


def column_lines(schema: Schema) -> list[str]:
    """The columns for people, a line for each.

    >>> from floe.spec.types import LONG, Field
    >>> column_lines(Schema((Field(1, "id", LONG),)))
    ['id  long']
    """
    return [f"{name_text(field.name)}  {type_text(field.type)}" for field in schema.fields] or ["none"]


def _first_rows(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    try:
        while count > 0 and (batch := next(batches, None)) is not None:
            yield batch.slice(0, count)
            count -= batch.num_rows
    finally:
        if hasattr(batches, "close"):
            batches.close()
