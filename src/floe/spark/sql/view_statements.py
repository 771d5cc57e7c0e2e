"""Statements about views, run by Floe where Spark itself has views in its own catalog only (before 4.2).

SHOW TABLE EXTENDED is Spark's on every version, and leaves views out: they are added here.
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
    defined,
    with_properties,
)
from floe.spark.schemas import quoted
from floe.spark.settings import with_defaults
from floe.sql.printing import name_text
from floe.table.lake import Lake

Query = Callable[[str], DataFrame]
"""Spark's own `sql`."""

_LISTED = "namespace STRING, viewName STRING, isTemporary BOOLEAN"


class Place:
    """A name within a lake, and where names of the session are looked for."""

    def __init__(self, lake: Lake, catalog: str, name: tuple[str, ...], current: tuple[str, ...]) -> None:
        self.lake, self.catalog, self.name, self.current = lake, catalog, name, current


def run_view_statement(
    jvm: Jvm, session: SparkSession, query: Query, place: Place, statement: ViewStatement
) -> DataFrame | None:
    """Run the statement; rows only for SHOW."""
    lake, name = place.lake, place.name
    try:
        match statement:
            case ShowViews():
                return _show(jvm, session, place, statement.pattern)
            case ShowCreate():
                return session.createDataFrame([(_statement(place),)], "createtab_stmt STRING")
            case CreateView():
                _create(jvm, query, place, statement)
            case AlterQuery():
                view = lake.view(name)
                known = defined(view)
                made = _definition(jvm, query, place, statement.query, (), known.properties, known.schema_mode)
                change_view(view, made)
            case SetProperties():
                view = lake.view(name)
                check_not_reserved(statement.properties, view)
                with_properties(view, statement.properties, [])
            case UnsetProperties():
                view = lake.view(name)
                check_not_reserved(dict.fromkeys(statement.keys, ""), view)
                with_properties(view, {}, list(statement.keys))
            case RenameView():
                lake.rename_view(name, _new_name(place, statement.new_name))
            case DropView():
                lake.drop_view(name, if_exists=statement.if_exists)
    except FloeError as error:
        about = name[:-1] if isinstance(error, NoSuchNamespace) else name
        told = declared_error(jvm, error, about)
        raise AnalysisException(str(error)) if told is None else to_python(told) from None
    return None


def _create(jvm: Jvm, query: Query, place: Place, statement: CreateView) -> None:
    lake, name = place.lake, place.name
    if statement.if_not_exists and (lake.view_exists(name) or lake.table_exists(name)):
        return
    made = _definition(
        jvm, query, place, statement.query, statement.columns, statement.properties, statement.schema_mode
    )
    made = replace(made, properties=with_defaults(jvm, place.catalog, "view", made.properties))
    try:
        if not lake.namespace_exists(name[:-1]):
            raise no_such_namespace(place.catalog, name[:-1])
        (create_or_replace_view if statement.replace else create_view)(lake, name, made)
    except ViewAlreadyExists:
        if lake.table_exists(name):
            raise TableAlreadyExists("there is a table of that name") from None
        if not statement.if_not_exists:
            raise


def _definition(
    jvm: Jvm,
    query: Query,
    place: Place,
    text: str,
    columns: Sequence[tuple[str, str | None]],
    properties: Any,
    schema_mode: str | None,
) -> ViewDefinition:
    analyzed = query(text)
    check_query(jvm, place.name, analyzed, [column for column, _ in columns])
    schema = analyzed.schema.jsonValue()
    own = tuple(field["name"] for field in schema["fields"])
    for field, (column, comment) in zip(schema["fields"], columns, strict=False):
        field["name"] = column
        field["metadata"] = {} if comment is None else {"comment": comment}
    catalog, *namespace = place.current
    found = ViewDefinition(text, schema, own, catalog, tuple(namespace), dict(properties), schema_mode)
    if schema_mode == "EVOLUTION":
        found = replace(found, query_columns=())
    return replace(found, catalog=None) if catalog == place.catalog else found


def _show(jvm: Jvm, session: SparkSession, place: Place, pattern: str | None) -> DataFrame:
    found = [view[-1] for view in place.lake.catalog.views(place.name)]
    if pattern is not None:
        found = jvm.matching(found, pattern)
    rows = [(".".join(place.name), name, False) for name in found]
    return session.createDataFrame(rows, _LISTED)


def show_extended(jvm: Jvm, session: SparkSession, query: Query, text: str, place: Place, pattern: str) -> DataFrame:
    """The rows of SHOW TABLE EXTENDED with those of the views, behind the tables."""
    frame = query(text)
    rows = [tuple(row) for row in frame.collect()]
    namespace = ".".join(map(name_text, place.name))
    names = jvm.matching([view[-1] for view in place.lake.catalog.views(place.name)], pattern)
    views = [(namespace, name, False, _information(jvm, place, (*place.name, name))) for name in names]
    of_tables = [row for row in rows if not row[2]]
    return session.createDataFrame([*of_tables, *views, *(row for row in rows if row[2])], frame.schema)


def _information(jvm: Jvm, place: Place, name: tuple[str, ...]) -> str:
    """What there is to know about a view, as Spark tells it of a table."""
    definition = defined(place.lake.view(name))
    properties = definition.properties
    own = sorted(f"{key}={value}" for key, value in properties.items() if key not in NOT_SHOWN)
    told = {
        "Catalog": place.catalog,
        "Namespace": ".".join(map(name_text, name[:-1])),
        "Table": name[-1],
        "Type": "VIEW",
        "Comment": properties.get("comment"),
        "Location": properties["location"],
        "Provider": properties["provider"],
        "Owner": properties.get("owner"),
        "Table Properties": f"[{', '.join(own)}]" if own else None,
        "View Text": definition.query,
        "View Catalog and Namespace": ".".join(
            map(name_text, (definition.catalog or place.catalog, *definition.namespace))
        ),
        "Schema": jvm.data_type(definition.columns).treeString(),
    }
    return "".join(f"{key}: {value}\n" for key, value in told.items() if value is not None)


def _statement(place: Place) -> str:
    """A statement that makes the view again."""
    view = place.lake.view(place.name)
    definition = defined(view)
    columns = [
        f"{name_text(field.name)}{'' if field.doc is None else ' COMMENT ' + quoted(field.doc)}"
        for field in view.schema.fields
    ]
    shown = {key: value for key, value in definition.properties.items() if key not in NOT_SHOWN}
    comment = definition.properties.get("comment")
    properties = ",\n  ".join(f"{quoted(key)} = {quoted(shown[key])}" for key in sorted(shown))
    name = ".".join(map(name_text, (place.catalog, *place.name)))
    return "".join(
        [
            f"CREATE VIEW {name} (\n  " + ",\n  ".join(columns) + ")\n",
            "" if comment is None else f"COMMENT {quoted(comment)}\n",
            f"TBLPROPERTIES (\n  {properties})\n" if properties else "",
            f"WITH SCHEMA {definition.schema_mode}\nAS {definition.query}\n",
        ]
    )


def _new_name(place: Place, given: tuple[str, ...]) -> tuple[str, ...]:
    if len(given) == 1:
        return (*place.name[:-1], *given)
    return given[1:] if given[0] == place.catalog and len(given) > 2 else given
