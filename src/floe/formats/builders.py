"""Builders of reads and writes of single files, step by step.

Each method returns a new builder, so that what several files share can be set once and used for all of them. Builders
come from a registry, which knows the format models:

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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from floe.errors import InvalidInput
from floe.formats.metrics import MetricsConfig
from floe.formats.model import Decryption, Encryption, FileAppender, FormatModel, ReadRequest, WriteRequest
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.name_mapping import NameMapping
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder
from floe.spec.types import StructType
from floe.storage.protocol import Storage

Batch = TypeVar("Batch")


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
