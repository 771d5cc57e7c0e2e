"""The tables of a SQL catalog in its database, and their rows.

`SqlSchema` creates the tables as Java's JdbcCatalog and PyIceberg's SqlCatalog do, in two versions. Version 1 adds
`iceberg_type` to tell views from tables. Rows of programs that know only version 0 have NULL there, and are tables. In
a database without the tables version 1 is created, which all three programs support. A database of version 0 is
upgraded only on request, or when a view is created: older programs that are running would read views as tables.

`iceberg_tables` (`Records`) has one row for each table and view, with the location of its current metadata. Every
statement names the whole key and binds its values. Statements that change a row say which kind and, where it matters,
which location they expect; the number of changed rows shows whether it was so.

`iceberg_namespace_properties` (`Namespaces`) has the properties of namespaces. A namespace exists if it has a row, if a
table or view is in it, or if a namespace below it exists. A property named `exists` marks a namespace without other
rows; Java writes it always, PyIceberg only for a namespace without properties. Floe writes it always, and never returns
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from floe.catalog.identifiers import Identifier, Namespace, check_namespace_properties, format_identifier
from floe.catalog.sql.database import Database, Row, Session, Value
from floe.errors import (
    CatalogError,
    FloeError,
    InvalidInput,
    InvalidLocation,
    InvalidName,
    InvalidSettings,
    InvalidValue,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NoSuchNamespace,
    UnsupportedFeature,
)
from floe.storage.locations import is_below

# Tables of the database -------------------------------------------------------------------------------------------


TABLES: Final = "iceberg_tables"
NAMESPACES: Final = "iceberg_namespace_properties"
TYPE_COLUMN: Final = "iceberg_type"

_CREATE_TABLES = f"""CREATE TABLE {TABLES} (
catalog_name VARCHAR(255) NOT NULL,
table_namespace VARCHAR(255) NOT NULL,
table_name VARCHAR(255) NOT NULL,
metadata_location VARCHAR(1000),
previous_metadata_location VARCHAR(1000),{{type_column}}
PRIMARY KEY (catalog_name, table_namespace, table_name))"""
_CREATE_NAMESPACES = f"""CREATE TABLE {NAMESPACES} (
catalog_name VARCHAR(255) NOT NULL,
namespace VARCHAR(255) NOT NULL,
property_key VARCHAR(255),
property_value VARCHAR(1000),
PRIMARY KEY (catalog_name, namespace, property_key))"""
_ADD_TYPE = f"ALTER TABLE {TABLES} ADD COLUMN {TYPE_COLUMN} VARCHAR(5)"

_COLUMN_NAMES: Mapping[str, str] = {
    "catalog_name": "the catalog's name",
    "table_namespace": "the namespace, with its levels joined by dots,",
    "namespace": "the namespace, with its levels joined by dots,",
    "table_name": "the name",
    "metadata_location": "the location of the metadata file",
    "previous_metadata_location": "the location of the previous metadata file",
    "property_key": "the name of the property",
    "property_value": "the value of the property",
}

_LENGTH_ERRORS: Mapping[str, type[InvalidInput]] = {
    "metadata_location": InvalidLocation,
    "previous_metadata_location": InvalidLocation,
    "property_key": InvalidValue,
    "property_value": InvalidValue,
}


class SchemaVersion(Enum):
    """The version of the catalog's tables in a database."""

    V0 = "v0"
    """Tables only."""

    V1 = "v1"
    """Tables and views."""

    @staticmethod
    def parse(text: str) -> SchemaVersion:
        """The version that an option names, in any case.

        >>> SchemaVersion.parse("V1")
        <SchemaVersion.V1: 'v1'>
        """
        try:
            return SchemaVersion(text.lower())
        except ValueError:
            raise InvalidSettings(f"schema_version must be v0 or v1, found {text!r}") from None


