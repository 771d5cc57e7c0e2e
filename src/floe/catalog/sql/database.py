"""A database as the SQL catalog sees it: reads, transactions with a clear end, and a small pool of connections.

Statements carry `?` for every value and never a value itself. What the calls promise:

| call | promise |
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
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from floe.errors import CatalogError, CatalogUnavailable

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
