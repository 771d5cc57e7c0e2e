"""Tables in SQL catalogs for tests: made, changed a version at a time, and their history read back."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from floe.catalog.identifiers import Identifier
from floe.catalog.metadata_files import read_metadata
from floe.catalog.sql.catalog import SqlCatalog
from floe.catalog.sql.pointer import SqlPointer
from floe.commit.pointer import Proposal, TableState
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.updates import SetProperties
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.spec.views.view_metadata import SqlRepresentation, ViewHistoryEntry, ViewMetadata, ViewVersion
from helpers.postgres import postgres_database

DATABASES = ["sqlite", "postgresql"]
SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "name", STRING)))
# As Java's JdbcCatalog sends them (JdbcUtil: V0_CREATE_CATALOG_SQL, CREATE_NAMESPACE_PROPERTIES_TABLE_SQL).
JAVA_TABLES = (
    "CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,table_namespace VARCHAR(255) NOT NULL,"
    "table_name VARCHAR(255) NOT NULL,metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000),"
    "PRIMARY KEY (catalog_name, table_namespace, table_name))"
)
JAVA_NAMESPACES = (
    "CREATE TABLE iceberg_namespace_properties(catalog_name VARCHAR(255) NOT NULL,namespace VARCHAR(255) NOT NULL,"
    "property_key VARCHAR(255),property_value VARCHAR(1000),PRIMARY KEY (catalog_name, namespace, property_key))"
)

NAMESPACE = ("db",)
TABLE: Identifier = ("db", "orders")


def proposal_to_create(catalog: SqlCatalog, identifier: Identifier = TABLE, **properties: str) -> Proposal:
    """A proposal for a new table."""
    metadata = new_table_metadata(
        SCHEMA,
        location=catalog.default_location(identifier),
        uuid=str(catalog.environment.ids.uuid()),
        now_ms=catalog.environment.clock.now_ms(),
        properties=properties,
    )
    return catalog.pointer(identifier).propose(None, metadata)


def create(catalog: SqlCatalog, identifier: Identifier = TABLE, **properties: str) -> SqlPointer:
    """A new table, in a namespace that is made if it is missing."""
    if not catalog.namespace_exists(identifier[:-1]):
        catalog.create_namespace(identifier[:-1])
    proposal = proposal_to_create(catalog, identifier, **properties)
    proposal.pointer.swap(proposal)
    assert isinstance(proposal.pointer, SqlPointer)
    return proposal.pointer


def change(pointer: SqlPointer, base: TableState | None = None, **properties: str) -> Proposal:
    """A proposal to set properties, from the state of now unless told otherwise."""
    base = base or pointer.load()
    assert base is not None
    now = max(pointer.environment.clock.now_ms(), base.metadata.last_updated_ms + 1)
    metadata = apply(base.metadata, [SetProperties(properties)], now_ms=now, metadata_location=base.location)
    return pointer.propose(base, metadata)


def commit(pointer: SqlPointer, **properties: str) -> Proposal:
    """Sets properties, and publishes."""
    proposal = change(pointer, **properties)
    pointer.swap(proposal)
    return proposal


def properties_of(catalog: SqlCatalog, identifier: Identifier = TABLE) -> dict[str, str]:
    """The properties of a table, read by a pointer that remembers nothing."""
    state = catalog.pointer(identifier).load()
    assert state is not None
    return dict(state.metadata.properties)


def chain(pointer: SqlPointer) -> Iterator[str]:
    """The locations of a table's metadata files, from the current one back to the first."""
    state = pointer.load()
    assert state is not None
    location: str | None = state.location
    while location is not None:
        yield location
        log = read_metadata(pointer.storage, location).metadata_log
        location = log[-1].metadata_file if log else None


def files_below(folder: Path) -> set[str]:
    """The files in a folder and its sub-folders."""
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def view(location: str, sql: str = "SELECT 1 AS id", *, version_id: int = 1) -> ViewMetadata:
    """A view."""
    version = ViewVersion(version_id, 0, 1_700_000_000_000, (SqlRepresentation(sql, "spark"),), NAMESPACE)
    return ViewMetadata(
        view_uuid="fa6506c3-7681-40c8-86dc-e36561f83385",
        location=location,
        current_version_id=version_id,
        versions=(version,),
        version_log=(ViewHistoryEntry(1_700_000_000_000, version_id),),
        schemas=(Schema((Field(1, "id", LONG),)),),
    )


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """An empty database, `sqlite` in a file or `postgresql`; gives its URI."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/lake.db"
    else:
        with postgres_database() as uri:
            yield uri


def sql(uri: str, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Runs a statement as another program would, and gives its rows."""
    if uri.startswith("sqlite"):
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()
    with psycopg.connect(uri, autocommit=True) as postgres:
        cursor = postgres.execute(statement.replace("?", "%s"), values)  # type: ignore[call-overload,unused-ignore]
        return cursor.fetchall() if cursor.description else []


def make_version_0(uri: str) -> None:
    """Makes the tables as Java does unless it is asked for views."""
    sql(uri, JAVA_TABLES)
    sql(uri, JAVA_NAMESPACES)


def make_version_1(uri: str) -> None:
    """Makes the tables as Java does when it is asked for views."""
    make_version_0(uri)
    sql(uri, "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)")