class SqlSchema:
    """The catalog's tables in one database; checked when first needed, and created if they are missing.

    >>> from floe.catalog.sql.sqlite import SqliteDatabase
    >>> SqlSchema(SqliteDatabase(":memory:")).version()
    <SchemaVersion.V1: 'v1'>
    """

    def __init__(
        self, database: Database, *, requested: SchemaVersion | None = None, create_tables: bool = True
    ) -> None:
        self._database = database
        self._requested = requested
        self._create_tables = create_tables
        self._version: SchemaVersion | None = None
        self._limits: dict[str, int | None] = {}

    def version(self) -> SchemaVersion:
        """The version that the database has now.

        It is never downgraded, so version 1 is cached; version 0 is read again, since another program may upgrade it.
        """
        if self._version is not SchemaVersion.V1:
            self._version = self._read_or_create()
        return self._version

    def upgrade_for_views(self) -> None:
        """Upgrades version 0 to 1; raises if the catalog was opened with version 0."""
        if self.version() is SchemaVersion.V1:
            return
        if self._requested is SchemaVersion.V0:
            raise UnsupportedFeature(
                "views need version 1 of the catalog's tables",
                hint="the catalog was opened with schema_version v0; open it with v1",
                database=self._database.description,
            )
        self._create_column(_ADD_TYPE, TABLES, TYPE_COLUMN)
        self._version = self._read_or_create()

    def check_lengths(self, **values: str) -> None:
        """Raise if a value is longer than its column: databases would raise less clear errors, or truncate it."""
        self.version()
        for column, value in values.items():
            limit = self._limits.get(column)
            if limit is not None and len(value) > limit:
                kind = _LENGTH_ERRORS.get(column, InvalidName)
                raise kind(
                    f"{_COLUMN_NAMES[column]} has {len(value)} characters; the database holds at most {limit}",
                    hint="use a shorter one, or have an administrator widen the column",
                    column=column,
                    value=value[:60] + "…",
                )

    def _read_or_create(self) -> SchemaVersion:
        """Read the columns of the tables, create what is missing, and note their lengths."""
        tables, namespaces = self._read_columns()
        if not (tables and namespaces) and not self._create_tables:
            raise CatalogError(
                f"the database has no tables {TABLES} and {NAMESPACES}",
                hint="open the catalog once without init_catalog_tables=false",
                database=self._database.description,
            )
        to_create = (
            (not tables, self._create_statement(), TABLES, "table_name"),
            (not namespaces, _CREATE_NAMESPACES, NAMESPACES, "namespace"),
            (
                tables and TYPE_COLUMN not in tables and self._requested is SchemaVersion.V1,
                _ADD_TYPE,
                TABLES,
                TYPE_COLUMN,
            ),
        )
        for _, statement, table, column in (entry for entry in to_create if entry[0]):
            self._create_column(statement, table, column)
        if any(needed for needed, *_ in to_create):
            tables, namespaces = self._read_columns()
        self._check(TABLES, tables, "catalog_name table_namespace table_name metadata_location")
        self._check(NAMESPACES, namespaces, "catalog_name namespace property_key property_value")
        self._limits = {**namespaces, **tables}
        return SchemaVersion.V1 if TYPE_COLUMN in tables else SchemaVersion.V0

    def _read_columns(self) -> tuple[dict[str, int | None], dict[str, int | None]]:
        return dict(self._database.columns(TABLES)), dict(self._database.columns(NAMESPACES))

    def _create_statement(self) -> str:
        has_views = self._requested is not SchemaVersion.V0
        return _CREATE_TABLES.format(type_column=f"\n{TYPE_COLUMN} VARCHAR(5)," if has_views else "")

    def _create_column(self, statement: str, table: str, column: str) -> None:
        """Runs a statement that creates a column, which another program may create at the same time."""
        try:
            with self._database.transaction() as session:
                session.execute(statement)
        except FloeError:
            if column not in self._database.columns(table):
                raise

    def _check(self, table: str, columns: Mapping[str, int | None], needed: str) -> None:
        missing = [name for name in needed.split() if name not in columns]
        if missing:
            raise CatalogError(
                f"the database's table {table} has no column {', '.join(missing)}",
                hint="it was not created by an Iceberg catalog; use another database or schema",
                database=self._database.description,
            )


# Rows -------------------------------------------------------------------------------------------------------------


Query: TypeAlias = Callable[[str, Sequence[Value]], list[Row]]
"""Runs a SELECT: in a transaction (`session.query`) or on its own (`database.read`)."""

_KEY = "catalog_name = ? AND table_namespace = ? AND table_name = ?"


class Kind(Enum):
    """The kind of a row; the values are those of the column `iceberg_type`."""

    TABLE = "TABLE"
    VIEW = "VIEW"


@dataclass(frozen=True, slots=True)
class Record:
    """One row; `kind` is None for a type that this version does not support."""

    identifier: Identifier
    kind: Kind | None
    location: str
    previous: str | None


