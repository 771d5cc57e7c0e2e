"""Statements about views, run by Floe where Spark has views in its own catalog only (before 4.2).

Spark runs SHOW TABLE EXTENDED itself, in all versions, but leaves out views: they are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from floe.errors import FloeError, NoSuchNamespace, TableAlreadyExists, ViewAlreadyExists
from floe.spark.bridge.exceptions import declared_error, to_python
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.views import (
    AlterQuery,
    CreateView,
    DropView,
    RenameView,
    SetProperties,
    ShowCreate,
    ShowViews,
    UnsetProperties,
    ViewStatement,
    check_query,
)
from floe.spark.catalog.definitions import no_such_namespace
from floe.spark.catalog.views import (
    NOT_SHOWN,
    ViewDefinition,
    change_view,
    check_not_reserved,
    create_or_replace_view,
    create_view,
    update_properties,
    view_definition,
)
from floe.spark.schemas import string_literal
from floe.spark.settings import with_defaults
from floe.sql.printing import name_text
from floe.table.lake import Lake

Query = Callable[[str], DataFrame]
"""Spark's own `sql`."""

_LISTED = "namespace STRING, viewName STRING, isTemporary BOOLEAN"


class ResolvedName:
    """A name within a lake; `current` is the current catalog and namespace of the session."""

    def __init__(self, lake: Lake, catalog: str, name: tuple[str, ...], current: tuple[str, ...]) -> None:
        self.lake, self.catalog, self.name, self.current = lake, catalog, name, current


def run_view_statement(
    jvm: Jvm, session: SparkSession, query: Query, target: ResolvedName, statement: ViewStatement
) -> DataFrame | None:
    """Run a statement; only SHOW statements return rows."""
    lake, name = target.lake, target.name
    try:
        match statement:
            case ShowViews():
                return _show(jvm, session, target, statement.pattern)
            case ShowCreate():
                return session.createDataFrame([(_create_statement(target),)], "createtab_stmt STRING")
            case CreateView():
                _create(jvm, query, target, statement)
            case AlterQuery():
                view = lake.view(name)
                current = view_definition(view)
                change_view(
                    view,
                    _definition(jvm, query, target, statement.query, (), current.properties, current.schema_mode),
                )
            case SetProperties():
                view = lake.view(name)
                check_not_reserved(statement.properties, view)
                update_properties(view, statement.properties, [])
            case UnsetProperties():
                view = lake.view(name)
                check_not_reserved(dict.fromkeys(statement.keys, ""), view)
                update_properties(view, {}, list(statement.keys))
            case RenameView():
                lake.rename_view(name, _new_name(target, statement.new_name))
            case DropView():
                lake.drop_view(name, if_exists=statement.if_exists)
    except FloeError as error:
        about = name[:-1] if isinstance(error, NoSuchNamespace) else name
        declared = declared_error(jvm, error, about)
        raise AnalysisException(str(error)) if declared is None else to_python(declared) from None
    return None


def _create(jvm: Jvm, query: Query, target: ResolvedName, statement: CreateView) -> None:
    lake, name = target.lake, target.name
    if statement.if_not_exists and (lake.view_exists(name) or lake.table_exists(name)):
        return
    definition = _definition(
        jvm, query, target, statement.query, statement.columns, statement.properties, statement.schema_mode
    )
    properties = with_defaults(jvm, target.catalog, "view", definition.properties)
    definition = replace(definition, properties=properties)
    try:
        if not lake.namespace_exists(name[:-1]):
            raise no_such_namespace(target.catalog, name[:-1])
        (create_or_replace_view if statement.replace else create_view)(lake, name, definition)
    except ViewAlreadyExists:
        if lake.table_exists(name):
            raise TableAlreadyExists("there is a table of that name") from None
        if not statement.if_not_exists:
            raise


