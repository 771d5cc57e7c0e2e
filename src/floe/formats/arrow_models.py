"""The format models of Parquet, ORC and Avro as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from floe.formats.appender import ArrowAppender
from floe.formats.avro.reader import read_avro
from floe.formats.avro.writer import AvroAppender
from floe.formats.model import Feature, ReadRequest, WriteRequest
from floe.formats.orc.reader import read_orc
from floe.formats.orc.writer import OrcAppender
from floe.formats.parquet.reader import read_parquet
from floe.formats.parquet.writer import ParquetAppender


class AvroAsArrow:
    """Avro files as `pyarrow.RecordBatch`.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> model = AvroAsArrow()
    >>> with model.write(WriteRequest(storage=storage, location="memory:a", schema=schema)) as file:
    ...     file.write(pa.record_batch({"id": [1, 2]}))
    >>> file.close().record_count
    2
    >>> [batch.num_rows for batch in model.read(ReadRequest(storage=storage, location="memory:a", schema=schema))]
    [2]
    """

    file_format = "avro"
    object_model = "arrow"
    lacks: Mapping[Feature, str] = MappingProxyType(
        {
            Feature.REUSE: "Arrow batches never change",
            Feature.FILTER: "Avro has no statistics",
            Feature.COLUMN_SIZES: "Avro stores rows, not columns",
            Feature.SPLIT_OFFSETS: "blocks are found wherever a split begins",
        }
    )
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Read the requested rows and columns of a file."""
        return read_avro(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """Open a new file to write batches to."""
        return AvroAppender(request)

    def __repr__(self) -> str:
        return "AvroAsArrow()"


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
            Feature.LAST_SECOND: "ORC's readers read them as a second later",
        }
    )
    features = frozenset(Feature) - lacks.keys()

    def read(self, request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """Read the requested rows and columns of a file."""
        return read_orc(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """Open a new file to write batches to."""
        return OrcAppender(request)

    def __repr__(self) -> str:
        return "OrcAsArrow()"


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
        """Read the requested rows and columns of a file."""
        return read_parquet(request)

    def write(self, request: WriteRequest) -> ArrowAppender:
        """Open a new file to write batches to."""
        return ParquetAppender(request)

    def __repr__(self) -> str:
        return "ParquetAsArrow()"
