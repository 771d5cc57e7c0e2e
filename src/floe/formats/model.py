"""Format models: the protocol between tables and a file format, and the requests to read and to write a file.

A *format model* is a pair of a file format and an object model: Parquet as Arrow batches, Avro as plain rows, or a pair
that another package adds. `read` takes a `ReadRequest` and returns batches with exactly the requested rows and columns:
the filter is applied to every row, missing columns have their defaults, renamed and promoted columns are as in the
requested schema. `write` takes a `WriteRequest` and returns a `FileAppender`, whose `close` returns the file with its
metrics, as a manifest describes it.

Requests are usually made by the builders of `floe.formats.builders`, which come from a `floe.formats.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.metrics import MetricsConfig
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.name_mapping import NameMapping
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder
from floe.storage.protocol import Storage

DEFAULT_BATCH_SIZE = 131_072
"""The maximum rows of a batch: enough for columnar code to be fast, few enough to keep several in memory."""

_EMPTY: Mapping[Any, Any] = MappingProxyType({})

Decryption: TypeAlias = Callable[[Storage, str, bytes], Storage]
"""Takes a storage, a location and the file's key metadata; returns a storage that reads the decrypted file."""

Encryption: TypeAlias = Callable[[Storage, str], tuple[Storage, bytes]]
"""Takes a storage and a location; returns a storage that encrypts what is written, and the file's key metadata."""

Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Feature(Enum):
    """An optional feature of a format model; the conformance suite shows which models have it.

    A model may have an attribute `lacks` with the reason for each feature that it does not have.
    """

    FILTER = "skips parts of a file by a filter"
    SPLIT = "reads a part of a file"
    COLUMN_METRICS = "counts and bounds of columns"
    COLUMN_SIZES = "stored sizes of columns"
    SPLIT_OFFSETS = "reports the offsets where a file may be split"
    REUSE = "returns the same container again when allowed"
    VARIANT = "stores variants"
    GEOSPATIAL = "stores geometries and geographies"
    LAST_SECOND = "stores fractions of the last second before 1970"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request to read a file."""

    storage: Storage
    location: str
    schema: Schema
    """The columns to return, in this order; metadata columns by their reserved ids."""

    file_size: int | None = None
    """The size of the file, if the caller knows it; it saves formats that need it a call of the storage."""

    split: tuple[int, int] | None = None
    """The offset and length of a range of bytes; what begins in it is read (for Parquet: what has its middle there)."""

    filter: Expression | None = None
    """A bound filter. Its columns are found by id and need not be among those to return."""

    constants: Mapping[int, Any] = field(default_factory=lambda: _EMPTY)
    """Constant values by field id: partition values for columns that the file lacks, and metadata columns."""

    name_mapping: NameMapping | None = None
    case_sensitive: bool = True
    batch_size: int = DEFAULT_BATCH_SIZE
    reuse: bool = False
    """Whether the next batch or row may be the same object, because the caller no longer uses the one before."""

    key_metadata: bytes | None = None
    decryption: Decryption | None = None
    record_count: int | None = None
    """The row count in the manifest; a file with another number of rows is corrupt."""

    first_row_id: int | None = None
    data_sequence_number: int | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    """Properties of the table; those with the prefix `read.` may have an effect."""

    def __post_init__(self) -> None:
        if self.batch_size <= 0:
            raise InvalidInput(f"a batch has at least one row; the requested batch size is {self.batch_size}")
        if self.split is not None and (self.split[0] < 0 or self.split[1] < 0):
            raise InvalidInput(f"a split has an offset and a length of 0 or more; found {self.split}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """A request to write a file."""

    storage: Storage
    location: str
    schema: Schema
    """The columns of the file, with the table's field ids."""

    content: FileContent = FileContent.DATA
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    """Properties of the table; those of the format (`write.parquet.*`, …) have an effect, others are ignored."""

    metadata: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    """Key-value metadata to store in the file."""

    metrics: MetricsConfig | None = None
    """The metrics to collect; None for those that the properties configure."""

    spec: PartitionSpec | None = None
    partition: tuple[Any, ...] = ()
    sort_order_id: int | None = None
    sort_order: SortOrder | None = None
    """The sort order, if it is known: columns that the rows are sorted by have bounds, even in wide tables."""

    equality_ids: tuple[int, ...] = ()
    overwrite: bool = False
    key_metadata: bytes | None = None
    encryption: Encryption | None = None

    @property
    def effective_metrics(self) -> MetricsConfig:
        """The metrics to collect: `metrics`, or else what the content and the properties determine."""
        if self.metrics is not None:
            return self.metrics
        if self.content == FileContent.POSITION_DELETES:
            return MetricsConfig.for_position_deletes()
        return MetricsConfig.from_properties(self.properties, self.schema, self.sort_order)


@runtime_checkable
class FileAppender(Protocol[Batch_contra]):
    """A file that is being written; it exists once `close` is called, and not if the `with` block raises."""

    def write(self, batch: Batch_contra, /) -> None:
        """Add rows."""

    @property
    def record_count(self) -> int:
        """The number of rows written so far."""

    @property
    def length(self) -> int:
        """The approximate size in bytes that the file would have if it were closed now."""

    def close(self) -> DataFile:
        """Finish the file and return it as a manifest describes it; further calls return the same."""

    def abort(self) -> None:
        """Discard what was written; does nothing after `close`."""

    def __enter__(self) -> Self:
        """Return the appender, to be closed at the end of the block, or aborted if it raises."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, or abort it after an exception."""


@runtime_checkable
class FormatModel(Protocol[Batch]):
    """A file format in an object model."""

    @property
    def file_format(self) -> str:
        """The name of the format in manifests: `parquet`, `orc`, `avro`, or another."""

    @property
    def object_model(self) -> str:
        """The name of the object model: `arrow`, `rows`, or another."""

    @property
    def features(self) -> frozenset[Feature]:
        """The optional features that the model has."""

    def read(self, request: ReadRequest) -> Iterator[Batch]:
        """Read the requested rows and columns of a file."""

    def write(self, request: WriteRequest) -> FileAppender[Batch]:
        """Open a new file to write rows to."""


def plain_storage_to_read(request: ReadRequest) -> Storage:
    """The storage that reads the decrypted bytes of a file; raises `UnsupportedFeature` if it cannot be decrypted.

    >>> from floe.storage.memory import MemoryStorage
    >>> request = ReadRequest(storage=MemoryStorage(), location="memory:a", schema=Schema(()), key_metadata=b"k")
    >>> plain_storage_to_read(request)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the file is encrypted, and encrypted tables cannot be read yet (file: memory:a); ...
    """
    if request.key_metadata is None:
        return request.storage
    if request.decryption is None:
        raise UnsupportedFeature(
            "the file is encrypted, and encrypted tables cannot be read yet",
            hint="pass `decryption`, which opens such files",
            file=request.location,
        )
    return request.decryption(request.storage, request.location, request.key_metadata)


def plain_storage_to_write(request: WriteRequest) -> tuple[Storage, bytes | None]:
    """The storage that takes the unencrypted bytes of a new file, and the key metadata to record for it.

    >>> from floe.storage.memory import MemoryStorage
    >>> request = WriteRequest(storage=MemoryStorage(), location="memory:a", schema=Schema(()))
    >>> plain_storage_to_write(request)[1] is None
    True
    """
    if request.encryption is None:
        return request.storage, request.key_metadata
    storage, key_metadata = request.encryption(request.storage, request.location)
    return storage, key_metadata if request.key_metadata is None else request.key_metadata
