"""What a file format offers in an object model: requests to read and to write, and who answers them.

A *format model* is one (file format, object model) pair: Parquet as Arrow batches, Avro as plain rows, or whatever a
third party brings. It answers two calls. `read` takes a `ReadRequest` and gives batches with exactly the rows and
columns that were asked for: filters are applied to the last row, missing columns have their defaults, renamed and
promoted columns are as the wanted schema has them. `write` takes a `WriteRequest` and gives a `FileAppender`, whose
`close` returns the file as a manifest describes it, with its metrics.

People use the builders of `floe.formats.builders`, which come from a registry (`floe.formats.registry`).
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
"""Rows of a batch at most: large enough for columnar code to be fast, small enough to keep several in memory."""

_NOTHING: Mapping[Any, Any] = MappingProxyType({})

Decryption: TypeAlias = Callable[[Storage, str, bytes], Storage]
"""From a storage, a location and the file's key metadata to a storage that gives the file's plain bytes."""

Encryption: TypeAlias = Callable[[Storage, str], tuple[Storage, bytes]]
"""From a storage and a location to a storage that encrypts what is written there, and the file's key metadata."""

Batch = TypeVar("Batch")
Batch_co = TypeVar("Batch_co", covariant=True)
Batch_contra = TypeVar("Batch_contra", contravariant=True)


class Feature(Enum):
    """What a format can do beyond what all must; the conformance suite shows who does what.

    A model may have an attribute `lacks` with the reason for each feature that it has not.
    """

    FILTER = "skips parts of a file by a filter"
    SPLIT = "reads a part of a file"
    COLUMN_METRICS = "counts and bounds of columns"
    COLUMN_SIZES = "stored sizes of columns"
    SPLIT_OFFSETS = "tells where a file may be split"
    REUSE = "gives the same container again and again when asked to"
    VARIANT = "stores variants"
    GEOSPATIAL = "stores geometries and geographies"
    LAST_SECOND = "stores fractions of the last second before 1970"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What is to be read from one file."""

    storage: Storage
    location: str
    schema: Schema
    """The columns that are wanted, in their order; metadata columns by their reserved ids."""

    file_size: int | None = None
    """The file's size if the caller knows it; formats that need it then do not ask the storage."""

    split: tuple[int, int] | None = None
    """The first byte and the number of bytes; what begins in this range is read (for Parquet: has its middle there)."""

    filter: Expression | None = None
    """A bound filter. Its columns are found by id and need not be wanted."""

    constants: Mapping[int, Any] = field(default_factory=lambda: _NOTHING)
    """Values by field id: partition values for columns that the file lacks, and metadata columns."""

    name_mapping: NameMapping | None = None
    case_sensitive: bool = True
    batch_size: int = DEFAULT_BATCH_SIZE
    reuse: bool = False
    """Whether the caller is done with a batch or row when it asks for the next, which may then be the same object."""

    key_metadata: bytes | None = None
    decryption: Decryption | None = None
    record_count: int | None = None
    """How many rows the manifest says that the file has; a file that has another number of them is corrupt."""

    first_row_id: int | None = None
    data_sequence_number: int | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Properties of the table; those with the prefix `read.` may have an effect."""

    def __post_init__(self) -> None:
        if self.batch_size <= 0:
            raise InvalidInput(f"a batch has at least one row; asked for batches of {self.batch_size}")
        if self.split is not None and (self.split[0] < 0 or self.split[1] < 0):
            raise InvalidInput(f"a split has a start and a length of 0 or more; found {self.split}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is to be written into one file."""

    storage: Storage
    location: str
    schema: Schema
    """The columns of the file, with the table's field ids."""

    content: FileContent = FileContent.DATA
    properties: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Properties of the table; those of the format (`write.parquet.*`, …) have an effect, others are ignored."""

    metadata: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Key-value metadata to put into the file."""

    metrics: MetricsConfig | None = None
    """Which metrics to keep; None for what the properties say."""

    spec: PartitionSpec | None = None
    partition: tuple[Any, ...] = ()
    sort_order_id: int | None = None
    sort_order: SortOrder | None = None
    """The order itself, if it is known: columns that the rows are sorted by have bounds, even in wide tables."""

    equality_ids: tuple[int, ...] = ()
    overwrite: bool = False
    key_metadata: bytes | None = None
    encryption: Encryption | None = None

    @property
    def effective_metrics(self) -> MetricsConfig:
        """The metrics to keep: those asked for, else what the properties and the content say."""
        if self.metrics is not None:
            return self.metrics
        if self.content == FileContent.POSITION_DELETES:
            return MetricsConfig.for_position_deletes()
        return MetricsConfig.from_properties(self.properties, self.schema, self.sort_order)


@runtime_checkable
class FileAppender(Protocol[Batch_contra]):
    """A file being written; seen by nobody until `close`, and never if `abort` is called or the block raises."""

    def write(self, batch: Batch_contra, /) -> None:
        """Add rows."""

    @property
    def record_count(self) -> int:
        """How many rows were written."""

    @property
    def length(self) -> int:
        """About how many bytes the file would have if it were closed now."""

    def close(self) -> DataFile:
        """Finish the file and describe it as a manifest does; closing twice gives the same answer."""

    def abort(self) -> None:
        """Throw away what was written; after `close`, does nothing."""

    def __enter__(self) -> Self:
        """Close at the end of the block, or abort if it raises."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, or abort after an exception."""


@runtime_checkable
class FormatModel(Protocol[Batch]):
    """One file format in one object model."""

    @property
    def file_format(self) -> str:
        """The format's name as manifests have it: `parquet`, `orc`, `avro`, or another."""

    @property
    def object_model(self) -> str:
        """The name of the object model: `arrow`, `rows`, or another."""

    @property
    def features(self) -> frozenset[Feature]:
        """What the format can do beyond what all must."""

    def read(self, request: ReadRequest) -> Iterator[Batch]:
        """The wanted rows and columns of a file."""

    def write(self, request: WriteRequest) -> FileAppender[Batch]:
        """A new file."""


def plain_storage_to_read(request: ReadRequest) -> Storage:
    """The storage that gives the plain bytes of the file to read; an encrypted file needs somebody to decrypt it.

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
    """The storage that takes the plain bytes of the file to write, and the key metadata to record for it.

    >>> from floe.storage.memory import MemoryStorage
    >>> request = WriteRequest(storage=MemoryStorage(), location="memory:a", schema=Schema(()))
    >>> plain_storage_to_write(request)[1] is None
    True
    """
    if request.encryption is None:
        return request.storage, request.key_metadata
    storage, key_metadata = request.encryption(request.storage, request.location)
    return storage, key_metadata if request.key_metadata is None else request.key_metadata
