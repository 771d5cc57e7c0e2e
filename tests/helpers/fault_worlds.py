"""Whole worlds for tests with faults: a catalog of each kind with all its files, put back in no time to where it was.

A world's content is a value. `restore` makes the world what a content says, `catalog` opens it as a new program would,
with storages and connections that may fail, and `locations` looks where the tables are without asking the catalog.
"""

import itertools
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.memory import MemoryCatalog
from floe.catalog.protocol import Catalog
from floe.catalog.sql.catalog import SqlCatalog
from floe.catalog.sql.database import PostgresUri, parse_sql_uri
from floe.catalog.sql.postgres import PostgresDatabase
from floe.catalog.sql.sqlite import SqliteDatabase
from floe.storage.environment import Environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.testing.faults import Call, Fault, SimulatedCrash

WAREHOUSE = "memory:warehouse"
_VERSION = re.compile(r"memory:/?warehouse/(.+)/metadata/v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")


class Statements:
    """Counts the statements that a database is sent, and fails at the `at`-th (from 1)."""

    def __init__(self, fault: Fault | BaseException | None = None, *, at: int = 0) -> None:
        self.fault, self.at = fault, at
        self.calls: list[Call] = []
        self.happened = False
        self._crashed = False

    def run(self, statement: str, action: Callable[[], Any], lost: Callable[[], Exception]) -> Any:
        """Sends a statement; `lost` breaks the connection, and makes the error that a library raises then."""
        if self._crashed:
            raise SimulatedCrash("the process ended before")
        self.calls.append(Call(statement.split(maxsplit=1)[0].lower(), statement))
        if self.fault is None or self.happened or len(self.calls) != self.at:
            return action()
        self.happened = True
        fault = self.fault
        if isinstance(fault, BaseException):
            action()
            raise fault
        if fault in (Fault.LOST_ANSWER, Fault.CRASH_AFTER):
            action()
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._crashed = True
            raise SimulatedCrash(f"{fault.value}: {statement}")
        raise lost()


@dataclass(frozen=True, eq=False)
class Content:
    """Everything that a world holds."""

    files: dict[str, tuple[bytes, int]]
    rows: Any


class World(ABC):
    """One kind of catalog, with files in memory."""

    has_statements = False

    def __init__(self) -> None:
        self.files = MemoryStorage()

    def restore(self, content: Content) -> None:
        """Makes the world what the content says."""
        self.files = MemoryStorage()
        self.files._files = dict(content.files)
        self._restore_rows(content.rows)

    def clear(self) -> None:
        """Makes the world empty."""
        self.files = MemoryStorage()
        self._clear_rows()

    def content(self) -> Content:
        """What the world holds now."""
        return Content(dict(self.files._files), self._rows())

    @abstractmethod
    def catalog(self, storage: Storage, environment: Environment, statements: Statements | None = None) -> Catalog:
        """The catalog, opened as by a new program."""

    @abstractmethod
    def locations(self) -> dict[str, str]:
        """Where each table's metadata is, by the table's name."""

    def fingerprint(self) -> Any:
        """What the catalog holds beside files, as a value that is the same for the same content."""
        return repr(sorted(self.locations().items()))

    @abstractmethod
    def _rows(self) -> Any:
        """What the catalog holds beside files."""

    @abstractmethod
    def _restore_rows(self, rows: Any) -> None:
        """Makes the catalog hold that."""

    @abstractmethod
    def _clear_rows(self) -> None:
        """Makes the catalog hold nothing."""


class MemoryWorld(World):
    """The catalog in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._clear_rows()

    def _clear_rows(self) -> None:
        self._restore_rows(({}, {}, {}, set()))

    def catalog(self, storage: Storage, environment: Environment, statements: Statements | None = None) -> Catalog:
        catalog = MemoryCatalog(storage=storage, environment=environment, warehouse=WAREHOUSE)
        catalog._namespaces, catalog._tables, catalog._views, catalog._published = self._held
        return catalog

    def locations(self) -> dict[str, str]:
        return {".".join(name): state.location for name, state in self._held[1].items()}

    def fingerprint(self) -> Any:
        namespaces, _, views, _ = self._held
        return super().fingerprint(), repr(sorted(namespaces.items())), repr(sorted(views.items(), key=lambda v: v[0]))

    def _rows(self) -> Any:
        namespaces, tables, views, published = self._held
        return {name: dict(own) for name, own in namespaces.items()}, dict(tables), dict(views), set(published)

    def _restore_rows(self, rows: Any) -> None:
        namespaces, tables, views, published = rows
        self._held = ({n: dict(own) for n, own in namespaces.items()}, dict(tables), dict(views), set(published))


class FileWorld(World):
    """The catalog of folders."""

    def catalog(self, storage: Storage, environment: Environment, statements: Statements | None = None) -> Catalog:
        return FileSystemCatalog(WAREHOUSE, storage=storage, environment=environment)

    def locations(self) -> dict[str, str]:
        """The file of the highest number is the table's state."""
        newest: dict[str, tuple[int, str]] = {}
        for location in self.files._files:
            if found := _VERSION.fullmatch(location):
                name = found[1].replace("/", ".")
                newest[name] = max(newest.get(name, (0, "")), (int(found[2]), location))
        return {name: location for name, (_, location) in newest.items()}

    def _rows(self) -> None:
        return None

    def _restore_rows(self, rows: None) -> None:
        pass

    def _clear_rows(self) -> None:
        pass


