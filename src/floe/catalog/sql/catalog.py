"""The SQL catalog: tables and views by name in SQLite or PostgreSQL, shared with Java's JdbcCatalog and PyIceberg.

All three keep the same rows in the same two tables, each under the name of its catalog (`catalog_name`), so programs
share tables when they use the same database and the same name. `connect_sql` opens one by its URI.

>>> catalog = connect_sql("sqlite://", name="lake", warehouse="memory:warehouse")
>>> catalog.create_namespace(("db",), {"owner": "me"})
>>> catalog.namespaces(), catalog.default_location(("db", "orders"))
([('db',)], 'memory:warehouse/db/orders')
>>> catalog
SqlCatalog('lake', 'sqlite:///:memory:')
>>> catalog.close()

Options, which may also be spelled as in Java's JdbcCatalog and PyIceberg's SqlCatalog:

| option | meaning |
|---|---|
| `catalog_name` | the catalog name in the rows; default: the catalog's `name`, or else the only one in the database |
| `schema_version` | `v0` or `v1`: the version of the tables to create; `v1` also upgrades an older database |
| `init_catalog_tables` | `false`: never create the tables |
| `user`, `password` | for PostgreSQL, if they are not in the URI |
| `timeout` | seconds after which a statement or a wait ends (30) |
| `busy_timeout` | for SQLite: seconds to wait for other writers (30) |
| `pool_size` | for PostgreSQL: how many connections are used at once (4) |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from floe.catalog.identifiers import Identifier, Namespace, check_identifier, check_namespace, format_identifier
from floe.catalog.metadata_files import read_metadata
from floe.catalog.protocol import Capability
from floe.catalog.purge import plan_purge
from floe.catalog.sql.database import Database, Session, SqliteUri, parse_sql_uri
from floe.catalog.sql.pointer import SqlPointer, SqlSharedSwap
from floe.catalog.sql.postgres import PostgresDatabase
from floe.catalog.sql.records import Kind, SchemaVersion, SqlSchema, check_properties, joined_namespace
from floe.catalog.sql.sqlite import SqliteDatabase
from floe.catalog.sql.store import CatalogName, SqlStore
from floe.catalog.sql.views import SqlViews
from floe.commit.pointer import Outcome, TableState
from floe.errors import (
    AlreadyExists,
    CatalogUnavailable,
    CommitConflict,
    InvalidSettings,
    NamespaceAlreadyExists,
    UnsupportedFeature,
)
from floe.spec.views.view_metadata import ViewMetadata
from floe.storage.environment import Environment
from floe.storage.locations import join
from floe.storage.protocol import Storage
from floe.storage.schemes import open_storage

# options ----------------------------------------------------------------------------------------------------------

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "catalog_name": ("catalog_name",),
    "schema_version": ("schema_version", "jdbc.schema-version"),
    "init_catalog_tables": ("init_catalog_tables", "jdbc.init-catalog-tables"),
    "user": ("user", "jdbc.user"),
    "password": ("password", "jdbc.password"),
    "timeout": ("timeout",),
    "busy_timeout": ("busy_timeout",),
    "pool_size": ("pool_size", "clients"),
}
SQL_OPTIONS: Final = frozenset(spelling for spellings in _SPELLINGS.values() for spelling in spellings)
"""Every option, in every spelling."""

_PUBLIC: Final = SQL_OPTIONS - {"password", "jdbc.password"}
_DEFAULT_SECONDS: Final = 30.0
_DEFAULT_POOL: Final = 4
_LONGEST_SECONDS: Final = 86_400.0


def database_of(uri: str, options: Mapping[str, str]) -> Database:
    """The database that a URI and options name, not connected yet.

    >>> database_of("sqlite:///lake.db", {"busy_timeout": "soon"})
    Traceback (most recent call last):
    floe.errors.InvalidSettings: busy_timeout must be a number of seconds from 0 to 86400, found 'soon'
    """
    unknown = sorted(set(options) - SQL_OPTIONS)
    if unknown:
        raise InvalidSettings(f"a SQL catalog has no option {', '.join(unknown)}")
    parsed = parse_sql_uri(uri)
    if isinstance(parsed, SqliteUri):
        busy_timeout = _option(options, "busy_timeout") or parsed.busy_timeout
        return SqliteDatabase(parsed.path, busy_timeout=_seconds("busy_timeout", busy_timeout, _DEFAULT_SECONDS))
    credentials = {name: value for name in ("user", "password") if (value := _option(options, name)) is not None}
    return PostgresDatabase(
        {**parsed.parameters, **credentials},
        description=str(parsed),
        timeout=_seconds("timeout", _option(options, "timeout"), _DEFAULT_SECONDS),
        pool_size=_pool_size(_option(options, "pool_size")),
    )


def schema_version(options: Mapping[str, str]) -> SchemaVersion | None:
    """The requested version of the catalog's tables; None if the options have none.

    >>> schema_version({"jdbc.schema-version": "V1"})
    <SchemaVersion.V1: 'v1'>
    """
    version = _option(options, "schema_version")
    return None if version is None else SchemaVersion.parse(version)


def creates_tables(options: Mapping[str, str]) -> bool:
    """Whether missing tables are created.

    >>> creates_tables({}), creates_tables({"jdbc.init-catalog-tables": "false"})
    (True, False)
    """
    value = (_option(options, "init_catalog_tables") or "true").lower()
    if value not in ("true", "false"):
        raise InvalidSettings(f"init_catalog_tables must be true or false, found {value!r}")
    return value == "true"


def shown_options(uri: str, options: Mapping[str, str], warehouse: str | None) -> dict[str, str]:
    """The options for display; only those that are certainly not secret keep their values.

    >>> shown_options("postgresql://me:pass@host/db", {"password": "x", "timeout": "5"}, None)
    {'uri': 'postgresql://me@host/db', 'password': '***', 'timeout': '5'}
    """
    displayed = {"uri": str(parse_sql_uri(uri))}
    if warehouse is not None:
        displayed["warehouse"] = re.sub(r"//[^/]*@", "//", warehouse)
    return {**displayed, **{name: value if name in _PUBLIC else "***" for name, value in options.items()}}


def _option(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option in any of its spellings; None if it is not set."""
    for spelling in _SPELLINGS[name]:
        if options.get(spelling) is not None:
            return str(options[spelling])
    return None


