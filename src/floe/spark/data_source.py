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

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.conversion import LocalDataToArrowConversion
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
from floe.plan.tasks import pack_tasks, split_settings
from floe.spark.bridge.jvm import Jvm
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.catalog.table import metadata_or_data_table
from floe.spark.executors import executor_metadata
from floe.spark.names import CHANGES, AsOf, Selected
from floe.spark.read.source import Source, projected, with_options
from floe.spark.read.worker import ReadTasks, pickled_tasks
from floe.spark.schemas import spark_schema
from floe.spark.settings import CATALOG, PATH, PUSH_FILTERS
from floe.spark.streaming.sink import WriteStream, publish_epoch
from floe.spark.streaming.source import BEGINNING, StreamOffset, StreamSteps, parse_offset, stream_options
from floe.spark.write.columns import places_of
from floe.spark.write.insert import Append, Intent, ReplaceWhere, publish
from floe.spark.write.options import WriteOptions, write_options
from floe.spark.write.worker import WriteRows, files_of
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression, Op, Predicate, Reference, and_
from floe.spec.manifests.entries import DataFile
from floe.spec.types import StructType
from floe.storage.schemes import configure_storage
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
        self._work = WriteRows.of(table.metadata, table.storage, self._told.overrides)

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


def _files(messages: Iterable[WriterCommitMessage | None]) -> list[DataFile]:
    return files_of(message.files for message in messages if isinstance(message, _Written))


# streams --------------------------------------------------------------------------------------------------------------

_ROWS: Final = 10_000

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before Spark 4.2
    limits = None  # type: ignore[assignment]

HAS_LIMITS: Final = limits is not None
"""Whether a source is told from where on a batch goes, and how much it may have."""

_BOUNDED: Any = (
    (DataSourceStreamReader,) if limits is None else (DataSourceStreamReader, limits.SupportsTriggerAvailableNow)
)

BoundedStreamReader: Any = type("BoundedStreamReader", _BOUNDED, {})
"""A reader that can be told to read what is there now and no more, where Spark has such."""


def unlimited(limit: Any) -> bool:
    """Whether a batch may have everything."""
    return limits is None or isinstance(limit, limits.ReadAllAvailable)


def limited(files: int | None, rows: int | None) -> Any:
    """How much a batch has, as Spark is told: it has no limit of both, so the source itself takes care."""
    assert limits is not None
    if files is not None:
        return limits.ReadMaxFiles(files)
    return limits.ReadAllAvailable() if rows is None else limits.ReadMaxRows(rows)


class _RowStreamWriter(DataSourceStreamWriter):
    """A writer that gets rows, and makes batches of them: before Spark 4.1."""

    schema: SparkStruct

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return self.write_batches(self._batches(iterator))

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the batches of a task."""
        raise NotImplementedError

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        while some := list(islice(rows, _ROWS)):
            yield from LocalDataToArrowConversion.convert(some, self.schema, False).to_batches()


def _arrow_writer() -> Any:
    found = getattr(datasource, "DataSourceStreamArrowWriter", None)
    if found is None:
        return _RowStreamWriter

    def write(self: Any, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the batches of a task."""
        return self.write_batches(iterator)  # type: ignore[no-any-return]

    return type("ArrowStreamWriter", (found,), {"write": write})


ArrowStreamWriter: Any = _arrow_writer()
"""A writer of a stream that gets Arrow batches, by `write_batches`."""


def stream_reader(source: Source, schema: SparkStruct) -> DataSourceStreamReader:
    """A stream of what is appended to a table, in the columns that it had when the query began."""
    made: DataSourceStreamReader = (_LimitedStreamReader if HAS_LIMITS else _StreamReader)(source, schema)
    return made


