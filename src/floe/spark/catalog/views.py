"""The views of a lake as Spark asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from difflib import get_close_matches
from typing import Any

from floe.catalog.protocol import Capability
from floe.errors import FloeError, InvalidInput, NoSuchNamespace, NoSuchTable, NoSuchView, ViewAlreadyExists
from floe.plan.metadata_tables.tables import NAMES
from floe.spark.bridge.exceptions import declared_error
from floe.spark.bridge.interfaces.catalogs import RelationCatalog
from floe.spark.bridge.views import read_view, spark_view
from floe.spark.definitions import no_such_namespace
from floe.spark.names import CHANGES
from floe.spark.settings import with_defaults
from floe.spark.tables.view import ViewDefinition, change_view, create_or_replace_view, create_view, defined
from floe.table.lake import Lake

__all__ = ["LakeViews"]


class LakeViews(RelationCatalog):
    """The part of a catalog that has to do with views."""

    _name: str
    lake: Lake

    def listViews(self, namespace: Any) -> Any:
        """The views of a namespace."""
        name = self.jvm.read_strings(namespace)
        try:
            return self.jvm.identifiers(self.lake.catalog.views(name) if self._has_views else ())
        except FloeError as error:
            raise declared_error(self.jvm, error, name) or error from None

    def viewExists(self, identifier: Any) -> bool:
        """Whether there is such a view."""
        return self._has_views and self.lake.view_exists(self.jvm.read_identifier(identifier))

    def loadView(self, identifier: Any) -> Any:
        """A view."""
        name = self.jvm.read_identifier(identifier)
        found = self.find_view(name)
        if found is None:
            raise self._view_error(NoSuchView("there is no such view"), name)
        return found

    def loadRelation(self, identifier: Any) -> Any:
        """A table or a view."""
        name = self.jvm.read_identifier(identifier)
        found = self.find_table(name) or self.find_view(name)
        if found is None:
            self.check_metadata_table(name)
            raise self._view_error(NoSuchTable("there is no such table or view"), name)
        return found

    def createView(self, identifier: Any, view: Any) -> Any:
        """Make a view."""
        name = self.jvm.read_identifier(identifier)
        try:
            self._check_namespace(name)
            create_view(self.lake, name, self._new_view(view))
        except FloeError as error:
            raise self._view_error(error, name) from None
        return view

    def replaceView(self, identifier: Any, view: Any) -> Any:
        """Make a view another one."""
        name = self.jvm.read_identifier(identifier)
        try:
            change_view(self.lake.view(name), self._definition_of(view))
        except FloeError as error:
            raise self._view_error(error, name) from None
        return view

    def createOrReplaceView(self, identifier: Any, view: Any) -> Any:
        """One or the other: what the statement does not say stays."""
        name = self.jvm.read_identifier(identifier)
        try:
            self._check_namespace(name)
            create_or_replace_view(self.lake, name, self._new_view(view))
        except FloeError as error:
            raise self._view_error(error, name) from None
        return view

    def dropView(self, identifier: Any) -> bool:
        """Remove a view."""
        try:
            self.lake.drop_view(self.jvm.read_identifier(identifier))
        except (NoSuchView, NoSuchNamespace):
            return False
        return True

    def renameView(self, old: Any, new: Any) -> None:
        """Give a view another name."""
        before = self.jvm.read_identifier(old)
        after = self.new_name(before, self.jvm.read_identifier(new))
        try:
            self.lake.rename_view(before, after)
        except NoSuchView as error:
            raise self._view_error(error, before) from None
        except ViewAlreadyExists as error:
            raise self._view_error(error, after) from None

    def new_name(self, before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
        """The name that RENAME TO means: Spark gives what was written, perhaps with the catalog, or the name alone."""
        if len(after) == 1:
            return (*before[:-1], *after)
        if len(after) > 2 and after[0] == self._name and not self.lake.namespace_exists(after[:-1]):
            return after[1:]
        return after

    def check_metadata_table(self, name: tuple[str, ...]) -> None:
        """Raise for what follows the name of a table and is none of its metadata tables: Spark would not tell."""
        *table, last = name
        if len(table) < 2 or not self.lake.table_exists(table) or self.lake.namespace_exists(table):
            return
        kinds = (*NAMES, CHANGES)
        near = get_close_matches(last.lower(), kinds, n=1)
        raise InvalidInput(
            f"{'.'.join((self._name, *table))} has no metadata table {last}",
            hint=(f"did you mean {near[0]}? " if near else "") + f"there are {', '.join(kinds)},"
            " and branch_<name>, tag_<name>, snapshot_id_<id>, at_timestamp_<milliseconds>",
        )

    def find_table(self, name: tuple[str, ...], *how: Any) -> Any:
        """The table of a name, if there is one: the other part of the catalog says."""
        raise NotImplementedError

    # the insides -------------------------------------------------------------------------------------------------

    def find_view(self, name: Sequence[str]) -> Any:
        """The view as what this Spark takes for one; None if there is none."""
        if len(name) < 2 or not self._has_views:
            return None
        try:
            view = self.lake.view(tuple(name))
        except (NoSuchView, NoSuchNamespace):
            return None
        found = defined(view)
        return spark_view(self.jvm, name, **{**asdict(found), "catalog": found.catalog or self._name})

    def _new_view(self, view: Any) -> ViewDefinition:
        """What Spark gives, with the properties that the catalog's settings have for views."""
        made = self._definition_of(view)
        return replace(made, properties=with_defaults(self.jvm, self._name, "view", made.properties))

    def _definition_of(self, view: Any) -> ViewDefinition:
        """What Spark gives; names that were looked for in this catalog are so whatever its name is elsewhere."""
        found = ViewDefinition(**read_view(self.jvm, view))
        return replace(found, catalog=None) if found.catalog == self._name else found

    def _check_namespace(self, name: tuple[str, ...]) -> None:
        if not self.lake.namespace_exists(name[:-1]):
            raise no_such_namespace(self._name, name[:-1])

    @property
    def _has_views(self) -> bool:
        return Capability.VIEWS in self.lake.capabilities

    def _view_error(self, error: FloeError, name: Sequence[str]) -> Exception:
        about = name[:-1] if isinstance(error, NoSuchNamespace) else name
        return declared_error(self.jvm, error, about) or error
