"""Catalogs, as Spark asks for them.

Functions of a catalog.

Procedures: `CALL lake.system.…`.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import CONNECTOR, Proxy, missing


class CatalogPlugin(Proxy):
    """A catalog of whatever kind."""

    interface = CONNECTOR + "catalog.CatalogPlugin"

    def initialize(self, name: str, options: Any) -> None:
        """Called by Spark for catalogs that it makes itself; ours are made."""

    def name(self) -> str:
        """The catalog's name in the session."""
        return str(missing(self, "name"))

    def defaultNamespace(self) -> Any:
        """Where `USE catalog` leads."""
        return self.jvm.strings([])


class TableCatalog(CatalogPlugin):
    """Tables by name."""

    interface = CONNECTOR + "catalog.TableCatalog"

    def capabilities(self) -> Any:
        """What the catalog takes in CREATE TABLE."""
        return self.jvm.set([])

    def listTables(self, namespace: Any) -> Any:
        """The tables of a namespace."""
        return missing(self, "listTables")

    def listTableSummaries(self, namespace: Any) -> Any:
        """The tables of a namespace, with what they are."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        found = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(CONNECTOR + "catalog.TableSummary", found)

    def loadTable(self, identifier: Any, *how: Any) -> Any:
        """A table, perhaps as of a version or a time, perhaps for writing."""
        return missing(self, "loadTable")

    def loadChangelog(self, *how: Any) -> Any:
        """The changes of a table (`SELECT … FROM t CHANGES …`)."""
        return missing(self, "loadChangelog")

    def tableStateOptionKeys(self) -> Any:
        """Options of reads that choose another state of the table."""
        return self.jvm.nothing

    def changelogStateOptionKeys(self) -> Any:
        """Options of reads that choose another state of the changes."""
        return self.jvm.nothing

    def invalidateTable(self, identifier: Any) -> None:
        """Nothing is cached."""

    def tableExists(self, identifier: Any) -> bool:
        """Whether there is such a table."""
        return bool(missing(self, "tableExists"))

    def createTable(self, identifier: Any, *definition: Any) -> Any:
        """Make a table."""
        return missing(self, "createTable")

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Any:
        """Make a table like another."""
        return missing(self, "createTableLike")

    def useNullableQuerySchema(self) -> bool:
        """Whether tables made of queries may have nulls everywhere."""
        return True

    def alterTable(self, identifier: Any, changes: Any) -> Any:
        """Change a table."""
        return missing(self, "alterTable")

    def dropTable(self, identifier: Any) -> bool:
        """Remove a table; False if there is none."""
        return bool(missing(self, "dropTable"))

    def purgeTable(self, identifier: Any) -> bool:
        """Remove a table with its files; False if there is none."""
        return bool(missing(self, "purgeTable"))

    def renameTable(self, old: Any, new: Any) -> None:
        """Give a table another name."""
        missing(self, "renameTable")


class StagingTableCatalog(TableCatalog):
    """Tables that are made, or replaced, together with their rows."""

    interface = CONNECTOR + "catalog.StagingTableCatalog"

    def stageCreate(self, identifier: Any, *definition: Any) -> Any:
        """A table that is made when it is committed."""
        return missing(self, "stageCreate")

    def stageReplace(self, identifier: Any, *definition: Any) -> Any:
        """A table that takes another one's place when it is committed."""
        return missing(self, "stageReplace")

    def stageCreateOrReplace(self, identifier: Any, *definition: Any) -> Any:
        """One or the other."""
        return missing(self, "stageCreateOrReplace")

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])


class ViewCatalog(CatalogPlugin):
    """Views by name."""

    interface = CONNECTOR + "catalog.ViewCatalog"
    since = (4, 2)  # older ones have another interface of this name, which Spark never calls

    def listViews(self, namespace: Any) -> Any:
        """The views of a namespace."""
        return missing(self, "listViews")

    def loadView(self, identifier: Any) -> Any:
        """A view."""
        return missing(self, "loadView")

    def viewExists(self, identifier: Any) -> bool:
        """Whether there is such a view."""
        return bool(missing(self, "viewExists"))

    def invalidateView(self, identifier: Any) -> None:
        """Nothing is cached."""

    def createView(self, identifier: Any, view: Any) -> Any:
        """Make a view."""
        return missing(self, "createView")

    def replaceView(self, identifier: Any, view: Any) -> Any:
        """Make a view another one."""
        return missing(self, "replaceView")

    def createOrReplaceView(self, identifier: Any, view: Any) -> Any:
        """One or the other."""
        return missing(self, "createOrReplaceView")

    def dropView(self, identifier: Any) -> bool:
        """Remove a view; False if there is none."""
        return bool(missing(self, "dropView"))

    def renameView(self, old: Any, new: Any) -> None:
        """Give a view another name."""
        missing(self, "renameView")


