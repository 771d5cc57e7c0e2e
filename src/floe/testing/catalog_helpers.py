"""Helpers of the catalog tests: creating, changing and loading tables and views through a catalog's pointers."""

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
_MAX_ATTEMPTS = 100


class raises:
    """A context manager that expects an error of one of some classes, as `pytest.raises` does."""

    def __init__(self, *kinds: type[Exception]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            raise AssertionError(f"expected {self._kinds[0].__name__}, but nothing was raised")
        return issubclass(kind, self._kinds)


def run_concurrently(action: Callable[[int], R], count: int) -> list[R]:
    """Run an action in several threads that start at the same time, with the number of each; returns their results."""
    start = threading.Barrier(count)

    def run(number: int) -> R:
        start.wait()
        return action(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def current_time_ms(catalog: Catalog, identifier: Identifier) -> int:
    """The time of the catalog's clock, in milliseconds from 1970 on."""
    return catalog.pointer(identifier).environment.clock.now_ms()


def new_metadata(
    catalog: Catalog, identifier: Identifier, properties: Mapping[str, str] | None = None, *, format_version: int = 2
) -> TableMetadata:
    """The metadata of a new table at its default location."""
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
    """Create a table with the columns of `SCHEMA`; returns its state."""
    pointer = catalog.pointer(identifier)
    proposal = pointer.propose(None, new_metadata(catalog, identifier, properties, format_version=format_version))
    return publish(proposal)


def propose_properties(pointer: Pointer, base: TableState, properties: Mapping[str, str]) -> Proposal:
    """Propose a change that sets properties on a state of a table."""
    metadata = apply(
        base.metadata,
        [SetProperties(dict(properties))],
        now_ms=max(pointer.environment.clock.now_ms(), base.metadata.last_updated_ms),
        metadata_location=base.location,
    )
    return pointer.propose(base, metadata)


def publish(proposal: Proposal) -> TableState:
    """Swap a proposal and finish it; discard it if the swap fails."""
    try:
        proposal.pointer.swap(proposal)
    except FloeError:
        proposal.pointer.discard(proposal)
        raise
    proposal.pointer.finish(proposal)
    return proposal.state


def commit_properties(pointer: Pointer, base: TableState, properties: Mapping[str, str]) -> TableState:
    """Commit a change that sets properties on a state of a table; returns the new state."""
    return publish(propose_properties(pointer, base, properties))


def commit_until_success(pointer: Pointer, key: str) -> int:
    """Set a property on the current state, and retry after conflicts; returns the number of attempts."""
    for attempt in range(1, _MAX_ATTEMPTS):
        state = pointer.load()
        assert state is not None
        try:
            commit_properties(pointer, state, {key: "done"})
        except CommitConflict:
            continue
        return attempt
    raise AssertionError(f"{_MAX_ATTEMPTS} attempts to commit failed")


def load_table(catalog: Catalog, identifier: Identifier) -> TableState:
    """The current state of a table, which must exist."""
    state = catalog.pointer(identifier).load()
    assert state is not None, f"{format_identifier(identifier)} does not exist"
    return state


def new_view(
    catalog: Catalog, identifier: Identifier, *, sql: str = "SELECT 1", uuid: str | None = None
) -> ViewMetadata:
    """The metadata of a new view at its default location."""
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
