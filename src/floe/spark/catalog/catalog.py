"""A lake as a catalog of Spark: `lake.db.t` in SQL is `lake.table("db.t")` in Python.

`SparkCatalog` implements Spark's interfaces for namespaces and tables; views, functions and procedures are mixed in
from `floe.spark.catalog.views`, `floe.spark.catalog.functions` and `floe.spark.procedures.procedure`. `alter_table`
makes the changes of an ALTER TABLE statement, in one commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakValueDictionary

from pyspark.sql import SparkSession

from floe.catalog.protocol import Capability
from floe.errors import FloeError, InvalidInput, NoSuchNamespace, NoSuchTable, TableAlreadyExists, UnsupportedFeature
from floe.spark.bridge.exceptions import declared_error
from floe.spark.bridge.interfaces.catalog import StagingTableCatalog, SupportsNamespaces
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.proxies import proxy_of
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.views import HAS_VIEWS
from floe.spark.catalog.analyze import analyze_tables_command
from floe.spark.catalog.definitions import (
    IDENTIFIER_FIELDS,
    LOCATION,
    SORT_ORDER,
    Evaluate,
    TableDefinition,
    ensure_namespace,
    table_definition,
    table_like,
)
from floe.spark.catalog.functions import LakeFunctions
from floe.spark.catalog.metadata_table import MetadataTable
from floe.spark.catalog.table import SparkTable, StagedSparkTable, accepts_any_schema, spark_table
from floe.spark.catalog.views import LakeViews
from floe.spark.names import AsOf, TableSelector, name_candidates, version_as_of
from floe.spark.procedures.procedure import LakeProcedures
from floe.spark.read.changes import ChangesTable
from floe.spark.schemas import floe_type
from floe.spark.settings import CATALOG_PREFIX, DEFAULT_NAMESPACE, NULLABLE_QUERY_SCHEMA, with_defaults
from floe.spark.write.row_level import is_row_level_load
from floe.spec.properties import FORMAT_VERSION
from floe.spec.types import Type
from floe.spec.values.conversion import convert
from floe.storage.locations import same_file
from floe.table.evolution import SchemaEvolution
from floe.table.lake import Lake
from floe.table.table import Table
from floe.table.transaction import Transaction

# ALTER TABLE ----------------------------------------------------------------------------------------------------------

ColumnPath = tuple[str, ...]

_CURRENT_SNAPSHOT: Final = "current-snapshot-id"
_CHERRY_PICK: Final = "cherry-pick-snapshot-id"


def alter_table(jvm: Jvm, table: Table, changes: Iterable[Any], evaluate: Evaluate) -> None:
    """Make Spark's `TableChange`s of an ALTER TABLE statement, in one commit; `evaluate` computes column defaults."""
    set_properties: dict[str, str] = {}
    removed: list[str] = []
    column_changes: list[tuple[str, Any]] = []
    for change in changes:
        match jvm.simple_name(change):
            case "SetProperty":
                set_properties[change.property()] = change.value()
            case "RemoveProperty":
                removed.append(change.property())
            case "ClusterBy":
                raise UnsupportedFeature(
                    "Iceberg tables have no clustering columns", hint="use ALTER TABLE … WRITE ORDERED BY"
                )
            case "AddConstraint" | "DropConstraint":
                raise UnsupportedFeature("Iceberg tables have no constraints but NOT NULL")
            case name:
                column_changes.append((name, change))
    with table.transaction() as transaction:
        _change_properties(transaction, set_properties, removed)
        if column_changes:
            evolution = transaction.evolve(case_sensitive=jvm.is_case_sensitive)
            for name, change in column_changes:
                _change_column(jvm, evolution, name, change, evaluate)


