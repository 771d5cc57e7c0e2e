"""The data source `iceberg`: `spark.read.format("iceberg").load(path)` and `df.write.format("iceberg").save(path)`.

There are two implementations:

`IcebergDataSource` is a Python data source for sessions that Floe did not create, Spark Connect among them:
`spark.dataSource.register(IcebergDataSource)`. A table is named by its folder, by a metadata file, as `name.db.t` with
a catalog of `floe.toml`, or as `db.t` with the option `catalog`, the URI for `floe.connect` (and `catalog.warehouse`,
`catalog.s3.region`, …, its options). The same applies to `readStream` and `writeStream`, which needs the option
`checkpointLocation`. Spark passes neither the columns nor the filters of a query to such sources, unless it is 4.1 or
newer, its setting `spark.sql.python.filterPushdown.enabled` is on, and the option `push-filters` is `true`.

`find_table` serves `format("iceberg")` in sessions with Floe's catalogs (`floe.spark`). It returns the same tables as
the catalogs, so reads, writes and streams are those of `spark.table` and `df.writeTo`: `load("lake.db.t")`,
`load("db.t")` in the current catalog, `load("warehouse/db/t")`, and `load("warehouse/db/t#snapshots")` for a metadata
table.
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

from floe.arrow.dml.base import delete_on_error
from floe.catalog.identifiers import parse_namespace
from floe.errors import FloeError, InvalidInput, NoSuchTable
from floe.formats.writers.rolling_writer import discard
from floe.plan.metadata_tables.tables import NAMES
from floe.plan.tasks import pack_tasks, split_settings
from floe.spark.bridge.jvm import Jvm
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.catalog.table import spark_table
from floe.spark.executors import executor_metadata
from floe.spark.names import CHANGES, AsOf, TableSelector
from floe.spark.read.arrow_reader import ReadTasks, pickle_tasks
from floe.spark.read.scan_source import ScanSource, apply_read_options, project_schema
from floe.spark.schemas import spark_schema
from floe.spark.settings import CATALOG, PATH, PUSH_FILTERS
from floe.spark.streaming.sink import WriteStream, commit_epoch
from floe.spark.streaming.source import BEGINNING, StreamOffset, StreamPlanner, parse_offset, stream_options
from floe.spark.write.columns import column_indexes
from floe.spark.write.insert import Append, OverwriteByFilter, WriteMode, commit_files
from floe.spark.write.options import WriteOptions, write_options
from floe.spark.write.worker import WriteRows, unpickle_files
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import TRUE, Expression, Op, Predicate, Reference, and_
from floe.spec.manifests.entries import DataFile
from floe.spec.types import StructType
from floe.storage.schemes import configure_storage
from floe.table.lake import connect, open as table_at
from floe.table.table import Table

_CATALOG_OPTION_PREFIX: Final = "catalog."


# Batch reads and writes -----------------------------------------------------------------------------------------------


class IcebergDataSource(DataSource):
    """Iceberg tables for every session: `spark.dataSource.register(IcebergDataSource)`."""

    @classmethod
    def name(cls) -> str:
        """The name that `format` takes."""
        return "iceberg"

    def schema(self) -> SparkStruct:
        """The columns of the table; Spark asks for them if the user gives no schema."""
        return SparkStruct.fromJson(spark_schema(self._source().schema.fields))

    def reader(self, schema: SparkStruct) -> DataSourceReader:
        """The reader of the table."""
        pushing = PUSH_FILTERS.read(self.options)
        return (_FilteringReader if pushing else _Reader)(self._source())

    def writer(self, schema: SparkStruct, overwrite: bool) -> DataSourceArrowWriter:
        """The writer to the table; raises `InvalidInput` unless the rows have exactly its columns."""
        table = load_table(self.options)
        columns = [field.name for field in table.schema.fields]
        if (row_columns := schema.fieldNames()) != columns:
            raise InvalidInput(
                f"the table has the columns {', '.join(columns)}, but the rows have {', '.join(row_columns)}",
                hint="select the table's columns, in its order",
                table=table.name,
            )
        return _Writer(dict(self.options), table, OverwriteByFilter(TRUE) if overwrite else Append())

    def streamReader(self, schema: SparkStruct) -> DataSourceStreamReader:
        """The reader of a stream of what is appended to the table."""
        return stream_reader(self._source(), schema)

    def streamWriter(self, schema: SparkStruct, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a stream to the table."""
        table = load_table(self.options)
        write = _write_options(self.options, table)
        writer: DataSourceStreamWriter = stream_writer(table, schema, self.options, write, replaces=overwrite)
        return writer

    def _source(self) -> ScanSource:
        table = load_table(self.options)
        options = {name.lower(): value for name, value in self.options.items()}
        return apply_read_options(ScanSource(table.name, table, AsOf(), table.schema), options)


