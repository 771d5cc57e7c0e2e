"""Interfaces of catalogs: tables, views, namespaces, functions and procedures.

Methods without a default in Java raise an error here (`unsupported`); the catalog overrides those that it implements.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import CONNECTOR, Proxy, unsupported


class CatalogPlugin(Proxy):
    """The base of all catalogs: Spark looks one up by the first part of an identifier."""

    interface = CONNECTOR + "catalog.CatalogPlugin"

    def initialize(self, name: str, options: Any) -> None:
        """Do nothing: Spark calls it only for catalogs that it creates itself, from a class name in the settings."""

    def name(self) -> str:
        """The name of the catalog in the session, with which Spark qualifies identifiers."""
        return str(unsupported(self, "name"))

    def defaultNamespace(self) -> Any:
        """The namespace that `USE catalog` selects, as a `String[]`; Spark completes identifiers without one."""
        return self.jvm.strings([])


class TableCatalog(CatalogPlugin):
    """A catalog that has tables."""

    interface = CONNECTOR + "catalog.TableCatalog"

    def capabilities(self) -> Any:
        """The features of CREATE TABLE that the catalog supports, as a `Set`; Spark rejects statements with others."""
        return self.jvm.set([])

    def listTables(self, namespace: Any) -> Any:
        """List the tables of a namespace for SHOW TABLES, as an `Identifier[]`."""
        return unsupported(self, "listTables")

    def listTableSummaries(self, namespace: Any) -> Any:
        """List the tables of a namespace with their types for SHOW TABLES, as a `TableSummary[]`."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        summaries = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(CONNECTOR + "catalog.TableSummary", summaries)

    def loadTable(self, identifier: Any, *version: Any) -> Any:
        """Load a table, as a `Table`; Spark resolves the names of tables in statements with it.

        There may be a second argument: a version, a timestamp, or the privileges of a write.
        """
        return unsupported(self, "loadTable")

    def loadChangelog(self, *arguments: Any) -> Any:
        """Load the changes of a table, for `SELECT … FROM t CHANGES …`."""
        return unsupported(self, "loadChangelog")

    def tableStateOptionKeys(self) -> Any:
        """The names of the read options that select another state of the table.

        Spark does not share one loaded table between references of a query that differ in them.
        """
        return self.jvm.empty_set

    def changelogStateOptionKeys(self) -> Any:
        """The names of the read options that select other changes; see `tableStateOptionKeys`."""
        return self.jvm.empty_set

    def invalidateTable(self, identifier: Any) -> None:
        """Do nothing: no tables are cached. Spark calls it for REFRESH TABLE and after some statements."""

    def tableExists(self, identifier: Any) -> bool:
        """Whether the table exists, for CREATE TABLE IF NOT EXISTS, DROP TABLE IF EXISTS and `tableExists`."""
        return bool(unsupported(self, "tableExists"))

    def createTable(self, identifier: Any, *definition: Any) -> Any:
        """Create a table for CREATE TABLE; returns it as a `Table`."""
        return unsupported(self, "createTable")

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Any:
        """Create a table with the definition of another, for CREATE TABLE … LIKE."""
        return unsupported(self, "createTableLike")

    def useNullableQuerySchema(self) -> bool:
        """Whether CREATE TABLE … AS SELECT makes all columns nullable, whatever the query says."""
        return True

    def alterTable(self, identifier: Any, changes: Any) -> Any:
        """Apply the `TableChange[]` of ALTER TABLE; returns the changed table as a `Table`."""
        return unsupported(self, "alterTable")

    def dropTable(self, identifier: Any) -> bool:
        """Drop a table for DROP TABLE; False if there is none, which Spark reports unless IF EXISTS is used."""
        return bool(unsupported(self, "dropTable"))

    def purgeTable(self, identifier: Any) -> bool:
        """Drop a table and delete its files for DROP TABLE … PURGE; False if there is none."""
        return bool(unsupported(self, "purgeTable"))

    def renameTable(self, old: Any, new: Any) -> None:
        """Rename a table for ALTER TABLE … RENAME TO."""
        unsupported(self, "renameTable")


