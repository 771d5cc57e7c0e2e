"""The databases of SQL catalogs: their URIs, the protocol `Database`, and a small pool of connections.

URIs are accepted in Floe's spelling and those of other catalogs:

| URI | database |
|---|---|
| `sqlite:///lake.db`, `sqlite:////data/lake.db` | a file, by a relative or an absolute path (four slashes) |
| `sqlite://`, `sqlite:///:memory:` | memory, for one catalog object |
| `postgresql://user:password@host:5432/db?sslmode=require` | PostgreSQL; the parameters after `?` are those of libpq |

SQLAlchemy's drivers after a `+` (`postgresql+psycopg2`, `sqlite+pysqlite`) are accepted, as in PyIceberg, and ignored.
User and password are percent-decoded; the path of a SQLite file is not.

The SQL statements of the catalog have a `?` for every value. The methods of a `Database` guarantee:

| method | guarantee |
|---|---|
| `read` | one statement; repeated on another connection if a pooled one was lost, since reading changes nothing |
| `transaction` | all or nothing. An error other than `OutcomeUnknown`: nothing was changed. `OutcomeUnknown`: the connection was lost after COMMIT was sent |
| `peek` | a transaction that is always rolled back; its locks are released when it ends |

In a transaction `CommitConflict` means that the database chose another transaction over this one (a deadlock),
`CatalogUnavailable` that it timed out or the connection was lost, and `AlreadyExists` that a row of that key exists.
Nothing is ever sent twice, except BEGIN.
"""  # noqa: E501 (a table)

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from floe.errors import CatalogError, CatalogUnavailable, InvalidSettings

# URIs -------------------------------------------------------------------------------------------------------------


MEMORY: Final = ":memory:"
"""The path of an SQLite database that is in memory."""

_SCHEME = re.compile(r"(sqlite|postgres|postgresql)(?:\+(\w+))?:", re.I)
_DRIVERS: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset({"pysqlite"}),
    "postgresql": frozenset({"psycopg", "psycopg2", "psycopg2cffi", "pg8000"}),
}
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?")
_FORMS = "a SQL catalog is sqlite:///lake.db, or postgresql://user:password@host/database"


@dataclass(frozen=True, slots=True)
class SqliteUri:
    """A SQLite file by its path, or `:memory:`."""

    path: str
    busy_timeout: str | None = None
    """Seconds, as text of the URI."""

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@dataclass(frozen=True, slots=True)
class PostgresUri:
    """A PostgreSQL database by libpq's parameters; printed, it has no password."""

    parameters: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        """The user, hosts and database name only: other parameters may be secret."""
        user = self.parameters.get("user", "")
        hosts = self.parameters.get("host", "").split(",")
        ports = self.parameters.get("port", "").split(",")
        ports += [""] * (len(hosts) - len(ports))
        where = ",".join(
            (quote(host, safe="[]:./") if not host.startswith("/") else quote(host, safe="")) + (port and f":{port}")
            for host, port in zip(hosts, ports, strict=False)
        )
        return f"postgresql://{user and quote(user, safe='') + '@'}{where}/{quote(self.parameters.get('dbname', ''))}"


def is_sql_uri(text: str) -> bool:
    """Whether a text looks like the URI of a SQL catalog.

    >>> [is_sql_uri(text) for text in ("sqlite:///lake.db", "postgresql+psycopg://host/db", "s3://bucket/wh", "lake")]
    [True, True, False, False]
    """
    return _SCHEME.match(text) is not None


