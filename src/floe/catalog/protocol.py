"""What a catalog can do: the one protocol that all of them share, and the capabilities in which they differ.

A catalog keeps one pointer for each table, to its current metadata, and gives it out as a `Pointer`; creating and
changing tables is the commit loop's work on that pointer. The calls promise:

| call | promise |
|---|---|
| `pointer` | no I/O; `load` gives None while there is no such table |
| a pointer's `propose` without a base | `NoSuchNamespace`, `TableAlreadyExists` as soon as that is known |
| a pointer's `swap` without a base | creates the table; `TableAlreadyExists` if somebody else did first |
| `drop_table` | afterwards the table is not there; without `purge` none of its data files is deleted |
| `rename_table` | in one step: the table is found under one of the names at any time |
| `register_table` | the table's state is that of the metadata file; the file is read and checked before |
| `replace_view` | only if the view is still what it was (`CommitConflict`) |
| everything that changes something | all or nothing; `CommitStateUnknown` if the answer was lost and reading could not tell |

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
    """What only some catalogs can; where it is missing, the call raises `UnsupportedFeature` and says what to do."""

    CUSTOM_LOCATIONS = "tables at locations of their own"
    NAMESPACE_PROPERTIES = "properties of namespaces"
    REGISTER_ANYWHERE = "registering metadata files wherever they are"
    RENAME = "renaming tables"
    RENAME_VIEWS = "renaming views"
    SEVERAL_TABLES = "committing to several tables at once"
    VIEWS = "views"


@runtime_checkable
class Catalog(Protocol):
    """Where tables are found by name; the module's table says what each call promises."""

    @property
    def name(self) -> str:
        """The catalog's name, for people and for views."""

    @property
    def properties(self) -> Mapping[str, str]:
        """What the catalog was opened with; secrets are not shown when it is printed."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this catalog can beyond what all can."""

    @property
    def shared(self) -> SharedSwap | None:
        """Publishes the changes of several tables at once; None where the catalog cannot."""

    def close(self) -> None:
        """Gives back connections; the catalog cannot be used afterwards. Closing twice does nothing."""

    # namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The namespaces directly below another one, or the outermost ones; `NoSuchNamespace`."""

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Makes a namespace, and those above it that are missing; `NamespaceAlreadyExists`."""

    def drop_namespace(self, namespace: Namespace) -> None:
        """Removes an empty namespace; `NoSuchNamespace`, `NamespaceNotEmpty`."""

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace; `NoSuchNamespace`."""

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Sets and removes properties; `NoSuchNamespace`. Removing one that is not set is fine."""

    # tables --------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The tables directly in a namespace; `NoSuchNamespace`."""

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table (a view is not one)."""

    def pointer(self, identifier: Identifier) -> Pointer:
        """The pointer to a table's metadata, whether the table is there or not."""

    def default_location(self, identifier: Identifier) -> str:
        """Where a new table of that name puts its files unless it is told otherwise."""

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Removes a table, with `purge` its files too; `NoSuchTable`."""

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Gives a table another name; `NoSuchTable`, `TableAlreadyExists`, `NoSuchNamespace`."""

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Makes a table of a metadata file that is there; `TableAlreadyExists`, `NoSuchNamespace`, `NoSuchFile`."""

    # views ---------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The views directly in a namespace; `NoSuchNamespace`."""

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """A view; `NoSuchView`."""

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Makes a view; `ViewAlreadyExists`, `NoSuchNamespace`."""

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Changes a view that is still as `base` says; `NoSuchView`, `CommitConflict`."""

    def drop_view(self, identifier: Identifier) -> None:
        """Removes a view; `NoSuchView`."""

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Gives a view another name; `NoSuchView`, `ViewAlreadyExists`, `NoSuchNamespace`."""
