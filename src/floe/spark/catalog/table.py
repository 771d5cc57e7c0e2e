"""Tables of a lake as Spark's `Table` objects.

A `SparkTable` is a table at one state, which a query keeps from its analysis to its end. A `StagedSparkTable` is a
table that is created or replaced together with its rows (CREATE TABLE … AS SELECT, REPLACE TABLE … AS SELECT).
`spark_table` chooses between a `SparkTable`, a metadata table and the table of changes, by the name in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from floe.commit.operations.data_changes import DeleteFiles
from floe.commit.target import CommitTarget
from floe.errors import InvalidInput, UnsupportedFeature
from floe.plan.metadata_tables.tables import metadata_table
from floe.plan.snapshot_selection import choose_snapshot, schema_for
from floe.spark.bridge.interfaces.read import (
    StagedTable,
    SupportsDeleteV2,
    SupportsMetadataColumns,
    SupportsPartitionManagement,
    SupportsRead,
    SupportsWrite,
)
from floe.spark.bridge.interfaces.write import SupportsRowLevelOperations
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import internal_string_rows, java_metadata_columns, read_conditions
from floe.spark.catalog.analyze import analyze_table_command
from floe.spark.catalog.definitions import shown_properties, spark_transforms
from floe.spark.catalog.metadata_table import MetadataTable
from floe.spark.names import CHANGES, TableSelector
from floe.spark.read.builder import TableScanBuilder
from floe.spark.read.changes import ChangesTable
from floe.spark.read.filters import combined_filter, translate
from floe.spark.read.scan_source import ScanSource, apply_read_options, selects_whole_files, wap_state
from floe.spark.schemas import SparkField, spark_field, spark_schema
from floe.spark.settings import VALIDATE_FROM, session_settings
from floe.spark.write.builder import TableWriteBuilder
from floe.spark.write.insert import commit_target
from floe.spark.write.options import WriteOptions, write_options
from floe.spark.write.retries import record_conflicts
from floe.spark.write.row_level import new_statement
from floe.spark.write.row_level_plan import OperationBuilder
from floe.spark.write.worker import check_writable_types
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionField, unified_partition_type
from floe.spec.partitioning.transforms import Void
from floe.spec.properties import ACCEPT_ANY_SCHEMA
from floe.spec.schemas.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    POS,
    ROW_ID,
    SPEC_ID,
    partition_column,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import UNKNOWN, Field, Type
from floe.spec.values.conversion import convert
from floe.sql.printer import name_text
from floe.table.lake import CreateTransaction
from floe.table.table import Table
from floe.table.transaction import Transaction

# Partitions -----------------------------------------------------------------------------------------------------------

_HINT: Final = "use INSERT, and DELETE FROM … WHERE"


class ListedPartitions(SupportsPartitionManagement):
    """The methods of a table that list its partitions, for SHOW PARTITIONS.

    All values are strings, as in the paths of files, or null.
    """

    table: Table
    selected: TableSelector

    def partitionSchema(self) -> Any:
        """The partition fields of all specs, as a `StructType` of strings."""
        fields = [
            {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in self._partition_fields()
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """List the partitions whose fields of these names have these values."""
        expected = {
            name: None if values.isNullAt(index) else values.getUTF8String(index).toString()
            for index, name in enumerate(self.jvm.read_strings(names))
        }
        rows = [row for row in self._partition_rows() if all(row[name] == value for name, value in expected.items())]
        return internal_string_rows(self.jvm, list(self._partition_fields()), rows)

    def partitionExists(self, partition: Any) -> bool:
        """Whether a partition has rows."""
        return len(self.listPartitionIdentifiers(self.jvm.strings(self._partition_fields()), partition)) > 0

    def createPartition(self, partition: Any, properties: Any) -> None:
        """Raise: a partition exists exactly if it has rows."""
        raise UnsupportedFeature("partitions cannot be added: a partition exists as soon as it has rows", hint=_HINT)

    def dropPartition(self, partition: Any) -> bool:
        """Raise: a partition exists exactly if it has rows."""
        raise UnsupportedFeature("partitions cannot be dropped: a partition exists as long as it has rows", hint=_HINT)

    purgePartition = dropPartition
    truncatePartition = dropPartition

    def _partition_fields(self) -> dict[str, PartitionField]:
        """The partition fields of all specs by name, those of the current spec first; without void transforms."""
        metadata = self.table.metadata
        specs = sorted(metadata.partition_specs, key=lambda spec: spec.spec_id != metadata.default_spec_id)
        fields: dict[int, PartitionField] = {}
        for spec in specs:
            for field in spec.fields:
                if not isinstance(field.transform, Void):
                    fields.setdefault(field.field_id, field)
        return {field.name: field for field in fields.values()}

    def _partition_rows(self) -> list[dict[str, str | None]]:
        """The distinct partitions, with the text of each field."""
        metadata, as_of = self.table.metadata, self.selected.as_of
        snapshot = choose_snapshot(metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms)
        partition_table = metadata_table(
            "partitions", metadata, self.table.metadata_location, self.table.storage, snapshot=snapshot
        )
        fields = self._partition_fields()
        if not fields:
            return []
        partitions: Sequence[dict[str, Any]] = partition_table.column("partition").to_pylist()
        rows = [
            {name: self._partition_text(field, values.get(name)) for name, field in fields.items()}
            for values in partitions
        ]
        return list({tuple(row.values()): row for row in rows}.values())

    def _partition_text(self, field: PartitionField, value: Any) -> str | None:
        """A partition value as in the path of a file."""
        if value is None:
            return None
        source = self._source_type(field.source_id)
        return field.transform.to_human(source, convert(field.transform.result_type(source), value))

    def _source_type(self, field_id: int) -> Type:
        schemas = (self.table.schema, *self.table.metadata.schemas)
        return next((field.type for schema in schemas if (field := schema.find(field_id))), UNKNOWN)


# Capabilities and writes ----------------------------------------------------------------------------------------------

_CAPABILITY: Final = "org.apache.spark.sql.connector.catalog.TableCapability"

WRITE_CAPABILITIES: Final = (
    "BATCH_WRITE", "V1_BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC",
)  # fmt: skip


def accepts_any_schema(metadata: TableMetadata) -> bool:
    """Whether Floe, not Spark, matches the columns of written rows with those of the table."""
    return ACCEPT_ANY_SCHEMA.read(metadata.properties)


def write_capabilities(jvm: Jvm, metadata: TableMetadata, *, for_row_level: bool = False) -> list[str]:
    """The capabilities for writes of a table; for UPDATE and MERGE, Spark always has to match the columns."""
    names = list(WRITE_CAPABILITIES)
    if accepts_any_schema(metadata) and not for_row_level:
        names.append("ACCEPT_ANY_SCHEMA")
    if jvm.version >= (4, 1):
        names.append("AUTOMATIC_SCHEMA_EVOLUTION")  # Spark alters the table for statements WITH SCHEMA EVOLUTION
    return names


def capability_set(jvm: Jvm, names: Sequence[str]) -> Any:
    """The capabilities as a Java set; Spark asks often, so each set is created once."""
    key = ("capabilities", *names)
    return jvm.once(key, lambda: jvm.set([jvm.constant(_CAPABILITY, name) for name in names]))


def write_builder(
    jvm: Jvm, name: str, target: Table | Transaction, info: Any, branch: str | None = None
) -> TableWriteBuilder:
    """The builder of a write with the rows and options of Spark's `LogicalWriteInfo`."""
    check_writable_types(target.metadata.schema)
    options = {key.lower(): value for key, value in jvm.read_map(info.options().asCaseSensitiveMap()).items()}
    if VALIDATE_FROM.is_set(options) and not isinstance(target, Table):
        raise InvalidInput(
            f"{VALIDATE_FROM} is for writes that replace rows, and this one replaces or creates the table",
            hint="leave the option out, or write with overwrite or overwritePartitions",
            table=name,
        )
    resolved = write_options(jvm, options, target.metadata, branch)
    return TableWriteBuilder(jvm, name, target, resolved, info.schema(), info.queryId())


