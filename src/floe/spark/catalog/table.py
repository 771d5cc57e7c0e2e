"""A table of a lake as Spark sees it: at one state, which a query keeps from its analysis to its end.

The partitions of a table for SHOW PARTITIONS: values of partition fields as the folders of files say them.

Writes of tables, whether they are there or being made.

A table that is being made, or replaced, together with its rows: CREATE TABLE … AS SELECT, REPLACE TABLE ….

The columns that every table has for those who name them, such as `_file` and `_pos`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from floe.commit.operations.overwrite import DeleteFiles
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
from floe.spark.catalog.analyze import analysis
from floe.spark.catalog.definitions import shown_properties, spark_transforms
from floe.spark.catalog.metadata_table import MetadataTable
from floe.spark.names import CHANGES, Selected
from floe.spark.read.builder import TableScanBuilder
from floe.spark.read.changes import ChangesTable
from floe.spark.read.filters import filter_of, translate
from floe.spark.read.source import Source, audited_state, selects_whole_files, with_options
from floe.spark.schemas import SparkField, spark_field, spark_schema
from floe.spark.settings import VALIDATE_FROM, session_settings
from floe.spark.write.builder import TableWriteBuilder
from floe.spark.write.insert import commit_target
from floe.spark.write.options import WriteOptions, write_options
from floe.spark.write.retries import noting_conflicts
from floe.spark.write.row_level import statement_on
from floe.spark.write.row_level_plan import OperationBuilder
from floe.spark.write.worker import check_types
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
from floe.sql.printing import name_text
from floe.table.lake import CreateTransaction
from floe.table.table import Table
from floe.table.transaction import Transaction

# The partitions of a table for SHOW PARTITIONS: values of partition fields as the folders of files say them.

_HINT: Final = "use INSERT, and DELETE FROM … WHERE"


class ListedPartitions(SupportsPartitionManagement):
    """The part of a table that lists its partitions: every value is a text, null where there is none."""

    table: Table
    selected: Selected

    def partitionSchema(self) -> Any:
        """The partition fields of all specs, as texts."""
        fields = [
            {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in self._partition_fields()
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """The partitions with these values of these fields."""
        wanted = {
            name: None if values.isNullAt(place) else values.getUTF8String(place).toString()
            for place, name in enumerate(self.jvm.read_strings(names))
        }
        found = [row for row in self._partition_rows() if all(row[name] == value for name, value in wanted.items())]
        return internal_string_rows(self.jvm, list(self._partition_fields()), found)

    def partitionExists(self, partition: Any) -> bool:
        """Whether there are rows in such a partition."""
        return len(self.listPartitionIdentifiers(self.jvm.strings(self._partition_fields()), partition)) > 0

    def createPartition(self, partition: Any, properties: Any) -> None:
        """Partitions come with their rows."""
        raise UnsupportedFeature("a partition is there when rows of it are", hint=_HINT)

    def dropPartition(self, partition: Any) -> bool:
        """Partitions go with their rows."""
        raise UnsupportedFeature("a partition goes when its rows do", hint=_HINT)

    purgePartition = dropPartition
    truncatePartition = dropPartition

    def _partition_fields(self) -> dict[str, PartitionField]:
        """The fields of all specs by name, the current one's first; those that split nothing any more are left out."""
        metadata = self.table.metadata
        specs = sorted(metadata.partition_specs, key=lambda spec: spec.spec_id != metadata.default_spec_id)
        found: dict[int, PartitionField] = {}
        for spec in specs:
            for field in spec.fields:
                if not isinstance(field.transform, Void):
                    found.setdefault(field.field_id, field)
        return {field.name: field for field in found.values()}

    def _partition_rows(self) -> list[dict[str, str | None]]:
        metadata, as_of = self.table.metadata, self.selected.as_of
        snapshot = choose_snapshot(metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms)
        listed = metadata_table(
            "partitions", metadata, self.table.metadata_location, self.table.storage, snapshot=snapshot
        )
        fields = self._partition_fields()
        if not fields:
            return []
        partitions: Sequence[dict[str, Any]] = listed.column("partition").to_pylist()
        rows = [
            {name: self._partition_text(field, values.get(name)) for name, field in fields.items()}
            for values in partitions
        ]
        return list({tuple(row.values()): row for row in rows}.values())

    def _partition_text(self, field: PartitionField, value: Any) -> str | None:
        """A value as it stands in the path of a file."""
        if value is None:
            return None
        source = self._source_type(field.source_id)
        return field.transform.to_human(source, convert(field.transform.result_type(source), value))

    def _source_type(self, field_id: int) -> Type:
        schemas = (self.table.schema, *self.table.metadata.schemas)
        return next((found.type for schema in schemas if (found := schema.find(field_id))), UNKNOWN)


# Writes of tables, whether they are there or being made.