class _SqlWorld(World):
    has_statements = True
    catalog_name = "lake"

    @abstractmethod
    def database(self, statements: Statements | None) -> SqliteDatabase | PostgresDatabase:
        """The database, opened anew."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, past all that is tested."""

    def catalog(self, storage: Storage, environment: Environment, statements: Statements | None = None) -> Catalog:
        return SqlCatalog(
            self.database(statements),
            storage=storage,
            environment=environment,
            name="lake",
            catalog_name=self.catalog_name,
            warehouse=WAREHOUSE,
        )

    def fingerprint(self) -> Any:
        """All rows but for the name of the catalog, which changes with every restart."""
        where = f"WHERE catalog_name = '{self.catalog_name}'"
        return repr([sorted(row[1:] for row in self.query(f"SELECT * FROM {name} {where}")) for name in _TABLES])

    def locations(self) -> dict[str, str]:
        found = self.query(
            "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "
            f"WHERE catalog_name = '{self.catalog_name}' AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
        )
        return {f"{namespace}.{name}": location for namespace, name, location in found}


class SqliteWorld(_SqlWorld):
    """A catalog in a SQLite file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._numbers = itertools.count()
        self.path = folder / "lake.db"

    def database(self, statements: Statements | None) -> SqliteDatabase:
        def connect(path: str, timeout: float) -> sqlite3.Connection:
            connection = sqlite3.connect(
                path, timeout=timeout, isolation_level=None, check_same_thread=False, factory=_SqliteConnection
            )
            assert isinstance(connection, _SqliteConnection)
            connection.statements = statements
            return connection

        return SqliteDatabase(str(self.path), busy_timeout=1, connect=connect)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def _rows(self) -> bytes:
        return self.path.read_bytes()

    def _restore_rows(self, rows: bytes) -> None:
        self._clear_rows()
        self.path.write_bytes(rows)

    def _clear_rows(self) -> None:
        for old in self._folder.glob("lake*"):
            old.unlink()
        self.path = self._folder / f"lake{next(self._numbers)}.db"


class _SqliteConnection(sqlite3.Connection):
    statements: Statements | None = None

    def execute(self, statement: str, values: Any = ()) -> Any:  # type: ignore[override]
        if self.statements is None:
            return super().execute(statement, values)
        return self.statements.run(statement, lambda: super(_SqliteConnection, self).execute(statement, values), _lost)


def _lost() -> Exception:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


class PostgresWorld(_SqlWorld):
    """A catalog in PostgreSQL; each time it is put back it is another catalog of the same database."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        parsed = parse_sql_uri(uri)
        assert isinstance(parsed, PostgresUri)
        self._parameters = parsed.parameters
        self._connection = psycopg.connect(uri, autocommit=True)
        self._numbers = itertools.count()

    def close(self) -> None:
        self._connection.close()

    def database(self, statements: Statements | None) -> PostgresDatabase:
        def connect(**parameters: Any) -> psycopg.Connection[Any]:
            connection = _PostgresConnection.connect(**parameters)
            connection.statements = statements
            return connection

        return PostgresDatabase(self._parameters, connect=connect, timeout=5)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement).fetchall()  # type: ignore[call-overload,no-any-return,unused-ignore]

    def _rows(self) -> dict[str, list[tuple[Any, ...]]]:
        where = f"WHERE catalog_name = '{self.catalog_name}'"
        return {name: self.query(f"SELECT * FROM {name} {where}") for name in _TABLES}

    def _restore_rows(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        self._clear_rows()
        for name, held in rows.items():
            for row in held:
                values = (self.catalog_name, *row[1:])
                marks = ", ".join(["%s"] * len(values))
                self._connection.execute(f"INSERT INTO {name} VALUES ({marks})", values)  # type: ignore[call-overload,unused-ignore]

    def _clear_rows(self) -> None:
        """Another name each time, so that whatever a dead session may still do is done to nobody."""
        self.catalog_name = f"lake{next(self._numbers)}"
        for name in _TABLES:
            if self.query(f"SELECT to_regclass('{name}')") != [(None,)]:
                self._connection.execute(f"DELETE FROM {name}")  # type: ignore[call-overload,unused-ignore]


_TABLES = ("iceberg_tables", "iceberg_namespace_properties")


class _PostgresConnection(psycopg.Connection[Any]):
    statements: Statements | None = None

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:  # type: ignore[override]
        def action() -> Any:
            return super(_PostgresConnection, self).execute(query, params, **more)

        if self.statements is None:
            return action()
        return self.statements.run(query, action, self._lost)

    def _lost(self) -> Exception:
        self.close()
        return psycopg.OperationalError("server closed the connection unexpectedly")
