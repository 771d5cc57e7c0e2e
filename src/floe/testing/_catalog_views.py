"""What every catalog promises of views, as tests."""

from __future__ import annotations

from floe.catalog.protocol import Capability, Catalog
from floe.errors import (
    CommitConflict,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    TableAlreadyExists,
    UnsupportedFeature,
    ViewAlreadyExists,
)
from floe.testing._catalog_steps import created, new_metadata, new_view, raises

__all__ = ["ViewPromises"]


class ViewPromises:
    """Views, which share their names with tables."""

    def test_views_are_made_replaced_and_dropped(self, catalog: Catalog) -> None:
        """As they were given; they are not listed as tables."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        name = ("db", "it's_a%view")
        assert not catalog.view_exists(name)
        view = new_view(catalog, name)
        catalog.create_view(name, view)
        assert catalog.view_exists(name)
        assert not catalog.table_exists(name)
        assert catalog.pointer(name).load() is None
        assert catalog.load_view(name) == view
        assert list(catalog.views(("db",))) == [name]
        assert list(catalog.tables(("db",))) == []
        assert list(catalog.namespaces(("db",))) == []
        for n in range(3):
            changed = new_view(catalog, name, sql=f"SELECT {n}", uuid=view.view_uuid)
            catalog.replace_view(name, view, changed)
            assert catalog.load_view(name) == changed
            with raises(CommitConflict):
                catalog.replace_view(name, view, new_view(catalog, name, sql="SELECT 'stale'"))
            assert catalog.load_view(name) == changed
            view = changed
        with raises(NamespaceNotEmpty):
            catalog.drop_namespace(("db",))
        catalog.drop_view(name)
        assert not catalog.view_exists(name)
        assert list(catalog.views(("db",))) == []
        catalog.create_view(name, view)
        assert catalog.load_view(name) == view
        catalog.drop_view(name)
        catalog.drop_namespace(("db",))

    def test_missing_views(self, catalog: Catalog) -> None:
        """They are told as missing; a table is not a view."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        created(catalog, ("db", "t"))
        for name in (("db", "v"), ("db", "t")):
            assert not catalog.view_exists(name)
            with raises(NoSuchView):
                catalog.load_view(name)
            with raises(NoSuchView):
                catalog.drop_view(name)
            with raises(NoSuchView):
                catalog.replace_view(name, new_view(catalog, name), new_view(catalog, name))
        with raises(NoSuchNamespace):
            catalog.create_view(("no", "v"), new_view(catalog, ("no", "v")))
        assert catalog.table_exists(("db", "t"))

    def test_tables_and_views_share_their_names(self, catalog: Catalog) -> None:
        """One name is a table or a view, whichever was first."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        created(catalog, ("db", "t"))
        catalog.create_view(("db", "v"), new_view(catalog, ("db", "v")))
        for name in (("db", "t"), ("db", "v")):
            with raises(ViewAlreadyExists):
                catalog.create_view(name, new_view(catalog, name))
            with raises(TableAlreadyExists):
                created(catalog, name)
        with raises(NoSuchTable):
            catalog.drop_table(("db", "v"))
        assert (list(catalog.tables(("db",))), list(catalog.views(("db",)))) == ([("db", "t")], [("db", "v")])

    def test_a_view_that_comes_first_keeps_its_name(self, catalog: Catalog) -> None:
        """A table that was proposed before the view was there is not created over it."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "x"))
        proposal = pointer.propose(None, new_metadata(catalog, ("db", "x")))
        view = new_view(catalog, ("db", "x"))
        catalog.create_view(("db", "x"), view)
        with raises(TableAlreadyExists):
            pointer.swap(proposal)
        pointer.discard(proposal)
        assert catalog.load_view(("db", "x")) == view
        assert not catalog.table_exists(("db", "x"))

    def test_renaming_views(self, catalog: Catalog) -> None:
        """As tables are."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        created(catalog, ("db", "t"))
        view = new_view(catalog, ("db", "v"))
        catalog.create_view(("db", "v"), view)
        if Capability.RENAME_VIEWS not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.rename_view(("db", "v"), ("db", "w"))
            return
        with raises(ViewAlreadyExists):
            catalog.rename_view(("db", "v"), ("db", "t"))
        with raises(NoSuchView):
            catalog.rename_view(("db", "none"), ("db", "w"))
        with raises(NoSuchNamespace):
            catalog.rename_view(("db", "v"), ("no", "w"))
        catalog.rename_view(("db", "v"), ("db", "w"))
        assert catalog.load_view(("db", "w")) == view
        assert list(catalog.views(("db",))) == [("db", "w")]