def parse_sql_uri(uri: str) -> SqliteUri | PostgresUri:
    """The database that a URI names.

    >>> print(parse_sql_uri("sqlite:///lake.db"), parse_sql_uri("sqlite:////data/lake.db"), parse_sql_uri("sqlite://"))
    sqlite:///lake.db sqlite:////data/lake.db sqlite:///:memory:
    >>> parsed = parse_sql_uri("postgresql+psycopg2://me:s%40cret@db.example/lake?sslmode=require")
    >>> print(parsed, parsed.parameters["password"], parsed.parameters["sslmode"])
    postgresql://me@db.example/lake s@cret require
    >>> parse_sql_uri("mysql://host/db")
    Traceback (most recent call last):
    floe.errors.InvalidSettings: there is no SQL catalog for 'mysql:'; ...
    """
    match = _SCHEME.match(uri)
    if match is None:
        # Only the scheme is shown: what follows may hold a password.
        scheme = re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", uri)
        raise InvalidSettings(f"there is no SQL catalog for {scheme[0] if scheme else 'this URI'!r}", hint=_FORMS)
    scheme_name = "sqlite" if match[1].lower() == "sqlite" else "postgresql"
    driver = (match[2] or "").lower()
    if driver and driver not in _DRIVERS[scheme_name]:
        raise InvalidSettings(f"there is no driver {driver!r} for {scheme_name}:", hint=_FORMS)
    after_scheme = uri[match.end() :]
    if not after_scheme.startswith("//"):
        raise InvalidSettings(f"{scheme_name}: must be followed by two slashes", hint=_FORMS)
    after_scheme, _, query = after_scheme[2:].partition("?")
    options = _options(query)
    return _parse_sqlite(after_scheme, options) if scheme_name == "sqlite" else _parse_postgres(after_scheme, options)


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in options:
            raise InvalidSettings(f"the URI sets {name} twice")
        options[name] = value
    return options


def _parse_sqlite(location: str, options: dict[str, str]) -> SqliteUri:
    if location and not location.startswith("/"):
        raise InvalidSettings(
            "the SQLite URI names a host", hint="sqlite:///relative.db has three slashes, sqlite:////absolute.db four"
        )
    timeout = options.pop("timeout", None)
    if options:
        raise InvalidSettings(f"a SQLite URI has no option {', '.join(options)}", hint="it has timeout (seconds)")
    path = location[1:]
    if "\0" in path:
        raise InvalidSettings("a SQLite path with a NUL character")
    return SqliteUri(path or MEMORY, timeout)


def _parse_postgres(location: str, options: dict[str, str]) -> PostgresUri:
    authority, _, database = location.partition("/")
    if "@" in database or any("@" in name for name in options):
        # Parsed further, a part of the password would be shown as the name of a host or database.
        raise InvalidSettings(
            "the PostgreSQL URI has an @ after its host",
            hint="write / ? @ in a password as %2F %3F %40, or use the option password",
        )
    credentials, _, hosts = authority.rpartition("@")
    user, has_password, password = credentials.partition(":")
    parameters = {"dbname": unquote(database), "user": unquote(user)}
    if has_password:
        parameters["password"] = unquote(password)
    names, ports = [], []
    for host in hosts.split(","):
        parts = _HOST.fullmatch(host)
        if parts is None:
            raise InvalidSettings("the host of the PostgreSQL URI cannot be read", hint=_FORMS)
        names.append(unquote(parts[1]).strip("[]"))
        ports.append(parts[2] or "")
    parameters["host"] = ",".join(names)
    parameters["port"] = ",".join(ports)
    present = {name: value for name, value in parameters.items() if value.strip(",")}
    return PostgresUri({**present, **options})


# Databases --------------------------------------------------------------------------------------------------------


C = TypeVar("C")

Row: TypeAlias = tuple[Any, ...]
"""A row of a query result."""

Value: TypeAlias = str | int | None
"""A value that can be bound to a `?`."""


