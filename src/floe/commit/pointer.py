"""The pointer to a table's current metadata, as the commit loop sees it: read, proposed, swapped, settled.

A catalog gives out one pointer for each table. What its calls promise is what keeps commits safe:

| call | promise |
|---|---|
| `load` | the state of now, never one that is older than what this process has seen committed |
| `propose` | chooses where the new metadata will be, and writes it there if the swap only moves a pointer |
| `swap` | sent once. Returns: published. `CommitConflict`: not published, the table has moved. `OutcomeUnknown`: may be. Any other error: not published |
| `settle` | after `OutcomeUnknown`: finds out by reading (or by repeating the very same swap, which cannot happen twice) |
| `discard` | removes what `propose` wrote; called only for a proposal that is known not to be published |
| `finish` | what is due after a success, such as the version hint and old metadata files; it never raises |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from floe.errors import NoSuchTable
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.storage.environment import Environment
from floe.storage.protocol import Storage


@dataclass(frozen=True, eq=False, slots=True)
class TableState:
    """A table as it was when its pointer was read: its metadata, and the file that holds it."""

    metadata: TableMetadata
    location: str


@dataclass(frozen=True, eq=False, slots=True)
class Proposal:
    """A new state for a table, ready to be swapped in; without a `base` it creates the table.

    `updates` and `requirements` say the same as `metadata`, for catalogs whose server applies them.
    """

    pointer: Pointer
    base: TableState | None
    metadata: TableMetadata
    location: str
    updates: tuple[TableUpdate, ...] = ()
    requirements: tuple[TableRequirement, ...] = ()
    content: bytes = field(default=b"", repr=False)
    """The bytes of the metadata file."""

    @property
    def state(self) -> TableState:
        """The state that the table has once this is published."""
        return TableState(self.metadata, self.location)


class Outcome(Enum):
    """What became of a swap."""

    PUBLISHED = "published"
    ABSENT = "absent"
    """Not published, and it never will be."""

    UNKNOWN = "unknown"
    """It cannot be found out now: the catalog or storage cannot be reached, or history was cut off."""


class Pointer(Protocol):
    """The pointer to one table's metadata; the module's table says what each call promises."""

    @property
    def name(self) -> str:
        """The table's name, for people."""

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""

    @property
    def environment(self) -> Environment:
        """Time, ids and chance."""

    def load(self) -> TableState | None:
        """The current state, or None if there is no such table."""

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        """A proposal to make `metadata` the table's state, if it is still in the state `base`."""

    def swap(self, proposal: Proposal) -> None:
        """Publishes the proposal, or raises."""

    def settle(self, proposal: Proposal) -> Outcome:
        """What became of a swap whose answer was lost."""

    def discard(self, proposal: Proposal) -> None:
        """Removes what the proposal wrote; never raises."""

    def finish(self, proposal: Proposal) -> None:
        """Does what is due after publishing; never raises."""


class SharedSwap(Protocol):
    """Catalogs that publish changes of several tables at once, all or nothing."""

    def swap_all(self, proposals: Sequence[Proposal]) -> None:
        """As `Pointer.swap`, for several tables."""

    def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
        """As `Pointer.settle`, for several tables."""


def load_existing(pointer: Pointer) -> TableState:
    """The current state of a table; `NoSuchTable` if it does not exist."""
    state = pointer.load()
    if state is None:
        raise NoSuchTable("there is no such table", table=pointer.name)
    return state
