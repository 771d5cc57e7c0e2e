"""Views as Spark sees them, and as Iceberg stores them: the query's text, the columns, where its names are looked for.

Java's catalog keeps what Spark needs to know about the query's own columns in a property; so do we. A view that others
made without it is matched by the places of its columns. As with Java's, the property `location` of a statement that
makes a view is where its metadata files are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from floe.errors import UnsupportedFeature
from floe.spark.columns import SparkType, spark_schema, table_schema
from floe.spec.views.view_metadata import ViewMetadata
from floe.storage.locations import same_file
from floe.table.lake import Lake
from floe.table.view import View

__all__ = [
    "NOT_SHOWN",
    "ViewDefinition",
    "change_view",
    "check_not_reserved",
    "create_or_replace_view",
    "create_view",
    "defined",
    "with_properties",
]

QUERY_COLUMNS: Final = "spark.query-column-names"
"""Java's name for the columns that the query itself gives, with commas."""

SCHEMA_MODE: Final = "spark.schema-mode"
"""What `WITH SCHEMA …` says, unless it says what views do anyway."""

USUAL_MODE: Final = "COMPENSATION"
EVOLUTION: Final = "EVOLUTION"

_SHOWN: Final = ("provider", "location", "format-version", "table_type", "external", "is_managed_location")
"""Properties that Spark shows or adds, and that are none."""


NOT_SHOWN: Final = frozenset({*_SHOWN, "comment", "owner", "collation"})
"""Properties that SHOW CREATE TABLE says in other words, or not at all."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """What Spark knows about a view."""

    query: str
    columns: SparkType
    query_columns: tuple[str, ...]
    """The names of the columns that the query gives; none if the view takes them as they come."""

    catalog: str | None
    """Where names without a catalog are looked for; None is the view's own catalog."""

    namespace: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    schema_mode: str | None = None


def defined(view: View) -> ViewDefinition:
    """The definition of a view that is there."""
    metadata = view.metadata
    columns, mode = spark_schema(view.schema.fields), metadata.properties.get(SCHEMA_MODE, USUAL_MODE)
    names = tuple(one["name"] for one in columns["fields"])
    query = view.sql("spark")
    if mode == EVOLUTION:
        query_columns: tuple[str, ...] = ()
    elif (known := _split(metadata.properties.get(QUERY_COLUMNS), len(names))) is not None:
        query_columns = known
    else:
        query, query_columns = _by_place(query, names), names
    version = metadata.current_version
    return ViewDefinition(
        query,
        columns,
        query_columns,
        version.default_catalog,
        version.default_namespace,
        shown_properties(metadata),
        mode,
    )


def shown_properties(metadata: ViewMetadata) -> dict[str, str]:
    """The properties that Spark shows: the view's own, and what else there is to know about it."""
    hidden = (QUERY_COLUMNS, SCHEMA_MODE, *_SHOWN)
    own = {key: value for key, value in metadata.properties.items() if key not in hidden}
    return {**_known(metadata), **own}


def _known(metadata: ViewMetadata) -> dict[str, str]:
    """What is shown as properties of a view that are none."""
    return {"provider": "iceberg", "location": metadata.location, "format-version": str(metadata.format_version)}


def create_view(lake: Lake, name: tuple[str, ...], definition: ViewDefinition) -> View:
    """Store a new view."""
    return lake.create_view(
        name,
        definition.query,
        schema=table_schema(definition.columns),
        default_namespace=definition.namespace,
        default_catalog=definition.catalog,
        properties=_stored_properties(definition),
        location=_other_location(definition, lake.catalog.default_location(name)),
    )


def create_or_replace_view(lake: Lake, name: tuple[str, ...], definition: ViewDefinition) -> View:
    """Store a view; one that is there keeps its history, and what the definition does not say (as Java's do)."""
    if not lake.view_exists(name):
        return create_view(lake, name, definition)
    view = lake.view(name)
    given = _stored_properties(definition)
    removed = [key for key in (QUERY_COLUMNS, SCHEMA_MODE) if key in view.properties and key not in given]
    location = _other_location(definition, view.metadata.location)
    return _replaced(view, definition, given, removed, location)


def change_view(view: View, definition: ViewDefinition) -> View:
    """Make a view what the definition says: one commit, and no new version if only the properties differ."""
    check_not_reserved({**_known(view.metadata), **definition.properties}, view)
    given = _stored_properties(definition)
    removed = [key for key in view.properties if key not in given]
    known = defined(view)
    same = (known.query, known.columns, known.catalog, known.namespace) == (
        definition.query,
        definition.columns,
        definition.catalog,
        definition.namespace,
    )
    if same:
        return with_properties(view, given, removed)
    return _replaced(view, definition, given, removed)


def _replaced(
    view: View, definition: ViewDefinition, given: Mapping[str, str], removed: list[str], location: str | None = None
) -> View:
    return view.replace(
        definition.query,
        schema=table_schema(definition.columns),
        default_namespace=definition.namespace,
        default_catalog=definition.catalog,
        properties=given,
        removed=removed,
        location=location,
    )


def _other_location(definition: ViewDefinition, usual: str) -> str | None:
    """The place that is asked for, unless the view is there anyway."""
    asked = definition.properties.get("location")
    return None if asked is None or same_file(asked.rstrip("/"), usual.rstrip("/")) else asked


def check_not_reserved(properties: Mapping[str, str], view: View) -> None:
    """Raise if properties are to say something that only the view's metadata can."""
    for key, value in _known(view.metadata).items():
        if key in properties and properties[key] != value:
            raise UnsupportedFeature(
                f"{key} is a reserved property, which cannot be set",
                hint="CREATE OR REPLACE VIEW … TBLPROPERTIES ('location' = …) moves a view"
                if key == "location"
                else "",
                view=view.name,
                is_now=value,
            )


def with_properties(view: View, given: Mapping[str, str], removed: list[str]) -> View:
    """Set and remove properties."""
    changed = {key: value for key, value in given.items() if view.properties.get(key) != value}
    if changed:
        view.set_properties(changed)
    return view.remove_properties(*removed) if removed else view


def _stored_properties(definition: ViewDefinition) -> dict[str, str]:
    stored = {key: value for key, value in definition.properties.items() if key not in _SHOWN}
    if definition.query_columns and not any("," in name for name in definition.query_columns):
        stored[QUERY_COLUMNS] = ",".join(definition.query_columns)
    if definition.schema_mode not in (None, USUAL_MODE):
        stored[SCHEMA_MODE] = str(definition.schema_mode)
    return stored


def _split(text: str | None, count: int) -> tuple[str, ...] | None:
    names = () if text is None else tuple(text.split(","))
    return names if len(names) == count else None


def _by_place(query: str, names: tuple[str, ...]) -> str:
    """The query with its columns named by their places."""
    quoted = ", ".join("`" + name.replace("`", "``") + "`" for name in names)
    return f"SELECT * FROM (\n{query}\n) AS view({quoted})"
