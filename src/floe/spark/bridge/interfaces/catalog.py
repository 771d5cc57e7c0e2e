"""Interfaces of catalogs: tables, views, namespaces, functions and procedures.

Methods without a default in Java raise an error here (`missing`); the catalog overrides those that it implements.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import CONNECTOR, Proxy, missing


class CatalogPlugin(Proxy):
    """The base of all catalogs."""

    interface = CONNECTOR + "catalog.CatalogPlugin"

    def initialize(self, name: str, options: Any) -> None:
        """Do nothing: Spark calls it for catalogs that it creates itself."""

    def name(self) -> str:
        """The name of the catalog in the session."""
        return str(missing(self, "name"))

    def defaultNamespace(self) -> Any:
        """The namespace that `USE catalog` selects, as a `String[]`."""
        return self.jvm.strings([])


class TableCatalog(CatalogPlugin):
    """A catalog that has tables."""

    interface = CONNECTOR + "catalog.TableCatalog"

    def capabilities(self) -> Any:
        """The features of CREATE TABLE that the catalog supports, as a `Set`."""
        return self.jvm.set([])

    def listTables(self, namespace: Any) -> Any:
        """List the tables of a namespace, as an `Identifier[]`."""
        return missing(self, "listTables")

    def listTableSummaries(self, namespace: Any) -> Any:
        """List the tables of a namespace with their types, as a `TableSummary[]`."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        summaries = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(CONNECTOR + "catalog.TableSummary", summaries)

    def loadTable(self, identifier: Any, *how: Any) -> Any:
        """Load a table, perhaps as of a version or a timestamp, perhaps for writing."""
        return missing(self, "loadTable")

    def loadChangelog(self, *how: Any) -> Any:
        """Load the changes of a table (`SELECT … FROM t CHANGES …`)."""
        return missing(self, "loadChangelog")

    def tableStateOptionKeys(self) -> Any:
        """The read options that select another state of the table."""
        return self.jvm.empty_set

    def changelogStateOptionKeys(self) -> Any:
        """The read options that select another range of changes."""
        return self.jvm.empty_set

    def invalidateTable(self, identifier: Any) -> None:
        """Do nothing: nothing is cached."""

    def tableExists(self, identifier: Any) -> bool:
        """Whether the table exists."""
        return bool(missing(self, "tableExists"))

    def createTable(self, identifier: Any, *definition: Any) -> Any:
        """Create a table."""
        return missing(self, "createTable")

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Any:
        """Create a table with the definition of another."""
        return missing(self, "createTableLike")

    def useNullableQuerySchema(self) -> bool:
        """Whether the columns of tables created by CTAS are all optional."""
        return True

    def alterTable(self, identifier: Any, changes: Any) -> Any:
        """Alter a table by a `TableChange[]`."""
        return missing(self, "alterTable")

    def dropTable(self, identifier: Any) -> bool:
        """Drop a table; False if there is none."""
        return bool(missing(self, "dropTable"))

    def purgeTable(self, identifier: Any) -> bool:
        """Drop a table and delete its files; False if there is none."""
        return bool(missing(self, "purgeTable"))

    def renameTable(self, old: Any, new: Any) -> None:
        """Rename a table."""
        missing(self, "renameTable")


class StagingTableCatalog(TableCatalog):
    """A catalog that creates or replaces a table together with its rows."""

    interface = CONNECTOR + "catalog.StagingTableCatalog"

    def stageCreate(self, identifier: Any, *definition: Any) -> Any:
        """A table that is created when it is committed."""
        return missing(self, "stageCreate")

    def stageReplace(self, identifier: Any, *definition: Any) -> Any:
        """A table that replaces another when it is committed."""
        return missing(self, "stageReplace")

    def stageCreateOrReplace(self, identifier: Any, *definition: Any) -> Any:
        """A table that is created, or replaces another, when it is committed."""
        return missing(self, "stageCreateOrReplace")

    def supportedCustomMetrics(self) -> Any:
        """No custom metrics are supported."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])


class ViewCatalog(CatalogPlugin):
    """A catalog that has views."""

    interface = CONNECTOR + "catalog.ViewCatalog"
    since = (4, 2)  # older versions have another interface of this name, which Spark never calls

    def listViews(self, namespace: Any) -> Any:
        """List the views of a namespace, as an `Identifier[]`."""
        return missing(self, "listViews")

    def loadView(self, identifier: Any) -> Any:
        """Load a view."""
        return missing(self, "loadView")

    def viewExists(self, identifier: Any) -> bool:
        """Whether the view exists."""
        return bool(missing(self, "viewExists"))

    def invalidateView(self, identifier: Any) -> None:
        """Do nothing: nothing is cached."""

    def createView(self, identifier: Any, view: Any) -> Any:
        """Create a view."""
        return missing(self, "createView")

    def replaceView(self, identifier: Any, view: Any) -> Any:
        """Replace an existing view."""
        return missing(self, "replaceView")

    def createOrReplaceView(self, identifier: Any, view: Any) -> Any:
        """Create a view, or replace an existing one."""
        return missing(self, "createOrReplaceView")

    def dropView(self, identifier: Any) -> bool:
        """Drop a view; False if there is none."""
        return bool(missing(self, "dropView"))

    def renameView(self, old: Any, new: Any) -> None:
        """Rename a view."""
        missing(self, "renameView")


class RelationCatalog(TableCatalog, ViewCatalog):
    """A catalog whose tables and views share one set of names."""

    interface = CONNECTOR + "catalog.RelationCatalog"
    since = (4, 2)

    def loadRelation(self, identifier: Any) -> Any:
        """Load a table or a view."""
        return missing(self, "loadRelation")

    def listRelationSummaries(self, namespace: Any) -> Any:
        """List the tables of a namespace with their types: SHOW TABLES uses it, and does not list views of Iceberg."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        summaries = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(CONNECTOR + "catalog.TableSummary", summaries)


