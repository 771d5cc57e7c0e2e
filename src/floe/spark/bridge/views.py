"""Views on their way to and from Spark, whose class for them is another one before 4.2.

Up to 4.1 Spark reads views of its own catalog only. But it reads whatever a catalog gives it as a table of the kind
that its own catalog has, so a view is given as that.

Statements about views as Spark's parser reads them, for versions of Spark that run them on its own catalog only.
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
"""The first Spark whose catalogs can have views."""

_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog."
_CATALOG_TABLE: Final = (
    "identifier", "tableType", "storage", "schema", "provider", "partitionColumnNames", "bucketSpec", "owner",
    "createTime", "lastAccessTime", "createVersion", "properties", "stats", "viewText", "comment", "collation",
    "unsupportedFeatures", "tracksPartitionsInCatalog", "schemaPreservesCase", "ignoredProperties", "viewOriginalText",
)  # fmt: skip
"""What `CatalogTable` is made of in Spark 4.0 and 4.1."""


def session_settings(jvm: Jvm) -> dict[str, str]:
    """The settings of the session at work that matter to a query: a view has none of its own, as with Java."""
    helper = jvm.module("org.apache.spark.sql.execution.command.ViewHelper")
    conf = jvm.active_session().sessionState().conf()
    method = next(m for m in helper.getClass().getDeclaredMethods() if m.getName() == "sqlConfigsToProps")
    method.setAccessible(True)
    found = method.invoke(helper, jvm.array("java.lang.Object", [conf, ""][: method.getParameterCount()]))
    prefix = "view.sqlConfig."
    entries = jvm.read_scala_map(found)
    return {key.removeprefix(prefix): value for key, value in entries.items()}


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
    """The view as what this Spark takes for one; `catalog` and `namespace` are where names are looked for."""
    if jvm.version < HAS_VIEWS:
        found = _catalog_table(
            jvm, name, query, columns, query_columns, (catalog, *namespace), dict(properties), schema_mode
        )
        return jvm.sql("connector.catalog.V1Table")(found)
    builder = jvm.sql("connector.catalog.View$Builder")()
    builder = builder.withColumns(jvm.columns(columns)).withProperties(jvm.map(properties)).withQueryText(query)
    builder = builder.withCurrentCatalog(catalog).withCurrentNamespace(jvm.strings(namespace))
    builder = builder.withSqlConfigs(jvm.map(session_settings(jvm))).withSchemaMode(schema_mode)
    return builder.withQueryColumnNames(jvm.strings(query_columns)).build()


def read_view(jvm: Jvm, view: Any) -> dict[str, Any]:
    """What Spark wants stored as a view, by the names of `spark_view`."""
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
    place: Sequence[str],
    properties: dict[str, str],
    schema_mode: str | None,
) -> Any:
    """A view of Spark's own catalog, which keeps what belongs to the query in numbered properties."""
    stored = {**properties, "view.catalogAndNamespace.numParts": str(len(place))}
    stored |= {f"view.catalogAndNamespace.part.{n}": part for n, part in enumerate(place)}
    if query_columns:
        stored["view.query.out.numCols"] = str(len(query_columns))
        stored |= {f"view.query.out.col.{n}": column for n, column in enumerate(query_columns)}
    stored |= {f"view.sqlConfig.{key}": value for key, value in session_settings(jvm).items()}
    if schema_mode is not None:
        stored["view.schemaMode"] = schema_mode
    module = jvm.module(_CATALOG + "CatalogTable")
    given = {
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
        given[field] if field in given else getattr(module, f"apply$default${n}")()
        for n, field in enumerate(_CATALOG_TABLE, start=1)
    ]
    return module.apply(*arguments)


# Statements about views as Spark's parser reads them, for versions of Spark that run them on its own catalog only.

Name: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateView:
    """`CREATE [OR REPLACE] VIEW [IF NOT EXISTS] … AS query`."""

    name: Name
    query: str
    columns: tuple[tuple[str, str | None], ...]
    """Names and comments; none if the query's own names are taken."""

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
    """The namespace; None is the current one."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """`SHOW CREATE TABLE …`, of a view or of a table."""

    name: Name


@dataclass(frozen=True, slots=True)
class ShowExtended:
    """`SHOW TABLE EXTENDED [IN namespace] LIKE pattern`."""

    name: Name | None
    """The namespace; None is the current one."""

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
    """The statement, if it is one of these; what Spark's parser refuses is none."""
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except ParseException:
        return None
    try:
        return _statement(jvm, plan)
    except _ResolvedByOthers:
        return None


