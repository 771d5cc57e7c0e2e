"""Conformance tests of catalogs: namespaces, names and views."""

from __future__ import annotations

from floe.catalog.protocol import Capability, Catalog
from floe.errors import (
    AlreadyExists,
    CommitConflict,
    InvalidInput,
    InvalidName,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    TableAlreadyExists,
    UnsupportedFeature,
    ViewAlreadyExists,
)
from floe.testing.catalog_helpers import create_table, load_table, new_metadata, new_view, raises

NAMES = (
    "plain",
    "under_score",
    "dash-ed",
    "with space",
    "per%cent",
    "it's",
    'double"quote',
    "back`tick",
    "semi;colon",
    "question?mark#hash",
    "ünïcode-数据-😀",
    "2024",
)
"""Valid names that some systems encode or interpret."""

INVALID_NAMES = ("", " ", ".", "..", "a/b", "a\\b", "nul\0", "line\nend", "\u202eright-to-left", "x" * 256)
"""Names that every catalog must reject."""


class NamespaceTests:
    """Tests of namespaces, their properties, and the names of namespaces and tables."""

    def test_namespaces_are_created_listed_and_dropped(self, catalog: Catalog) -> None:
        """A namespace exists from its creation until it is dropped; listings are sorted."""
        assert list(catalog.namespaces()) == []
        assert catalog.namespace_exists(())
        for name in ("b", "a"):
            assert not catalog.namespace_exists((name,))
            catalog.create_namespace((name,))
            assert catalog.namespace_exists((name,))
        assert list(catalog.namespaces()) == [("a",), ("b",)]
        assert list(catalog.tables(("a",))) == []
        assert list(catalog.namespaces(("a",))) == []
        catalog.drop_namespace(("a",))
        assert list(catalog.namespaces()) == [("b",)]
        assert not catalog.namespace_exists(("a",))

    def test_a_namespace_is_created_once(self, catalog: Catalog) -> None:
        """A second creation raises `NamespaceAlreadyExists` and changes nothing."""
        catalog.create_namespace(("a",))
        with raises(NamespaceAlreadyExists):
            catalog.create_namespace(("a",))
        with raises(AlreadyExists, InvalidName):
            catalog.create_namespace(())
        assert list(catalog.namespaces()) == [("a",)]

    def test_missing_namespaces(self, catalog: Catalog) -> None:
        """Every operation on a namespace that does not exist raises `NoSuchNamespace`."""
        for call in (
            lambda: catalog.namespaces(("no",)),
            lambda: catalog.tables(("no",)),
            lambda: catalog.views(("no",)),
            lambda: catalog.drop_namespace(("no",)),
            lambda: catalog.namespace_properties(("no",)),
            lambda: catalog.update_namespace(("no",), {"a": "b"}),
        ):
            with raises(NoSuchNamespace):
                call()
        assert list(catalog.namespaces()) == []

    def test_namespaces_nest(self, catalog: Catalog) -> None:
        """Parents are created too; a listing has one level; a namespace with children cannot be dropped."""
        catalog.create_namespace(("a", "b", "c"))
        catalog.create_namespace(("a", "d"))
        assert list(catalog.namespaces()) == [("a",)]
        assert list(catalog.namespaces(("a",))) == [("a", "b"), ("a", "d")]
        assert list(catalog.namespaces(("a", "b"))) == [("a", "b", "c")]
        for namespace in (("a",), ("a", "b")):
            assert catalog.namespace_exists(namespace)
            with raises(NamespaceNotEmpty):
                catalog.drop_namespace(namespace)
        table = create_table(catalog, ("a", "b", "t"))
        assert list(catalog.tables(("a", "b"))) == [("a", "b", "t")]
        assert list(catalog.tables(("a",))) == []
        assert list(catalog.namespaces(("a", "b"))) == [("a", "b", "c")]
        assert load_table(catalog, ("a", "b", "t")).metadata == table.metadata

    def test_a_namespace_with_tables_is_not_dropped(self, catalog: Catalog) -> None:
        """Only an empty namespace can be dropped."""
        catalog.create_namespace(("a",))
        create_table(catalog, ("a", "t"))
        with raises(NamespaceNotEmpty):
            catalog.drop_namespace(("a",))
        assert list(catalog.tables(("a",))) == [("a", "t")]
        catalog.drop_table(("a", "t"), purge=True)
        catalog.drop_namespace(("a",))
        assert list(catalog.namespaces()) == []

    def test_properties_of_namespaces(self, catalog: Catalog) -> None:
        """Properties are set, changed and removed, with any text.

        A catalog without them raises `UnsupportedFeature`.
        """
        if Capability.NAMESPACE_PROPERTIES not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.create_namespace(("a",), {"owner": "me"})
            return
        properties = {"owner": "me", "comment": 'it\'s 100% "mine"\n', "empty": ""}
        catalog.create_namespace(("a",), properties)
        catalog.create_namespace(("b",))
        assert dict(catalog.namespace_properties(("a",))) == properties
        assert dict(catalog.namespace_properties(("b",))) == {}
        catalog.update_namespace(("a",), {"owner": "you", "new": "1"}, ["comment", "never-set"])
        assert dict(catalog.namespace_properties(("a",))) == {"owner": "you", "empty": "", "new": "1"}
        catalog.update_namespace(("b",), {"x": "y"})
        catalog.update_namespace(("b",), removals=["x"])
        assert dict(catalog.namespace_properties(("b",))) == {}
        assert list(catalog.namespaces()) == [("a",), ("b",)]
        catalog.drop_namespace(("b",))
        assert list(catalog.namespaces()) == [("a",)]

    def test_invalid_properties_are_rejected(self, catalog: Catalog) -> None:
        """A value that is no text, or no valid Unicode, raises `InvalidInput` and changes nothing."""
        if Capability.NAMESPACE_PROPERTIES not in catalog.capabilities:
            return
        catalog.create_namespace(("a",), {"owner": "me"})
        for value in ("nul\0", "half a pair \ud800", None, 1):
            bad: dict[str, str] = {"x": value}  # type: ignore[dict-item]
            with raises(InvalidInput):
                catalog.update_namespace(("a",), bad)
            with raises(InvalidInput):
                catalog.create_namespace(("b",), bad)
        with raises(InvalidInput):
            catalog.update_namespace(("a",), {"owner": "you"}, ["owner"])
        assert dict(catalog.namespace_properties(("a",))) == {"owner": "me"}
        assert list(catalog.namespaces()) == [("a",)]

    # Names ------------------------------------------------------------------------------------------------------------

    def test_a_string_is_no_identifier(self, catalog: Catalog) -> None:
        """A string in the place of a tuple raises `InvalidName`: `"db"` would be the namespace `b` within `d`."""
        wrong: list[tuple[str, ...]] = ["db", ("db", 1)]  # type: ignore[list-item]
        for name in wrong:
            with raises(InvalidName):
                catalog.create_namespace(name)
            with raises(InvalidName):
                catalog.pointer(name)
            with raises(InvalidName):
                catalog.default_location(name)
        assert list(catalog.namespaces()) == []

    def test_names_are_stored_exactly(self, catalog: Catalog) -> None:
        """Names are stored as they are, without encoding, and are not interpreted as patterns."""
        for name in NAMES:
            catalog.create_namespace((name,))
        assert list(catalog.namespaces()) == sorted((name,) for name in NAMES)
        for name in NAMES:
            create_table(catalog, ("plain", name), {"me": name})
        assert list(catalog.tables(("plain",))) == sorted(("plain", name) for name in NAMES)
        assert list(catalog.tables(("it's",))) == []
        for name in NAMES:
            assert load_table(catalog, ("plain", name)).metadata.properties["me"] == name
        for name in NAMES[1:]:
            catalog.drop_table(("plain", name))
            catalog.drop_namespace((name,))
        assert list(catalog.tables(("plain",))) == [("plain", "plain")]
        assert list(catalog.namespaces()) == [("plain",)]

    def test_listings_are_exact(self, catalog: Catalog) -> None:
        """Listings do not confuse names that match each other as SQL patterns, or of which one is a prefix."""
        alike = ("a_b", "aXb", "a%b", "a", "ab", "a b")
        for name in alike:
            catalog.create_namespace((name,))
            catalog.create_namespace((name, f"in {name}"))
            create_table(catalog, (name, f"t {name}"))
        for name in alike:
            assert list(catalog.namespaces((name,))) == [(name, f"in {name}")]
            assert list(catalog.tables((name,))) == [(name, f"t {name}")]
            assert not catalog.table_exists((name, "t"))
        catalog.drop_table(("a_b", "t a_b"), purge=True)
        catalog.drop_namespace(("a_b", "in a_b"))
        catalog.drop_namespace(("a_b",))
        assert list(catalog.namespaces()) == sorted((name,) for name in alike if name != "a_b")

    def test_dots_in_names(self, catalog: Catalog) -> None:
        """A dot in a name is an ordinary character or is rejected; it never separates levels."""
        catalog.create_namespace(("a",))
        try:
            create_table(catalog, ("a", "b.c"))
        except InvalidName:
            pass
        else:
            assert list(catalog.tables(("a",))) == [("a", "b.c")]
            assert list(catalog.namespaces(("a",))) == []
        try:
            catalog.create_namespace(("x.y",))
        except InvalidName:
            assert list(catalog.namespaces()) == [("a",)]
        else:
            assert list(catalog.namespaces()) == [("a",), ("x.y",)]
            assert not catalog.namespace_exists(("x", "y"))

    def test_invalid_names_are_rejected(self, catalog: Catalog) -> None:
        """An invalid name raises `InvalidName` before anything changes."""
        catalog.create_namespace(("a",))
        for name in INVALID_NAMES:
            for call in (
                lambda name=name: catalog.create_namespace((name,)),
                lambda name=name: catalog.create_namespace(("a", name)),
                lambda name=name: catalog.pointer(("a", name)),
                lambda name=name: catalog.default_location(("a", name)),
                lambda name=name: catalog.create_view(("a", name), new_view(catalog, ("a", "v"))),
            ):
                with raises(InvalidName):
                    call()
        with raises(InvalidName):
            catalog.pointer(("alone",))
        assert list(catalog.namespaces()) == [("a",)]
        assert list(catalog.tables(("a",))) == []