def _write_options(options: Mapping[str, str], table: Table) -> WriteOptions:
    return write_options(None, {name.lower(): value for name, value in options.items()}, table.metadata, None)


def load_table(options: Mapping[str, str]) -> Table:
    """Load the table that the options `path` and `catalog` name."""
    path = options.get(PATH)
    if path is None:
        raise InvalidInput("no table is named", hint='write load("warehouse/db/t")')
    catalog = options.get(CATALOG)
    catalog_options = {
        name.removeprefix(_CATALOG_OPTION_PREFIX): value
        for name, value in options.items()
        if name.startswith(_CATALOG_OPTION_PREFIX)
    }
    if catalog is not None:
        return connect(catalog, **catalog_options).table(path)
    name, *identifier = path.split(".")
    if "/" not in path and len(identifier) >= 2:
        return connect(name, **catalog_options).table(identifier)
    return table_at(path, **catalog_options)


class _Reader(DataSourceReader):
    """Reads a table with the Arrow reader."""

    def __init__(self, source: ScanSource) -> None:
        self._source: ScanSource = source
        self._read = ReadTasks(source.executor_metadata, source.storage, source.schema)
        self._where: Expression = TRUE

    def __getstate__(self) -> dict[str, Any]:
        return {"_read": self._read}  # what executors need; planning is over

    def partitions(self) -> list[InputPartition]:
        """The tasks of the scan, packed into partitions."""
        bins = self._source.plan(self._where).combined(**self._source.splits)
        partitions = [InputPartition(pickle_tasks(tasks)) for tasks in bins]
        return partitions or [InputPartition(pickle_tasks(()))]  # without any, Spark would call `read` with None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, on an executor."""
        return self._read([pa.RecordBatch.from_arrays([pa.array([partition.value], pa.binary())], ["tasks"])])


class _FilteringReader(_Reader):
    """A reader that takes filters. It is chosen by an option, because Spark fails on one if its setting is off."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take filters to prune files by, and return all of them: Spark evaluates them on the rows."""
        self._where = and_(*(_translate_filter(pushed, self._source) for pushed in filters))
        return filters