class _ResolvedByOthers(Exception):
    """A parser that others put into the session knows the name already."""


def _statement(jvm: Jvm, plan: Any) -> ViewStatement | None:
    match jvm.simple_name(plan):
        case "CreateView":
            properties = jvm.read_scala_map(plan.properties())
            if (comment := _option(plan.comment())) is not None:
                properties["comment"] = comment
            return CreateView(
                _parts(jvm, plan.child()),
                plan.originalText().get(),
                tuple((pair._1(), _option(pair._2())) for pair in jvm.read_seq(plan.userSpecifiedColumns())),
                properties,
                plan.viewSchemaMode().toString(),
                plan.allowExisting(),
                plan.replace(),
            )
        case "AlterViewAs":
            return AlterQuery(_parts(jvm, plan.child()), plan.originalText())
        case "SetViewProperties":
            return SetProperties(_parts(jvm, plan.child()), jvm.read_scala_map(plan.properties()))
        case "UnsetViewProperties":
            return UnsetProperties(_parts(jvm, plan.child()), tuple(jvm.read_seq(plan.propertyKeys())))
        case "RenameTable" if plan.isView():
            return RenameView(_parts(jvm, plan.child()), tuple(jvm.read_seq(plan.newName())))
        case "DropView":
            return DropView(_parts(jvm, plan.child()), plan.ifExists())
        case "ShowViews":
            return ShowViews(_parts(jvm, plan.namespace()) or None, _option(plan.pattern()))
        case "ShowTablesExtended":
            return ShowExtended(_parts(jvm, plan.namespace()) or None, plan.pattern())
        case "ShowCreateTable":
            return ShowCreate(_parts(jvm, plan.child()))
        case _:
            return None


def is_temporary(jvm: Jvm, session: SparkSession, name: Name) -> bool:
    """Whether a name is that of a temporary view, which comes before all others."""
    manager = session._jsparkSession.sessionState().catalogManager()
    return bool(manager.v1SessionCatalog().isTempView(jvm.seq(name)))


def check_query(jvm: Jvm, name: Name, query: DataFrame, columns: Sequence[str]) -> None:
    """Raise as Spark does for queries that no view may have: temporary things, columns without a name or too many.

    A list of columns names those of the query that have no name of their own.
    """
    java_query: Any = query
    plan = java_query._jdf.queryExecution().analyzed()
    identifier = jvm.sql("catalyst.TableIdentifier")(name[-1], jvm.some(name[-2] if len(name) > 1 else ""))
    helper = jvm.module("org.apache.spark.sql.execution.command.ViewHelper")
    helper.verifyTemporaryObjectsNotExists(False, identifier, plan, jvm.seq([]))
    if not columns:
        helper.verifyAutoGeneratedAliasesNotExists(plan, False, identifier)
    given = len(query.columns)
    if columns and len(columns) != given:
        errors = jvm.module("org.apache.spark.sql.errors.QueryCompilationErrors")
        how = "TooMany" if len(columns) < given else "NotEnough"
        error = getattr(errors, f"cannotCreateView{how}ColumnsError")(identifier, jvm.seq(columns), plan)
        raise to_python(JavaError("", error))


def _parts(jvm: Jvm, node: Any) -> Name:
    """The name in a node that is not resolved yet; none for the current namespace."""
    match jvm.simple_name(node):
        case "UnresolvedIdentifier":
            return tuple(jvm.read_seq(node.nameParts()))
        case "":  # an object of Scala's: the current namespace
            return ()
        case "UnresolvedView" | "UnresolvedTableOrView" | "UnresolvedTable" | "UnresolvedNamespace":
            return tuple(jvm.read_seq(node.multipartIdentifier()))
        case _:
            raise _ResolvedByOthers


def _option(found: Any) -> Any:
    return found.get() if found.isDefined() else None
