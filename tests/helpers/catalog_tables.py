"""Small tables in a catalog: created, changed by a property, and read, without the commit loop."""

from collections.abc import Callable, Mapping

from floe.catalog.protocol import Catalog
from floe.commit.pointer import Pointer, Proposal, TableState
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import SetProperties
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, Field
from floe.spec.views.view_metadata import SqlRepresentation, ViewHistoryEntry, ViewMetadata, ViewVersion
from floe.storage.protocol import Data, Storage
from floe.storage.wrappers import StorageWrapper

SCHEMA = Schema((Field(1, "id", LONG, required=True),))


def new_metadata(pointer: Pointer, location: str, properties: Mapping[str, str] | None = None) -> TableMetadata:
    environment = pointer.environment
    uuid, now_ms = str(environment.ids.uuid()), environment.clock.now_ms()
    return new_table_metadata(SCHEMA, location=location, uuid=uuid, now_ms=now_ms, properties=properties)


def create(catalog: Catalog, name: tuple[str, ...], properties: Mapping[str, str] | None = None) -> TableState:
    """Creates a table, and its namespace where it is missing."""
    if not catalog.namespace_exists(name[:-1]):
        catalog.create_namespace(name[:-1])
    pointer = catalog.pointer(name)
    return publish(pointer.propose(None, new_metadata(pointer, catalog.default_location(name), properties)))


def propose(pointer: Pointer, base: TableState, **properties: str) -> Proposal:
    now_ms = max(pointer.environment.clock.now_ms(), base.metadata.last_updated_ms)
    changed = apply(base.metadata, [SetProperties(properties)], now_ms=now_ms, metadata_location=base.location)
    return pointer.propose(base, changed)


def publish(proposal: Proposal) -> TableState:
    proposal.pointer.swap(proposal)
    proposal.pointer.finish(proposal)
    return proposal.state


def change(pointer: Pointer, **properties: str) -> TableState:
    """Sets properties on the newest state."""
    return publish(propose(pointer, load(pointer), **properties))


def load(pointer: Pointer) -> TableState:
    state = pointer.load()
    assert state is not None
    return state


def a_view(sql: str = "SELECT 1 AS id") -> ViewMetadata:
    version = ViewVersion(1, 0, 1, (SqlRepresentation(sql, "spark"),), ("db",))
    return ViewMetadata(
        "9c12d441-03fe-4693-9a96-a0705ddf69c1", "x", 1, (version,), (ViewHistoryEntry(1, 1),), (SCHEMA,)
    )


def names(storage: Storage, folder: str) -> list[str]:
    """The files below a folder, by their names within it."""
    return [info.location.removeprefix(folder).lstrip("/") for info in storage.list(folder)]


class Interrupted(StorageWrapper):
    """A storage on which something else happens right before, or right after, the next creation of a file."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None

    def create(self, location: str, data: Data) -> None:
        before, self.before = self.before, None
        after, self.after = self.after, None
        if before:
            before()
        super().create(location, data)
        if after:
            after()


class Overwriting(StorageWrapper):
    """A store that takes conditional writes without an error, and ignores the condition."""

    def create(self, location: str, data: Data) -> None:
        self.storage.write(location, data, overwrite=True)


class NotExclusive(StorageWrapper):
    """A storage that says it cannot create exclusively."""

    @property
    def creates_exclusively(self) -> bool:
        return False
