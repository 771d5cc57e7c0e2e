"""PostgreSQL as a catalog's database, through psycopg 3.

Each transaction is explicit, at READ COMMITTED: an UPDATE that waited for another one reads the row again, and finds
that it does not match any more. Time-outs are set for each transaction, so they apply behind connection poolers too.
The server ends a transaction whose client is lost before those that wait for it time out, so the outcome of a lost
COMMIT is known in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

from floe.catalog.sql.database import Lease, Pool, Row, Session, Value
from floe.errors import (
    AlreadyExists,
    CatalogError,
    CatalogUnavailable,
    CommitConflict,
    FloeError,
    InvalidSettings,
    OutcomeUnknown,
)
from floe.plugins import load_library

PostgresConnect: TypeAlias = Callable[..., Any]
"""Opens a connection with libpq's parameters; `psycopg.connect`."""

CONNECTION_DEFAULTS: Final[Mapping[str, str]] = {
    "connect_timeout": "10",
    "application_name": "floe",
    # A network that went away is noticed within a minute, also while waiting for an answer.
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}

# Of a table in the search path: name and length of each column; varchar(n) keeps n + 4 as its modifier.
_COLUMNS = """
SELECT attname, CASE WHEN atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND atttypmod > 4 THEN atttypmod - 4 END
FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped
"""

# SQLSTATE codes (Appendix A of PostgreSQL's manual).
_UNAVAILABLE = re.compile(r"08...|53...|55P03|57...|25P03|58...")
_CONFLICT = re.compile(r"40001|40P01|40002")
_DEFINITE_AT_COMMIT = re.compile(r"40001|40P01|40002|23...|25...")
_REFUSED = re.compile(r"authentication failed|no password supplied|pg_hba\.conf|does not exist|permission denied")
_HINTS: Mapping[str, str] = {
    "42501": "the user needs rights on iceberg_tables and iceberg_namespace_properties; ask an administrator",
    "25006": "connect to the primary server: a standby accepts no commits",
    "42P01": "the catalog's tables are missing",
    "3F000": "CREATE SCHEMA, or set search_path to an existing one",
}


