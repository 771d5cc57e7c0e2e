"""ORC as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from floe.formats.appending import ArrowAppender
from floe.formats.model import Feature, ReadRequest, WriteRequest
from floe.formats.orc.reading import read_orc
from floe.formats.orc.writing import OrcAppender

__all__ = ["OrcAsArrow"]


class OrcAsArrow:
    """ORC files as `pyarrow.RecordBatch`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> model = OrcAsArrow()
    >>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
    ...     file.write(pa.record_batch({"id": [1, 2]}))
    >>> file.close().record_count
    2
    >>> [batch.num_rows for batch in model.read(ReadRequest(storage=storage, location="memory:a", schema=schema))]
    [2]
    """

    file_format = "orc"
    object_model = "arrow"
    lacks: Mapping[Feature, str] = MappingProxyType(
        {
            Feature.REUSE: "Arrow batches never change",
            Feature.LAST_SECOND: "ORC's readers take them for a second later",
        }
    )
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """The wanted rows and columns of a file."""
        return read_orc(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """A new file."""
        return OrcAppender(request)

    def __repr__(self) -> str:
        return "OrcAsArrow()"
