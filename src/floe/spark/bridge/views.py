"""Views in Spark: conversion of a view to the class of this Spark's version, and the statements on views.

From 4.2 on Spark has views in catalogs (`ViewCatalog`). Before, only its own catalog has views; but Spark accepts the
class of that catalog's tables from any catalog, so a view is passed as a `V1Table`. For these versions, Floe runs the
statements on views itself: `parse_view_statement` reads them with Spark's parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from floe.spark.bridge.exceptions import JavaError, to_python
from floe.spark.bridge.jvm import Jvm

HAS_VIEWS: Final = (4, 2)
"""The first version of Spark whose catalogs can have views."""

_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog."
_CATALOG_TABLE: Final = (
    "identifier", "tableType", "storage", "schema", "provider", "partitionColumnNames", "bucketSpec", "owner",
    "createTime", "lastAccessTime", "createVersion", "properties", "stats", "viewText", "comment", "collation",
    "unsupportedFeatures", "tracksPartitionsInCatalog", "schemaPreservesCase", "ignoredProperties", "viewOriginalText",
)  # fmt: skip
"""The arguments of `CatalogTable` in Spark 4.0 and 4.1, in order."""


def query_settings(jvm: Jvm) -> dict[str, str]:
    """The settings of the active session that affect queries.

    Spark wants them with a view. Iceberg does not store any, so a view runs with those of its reader, as with Java.
    """
    helper = jvm.module("org.apache.spark.sql.execution.command.ViewHelper")
    conf = jvm.active_session().sessionState().conf()
    method = next(m for m in helper.getClass().getDeclaredMethods() if m.getName() == "sqlConfigsToProps")
    method.setAccessible(True)
    settings = method.invoke(helper, jvm.array("java.lang.Object", [conf, ""][: method.getParameterCount()]))
    return {key.removeprefix("view.sqlConfig."): value for key, value in jvm.read_scala_map(settings).items()}


def spark_view(
    jvm: Jvm,
    name: Sequence[str],
    *,
    query: str,
    columns: Any,
    query_columns: Sequence[str],
    catalog: str,
    namespace: Sequence[str],
    properties: Mapping[str, str],
    schema_mode: str | None,
) -> Any:
    """Create the object that represents a view in this version of Spark: a `View`, or a `V1Table` before 4.2.

    Names in the query are resolved in `catalog` and `namespace`; `columns` is a schema's JSON.
    """
    if jvm.version < HAS_VIEWS:
        table = _catalog_table(
            jvm, name, query, columns, query_columns, (catalog, *namespace), dict(properties), schema_mode
        )
        return jvm.sql("connector.catalog.V1Table")(table)
    builder = jvm.sql("connector.catalog.View$Builder")()
    builder = builder.withColumns(jvm.columns(columns)).withProperties(jvm.map(properties)).withQueryText(query)
    builder = builder.withCurrentCatalog(catalog).withCurrentNamespace(jvm.strings(namespace))
    builder = builder.withSqlConfigs(jvm.map(query_settings(jvm))).withSchemaMode(schema_mode)
    return builder.withQueryColumnNames(jvm.strings(query_columns)).build()


def read_view(jvm: Jvm, view: Any) -> dict[str, Any]:
    """The contents of a `View` that Spark passes to a catalog, by the parameter names of `spark_view`."""
    return {
        "query": view.queryText(),
        "columns": jvm.read_columns(view.columns()),
        "query_columns": jvm.read_strings(view.queryColumnNames()),
        "catalog": view.currentCatalog(),
        "namespace": jvm.read_strings(view.currentNamespace()),
        "properties": jvm.read_map(view.properties()),
        "schema_mode": view.schemaMode(),
    }


def _catalog_table(
    jvm: Jvm,
    name: Sequence[str],
    query: str,
    columns: Any,
    query_columns: Sequence[str],
    catalog_and_namespace: Sequence[str],
    properties: dict[str, str],
    schema_mode: str | None,
) -> Any:
    """The `CatalogTable` of a view: Spark's own catalog stores the context of the query in numbered properties."""
    stored = {**properties, "view.catalogAndNamespace.numParts": str(len(catalog_and_namespace))}
    stored |= {f"view.catalogAndNamespace.part.{n}": part for n, part in enumerate(catalog_and_namespace)}
    if query_columns:
        stored["view.query.out.numCols"] = str(len(query_columns))
        stored |= {f"view.query.out.col.{n}": column for n, column in enumerate(query_columns)}
    stored |= {f"view.sqlConfig.{key}": value for key, value in query_settings(jvm).items()}
    if schema_mode is not None:
        stored["view.schemaMode"] = schema_mode
    module = jvm.module(_CATALOG + "CatalogTable")
    fields = {
        "identifier": jvm.sql("catalyst.TableIdentifier")(name[-1], jvm.some(name[-2])),
        "tableType": jvm.module(_CATALOG + "CatalogTableType").VIEW(),
        "storage": jvm.module(_CATALOG + "CatalogStorageFormat").empty(),
        "schema": jvm.data_type(columns),
        "properties": jvm.scala_map(stored),
        "viewText": jvm.some(query),
        "viewOriginalText": jvm.some(query),
        "comment": jvm.some(properties["comment"]) if "comment" in properties else jvm.none,
    }
    arguments = [
        fields[name] if name in fields else getattr(module, f"apply$default${n}")()
        for n, name in enumerate(_CATALOG_TABLE, start=1)
    ]
    return module.apply(*arguments)


# Statements on views --------------------------------------------------------------------------------------------------