class Session(Protocol):
    """A transaction in progress."""

    def query(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of a SELECT."""

    def execute(self, statement: str, values: Sequence[Value] = ()) -> int:
        """The number of rows that a statement changed."""


class Database(Protocol):
    """A database; the module's table says what each call promises."""

    @property
    def lock_for_update(self) -> str:
        """The end of a SELECT that locks its rows against changes until the transaction ends."""

    @property
    def lock_for_share(self) -> str:
        """The end of a SELECT that locks its rows against deletion until the transaction ends."""

    @property
    def description(self) -> str:
        """The database for messages: its URI without secrets."""

    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of one SELECT."""

    def transaction(self) -> AbstractContextManager[Session]:
        """A transaction: committed at the end of the block, rolled back if it raises."""

    def peek(self) -> AbstractContextManager[Session]:
        """A transaction that is always rolled back."""

    def columns(self, table: str) -> Mapping[str, int | None]:
        """The columns of a table with the longest text that each holds (None: any); none if there is no such table."""

    def close(self) -> None:
        """Closes the connections to the database."""


class Pool(Generic[C]):
    """Connections, at most `size` in use at once, each by one thread; idle ones are reused.

    A connection must never be used by two processes, so a forked process starts with none, and does not touch those of
    its parent: even closing one would end the parent's.

    >>> pool = Pool(connect=lambda: object(), disconnect=lambda connection: None, size=1, timeout=0.01)
    >>> with pool.lease() as first:
    ...     pass
    >>> with pool.lease() as second:
    ...     second.connection is first.connection, second.is_reused
    (True, True)
    """

    def __init__(self, connect: Callable[[], C], disconnect: Callable[[C], None], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self._size = size
        self._timeout = timeout
        self._closed = False
        self._processes: dict[int, _Connections[C]] = {}
        # Connections of a catalog that was not closed are closed when it is collected, or when the program ends.
        self._finalizer = weakref.finalize(self, _disconnect_all, self._processes, disconnect)

    @contextmanager
    def lease(self) -> Iterator[Lease[C]]:
        """A connection for one thread; afterwards it is idle, unless the lease was marked as lost."""
        if self._closed:
            raise CatalogError("the catalog was closed", hint="open it again")
        connections = self._processes.setdefault(os.getpid(), _Connections(self._size))
        if not connections.slots.acquire(timeout=self._timeout):
            raise CatalogUnavailable(
                f"all {self._size} connections to the database were in use for {self._timeout:g} seconds"
            )
        try:
            lease = Lease(connections, self._connect, self._disconnect)
            try:
                yield lease
            finally:
                lease.end(keep=not self._closed)
        finally:
            connections.slots.release()

    def close(self) -> None:
        """Closes idle connections; those in use are closed when their leases end."""
        self._closed = True
        self._finalizer()


class _Connections(Generic[C]):
    """The connections of one process."""

    def __init__(self, size: int) -> None:
        self.slots = threading.BoundedSemaphore(size)
        self.idle: list[C] = []  # append and pop are atomic


class Lease(Generic[C]):
    """The use of one connection; `is_reused` if it was idle before, so that it may have been lost since."""

    def __init__(self, connections: _Connections[C], connect: Callable[[], C], disconnect: Callable[[C], None]) -> None:
        self._connections = connections
        self._connect, self._disconnect = connect, disconnect
        self._lost = False
        try:
            self.connection = connections.idle.pop()
            self.is_reused = True
        except IndexError:
            self.connection = connect()
            self.is_reused = False

    def renew(self) -> None:
        """Replaces a reused connection that was lost by a new one, and closes all idle ones."""
        self._lost = True
        self._disconnect(self.connection)
        while self._connections.idle:
            self._disconnect(self._connections.idle.pop())
        self.connection = self._connect()
        self.is_reused = self._lost = False

    def lose(self) -> None:
        """Marks the connection as not to be used again."""
        self._lost = True

    def end(self, *, keep: bool) -> None:
        """Ends the use: the connection becomes idle, or is closed if it is lost or not to be kept."""
        if keep and not self._lost:
            self._connections.idle.append(self.connection)
        else:
            self._disconnect(self.connection)


def _disconnect_all(processes: dict[int, _Connections[C]], disconnect: Callable[[C], None]) -> None:
    connections = processes.get(os.getpid())
    while connections is not None and connections.idle:
        disconnect(connections.idle.pop())