class StagingTableCatalog(TableCatalog):
    """A catalog that creates or replaces a table together with its rows, for CREATE TABLE … AS SELECT."""

    interface = CONNECTOR + "catalog.StagingTableCatalog"

    def stageCreate(self, identifier: Any, *definition: Any) -> Any:
        """Stage a new table, as a `StagedTable`, which exists once Spark has committed it with its rows."""
        return unsupported(self, "stageCreate")

    def stageReplace(self, identifier: Any, *definition: Any) -> Any:
        """Stage a replacement of an existing table, as a `StagedTable`, for REPLACE TABLE."""
        return unsupported(self, "stageReplace")

    def stageCreateOrReplace(self, identifier: Any, *definition: Any) -> Any:
        """Stage a new table or a replacement, as a `StagedTable`, for CREATE OR REPLACE TABLE."""
        return unsupported(self, "stageCreateOrReplace")

    def supportedCustomMetrics(self) -> Any:
        """The metrics that Spark's UI shows for staged tables: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])


class ViewCatalog(CatalogPlugin):
    """A catalog that has views."""

    interface = CONNECTOR + "catalog.ViewCatalog"
    since = (4, 2)  # older versions have another interface of this name, which Spark never calls

    def listViews(self, namespace: Any) -> Any:
        """List the views of a namespace for SHOW VIEWS, as an `Identifier[]`."""
        return unsupported(self, "listViews")

    def loadView(self, identifier: Any) -> Any:
        """Load a view, as a `View`; Spark replaces the names of views in queries by their text with it."""
        return unsupported(self, "loadView")

    def viewExists(self, identifier: Any) -> bool:
        """Whether the view exists, for CREATE VIEW IF NOT EXISTS and DROP VIEW IF EXISTS."""
        return bool(unsupported(self, "viewExists"))

    def invalidateView(self, identifier: Any) -> None:
        """Do nothing: no views are cached."""

    def createView(self, identifier: Any, view: Any) -> Any:
        """Create a view for CREATE VIEW, from a `View`; returns the stored view."""
        return unsupported(self, "createView")

    def replaceView(self, identifier: Any, view: Any) -> Any:
        """Replace an existing view for ALTER VIEW, from a `View`; returns the stored view."""
        return unsupported(self, "replaceView")

    def createOrReplaceView(self, identifier: Any, view: Any) -> Any:
        """Create a view or replace an existing one, for CREATE OR REPLACE VIEW."""
        return unsupported(self, "createOrReplaceView")

    def dropView(self, identifier: Any) -> bool:
        """Drop a view for DROP VIEW; False if there is none, which Spark reports unless IF EXISTS is used."""
        return bool(unsupported(self, "dropView"))

    def renameView(self, old: Any, new: Any) -> None:
        """Rename a view for ALTER VIEW … RENAME TO."""
        unsupported(self, "renameView")


class RelationCatalog(TableCatalog, ViewCatalog):
    """A catalog whose tables and views share one set of names."""

    interface = CONNECTOR + "catalog.RelationCatalog"
    since = (4, 2)

    def loadRelation(self, identifier: Any) -> Any:
        """Load the table or view of a name; Spark resolves names in queries with one call instead of two."""
        return unsupported(self, "loadRelation")

    def listRelationSummaries(self, namespace: Any) -> Any:
        """List the tables of a namespace with their types, for SHOW TABLES; Iceberg's views are not listed there."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        summaries = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(CONNECTOR + "catalog.TableSummary", summaries)


