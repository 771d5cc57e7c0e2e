"""The data source `iceberg`: `spark.read.format("iceberg").load(path)` and `df.write.format("iceberg").save(path)`.

It is for sessions that Floe did not make, Spark Connect among them: `spark.dataSource.register(IcebergDataSource)`. A
table is named by its folder, by a metadata file, as `name.db.t` with a catalog of `floe.toml`, or as `db.t` with the
option `catalog`, which is what `floe.connect` takes (and `catalog.warehouse`, `catalog.s3.region`, …, its options). The
same goes for `readStream` and `writeStream`, which needs the option `checkpointLocation`.

Spark gives such sources neither the columns that a query needs nor its filters, unless it is 4.1 or newer, its setting
`spark.sql.python.filterPushdown.enabled` is on, and the option `push-filters` says `true`. Sessions with a catalog
(`floe.spark`) have both.

`format("iceberg")` in sessions with lakes: the tables of their catalogs by name, and others by path.

They are the very tables of the catalogs, so that reads, writes and streams of them are those of `spark.table` and
`df.writeTo`. `load("lake.db.t")`, `load("db.t")` in the current catalog, `load("warehouse/db/t")`, and
`load("warehouse/db/t#snapshots")` for a metadata table.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType as SparkStruct

from floe.arrow.dml.base import deleted_on_error
from floe.catalog.identifiers import parse_namespace
from floe.errors import FloeError, InvalidInput, NoSuchTable
from floe.formats.writers.rolling import discard
from floe.plan.metadata_tables.tables import NAMES
from floe.spark.bridge.jvm import Jvm
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.catalog.table import metadata_or_data_table
from floe.spark.executors import shipped
from floe.spark.names import CHANGES, AsOf, Selected
from floe.spark.read.source import Source, with_options
from floe.spark.read.worker import ReadTasks, pickled_tasks
from floe.spark.schemas import spark_schema
from floe.spark.settings import CATALOG, PATH, PUSH_FILTERS
from floe.spark.streaming.data_source import stream_reader, stream_writer
from floe.spark.write.insert import Append, Intent, ReplaceWhere, publish
from floe.spark.write.options import WriteOptions, write_options
from floe.spark.write.worker import WriteRows, files_of
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression, Op, Predicate, Reference, and_
from floe.table.lake import connect, open as table_at
from floe.table.table import Table

_OF_CATALOG: Final = "catalog."


class IcebergDataSource(DataSource):
    """Iceberg tables for every session: `spark.dataSource.register(IcebergDataSource)`."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "iceberg"

    def schema(self) -> SparkStruct:
        """The columns of the table."""
        return SparkStruct.fromJson(spark_schema(self._source().schema.fields))

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        """A read of the table."""
        pushing = PUSH_FILTERS.read(self.options)
        return (_FilteringReader if pushing else _Reader)(self._source())

    def writer(self, schema: SparkStruct, overwrite: bool) -> DataSourceArrowWriter:
        """A write to the table."""
        table = table_of(self.options)
        wanted = [field.name for field in table.schema.fields]
        if (given := schema.fieldNames()) != wanted:
            raise InvalidInput(
                f"the table has the columns {', '.join(wanted)}, and the rows have {', '.join(given)}",
                hint="select the table's columns, in its order",
                table=table.name,
            )
        return _Writer(dict(self.options), table, ReplaceWhere(TRUE) if overwrite else Append())

    def streamReader(self, schema: SparkStruct) -> DataSourceStreamReader:
        """A stream of what is appended to the table."""
        return stream_reader(self._source(), schema)

    def streamWriter(self, schema: SparkStruct, overwrite: bool) -> DataSourceStreamWriter:
        """A writer of a stream to the table."""
        table = table_of(self.options)
        told = _write_options(self.options, table)
        made: DataSourceStreamWriter = stream_writer(table, schema, self.options, told, replaces=overwrite)
        return made

    def _source(self) -> Source:
        table = table_of(self.options)
        given = {name.lower(): value for name, value in self.options.items()}
        return with_options(Source(table.name, table, AsOf(), table.schema), given)


def _write_options(options: Mapping[str, str], table: Table) -> WriteOptions:
    return write_options(None, {name.lower(): value for name, value in options.items()}, table.metadata, None)


def table_of(options: Mapping[str, str]) -> Table:
    """The table that options say: `path`, and perhaps `catalog`."""
    where = options.get(PATH)
    if where is None:
        raise InvalidInput('which table? write load("warehouse/db/t")')
    catalog = options.get(CATALOG)
    given = {name.removeprefix(_OF_CATALOG): value for name, value in options.items() if name.startswith(_OF_CATALOG)}
    if catalog is not None:
        return connect(catalog, **given).table(where)
    name, *rest = where.split(".")
    if "/" not in where and len(rest) >= 2:
        return connect(name, **given).table(rest)
    return table_at(where, **given)


