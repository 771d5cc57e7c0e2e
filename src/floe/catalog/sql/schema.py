"""The tables of a SQL catalog, as Java's JdbcCatalog and PyIceberg's SqlCatalog make them: two versions, found or made.

Version 1 adds `iceberg_type` to tell views from tables. Rows written by programs that know only version 0 have NULL
there, and are tables. A database without the tables gets version 1, which all three programs recognise; a database of
version 0 stays as it is until it is asked to change, or a view is made: an older program that is running sees views as
tables.
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
    """The version of the catalog's tables."""

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
    """The catalog's tables in one database; they are looked for when first needed, and made if they are missing.

    >>> from floe.catalog.sql.sqlite import SqliteDatabase
    >>> SqlSchema(SqliteDatabase(":memory:")).version()
    <SchemaVersion.V1: 'v1'>
    """

    def __init__(self, database: Database, *, wanted: SchemaVersion | None = None, create_tables: bool = True) -> None:
        self._database = database
        self._wanted = wanted
        self._create = create_tables
        self._version: SchemaVersion | None = None
        self._limits: dict[str, int | None] = {}

    def version(self) -> SchemaVersion:
        """The version that the database has now.

        It never goes back, so version 1 is remembered; version 0 is looked at again, since others may change it.
        """
        if self._version is not SchemaVersion.V1:
            self._version = self._found_or_made()
        return self._version

    def needs_views(self) -> None:
        """Changes version 0 to 1, unless the catalog was told to keep version 0."""
        if self.version() is SchemaVersion.V1:
            return
        if self._wanted is SchemaVersion.V0:
            raise UnsupportedFeature(
                "views need version 1 of the catalog's tables",
                hint="the catalog was opened with schema_version v0; open it with v1",
                database=self._database.description,
            )
        self._make(_ADD_TYPE, TABLES, TYPE_COLUMN)
        self._version = self._found_or_made()

    def check_lengths(self, **values: str) -> None:
        """Raise if a value is longer than its column: some databases refuse it in words of their own, some cut it."""
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

    def _found_or_made(self) -> SchemaVersion:
        tables, namespaces = self._look()
        if not (tables and namespaces) and not self._create:
            raise CatalogError(
                f"the database has no tables {TABLES} and {NAMESPACES}",
                hint="open the catalog once without init_catalog_tables=false",
                database=self._database.description,
            )
        to_make = (
            (not tables, self._create_statement(), TABLES, "table_name"),
            (not namespaces, _CREATE_NAMESPACES, NAMESPACES, "namespace"),
            (tables and TYPE_COLUMN not in tables and self._wanted is SchemaVersion.V1, _ADD_TYPE, TABLES, TYPE_COLUMN),
        )
        for _, statement, table, column in (entry for entry in to_make if entry[0]):
            self._make(statement, table, column)
        if any(needed for needed, *_ in to_make):
            tables, namespaces = self._look()
        self._check(TABLES, tables, "catalog_name table_namespace table_name metadata_location")
        self._check(NAMESPACES, namespaces, "catalog_name namespace property_key property_value")
        self._limits = {**namespaces, **tables}
        return SchemaVersion.V1 if TYPE_COLUMN in tables else SchemaVersion.V0

    def _look(self) -> tuple[dict[str, int | None], dict[str, int | None]]:
        return dict(self._database.columns(TABLES)), dict(self._database.columns(NAMESPACES))

    def _create_statement(self) -> str:
        has_views = self._wanted is not SchemaVersion.V0
        return _CREATE_TABLES.format(type_column=f"\n{TYPE_COLUMN} VARCHAR(5)," if has_views else "")

    def _make(self, statement: str, table: str, column: str) -> None:
        """Runs a statement that brings a column about; others may be doing the same at the same time."""
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
                hint="it was not made by an Iceberg catalog; use another database or schema",
                database=self._database.description,
            )