@dataclass(frozen=True, slots=True)
class Records:
    """The rows of one catalog, in a database of one schema version."""

    catalog_name: str
    version: SchemaVersion

    def find(self, query: Query, identifier: Identifier, *, lock: str = "") -> Record | None:
        """The row of a name, of any kind; None if there is none."""
        statement = f"SELECT {self._columns} FROM {TABLES} WHERE {_KEY}{lock}"
        rows = query(statement, self._key(identifier))
        return self._record(rows[0]) if rows else None

    def find_kind(self, query: Query, kind: Kind, identifier: Identifier) -> Record | None:
        """The row of a name if it is of that kind, else None."""
        record = self.find(query, identifier)
        return record if record is not None and record.kind is kind else None

    def below(self, query: Query, folder: str) -> list[Record]:
        """The rows of any name whose metadata file lies in a folder (which ends with a slash)."""
        statement = f"""SELECT {self._columns} FROM {TABLES}
            WHERE catalog_name = ? AND substr(metadata_location, 1, ?) = ?"""
        return [self._record(row) for row in query(statement, [self.catalog_name, len(folder), folder])]

    def sharing(self, query: Query, identifier: Identifier, folder: str) -> list[str]:
        """The names of all other rows, in all catalogs of the database, whose metadata file lies below a folder.

        Programs spell locations differently (`file:`, `s3a:`); all spellings contain the folder's own name.
        """
        statement = f"""SELECT catalog_name, table_namespace, table_name, metadata_location FROM {TABLES}
            WHERE metadata_location LIKE ? ESCAPE '!'"""
        name = re.sub(r"([!%_])", r"!\1", folder.rstrip("/").rpartition("/")[2])
        key = tuple(self._key(identifier))
        other_rows = (row for row in query(statement, [f"%{name}/%"]) if row[:3] != key)
        return sorted(".".join(row[:3]) for row in other_rows if _lies_below(row[3], folder))

    def names(self, query: Query, kind: Kind, namespace: Namespace) -> list[str]:
        """The names of all tables or views in a namespace."""
        if kind is Kind.VIEW and self.version is SchemaVersion.V0:
            return []
        statement = f"SELECT table_name FROM {TABLES} WHERE catalog_name = ? AND table_namespace = ?{self._is(kind)}"
        return sorted(name for (name,) in query(statement, [self.catalog_name, joined_namespace(namespace)]))

    def insert(self, session: Session, kind: Kind, identifier: Identifier, location: str) -> bool:
        """Adds a row, unless there is one of that name; waits for another transaction that adds one."""
        typed = self.version is SchemaVersion.V1
        statement = f"""INSERT INTO {TABLES}
            (catalog_name, table_namespace, table_name, metadata_location{f", {TYPE_COLUMN}" if typed else ""})
            VALUES (?, ?, ?, ?{", ?" if typed else ""}) ON CONFLICT DO NOTHING"""
        kinds = [kind.value] if typed else []
        return session.execute(statement, [*self._key(identifier), location, *kinds]) == 1

    def update(self, session: Session, kind: Kind, identifier: Identifier, old: str, new: str) -> bool:
        """Replaces a row's metadata location, if it is still the old one."""
        statement = f"""UPDATE {TABLES} SET metadata_location = ?, previous_metadata_location = ?
            WHERE {_KEY} AND metadata_location = ?{self._is(kind)}"""
        return session.execute(statement, [new, old, *self._key(identifier), old]) == 1

    def remove(self, session: Session, kind: Kind, identifier: Identifier, location: str) -> bool:
        """Deletes a row, if it has that metadata location."""
        statement = f"DELETE FROM {TABLES} WHERE {_KEY} AND metadata_location = ?{self._is(kind)}"
        return session.execute(statement, [*self._key(identifier), location]) == 1

    def change_name(self, session: Session, kind: Kind, old: Identifier, new: Identifier) -> bool:
        """Renames a row; `AlreadyExists` if there is one of the new name."""
        statement = f"UPDATE {TABLES} SET table_namespace = ?, table_name = ? WHERE {_KEY}{self._is(kind)}"
        return session.execute(statement, [joined_namespace(new[:-1]), new[-1], *self._key(old)]) == 1

    @property
    def _columns(self) -> str:
        kind = TYPE_COLUMN if self.version is SchemaVersion.V1 else f"'{Kind.TABLE.value}'"
        return f"table_namespace, table_name, {kind}, metadata_location, previous_metadata_location"

    def _is(self, kind: Kind) -> str:
        """The condition that a row is of that kind; rows of programs without views have no type."""
        if self.version is SchemaVersion.V0:
            return ""
        return (
            f" AND ({TYPE_COLUMN} = 'TABLE' OR {TYPE_COLUMN} IS NULL)"
            if kind is Kind.TABLE
            else f" AND {TYPE_COLUMN} = 'VIEW'"
        )

    def _key(self, identifier: Identifier) -> list[Value]:
        return [self.catalog_name, joined_namespace(identifier[:-1]), _storable(identifier[-1])]

    def _record(self, row: Row) -> Record:
        namespace, name, kind, location, previous = row
        identifier = (*split_namespace(namespace), name)
        if not location:
            raise CatalogError("the catalog's row has no metadata location", table=".".join(identifier))
        return Record(identifier, _KINDS_BY_TYPE.get(kind), location, previous)


