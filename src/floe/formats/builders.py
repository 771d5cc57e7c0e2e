"""Reading and writing one file, step by step: builders over the requests of a format model.

Each step gives a new builder, so that what several files share can be set once and used for all of them. They come from
a registry, which knows the format models:

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
>>> reading = formats.read("parquet", "arrow", storage, "memory:a.parquet").project(schema)
>>> [batch.column("id").to_pylist() for batch in reading.filter(col("id") > 1)]
[[2]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from floe.errors import InvalidInput
from floe.formats.metrics import MetricsConfig
from floe.formats.model import Decryption, Encryption, FileAppender, FormatModel, ReadRequest, WriteRequest
from floe.spec.expressions.binding import bind
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
    """How one file is to be read; iterate over it, or call `build`."""

    model: FormatModel[Batch]
    storage: Storage
    location: str
    wanted: Schema | None = None
    where: Expression | None = None
    table_schema: Schema | None = None
    options: Mapping[str, Any] | None = None

    def project(self, schema: Schema) -> Self:
        """The columns that are wanted, in their order; metadata columns may be among them."""
        return replace(self, wanted=schema)

    def filter(self, where: Expression, schema: Schema | None = None) -> Self:
        """Only rows that pass a filter. One that is not bound is bound to `schema`, or to the wanted columns."""
        return replace(self, where=where, table_schema=schema)

    def split(self, start: int, length: int) -> Self:
        """Only what begins in a range of the file's bytes."""
        return self._with(split=(start, length))

    def constants(self, values: Mapping[int, Any]) -> Self:
        """Values by field id: partition values for columns that the file lacks, and metadata columns."""
        return self._with(constants=dict(values))

    def case_sensitive(self, sensitive: bool) -> Self:
        """Whether the names in a filter must be written as the columns' are."""
        return self._with(case_sensitive=sensitive)

    def batch_size(self, rows: int) -> Self:
        """How many rows a batch has at most."""
        return self._with(batch_size=rows)

    def reuse(self, allowed: bool = True) -> Self:
        """Whether what is given may be used again for the next."""
        return self._with(reuse=allowed)

    def name_mapping(self, mapping: NameMapping | None) -> Self:
        """The ids of columns, by name, in a file that has no ids."""
        return self._with(name_mapping=mapping)

    def key_metadata(self, key_metadata: bytes | None, decryption: Decryption | None) -> Self:
        """The key metadata of an encrypted file, and who opens such files."""
        return self._with(key_metadata=key_metadata, decryption=decryption)

    def lineage(self, first_row_id: int | None, data_sequence_number: int | None) -> Self:
        """What rows inherit their ids and their sequence numbers from (spec: Row Lineage)."""
        return self._with(first_row_id=first_row_id, data_sequence_number=data_sequence_number)

    def facts(self, *, file_size: int | None = None, record_count: int | None = None) -> Self:
        """What the manifest says about the file: its size saves a request, its row count is checked."""
        return self._with(file_size=file_size, record_count=record_count)

    def properties(self, properties: Mapping[str, str]) -> Self:
        """Properties of the table."""
        return self._with(properties=dict(properties))

    @property
    def request(self) -> ReadRequest:
        """All of it as one value."""
        if self.wanted is None:
            raise InvalidInput("no columns are asked for", hint="call `project` with a schema", file=self.location)
        options = self.options or {}
        where = self.where
        if where is not None:
            where = bind(where, self.table_schema or self.wanted, case_sensitive=options.get("case_sensitive", True))
        return ReadRequest(storage=self.storage, location=self.location, schema=self.wanted, filter=where, **options)

    def build(self) -> Iterator[Batch]:
        """The batches or rows."""
        return iter(self.model.read(self.request))

    def __iter__(self) -> Iterator[Batch]:
        return self.build()

    def _with(self, **options: Any) -> Self:
        return replace(self, options={**(self.options or {}), **options})


@dataclass(frozen=True, slots=True)
class WriteBuilder(Generic[Batch]):
    """How one file is to be written; `build` gives its appender."""

    model: FormatModel[Batch]
    request: WriteRequest

    def schema(self, schema: Schema) -> Self:
        """The columns of the file, with the table's ids."""
        return self._with(schema=schema)

    def properties(self, properties: Mapping[str, str]) -> Self:
        """Properties of the table, in addition to those set before; those of the format have an effect."""
        return self._with(properties={**self.request.properties, **properties})

    def metadata(self, entries: Mapping[str, str]) -> Self:
        """Key-value metadata of the file, in addition to what was set before."""
        return self._with(metadata={**self.request.metadata, **entries})

    def metrics(self, config: MetricsConfig) -> Self:
        """Which metrics to keep; otherwise the properties say it."""
        return self._with(metrics=config)

    def partition(self, spec: PartitionSpec, values: Iterable[Any] = ()) -> Self:
        """The spec, and the partition tuple that all rows have."""
        return self._with(spec=spec, partition=tuple(values))

    def sort_order(self, order: SortOrder | int | None) -> Self:
        """The order in which the rows come; columns of an order that is given as such have bounds in any case."""
        if isinstance(order, SortOrder):
            return self._with(sort_order_id=order.order_id, sort_order=order)
        return self._with(sort_order_id=order, sort_order=None)

    def overwrite(self, allowed: bool = True) -> Self:
        """Whether a file that is there already may be replaced; otherwise it is an error."""
        return self._with(overwrite=allowed)

    def key_metadata(self, key_metadata: bytes | None) -> Self:
        """The key metadata to record for the file."""
        return self._with(key_metadata=key_metadata)

    def encryption(self, encryption: Encryption | None) -> Self:
        """Who encrypts what is written, and tells the key metadata."""
        return self._with(encryption=encryption)

    def build(self) -> FileAppender[Batch]:
        """The appender of the file, which is there once it is closed."""
        if not self.request.schema.fields:
            raise InvalidInput("no columns to write", hint="call `schema`", file=self.request.location)
        return self.model.write(self.request)

    def _with(self, **changes: Any) -> Self:
        return replace(self, request=replace(self.request, **changes))


class DeleteKeys(WriteBuilder[Batch]):
    """A builder for equality deletes, which compare the columns of some ids."""

    __slots__ = ()

    def compare(self, *ids: int) -> Self:
        """The ids of the columns whose values rows have to share with a deleted one."""
        return self._with(equality_ids=ids)


def _request(storage: Storage, location: str, content: FileContent, schema: Schema) -> WriteRequest:
    return WriteRequest(storage=storage, location=location, schema=schema, content=content)


def data_writer(model: FormatModel[Batch], storage: Storage, location: str) -> WriteBuilder[Batch]:
    """The builder of a data file; it still needs a schema."""
    return WriteBuilder(model, _request(storage, location, FileContent.DATA, Schema(())))


def equality_delete_writer(model: FormatModel[Batch], storage: Storage, location: str) -> DeleteKeys[Batch]:
    """The builder of a file of equality deletes; it still needs a schema and the ids to compare."""
    return DeleteKeys(model, _request(storage, location, FileContent.EQUALITY_DELETES, Schema(())))


def position_delete_writer(
    model: FormatModel[Batch], storage: Storage, location: str, row: StructType | None = None
) -> WriteBuilder[Batch]:
    """The builder of a file of position deletes, with the deleted rows if their type is given."""
    return WriteBuilder(model, _request(storage, location, FileContent.POSITION_DELETES, position_delete_schema(row)))