class SupportsNamespaces(CatalogPlugin):
    """A catalog that has namespaces."""

    interface = CONNECTOR + "catalog.SupportsNamespaces"

    def listNamespaces(self, *parent: Any) -> Any:
        """List the top-level namespaces, or those below a parent, as a `String[][]`, for SHOW NAMESPACES."""
        return unsupported(self, "listNamespaces")

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether the namespace exists, for USE, and for IF EXISTS and IF NOT EXISTS."""
        return bool(unsupported(self, "namespaceExists"))

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """Load the properties of a namespace, as a `Map`, for DESCRIBE NAMESPACE."""
        return unsupported(self, "loadNamespaceMetadata")

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        """Create a namespace for CREATE NAMESPACE, with a `Map` of properties."""
        unsupported(self, "createNamespace")

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Apply the `NamespaceChange[]` of ALTER NAMESPACE to the properties of a namespace."""
        unsupported(self, "alterNamespace")

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Drop a namespace for DROP NAMESPACE, with its tables for CASCADE; False if there is none."""
        return bool(unsupported(self, "dropNamespace"))


# Functions ------------------------------------------------------------------------------------------------------------


class FunctionCatalog(CatalogPlugin):
    """A catalog that has functions."""

    interface = CONNECTOR + "catalog.FunctionCatalog"

    def listFunctions(self, namespace: Any) -> Any:
        """List the functions of a namespace for SHOW FUNCTIONS, as an `Identifier[]`."""
        return unsupported(self, "listFunctions")

    def loadFunction(self, identifier: Any) -> Any:
        """Load a function, as an `UnboundFunction`; Spark resolves calls in queries with it."""
        return unsupported(self, "loadFunction")

    def functionExists(self, identifier: Any) -> bool:
        """Whether the function exists; Spark asks before it reports an unknown function."""
        return bool(unsupported(self, "functionExists"))


class UnboundFunction(Proxy):
    """A function before the types of its arguments are known."""

    interface = CONNECTOR + "catalog.functions.UnboundFunction"

    def name(self) -> str:
        """The name of the function, for error messages."""
        return str(unsupported(self, "name"))

    def bind(self, arguments: Any) -> Any:
        """The function for arguments of the types in a `StructType`; Spark calls the result in the query."""
        return unsupported(self, "bind")

    def description(self) -> str:
        """The description of the function, for DESCRIBE FUNCTION and error messages."""
        return str(unsupported(self, "description"))


# Procedures -----------------------------------------------------------------------------------------------------------


class ProcedureCatalog(CatalogPlugin):
    """A catalog that has procedures."""

    interface = CONNECTOR + "catalog.ProcedureCatalog"

    def loadProcedure(self, identifier: Any) -> Any:
        """Load a procedure for CALL, as an `UnboundProcedure`."""
        return unsupported(self, "loadProcedure")

    def listProcedures(self, namespace: Any) -> Any:
        """List the procedures of a namespace for SHOW PROCEDURES, as an `Identifier[]`."""
        return unsupported(self, "listProcedures")


class Procedure(Proxy):
    """The base of bound and unbound procedures."""

    interface = CONNECTOR + "catalog.procedures.Procedure"

    def name(self) -> str:
        """The name of the procedure, for error messages."""
        return str(unsupported(self, "name"))

    def description(self) -> str:
        """The description of the procedure, for DESCRIBE PROCEDURE and EXPLAIN."""
        return self.title()


class UnboundProcedure(Procedure):
    """A procedure before the types of its arguments are known."""

    interface = CONNECTOR + "catalog.procedures.UnboundProcedure"

    def bind(self, schema: Any) -> Any:
        """The procedure for arguments of the types in a `StructType`, as a `BoundProcedure`."""
        return unsupported(self, "bind")


class BoundProcedure(Procedure):
    """A procedure that Spark can call."""

    interface = CONNECTOR + "catalog.procedures.BoundProcedure"

    def parameters(self) -> Any:
        """The parameters, as a `ProcedureParameter[]`; Spark binds and casts the arguments of CALL by them."""
        return unsupported(self, "parameters")

    def isDeterministic(self) -> bool:
        """Whether the same arguments always give the same result."""
        return False

    def call(self, row: Any) -> Any:
        """Run the procedure with the arguments in an `InternalRow`; returns an iterator of scans with the result."""
        return unsupported(self, "call")
