"""Metadata tables in SQL: `lake.db.t.snapshots`, `lake.db.t.files VERSION AS OF …`.

The driver computes the rows in Arrow, with only the columns that a query needs; workers pass them to Spark.
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
from floe.spark.names import AsOf, TableSelector
from floe.spark.read.arrow_reader import python_partitions, python_reader_factory, to_spark_batch
from floe.spark.read.filters import combined_filter
from floe.spark.read.scan_source import project_schema, requested_state
from floe.spark.schemas import spark_schema
from floe.spark.settings import END_SNAPSHOT_ID, START_SNAPSHOT_ID
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.types import StructType
from floe.sql.printer import name_text
from floe.table.table import Table

_ROWS_PER_PARTITION = 50_000


class MetadataTable(SupportsRead):
    """A metadata table of a table, as of some state."""

    def __init__(self, jvm: Jvm, path: tuple[str, ...], table: Table, selected: TableSelector) -> None:
        super().__init__(jvm)
        assert selected.metadata_table is not None
        self._path = path
        self._table = table
        self._kind = selected.metadata_table
        self._as_of = selected.as_of
        self._floe_schema = schema_of(self._kind, table.metadata)

    def key(self) -> Any:
        """The key by which Spark compares tables: the table, its state, and the metadata table."""
        return (self._table.uuid, self._table.metadata_location, self._kind, self._as_of)

    def name(self) -> str:
        """The full name of the table, which Spark shows."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self.jvm.data_type(spark_schema(self._floe_schema.fields))

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self.jvm.columns(spark_schema(self._floe_schema.fields))

    def capabilities(self) -> Any:
        """The capabilities of the table: it can be read in batches."""
        kind = "org.apache.spark.sql.connector.catalog.TableCapability"
        return self.jvm.set([self.jvm.constant(kind, "BATCH_READ")])

    def newScanBuilder(self, options: Any) -> Any:
        """The builder of a scan, at the state that its options or the name of the table select."""
        read_options = self.jvm.read_map(options)  # Spark has lowercased the names
        if ranges := [option.name for option in (START_SNAPSHOT_ID, END_SNAPSHOT_ID) if option.is_set(read_options)]:
            raise UnsupportedFeature(
                f"{', '.join(ranges)}: a metadata table is of one state, and not of a range",
                hint="read a state with snapshot-id, as-of-timestamp, branch or tag",
                table=self.name(),
            )
        as_of = requested_state(read_options, self._as_of, self.name())
        return MetadataScanBuilder(
            self.jvm, MetadataSource(self.name(), self._table, self._kind, as_of, self._floe_schema)
        )


@dataclass(frozen=True)
class MetadataSource:
    """A metadata table at one state."""

    name: str
    table: Table
    kind: str
    """The name of the metadata table, such as `files`."""

    as_of: AsOf
    schema: Schema

    def rows(self, projection: Schema, where: Expression) -> pa.Table:
        """The rows that match a filter, with the columns of a projection."""
        leaves = [entry.path for entry in walk_fields(projection.fields) if not _has_fields(entry.field.type)]
        table, as_of = self.table, self.as_of
        rows = metadata_table(
            self.kind,
            table.metadata,
            table.metadata_location,
            table.storage,
            snapshot=None if as_of.is_current else self._snapshot(),
            where=None if where is TRUE else where,
            columns=_paths_above_collections(self.schema, leaves),
        )
        return rows.select([field.name for field in projection.fields])

    def _snapshot(self) -> Snapshot | None:
        as_of = self.as_of
        return choose_snapshot(
            self.table.metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms
        )


class MetadataScanBuilder(SupportsPushDownRequiredColumns, SupportsPushDownV2Filters):
    """Builds a scan of a metadata table."""

    def __init__(self, jvm: Jvm, source: MetadataSource) -> None:
        super().__init__(jvm)
        self._source = source
        self._projection = source.schema
        self._where: Expression = TRUE

    def pruneColumns(self, schema: Any) -> None:
        """Read only these columns, each as a whole; at least one."""
        projection = project_schema(self._source.schema, self.jvm.read_data_type(schema), _NO_FIELDS)
        names = [field.name for field in projection.fields]
        fields = tuple(field for field in self._source.schema.fields if field.name in names)
        self._projection = Schema(fields or self._source.schema.fields[:1])

    def pushPredicates(self, predicates: Any) -> Any:
        """Filter rows early; returns all predicates, because Spark has to evaluate them again."""
        self._where = combined_filter(read_conditions(self.jvm, predicates), self._source.schema)
        return predicates

    def build(self) -> Any:
        """The scan."""
        return MetadataScan(self.jvm, self._source, self._projection, self._where)


class MetadataScan(Scan, Batch):
    """A scan of a metadata table."""

    def __init__(self, jvm: Jvm, source: MetadataSource, projection: Schema, where: Expression) -> None:
        super().__init__(jvm)
        self._source, self._projection, self._where = source, projection, where

    @cached_property
    def _rows(self) -> pa.Table:
        return self._source.rows(self._projection, self._where)

    def readSchema(self) -> Any:
        """The columns of the rows as a `StructType`."""
        return self.jvm.data_type(spark_schema(self._projection.fields))

    def description(self) -> str:
        """The text that EXPLAIN shows: the table, its state and the filter."""
        when = "" if self._source.as_of.is_current else f" at {self._source.as_of}"
        return f"Floe metadata table {self._source.name}{when}; filter: {self._where}"

    def toBatch(self) -> Any:
        """The scan itself."""
        return self

    def planInputPartitions(self) -> Any:
        """The partitions, which contain the rows in the format of Arrow streams."""
        count = self._rows.num_rows
        slices = [self._rows.slice(start, _ROWS_PER_PARTITION) for start in range(0, count, _ROWS_PER_PARTITION)]
        return python_partitions(self.jvm, map(_serialize, slices))

    def createReaderFactory(self) -> Any:
        """The factory of the readers that pass the rows of a partition to Spark, in a worker."""
        return python_reader_factory(self.jvm, ReadRows(self._projection), spark_schema(self._projection.fields))


@dataclass(frozen=True)
class ReadRows:
    """Returns the rows that partitions contain, in a worker."""

    schema: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some partitions; each row of the input contains one partition."""
        for batch in batches:
            for content in batch.column(0).to_pylist():
                with pa.ipc.open_stream(content) as reader:
                    for rows in reader:
                        yield to_spark_batch(rows, self.schema.fields)


_NO_FIELDS = StructType(())


def _serialize(table: pa.Table) -> bytes:
    """The table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _has_fields(type_: Any) -> bool:
    return isinstance(type_, StructType) and bool(type_.fields)


def _paths_above_collections(schema: Schema, paths: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The distinct paths, each cut at the first list or map in it."""
    cut: dict[tuple[str, ...], None] = {}
    for path in paths:
        end = next((depth for depth in range(1, len(path)) if not _is_struct(schema, path[:depth])), len(path))
        cut[path[:end]] = None
    return list(cut)


def _is_struct(schema: Schema, path: tuple[str, ...]) -> bool:
    return isinstance(schema.resolve(path).field.type, StructType)
