"""The protocol that all catalogs implement, and the capabilities in which they differ.

A catalog keeps one pointer for each table, to its current metadata, and gives it out as a `Pointer`; creating and
changing tables is the commit loop's work on that pointer. The calls promise:

| call | promise |
|---|---|
| `pointer` | no I/O; `load` gives None while there is no such table |
| a pointer's `propose` without a base | `NoSuchNamespace` or `TableAlreadyExists` as early as possible |
| a pointer's `swap` without a base | creates the table; `TableAlreadyExists` if another writer created it first |
| `drop_table` | afterwards the table does not exist; without `purge` none of its data files is deleted |
| `rename_table` | atomic: at any time the table has one of the two names |
| `register_table` | the table's state is that of the metadata file; the file is read and checked before |
| `replace_view` | only if the view's metadata is still the base (`CommitConflict`) |
| every call that changes something | all or nothing; `CommitStateUnknown` if the response was lost and reading did not show the outcome |

Tables and views of a namespace share their names. Identifiers come as tuples; `floe.catalog.identifiers` reads them
from text. Listings are sorted. A catalog may be used from several threads.
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

from floe.catalog.identifiers import Identifier, Namespace
from floe.commit.pointer import Pointer, SharedSwap
from floe.spec.views.view_metadata import ViewMetadata


class Capability(Enum):
    """A feature that only some catalogs have; without it the call raises `UnsupportedFeature` with a hint."""

    CUSTOM_LOCATIONS = "tables at locations of their own"
    NAMESPACE_PROPERTIES = "properties of namespaces"
    REGISTER_ANYWHERE = "registering metadata files wherever they are"
    RENAME = "renaming tables"
    RENAME_VIEWS = "renaming views"
    SEVERAL_TABLES = "committing to several tables at once"
    VIEWS = "views"


@runtime_checkable
class Catalog(Protocol):
    """Tables, views and namespaces by name; the table in the module says what each call promises."""

    @property
    def name(self) -> str:
        """The catalog's name, as shown to users and stored in views."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The URI and options that the catalog was opened with, secrets masked."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The optional features of this catalog."""

    @property
    def shared(self) -> SharedSwap | None:
        """Publishes changes of several tables at once; None if the catalog does not support it."""

    def close(self) -> None:
        """Closes connections; the catalog cannot be used afterwards. Closing twice does nothing."""

    # namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The direct children of a namespace, or the top-level namespaces; `NoSuchNamespace`."""

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace, and its parents that do not exist; `NamespaceAlreadyExists`."""

    def drop_namespace(self, namespace: Namespace) -> None:
        """Drops an empty namespace; `NoSuchNamespace`, `NamespaceNotEmpty`."""

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace; `NoSuchNamespace`."""

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Sets and removes properties; `NoSuchNamespace`. Removing a property that is not set does nothing."""

    # tables --------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The tables directly in a namespace; `NoSuchNamespace`."""

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table (a view is not one)."""

    def pointer(self, identifier: Identifier) -> Pointer:
        """The pointer to a table's metadata, whether the table exists or not."""

    def default_location(self, identifier: Identifier) -> str:
        """The location of a new table of that name, unless its creator chooses another."""

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Drops a table, with `purge` its files too; `NoSuchTable`."""

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table; `NoSuchTable`, `TableAlreadyExists`, `NoSuchNamespace`."""

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Adds a table with an existing metadata file; `TableAlreadyExists`, `NoSuchNamespace`, `NoSuchFile`."""

    # views ---------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The views directly in a namespace; `NoSuchNamespace`."""

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """The current metadata of a view; `NoSuchView`."""

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Creates a view; `ViewAlreadyExists`, `NoSuchNamespace`."""

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Replaces a view's metadata if it is still `base`; `NoSuchView`, `CommitConflict`."""

    def drop_view(self, identifier: Identifier) -> None:
        """Drops a view; `NoSuchView`."""

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view; `NoSuchView`, `ViewAlreadyExists`, `NoSuchNamespace`."""
