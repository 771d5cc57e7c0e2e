"""Parquet as Arrow record batches: the format model that everything fast goes through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from floe.formats.appending import ArrowAppender
from floe.formats.model import Feature, ReadRequest, WriteRequest
from floe.formats.parquet.reading import read_parquet
from floe.formats.parquet.writing import ParquetAppender

__all__ = ["ParquetAsArrow"]


class ParquetAsArrow:
    """Parquet files as `pyarrow.RecordBatch`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> model = ParquetAsArrow()
    >>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
    ...     file.write(pa.record_batch({"id": [1, 2]}))
    >>> file.close().record_count
    2
    >>> [batch.num_rows for batch in model.read(ReadRequest(storage=storage, location="memory:a", schema=schema))]
    [2]
    """

    file_format = "parquet"
    object_model = "arrow"
    lacks: Mapping[Feature, str] = MappingProxyType({Feature.REUSE: "Arrow batches never change"})
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The wanted rows and columns of a file."""
        return read_parquet(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """A new file."""
        return ParquetAppender(request)

    def __repr__(self) -> str:
        return "ParquetAsArrow()"