class _StreamReader(BoundedStreamReader):  # type: ignore[misc]
    """Reads what is appended to a table."""

    def __init__(self, source: Source, schema: SparkStruct) -> None:
        self._table, self._storage = source.table, source.storage
        columns = projected(source.schema, schema.jsonValue(), StructType(()))
        self._read = ReadTasks(executor_metadata(source.table.metadata), source.storage, columns)
        self._options = stream_options(source.options)
        self._steps = StreamSteps(source.storage, source.schema, self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {"_read": self._read}  # planning is done elsewhere

    def initialOffset(self) -> dict[str, Any]:
        """Before everything."""
        return _told(BEGINNING)

    def latestOffset(self) -> dict[str, Any]:
        """How far the table goes now."""
        return _told(self._reached(BEGINNING, self._table.refresh().metadata.current_snapshot_id))

    def _reached(self, start: StreamOffset, head: int | None, **limits: int | None) -> StreamOffset:
        return self._steps.next_offset(self._table.metadata, start, head, **limits)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files from one offset to another, in parts."""
        begin, stop = parse_offset(json.dumps(start)), parse_offset(json.dumps(end))
        if stop.snapshot_id not in self._table.metadata.snapshots_by_id:
            self._table.refresh()
        parts = self._steps.parts(self._table.metadata, begin, stop)
        tasks = [task for part in parts for task in part.tasks()]
        bins = pack_tasks(tasks, split_settings(self._table.metadata.properties))
        found = [InputPartition(pickled_tasks(one)) for one in bins]
        return found or [InputPartition(pickled_tasks(()))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        return self._read([pa.RecordBatch.from_arrays([pa.array([partition.value], pa.binary())], ["tasks"])])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing has to be done."""

    def stop(self) -> None:
        """Nothing has to be done."""


class _LimitedStreamReader(_StreamReader):
    """The same, where Spark tells from where on a batch goes."""

    _last: int | None = None
    _is_bounded = False

    def getDefaultReadLimit(self) -> Any:
        """How much a batch has."""
        return limited(self._options.max_files, self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override]
        """How far the next batch goes."""
        if not self._is_bounded:
            self._table.refresh()
        head = self._last if self._is_bounded else self._table.metadata.current_snapshot_id
        options = self._options
        limits = {} if unlimited(limit) else {"max_files": options.max_files, "max_rows": options.max_rows}
        return _told(self._reached(parse_offset(json.dumps(start)), head, **limits))

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and no more."""
        self._is_bounded, self._last = True, self._table.refresh().metadata.current_snapshot_id


def _told(offset: StreamOffset) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(str(offset))
    return told


def stream_writer(
    table: Table, schema: SparkStruct, options: Mapping[str, str], write: WriteOptions, *, replaces: bool
) -> Any:
    """A writer of a stream to a table."""
    return _StreamWriter(table, schema, options.get("checkpointLocation"), write, replaces=replaces)


class _StreamWriter(ArrowStreamWriter):  # type: ignore[misc]
    """Writes a stream, every epoch once."""

    def __init__(
        self, table: Table, schema: SparkStruct, checkpoint: str | None, options: WriteOptions, *, replaces: bool
    ) -> None:
        self.schema = schema
        self._table, self._checkpoint, self._options, self._replaces = table, checkpoint, options, replaces
        places = places_of(table.schema, schema.jsonValue(), case_sensitive=False, table=table.name)
        self._work = WriteStream(WriteRows.of(table.metadata, table.storage, options.overrides), places)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "_work": self._work}

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return _Written(pickle.dumps(files_of(batch.column(0)[0].as_py() for batch in self._work(batches))))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of an epoch, unless the table has it already."""
        files = _files(messages)
        with deleted_on_error(self._table.storage, files):
            query = _query_id(self._checkpoint)
        publish_epoch(self._table, files, query, batchId, self._options, replaces=self._replaces)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made.

        This is another process than that of the commit: whether there was one is told by the tasks, for only if all
        have finished there is one.
        """
        if None in messages:
            discard(self._table.storage, [file.file_path for file in _files(messages)])


def _query_id(checkpoint: str | None) -> str:
    """The id of the query, which its checkpoint has: a source is not told it."""
    if checkpoint is None:
        raise InvalidInput(
            "a stream is written once only if its checkpoint is known", hint='give .option("checkpointLocation", …)'
        )
    location = f"{checkpoint.rstrip('/')}/metadata"
    found: str = json.loads(configure_storage(location, {}).read(location))["id"]
    return found


# sessions with catalogs -----------------------------------------------------------------------------------------------


def find_table(jvm: Jvm, catalogs: Mapping[str, SparkCatalog], options: Mapping[str, str]) -> Any:
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
