"""The changes of a table as a table: `SELECT * FROM lake.db.t.changes`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from floe.arrow.reading.changes import with_change_columns
from floe.spark.bridge.interfaces.tables import SupportsRead
from floe.spark.bridge.jvm import Jvm
from floe.spark.changes.ranges import change_range
from floe.spark.changes.scan import ChangeScanBuilder
from floe.spark.changes.source import ChangeSource
from floe.spark.columns import spark_schema
from floe.spark.names import Selected
from floe.spark.settings import check_read_options
from floe.table.column_text import name_text
from floe.table.table import Table

__all__ = ["ChangesTable"]


class ChangesTable(SupportsRead):
    """The changes of a table, in a range that the options of the read say."""

    def __init__(
        self,
        jvm: Jvm,
        path: tuple[str, ...],
        table: Table,
        selected: Selected,
        source: ChangeSource | None = None,
    ) -> None:
        super().__init__(jvm)
        self._path, self._table, self._selected, self._source = path, table, selected, source
        self._columns = spark_schema(with_change_columns(table.schema).fields)

    def key(self) -> Any:
        """The same table at the same state is the same to Spark."""
        own = None if self._source is None else self._source.key
        return (self._table.uuid, self._table.metadata_location, self._selected, own)

    def title(self) -> str:
        """What plans show."""
        return f"Floe changes {self.name()}"

    def name(self) -> str:
        """The table's name, for people."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self.jvm.data_type(self._columns)

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self.jvm.columns(self._columns)

    def capabilities(self) -> Any:
        """It can be read."""
        kind = "org.apache.spark.sql.connector.catalog.TableCapability"
        return self.jvm.set([self.jvm.constant(kind, "BATCH_READ")])

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the changes."""
        source = self._source
        if source is None:
            given = {name.lower(): value for name, value in self.jvm.read_map(options.asCaseSensitiveMap()).items()}
            check_read_options(given)
            found = change_range(self._table.metadata, self._selected.as_of, given)
            source = ChangeSource(self.name(), self._table, found)
        return ChangeScanBuilder(self.jvm, source, self._as_frame)

    def _as_frame(self, source: ChangeSource) -> DataFrame:
        """Changes as a data frame of the session that is at work."""
        jvm = self.jvm
        table = ChangesTable(jvm, self._path, self._table, self._selected, source)
        relation = jvm.sql("execution.datasources.v2.DataSourceV2Relation").create(table, jvm.none, jvm.none)
        return jvm.data_frame(SparkSession(jvm.context, jvm.active_session()), relation)