def _change_properties(transaction: Transaction, set_properties: dict[str, str], removed: Sequence[str]) -> None:
    """Set and remove properties; some of them stand for other changes, as in Java Iceberg."""
    for name in (SORT_ORDER, IDENTIFIER_FIELDS):
        if name in set_properties or name in removed:
            statement = "WRITE ORDERED BY …" if name == SORT_ORDER else "SET IDENTIFIER FIELDS …"
            raise InvalidInput(f"{name} is not a property", hint=f"use ALTER TABLE … {statement}")
    values = dict(set_properties)
    if (version := values.pop(FORMAT_VERSION.name, None)) is not None:
        transaction.upgrade(_parse_number(FORMAT_VERSION.name, version))
    if (location := values.pop(LOCATION, None)) is not None:
        transaction.set_location(location)
    if values:
        transaction.set_properties({k: v for k, v in values.items() if k not in (_CURRENT_SNAPSHOT, _CHERRY_PICK)})
    if removed:
        transaction.remove_properties(*removed)
    if (current := values.get(_CURRENT_SNAPSHOT)) is not None:
        transaction.set_current(_parse_number(_CURRENT_SNAPSHOT, current))
    if (picked := values.get(_CHERRY_PICK)) is not None:
        transaction.cherry_pick(_parse_number(_CHERRY_PICK, picked))


def _parse_number(name: str, text: str) -> int:
    if not text.isdigit():
        raise InvalidInput(f"{name} is a number, found {text!r}")
    return int(text)


def _change_column(jvm: Jvm, evolution: SchemaEvolution, kind: str, change: Any, evaluate: Evaluate) -> None:
    path = jvm.read_strings(change.fieldNames())
    match kind:
        case "AddColumn":
            type_ = floe_type(jvm.read_data_type(change.dataType()))
            default = change.defaultValue()
            evolution.add_column(
                path,
                type_,
                doc=change.comment(),
                required=not change.isNullable(),
                default=None if default is None else evaluate(default.getSql(), type_),
                **_position(jvm, path, change.position()),
            )
        case "RenameColumn":
            evolution.rename_column(path, change.newName())
        case "DeleteColumn":
            if not change.ifExists() or evolution.schema.has(path, case_sensitive=jvm.is_case_sensitive):
                evolution.drop_column(path)
        case "UpdateColumnType":
            evolution.promote(path, floe_type(jvm.read_data_type(change.newDataType())))
        case "UpdateColumnNullability":
            (evolution.make_optional if change.nullable() else evolution.require)(path)
        case "UpdateColumnComment":
            evolution.set_doc(path, change.newComment())
        case "UpdateColumnPosition":
            evolution.move_column(path, **_position(jvm, path, change.position()))
        case "UpdateColumnDefaultValue":
            sql = change.newDefaultValue()
            type_ = evolution.schema.resolve(path, case_sensitive=jvm.is_case_sensitive).field.type
            evolution.set_default(path, evaluate(sql, type_) if sql else None)
        case _:
            raise UnsupportedFeature(f"Floe does not support this change of a table: {kind}")


def _position(jvm: Jvm, path: ColumnPath, position: Any) -> dict[str, Any]:
    """The arguments `first` or `after` for a column; none if the statement does not say where it goes."""
    if position is None:
        return {}
    if jvm.simple_name(position) == "First":
        return {"first": True}
    return {"after": (*path[:-1], position.column())}


# The catalog ----------------------------------------------------------------------------------------------------------

_SPARK_PROPERTIES = frozenset({"owner"})
"""Properties that Spark sets for every new namespace."""


