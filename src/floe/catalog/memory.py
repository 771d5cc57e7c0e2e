"""A catalog in memory: for tests, examples and the simulator; gone when the program ends.

Everything happens under one lock, so a commit to several tables is one step too. Metadata files are written as every
catalog writes them, by default to a storage in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from floe.catalog.identifiers import (
    Identifier,
    Namespace,
    check_identifier,
    check_namespace,
    check_namespace_properties,
    format_identifier,
)
from floe.catalog.metadata_files import clean_old_files, discard_proposal, read_metadata, write_proposal
from floe.catalog.protocol import Capability
from floe.catalog.purge import PurgePlan, plan_purge
from floe.commit.pointer import Outcome, Proposal, TableState
from floe.commit.roots import TableRoots
from floe.errors import (
    CommitConflict,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    TableAlreadyExists,
    UnsupportedFeature,
    ViewAlreadyExists,
)
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.spec.views.view_metadata import ViewMetadata
from floe.storage.environment import Environment
from floe.storage.locations import is_below, join
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage


class MemoryCatalog:
    """Tables, views and namespaces in dictionaries.

    >>> catalog = MemoryCatalog()
    >>> catalog.create_namespace(("db",))
    >>> catalog.namespaces(), catalog.default_location(("db", "orders"))
    ([('db',)], 'memory:warehouse/db/orders')
    >>> catalog.pointer(("db", "orders")).load() is None
    True
    """

    capabilities = frozenset(Capability)

    def __init__(
        self,
        name: str = "memory",
        *,
        storage: Storage | None = None,
        environment: Environment | None = None,
        warehouse: str = "memory:warehouse",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.environment = environment or Environment()
        self.storage = storage if storage is not None else MemoryStorage(clock=self.environment.clock)
        self.warehouse = warehouse.rstrip("/")
        self.properties: Mapping[str, str] = MappingProxyType(dict(properties or {}))
        self._namespaces: dict[Namespace, dict[str, str]] = {}
        self._tables: dict[Identifier, TableState] = {}
        self._published: set[str] = set()  # the metadata files of all proposals that were, so that they are found again
        self._views: dict[Identifier, ViewMetadata] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"MemoryCatalog({self.name!r}, {len(self._tables)} tables)"

    @property
    def shared(self) -> MemoryCatalog:
        """The catalog itself: it swaps several tables in one step."""
        return self

    def close(self) -> None:
        """Does nothing: there is nothing to give back."""

    # namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The namespaces directly below another one."""
        with self._lock:
            if parent:
                self._namespace(parent)
            return sorted(ns for ns in self._namespaces if ns[:-1] == parent)

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""
        with self._lock:
            return not namespace or namespace in self._namespaces

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Makes a namespace and those above it."""
        check_namespace(namespace)
        check_namespace_properties(properties or {})
        with self._lock:
            if self.namespace_exists(namespace):
                raise NamespaceAlreadyExists(
                    "there is a namespace of that name already", namespace=format_identifier(namespace) or "the catalog"
                )
            for depth in range(1, len(namespace)):
                self._namespaces.setdefault(namespace[:depth], {})
            self._namespaces[namespace] = dict(properties or {})

    def drop_namespace(self, namespace: Namespace) -> None:
        """Removes an empty namespace."""
        with self._lock:
            self._namespace(namespace)
            below = [
                *(ns for ns in self._namespaces if ns[:-1] == namespace),
                *(identifier for identifier in (*self._tables, *self._views) if identifier[:-1] == namespace),
            ]
            if below:
                raise NamespaceNotEmpty(
                    "the namespace is not empty",
                    hint="drop first what is in it",
                    namespace=format_identifier(namespace),
                    holds=", ".join(format_identifier(one) for one in sorted(below)[:5]),
                )
            del self._namespaces[namespace]

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace."""
        with self._lock:
            return dict(self._namespace(namespace))

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Removes and sets properties."""
        unwanted = frozenset(removals)
        check_namespace_properties(updates or {}, unwanted)
        with self._lock:
            properties = self._namespace(namespace)
            for key in unwanted:
                properties.pop(key, None)
            properties.update(updates or {})

    # tables --------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The tables directly in a namespace; the catalog itself has none."""
        with self._lock:
            if namespace:
                self._namespace(namespace)
            return sorted(identifier for identifier in self._tables if identifier[:-1] == namespace)

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table."""
        with self._lock:
            return identifier in self._tables

    def pointer(self, identifier: Identifier) -> MemoryPointer:
        """The pointer to a table's metadata."""
        check_identifier(identifier)
        return MemoryPointer(self, identifier)

    def default_location(self, identifier: Identifier) -> str:
        """A folder below the warehouse, or below the `location` of the namespace."""
        check_identifier(identifier)
        with self._lock:
            location = self._namespaces.get(identifier[:-1], {}).get("location")
        return join(location, identifier[-1]) if location else join(self.warehouse, *identifier)

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Removes a table; the plan of a purge is made before, so that one that cannot be made drops nothing."""
        while True:
            state = self._table(identifier)
            storage = self._roots(identifier[:-1]).of(state.metadata, state.location) if purge else self.storage
            plan = self._purge_plan(identifier, state, storage) if purge else None
            with self._lock:
                if self._table(identifier) is not state:
                    continue  # somebody committed while the plan was made
                del self._tables[identifier]
            if plan is not None:
                plan.apply(storage).check()
            return

    def _purge_plan(self, identifier: Identifier, state: TableState, storage: Storage) -> PurgePlan:
        """Which files go, unless another table has its files in the same folder."""
        plan = plan_purge(state, storage, above=(self.warehouse,))
        with self._lock:
            others = [
                format_identifier(other)
                for other, one in self._tables.items()
                if other != identifier and is_below(one.location, state.metadata.location)
            ]
        if others:
            raise UnsupportedFeature(
                "the table's files are those of another one too, so they are not deleted",
                hint="drop it without purge",
                table=format_identifier(identifier),
                other=", ".join(sorted(others)[:3]),
            )
        return plan

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Gives a table another name."""
        check_identifier(new)
        with self._lock:
            state = self._table(old)
            if new != old:
                self._check_free(new)
                del self._tables[old]
                self._tables[new] = state

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Makes a table of a metadata file."""
        check_identifier(identifier)
        storage = self._roots(identifier[:-1]).found(metadata_location)
        state = TableState(read_metadata(storage, metadata_location), metadata_location)
        with self._lock:
            self._check_free(identifier)
            self._tables[identifier] = state

    # views ---------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The views directly in a namespace; the catalog itself has none."""
        with self._lock:
            if namespace:
                self._namespace(namespace)
            return sorted(identifier for identifier in self._views if identifier[:-1] == namespace)

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""
        with self._lock:
            return identifier in self._views

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """A view."""
        with self._lock:
            return self._view(identifier)

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Makes a view."""
        check_identifier(identifier)
        with self._lock:
            self._check_free(identifier, view=True)
            self._views[identifier] = metadata

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Changes a view that is still as it was."""
        with self._lock:
            if self._view(identifier) != base:
                raise CommitConflict("somebody else changed the view", view=format_identifier(identifier))
            self._views[identifier] = metadata

    def drop_view(self, identifier: Identifier) -> None:
        """Removes a view."""
        with self._lock:
            self._view(identifier)
            del self._views[identifier]

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Gives a view another name."""
        check_identifier(new)
        with self._lock:
            view = self._view(old)
            if new != old:
                self._check_free(new, view=True)
                del self._views[old]
                self._views[new] = view

    # several tables at once ----------------------------------------------------------------------------------

    def swap_all(self, proposals: Sequence[Proposal]) -> None:
        """Publishes all proposals or none."""
        places = [(_identifier_of(proposal), proposal) for proposal in proposals]
        with self._lock:
            for identifier, proposal in places:
                self._check_swap(identifier, proposal)
            for identifier, proposal in places:
                self._tables[identifier] = proposal.state
                self._published.add(proposal.location)

    def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
        """What became of proposals: they were published if the first of them was."""
        with self._lock:
            return Outcome.PUBLISHED if proposals[0].location in self._published else Outcome.ABSENT

    def _check_swap(self, identifier: Identifier, proposal: Proposal) -> None:
        state = self._tables.get(identifier)
        if proposal.base is None:
            self._check_free(identifier)
        elif state is None:
            raise CommitConflict("the table is not there any more", table=format_identifier(identifier))
        elif state.location != proposal.base.location:
            raise CommitConflict(
                "somebody else committed first", table=format_identifier(identifier), current=state.location
            )

    def _roots(self, namespace: Namespace) -> TableRoots:
        """The storage of a table of a namespace, which allows what the catalog vouches for."""
        return TableRoots(
            self.storage,
            lambda: self.namespace_properties(namespace),
            lambda properties: self.update_namespace(namespace, properties),
        )

    # looking up (under the lock) -----------------------------------------------------------------------------

    def _namespace(self, namespace: Namespace) -> dict[str, str]:
        try:
            return self._namespaces[namespace]
        except KeyError:
            raise NoSuchNamespace("there is no such namespace", namespace=format_identifier(namespace)) from None

    def _table(self, identifier: Identifier) -> TableState:
        try:
            return self._tables[identifier]
        except KeyError:
            raise NoSuchTable("there is no such table", table=format_identifier(identifier)) from None

    def _view(self, identifier: Identifier) -> ViewMetadata:
        try:
            return self._views[identifier]
        except KeyError:
            raise NoSuchView("there is no such view", view=format_identifier(identifier)) from None

    def _check_free(self, identifier: Identifier, *, view: bool = False) -> None:
        """Raise unless the name is free and its namespace is there."""
        self._namespace(identifier[:-1])
        taken = ViewAlreadyExists if view else TableAlreadyExists
        if identifier in self._tables:
            raise taken("there is a table of that name already", name=format_identifier(identifier))
        if identifier in self._views:
            raise taken("there is a view of that name already", name=format_identifier(identifier))


class MemoryPointer:
    """The pointer to one table of a `MemoryCatalog`."""

    def __init__(self, catalog: MemoryCatalog, identifier: Identifier) -> None:
        self.catalog, self.identifier = catalog, identifier
        self._own = catalog._roots(identifier[:-1])

    def __repr__(self) -> str:
        return f"MemoryPointer({self.name!r})"

    @property
    def name(self) -> str:
        """The table's name, for people."""
        return format_identifier(self.identifier)

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._roots.storage

    @property
    def _roots(self) -> TableRoots:
        if self._own.lake is not self.catalog.storage:  # it may be exchanged
            self._own = self.catalog._roots(self.identifier[:-1])
        return self._own

    @property
    def environment(self) -> Environment:
        """Time, ids and chance."""
        return self.catalog.environment

    def load(self) -> TableState | None:
        """The current state."""
        with self.catalog._lock:
            state = self.catalog._tables.get(self.identifier)
        if state is not None:
            self._roots.of(state.metadata, state.location)
        return state

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        """Writes the metadata file."""
        if base is None:
            with self.catalog._lock:
                self.catalog._check_free(self.identifier)
        return write_proposal(self, base, metadata, updates=updates, requirements=requirements)

    def swap(self, proposal: Proposal) -> None:
        """Moves the pointer."""
        self.catalog.swap_all([proposal])

    def settle(self, proposal: Proposal) -> Outcome:
        """Whether the pointer ever was at the proposal's file."""
        return self.catalog.settle_all([proposal])

    def discard(self, proposal: Proposal) -> None:
        """Removes the file that was not published."""
        discard_proposal(proposal)

    def finish(self, proposal: Proposal) -> None:
        """Removes old metadata files, as the table's properties say."""
        clean_old_files(proposal)


def _identifier_of(proposal: Proposal) -> Identifier:
    pointer = proposal.pointer
    assert isinstance(pointer, MemoryPointer)
    return pointer.identifier
