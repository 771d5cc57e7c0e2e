"""A database as the SQL catalog sees it: reads, transactions with a clear end, and a small pool of connections.

Statements carry `?` for every value and never a value itself. What the calls promise:

| call | promise |
|---|---|
| `read` | one statement; repeated on another connection if a kept one turns out to be dead, since reading changes nothing |
| `transaction` | all or nothing. An error other than `OutcomeUnknown`: nothing happened. `OutcomeUnknown`: the connection was lost after COMMIT was sent |
| `peek` | a transaction that is always rolled back; what it locks is free again when it ends |

In a transaction `CommitConflict` means that the database chose another transaction over this one (a deadlock),
`CatalogUnavailable` that it did not answer in time or the connection was lost, and `AlreadyExists` that a row of that
key is there. Nothing is ever sent twice, except BEGIN.
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
"""A row of a result."""

Value: TypeAlias = str | int | None
"""What can be bound to a `?`."""


class Session(Protocol):
    """A transaction that is under way."""

    def query(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of a SELECT."""

    def execute(self, statement: str, values: Sequence[Value] = ()) -> int:
        """Changes rows, and says how many."""


class Database(Protocol):
    """A database; the module's table says what each call promises."""

    @property
    def lock_for_update(self) -> str:
        """What a SELECT ends with to keep its rows from changing until the transaction ends."""

    @property
    def lock_for_share(self) -> str:
        """What a SELECT ends with to keep its rows from being deleted until the transaction ends."""

    @property
    def description(self) -> str:
        """The database for people: its URI without secrets."""

    def read(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """The rows of one SELECT."""

    def transaction(self) -> AbstractContextManager[Session]:
        """A transaction: committed at the end of the block, rolled back if it raises."""

    def peek(self) -> AbstractContextManager[Session]:
        """A transaction that changes nothing."""

    def columns(self, table: str) -> Mapping[str, int | None]:
        """The columns of a table with the longest text that each holds (None: any); none if there is no such table."""

    def close(self) -> None:
        """Closes the connections."""


class Pool(Generic[C]):
    """Connections, at most `size` in use at once, each by one thread; those that are given back are used again.

    A connection must never be used by two processes, so a forked process starts with none, and leaves those of its
    parent alone: even closing one would end the parent's.

    >>> pool = Pool(connect=lambda: object(), disconnect=lambda connection: None, size=1, timeout=0.01)
    >>> with pool.lease() as one:
    ...     pass
    >>> with pool.lease() as other:
    ...     other.connection is one.connection, other.is_kept
    (True, True)
    """

    def __init__(self, connect: Callable[[], C], disconnect: Callable[[C], None], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self._size = size
        self._timeout = timeout
        self._closed = False
        self._processes: dict[int, _Connections[C]] = {}
        # A catalog that was forgotten gives its connections back too, at the latest when the program ends.
        self._finalizer = weakref.finalize(self, _disconnect_all, self._processes, disconnect)

    @contextmanager
    def lease(self) -> Iterator[Lease[C]]:
        """A connection for one thread; it is kept for later unless the lease says that it is lost."""
        if self._closed:
            raise CatalogError("the catalog was closed", hint="open it again")
        own = self._processes.setdefault(os.getpid(), _Connections(self._size))
        if not own.slots.acquire(timeout=self._timeout):
            raise CatalogUnavailable(
                f"all {self._size} connections to the database were in use for {self._timeout:g} seconds"
            )
        try:
            lease = Lease(self, own)
            try:
                yield lease
            finally:
                lease._end(keep=not self._closed)
        finally:
            own.slots.release()

    def close(self) -> None:
        """Closes the connections that are not in use; the others are closed when they are given back."""
        self._closed = True
        self._finalizer()


class _Connections(Generic[C]):
    """The connections of one process."""

    def __init__(self, size: int) -> None:
        self.slots = threading.BoundedSemaphore(size)
        self.idle: list[C] = []  # append and pop are atomic


class Lease(Generic[C]):
    """The right to use one connection; `is_kept` if it was used before, so that it may have died since."""

    def __init__(self, pool: Pool[C], own: _Connections[C]) -> None:
        self._pool = pool
        self._own = own
        self._lost = False
        try:
            self.connection = own.idle.pop()
            self.is_kept = True
        except IndexError:
            self.connection = pool._connect()
            self.is_kept = False

    def renew(self) -> None:
        """Gives up a kept connection that died, and those that were kept with it, for a new one."""
        self._lost = True
        self._pool._disconnect(self.connection)
        while self._own.idle:
            self._pool._disconnect(self._own.idle.pop())
        self.connection = self._pool._connect()
        self.is_kept = self._lost = False

    def lose(self) -> None:
        """The connection is not to be used again."""
        self._lost = True

    def _end(self, *, keep: bool) -> None:
        if keep and not self._lost:
            self._own.idle.append(self.connection)
        else:
            self._pool._disconnect(self.connection)


def _disconnect_all(processes: dict[int, _Connections[C]], disconnect: Callable[[C], None]) -> None:
    own = processes.get(os.getpid())
    while own is not None and own.idle:
        disconnect(own.idle.pop())
