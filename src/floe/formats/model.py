"""Format models: the protocol between tables and a file format, and the requests to read and to write a file.

A *format model* is a pair of a file format and an object model: Parquet as Arrow batches, Avro as plain rows, or a pair
that another package adds. `read` takes a `ReadRequest` and returns batches with exactly the requested rows and columns:
the filter is applied to every row, missing columns have their defaults, renamed and promoted columns are as in the
requested schema. `write` takes a `WriteRequest` and returns a `FileAppender`, whose `close` returns the file with its
metrics, as a manifest describes it.

Requests are usually made by builders, which come from a registry. Each method returns a new builder, so that what
several files share can be set once and used for all of them:

>>> from floe.formats.registry import default_registry
>>> from floe.spec.expressions.dsl import col
>>> from floe.spec.types import Field, LONG
>>> from floe.storage.memory import MemoryStorage
>>> formats, storage = default_registry(), MemoryStorage()
>>> schema = Schema((Field(1, "id", LONG, required=True),))
>>> with formats.write_data("parquet", "rows", storage, "memory:a.parquet").schema(schema).build() as file:
...     file.write([{"id": 1}, {"id": 2}])
>>> file.close().record_count
2
>>> read = formats.read("parquet", "arrow", storage, "memory:a.parquet").project(schema)
>>> [batch.column("id").to_pylist() for batch in read.filter(col("id") > 1)]
[[2]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from floe.errors import InvalidInput, UnsupportedFeature
from floe.formats.metrics import MetricsConfig
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.name_mapping import NameMapping
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder
from floe.spec.types import StructType
from floe.storage.protocol import Storage

# Models and requests --------------------------------------------------------------------------------------------------


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


# Builders -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadBuilder(Generic[Batch]):
    """Builds a read of a file; iterate over it, or call `build`."""

    model: FormatModel[Batch]
    storage: Storage
    location: str
    projected: Schema | None = None
    where: Expression | None = None
    table_schema: Schema | None = None
    options: Mapping[str, Any] | None = None

    def project(self, schema: Schema) -> Self:
        """Return the columns of a schema, in its order; metadata columns may be among them."""
        return replace(self, projected=schema)

    def filter(self, where: Expression, schema: Schema | None = None) -> Self:
        """Return only rows that match a filter, bound to `schema` or else to the projected columns."""
        return replace(self, where=where, table_schema=schema)

    def split(self, start: int, length: int) -> Self:
        """Read only what begins in a range of the file's bytes."""
        return self._with(split=(start, length))

    def constants(self, values: Mapping[int, Any]) -> Self:
        """Set constant values by field id: partition values for columns that the file lacks, and metadata columns."""
        return self._with(constants=dict(values))

    def case_sensitive(self, sensitive: bool) -> Self:
        """Set whether the column names of the filter are case-sensitive."""
        return self._with(case_sensitive=sensitive)

    def batch_size(self, rows: int) -> Self:
        """Set the maximum rows of a batch."""
        return self._with(batch_size=rows)

    def reuse(self, allowed: bool = True) -> Self:
        """Set whether the next batch or row may be the same object as the one before."""
        return self._with(reuse=allowed)

    def name_mapping(self, mapping: NameMapping | None) -> Self:
        """Set the name mapping, which has the ids of columns for files without ids."""
        return self._with(name_mapping=mapping)

    def key_metadata(self, key_metadata: bytes | None, decryption: Decryption | None) -> Self:
        """Set the key metadata of an encrypted file, and the function that decrypts it."""
        return self._with(key_metadata=key_metadata, decryption=decryption)

    def lineage(self, first_row_id: int | None, data_sequence_number: int | None) -> Self:
        """Set what rows inherit their row ids and sequence numbers from (spec: Row Lineage)."""
        return self._with(first_row_id=first_row_id, data_sequence_number=data_sequence_number)

    def facts(self, *, file_size: int | None = None, record_count: int | None = None) -> Self:
        """Set what the manifest says about the file: the size saves a request, the row count is checked."""
        return self._with(file_size=file_size, record_count=record_count)

    def properties(self, properties: Mapping[str, str]) -> Self:
        """Set the properties of the table."""
        return self._with(properties=dict(properties))

    @property
    def request(self) -> ReadRequest:
        """The request; raises `InvalidInput` if `project` was not called."""
        if self.projected is None:
            raise InvalidInput("no columns are requested", hint="call `project` with a schema", file=self.location)
        options = self.options or {}
        where = self.where
        if where is not None:
            where = bind(where, self.table_schema or self.projected, case_sensitive=options.get("case_sensitive", True))
        return ReadRequest(storage=self.storage, location=self.location, schema=self.projected, filter=where, **options)

    def build(self) -> Iterator[Batch]:
        """Read the batches or rows."""
        return iter(self.model.read(self.request))

    def __iter__(self) -> Iterator[Batch]:
        return self.build()

    def _with(self, **options: Any) -> Self:
        return replace(self, options={**(self.options or {}), **options})