# Staged tables --------------------------------------------------------------------------------------------------------


class StagedSparkTable(StagedTable, SupportsWrite):
    """A table that is created or replaced when its transaction is committed, with all rows or not at all."""

    def __init__(self, jvm: Jvm, path: tuple[str, ...], transaction: CreateTransaction) -> None:
        super().__init__(jvm)
        self._path = path
        self._transaction = transaction

    def name(self) -> str:
        """The full name of the table, which Spark shows."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self.jvm.data_type(spark_schema(self._transaction.schema.fields))

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self.jvm.columns(spark_schema(self._transaction.schema.fields))

    def partitioning(self) -> Any:
        """The partitioning as a `Transform[]`."""
        return spark_transforms(self.jvm, self._transaction.spec, self._transaction.schema)

    def properties(self) -> Any:
        """The properties of the table."""
        return self.jvm.map(dict(self._transaction.properties))

    def capabilities(self) -> Any:
        """The capabilities of the table: it can only be written."""
        return capability_set(self.jvm, WRITE_CAPABILITIES)

    def newWriteBuilder(self, info: Any) -> Any:
        """The builder of the write of the rows."""
        return write_builder(self.jvm, self.name(), self._transaction, info)

    def commitStagedChanges(self) -> None:
        """Commit the table with its rows."""
        self._transaction.commit()

    def abortStagedChanges(self) -> None:
        """Abort the transaction, and delete the files that were written."""
        self._transaction.abort()


# Metadata columns -----------------------------------------------------------------------------------------------------


def metadata_columns(jvm: Jvm, metadata: TableMetadata) -> Any:
    """The metadata columns of a table (`_file`, `_pos`, …) as a `MetadataColumn[]`; created once for each layout."""
    partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
    fields = [FILE, POS, SPEC_ID, partition_column(partitions), DELETED]
    if metadata.format_version >= 3:
        fields += [ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER]
    key = ("metadata columns", *fields)
    schema = {"type": "struct", "fields": [_spark_field(field) for field in fields]}
    return jvm.once(key, lambda: java_metadata_columns(jvm, schema))  # Spark asks for them in every query


def _spark_field(field: Field) -> SparkField:
    column = spark_field(field)
    if field.id == LAST_UPDATED_SEQUENCE_NUMBER.id:  # an updated row gets the sequence number of the update
        column["metadata"]["__preserve_on_update"] = False
    return column


# Tables ---------------------------------------------------------------------------------------------------------------


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

    With `written_by_tasks` Spark executes all writes itself, and rows may have more columns than the table: a row-level
    statement appends to such a table. With `for_row_level` it is loaded for an UPDATE or MERGE, whose columns Spark
    has to match, whatever the table's properties say.
    """

    def __init__(
        self,
        jvm: Jvm,
        path: tuple[str, ...],
        table: Table,
        selected: TableSelector,
        *,
        written_by_tasks: bool = False,
        for_row_level: bool = False,
    ) -> None:
        super().__init__(jvm)
        self._written_by_tasks, self._for_row_level = written_by_tasks, for_row_level
        self.path = path
        self.table = table
        self.selected = selected
        as_of = selected.as_of
        self._audited = wap_state(jvm, table.metadata) if as_of.is_current else as_of
        self.floe_schema: Schema = schema_for(
            table.metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms
        )

    def key(self) -> Any:
        """The key by which Spark compares tables: the table and its state."""
        return (self.table.uuid, self.table.metadata_location, self.selected, self._audited)

    def title(self) -> str:
        """The text that plans show."""
        return f"Floe table {self.name()}"

    def name(self) -> str:
        """The full name of the table, which Spark shows."""
        return ".".join(map(name_text, self.path))

    def id(self) -> str | None:
        """The UUID of the table, by which Spark notices that a table was replaced."""
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
        """The properties that Spark shows: those of the table, and reserved ones from its metadata."""
        return self.jvm.map(shown_properties(self.table))

    def capabilities(self) -> Any:
        """The capabilities of the table at its state; a past snapshot or a tag can only be read."""
        names = ["BATCH_READ", "MICRO_BATCH_READ", *self._write_capabilities]
        if self._written_by_tasks:
            names = [*(name for name in names if name != "V1_BATCH_WRITE"), "ACCEPT_ANY_SCHEMA"]
        return capability_set(self.jvm, names)

    def newScanBuilder(self, options: Any) -> Any:
        """The builder of a scan, at the state that its options or the name of the table select."""
        named = replace(self._source, as_of=self.selected.as_of)
        read_options = self.jvm.read_map(options)  # Spark has lowercased the names
        source = apply_read_options(named, read_options, session_settings(self.jvm))
        return TableScanBuilder(self.jvm, replace(source, as_of=self._audited) if source.as_of.is_current else source)

    @cached_property
    def _source(self) -> ScanSource:
        """The source of scans whose options select no other state."""
        return ScanSource(self.name(), self.table, self._audited, self.floe_schema)

    @property
    def _write_capabilities(self) -> list[str]:
        if not self._can_be_written:
            return []
        return write_capabilities(self.jvm, self.table.metadata, for_row_level=self._for_row_level)

    @property
    def _can_be_written(self) -> bool:
        """Whether the table is selected in its current state or at a branch: the past cannot be changed."""
        return self.selected.as_of.is_current or self.selected.branch is not None

    def newWriteBuilder(self, info: Any) -> Any:
        """The builder of a write to the table."""
        return write_builder(self.jvm, self.name(), self.table, info, self.selected.branch)

    # row-level operations ----------------------------------------------------------------------------------------

    def newRowLevelOperationBuilder(self, info: Any) -> Any:
        """The builder of the operation of a DELETE, UPDATE or MERGE; raises if the state cannot be written."""
        if not self._can_be_written:
            raise UnsupportedFeature(f"{self.name()} is a state of the past, which cannot be changed")
        command = info.command()
        options = self.jvm.read_map(info.options().asCaseSensitiveMap())
        statement = new_statement(self.jvm, self._source, command.name().lower(), options, self.selected.branch)
        return OperationBuilder(self.jvm, statement, command, self._written_table)

    def _written_table(self) -> SparkTable:
        return SparkTable(self.jvm, self.path, self.table, self.selected, written_by_tasks=True)

    # deletes of whole files --------------------------------------------------------------------------------------

    def truncateTable(self, *options: Any) -> bool:
        """Delete all rows."""
        self._delete_files(TRUE)
        return True

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether the rows that match are exactly those of some files, so that no file has to be rewritten."""
        translations = translate(read_conditions(self.jvm, predicates), self.floe_schema)
        if not self._can_be_written or not all(translation.exact for translation in translations):
            return False
        if self._destination()[0].head != self._source.snapshot:
            return False  # the commit goes to a branch that has other files
        return selects_whole_files(self._source.plan(and_(*(translation.filter for translation in translations))))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Delete the files of the rows that match."""
        self._delete_files(combined_filter(read_conditions(self.jvm, predicates), self.floe_schema))

    def _delete_files(self, where: Expression) -> None:
        target, options = self._destination()
        # A concurrent commit may have added a file of which only some rows match. Then the statement is run once more,
        # and planned as a row-level operation.
        with record_conflicts(self.jvm, self.table, at_least=1):
            target.commit([DeleteFiles(where=where, **target.options(options.summary))])

    def _destination(self) -> tuple[CommitTarget, WriteOptions]:
        """The commit target of deletes, as the name and the session say, and the write options."""
        options = write_options(self.jvm, {}, self.table.metadata, self.selected.branch)
        return commit_target(self.table, options), options

    # other statements --------------------------------------------------------------------------------------------

    def rewrite(self, node: Any) -> Any:
        """Replace ANALYZE TABLE by a command that Floe runs."""
        snapshot = None if self.selected.as_of.is_current else self._source.snapshot
        snapshot_id = None if snapshot is None else snapshot.snapshot_id
        return analyze_table_command(self.jvm, self.name(), self.table, snapshot_id, node)

    def metadataColumns(self) -> Any:
        """The metadata columns that queries can name, such as `_file` and `_pos`."""
        return metadata_columns(self.jvm, self.table.metadata)

    def version(self) -> str | None:
        """The id of the current snapshot, by which Spark notices that a table has changed; None without one."""
        current = self.table.current_snapshot
        return None if current is None else str(current.snapshot_id)


def spark_table(
    jvm: Jvm, path: tuple[str, ...], table: Table, selected: TableSelector, *, for_row_level: bool = False
) -> SparkTable | MetadataTable | ChangesTable:
    """The Spark table for what a name selects: the table, a metadata table, or its changes."""
    if selected.metadata_table == CHANGES:
        return ChangesTable(jvm, path, table, selected)
    if selected.metadata_table is not None:
        return MetadataTable(jvm, path, table, selected)
    return SparkTable(jvm, path, table, selected, for_row_level=for_row_level)