def _lies_below(location: str, folder: str) -> bool:
    try:
        return is_below(location, folder)
    except InvalidLocation:
        return False  # nothing that could be read or deleted


_KINDS_BY_TYPE: dict[str | None, Kind] = {None: Kind.TABLE, "TABLE": Kind.TABLE, "VIEW": Kind.VIEW}


def _storable(name: str) -> str:
    """The name, checked to be text that databases can store."""
    if not isinstance(name, str) or any(character == "\0" or "\ud800" <= character <= "\udfff" for character in name):
        raise InvalidName("a name must be text that a database can hold", name=f"{name!r:.80}")
    return name


def joined_namespace(namespace: Namespace) -> str:
    """A namespace as databases store it: its levels joined by dots, so that no level may contain one.

    >>> joined_namespace(("lake", "raw"))
    'lake.raw'
    >>> joined_namespace(("2024.01",))
    Traceback (most recent call last):
    floe.errors.InvalidName: a namespace of a SQL catalog must not have a '.' (name: 2024.01); ...
    """
    for level in map(_storable, namespace):
        if "." in level:
            raise InvalidName(
                "a namespace of a SQL catalog must not have a '.'",
                hint="its levels are stored with dots between them",
                name=level,
            )
    return ".".join(namespace)


def split_namespace(text: str) -> Namespace:
    """The levels of a namespace as databases store it.

    >>> split_namespace("lake.raw"), split_namespace("")
    (('lake', 'raw'), ())
    """
    return tuple(text.split(".")) if text else ()


# namespaces -------------------------------------------------------------------------------------------------------

MARKER: Final = "exists"