def _seconds(name: str, value: str | None, default: float) -> float:
    if value is None:
        return default
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", value) or float(value) > _LONGEST_SECONDS:
        raise InvalidSettings(f"{name} must be a number of seconds from 0 to {_LONGEST_SECONDS:g}, found {value!r}")
    return float(value)


def _pool_size(value: str | None) -> int:
    if value is None:
        return _DEFAULT_POOL
    if not re.fullmatch(r"\d{1,3}", value) or int(value) == 0:
        raise InvalidSettings(f"pool_size must be a number from 1 to 999, found {value!r}")
    return int(value)


# the catalog ------------------------------------------------------------------------------------------------------

DEFAULT_NAME: Final = "default"
"""The name, and so the `catalog_name`, of a catalog that was opened without one; PyIceberg's default too."""

_PURGE_ATTEMPTS: Final = 100


def connect_sql(
    uri: str,
    *,
    name: str = DEFAULT_NAME,
    finds_name: bool = False,
    warehouse: str | None = None,
    storage: Storage | None = None,
    environment: Environment | None = None,
    options: Mapping[str, str] | None = None,
) -> SqlCatalog:
    """The catalog in a database, which is not connected to before the first call.

    Its rows have the option `catalog_name`, or else its name; with `finds_name`, the only name that the database has,
    if there is just one. `floe.catalog.sql.database` describes the URIs, this module the options. Without a storage,
    that of the warehouse is opened.

    >>> connect_sql("postgresql://me:secret@db.example/lake", name="prod")
    SqlCatalog('prod', 'postgresql://me@db.example/lake')
    """
    values = dict(options or {})
    return SqlCatalog(
        database_of(uri, values),
        name=name,
        catalog_name=values.get("catalog_name"),
        finds_name=finds_name,
        warehouse=warehouse,
        storage=storage if storage is not None else open_storage(warehouse or "file:"),
        environment=environment,
        requested_version=schema_version(values),
        create_tables=creates_tables(values),
        properties=shown_options(uri, values, warehouse),
    )


