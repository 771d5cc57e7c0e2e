"""The views of a lake: their definitions, as Spark has them and as Iceberg stores them, and Spark's catalog of views.

`ViewDefinition` has the text of the query, the columns, and the catalog and namespace in which names are resolved. As
Java Iceberg does, the names of the query's own columns are stored in a property; the columns of a view without that
property are matched by position. The property `location` of CREATE VIEW is the folder of the view's metadata files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from floe.catalog.protocol import Capability
from floe.errors import (
    FloeError,
    InvalidInput,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    UnsupportedFeature,
    ViewAlreadyExists,
)
from floe.plan.metadata_tables.tables import NAMES
from floe.spark.bridge.exceptions import declared_error
from floe.spark.bridge.interfaces.catalog import RelationCatalog
from floe.spark.bridge.views import read_view, spark_view
from floe.spark.catalog.definitions import no_such_namespace
from floe.spark.names import CHANGES
from floe.spark.schemas import SparkType, spark_schema, table_schema
from floe.spark.settings import with_defaults
from floe.spec.properties import COMMENT, FORMAT_VERSION
from floe.spec.views.view_metadata import ViewMetadata
from floe.storage.locations import same_file
from floe.table.lake import Lake
from floe.table.view import View

# Definitions ----------------------------------------------------------------------------------------------------------

QUERY_COLUMNS: Final = "spark.query-column-names"
"""Java Iceberg's property for the names of the query's columns, separated by commas."""

SCHEMA_MODE: Final = "spark.schema-mode"
"""The property for the mode of `WITH SCHEMA …`, unless it is the default."""

DEFAULT_SCHEMA_MODE: Final = "COMPENSATION"
EVOLUTION: Final = "EVOLUTION"

_NOT_STORED: Final = ("provider", "location", FORMAT_VERSION.name, "table_type", "external", "is_managed_location")
"""Properties that Spark shows or adds, and that are not properties of a stored view."""

NOT_SHOWN: Final = frozenset({*_NOT_STORED, COMMENT.name, "owner", "collation"})
"""Properties that SHOW CREATE TABLE shows as other clauses, or not at all."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view as Spark defines it."""

    query: str
    columns: SparkType
    query_columns: tuple[str, ...]
    """The names of the query's own columns; empty if the view has the columns that the query has when it is read."""

    catalog: str | None
    """The catalog in which names without a catalog are resolved; None for that of the view."""

    namespace: tuple[str, ...]
    """The namespace in which names without a namespace are resolved."""

    properties: Mapping[str, str] = field(default_factory=dict)
    schema_mode: str | None = None
    """The mode of `WITH SCHEMA …`."""


def view_definition(view: View) -> ViewDefinition:
    """The definition of a stored view."""
    metadata = view.metadata
    columns, mode = spark_schema(view.schema.fields), metadata.properties.get(SCHEMA_MODE, DEFAULT_SCHEMA_MODE)
    names = tuple(column["name"] for column in columns["fields"])
    query = view.sql("spark")
    if mode == EVOLUTION:
        query_columns: tuple[str, ...] = ()
    elif (stored := _split_names(metadata.properties.get(QUERY_COLUMNS), len(names))) is not None:
        query_columns = stored
    else:
        query, query_columns = _name_by_position(query, names), names
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
    """The properties that Spark shows: the stored ones, and the reserved ones, which come from the metadata."""
    hidden = (QUERY_COLUMNS, SCHEMA_MODE, *_NOT_STORED)
    stored = {key: value for key, value in metadata.properties.items() if key not in hidden}
    return {**_reserved_properties(metadata), **stored}


def _reserved_properties(metadata: ViewMetadata) -> dict[str, str]:
    """The parts of a view's metadata that Spark shows as properties, and that cannot be set."""
    return {"provider": "iceberg", "location": metadata.location, FORMAT_VERSION.name: str(metadata.format_version)}


def create_view(lake: Lake, name: tuple[str, ...], definition: ViewDefinition) -> View:
    """Create a view."""
    return lake.create_view(
        name,
        definition.query,
        schema=table_schema(definition.columns),
        default_namespace=definition.namespace,
        default_catalog=definition.catalog,
        properties=_stored_properties(definition),
        location=_requested_location(definition, lake.catalog.default_location(name)),
    )


def create_or_replace_view(lake: Lake, name: tuple[str, ...], definition: ViewDefinition) -> View:
    """Create a view, or replace it.

    A replaced view keeps its history, and as in Java Iceberg the properties that the definition does not have.
    """
    if not lake.view_exists(name):
        return create_view(lake, name, definition)
    view = lake.view(name)
    properties = _stored_properties(definition)
    removed = [key for key in (QUERY_COLUMNS, SCHEMA_MODE) if key in view.properties and key not in properties]
    location = _requested_location(definition, view.metadata.location)
    return _replace_view(view, definition, properties, removed, location)