_CAPABILITY: Final = "org.apache.spark.sql.connector.catalog.TableCapability"

WRITE_CAPABILITIES: Final = (
    "BATCH_WRITE", "V1_BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC",
)  # fmt: skip


def takes_any_columns(metadata: TableMetadata) -> bool:
    """Whether a table finds the columns of rows itself."""
    return ACCEPT_ANY_SCHEMA.read(metadata.properties)


def write_capabilities(jvm: Jvm, metadata: TableMetadata, *, changes_rows: bool = False) -> list[str]:
    """What can be done to a table that is there; for a statement that changes rows, Spark has to find its columns."""
    found = list(WRITE_CAPABILITIES)
    if takes_any_columns(metadata) and not changes_rows:
        found.append("ACCEPT_ANY_SCHEMA")
    if jvm.version >= (4, 1):
        found.append("AUTOMATIC_SCHEMA_EVOLUTION")  # Spark alters the table for statements WITH SCHEMA EVOLUTION
    return found


def capability_set(jvm: Jvm, names: Sequence[str]) -> Any:
    """What can be done with a table; Spark asks often, so each set is made once."""
    key = ("capabilities", *names)
    return jvm.once(key, lambda: jvm.set([jvm.constant(_CAPABILITY, name) for name in names]))


def write_builder(
    jvm: Jvm, name: str, target: Table | Transaction, info: Any, branch: str | None = None
) -> TableWriteBuilder:
    """A write of what Spark describes."""
    check_types(target.metadata.schema)
    given = {key.lower(): value for key, value in jvm.read_map(info.options().asCaseSensitiveMap()).items()}
    if VALIDATE_FROM.is_set(given) and not isinstance(target, Table):
        raise InvalidInput(
            f"{VALIDATE_FROM} is for writes that replace rows, and this one replaces or creates the table",
            hint="leave the option out, or write with overwrite or overwritePartitions",
            table=name,
        )
    options = write_options(jvm, given, target.metadata, branch)
    return TableWriteBuilder(jvm, name, target, options, info.schema(), info.queryId())


# A table that is being made, or replaced, together with its rows: CREATE TABLE … AS SELECT, REPLACE TABLE ….


class StagedSparkTable(StagedTable, SupportsWrite):
    """A table that is there when its transaction is committed, with all rows or not at all."""

    def __init__(self, jvm: Jvm, path: tuple[str, ...], transaction: CreateTransaction) -> None:
        super().__init__(jvm)
        self._path = path
        self._transaction = transaction

    def name(self) -> str:
        """The table's name, for people."""
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
        """The table's properties."""
        return self.jvm.map(dict(self._transaction.properties))

    def capabilities(self) -> Any:
        """It can be written."""
        return capability_set(self.jvm, WRITE_CAPABILITIES)

    def newWriteBuilder(self, info: Any) -> Any:
        """A write to the table."""
        return write_builder(self.jvm, self.name(), self._transaction, info)

    def commitStagedChanges(self) -> None:
        """Make the table."""
        self._transaction.commit()

    def abortStagedChanges(self) -> None:
        """Forget it, and delete what was written."""
        self._transaction.abort()


# The columns that every table has for those who name them, such as `_file` and `_pos`.


def metadata_columns(jvm: Jvm, metadata: TableMetadata) -> Any:
    """The metadata columns of a table."""
    partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
    fields = [FILE, POS, SPEC_ID, partition_column(partitions), DELETED]
    if metadata.format_version >= 3:
        fields += [ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER]
    key = ("metadata columns", *fields)
    schema = {"type": "struct", "fields": [_spark_field(field) for field in fields]}
    return jvm.once(key, lambda: java_metadata_columns(jvm, schema))  # Spark asks for them in every query


def _spark_field(field: Field) -> SparkField:
    made = spark_field(field)
    if field.id == LAST_UPDATED_SEQUENCE_NUMBER.id:  # when a row was changed is not kept when it is changed again
        made["metadata"]["__preserve_on_update"] = False
    return made


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
        if self._destination()[0].head != self._source.snapshot:
            return False  # it is for a branch that has other files
        return selects_whole_files(self._source.plan(and_(*(one.filter for one in found))))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Remove these files."""
        self._remove(filter_of(read_conditions(self.jvm, predicates), self.floe_schema))

    def _remove(self, where: Expression) -> None:
        target, options = self._destination()
        with noting_conflicts(self.jvm, self.table, at_least=1):  # a file came meanwhile of which only some rows go
            target.commit([DeleteFiles(where=where, **target.options(options.summary))])

    def _destination(self) -> tuple[CommitTarget, WriteOptions]:
        """Where deletes go, as the session and the name say."""
        options = write_options(self.jvm, {}, self.table.metadata, self.selected.branch)
        return commit_target(self.table, options), options

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
