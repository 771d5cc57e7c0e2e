"""A lake as a catalog of Spark: `lake.db.t` in SQL is `lake.table("db.t")` in Python.

ALTER TABLE: the changes that Spark hands over, made in one commit.
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
from floe.spark.catalog.analyze import analysis_of_all
from floe.spark.catalog.definitions import (
    IDENTIFIER_FIELDS,
    LOCATION,
    SORT_ORDER,
    Evaluate,
    NewTable,
    make_room,
    new_table,
    table_like,
)
from floe.spark.catalog.functions import LakeFunctions
from floe.spark.catalog.metadata_table import MetadataTable
from floe.spark.catalog.table import SparkTable, StagedSparkTable, metadata_or_data_table, takes_any_columns
from floe.spark.catalog.views import LakeViews
from floe.spark.names import AsOf, Selected, name_candidates, version_as_of
from floe.spark.procedures.procedure import LakeProcedures
from floe.spark.read.changes import ChangesTable
from floe.spark.schemas import floe_type
from floe.spark.settings import CATALOG_PREFIX, DEFAULT_NAMESPACE, NULLABLE_QUERY_SCHEMA, with_defaults
from floe.spark.write.retries import changes_rows
from floe.spec.properties import FORMAT_VERSION
from floe.spec.types import Type
from floe.spec.values.conversion import convert
from floe.storage.locations import parse
from floe.table.evolution import SchemaEvolution
from floe.table.lake import Lake
from floe.table.table import Table
from floe.table.transaction import Transaction

# ALTER TABLE: the changes that Spark hands over, made in one commit.

Path = tuple[str, ...]

_CURRENT_SNAPSHOT: Final = "current-snapshot-id"
_PICK: Final = "cherry-pick-snapshot-id"


def alter(jvm: Jvm, table: Table, changes: Iterable[Any], evaluate: Evaluate) -> None:
    """Make the changes of an ALTER TABLE statement."""
    set_properties: dict[str, str] = {}
    removed: list[str] = []
    columns: list[tuple[str, Any]] = []
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
                columns.append((name, change))
    with table.transaction() as transaction:
        _change_properties(transaction, set_properties, removed)
        if columns:
            evolution = transaction.evolve(case_sensitive=jvm.is_case_sensitive)
            for name, change in columns:
                _change_column(jvm, evolution, name, change, evaluate)


def _change_properties(transaction: Transaction, given: dict[str, str], removed: Sequence[str]) -> None:
    for name in (SORT_ORDER, IDENTIFIER_FIELDS):
        if name in given or name in removed:
            statement = "WRITE ORDERED BY …" if name == SORT_ORDER else "SET IDENTIFIER FIELDS …"
            raise InvalidInput(f"{name} is not a property", hint=f"use ALTER TABLE … {statement}")
    own = dict(given)
    if (version := own.pop(FORMAT_VERSION.name, None)) is not None:
        transaction.upgrade(_number(FORMAT_VERSION.name, version))
    if (location := own.pop(LOCATION, None)) is not None:
        transaction.set_location(location)
    if own:
        transaction.set_properties({k: v for k, v in own.items() if k not in (_CURRENT_SNAPSHOT, _PICK)})
    if removed:
        transaction.remove_properties(*removed)
    if (current := own.get(_CURRENT_SNAPSHOT)) is not None:
        transaction.set_current(_number(_CURRENT_SNAPSHOT, current))
    if (picked := own.get(_PICK)) is not None:
        transaction.cherry_pick(_number(_PICK, picked))


def _number(name: str, text: str) -> int:
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
                **_place(jvm, path, change.position()),
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
            evolution.move_column(path, **_place(jvm, path, change.position()))
        case "UpdateColumnDefaultValue":
            sql = change.newDefaultValue()
            type_ = evolution.schema.resolve(path, case_sensitive=jvm.is_case_sensitive).field.type
            evolution.set_default(path, evaluate(sql, type_) if sql else None)
        case _:
            raise UnsupportedFeature(f"Floe does not know this change of a table: {kind}")


def _place(jvm: Jvm, path: Path, position: Any) -> dict[str, Any]:
    """Where a column goes: nowhere in particular, first, or behind another one of the same struct."""
    if position is None:
        return {}
    if jvm.simple_name(position) == "First":
        return {"first": True}
    return {"after": (*path[:-1], position.column())}


_SPARKS_OWN = frozenset({"owner"})
"""Properties that Spark gives to every new namespace."""


class SparkCatalog(LakeViews, LakeFunctions, LakeProcedures, StagingTableCatalog, SupportsNamespaces, Rewritable):
    """The catalog of a lake in Spark sessions."""

    def __init__(self, jvm: Jvm, name: str, lake: Lake) -> None:
        super().__init__(jvm)
        self._name = name
        self.lake = lake
        self._loaded: WeakValueDictionary[tuple[str, ...], Table] = WeakValueDictionary()
        """The tables that plans of Spark still hold."""

    def title(self) -> str:
        """What plans show."""
        return f"Floe catalog {self._name}"

    def name(self) -> str:
        """The catalog's name in the session."""
        return self._name

    def defaultNamespace(self) -> Any:
        """Where `USE lake` leads, as the setting `spark.sql.catalog.lake.default-namespace` says."""
        asked = DEFAULT_NAMESPACE.read(self._set())
        return self.jvm.strings([] if not asked else asked.split("."))

    def useNullableQuerySchema(self) -> bool:
        """Whether tables made of queries may have nulls everywhere, as the setting of that name says."""
        return NULLABLE_QUERY_SCHEMA.read(self._set())

    def capabilities(self) -> Any:
        """Columns may have defaults."""
        kind = "org.apache.spark.sql.connector.catalog.TableCatalogCapability"
        return self.jvm.set([self.jvm.constant(kind, "SUPPORT_COLUMN_DEFAULT_VALUE")])

    # namespaces --------------------------------------------------------------------------------------------------

    def listNamespaces(self, *parent: Any) -> Any:
        """The outermost namespaces, or those below one."""
        above = self.jvm.read_strings(parent[0]) if parent else ()
        with self._telling(above):
            return self.jvm.string_lists(self.lake.catalog.namespaces(above))

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether there is such a namespace."""
        name = self.jvm.read_strings(namespace)
        return not name or self.lake.namespace_exists(name)

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """The properties of a namespace."""
        name = self.jvm.read_strings(namespace)
        with self._telling(name):
            return self.jvm.map(self.lake.namespace_properties(name))

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        """Make a namespace."""
        name, given = self.jvm.read_strings(namespace), self.jvm.read_map(properties)
        if Capability.NAMESPACE_PROPERTIES not in self.lake.capabilities:
            given = {key: value for key, value in given.items() if key not in _SPARKS_OWN}
        with self._telling(name):
            self.lake.create_namespace(name, given or None)

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Change the properties of a namespace."""
        name = self.jvm.read_strings(namespace)
        given, removed = {}, []
        for change in changes:
            if self.jvm.simple_name(change) == "SetProperty":
                given[change.property()] = change.value()
            else:
                removed.append(change.property())
        with self._telling(name):
            self.lake.update_namespace(name, given, remove=removed)

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Remove a namespace, with what is in it if that was asked for."""
        name = self.jvm.read_strings(namespace)
        if not self.lake.namespace_exists(name):
            return False
        with self._telling(name):
            self.lake.drop_namespace(name, cascade=cascade)
        return True

    def rewritten(self, node: Any) -> Any:
        """What carries out ANALYZE TABLES."""
        name = self.jvm.read_seq(node.child().namespace())
        self.lake.namespace_properties(name)  # so that one that is not there is told
        return analysis_of_all(self.jvm, ".".join((self._name, *name)))

    # tables ------------------------------------------------------------------------------------------------------

    def listTables(self, namespace: Any) -> Any:
        """The tables of a namespace."""
        name = self.jvm.read_strings(namespace)
        with self._telling(name):
            return self.jvm.identifiers(self.lake.catalog.tables(name))

    def tableExists(self, identifier: Any) -> bool:
        """Whether there is such a table, or a metadata table or state of one."""
        return self._find(self.jvm.read_identifier(identifier)) is not None

    def loadTable(self, identifier: Any, *how: Any) -> Any:
        """A table, perhaps as of a version or a time, perhaps for writing."""
        name = self.jvm.read_identifier(identifier)
        found = self.find_table(name, *how)
        if found is None and self.jvm.version < HAS_VIEWS:
            found = self.find_view(name)
        if found is None:
            self.check_metadata_table(name)
            raise self._error(NoSuchTable("there is no such table"), name)
        return found

    def find_table(self, name: tuple[str, ...], *how: Any) -> SparkTable | MetadataTable | ChangesTable | None:
        """The table that `loadTable` gives, if there is one."""
        found = self._find(name)
        if found is None:
            return None
        selected, table = found
        as_of = self._as_of(*how)
        if not as_of.is_now:
            if not selected.as_of.is_now:
                raise InvalidInput(
                    f"the name says {selected.as_of} already, so there can be no AS OF too", table=".".join(name)
                )
            selected = Selected(selected.table, as_of, None, selected.metadata_table)
        changing = takes_any_columns(table.metadata) and changes_rows(self.jvm, how)
        return metadata_or_data_table(self.jvm, (self._name, *name), table, selected, changes_rows=changing)

    def createTable(self, identifier: Any, *definition: Any) -> Any:
        """Make a table."""
        name = self.jvm.read_identifier(identifier)
        with self._telling_of_table(name):
            made = self._definition(name, definition)
            make_room(self.lake, self._name, name)
            table = self.lake.create_table(name, **made.arguments())
        return self._table(name, table)

    def stageCreate(self, identifier: Any, *definition: Any) -> Any:
        """A table that is made together with its rows."""
        return self._stage(identifier, definition, replacing=False)

    def stageReplace(self, identifier: Any, *definition: Any) -> Any:
        """A table that takes another one's place, together with its rows."""
        name = self.jvm.read_identifier(identifier)
        if not self.lake.table_exists(name):
            raise self._error(NoSuchTable("there is no such table"), name)
        return self._stage(identifier, definition, replacing=True)

    def stageCreateOrReplace(self, identifier: Any, *definition: Any) -> Any:
        """One or the other."""
        return self._stage(identifier, definition, replacing=True)

    def _stage(self, identifier: Any, definition: Sequence[Any], *, replacing: bool) -> StagedSparkTable:
        name = self.jvm.read_identifier(identifier)
        with self._telling_of_table(name):
            made = self._definition(name, definition)
            make_room(self.lake, self._name, name)
            transaction = self.lake.create_table_transaction(name, **made.arguments(), or_replace=replacing)
        return StagedSparkTable(self.jvm, (self._name, *name), transaction)

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Any:
        """Make a table like another: of ours, also its order, format version and properties."""
        like = proxy_of(source)
        if not isinstance(like, SparkTable):
            return self.createTable(identifier, info)
        name = self.jvm.read_identifier(identifier)
        given = self.jvm.read_map(info.properties())
        with self._telling_of_table(name):
            made = table_like(like.table, given)
            make_room(self.lake, self._name, name)
            table = self.lake.create_table(name, **made.arguments())
        return self._table(name, table)

    def alterTable(self, identifier: Any, changes: Any) -> Any:
        """Change a table."""
        name = self.jvm.read_identifier(identifier)
        with self._telling_of_table(name):
            table = self.lake.table(name)
            alter(self.jvm, table, changes, self.evaluate)
        return self._table(name, table)

    def dropTable(self, identifier: Any) -> bool:
        """Remove a table; its files stay."""
        return self._drop(identifier, purge=False)

    def purgeTable(self, identifier: Any) -> bool:
        """Remove a table with its files."""
        return self._drop(identifier, purge=True)

    def _drop(self, identifier: Any, *, purge: bool) -> bool:
        name = self.jvm.read_identifier(identifier)
        try:
            self.lake.drop_table(name, purge=purge)
        except (NoSuchTable, NoSuchNamespace):
            return False
        return True

    def renameTable(self, old: Any, new: Any) -> None:
        """Give a table another name."""
        before = self.jvm.read_identifier(old)
        after = self.new_name(before, self.jvm.read_identifier(new))
        try:
            self.lake.rename_table(before, after)
        except NoSuchTable as error:
            raise self._error(error, before) from None
        except TableAlreadyExists as error:
            raise self._error(error, after) from None

    # the insides -------------------------------------------------------------------------------------------------

    def _table(self, name: Sequence[str], table: Table) -> SparkTable:
        return SparkTable(self.jvm, (self._name, *name), table, Selected(tuple(name)))

    def _find(self, name: tuple[str, ...]) -> tuple[Selected, Table] | None:
        """The first meaning of a name for which there is a table."""
        for reading in name_candidates(name):
            try:
                return reading, self._load(reading.table)
            except (NoSuchTable, NoSuchNamespace):
                continue
            except InvalidInput:
                if reading.table == name:
                    raise
        return None

    def _load(self, identifier: tuple[str, ...]) -> Table:
        """The table as it is now.

        Spark loads a table several times for one statement. Loads go through one pointer, which reads where the current
        metadata is, and parses the file only if it is not the one that it has parsed before.
        """
        earlier = self._loaded.get(identifier)
        try:
            table = self.lake.table(identifier) if earlier is None else Table.load(earlier.commit_target.pointer)
        except NoSuchTable:
            if earlier is None:
                raise
            table = self.lake.table(identifier)  # for the hint of its error
        self._loaded[identifier] = table
        return table

    def _as_of(self, *how: Any) -> AsOf:
        """What the further arguments of `loadTable` say: a version, microseconds, privileges, or a context of these."""
        for found in how:
            if isinstance(found, str):
                return version_as_of(found)
            if isinstance(found, int):
                return AsOf(timestamp_ms=found // 1000)
            if self.jvm.simple_name(found) == "TableContext":
                travel = found.timeTravel()
                if travel.isPresent():
                    return self._travelled(travel.get())
        return AsOf()

    def _travelled(self, travel: Any) -> AsOf:
        kind = self.jvm.simple_name(travel)
        if "Version" in kind:
            return version_as_of(travel.version())
        return AsOf(timestamp_ms=travel.micros() // 1000)

    def _definition(self, name: Sequence[str], given: Sequence[Any]) -> NewTable:
        """What CREATE TABLE says; the shape of the arguments differs between versions of Spark."""
        if len(given) == 1:
            columns, partitions, properties = given[0].columns(), given[0].partitions(), given[0].properties()
        else:
            columns, partitions, properties = given
        known = with_defaults(self.jvm, self._name, "table", self.jvm.read_map(properties))
        if LOCATION in known and _is_same(known[LOCATION], self.lake.catalog.default_location(tuple(name))):
            del known[LOCATION]  # which Spark spells in its own way
        return new_table(
            self.jvm.read_columns(columns),
            [transform.toString() for transform in partitions],
            known,
            self.evaluate,
            case_sensitive=self.jvm.is_case_sensitive,
        )

    def _set(self) -> dict[str, str]:
        """What is set below the catalog's name."""
        return self.jvm.settings_below(f"{CATALOG_PREFIX}{self._name}.")

    def evaluate(self, sql: str, type_: Type) -> Any:
        """The value of a SQL expression, as a value of a column's type: Spark computes it."""
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
    def _telling(self, name: Sequence[str]) -> Iterator[None]:
        """Errors about this namespace are told as Spark's own."""
        try:
            yield
        except FloeError as error:
            raise declared_error(self.jvm, error, name) or error from None

    @contextmanager
    def _telling_of_table(self, name: Sequence[str]) -> Iterator[None]:
        """Errors about this table, or its namespace, are told as Spark's own."""
        try:
            yield
        except FloeError as error:
            raise self._error(error, name) from None

    def _error(self, error: FloeError, name: Sequence[str]) -> Exception:
        about = name[:-1] if isinstance(error, NoSuchNamespace) else name
        return declared_error(self.jvm, error, about) or error


def _is_same(one: str, other: str) -> bool:
    return parse(one.rstrip("/")) == parse(other.rstrip("/"))