_OPERATORS = {
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


def _translate_filter(pushed: Any, source: ScanSource) -> Expression:
    """Translate a filter of Spark; one that cannot be translated becomes a filter that keeps all rows."""
    op = _OPERATORS.get(type(pushed).__name__)
    if op is None or not isinstance(pushed, datasource.Filter):
        return TRUE
    predicate: Any = pushed
    values = () if op.is_unary else tuple(predicate.value) if op is Op.IN else (predicate.value,)
    if any(value is None for value in values):
        return TRUE
    try:
        return bind(Predicate(op, Reference(tuple(predicate.attribute)), values), source.schema, case_sensitive=False)
    except FloeError:
        return TRUE


@dataclass
class _FilesMessage(WriterCommitMessage):
    """The files that a task wrote, pickled."""

    files: bytes


class _Writer(DataSourceArrowWriter):
    """Writes rows with the Arrow writer, and commits the files."""

    def __init__(self, options: dict[str, str], table: Table, intent: WriteMode) -> None:
        self._options, self._storage, self._intent = options, table.storage, intent
        self._write_options = _write_options(options, table)
        self._write_rows = WriteRows.of(table.metadata, table.storage, self._write_options.overrides)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, on an executor."""
        return _FilesMessage(
            pickle.dumps(unpickle_files(batch.column(0)[0].as_py() for batch in self._write_rows(iterator)))
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks."""
        files = _files(messages)
        with delete_on_error(self._storage, files):
            table = load_table(self._options)
        commit_files(table, files, self._intent, self._write_options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of finished tasks, if some task did not finish.

        If all tasks finished, Spark called `commit`, in another process. A commit that fails deletes its files itself,
        unless it is not known whether it succeeded.
        """
        if None in messages:
            discard(self._storage, [file.file_path for file in _files(messages)])


def _files(messages: Iterable[WriterCommitMessage | None]) -> list[DataFile]:
    return unpickle_files(message.files for message in messages if isinstance(message, _FilesMessage))


# Streams --------------------------------------------------------------------------------------------------------------

_BATCH_ROWS: Final = 10_000

try:
    from pyspark.sql.streaming import datasource as stream_limits
except ImportError:  # before Spark 4.2
    stream_limits = None  # type: ignore[assignment]

HAS_LIMITS: Final = stream_limits is not None
"""Whether Spark passes the start and the limit of a batch to the source."""

_STREAM_READER_BASES: Any = (
    (DataSourceStreamReader,)
    if stream_limits is None
    else (DataSourceStreamReader, stream_limits.SupportsTriggerAvailableNow)
)

BoundedStreamReader: Any = type("BoundedStreamReader", _STREAM_READER_BASES, {})
"""A stream reader that supports the trigger `availableNow`, if this version of Spark does."""


def is_unlimited(limit: Any) -> bool:
    """Whether a limit of Spark allows all available rows."""
    return stream_limits is None or isinstance(limit, stream_limits.ReadAllAvailable)


def to_read_limit(files: int | None, rows: int | None) -> Any:
    """Convert limits to one of Spark, which has none for files and rows together: the source applies both itself."""
    assert stream_limits is not None
    if files is not None:
        return stream_limits.ReadMaxFiles(files)
    return stream_limits.ReadAllAvailable() if rows is None else stream_limits.ReadMaxRows(rows)


class _RowStreamWriter(DataSourceStreamWriter):
    """A stream writer that converts rows to Arrow batches, for Spark before 4.1."""

    schema: SparkStruct

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task, on an executor."""
        return self.write_batches(self._batches(iterator))

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the batches of a task."""
        raise NotImplementedError

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        while chunk := list(islice(rows, _BATCH_ROWS)):
            yield from LocalDataToArrowConversion.convert(chunk, self.schema, False).to_batches()


def _arrow_stream_writer_class() -> Any:
    base = getattr(datasource, "DataSourceStreamArrowWriter", None)
    if base is None:
        return _RowStreamWriter

    def write(self: Any, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the batches of a task."""
        return self.write_batches(iterator)  # type: ignore[no-any-return]

    return type("ArrowStreamWriter", (base,), {"write": write})


ArrowStreamWriter: Any = _arrow_stream_writer_class()
"""The base class of a stream writer, whose method `write_batches` gets Arrow batches."""


def stream_reader(source: ScanSource, schema: SparkStruct) -> DataSourceStreamReader:
    """The reader of a stream of what is appended to a table, with the columns that it had when the query began."""
    reader: DataSourceStreamReader = (_LimitedStreamReader if HAS_LIMITS else _StreamReader)(source, schema)
    return reader


class _StreamReader(BoundedStreamReader):  # type: ignore[misc]
    """Reads a stream of what is appended to a table, with the Arrow reader."""

    def __init__(self, source: ScanSource, schema: SparkStruct) -> None:
        self._table, self._storage = source.table, source.storage
        columns = project_schema(source.schema, schema.jsonValue(), StructType(()))
        self._read = ReadTasks(executor_metadata(source.table.metadata), source.storage, columns)
        self._options = stream_options(source.options)
        self._planner = StreamPlanner(source.storage, source.schema, self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {"_read": self._read}  # what executors need; the driver plans

    def initialOffset(self) -> dict[str, Any]:
        """The offset of a new query."""
        return _offset_dict(BEGINNING)

    def latestOffset(self) -> dict[str, Any]:
        """The end of the next batch: the current snapshot."""
        return _offset_dict(self._reached(BEGINNING, self._table.refresh().metadata.current_snapshot_id))

    def _reached(self, start: StreamOffset, head: int | None, **limits: int | None) -> StreamOffset:
        return self._planner.next_offset(self._table.metadata, start, head, **limits)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks between two offsets, packed into partitions."""
        begin, stop = parse_offset(json.dumps(start)), parse_offset(json.dumps(end))
        if stop.snapshot_id not in self._table.metadata.snapshots_by_id:
            self._table.refresh()
        ranges = self._planner.file_ranges(self._table.metadata, begin, stop)
        tasks = [task for file_range in ranges for task in file_range.tasks()]
        bins = pack_tasks(tasks, split_settings(self._table.metadata.properties))
        partitions = [InputPartition(pickle_tasks(packed)) for packed in bins]
        return partitions or [InputPartition(pickle_tasks(()))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, on an executor."""
        return self._read([pa.RecordBatch.from_arrays([pa.array([partition.value], pa.binary())], ["tasks"])])

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the stream keeps no state for batches that are done."""

    def stop(self) -> None:
        """Do nothing: the stream holds no resources."""


class _LimitedStreamReader(_StreamReader):
    """A stream reader for versions of Spark that pass the start and the limit of a batch."""

    _last: int | None = None
    _is_bounded = False

    def getDefaultReadLimit(self) -> Any:
        """The limit of a batch, which Spark passes to `latestOffset`."""
        return to_read_limit(self._options.max_files, self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override]
        """The end of the next batch."""
        if not self._is_bounded:
            self._table.refresh()
        head = self._last if self._is_bounded else self._table.metadata.current_snapshot_id
        options = self._options
        limits = {} if is_unlimited(limit) else {"max_files": options.max_files, "max_rows": options.max_rows}
        return _offset_dict(self._reached(parse_offset(json.dumps(start)), head, **limits))

    def prepareForTriggerAvailableNow(self) -> None:
        """Bound the stream to the current snapshot: Spark calls this for the trigger `availableNow`."""
        self._is_bounded, self._last = True, self._table.refresh().metadata.current_snapshot_id


def _offset_dict(offset: StreamOffset) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(str(offset))
    return document


def stream_writer(
    table: Table, schema: SparkStruct, options: Mapping[str, str], write: WriteOptions, *, replaces: bool
) -> Any:
    """The writer of a stream to a table; with `replaces` each epoch overwrites all rows."""
    return _StreamWriter(table, schema, options.get("checkpointLocation"), write, replaces=replaces)


class _StreamWriter(ArrowStreamWriter):  # type: ignore[misc]
    """Writes a stream to a table, each epoch exactly once."""

    def __init__(
        self, table: Table, schema: SparkStruct, checkpoint: str | None, options: WriteOptions, *, replaces: bool
    ) -> None:
        self.schema = schema
        self._table, self._checkpoint, self._options, self._replaces = table, checkpoint, options, replaces
        indexes = column_indexes(table.schema, schema.jsonValue(), case_sensitive=False, table=table.name)
        self._write_rows = WriteStream(WriteRows.of(table.metadata, table.storage, options.overrides), indexes)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "_write_rows": self._write_rows}

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, on an executor."""
        return _FilesMessage(
            pickle.dumps(unpickle_files(batch.column(0)[0].as_py() for batch in self._write_rows(batches)))
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of an epoch, unless the table has it already."""
        files = _files(messages)
        with delete_on_error(self._table.storage, files):
            query = _query_id(self._checkpoint)
        commit_epoch(self._table, files, query, batchId, self._options, replaces=self._replaces)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of finished tasks, if some task did not finish.

        If all tasks finished, Spark called `commit`, in another process. A commit that fails deletes its files itself,
        unless it is not known whether it succeeded.
        """
        if None in messages:
            discard(self._table.storage, [file.file_path for file in _files(messages)])


def _query_id(checkpoint: str | None) -> str:
    """The id of the query, read from its checkpoint: Spark does not pass it to the data source."""
    if checkpoint is None:
        raise InvalidInput(
            "the checkpoint of the stream is not known, so its epochs cannot be written exactly once",
            hint='set .option("checkpointLocation", …)',
        )
    location = f"{checkpoint.rstrip('/')}/metadata"
    query_id: str = json.loads(configure_storage(location, {}).read(location))["id"]
    return query_id


# Sessions with Floe's catalogs ----------------------------------------------------------------------------------------


def find_table(jvm: Jvm, catalogs: Mapping[str, SparkCatalog], options: Mapping[str, str]) -> Any:
    """Find the table that the options of a read or write name, in the session's catalogs or by its path.

    Raises `InvalidInput` if the options name none, and `NoSuchTable` if it does not exist.
    """
    path = options.get(PATH)
    if path is None:
        raise InvalidInput("no table is named", hint='write load("lake.db.t") or load("warehouse/db/t")')
    if CATALOG not in options and "/" not in path and (named := _find_in_catalogs(jvm, catalogs, path)) is not None:
        catalog, name = named
        catalog_table = catalog.find_table(name)
        if catalog_table is None:
            raise NoSuchTable("there is no such table", table=path)
        return catalog_table
    path, _, kind = path.partition("#")
    if kind and kind.lower() not in (*NAMES, CHANGES):
        raise InvalidInput(
            f"there is no metadata table {kind!r}", hint=f"metadata tables are {', '.join((*NAMES, CHANGES))}"
        )
    table = load_table({**options, "path": path})
    name = (path, kind) if kind else (path,)
    return spark_table(jvm, name, table, TableSelector((path,), metadata_table=kind.lower() or None))


def _find_in_catalogs(
    jvm: Jvm, catalogs: Mapping[str, SparkCatalog], path: str
) -> tuple[SparkCatalog, tuple[str, ...]] | None:
    """The catalog of the session that a name refers to, and the name within it; None for other catalogs."""
    parts = tuple(parse_namespace(path))
    if len(parts) > 1 and parts[0] in catalogs:
        return catalogs[parts[0]], parts[1:]
    manager = jvm.active_session().sessionState().catalogManager()
    current = catalogs.get(manager.currentCatalog().name())
    if current is None:
        return None
    return current, (*(jvm.read_strings(manager.currentNamespace()) if len(parts) == 1 else ()), *parts)
