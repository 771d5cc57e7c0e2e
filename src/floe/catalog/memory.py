"""The catalog in memory, for tests, examples and simulations; it is lost when the program ends.

One lock guards all calls, so a commit to several tables is atomic too. Metadata files are written as by every catalog
with a pointer, by default to a storage in memory.
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
        self._published: set[str] = set()  # metadata files of all proposals that were published, for `settle_all`
        self._views: dict[Identifier, ViewMetadata] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"MemoryCatalog({self.name!r}, {len(self._tables)} tables)"

    @property
    def shared(self) -> MemoryCatalog:
        """The catalog itself, which swaps several tables at once."""
        return self

    def close(self) -> None:
        """Does nothing: there are no connections to close."""

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
        """Creates a namespace, and its parents that do not exist."""
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
                    hint="drop its tables, views and namespaces first",
                    namespace=format_identifier(namespace),
                    holds=", ".join(format_identifier(child) for child in sorted(below)[:5]),
                )
            del self._namespaces[namespace]

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace."""
        with self._lock:
            return dict(self._namespace(namespace))

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Sets and removes properties of a namespace."""
        removed_keys = frozenset(removals)
        check_namespace_properties(updates or {}, removed_keys)
        with self._lock:
            properties = self._namespace(namespace)
            for key in removed_keys:
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
        """Drops a table; a purge is planned before, so that a table that cannot be purged is not dropped either."""
        while True:
            state = self._table(identifier)
            storage = self.table_roots(identifier[:-1]).of(state.metadata, state.location) if purge else self.storage
            plan = self._purge_plan(identifier, state, storage) if purge else None
            with self._lock:
                if self._table(identifier) is not state:
                    continue  # somebody committed while the plan was made
                del self._tables[identifier]
            if plan is not None:
                plan.apply(storage).check()
            return

    def _purge_plan(self, identifier: Identifier, state: TableState, storage: Storage) -> PurgePlan:
        """The files to delete; raises if another table has files in the same location."""
        plan = plan_purge(state, storage, above=(self.warehouse,))
        with self._lock:
            sharing = [
                format_identifier(other)
                for other, other_state in self._tables.items()
                if other != identifier and is_below(other_state.location, state.metadata.location)
            ]
        if sharing:
            raise UnsupportedFeature(
                "another table has files in the same location, so they are not deleted",
                hint="drop the table without purge",
                table=format_identifier(identifier),
                other=", ".join(sorted(sharing)[:3]),
            )
        return plan

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, also into another namespace."""
        check_identifier(new)
        with self._lock:
            state = self._table(old)
            if new != old:
                self.check_name_is_free(new)
                del self._tables[old]
                self._tables[new] = state

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Adds a table whose current metadata is an existing file."""
        check_identifier(identifier)
        storage = self.table_roots(identifier[:-1]).allow_table_folder(metadata_location)
        state = TableState(read_metadata(storage, metadata_location), metadata_location)
        with self._lock:
            self.check_name_is_free(identifier)
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
        """The current metadata of a view."""
        with self._lock:
            return self._view(identifier)

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Creates a view in a namespace that exists."""
        check_identifier(identifier)
        with self._lock:
            self.check_name_is_free(identifier, view=True)
            self._views[identifier] = metadata

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Replaces a view's metadata if it is still `base`."""
        with self._lock:
            if self._view(identifier) != base:
                raise CommitConflict("somebody else changed the view", view=format_identifier(identifier))
            self._views[identifier] = metadata

    def drop_view(self, identifier: Identifier) -> None:
        """Drops a view; tables are not affected."""
        with self._lock:
            self._view(identifier)
            del self._views[identifier]

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view, also into another namespace."""
        check_identifier(new)
        with self._lock:
            view = self._view(old)
            if new != old:
                self.check_name_is_free(new, view=True)
                del self._views[old]
                self._views[new] = view

    # several tables at once ----------------------------------------------------------------------------------

    def swap_all(self, proposals: Sequence[Proposal]) -> None:
        """Publishes all proposals, or none of them."""
        by_table = [(_identifier_of(proposal), proposal) for proposal in proposals]
        with self._lock:
            for identifier, proposal in by_table:
                self._check_swap(identifier, proposal)
            for identifier, proposal in by_table:
                self._tables[identifier] = proposal.state
                self._published.add(proposal.location)

    def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
        """What became of proposals: they were published if the first of them was."""
        with self._lock:
            return Outcome.PUBLISHED if proposals[0].location in self._published else Outcome.ABSENT

    def _check_swap(self, identifier: Identifier, proposal: Proposal) -> None:
        state = self._tables.get(identifier)
        if proposal.base is None:
            self.check_name_is_free(identifier)
        elif state is None:
            raise CommitConflict("the table does not exist any more", table=format_identifier(identifier))
        elif state.location != proposal.base.location:
            raise CommitConflict(
                "somebody else committed first", table=format_identifier(identifier), current=state.location
            )

    # for pointers --------------------------------------------------------------------------------------------

    def table_roots(self, namespace: Namespace) -> TableRoots:
        """The storage for a table of a namespace, limited to the folders that the catalog allows it."""
        return TableRoots(
            self.storage,
            lambda: self.namespace_properties(namespace),
            lambda properties: self.update_namespace(namespace, properties),
        )

    def current_state(self, identifier: Identifier) -> TableState | None:
        """The published state of a table; None if there is no such table."""
        with self._lock:
            return self._tables.get(identifier)

    def check_name_is_free(self, identifier: Identifier, *, view: bool = False) -> None:
        """Raise unless the namespace exists and has no table or view of that name."""
        with self._lock:
            self._namespace(identifier[:-1])
            error = ViewAlreadyExists if view else TableAlreadyExists
            if identifier in self._tables:
                raise error("there is a table of that name already", name=format_identifier(identifier))
            if identifier in self._views:
                raise error("there is a view of that name already", name=format_identifier(identifier))

    # lookups (under the lock) --------------------------------------------------------------------------------

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


class MemoryPointer:
    """The pointer to one table of a `MemoryCatalog`."""

    def __init__(self, catalog: MemoryCatalog, identifier: Identifier) -> None:
        self.catalog, self.identifier = catalog, identifier
        self._last_roots = catalog.table_roots(identifier[:-1])

    def __repr__(self) -> str:
        return f"MemoryPointer({self.name!r})"

    @property
    def name(self) -> str:
        """The identifier of the table as text."""
        return format_identifier(self.identifier)

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._roots.storage

    @property
    def _roots(self) -> TableRoots:
        if self._last_roots.lake is not self.catalog.storage:  # tests replace the storage of a catalog
            self._last_roots = self.catalog.table_roots(self.identifier[:-1])
        return self._last_roots

    @property
    def environment(self) -> Environment:
        """The clock, ids and random numbers of the catalog."""
        return self.catalog.environment

    def load(self) -> TableState | None:
        """The current state; None if there is no such table."""
        state = self.catalog.current_state(self.identifier)
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
        """Writes the metadata file of a new state, which is not published yet."""
        if base is None:
            self.catalog.check_name_is_free(self.identifier)
        return write_proposal(self, base, metadata, updates=updates, requirements=requirements)

    def swap(self, proposal: Proposal) -> None:
        """Publishes a proposal by moving the pointer."""
        self.catalog.swap_all([proposal])

    def settle(self, proposal: Proposal) -> Outcome:
        """Whether the proposal was published, even if later ones followed."""
        return self.catalog.settle_all([proposal])

    def discard(self, proposal: Proposal) -> None:
        """Deletes the metadata file of a proposal that was not published."""
        discard_proposal(proposal)

    def finish(self, proposal: Proposal) -> None:
        """Deletes old metadata files if the table's properties ask for it."""
        clean_old_files(proposal)


def _identifier_of(proposal: Proposal) -> Identifier:
    """The table that a proposal of this catalog is for."""
    pointer = proposal.pointer
    assert isinstance(pointer, MemoryPointer)
    return pointer.identifier
