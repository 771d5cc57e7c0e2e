"""The pointer to a table's current metadata: the protocol that a catalog implements and the commit loop uses.

A catalog returns one pointer for each table. The commit loop relies on what its methods guarantee:

| method | guarantee |
|---|---|
| `load` | returns the current state, never an older one than this process has seen committed |
| `propose` | chooses the location of the new metadata file, and writes it if the swap only moves a pointer |
| `swap` | is sent once. Return: published. `CommitConflict`: not published, another commit came first. `OutcomeUnknown`: maybe published. Any other error: not published |
| `settle` | after `OutcomeUnknown`: finds out by reading, or by repeating the very same swap, which cannot happen twice |
| `discard` | deletes what `propose` wrote; called only for a proposal that is known not to be published |
| `finish` | work after a success, such as the version hint and old metadata files; never raises |
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
    """A table when its pointer was loaded: its metadata, and the location of the metadata file."""

    metadata: TableMetadata
    location: str


@dataclass(frozen=True, eq=False, slots=True)
class Proposal:
    """A new state for a table, ready for the swap; without a `base` it creates the table.

    `updates` and `requirements` are equivalent to `metadata`, for catalogs whose server applies them.
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
    """The outcome of a swap."""

    PUBLISHED = "published"
    ABSENT = "absent"
    """Not published, and it never will be."""

    UNKNOWN = "unknown"
    """Not known now: the catalog or storage cannot be reached, or the metadata log does not go back far enough."""


class Pointer(Protocol):
    """The pointer to one table's metadata; the module's docstring has the guarantees of its methods."""

    @property
    def name(self) -> str:
        """The table's name, for messages."""

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""

    @property
    def environment(self) -> Environment:
        """The clock, the source of ids and random numbers, and sleep."""

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
        """Prepare a swap from the state `base` to `metadata`."""

    def swap(self, proposal: Proposal) -> None:
        """Publish a proposal; raises `CommitConflict` if the table is not in the state `base` any more."""

    def settle(self, proposal: Proposal) -> Outcome:
        """Find the outcome of a swap whose answer was lost."""

    def discard(self, proposal: Proposal) -> None:
        """Delete what the proposal wrote; never raises."""

    def finish(self, proposal: Proposal) -> None:
        """Do the work that follows a successful swap; never raises."""


class SharedSwap(Protocol):
    """Implemented by catalogs that publish changes of several tables at once, all or none."""

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
