"""A new table together with what is written to it: one commit, so that nobody ever sees it half made.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> with lake.create_table_transaction("db.t", "id bigint not null") as tx:
...     tx.set_properties({"owner": "me"})
...     lake.table_exists("db.t")
False
>>> tx.table.properties["owner"]
'me'
"""

from __future__ import annotations

from floe.commit.change import Change
from floe.commit.loop import commit
from floe.commit.operations.create import CreateOrReplaceTable, CreateTable, ReplaceTable
from floe.commit.pointer import Pointer, TableState
from floe.commit.roots import allow_changed
from floe.errors import InvalidInput, TableAlreadyExists
from floe.spec.metadata.apply import apply
from floe.table.table import Table
from floe.table.transaction import Transaction

__all__ = ["CreateTransaction"]


class CreateTransaction(Transaction):
    """A table that is made, or replaced, when the block ends; it can be written to before."""

    def __init__(
        self, pointer: Pointer, state: TableState | None, creation: CreateTable | CreateOrReplaceTable
    ) -> None:
        if state is not None and not isinstance(creation, ReplaceTable):
            raise TableAlreadyExists(
                "there is a table of that name already", hint="choose another name, or replace it", table=pointer.name
            )
        if state is None:
            metadata = apply(None, creation.creation(), now_ms=pointer.environment.clock.now_ms())
        else:
            metadata = state.metadata
        super().__init__(pointer, metadata, self._create)
        self._uuid = None if state is None else state.metadata.table_uuid
        self._made: Table | None = None
        self._pending.append(creation)
        if state is None:
            self._preview = (1, metadata)
        allow_changed(pointer.storage, None if state is None else state.metadata, self.metadata)

    @property
    def table(self) -> Table:
        """The table, once it is made."""
        if self._made is None:
            raise InvalidInput("the table is not made before the transaction ends", table=self.name)
        return self._made

    def _create(self, changes: list[Change]) -> None:
        self._made = Table(self._pointer, commit(self._pointer, changes, table_uuid=self._uuid))
