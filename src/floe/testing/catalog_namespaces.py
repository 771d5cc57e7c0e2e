"""What every catalog promises of namespaces and of names, as tests.

What every catalog promises of views, as tests.
"""

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
"""Names that are treated wrongly somewhere."""

REFUSED = ("", " ", ".", "..", "a/b", "a\\b", "nul\0", "line\nend", "\u202eright-to-left", "x" * 256)
"""Names that no catalog takes."""


class NamespaceTests:
    """Namespaces and names."""

    def test_namespaces_are_made_listed_and_dropped(self, catalog: Catalog) -> None:
        """There from creation to dropping; nobody else's listing changes."""
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

    def test_a_namespace_is_made_once(self, catalog: Catalog) -> None:
        """The second creation is refused, and the first stays as it was."""
        catalog.create_namespace(("a",))
        with raises(NamespaceAlreadyExists):
            catalog.create_namespace(("a",))
        with raises(AlreadyExists, InvalidName):
            catalog.create_namespace(())
        assert list(catalog.namespaces()) == [("a",)]

    def test_missing_namespaces(self, catalog: Catalog) -> None:
        """Whatever is asked of one that is not there says so."""
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
        """Those above are made too; listings show one level; one that holds another cannot be dropped."""
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
        """It must be empty first."""
        catalog.create_namespace(("a",))
        create_table(catalog, ("a", "t"))
        with raises(NamespaceNotEmpty):
            catalog.drop_namespace(("a",))
        assert list(catalog.tables(("a",))) == [("a", "t")]
        catalog.drop_table(("a", "t"), purge=True)
        catalog.drop_namespace(("a",))
        assert list(catalog.namespaces()) == []

    def test_properties_of_namespaces(self, catalog: Catalog) -> None:
        """Set, changed and removed; any text; where there are none, they are refused."""
        if Capability.NAMESPACE_PROPERTIES not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.create_namespace(("a",), {"owner": "me"})
            return
        given = {"owner": "me", "comment": 'it\'s 100% "mine"\n', "empty": ""}
        catalog.create_namespace(("a",), given)
        catalog.create_namespace(("b",))
        assert dict(catalog.namespace_properties(("a",))) == given
        assert dict(catalog.namespace_properties(("b",))) == {}
        catalog.update_namespace(("a",), {"owner": "you", "new": "1"}, ["comment", "never-set"])
        assert dict(catalog.namespace_properties(("a",))) == {"owner": "you", "empty": "", "new": "1"}
        catalog.update_namespace(("b",), {"x": "y"})
        catalog.update_namespace(("b",), removals=["x"])
        assert dict(catalog.namespace_properties(("b",))) == {}
        assert list(catalog.namespaces()) == [("a",), ("b",)]
        catalog.drop_namespace(("b",))
        assert list(catalog.namespaces()) == [("a",)]

    def test_properties_that_cannot_be_are_refused(self, catalog: Catalog) -> None:
        """What is no text that everybody can store changes nothing, and the namespace goes on working."""
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

    # names ---------------------------------------------------------------------------------------------------

    def test_a_text_is_no_tuple_of_names(self, catalog: Catalog) -> None:
        """`"db"` would else be the namespace `b` within `d`."""
        wrong: list[tuple[str, ...]] = ["db", ("db", 1)]  # type: ignore[list-item]
        for name in wrong:
            with raises(InvalidName):
                catalog.create_namespace(name)
            with raises(InvalidName):
                catalog.pointer(name)
            with raises(InvalidName):
                catalog.default_location(name)
        assert list(catalog.namespaces()) == []

    def test_names_are_kept_to_the_letter(self, catalog: Catalog) -> None:
        """Nothing is encoded, decoded or taken for a pattern."""
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
        """Names that a pattern would take for each other stay apart."""
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
        """They are characters like others, or refused; never a level."""
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

    def test_impossible_names_are_refused(self, catalog: Catalog) -> None:
        """Before anything happens."""
        catalog.create_namespace(("a",))
        for name in REFUSED:
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


# What every catalog promises of views, as tests.


class ViewTests:
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
        """One name is a table or a view, whichever was first."""
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