def _definition(
    jvm: Jvm,
    query: Query,
    target: ResolvedName,
    text: str,
    columns: Sequence[tuple[str, str | None]],
    properties: Any,
    schema_mode: str | None,
) -> ViewDefinition:
    analyzed = query(text)
    check_query(jvm, target.name, analyzed, [column for column, _ in columns])
    schema = analyzed.schema.jsonValue()
    query_columns = tuple(field["name"] for field in schema["fields"])
    for field, (column, comment) in zip(schema["fields"], columns, strict=False):
        field["name"] = column
        field["metadata"] = {} if comment is None else {"comment": comment}
    catalog, *namespace = target.current
    definition = ViewDefinition(text, schema, query_columns, catalog, tuple(namespace), dict(properties), schema_mode)
    if schema_mode == "EVOLUTION":
        definition = replace(definition, query_columns=())
    return replace(definition, catalog=None) if catalog == target.catalog else definition


def _show(jvm: Jvm, session: SparkSession, target: ResolvedName, pattern: str | None) -> DataFrame:
    names = [view[-1] for view in target.lake.catalog.views(target.name)]
    if pattern is not None:
        names = jvm.filter_names(names, pattern)
    rows = [(".".join(target.name), name, False) for name in names]
    return session.createDataFrame(rows, _LISTED)


def show_extended(
    jvm: Jvm, session: SparkSession, query: Query, text: str, target: ResolvedName, pattern: str
) -> DataFrame:
    """The rows of SHOW TABLE EXTENDED, with rows for views after those of tables."""
    frame = query(text)
    rows = [tuple(row) for row in frame.collect()]
    namespace = ".".join(map(name_text, target.name))
    names = jvm.filter_names([view[-1] for view in target.lake.catalog.views(target.name)], pattern)
    views = [(namespace, name, False, _information(jvm, target, (*target.name, name))) for name in names]
    tables = [row for row in rows if not row[2]]
    return session.createDataFrame([*tables, *views, *(row for row in rows if row[2])], frame.schema)


def _information(jvm: Jvm, target: ResolvedName, name: tuple[str, ...]) -> str:
    """The description of a view, in the format that Spark has for tables."""
    definition = view_definition(target.lake.view(name))
    properties = definition.properties
    shown = sorted(f"{key}={value}" for key, value in properties.items() if key not in NOT_SHOWN)
    description = {
        "Catalog": target.catalog,
        "Namespace": ".".join(map(name_text, name[:-1])),
        "Table": name[-1],
        "Type": "VIEW",
        "Comment": properties.get("comment"),
        "Location": properties["location"],
        "Provider": properties["provider"],
        "Owner": properties.get("owner"),
        "Table Properties": f"[{', '.join(shown)}]" if shown else None,
        "View Text": definition.query,
        "View Catalog and Namespace": ".".join(
            map(name_text, (definition.catalog or target.catalog, *definition.namespace))
        ),
        "Schema": jvm.data_type(definition.columns).treeString(),
    }
    return "".join(f"{key}: {value}\n" for key, value in description.items() if value is not None)


def _create_statement(target: ResolvedName) -> str:
    """The CREATE VIEW statement of a view."""
    view = target.lake.view(target.name)
    definition = view_definition(view)
    columns = [
        f"{name_text(field.name)}{'' if field.doc is None else ' COMMENT ' + string_literal(field.doc)}"
        for field in view.schema.fields
    ]
    shown = {key: value for key, value in definition.properties.items() if key not in NOT_SHOWN}
    comment = definition.properties.get("comment")
    properties = ",\n  ".join(f"{string_literal(key)} = {string_literal(shown[key])}" for key in sorted(shown))
    name = ".".join(map(name_text, (target.catalog, *target.name)))
    return "".join(
        [
            f"CREATE VIEW {name} (\n  " + ",\n  ".join(columns) + ")\n",
            "" if comment is None else f"COMMENT {string_literal(comment)}\n",
            f"TBLPROPERTIES (\n  {properties})\n" if properties else "",
            f"WITH SCHEMA {definition.schema_mode}\nAS {definition.query}\n",
        ]
    )


def _new_name(target: ResolvedName, name: tuple[str, ...]) -> tuple[str, ...]:
    """The name that RENAME TO means: without a namespace, one in the namespace of the view."""
    if len(name) == 1:
        return (*target.name[:-1], *name)
    return name[1:] if name[0] == target.catalog and len(name) > 2 else name
