"""Metadata tables in SQL: `lake.db.t.snapshots`, `lake.db.t.files VERSION AS OF …`.

The rows are made on the driver, in Arrow, of the columns that a query needs; workers hand them to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from floe.errors import UnsupportedFeature
from floe.plan.metadata_tables.tables import metadata_table, schema_of
from floe.plan.snapshot_selection import choose_snapshot
from floe.spark.bridge.interfaces.read import (
    Batch,
    Scan,
    SupportsPushDownRequiredColumns,
    SupportsPushDownV2Filters,
    SupportsRead,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import read_conditions
from floe.spark.names import AsOf, Selected
from floe.spark.read.filters import filter_of
from floe.spark.read.source import projected, state_of
from floe.spark.read.worker import for_spark, python_partitions, python_reader_factory
from floe.spark.schemas import spark_schema
from floe.spark.settings import END_SNAPSHOT_ID, START_SNAPSHOT_ID
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.types import StructType
from floe.sql.printing import name_text
from floe.table.table import Table

_ROWS_OF_A_PARTITION = 50_000


class MetadataTable(SupportsRead):
    """A metadata table of a table, as of some state."""

    def __init__(self, jvm: Jvm, path: tuple[str, ...], table: Table, selected: Selected) -> None:
        super().__init__(jvm)
        assert selected.metadata_table is not None
        self._path = path
        self._table = table
        self._kind = selected.metadata_table
        self._as_of = selected.as_of
        self._floe_schema = schema_of(self._kind, table.metadata)

    def key(self) -> Any:
        """The same table at the same state is the same to Spark."""
        return (self._table.uuid, self._table.metadata_location, self._kind, self._as_of)

    def name(self) -> str:
        """The table's name, for people."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self.jvm.data_type(spark_schema(self._floe_schema.fields))

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self.jvm.columns(spark_schema(self._floe_schema.fields))

    def capabilities(self) -> Any:
        """It can be read."""
        kind = "org.apache.spark.sql.connector.catalog.TableCapability"
        return self.jvm.set([self.jvm.constant(kind, "BATCH_READ")])

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the table, at the state that its name or the options say."""
        given = self.jvm.read_map(options)  # names come in small letters
        if ranges := [option.name for option in (START_SNAPSHOT_ID, END_SNAPSHOT_ID) if option.is_set(given)]:
            raise UnsupportedFeature(
                f"{', '.join(ranges)}: a metadata table is of one state, and not of a range",
                hint="read a state with snapshot-id, as-of-timestamp, branch or tag",
                table=self.name(),
            )
        as_of = state_of(given, self._as_of, self.name())
        return MetadataScanBuilder(
            self.jvm, MetadataSource(self.name(), self._table, self._kind, as_of, self._floe_schema)
        )


@dataclass(frozen=True)
class MetadataSource:
    """What is read."""

    name: str
    table: Table
    kind: str
    as_of: AsOf
    schema: Schema

    def rows(self, wanted: Schema, where: Expression) -> pa.Table:
        """The rows that pass, in the wanted columns."""
        inside = [entry.path for entry in walk_fields(wanted.fields) if not _has_fields(entry.field.type)]
        table, as_of = self.table, self.as_of
        found = metadata_table(
            self.kind,
            table.metadata,
            table.metadata_location,
            table.storage,
            snapshot=None if as_of.is_now else self._snapshot(),
            where=None if where is TRUE else where,
            columns=_outside_of_collections(self.schema, inside),
        )
        return found.select([field.name for field in wanted.fields])

    def _snapshot(self) -> Snapshot | None:
        as_of = self.as_of
        return choose_snapshot(
            self.table.metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms
        )


class MetadataScanBuilder(SupportsPushDownRequiredColumns, SupportsPushDownV2Filters):
    """Puts a read together."""

    def __init__(self, jvm: Jvm, source: MetadataSource) -> None:
        super().__init__(jvm)
        self._source = source
        self._wanted = source.schema
        self._where: Expression = TRUE

    def pruneColumns(self, schema: Any) -> None:
        """Read these columns, each as a whole."""
        names = [field.name for field in projected(self._source.schema, self.jvm.read_data_type(schema), _NONE).fields]
        kept = tuple(field for field in self._source.schema.fields if field.name in names)
        self._wanted = Schema(kept or self._source.schema.fields[:1])

    def pushPredicates(self, predicates: Any) -> Any:
        """Make fewer rows; Spark checks them too."""
        self._where = filter_of(read_conditions(self.jvm, predicates), self._source.schema)
        return predicates

    def build(self) -> Any:
        """The read."""
        return MetadataScan(self.jvm, self._source, self._wanted, self._where)


class MetadataScan(Scan, Batch):
    """The rows of a metadata table that a query asks for."""

    def __init__(self, jvm: Jvm, source: MetadataSource, wanted: Schema, where: Expression) -> None:
        super().__init__(jvm)
        self._source, self._wanted, self._where = source, wanted, where

    @cached_property
    def _rows(self) -> pa.Table:
        return self._source.rows(self._wanted, self._where)

    def readSchema(self) -> Any:
        """The columns that come."""
        return self.jvm.data_type(spark_schema(self._wanted.fields))

    def description(self) -> str:
        """The table and the filter, in words."""
        when = "" if self._source.as_of.is_now else f" at {self._source.as_of}"
        return f"Floe metadata table {self._source.name}{when}; filter: {self._where}"

    def toBatch(self) -> Any:
        """The read itself."""
        return self

    def planInputPartitions(self) -> Any:
        """The rows, some thousands in each partition."""
        count = self._rows.num_rows
        slices = [self._rows.slice(start, _ROWS_OF_A_PARTITION) for start in range(0, count, _ROWS_OF_A_PARTITION)]
        return python_partitions(self.jvm, map(_written, slices))

    def createReaderFactory(self) -> Any:
        """Workers that hand over the rows."""
        return python_reader_factory(self.jvm, ReadRows(self._wanted), spark_schema(self._wanted.fields))


@dataclass(frozen=True)
class ReadRows:
    """Gives the rows that partitions carry."""

    schema: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the partitions that come."""
        for batch in batches:
            for content in batch.column(0).to_pylist():
                with pa.ipc.open_stream(content) as reader:
                    for rows in reader:
                        yield for_spark(rows, self.schema.fields)


_NONE = StructType(())


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _has_fields(type_: Any) -> bool:
    return isinstance(type_, StructType) and bool(type_.fields)


def _outside_of_collections(schema: Schema, paths: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Each path up to the list or map that it leads into."""
    found: dict[tuple[str, ...], None] = {}
    for path in paths:
        end = next((n for n in range(1, len(path)) if not _is_struct(schema, path[:n])), len(path))
        found[path[:end]] = None
    return list(found)


def _is_struct(schema: Schema, path: tuple[str, ...]) -> bool:
    return isinstance(schema.resolve(path).field.type, StructType)