class PostgresDatabase:
    """A PostgreSQL database, by libpq's parameters (`host`, `user`, `password`, `dbname`, `sslmode`, …)."""

    lock_for_update = " FOR UPDATE"
    lock_for_share = " FOR SHARE"

    def __init__(
        self,
        parameters: Mapping[str, str],
        *,
        description: str = "postgresql:",
        timeout: float = 30.0,
        pool_size: int = 4,
        connect: PostgresConnect | None = None,
    ) -> None:
        self._psycopg = load_library("psycopg", needed_by="postgresql://", install="floe[postgres]")
        self._parameters = {**CONNECTION_DEFAULTS, **parameters}
        self._description = description
        self._connect_to = connect or self._psycopg.connect
        wait_ms = max(1, round(timeout * 1000))
        self._limits = f"SET statement_timeout = {wait_ms}"
        self._begin = (
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
            f"SET LOCAL statement_timeout = {wait_ms}; SET LOCAL lock_timeout = {wait_ms}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {max(1, wait_ms // 2)}"
        )
        self._pool = Pool(self._connect, self._disconnect, size=pool_size, timeout=timeout)

    def __repr__(self) -> str:
        return f"PostgresDatabase({self._description!r})"

    @property
    def description(self) -> str:
        """The database's URI, without secrets."""
        return self._description

    def close(self) -> None:
        """Closes the connections to the database."""
        self._pool.close()

    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of one SELECT."""
        with self._pool.lease() as lease:
            try:
                return self._session(lease).query(statement, values)
            except CatalogUnavailable:
                if not (lease.is_reused and lease.connection.closed):
                    raise
                lease.renew()
                return self._session(lease).query(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A transaction, committed at the end of the block."""
        with self._pool.lease() as lease, self._begun(lease) as session:
            yield session
            self._commit(lease)

    @contextmanager
    def peek(self) -> Iterator[Session]:
        """A transaction that is always rolled back."""
        with self._pool.lease() as lease, self._begun(lease) as session:
            yield session

    def columns(self, table: str) -> Mapping[str, int | None]:
        """The columns of a table, with the maximum length of each."""
        return dict(self.read(_COLUMNS, [table]))

    def _connect(self) -> Any:
        connection = None
        try:
            connection = self._connect_to(**self._parameters, autocommit=True, prepare_threshold=None)
            connection.execute(self._limits)
            return connection
        except self._psycopg.ProgrammingError as error:
            raise self._error(InvalidSettings, "PostgreSQL's connection parameters cannot be used", error) from None
        except self._psycopg.Error as error:
            if connection is not None:
                self._disconnect(connection)
            kind = CatalogError if _REFUSED.search(str(error)) else CatalogUnavailable
            raise self._error(kind, "cannot connect to PostgreSQL", error) from None
        except BaseException:  # such as an interrupt: only this frame has the connection
            if connection is not None:
                self._disconnect(connection)
            raise

    @staticmethod
    def _disconnect(connection: Any) -> None:
        with suppress(Exception):
            connection.close()

    def _session(self, lease: Lease[Any]) -> _Session:
        return _Session(lease, self._translated, self._psycopg.Error)

    @contextmanager
    def _begun(self, lease: Lease[Any]) -> Iterator[_Session]:
        """A transaction; whatever is not committed at the end of the block is rolled back."""
        session = self._session(lease)
        try:
            try:
                session.run(self._begin)
            except CatalogUnavailable:
                if not (lease.is_reused and lease.connection.closed):
                    raise
                lease.renew()  # a pooled connection was lost while it was idle, and only BEGIN was sent
                session.run(self._begin)
            yield session
        finally:
            self._roll_back(lease)

    def _commit(self, lease: Lease[Any]) -> None:
        try:
            done = lease.connection.execute("COMMIT").statusmessage
        except self._psycopg.Error as error:
            if _DEFINITE_AT_COMMIT.fullmatch(error.sqlstate or ""):
                raise self._translated(error) from error
            lease.lose()
            raise self._error(OutcomeUnknown, "the connection to PostgreSQL was lost at COMMIT", error) from None
        except BaseException:
            lease.lose()
            raise
        if done != "COMMIT":  # the server rolled back, which it reports without an error
            raise CatalogError(f"PostgreSQL answered COMMIT with {done}", database=self._description)

    def _roll_back(self, lease: Lease[Any]) -> None:
        connection = lease.connection
        try:
            if connection.closed:
                lease.lose()
            elif connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except self._psycopg.Error:
            lease.lose()  # closing the connection rolls back

    def _translated(self, error: Any) -> FloeError:
        """The Floe error for a driver error of a statement that had no effect."""
        state = error.sqlstate or ""
        if state == "23505":
            return self._error(AlreadyExists, "PostgreSQL rejected a row", error)
        if _CONFLICT.fullmatch(state):
            return self._error(CommitConflict, "PostgreSQL rolled back in favour of another transaction", error)
        # An error without a code comes from libpq: the connection failed.
        if not state and isinstance(error, self._psycopg.OperationalError | self._psycopg.InterfaceError):
            return self._error(CatalogUnavailable, "the connection to PostgreSQL was lost", error)
        if _UNAVAILABLE.fullmatch(state):
            return self._error(CatalogUnavailable, "PostgreSQL was not available, or timed out", error)
        return self._error(CatalogError, "PostgreSQL failed", error, hint=_HINTS.get(state))

    def _error(self, kind: type[FloeError], message: str, error: Exception, *, hint: str | None = None) -> FloeError:
        """An error with the first line of the driver's message, passwords masked."""
        detail = str(error).strip().partition("\n")[0]
        for name, value in self._parameters.items():
            if value and "password" in name:
                detail = detail.replace(value, "***")
        return kind(f"{message}: {detail}" if detail else message, hint=hint, database=self._description)


class _Session:
    """A connection within a transaction, or for a single read."""

    def __init__(self, lease: Lease[Any], translated: Callable[[Any], FloeError], failure: type[Exception]) -> None:
        self._lease = lease
        self._translated = translated
        self._failure = failure

    def query(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of a SELECT."""
        return self._sent(statement, values).fetchall()  # type: ignore[no-any-return]

    def execute(self, statement: str, values: Sequence[Value] = ()) -> int:
        """The number of rows that a statement changed."""
        return self._sent(statement, values).rowcount  # type: ignore[no-any-return]

    def run(self, statements: str) -> None:
        """Runs statements without values."""
        self._sent(statements, None)

    def _sent(self, statement: str, values: Sequence[Value] | None) -> Any:
        try:
            return self._lease.connection.execute(statement.replace("?", "%s"), values)
        except self._failure as error:
            if self._lease.connection.closed:
                self._lease.lose()
            raise self._translated(error) from error