def change_view(view: View, definition: ViewDefinition) -> View:
    """Give a view exactly the definition, in one commit; there is no new version if only properties differ.

    Raises if the definition changes reserved properties.
    """
    check_not_reserved({**_reserved_properties(view.metadata), **definition.properties}, view)
    properties = _stored_properties(definition)
    removed = [key for key in view.properties if key not in properties]
    current = view_definition(view)
    same = (current.query, current.columns, current.catalog, current.namespace) == (
        definition.query,
        definition.columns,
        definition.catalog,
        definition.namespace,
    )
    if same:
        return update_properties(view, properties, removed)
    return _replace_view(view, definition, properties, removed)


def _replace_view(
    view: View,
    definition: ViewDefinition,
    properties: Mapping[str, str],
    removed: list[str],
    location: str | None = None,
) -> View:
    return view.replace(
        definition.query,
        schema=table_schema(definition.columns),
        default_namespace=definition.namespace,
        default_catalog=definition.catalog,
        properties=properties,
        removed=removed,
        location=location,
    )


def _requested_location(definition: ViewDefinition, default: str) -> str | None:
    """The location in the definition's properties; None if there is none, or if it is the default."""
    location = definition.properties.get("location")
    return None if location is None or same_file(location.rstrip("/"), default.rstrip("/")) else location


def check_not_reserved(properties: Mapping[str, str], view: View) -> None:
    """Raise if properties would change a reserved property of a view."""
    for key, value in _reserved_properties(view.metadata).items():
        if key in properties and properties[key] != value:
            raise UnsupportedFeature(
                f"{key} is a reserved property, which cannot be set",
                hint="CREATE OR REPLACE VIEW … TBLPROPERTIES ('location' = …) moves a view"
                if key == "location"
                else "",
                view=view.name,
                is_now=value,
            )


def update_properties(view: View, properties: Mapping[str, str], removed: list[str]) -> View:
    """Set and remove properties of a view; returns the view."""
    changed = {key: value for key, value in properties.items() if view.properties.get(key) != value}
    if changed:
        view.set_properties(changed)
    return view.remove_properties(*removed) if removed else view


def _stored_properties(definition: ViewDefinition) -> dict[str, str]:
    stored = {key: value for key, value in definition.properties.items() if key not in _NOT_STORED}
    if definition.query_columns and not any("," in name for name in definition.query_columns):
        stored[QUERY_COLUMNS] = ",".join(definition.query_columns)
    if definition.schema_mode not in (None, DEFAULT_SCHEMA_MODE):
        stored[SCHEMA_MODE] = str(definition.schema_mode)
    return stored


def _split_names(text: str | None, count: int) -> tuple[str, ...] | None:
    """The names in the property for query columns; None if there are not as many as the view has columns."""
    names = () if text is None else tuple(text.split(","))
    return names if len(names) == count else None


def _name_by_position(query: str, names: tuple[str, ...]) -> str:
    """A query that gives names to the columns of another by their positions."""
    quoted = ", ".join("`" + name.replace("`", "``") + "`" for name in names)
    return f"SELECT * FROM (\n{query}\n) AS view({quoted})"


# Spark's catalog of views ---------------------------------------------------------------------------------------------