@dataclass(frozen=True, slots=True)
class WriteBuilder(Generic[Batch]):
    """Builds a new file; `build` returns its appender."""

    model: FormatModel[Batch]
    request: WriteRequest

    def schema(self, schema: Schema) -> Self:
        """Set the columns of the file, with the table's field ids."""
        return self._with(schema=schema)

    def properties(self, properties: Mapping[str, str]) -> Self:
        """Add properties of the table; those of the format have an effect."""
        return self._with(properties={**self.request.properties, **properties})

    def metadata(self, entries: Mapping[str, str]) -> Self:
        """Add key-value metadata of the file."""
        return self._with(metadata={**self.request.metadata, **entries})

    def metrics(self, config: MetricsConfig) -> Self:
        """Set the metrics to collect; by default the properties determine them."""
        return self._with(metrics=config)

    def partition(self, spec: PartitionSpec, values: Iterable[Any] = ()) -> Self:
        """Set the partition spec, and the partition values of all rows."""
        return self._with(spec=spec, partition=tuple(values))

    def sort_order(self, order: SortOrder | int | None) -> Self:
        """Set the order of the rows, by id or in full; the columns of an order given in full always have bounds."""
        if isinstance(order, SortOrder):
            return self._with(sort_order_id=order.order_id, sort_order=order)
        return self._with(sort_order_id=order, sort_order=None)

    def overwrite(self, allowed: bool = True) -> Self:
        """Set whether an existing file may be replaced; by default it is an error."""
        return self._with(overwrite=allowed)

    def key_metadata(self, key_metadata: bytes | None) -> Self:
        """Set the key metadata to record for the file."""
        return self._with(key_metadata=key_metadata)

    def encryption(self, encryption: Encryption | None) -> Self:
        """Set the function that encrypts the file and returns its key metadata."""
        return self._with(encryption=encryption)

    def build(self) -> FileAppender[Batch]:
        """Open the file; it exists once the appender is closed. Raises `InvalidInput` if `schema` was not called."""
        if not self.request.schema.fields:
            raise InvalidInput("no columns to write", hint="call `schema`", file=self.request.location)
        return self.model.write(self.request)

    def _with(self, **changes: Any) -> Self:
        return replace(self, request=replace(self.request, **changes))


class EqualityDeleteBuilder(WriteBuilder[Batch]):
    """Builds an equality delete file."""

    __slots__ = ()

    def compare(self, *ids: int) -> Self:
        """Set the field ids of the columns whose values identify the deleted rows."""
        return self._with(equality_ids=ids)


def _request(storage: Storage, location: str, content: FileContent, schema: Schema) -> WriteRequest:
    return WriteRequest(storage=storage, location=location, schema=schema, content=content)


def data_writer(model: FormatModel[Batch], storage: Storage, location: str) -> WriteBuilder[Batch]:
    """A builder of a data file, which still needs a schema."""
    return WriteBuilder(model, _request(storage, location, FileContent.DATA, Schema(())))


def equality_delete_writer(model: FormatModel[Batch], storage: Storage, location: str) -> EqualityDeleteBuilder[Batch]:
    """A builder of an equality delete file, which still needs a schema and the ids of the columns to compare."""
    return EqualityDeleteBuilder(model, _request(storage, location, FileContent.EQUALITY_DELETES, Schema(())))


def position_delete_writer(
    model: FormatModel[Batch], storage: Storage, location: str, row: StructType | None = None
) -> WriteBuilder[Batch]:
    """A builder of a position delete file, with the deleted rows if their type is given."""
    return WriteBuilder(model, _request(storage, location, FileContent.POSITION_DELETES, position_delete_schema(row)))
