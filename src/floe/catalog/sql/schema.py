"""The tables of a SQL catalog, as Java's JdbcCatalog and PyIceberg's SqlCatalog create them, in two versions.

Version 1 adds `iceberg_type` to tell views from tables. Rows written by programs that know only version 0 have NULL
there, and are tables. In a database without the tables version 1 is created, which all three programs support; a
database of version 0 is upgraded only on request, or when a view is created: older programs that are running would
read views as tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from floe.catalog.sql.database import Database
from floe.errors import (
    CatalogError,
    FloeError,
    InvalidInput,
    InvalidLocation,
    InvalidName,
    InvalidSettings,
    InvalidValue,
    UnsupportedFeature,
)

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

_WORDS: Mapping[str, str] = {
    "catalog_name": "the catalog's name",
    "table_namespace": "the namespace, with its levels joined by dots,",
    "namespace": "the namespace, with its levels joined by dots,",
    "table_name": "the name",
    "metadata_location": "the location of the metadata file",
    "previous_metadata_location": "the location of the previous metadata file",
    "property_key": "the name of the property",
    "property_value": "the value of the property",
}

_KINDS: Mapping[str, type[InvalidInput]] = {
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
                kind = _KINDS.get(column, InvalidName)
                raise kind(
                    f"{_WORDS[column]} has {len(value)} characters; the database holds at most {limit}",
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
