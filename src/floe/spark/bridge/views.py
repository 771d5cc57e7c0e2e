"""Views on their way to and from Spark, whose class for them is another one before 4.2.

Up to 4.1 Spark reads views of its own catalog only. But it reads whatever a catalog gives it as a table of the kind
that its own catalog has, so a view is given as that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from floe.spark.bridge.jvm import Jvm

__all__ = ["HAS_VIEWS", "read_view", "session_settings", "spark_view"]

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
