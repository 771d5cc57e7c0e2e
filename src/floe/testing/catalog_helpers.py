"""What the tests of catalogs are made of: tables and views that are created, changed by a property, and loaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from floe.catalog.identifiers import Identifier, format_identifier
from floe.catalog.protocol import Catalog
from floe.commit.pointer import Pointer, Proposal, TableState
from floe.errors import CommitConflict, FloeError
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import SetProperties
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.spec.views.view_metadata import SqlRepresentation, ViewHistoryEntry, ViewMetadata, ViewVersion

R = TypeVar("R")

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "name", STRING)))
_ROUNDS = 100


class raises:
    """Expects an error of one of some kinds."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            raise AssertionError(f"{self._kinds[0].__name__} was expected, and nothing was raised")
        return issubclass(kind, self._kinds)


def at_once(action: Callable[[int], R], count: int) -> list[R]:
    """Runs an action in several threads that start at the same moment."""
    start = threading.Barrier(count)

    def run(number: int) -> R:
        start.wait()
        return action(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def now_of(catalog: Catalog, identifier: Identifier) -> int:
    """The catalog's time."""
    return catalog.pointer(identifier).environment.clock.now_ms()


def new_metadata(
    catalog: Catalog, identifier: Identifier, properties: Mapping[str, str] | None = None, *, format_version: int = 2
) -> TableMetadata:
    """The metadata of a new table at its usual location."""
    environment = catalog.pointer(identifier).environment
    return new_table_metadata(
        SCHEMA,
        location=catalog.default_location(identifier),
        uuid=str(environment.ids.uuid()),
        now_ms=environment.clock.now_ms(),
        properties=properties,
        format_version=format_version,
    )


def create_table(
    catalog: Catalog, identifier: Identifier, properties: Mapping[str, str] | None = None, *, format_version: int = 2
) -> TableState:
    """Creates a table."""
    pointer = catalog.pointer(identifier)
    proposal = pointer.propose(None, new_metadata(catalog, identifier, properties, format_version=format_version))
    return published(proposal)


def proposed(pointer: Pointer, base: TableState, properties: Mapping[str, str]) -> Proposal:
    """Proposes to set properties on a state."""
    changed = apply(
        base.metadata,
        [SetProperties(dict(properties))],
        now_ms=max(pointer.environment.clock.now_ms(), base.metadata.last_updated_ms),
        metadata_location=base.location,
    )
    return pointer.propose(base, changed)


def published(proposal: Proposal) -> TableState:
    """Swaps a proposal and finishes, or discards it."""
    try:
        proposal.pointer.swap(proposal)
    except FloeError:
        proposal.pointer.discard(proposal)
        raise
    proposal.pointer.finish(proposal)
    return proposal.state


def committed(pointer: Pointer, base: TableState, properties: Mapping[str, str]) -> TableState:
    """Sets properties on a state."""
    return published(proposed(pointer, base, properties))


def committed_at_last(pointer: Pointer, key: str) -> int:
    """Sets a property on the newest state until that succeeds, and says how often it was tried."""
    for attempt in range(1, _ROUNDS):
        state = pointer.load()
        assert state is not None
        try:
            committed(pointer, state, {key: "done"})
        except CommitConflict:
            continue
        return attempt
    raise AssertionError(f"{_ROUNDS} attempts were not enough")


def load_table(catalog: Catalog, identifier: Identifier) -> TableState:
    """The newest state of a table that is there."""
    state = catalog.pointer(identifier).load()
    assert state is not None, f"{format_identifier(identifier)} is not there"
    return state


def new_view(
    catalog: Catalog, identifier: Identifier, *, sql: str = "SELECT 1", uuid: str | None = None
) -> ViewMetadata:
    """The metadata of a new view at its usual location."""
    environment = catalog.pointer(("any", "name")).environment
    now_ms = environment.clock.now_ms()
    version = ViewVersion(1, 0, now_ms, (SqlRepresentation(sql, "spark"),), identifier[:-1])
    return ViewMetadata(
        view_uuid=uuid or str(environment.ids.uuid()),
        location=catalog.default_location(identifier),
        current_version_id=1,
        versions=(version,),
        version_log=(ViewHistoryEntry(now_ms, 1),),
        schemas=(SCHEMA,),
        properties={"comment": "ü'%"},
    )
