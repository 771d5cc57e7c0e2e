"""Changes of several tables as one commit: all of them are published, or none.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> a, b = lake.create_table("db.a", "id bigint"), lake.create_table("db.b", "id bigint")
>>> with lake.transaction() as tx:
...     tx.table("db.a").set_properties({"batch": "7"})
...     tx.table("db.b").set_properties({"batch": "7"})
>>> a.refresh().properties["batch"], b.refresh().properties["batch"]
('7', '7')
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from floe.catalog.identifiers import Identifier, parse_identifier
from floe.catalog.protocol import Catalog
from floe.commit.loop import Work, commit_all
from floe.errors import InvalidInput, NoSuchTable
from floe.table.actions import warn_of_lost_changes
from floe.table.transaction import PendingTable

__all__ = ["LakeTransaction"]


class LakeTransaction:
    """Changes of several tables until the end of a `with` block; nothing is committed if the block raises."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: dict[Identifier, PendingTable] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<LakeTransaction of {self._catalog.name}: {'closed' if self._closed else list(self._tables.values())}>"

    def table(self, name: str | Sequence[str]) -> PendingTable:
        """A table to change; asked for again, it is the same, with the changes so far."""
        self._check_open()
        identifier = parse_identifier(name)
        if identifier not in self._tables:
            pointer = self._catalog.pointer(identifier)
            state = pointer.load()
            if state is None:
                raise NoSuchTable("there is no such table", table=pointer.name)
            self._tables[identifier] = PendingTable(pointer, state.metadata)
        return self._tables[identifier]

    def commit(self) -> None:
        """Make all changes of all tables, now."""
        self._check_open()
        try:
            works = [
                Work(table._pointer, changes, table._base.table_uuid)
                for table in self._tables.values()
                if (changes := table._changes())
            ]
        finally:
            self._close()
        by_pointer = {id(table._pointer): table for table in self._tables.values()}
        with ExitStack() as tidy:
            for work in works:
                tidy.enter_context(by_pointer[id(work.pointer)]._tidy(work.changes))
            commit_all(works, self._catalog.shared)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInput("this transaction is over", hint="begin a new one")

    def _close(self) -> None:
        self._closed = True
        for table in self._tables.values():
            table._close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._close()
            for table in self._tables.values():
                table._forget()
        elif not self._closed:
            self.commit()

    def __del__(self) -> None:
        if not self._closed and any(table._pending for table in self._tables.values()):
            warn_of_lost_changes(f"this transaction of {self._catalog.name}")