class RelationCatalog(TableCatalog, ViewCatalog):
    """Tables and views that share their names."""

    interface = CONNECTOR + "catalog.RelationCatalog"
    since = (4, 2)

    def loadRelation(self, identifier: Any) -> Any:
        """A table or a view."""
        return missing(self, "loadRelation")

    def listRelationSummaries(self, namespace: Any) -> Any:
        """The tables of a namespace, with what they are: SHOW TABLES asks for it, and lists no views of Iceberg."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        found = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(CONNECTOR + "catalog.TableSummary", found)


class SupportsNamespaces(CatalogPlugin):
    """Namespaces by name."""

    interface = CONNECTOR + "catalog.SupportsNamespaces"

    def listNamespaces(self, *parent: Any) -> Any:
        """The outermost namespaces, or those below one."""
        return missing(self, "listNamespaces")

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether there is such a namespace."""
        return bool(missing(self, "namespaceExists"))

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """The properties of a namespace."""
        return missing(self, "loadNamespaceMetadata")

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        """Make a namespace."""
        missing(self, "createNamespace")

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Change the properties of a namespace."""
        missing(self, "alterNamespace")

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Remove a namespace; False if there is none."""
        return bool(missing(self, "dropNamespace"))


# Functions of a catalog.


class FunctionCatalog(CatalogPlugin):
    """Functions by name."""

    interface = CONNECTOR + "catalog.FunctionCatalog"

    def listFunctions(self, namespace: Any) -> Any:
        """The functions of a namespace."""
        return missing(self, "listFunctions")

    def loadFunction(self, identifier: Any) -> Any:
        """A function."""
        return missing(self, "loadFunction")

    def functionExists(self, identifier: Any) -> bool:
        """Whether there is such a function."""
        return bool(missing(self, "functionExists"))


class UnboundFunction(Proxy):
    """A function whose arguments are not known yet."""

    interface = CONNECTOR + "catalog.functions.UnboundFunction"

    def name(self) -> str:
        """Its name."""
        return str(missing(self, "name"))

    def bind(self, arguments: Any) -> Any:
        """The function for arguments of these types."""
        return missing(self, "bind")

    def description(self) -> str:
        """What it does."""
        return str(missing(self, "description"))


# Procedures: `CALL lake.system.…`.


class ProcedureCatalog(CatalogPlugin):
    """Procedures by name."""

    interface = CONNECTOR + "catalog.ProcedureCatalog"

    def loadProcedure(self, identifier: Any) -> Any:
        """The procedure of a name."""
        return missing(self, "loadProcedure")

    def listProcedures(self, namespace: Any) -> Any:
        """The procedures of a namespace."""
        return missing(self, "listProcedures")


class Procedure(Proxy):
    """A procedure of whatever kind."""

    interface = CONNECTOR + "catalog.procedures.Procedure"

    def name(self) -> str:
        """Its name."""
        return str(missing(self, "name"))

    def description(self) -> str:
        """What it does, in words."""
        return self.title()


class UnboundProcedure(Procedure):
    """A procedure, before the types of its arguments are known."""

    interface = CONNECTOR + "catalog.procedures.UnboundProcedure"

    def bind(self, schema: Any) -> Any:
        """The procedure for arguments of these types."""
        return missing(self, "bind")


class BoundProcedure(Procedure):
    """A procedure that can be called."""

    interface = CONNECTOR + "catalog.procedures.BoundProcedure"

    def parameters(self) -> Any:
        """What it takes, as a `ProcedureParameter[]`."""
        return missing(self, "parameters")

    def isDeterministic(self) -> bool:
        """Whether it always does the same."""
        return False

    def call(self, row: Any) -> Any:
        """Do it; gives an iterator of scans."""
        return missing(self, "call")
