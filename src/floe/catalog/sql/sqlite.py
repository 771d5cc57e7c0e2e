"""SQLite as a catalog's database: one file that many processes and threads share, or memory for one catalog object.

Writers queue at BEGIN IMMEDIATE for up to `busy_timeout` seconds, so a transaction that has begun does not fail because
of a lock. Files are set to WAL mode, in which readers do not wait for writers, and every COMMIT is on disk before it
returns.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

from floe.catalog.sql.database import MEMORY, Lease, Pool, Row, Session, Value
from floe.errors import AlreadyExists, CatalogError, CatalogUnavailable, FloeError, OutcomeUnknown

_LEAST_WAIT_FOR_A_THREAD: Final = 10.0

SqliteConnect: TypeAlias = Callable[[str, float], sqlite3.Connection]
"""Opens a connection to a path with a busy time-out in seconds."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_HINTS: Mapping[int, str] = {
    sqlite3.SQLITE_CANTOPEN: "check that the folder is there and may be written",
    sqlite3.SQLITE_READONLY: "the file or its folder may not be written",
    sqlite3.SQLITE_PERM: "the file may not be read",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; restore it from a copy",
    sqlite3.SQLITE_FULL: "the disk is full",
}


def _connect(path: str, busy_timeout: float) -> sqlite3.Connection:
    # isolation_level None: sqlite3 begins no transactions of its own. Leases keep a connection to one thread at a time.
    return sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)


class SqliteDatabase:
    """A SQLite database in a file, or in memory (`:memory:`; gone when it is closed).

    >>> database = SqliteDatabase(":memory:")
    >>> with database.transaction() as session:
    ...     _ = session.execute("CREATE TABLE t (name VARCHAR(255) PRIMARY KEY)")
    ...     session.execute("INSERT INTO t VALUES (?)", ["it's"])
    1
    >>> database.read("SELECT name FROM t"), dict(database.columns("t")), dict(database.columns("u"))
    ([("it's",)], {'name': None}, {})
    >>> database.close()
    """

    lock_for_update = ""  # BEGIN IMMEDIATE keeps every other writer out
    lock_for_share = ""

    def __init__(self, path: str, *, busy_timeout: float = 30.0, connect: SqliteConnect = _connect) -> None:
        self._path = path if path == MEMORY else os.path.abspath(path)
        self._busy_timeout = busy_timeout
        self._connect_to = connect
        self._memory_process: int | None = None
        # A database in memory has one connection. Readers of a file use several; more would only wait for each other.
        size = 1 if path == MEMORY else 4
        waiting = max(busy_timeout, _LEAST_WAIT_FOR_A_THREAD)
        self._pool = Pool(self._connect, sqlite3.Connection.close, size=size, timeout=waiting)

    def __repr__(self) -> str:
        return f"SqliteDatabase({self._path!r})"

    @property
    def description(self) -> str:
        """The database's URI."""
        return f"sqlite:///{self._path}"

    def close(self) -> None:
        """Closes the connections to the database."""
        self._pool.close()

    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of one SELECT."""
        with self._pool.lease() as lease:
            return _Session(lease.connection, self._translated).query(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A transaction; no other writer runs at the same time."""
        with self._pool.lease() as lease, self._begun(lease) as session:
            yield session
            self._commit(lease)

    @contextmanager
    def peek(self) -> Iterator[Session]:
        """A transaction that is rolled back; it waits for those under way."""
        with self._pool.lease() as lease, self._begun(lease) as session:
            yield session

    def columns(self, table: str) -> Mapping[str, int | None]:
        """The columns of a table; SQLite holds texts of any length, whatever the columns' types say."""
        return {name: None for (name,) in self.read("SELECT name FROM pragma_table_info(?)", [table])}

    def _connect(self) -> sqlite3.Connection:
        if self._path == MEMORY:
            if self._memory_process is not None:
                raise CatalogError(
                    "a catalog in memory belongs to the process that opened it",
                    hint="use a file, sqlite:///lake.db, to share a catalog between processes",
                )
            self._memory_process = os.getpid()
        try:
            connection = self._connect_to(self._path, self._busy_timeout)
        except sqlite3.Error as error:
            raise self._translated(error) from error
        try:
            connection.execute("PRAGMA synchronous = FULL").close()
            if connection.execute("PRAGMA journal_mode").fetchone() == ("delete",):
                # A file that is locked or read only keeps the old mode, which is safe too: readers then wait.
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.Error as error:
            connection.close()
            raise self._translated(error) from error
        except BaseException:  # such as an interrupt: only this frame has the connection
            connection.close()
            raise
        return connection

    @contextmanager
    def _begun(self, lease: Lease[sqlite3.Connection]) -> Iterator[_Session]:
        """A transaction; whatever is not committed at the end of the block is rolled back."""
        connection = lease.connection
        try:
            try:
                connection.execute("BEGIN IMMEDIATE").close()
            except sqlite3.Error as error:
                raise self._translated(error) from error
            yield _Session(connection, self._translated)
        finally:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK").close()
            except sqlite3.Error:
                lease.lose()  # closing the connection rolls back

    def _commit(self, lease: Lease[sqlite3.Connection]) -> None:
        try:
            lease.connection.execute("COMMIT").close()
        except sqlite3.Error as error:
            if _primary_code(error) in _BUSY:
                raise self._translated(
                    error
                ) from error  # blocked by a reader: the transaction is intact, and rolled back
            # The disk failed. Whether the end of the log was written is known when the file is opened again.
            lease.lose()
            raise OutcomeUnknown(f"SQLite failed at COMMIT: {error}", database=self.description) from error
        except BaseException:
            lease.lose()
            raise

    def _translated(self, error: sqlite3.Error) -> FloeError:
        return _translated(error).with_context(database=self.description)


class _Session:
    """A connection within a transaction, or for a single read."""

    def __init__(self, connection: sqlite3.Connection, translated: Callable[[sqlite3.Error], FloeError]) -> None:
        self._connection = connection
        self._translated = translated

    def query(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of a SELECT."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def execute(self, statement: str, values: Sequence[Value] = ()) -> int:
        """The number of rows that a statement changed."""
        try:
            return self._connection.execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise self._translated(error) from error


def _translated(error: sqlite3.Error) -> FloeError:
    """The Floe error for an SQLite error of a statement that had no effect."""
    code = _primary_code(error)
    if code in _BUSY:
        return CatalogUnavailable(
            "the database is locked by another writer", hint="try again, or raise busy_timeout (seconds)"
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return AlreadyExists(f"SQLite rejected a row: {error}")
    return CatalogError(f"SQLite failed: {error}", hint=_HINTS.get(code))


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code: the lowest byte of the extended one."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
