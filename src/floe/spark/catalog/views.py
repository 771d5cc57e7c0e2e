"""The views of a lake as Spark asks for them.

Views as Spark sees them, and as Iceberg stores them: the query's text, the columns, where its names are looked for.

Java's catalog keeps what Spark needs to know about the query's own columns in a property; so do we. A view that others
made without it is matched by the places of its columns. As with Java's, the property `location` of a statement that
makes a view is where its metadata files are.
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

# Views as Spark sees them, and as Iceberg stores them: the query's text, the columns, where its names are looked for.

QUERY_COLUMNS: Final = "spark.query-column-names"
"""Java's name for the columns that the query itself gives, with commas."""

SCHEMA_MODE: Final = "spark.schema-mode"
"""What `WITH SCHEMA …` says, unless it says what views do anyway."""

USUAL_MODE: Final = "COMPENSATION"
EVOLUTION: Final = "EVOLUTION"

_SHOWN: Final = ("provider", "location", FORMAT_VERSION.name, "table_type", "external", "is_managed_location")
"""Properties that Spark shows or adds, and that are none."""


NOT_SHOWN: Final = frozenset({*_SHOWN, COMMENT.name, "owner", "collation"})
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
    return {"provider": "iceberg", "location": metadata.location, FORMAT_VERSION.name: str(metadata.format_version)}


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


class LakeViews(RelationCatalog):
    """The part of a catalog that has to do with views."""

    _name: str
    lake: Lake

    def listViews(self, namespace: Any) -> Any:
        """The views of a namespace."""
        name = self.jvm.read_strings(namespace)
        try:
            return self.jvm.identifiers(self.lake.catalog.views(name) if self._has_views else ())
        except FloeError as error:
            raise declared_error(self.jvm, error, name) or error from None

    def viewExists(self, identifier: Any) -> bool:
        """Whether there is such a view."""
        return self._has_views and self.lake.view_exists(self.jvm.read_identifier(identifier))

    def loadView(self, identifier: Any) -> Any:
        """A view."""
        name = self.jvm.read_identifier(identifier)
        found = self.find_view(name)
        if found is None:
            raise self._view_error(NoSuchView("there is no such view"), name)
        return found

    def loadRelation(self, identifier: Any) -> Any:
        """A table or a view."""
        name = self.jvm.read_identifier(identifier)
        found = self.find_table(name) or self.find_view(name)
        if found is None:
            self.check_metadata_table(name)
            raise self._view_error(NoSuchTable("there is no such table or view"), name)
        return found

    def createView(self, identifier: Any, view: Any) -> Any:
        """Make a view."""
        name = self.jvm.read_identifier(identifier)
        try:
            self._check_namespace(name)
            create_view(self.lake, name, self._new_view(view))
        except FloeError as error:
            raise self._view_error(error, name) from None
        return view

    def replaceView(self, identifier: Any, view: Any) -> Any:
        """Make a view another one."""
        name = self.jvm.read_identifier(identifier)
        try:
            change_view(self.lake.view(name), self._definition_of(view))
        except FloeError as error:
            raise self._view_error(error, name) from None
        return view

    def createOrReplaceView(self, identifier: Any, view: Any) -> Any:
        """One or the other: what the statement does not say stays."""
        name = self.jvm.read_identifier(identifier)
        try:
            self._check_namespace(name)
            create_or_replace_view(self.lake, name, self._new_view(view))
        except FloeError as error:
            raise self._view_error(error, name) from None
        return view

    def dropView(self, identifier: Any) -> bool:
        """Remove a view."""
        try:
            self.lake.drop_view(self.jvm.read_identifier(identifier))
        except (NoSuchView, NoSuchNamespace):
            return False
        return True

    def renameView(self, old: Any, new: Any) -> None:
        """Give a view another name."""
        before = self.jvm.read_identifier(old)
        after = self.new_name(before, self.jvm.read_identifier(new))
        try:
            self.lake.rename_view(before, after)
        except NoSuchView as error:
            raise self._view_error(error, before) from None
        except ViewAlreadyExists as error:
            raise self._view_error(error, after) from None

    def new_name(self, before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
        """The name that RENAME TO means: Spark gives what was written, perhaps with the catalog, or the name alone."""
        if len(after) == 1:
            return (*before[:-1], *after)
        if len(after) > 2 and after[0] == self._name and not self.lake.namespace_exists(after[:-1]):
            return after[1:]
        return after

    def check_metadata_table(self, name: tuple[str, ...]) -> None:
        """Raise for what follows the name of a table and is none of its metadata tables: Spark would not tell."""
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

    def find_table(self, name: tuple[str, ...], *how: Any) -> Any:
        """The table of a name, if there is one: the other part of the catalog says."""
        raise NotImplementedError

    # the insides -------------------------------------------------------------------------------------------------

    def find_view(self, name: Sequence[str]) -> Any:
        """The view as what this Spark takes for one; None if there is none."""
        if len(name) < 2 or not self._has_views:
            return None
        try:
            view = self.lake.view(tuple(name))
        except (NoSuchView, NoSuchNamespace):
            return None
        found = defined(view)
        return spark_view(self.jvm, name, **{**asdict(found), "catalog": found.catalog or self._name})

    def _new_view(self, view: Any) -> ViewDefinition:
        """What Spark gives, with the properties that the catalog's settings have for views."""
        made = self._definition_of(view)
        return replace(made, properties=with_defaults(self.jvm, self._name, "view", made.properties))

    def _definition_of(self, view: Any) -> ViewDefinition:
        """What Spark gives; names that were looked for in this catalog are so whatever its name is elsewhere."""
        found = ViewDefinition(**read_view(self.jvm, view))
        return replace(found, catalog=None) if found.catalog == self._name else found

    def _check_namespace(self, name: tuple[str, ...]) -> None:
        if not self.lake.namespace_exists(name[:-1]):
            raise no_such_namespace(self._name, name[:-1])

    @property
    def _has_views(self) -> bool:
        return Capability.VIEWS in self.lake.capabilities

    def _view_error(self, error: FloeError, name: Sequence[str]) -> Exception:
        about = name[:-1] if isinstance(error, NoSuchNamespace) else name
        return declared_error(self.jvm, error, about) or error