class ViewTests:
    """Tests of views, which share their names with tables."""

    def test_views_are_created_replaced_and_dropped(self, catalog: Catalog) -> None:
        """A view is loaded as it was stored, and is not listed as a table.

        A replacement of an old version is a conflict.
        """
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
        """Every operation on a view that does not exist, or is a table, raises `NoSuchView`."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        create_table(catalog, ("db", "t"))
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
        """A name is either a table or a view, whichever was created first."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        create_table(catalog, ("db", "t"))
        catalog.create_view(("db", "v"), new_view(catalog, ("db", "v")))
        for name in (("db", "t"), ("db", "v")):
            with raises(ViewAlreadyExists):
                catalog.create_view(name, new_view(catalog, name))
            with raises(TableAlreadyExists):
                create_table(catalog, name)
        with raises(NoSuchTable):
            catalog.drop_table(("db", "v"))
        assert (list(catalog.tables(("db",))), list(catalog.views(("db",)))) == ([("db", "t")], [("db", "v")])

    def test_a_view_that_comes_first_keeps_its_name(self, catalog: Catalog) -> None:
        """A table that was proposed before a view of the name was created does not replace it."""
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
        """A renamed view is the same under its new name; invalid renames change nothing."""
        if Capability.VIEWS not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        create_table(catalog, ("db", "t"))
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
