"""A table of a lake as Spark sees it: at one state, which a query keeps from its analysis to its end."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from floe.commit.operations.delete_files import DeleteFiles
from floe.errors import UnsupportedFeature
from floe.plan.snapshots import schema_for
from floe.spark.bridge.interfaces.row_level import SupportsRowLevelOperations
from floe.spark.bridge.interfaces.tables import SupportsDeleteV2, SupportsMetadataColumns, SupportsRead, SupportsWrite
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.predicates import read_conditions
from floe.spark.bridge.rules import Rewritable
from floe.spark.columns import spark_schema
from floe.spark.definitions import shown_properties
from floe.spark.names import CHANGES, Selected
from floe.spark.row_level.operation import OperationBuilder
from floe.spark.row_level.retrying import noting_conflicts
from floe.spark.row_level.statement import statement_on
from floe.spark.scan.builder import TableScanBuilder
from floe.spark.scan.metadata_columns import metadata_columns
from floe.spark.scan.options import audited_state, with_options
from floe.spark.scan.predicates import filter_of, translate
from floe.spark.scan.source import Source, selects_whole_files
from floe.spark.settings import session_settings
from floe.spark.tables.analyzing import analysis
from floe.spark.tables.changes import ChangesTable
from floe.spark.tables.metadata_table import MetadataTable
from floe.spark.tables.partitioning import spark_transforms
from floe.spark.tables.partitions import ListedPartitions
from floe.spark.tables.writing import capability_set, write_builder, write_capabilities
from floe.spark.write.intent import actions_of
from floe.spark.write.options import WriteOptions, write_options
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.schemas.schema import Schema
from floe.table.column_text import name_text
from floe.table.committing import change_options, make_changes
from floe.table.file_actions import FileActions
from floe.table.table import Table

__all__ = ["SparkTable", "metadata_or_data_table"]


class SparkTable(
    SupportsRead,
    SupportsWrite,
    SupportsMetadataColumns,
    SupportsDeleteV2,
    SupportsRowLevelOperations,
    ListedPartitions,
    Rewritable,
):
    """A table of a lake, as of some state.

    With `by_tasks` all writes are carried out by tasks of Spark's, and rows may have more than the table's columns.
    With `changes_rows` it is for an UPDATE or MERGE, whose columns Spark has to find, whatever the table says.
    """

    def __init__(
        self,
        jvm: Jvm,
        path: tuple[str, ...],
        table: Table,
        selected: Selected,
        *,
        by_tasks: bool = False,
        changes_rows: bool = False,
    ) -> None:
        super().__init__(jvm)
        self._by_tasks, self._changes_rows = by_tasks, changes_rows
        self.path = path
        self.table = table
        self.selected = selected
        as_of = selected.as_of
        self._audited = audited_state(jvm, table.metadata) if as_of.is_now else as_of
        self.floe_schema: Schema = schema_for(
            table.metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms
        )

    def key(self) -> Any:
        """The same table at the same state is the same to Spark."""
        return (self.table.uuid, self.table.metadata_location, self.selected, self._audited)

    def title(self) -> str:
        """What plans show."""
        return f"Floe table {self.name()}"

    def name(self) -> str:
        """The table's name, for people."""
        return ".".join(map(name_text, self.path))

    def id(self) -> str | None:
        """The table's UUID."""
        return self.table.uuid

    @cached_property
    def _schema(self) -> Any:
        return self.jvm.data_type(spark_schema(self.floe_schema.fields))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self._schema

    @cached_property
    def _columns(self) -> Any:
        return self.jvm.columns(spark_schema(self.floe_schema.fields))

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self._columns

    def partitioning(self) -> Any:
        """The partitioning as a `Transform[]`."""
        return spark_transforms(self.jvm, self.table.spec, self.table.schema)

    def properties(self) -> Any:
        """The table's properties, and what else there is to know about it."""
        return self.jvm.map(shown_properties(self.table))

    def capabilities(self) -> Any:
        """What can be done with the table."""
        names = ["BATCH_READ", "MICRO_BATCH_READ", *self._write_capabilities]
        if self._by_tasks:
            names = [*(name for name in names if name != "V1_BATCH_WRITE"), "ACCEPT_ANY_SCHEMA"]
        return capability_set(self.jvm, names)

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the table."""
        named = replace(self._source, as_of=self.selected.as_of)
        given = self.jvm.read_map(options)  # names come in small letters
        source = with_options(named, given, session_settings(self.jvm))
        return TableScanBuilder(self.jvm, replace(source, as_of=self._audited) if source.as_of.is_now else source)

    @cached_property
    def _source(self) -> Source:
        """What is read unless options say another state."""
        return Source(self.name(), self.table, self._audited, self.floe_schema)

    @property
    def _write_capabilities(self) -> list[str]:
        if not self._can_be_written:
            return []
        return write_capabilities(self.jvm, self.table.metadata, changes_rows=self._changes_rows)

    @property
    def _can_be_written(self) -> bool:
        """The past cannot be changed."""
        return self.selected.as_of.is_now or self.selected.branch is not None

    def newWriteBuilder(self, info: Any) -> Any:
        """A write to the table."""
        return write_builder(self.jvm, self.name(), self.table, info, self.selected.branch)

    # changing rows -----------------------------------------------------------------------------------------------

    def newRowLevelOperationBuilder(self, info: Any) -> Any:
        """A DELETE, UPDATE or MERGE."""
        if not self._can_be_written:
            raise UnsupportedFeature(f"{self.name()} is a state of the past, which cannot be changed")
        command = info.command()
        given = self.jvm.read_map(info.options().asCaseSensitiveMap())
        statement = statement_on(self.jvm, self._source, command.name().lower(), given, self.selected.branch)
        return OperationBuilder(self.jvm, statement, command, self._for_tasks)

    def _for_tasks(self) -> SparkTable:
        return SparkTable(self.jvm, self.path, self.table, self.selected, by_tasks=True)

    # removing whole files ----------------------------------------------------------------------------------------

    def truncateTable(self, *options: Any) -> bool:
        """Remove all rows."""
        self._remove(TRUE)
        return True

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether whole files hold all of these rows, and nothing else."""
        found = translate(read_conditions(self.jvm, predicates), self.floe_schema)
        if not self._can_be_written or not all(one.exact for one in found):
            return False
        if self._destination()[0]._head() != self._source.snapshot:
            return False  # it is for a branch that has other files
        return selects_whole_files(self._source.plan(and_(*(one.filter for one in found))))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Remove these files."""
        self._remove(filter_of(read_conditions(self.jvm, predicates), self.floe_schema))

    def _remove(self, where: Expression) -> None:
        actions, options = self._destination()
        with noting_conflicts(self.jvm, self.table, at_least=1):  # a file came meanwhile of which only some rows go
            make_changes(actions, [DeleteFiles(where=where, **change_options(actions, options.summary))])

    def _destination(self) -> tuple[FileActions, WriteOptions]:
        """Where deletes go, as the session and the name say."""
        options = write_options(self.jvm, {}, self.table.metadata, self.selected.branch)
        return actions_of(self.table, options), options

    # statements that Spark leaves to others ----------------------------------------------------------------------

    def rewritten(self, node: Any) -> Any:
        """What carries out ANALYZE TABLE."""
        found = None if self.selected.as_of.is_now else self._source.snapshot
        return analysis(self.jvm, self.name(), self.table, None if found is None else found.snapshot_id, node)

    # columns that are not the table's own ------------------------------------------------------------------------

    def metadataColumns(self) -> Any:
        """`_file`, `_pos` and the like."""
        return metadata_columns(self.jvm, self.table.metadata)

    def version(self) -> str | None:
        """The id of the current snapshot."""
        current = self.table.current_snapshot
        return None if current is None else str(current.snapshot_id)


def metadata_or_data_table(
    jvm: Jvm, path: tuple[str, ...], table: Table, selected: Selected, *, changes_rows: bool = False
) -> SparkTable | MetadataTable | ChangesTable:
    """What Spark reads for a name."""
    if selected.metadata_table == CHANGES:
        return ChangesTable(jvm, path, table, selected)
    if selected.metadata_table is not None:
        return MetadataTable(jvm, path, table, selected)
    return SparkTable(jvm, path, table, selected, changes_rows=changes_rows)
