"""A view: a stored query that engines share, in one or more SQL dialects."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from floe.catalog.identifiers import Identifier, format_identifier
from floe.catalog.protocol import Capability, Catalog
from floe.errors import CommitConflict, UnsupportedFeature
from floe.spec.metadata.table_metadata import check_same_view
from floe.spec.metadata.updates import RemoveProperties, SetLocation, SetProperties
from floe.spec.schemas.schema import Schema
from floe.spec.views.view_metadata import SqlRepresentation, ViewMetadata, ViewVersion
from floe.spec.views.view_updates import ViewUpdate, apply_to_view, view_creation_updates, view_replacement_updates
from floe.storage.environment import Environment
from floe.storage.locations import parse
from floe.table.display import view_card
from floe.table.evolution import as_schema


class View:
    """A view of a catalog, in the state in which it was loaded or last changed through this object.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> view = lake.create_view("db.big", "SELECT * FROM db.orders WHERE amount > 100", schema="id bigint")
    >>> view.sql(), [field.name for field in view.schema]
    ('SELECT * FROM db.orders WHERE amount > 100', ['id'])
    """

    def __init__(
        self, catalog: Catalog, identifier: Identifier, metadata: ViewMetadata, environment: Environment
    ) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._metadata = metadata
        self._environment = environment

    @property
    def name(self) -> str:
        """The view's name, with its namespace."""
        return format_identifier(self._identifier)

    @property
    def metadata(self) -> ViewMetadata:
        """The content of the view's metadata file."""
        return self._metadata

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return self._metadata.schema

    @property
    def properties(self) -> Mapping[str, str]:
        """The view's properties."""
        return self._metadata.properties

    @property
    def dialects(self) -> tuple[str, ...]:
        """The SQL dialects of the current version."""
        return self._metadata.current_version.dialects

    def sql(self, dialect: str = "spark") -> str:
        """The query in a dialect."""
        return self._metadata.current_version.sql(dialect)

    def refresh(self) -> View:
        """Read the view again; returns the same object. `NoSuchView` if another view has its name now."""
        fresh = self._catalog.load_view(self._identifier)
        check_same_view(self._metadata.view_uuid, fresh.view_uuid, self.name)
        self._metadata = fresh
        return self

    def replace(
        self,
        sql: str | Mapping[str, str],
        *,
        schema: Schema | pa.Schema | str,
        dialect: str = "spark",
        default_namespace: tuple[str, ...] | None = None,
        default_catalog: str | None = None,
        properties: Mapping[str, str] | None = None,
        removed: Collection[str] = (),
        location: str | None = None,
    ) -> View:
        """Make another query the current version; `CommitConflict` if somebody else changed the view meanwhile.

        The same commit sets `properties` and removes those named in `removed`; new metadata files go to `location`.
        """
        if location is not None:
            check_custom_location(self._catalog, self._identifier)
        namespace = self._metadata.current_version.default_namespace if default_namespace is None else default_namespace
        version = view_version(sql, dialect, namespace, self._environment.clock.now_ms(), default_catalog)
        updates = [*view_replacement_updates(as_schema(schema), version)]
        if properties:
            updates.append(SetProperties(dict(properties)))
        if removed:
            updates.append(RemoveProperties(tuple(removed)))
        if location is not None:
            updates.append(SetLocation(parse(location).text))
        return self._update(*updates)

    def set_properties(self, properties: Mapping[str, str]) -> View:
        """Set properties; those not named stay."""
        return self._update(SetProperties(dict(properties)))

    def remove_properties(self, *names: str) -> View:
        """Remove properties; names that the view does not have are ignored."""
        return self._update(RemoveProperties(names))

    def _update(self, *updates: ViewUpdate) -> View:
        changed = apply_to_view(self._metadata, updates, now_ms=self._environment.clock.now_ms())
        if changed is not self._metadata:
            try:
                self._catalog.replace_view(self._identifier, self._metadata, changed)
            except CommitConflict:
                current = self._catalog.load_view(self._identifier)
                check_same_view(self._metadata.view_uuid, current.view_uuid, self.name)
                raise
            self._metadata = changed
        return self

    def __repr__(self) -> str:
        return view_card(self.name, self._metadata).text()

    def _repr_html_(self) -> str:
        return view_card(self.name, self._metadata).html()


def check_custom_location(catalog: Catalog, identifier: Identifier) -> None:
    """Raise if a catalog chooses the locations of tables and views itself."""
    if Capability.CUSTOM_LOCATIONS not in catalog.capabilities:
        raise UnsupportedFeature(
            "this catalog chooses the location of each table and view itself",
            hint="leave out the location, or use a catalog that stores locations, such as a SQL database",
            name=format_identifier(identifier),
        )


def new_view(
    schema: Schema | pa.Schema | str,
    version: ViewVersion,
    *,
    location: str,
    properties: Mapping[str, str] | None,
    environment: Environment,
) -> ViewMetadata:
    """The metadata of a new view."""
    updates = view_creation_updates(
        as_schema(schema), version, location=location, uuid=str(environment.ids.uuid()), properties=properties
    )
    return apply_to_view(None, updates, now_ms=environment.clock.now_ms())


def view_version(
    sql: str | Mapping[str, str],
    dialect: str,
    default_namespace: tuple[str, ...],
    now_ms: int,
    default_catalog: str | None = None,
) -> ViewVersion:
    """A version of a view: one query in a dialect, or several by dialect."""
    texts = {dialect: sql} if isinstance(sql, str) else dict(sql)
    representations = tuple(SqlRepresentation(text, name) for name, text in texts.items())
    return ViewVersion(
        1, 0, now_ms, representations, default_namespace, default_catalog, summary={"engine-name": "floe"}
    )