_OF = "catalog_name = ? AND namespace = ?"
_INSERT = f"INSERT INTO {NAMESPACES} (catalog_name, namespace, property_key, property_value) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of one catalog; `lock_for_share` and `lock_for_update` are the database's."""

    catalog_name: str
    lock_for_share: str
    lock_for_update: str

    def exist(self, query: Query, namespace: Namespace) -> bool:
        """Whether there is such a namespace; the catalog itself always exists."""
        if not namespace:
            return True
        text = joined_namespace(namespace)
        below = text + "."
        values: list[Value] = [self.catalog_name, text, len(below), below]
        statement = f"""SELECT 1 FROM {NAMESPACES}
            WHERE catalog_name = ? AND (namespace = ? OR substr(namespace, 1, ?) = ?)
            UNION ALL SELECT 1 FROM {TABLES}
            WHERE catalog_name = ? AND (table_namespace = ? OR substr(table_namespace, 1, ?) = ?) LIMIT 1"""
        return bool(query(statement, values * 2))

    def require(self, query: Query, namespace: Namespace) -> None:
        """Raise unless there is such a namespace."""
        if not self.exist(query, namespace):
            raise _no_such(namespace)

    def hold(self, session: Session, namespace: Namespace) -> None:
        """Raise unless there is such a namespace, and lock it against being dropped until the transaction ends."""
        if not self._locked(session, namespace, self.lock_for_share):
            self.require(session.query, namespace)

    def below(self, query: Query, parent: Namespace) -> list[Namespace]:
        """The namespaces directly below another one."""
        prefix = joined_namespace(parent) + "." if parent else ""
        values: list[Value] = [self.catalog_name, len(prefix), prefix]
        statement = f"""SELECT namespace FROM {NAMESPACES} WHERE catalog_name = ? AND substr(namespace, 1, ?) = ?
            UNION SELECT table_namespace FROM {TABLES} WHERE catalog_name = ? AND substr(table_namespace, 1, ?) = ?"""
        depth = len(parent) + 1
        prefixes = {split_namespace(text)[:depth] for (text,) in query(statement, values * 2)}
        return sorted(namespace for namespace in prefixes if len(namespace) == depth)

    def properties(self, query: Query, namespace: Namespace) -> dict[str, str]:
        """The properties of a namespace."""
        statement = f"SELECT property_key, property_value FROM {NAMESPACES} WHERE {_OF}"
        rows = query(statement, [self.catalog_name, joined_namespace(namespace)])
        if not rows:
            self.require(query, namespace)
        return {key: value or "" for key, value in sorted(rows) if key != MARKER}

    def create(self, session: Session, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Creates a namespace, and its parents that do not exist."""
        text = joined_namespace(namespace)
        if self.exist(session.query, namespace) or not self._mark(session, text):
            raise NamespaceAlreadyExists(
                "there is a namespace of that name already", namespace=format_identifier(namespace)
            )
        for levels in range(1, len(namespace)):
            self._mark(session, joined_namespace(namespace[:levels]))
        for key, value in sorted(properties.items()):
            session.execute(_INSERT, [self.catalog_name, text, key, value])

    def drop(self, session: Session, namespace: Namespace) -> None:
        """Drops a namespace that has no tables, views or namespaces."""
        text = joined_namespace(namespace)
        # Deleted first: a transaction that adds a table locks these rows, so what is read below cannot change.
        rows = session.execute(f"DELETE FROM {NAMESPACES} WHERE {_OF}", [self.catalog_name, text])
        children = self.below(session.query, namespace)
        tables = session.query(
            f"SELECT table_name FROM {TABLES} WHERE catalog_name = ? AND table_namespace = ?", [self.catalog_name, text]
        )
        if children or tables:
            first = children[0] if children else (*namespace, min(name for (name,) in tables))
            raise NamespaceNotEmpty(
                f"the namespace has {len(children) + len(tables)} namespaces, tables or views",
                hint=f"the first is {format_identifier(first)}",
                namespace=format_identifier(namespace),
            )
        if not rows:
            raise _no_such(namespace)

    def update(
        self, session: Session, namespace: Namespace, updates: Mapping[str, str], removals: Iterable[str]
    ) -> None:
        """Sets and removes properties of a namespace."""
        text = joined_namespace(namespace)
        if not self._locked(session, namespace, self.lock_for_update):
            self.require(session.query, namespace)
        self._mark(session, text)  # so that the namespace still exists after its last property is removed
        for key in sorted(removals):
            session.execute(
                f"DELETE FROM {NAMESPACES} WHERE {_OF} AND property_key = ?", [self.catalog_name, text, key]
            )
        replaced = " ON CONFLICT (catalog_name, namespace, property_key) DO UPDATE SET property_value = ?"
        for key, value in sorted(updates.items()):
            session.execute(_INSERT + replaced, [self.catalog_name, text, key, value, value])

    def _mark(self, session: Session, text: str) -> bool:
        """Adds the marker of a namespace; returns whether it had none."""
        return session.execute(_INSERT + " ON CONFLICT DO NOTHING", [self.catalog_name, text, MARKER, "true"]) == 1

    def _locked(self, session: Session, namespace: Namespace, lock: str) -> bool:
        """Locks the rows of a namespace, always in the same order; returns whether there are any."""
        statement = f"SELECT property_key FROM {NAMESPACES} WHERE {_OF} ORDER BY property_key{lock}"
        return bool(session.query(statement, [self.catalog_name, joined_namespace(namespace)]))


def check_properties(updates: Mapping[str, str], removals: Iterable[str] = ()) -> None:
    """Raise if a property cannot be set or removed.

    >>> check_properties({"exists": "no"})
    Traceback (most recent call last):
    floe.errors.InvalidInput: 'exists' marks namespaces in SQL catalogs, and cannot be a property
    """
    if MARKER in updates or MARKER in removals:
        raise InvalidInput(f"{MARKER!r} marks namespaces in SQL catalogs, and cannot be a property")
    check_namespace_properties(updates, removals)


def _no_such(namespace: Namespace) -> NoSuchNamespace:
    return NoSuchNamespace("there is no such namespace", namespace=format_identifier(namespace))