class SupportsNamespaces(CatalogPlugin):
    """A catalog that has namespaces."""

    interface = CONNECTOR + "catalog.SupportsNamespaces"

    def listNamespaces(self, *parent: Any) -> Any:
        """List the top-level namespaces, or those below a parent, as a `String[][]`."""
        return missing(self, "listNamespaces")

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether the namespace exists."""
        return bool(missing(self, "namespaceExists"))

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """Load the properties of a namespace, as a `Map`."""
        return missing(self, "loadNamespaceMetadata")

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        """Create a namespace."""
        missing(self, "createNamespace")

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Alter the properties of a namespace by a `NamespaceChange[]`."""
        missing(self, "alterNamespace")

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Drop a namespace; False if there is none."""
        return bool(missing(self, "dropNamespace"))


# functions ------------------------------------------------------------------------------------------------------------


class FunctionCatalog(CatalogPlugin):
    """A catalog that has functions."""

    interface = CONNECTOR + "catalog.FunctionCatalog"

    def listFunctions(self, namespace: Any) -> Any:
        """List the functions of a namespace, as an `Identifier[]`."""
        return missing(self, "listFunctions")

    def loadFunction(self, identifier: Any) -> Any:
        """Load a function, as an `UnboundFunction`."""
        return missing(self, "loadFunction")

    def functionExists(self, identifier: Any) -> bool:
        """Whether the function exists."""
        return bool(missing(self, "functionExists"))


class UnboundFunction(Proxy):
    """A function before the types of its arguments are known."""

    interface = CONNECTOR + "catalog.functions.UnboundFunction"

    def name(self) -> str:
        """The name of the function."""
        return str(missing(self, "name"))

    def bind(self, arguments: Any) -> Any:
        """The function for arguments of the types in a `StructType`."""
        return missing(self, "bind")

    def description(self) -> str:
        """A description of the function."""
        return str(missing(self, "description"))


# procedures -----------------------------------------------------------------------------------------------------------


class ProcedureCatalog(CatalogPlugin):
    """A catalog that has procedures."""

    interface = CONNECTOR + "catalog.ProcedureCatalog"

    def loadProcedure(self, identifier: Any) -> Any:
        """Load a procedure, as an `UnboundProcedure`."""
        return missing(self, "loadProcedure")

    def listProcedures(self, namespace: Any) -> Any:
        """List the procedures of a namespace, as an `Identifier[]`."""
        return missing(self, "listProcedures")


class Procedure(Proxy):
    """The base of bound and unbound procedures."""

    interface = CONNECTOR + "catalog.procedures.Procedure"

    def name(self) -> str:
        """The name of the procedure."""
        return str(missing(self, "name"))

    def description(self) -> str:
        """A description of the procedure."""
        return self.title()


class UnboundProcedure(Procedure):
    """A procedure before the types of its arguments are known."""

    interface = CONNECTOR + "catalog.procedures.UnboundProcedure"

    def bind(self, schema: Any) -> Any:
        """The procedure for arguments of the types in a `StructType`."""
        return missing(self, "bind")


class BoundProcedure(Procedure):
    """A procedure that can be called."""

    interface = CONNECTOR + "catalog.procedures.BoundProcedure"

    def parameters(self) -> Any:
        """The parameters, as a `ProcedureParameter[]`."""
        return missing(self, "parameters")

    def isDeterministic(self) -> bool:
        """Whether the same arguments always give the same result."""
        return False

    def call(self, row: Any) -> Any:
        """Call the procedure with the arguments in an `InternalRow`; returns an iterator of scans."""
        return missing(self, "call")