class SparkCatalog(LakeViews, LakeFunctions, LakeProcedures, StagingTableCatalog, SupportsNamespaces, Rewritable):
    """A lake as a catalog of Spark sessions."""

    def __init__(self, jvm: Jvm, name: str, lake: Lake) -> None:
        super().__init__(jvm)
        self._name = name
        self.lake = lake
        self._loaded: WeakValueDictionary[tuple[str, ...], Table] = WeakValueDictionary()
        """Loaded tables by identifier, as long as a plan of Spark refers to them."""

    def title(self) -> str:
        """The text that plans show."""
        return f"Floe catalog {self._name}"

    def name(self) -> str:
        """The name of the catalog in the session."""
        return self._name

    def defaultNamespace(self) -> Any:
        """The namespace that `USE lake` makes the current one: the setting `default-namespace` of the catalog."""
        namespace = DEFAULT_NAMESPACE.read(self._settings())
        return self.jvm.strings([] if not namespace else namespace.split("."))

    def useNullableQuerySchema(self) -> bool:
        """Whether CREATE TABLE … AS SELECT makes all columns nullable: the setting of that name."""
        return NULLABLE_QUERY_SCHEMA.read(self._settings())

    def capabilities(self) -> Any:
        """The capabilities of the catalog: columns may have defaults."""
        kind = "org.apache.spark.sql.connector.catalog.TableCatalogCapability"
        return self.jvm.set([self.jvm.constant(kind, "SUPPORT_COLUMN_DEFAULT_VALUE")])

    # namespaces --------------------------------------------------------------------------------------------------

    def listNamespaces(self, *parent: Any) -> Any:
        """List the namespaces at the top level, or those directly below a parent."""
        above = self.jvm.read_strings(parent[0]) if parent else ()
        with self._spark_errors(above):
            return self.jvm.string_lists(self.lake.catalog.namespaces(above))

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether a namespace exists; the empty one always does."""
        name = self.jvm.read_strings(namespace)
        return not name or self.lake.namespace_exists(name)

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """The properties of a namespace."""
        name = self.jvm.read_strings(namespace)
        with self._spark_errors(name):
            return self.jvm.map(self.lake.namespace_properties(name))

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        """Create a namespace; in a catalog without namespace properties, those that Spark sets are dropped."""
        name, values = self.jvm.read_strings(namespace), self.jvm.read_map(properties)
        if Capability.NAMESPACE_PROPERTIES not in self.lake.capabilities:
            values = {key: value for key, value in values.items() if key not in _SPARK_PROPERTIES}
        with self._spark_errors(name):
            self.lake.create_namespace(name, values or None)

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Set and remove properties of a namespace."""
        name = self.jvm.read_strings(namespace)
        set_properties, removed = {}, []
        for change in changes:
            if self.jvm.simple_name(change) == "SetProperty":
                set_properties[change.property()] = change.value()
            else:
                removed.append(change.property())
        with self._spark_errors(name):
            self.lake.update_namespace(name, set_properties, remove=removed)

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Drop a namespace, with `cascade` also what is in it; False if there is none."""
        name = self.jvm.read_strings(namespace)
        if not self.lake.namespace_exists(name):
            return False
        with self._spark_errors(name):
            self.lake.drop_namespace(name, cascade=cascade)
        return True

    def rewrite(self, node: Any) -> Any:
        """Replace ANALYZE TABLES by a command that Floe runs; raises if there is no such namespace."""
        name = self.jvm.read_seq(node.child().namespace())
        self.lake.namespace_properties(name)
        return analyze_tables_command(self.jvm, ".".join((self._name, *name)))

    # tables ------------------------------------------------------------------------------------------------------

    def listTables(self, namespace: Any) -> Any:
        """List the tables of a namespace."""
        name = self.jvm.read_strings(namespace)
        with self._spark_errors(name):
            return self.jvm.identifiers(self.lake.catalog.tables(name))

    def tableExists(self, identifier: Any) -> bool:
        """Whether a table exists; its name may select a metadata table, a snapshot or a ref."""
        return self._find(self.jvm.read_identifier(identifier)) is not None

    def loadTable(self, identifier: Any, *arguments: Any) -> Any:
        """Load a table; the arguments are a version or timestamp, or the privileges that a write needs.

        Before Spark has views of its own, a view is loaded by this method too.
        """
        name = self.jvm.read_identifier(identifier)
        relation = self.find_table(name, *arguments)
        if relation is None and self.jvm.version < HAS_VIEWS:
            relation = self.find_view(name)
        if relation is None:
            self.check_metadata_table(name)
            raise self._spark_error(NoSuchTable("there is no such table"), name)
        return relation

    def find_table(self, name: tuple[str, ...], *arguments: Any) -> SparkTable | MetadataTable | ChangesTable | None:
        """The table that `loadTable` returns for its arguments; None if there is none."""
        match = self._find(name)
        if match is None:
            return None
        selected, table = match
        as_of = self._as_of(*arguments)
        if not as_of.is_current:
            if not selected.as_of.is_current:
                raise InvalidInput(
                    f"the name says {selected.as_of} already, so there can be no AS OF too", table=".".join(name)
                )
            selected = TableSelector(selected.table, as_of, None, selected.metadata_table)
        for_row_level = accepts_any_schema(table.metadata) and is_row_level_load(self.jvm, arguments)
        return spark_table(self.jvm, (self._name, *name), table, selected, for_row_level=for_row_level)

    def createTable(self, identifier: Any, *arguments: Any) -> Any:
        """Create a table, and in a catalog of folders also its namespace."""
        name = self.jvm.read_identifier(identifier)
        with self._spark_table_errors(name):
            definition = self._definition(name, arguments)
            ensure_namespace(self.lake, self._name, name)
            table = self.lake.create_table(name, **definition.arguments())
        return self._spark_table(name, table)

    def stageCreate(self, identifier: Any, *arguments: Any) -> Any:
        """Stage a new table, which is committed together with its rows."""
        return self._stage(identifier, arguments, or_replace=False)

    def stageReplace(self, identifier: Any, *arguments: Any) -> Any:
        """Stage a replacement of an existing table, which is committed together with its rows."""
        name = self.jvm.read_identifier(identifier)
        if not self.lake.table_exists(name):
            raise self._spark_error(NoSuchTable("there is no such table"), name)
        return self._stage(identifier, arguments, or_replace=True)

    def stageCreateOrReplace(self, identifier: Any, *arguments: Any) -> Any:
        """Stage a new table, or a replacement if the table exists."""
        return self._stage(identifier, arguments, or_replace=True)

    def _stage(self, identifier: Any, arguments: Sequence[Any], *, or_replace: bool) -> StagedSparkTable:
        name = self.jvm.read_identifier(identifier)
        with self._spark_table_errors(name):
            definition = self._definition(name, arguments)
            ensure_namespace(self.lake, self._name, name)
            transaction = self.lake.create_table_transaction(name, **definition.arguments(), or_replace=or_replace)
        return StagedSparkTable(self.jvm, (self._name, *name), transaction)

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Any:
        """Create a table like another; of a table of Floe also with its sort order, format version and properties."""
        like = proxy_of(source)
        if not isinstance(like, SparkTable):
            return self.createTable(identifier, info)
        name = self.jvm.read_identifier(identifier)
        properties = self.jvm.read_map(info.properties())
        with self._spark_table_errors(name):
            definition = table_like(like.table, properties)
            ensure_namespace(self.lake, self._name, name)
            table = self.lake.create_table(name, **definition.arguments())
        return self._spark_table(name, table)

    def alterTable(self, identifier: Any, changes: Any) -> Any:
        """Make the changes of an ALTER TABLE statement; returns the changed table."""
        name = self.jvm.read_identifier(identifier)
        with self._spark_table_errors(name):
            table = self.lake.table(name)
            alter_table(self.jvm, table, changes, self.evaluate)
        return self._spark_table(name, table)

    def dropTable(self, identifier: Any) -> bool:
        """Drop a table and keep its files; False if there is none."""
        return self._drop(identifier, purge=False)

    def purgeTable(self, identifier: Any) -> bool:
        """Drop a table and delete its files; False if there is none."""
        return self._drop(identifier, purge=True)

    def _drop(self, identifier: Any, *, purge: bool) -> bool:
        name = self.jvm.read_identifier(identifier)
        try:
            self.lake.drop_table(name, purge=purge)
        except (NoSuchTable, NoSuchNamespace):
            return False
        return True

    def renameTable(self, old: Any, new: Any) -> None:
        """Rename a table."""
        old_name = self.jvm.read_identifier(old)
        new_name = self.new_name(old_name, self.jvm.read_identifier(new))
        try:
            self.lake.rename_table(old_name, new_name)
        except NoSuchTable as error:
            raise self._spark_error(error, old_name) from None
        except TableAlreadyExists as error:
            raise self._spark_error(error, new_name) from None

    # internal ----------------------------------------------------------------------------------------------------

    def _spark_table(self, name: Sequence[str], table: Table) -> SparkTable:
        return SparkTable(self.jvm, (self._name, *name), table, TableSelector(tuple(name)))

    def _find(self, name: tuple[str, ...]) -> tuple[TableSelector, Table] | None:
        """The first interpretation of a name for which there is a table, and the table."""
        for candidate in name_candidates(name):
            try:
                return candidate, self._load(candidate.table)
            except (NoSuchTable, NoSuchNamespace):
                continue
            except InvalidInput:
                if candidate.table == name:
                    raise
        return None

    def _load(self, identifier: tuple[str, ...]) -> Table:
        """Load the current state of a table.

        Spark loads a table several times for one statement. All loads go through one pointer, which finds the current
        metadata file, and parses it only if it is not the one that it has parsed before.
        """
        earlier = self._loaded.get(identifier)
        try:
            table = self.lake.table(identifier) if earlier is None else Table.load(earlier.commit_target.pointer)
        except NoSuchTable:
            if earlier is None:
                raise
            table = self.lake.table(identifier)  # its error has a hint
        self._loaded[identifier] = table
        return table

    def _as_of(self, *arguments: Any) -> AsOf:
        """The time travel in the arguments of `loadTable`: a version, microseconds, or a `TableContext`."""
        for argument in arguments:
            if isinstance(argument, str):
                return version_as_of(argument)
            if isinstance(argument, int):
                return AsOf(timestamp_ms=argument // 1000)
            if self.jvm.simple_name(argument) == "TableContext":
                time_travel = argument.timeTravel()
                if time_travel.isPresent():
                    return self._time_travel(time_travel.get())
        return AsOf()

    def _time_travel(self, specification: Any) -> AsOf:
        kind = self.jvm.simple_name(specification)
        if "Version" in kind:
            return version_as_of(specification.version())
        return AsOf(timestamp_ms=specification.micros() // 1000)

    def _definition(self, name: Sequence[str], arguments: Sequence[Any]) -> TableDefinition:
        """The definition in the arguments of `createTable`: one `TableInfo`, or in older versions its three parts."""
        if len(arguments) == 1:
            info = arguments[0]
            columns, partitions, properties = info.columns(), info.partitions(), info.properties()
        else:
            columns, partitions, properties = arguments
        values = with_defaults(self.jvm, self._name, "table", self.jvm.read_map(properties))
        if LOCATION in values and self._is_default_location(name, values[LOCATION]):
            del values[LOCATION]  # Spark may spell it differently
        return table_definition(
            self.jvm.read_columns(columns),
            [transform.toString() for transform in partitions],
            values,
            self.evaluate,
            case_sensitive=self.jvm.is_case_sensitive,
        )

    def _is_default_location(self, name: Sequence[str], location: str) -> bool:
        default_location = self.lake.catalog.default_location(tuple(name))
        return same_file(location.rstrip("/"), default_location.rstrip("/"))

    def _settings(self) -> dict[str, str]:
        """The session's settings of the catalog, without the prefix `spark.sql.catalog.<name>.`."""
        return self.jvm.settings_below(f"{CATALOG_PREFIX}{self._name}.")

    def evaluate(self, sql: str, type_: Type) -> Any:
        """Evaluate a SQL expression with Spark, and convert the result to a value of a type."""
        spark = SparkSession(self.jvm.context, self.jvm.active_session())
        match type_.kind:
            case "timestamptz":
                return spark.sql(f"SELECT unix_micros(CAST({sql} AS TIMESTAMP))").collect()[0][0]
            case "timestamp" | "date":
                name = "TIMESTAMP_NTZ" if type_.kind == "timestamp" else "DATE"
                return convert(type_, spark.sql(f"SELECT CAST(CAST({sql} AS {name}) AS STRING)").collect()[0][0])
            case _:
                return convert(type_, spark.sql(f"SELECT {sql}").collect()[0][0])

    @contextmanager
    def _spark_errors(self, name: Sequence[str]) -> Iterator[None]:
        """Turn errors about a namespace into those that Spark's interface declares."""
        try:
            yield
        except FloeError as error:
            raise declared_error(self.jvm, error, name) or error from None

    @contextmanager
    def _spark_table_errors(self, name: Sequence[str]) -> Iterator[None]:
        """Turn errors about a table or its namespace into those that Spark's interface declares."""
        try:
            yield
        except FloeError as error:
            raise self._spark_error(error, name) from None