class LakeViews(RelationCatalog):
    """The methods of a catalog for views."""

    _name: str
    lake: Lake

    def listViews(self, namespace: Any) -> Any:
        """List the views of a namespace; none if the lake has no views."""
        name = self.jvm.read_strings(namespace)
        try:
            return self.jvm.identifiers(self.lake.catalog.views(name) if self._has_views else ())
        except FloeError as error:
            raise declared_error(self.jvm, error, name) or error from None

    def viewExists(self, identifier: Any) -> bool:
        """Whether a view exists."""
        return self._has_views and self.lake.view_exists(self.jvm.read_identifier(identifier))

    def loadView(self, identifier: Any) -> Any:
        """Load a view."""
        name = self.jvm.read_identifier(identifier)
        view = self.find_view(name)
        if view is None:
            raise self._spark_error(NoSuchView("there is no such view"), name)
        return view

    def loadRelation(self, identifier: Any) -> Any:
        """Load a table or view."""
        name = self.jvm.read_identifier(identifier)
        relation = self.find_table(name) or self.find_view(name)
        if relation is None:
            self.check_metadata_table(name)
            raise self._spark_error(NoSuchTable("there is no such table or view"), name)
        return relation

    def createView(self, identifier: Any, view: Any) -> Any:
        """Create a view as Spark describes it; returns the description."""
        name = self.jvm.read_identifier(identifier)
        try:
            self._check_namespace(name)
            create_view(self.lake, name, self._new_definition(view))
        except FloeError as error:
            raise self._spark_error(error, name) from None
        return view

    def replaceView(self, identifier: Any, view: Any) -> Any:
        """Give a view another definition."""
        name = self.jvm.read_identifier(identifier)
        try:
            change_view(self.lake.view(name), self._read_definition(view))
        except FloeError as error:
            raise self._spark_error(error, name) from None
        return view

    def createOrReplaceView(self, identifier: Any, view: Any) -> Any:
        """Create a view, or replace it; a replaced view keeps properties that the statement does not set."""
        name = self.jvm.read_identifier(identifier)
        try:
            self._check_namespace(name)
            create_or_replace_view(self.lake, name, self._new_definition(view))
        except FloeError as error:
            raise self._spark_error(error, name) from None
        return view

    def dropView(self, identifier: Any) -> bool:
        """Drop a view; False if there is none."""
        try:
            self.lake.drop_view(self.jvm.read_identifier(identifier))
        except (NoSuchView, NoSuchNamespace):
            return False
        return True

    def renameView(self, old: Any, new: Any) -> None:
        """Rename a view."""
        old_name = self.jvm.read_identifier(old)
        new_name = self.new_name(old_name, self.jvm.read_identifier(new))
        try:
            self.lake.rename_view(old_name, new_name)
        except NoSuchView as error:
            raise self._spark_error(error, old_name) from None
        except ViewAlreadyExists as error:
            raise self._spark_error(error, new_name) from None

    def new_name(self, old_name: tuple[str, ...], written: tuple[str, ...]) -> tuple[str, ...]:
        """The identifier that RENAME TO means: Spark passes it as written, with or without catalog and namespace."""
        if len(written) == 1:
            return (*old_name[:-1], *written)
        if len(written) > 2 and written[0] == self._name and not self.lake.namespace_exists(written[:-1]):
            return written[1:]
        return written

    def check_metadata_table(self, name: tuple[str, ...]) -> None:
        """Raise if a name is that of a table and an unknown metadata table; Spark's error would not say so."""
        *table, last = name
        if len(table) < 2 or not self.lake.table_exists(table) or self.lake.namespace_exists(table):
            return
        kinds = (*NAMES, CHANGES)
        near = get_close_matches(last.lower(), kinds, n=1)
        raise InvalidInput(
            f"{'.'.join((self._name, *table))} has no metadata table {last}",
            hint=(f"did you mean {near[0]}? " if near else "") + f"there are {', '.join(kinds)},"
            " and branch_<name>, tag_<name>, snapshot_id_<id>, at_timestamp_<milliseconds>",
        )

    def find_table(self, name: tuple[str, ...], *arguments: Any) -> Any:
        """The table of a name; None if there is none. The catalog implements it."""
        raise NotImplementedError

    # internal ----------------------------------------------------------------------------------------------------

    def find_view(self, name: Sequence[str]) -> Any:
        """The view of a name, as an object of this version of Spark; None if there is none."""
        if len(name) < 2 or not self._has_views:
            return None
        try:
            view = self.lake.view(tuple(name))
        except (NoSuchView, NoSuchNamespace):
            return None
        definition = view_definition(view)
        return spark_view(self.jvm, name, **{**asdict(definition), "catalog": definition.catalog or self._name})

    def _new_definition(self, view: Any) -> ViewDefinition:
        """The definition in Spark's description, with the catalog's default properties of views."""
        definition = self._read_definition(view)
        return replace(definition, properties=with_defaults(self.jvm, self._name, "view", definition.properties))

    def _read_definition(self, view: Any) -> ViewDefinition:
        """The definition in Spark's description."""
        definition = ViewDefinition(**read_view(self.jvm, view))
        # this catalog is stored as None, because it may have another name in other sessions
        return replace(definition, catalog=None) if definition.catalog == self._name else definition

    def _check_namespace(self, name: tuple[str, ...]) -> None:
        if not self.lake.namespace_exists(name[:-1]):
            raise no_such_namespace(self._name, name[:-1])

    @property
    def _has_views(self) -> bool:
        return Capability.VIEWS in self.lake.capabilities

    def _spark_error(self, error: FloeError, name: Sequence[str]) -> Exception:
        """The error that Spark's interface declares for an error about a table or view, or its namespace."""
        identifier = name[:-1] if isinstance(error, NoSuchNamespace) else name
        return declared_error(self.jvm, error, identifier) or error