Name: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateView:
    """`CREATE [OR REPLACE] VIEW [IF NOT EXISTS] … AS query`."""

    name: Name
    query: str
    columns: tuple[tuple[str, str | None], ...]
    """Names and comments; empty if the columns have the names of the query."""

    properties: Mapping[str, str]
    schema_mode: str
    if_not_exists: bool
    replace: bool


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """`ALTER VIEW … AS query`."""

    name: Name
    query: str


@dataclass(frozen=True, slots=True)
class SetProperties:
    """`ALTER VIEW … SET TBLPROPERTIES`."""

    name: Name
    properties: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class UnsetProperties:
    """`ALTER VIEW … UNSET TBLPROPERTIES`."""

    name: Name
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameView:
    """`ALTER VIEW … RENAME TO …`."""

    name: Name
    new_name: Name


@dataclass(frozen=True, slots=True)
class DropView:
    """`DROP VIEW [IF EXISTS] …`."""

    name: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class ShowViews:
    """`SHOW VIEWS [IN namespace] [LIKE pattern]`."""

    name: Name | None
    """The namespace; None for the current one."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """`SHOW CREATE TABLE …`, of a view or of a table."""

    name: Name


@dataclass(frozen=True, slots=True)
class ShowExtended:
    """`SHOW TABLE EXTENDED [IN namespace] LIKE pattern`."""

    name: Name | None
    """The namespace; None for the current one."""

    pattern: str


ViewStatement: TypeAlias = (
    CreateView
    | AlterQuery
    | SetProperties
    | UnsetProperties
    | RenameView
    | DropView
    | ShowViews
    | ShowCreate
    | ShowExtended
)


def parse_view_statement(jvm: Jvm, session: SparkSession, text: str) -> ViewStatement | None:
    """The statement on a view that a text is; None for other statements and for invalid SQL."""
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except ParseException:
        return None
    try:
        return _statement(jvm, plan)
    except _AlreadyResolved:
        return None


class _AlreadyResolved(Exception):
    """The name in the plan is resolved already, by a parser that another extension has injected into the session."""


def _statement(jvm: Jvm, plan: Any) -> ViewStatement | None:
    match jvm.simple_name(plan):
        case "CreateView":
            properties = jvm.read_scala_map(plan.properties())
            if (comment := _option(plan.comment())) is not None:
                properties["comment"] = comment
            return CreateView(
                _name(jvm, plan.child()),
                plan.originalText().get(),
                tuple((pair._1(), _option(pair._2())) for pair in jvm.read_seq(plan.userSpecifiedColumns())),
                properties,
                plan.viewSchemaMode().toString(),
                plan.allowExisting(),
                plan.replace(),
            )
        case "AlterViewAs":
            return AlterQuery(_name(jvm, plan.child()), plan.originalText())
        case "SetViewProperties":
            return SetProperties(_name(jvm, plan.child()), jvm.read_scala_map(plan.properties()))
        case "UnsetViewProperties":
            return UnsetProperties(_name(jvm, plan.child()), tuple(jvm.read_seq(plan.propertyKeys())))
        case "RenameTable" if plan.isView():
            return RenameView(_name(jvm, plan.child()), tuple(jvm.read_seq(plan.newName())))
        case "DropView":
            return DropView(_name(jvm, plan.child()), plan.ifExists())
        case "ShowViews":
            return ShowViews(_name(jvm, plan.namespace()) or None, _option(plan.pattern()))
        case "ShowTablesExtended":
            return ShowExtended(_name(jvm, plan.namespace()) or None, plan.pattern())
        case "ShowCreateTable":
            return ShowCreate(_name(jvm, plan.child()))
        case _:
            return None


def is_temporary(jvm: Jvm, session: SparkSession, name: Name) -> bool:
    """Whether a name is that of a temporary view, which takes precedence over views of catalogs."""
    manager = session._jsparkSession.sessionState().catalogManager()
    return bool(manager.v1SessionCatalog().isTempView(jvm.seq(name)))


def check_query(jvm: Jvm, name: Name, query: DataFrame, columns: Sequence[str]) -> None:
    """Raise Spark's errors for a query that a view cannot have.

    It may not use temporary views or functions, and its columns must have names, unless the statement has a list of
    column names, which must have as many as the query.
    """
    java_query: Any = query
    plan = java_query._jdf.queryExecution().analyzed()
    identifier = jvm.sql("catalyst.TableIdentifier")(name[-1], jvm.some(name[-2] if len(name) > 1 else ""))
    helper = jvm.module("org.apache.spark.sql.execution.command.ViewHelper")
    helper.verifyTemporaryObjectsNotExists(False, identifier, plan, jvm.seq([]))
    if not columns:
        helper.verifyAutoGeneratedAliasesNotExists(plan, False, identifier)
    count = len(query.columns)
    if columns and len(columns) != count:
        errors = jvm.module("org.apache.spark.sql.errors.QueryCompilationErrors")
        method = f"cannotCreateView{'TooMany' if len(columns) < count else 'NotEnough'}ColumnsError"
        error = getattr(errors, method)(identifier, jvm.seq(columns), plan)
        raise to_python(JavaError("", error))


def _name(jvm: Jvm, node: Any) -> Name:
    """The name in an unresolved node; empty for the current namespace."""
    match jvm.simple_name(node):
        case "UnresolvedIdentifier":
            return tuple(jvm.read_seq(node.nameParts()))
        case "":  # the Scala object `CurrentNamespace`
            return ()
        case "UnresolvedView" | "UnresolvedTableOrView" | "UnresolvedTable" | "UnresolvedNamespace":
            return tuple(jvm.read_seq(node.multipartIdentifier()))
        case _:
            raise _AlreadyResolved


def _option(option: Any) -> Any:
    """The value of a Scala `Option`, or None."""
    return option.get() if option.isDefined() else None