class _Reader(DataSourceReader):
    """Reads a table by the Arrow reader."""

    def __init__(self, source: Source) -> None:
        self._source: Source = source
        self._read = ReadTasks(source.shipped_metadata, source.storage, source.schema)
        self._where: Expression = TRUE

    def __getstate__(self) -> dict[str, Any]:
        return {"_read": self._read}  # planning is over when a reader travels

    def partitions(self) -> list[InputPartition]:
        """The files in parts."""
        bins = self._source.plan(self._where).combined(**self._source.splits)
        found = [InputPartition(pickled_tasks(tasks)) for tasks in bins]
        return found or [InputPartition(pickled_tasks(()))]  # without one, Spark would call `read` with None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        return self._read([pa.RecordBatch.from_arrays([pa.array([partition.value], pa.binary())], ["tasks"])])


class _FilteringReader(_Reader):
    """The same with filters, which Spark refuses where its setting for them is off; so it has to be asked for."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Leave out files; Spark checks the rows."""
        self._where = and_(*(_filter(one, self._source) for one in filters))
        return filters


_TESTS = {
    "EqualTo": Op.EQ,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GT_EQ,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LT_EQ,
    "In": Op.IN,
    "IsNull": Op.IS_NULL,
    "IsNotNull": Op.NOT_NULL,
    "StringStartsWith": Op.STARTS_WITH,
}


def _filter(found: Any, source: Source) -> Expression:
    """The filter that Spark's means, or one that lets all rows pass."""
    op = _TESTS.get(type(found).__name__)
    if op is None or not isinstance(found, datasource.Filter):
        return TRUE
    told: Any = found
    values = () if op.is_unary else tuple(told.value) if op is Op.IN else (told.value,)
    if any(value is None for value in values):
        return TRUE
    try:
        return bind(Predicate(op, Reference(tuple(told.attribute)), values), source.schema, case_sensitive=False)
    except FloeError:
        return TRUE


@dataclass
class _Written(WriterCommitMessage):
    """The files of a task, pickled."""

    files: bytes


class _Writer(DataSourceArrowWriter):
    """Writes rows by the Arrow writer."""

    def __init__(self, options: dict[str, str], table: Table, intent: Intent) -> None:
        self._options, self._storage, self._intent = options, table.storage, intent
        self._told = _write_options(options, table)
        self._work = WriteRows(shipped(table.metadata), table.storage, str(uuid.uuid4()), dict(self._told.overrides))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return _Written(pickle.dumps(files_of(batch.column(0)[0].as_py() for batch in self._work(iterator))))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks."""
        files = _files(messages)
        with deleted_on_error(self._storage, files):
            table = table_of(self._options)
        publish(table, files, self._intent, self._told)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made.

        This is another process than that of the commit: whether there was one is told by the tasks, for only if all
        have finished there is one.
        """
        if None in messages:
            discard(self._storage, [file.file_path for file in _files(messages)])


def _files(messages: Iterable[WriterCommitMessage | None]) -> list[Any]:
    return files_of(message.files for message in messages if isinstance(message, _Written))


# `format("iceberg")` in sessions with lakes: the tables of their catalogs by name, and others by path.


def found_table(jvm: Jvm, catalogs: Mapping[str, SparkCatalog], options: Mapping[str, str]) -> Any:
    """The table that the options of a read or write say."""
    where = options.get(PATH)
    if where is None:
        raise InvalidInput('which table? write load("lake.db.t") or load("warehouse/db/t")')
    if CATALOG not in options and "/" not in where and (named := _named(jvm, catalogs, where)) is not None:
        catalog, name = named
        found = catalog.find_table(name)
        if found is None:
            raise NoSuchTable("there is no such table", table=where)
        return found
    path, _, kind = where.partition("#")
    if kind and kind.lower() not in (*NAMES, CHANGES):
        raise InvalidInput(f"there is no metadata table {kind!r}", hint=f"there are {', '.join((*NAMES, CHANGES))}")
    table = table_of({**options, "path": path})
    name = (path, kind) if kind else (path,)
    return metadata_or_data_table(jvm, name, table, Selected((path,), metadata_table=kind.lower() or None))


def _named(jvm: Jvm, catalogs: Mapping[str, SparkCatalog], where: str) -> tuple[SparkCatalog, tuple[str, ...]] | None:
    """The catalog of a name, and what it is called there; None if it is in none of the session's."""
    parts = tuple(parse_namespace(where))
    if len(parts) > 1 and parts[0] in catalogs:
        return catalogs[parts[0]], parts[1:]
    manager = jvm.active_session().sessionState().catalogManager()
    current = catalogs.get(manager.currentCatalog().name())
    if current is None:
        return None
    return current, (*(jvm.read_strings(manager.currentNamespace()) if len(parts) == 1 else ()), *parts)