class SqlCatalog:
    """Tables, views and namespaces in a database."""

    capabilities = frozenset(Capability)

    def __init__(
        self,
        database: Database,
        *,
        storage: Storage,
        name: str = DEFAULT_NAME,
        catalog_name: str | None = None,
        finds_name: bool = False,
        warehouse: str | None = None,
        environment: Environment | None = None,
        requested_version: SchemaVersion | None = None,
        create_tables: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.warehouse = None if warehouse is None else warehouse.rstrip("/")
        self.properties: Mapping[str, str] = MappingProxyType(dict(properties or {}))
        schema = SqlSchema(database, requested=requested_version, create_tables=create_tables)
        recorded = catalog_name or (None if finds_name else name)
        self._store = SqlStore(database, schema, CatalogName(recorded, name), storage, environment or Environment())
        self._views = SqlViews(self._store)

    def __repr__(self) -> str:
        return f"SqlCatalog({self.name!r}, {self._database.description!r})"

    @property
    def storage(self) -> Storage:
        """The storage of the tables' files."""
        return self._store.storage

    @property
    def environment(self) -> Environment:
        """The clock, ids and random numbers of the catalog."""
        return self._store.environment

    @property
    def catalog_name(self) -> str:
        """The catalog name in the rows of the database."""
        return str(self._store.name)

    @property
    def shared(self) -> SqlSharedSwap:
        """Publishes the changes of several tables in one transaction."""
        return SqlSharedSwap(self._store)

    def close(self) -> None:
        """Closes the connections to the database."""
        self._database.close()

    # namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The namespaces directly below another one."""
        namespaces = self._store.namespaces()
        children = namespaces.below(self._database.read, parent)
        if not children:
            namespaces.require(self._database.read, parent)
        return children

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace: it has rows, or tables, views or namespaces in it."""
        return self._store.namespaces().exist(self._database.read, namespace)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace, and its parents that do not exist."""
        check_namespace(namespace)
        new_properties = dict(properties or {})
        check_properties(new_properties)
        if not namespace:
            raise NamespaceAlreadyExists("there is a namespace of that name already", namespace="the catalog")
        self._check_namespace_lengths(namespace, new_properties)
        namespaces = self._store.namespaces()

        def outcome(session: Session) -> Outcome:
            if not namespaces.exist(session.query, namespace):
                return Outcome.ABSENT
            is_ours = namespaces.properties(session.query, namespace) == new_properties
            return Outcome.PUBLISHED if is_ours else Outcome.UNKNOWN

        self._store.change(
            "creating the namespace",
            lambda session: namespaces.create(session, namespace, new_properties),
            outcome,
            namespace=format_identifier(namespace),
        )

    def drop_namespace(self, namespace: Namespace) -> None:
        """Drops a namespace that has no tables, views or namespaces."""
        namespaces = self._store.namespaces()
        self._store.change(
            "dropping the namespace",
            lambda session: namespaces.drop(session, namespace),
            lambda session: Outcome.ABSENT if namespaces.exist(session.query, namespace) else Outcome.PUBLISHED,
            namespace=format_identifier(namespace),
        )

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace."""
        return self._store.namespaces().properties(self._database.read, namespace)

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Sets and removes properties of a namespace."""
        new_values, removed_keys = dict(updates or {}), frozenset(removals)
        check_properties(new_values, removed_keys)
        self._check_namespace_lengths(namespace, new_values)
        namespaces = self._store.namespaces()

        def outcome(session: Session) -> Outcome:
            current = namespaces.properties(session.query, namespace)
            is_done = new_values.items() <= current.items() and not removed_keys & current.keys()
            return Outcome.PUBLISHED if is_done else Outcome.ABSENT

        self._store.change(
            "changing the namespace's properties",
            lambda session: namespaces.update(session, namespace, new_values, removed_keys),
            outcome,
            namespace=format_identifier(namespace),
        )

    # tables --------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The tables directly in a namespace."""
        return self._listed(Kind.TABLE, namespace)

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table."""
        check_identifier(identifier)
        return self._store.records().find_kind(self._database.read, Kind.TABLE, identifier) is not None

    def pointer(self, identifier: Identifier) -> SqlPointer:
        """The pointer to a table's metadata."""
        check_identifier(identifier)
        joined_namespace(identifier[:-1])
        return SqlPointer(self._store, identifier)

    def default_location(self, identifier: Identifier) -> str:
        """A folder below the `location` of the namespace, or below the warehouse.

        Where a table of another name already has its files, as after a rename, the folder's name gets a random part:
        two tables share a folder only if their creators choose the same location.
        """
        check_identifier(identifier)
        folder = self._folder_of(identifier)
        if self._store.records().sharing(self._database.read, identifier, folder + "/"):
            return f"{folder}-{self.environment.ids.uuid()}"
        return folder

    def _folder_of(self, identifier: Identifier) -> str:
        namespaces = self._store.namespaces()
        if namespaces.exist(self._database.read, identifier[:-1]):
            location = namespaces.properties(self._database.read, identifier[:-1]).get("location")
            if location:
                return join(location, identifier[-1])
        if self.warehouse is None:
            raise InvalidSettings(
                "the catalog has no warehouse, so a new table has no default location",
                hint="open the catalog with warehouse=…, or give the table a location",
                table=format_identifier(identifier),
            )
        return join(self.warehouse, *identifier)

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Drops a table; a purge is planned before, so that a table that cannot be purged is not dropped either."""
        check_identifier(identifier)
        if not purge:
            self._remove_table(identifier)
            return
        for _ in range(_PURGE_ATTEMPTS):
            with suppress(CommitConflict):  # another writer committed while the purge was planned
                self._purge_table(identifier)
                return
        raise CatalogUnavailable(
            f"others committed to the table {_PURGE_ATTEMPTS} times while its purge was planned",
            hint="stop its writers first",
            table=format_identifier(identifier),
        )

    def _purge_table(self, identifier: Identifier) -> None:
        records = self._store.records()
        record = self._store.required(self._database.read, records, Kind.TABLE, identifier)
        roots = self._store.roots(identifier[:-1])
        storage = roots.allow_table_folder(record.location)
        state = TableState(read_metadata(storage, record.location), record.location)
        roots.allow_metadata(state.metadata)
        sharing = records.sharing(self._database.read, identifier, state.metadata.location.rstrip("/") + "/")
        if sharing:
            raise UnsupportedFeature(
                "another table has files in the same location, so they are not deleted",
                hint="drop the table without purge",
                table=format_identifier(identifier),
                other=", ".join(sharing[:3]),
            )
        plan = plan_purge(state, storage, above=() if self.warehouse is None else (self.warehouse,))
        self._remove_table(identifier, expected=record.location)
        plan.apply(storage).check()

    def _remove_table(self, identifier: Identifier, *, expected: str | None = None) -> None:
        """Deletes the row, if it has the expected metadata location."""
        store, records, lock = self._store, self._store.records(), self._database.lock_for_update
        location = expected

        def work(session: Session) -> None:
            nonlocal location
            location = store.required(session.query, records, Kind.TABLE, identifier, lock=lock).location
            if location != (expected or location):
                raise CommitConflict("another writer committed first")
            records.remove(session, Kind.TABLE, identifier, location)

        def outcome(session: Session) -> Outcome:
            record = records.find(session.query, identifier, lock=lock)
            if record is None:
                return Outcome.PUBLISHED
            return Outcome.ABSENT if record.location == location else Outcome.UNKNOWN

        store.change("dropping the table", work, outcome, table=format_identifier(identifier))

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, also into another namespace."""
        self._change_name(Kind.TABLE, old, new)

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Adds a table whose current metadata is an existing file."""
        check_identifier(identifier)
        store = self._store
        store.check_name(identifier)
        store.schema.check_lengths(metadata_location=metadata_location)
        records, namespaces = store.records(), store.namespaces()
        namespaces.require(self._database.read, identifier[:-1])
        store.check_free(self._database.read, records, Kind.TABLE, identifier)
        read_metadata(store.storage_at(metadata_location), metadata_location)

        def work(session: Session) -> None:
            namespaces.hold(session, identifier[:-1])
            if not records.insert(session, Kind.TABLE, identifier, metadata_location):
                store.check_free(session.query, records, Kind.TABLE, identifier)
                raise CommitConflict("another writer created the table, and dropped it")

        def outcome(session: Session) -> Outcome:
            if records.insert(
                session, Kind.TABLE, identifier, metadata_location
            ):  # waits for other writers, and is rolled back
                return Outcome.ABSENT
            record = records.find(session.query, identifier)
            is_registered = record is not None and metadata_location in (record.location, record.previous)
            return Outcome.PUBLISHED if is_registered else Outcome.UNKNOWN

        store.change("registering the table", work, outcome, table=format_identifier(identifier))

    # views ---------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The views directly in a namespace."""
        return self._listed(Kind.VIEW, namespace)

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""
        return self._views.exists(identifier)

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """The current metadata of a view."""
        return self._views.load(identifier)

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Creates a view; a database of schema version 0 is upgraded to version 1."""
        check_identifier(identifier)
        self._views.create(identifier, metadata)

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Replaces a view's metadata if it is still `base`."""
        self._views.replace(identifier, base, metadata)

    def drop_view(self, identifier: Identifier) -> None:
        """Drops a view, and deletes its metadata file."""
        self._views.drop(identifier)

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view, also into another namespace."""
        self._change_name(Kind.VIEW, old, new)

    # shared -------------------------------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        return self._store.database

    def _listed(self, kind: Kind, namespace: Namespace) -> list[Identifier]:
        store = self._store
        names = store.records().names(self._database.read, kind, namespace)
        if not names:
            store.namespaces().require(self._database.read, namespace)
        return [(*namespace, name) for name in names]

    def _change_name(self, kind: Kind, old: Identifier, new: Identifier) -> None:
        check_identifier(new)
        store = self._store
        store.check_name(new)
        records, namespaces = store.records(), store.namespaces()
        location = store.required(self._database.read, records, kind, old).location
        if new == old:
            return

        def work(session: Session) -> None:
            nonlocal location
            location = store.required(session.query, records, kind, old, lock=self._database.lock_for_update).location
            namespaces.hold(session, new[:-1])
            store.check_free(session.query, records, kind, new)
            try:
                records.change_name(session, kind, old, new)
            except AlreadyExists:  # created since the check
                raise store.taken_by_another(kind, new) from None

        def outcome(session: Session) -> Outcome:
            lock = self._database.lock_for_update
            before, after = records.find(session.query, old, lock=lock), records.find(session.query, new, lock=lock)
            if before is not None and before.location == location:
                return Outcome.ABSENT
            is_moved = after is not None and location in (after.location, after.previous)
            return Outcome.PUBLISHED if is_moved else Outcome.UNKNOWN

        store.change(f"renaming to {format_identifier(new)}", work, outcome, name=format_identifier(old))

    def _check_namespace_lengths(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        self._store.schema.check_lengths(namespace=joined_namespace(namespace))
        for key, value in properties.items():
            self._store.schema.check_lengths(property_key=key, property_value=value)
