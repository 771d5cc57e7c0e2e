"""What every catalog promises of dropping, renaming and registering tables, as tests."""

from __future__ import annotations

from floe.catalog.protocol import Capability, Catalog
from floe.errors import (
    AlreadyExists,
    CommitConflict,
    FloeError,
    InvalidName,
    NoSuchFile,
    NoSuchNamespace,
    NoSuchTable,
    TableAlreadyExists,
    UnsupportedFeature,
)
from floe.storage.locations import join
from floe.testing._catalog_steps import committed, created, loaded, new_view, proposed, raises

__all__ = ["DroppingPromises"]


class DroppingPromises:
    """Tables: dropped, renamed, registered."""

    def test_a_dropped_table_is_gone(self, catalog: Catalog) -> None:
        """Its name is free again, and what was made under it is not mixed up with what comes next."""
        catalog.create_namespace(("db",))
        for purge in (False, True):
            first = created(catalog, ("db", "t"))
            committed(catalog.pointer(("db", "t")), first, {"a": "1"})
            catalog.drop_table(("db", "t"), purge=purge)
            assert not catalog.table_exists(("db", "t"))
            assert catalog.pointer(("db", "t")).load() is None
            assert list(catalog.tables(("db",))) == []
            with raises(NoSuchTable):
                catalog.drop_table(("db", "t"))
            second = created(catalog, ("db", "t"))
            assert second.metadata.table_uuid != first.metadata.table_uuid
            assert loaded(catalog, ("db", "t")).metadata == second.metadata
            catalog.drop_table(("db", "t"), purge=True)

    def test_dropping_keeps_data_unless_it_is_purged(self, catalog: Catalog) -> None:
        """A drop alone never deletes data files; a purge deletes the table's metadata files."""
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"))
        storage = catalog.pointer(("db", "t")).storage
        data = join(state.metadata.location, "data", "a.parquet")
        storage.write(data, b"rows")
        catalog.drop_table(("db", "t"))
        assert storage.read(data) == b"rows"
        state = created(catalog, ("db", "t"))
        catalog.drop_table(("db", "t"), purge=True)
        assert not storage.exists(state.location)

    def test_a_purge_is_refused_where_files_are_shared(self, catalog: Catalog) -> None:
        """`gc.enabled=false`: the table is still there, with all its files."""
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"), {"gc.enabled": "false"})
        with raises(UnsupportedFeature):
            catalog.drop_table(("db", "t"), purge=True)
        assert loaded(catalog, ("db", "t")).metadata == state.metadata
        catalog.drop_table(("db", "t"))
        assert not catalog.table_exists(("db", "t"))

    def test_a_purge_spares_files_that_another_table_has_too(self, catalog: Catalog) -> None:
        """A metadata file that is registered twice makes two tables of the same files: neither is purged."""
        if Capability.REGISTER_ANYWHERE not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"))
        catalog.register_table(("db", "copy"), state.location)
        for name in ("t", "copy"):
            with raises(UnsupportedFeature):
                catalog.drop_table(("db", name), purge=True)
        catalog.drop_table(("db", "copy"))
        assert loaded(catalog, ("db", "t")).location == state.location
        catalog.drop_table(("db", "t"), purge=True)

    def test_a_commit_to_a_dropped_table_fails(self, catalog: Catalog) -> None:
        """It does not bring the table back."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        for purge in (False, True):
            proposal = proposed(pointer, created(catalog, ("db", "t")), {"late": "1"})
            catalog.drop_table(("db", "t"), purge=purge)
            with raises(CommitConflict, NoSuchTable):
                pointer.swap(proposal)
            pointer.discard(proposal)
            assert not catalog.table_exists(("db", "t"))
            assert list(catalog.tables(("db",))) == []

    def test_a_commit_does_not_reach_another_table_of_the_name(self, catalog: Catalog) -> None:
        """Dropped and made anew, with as many commits: a change of the old one is refused."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        old = committed(pointer, created(catalog, ("db", "t")), {"n": "1"})
        proposal = proposed(pointer, old, {"late": "1"})
        catalog.drop_table(("db", "t"), purge=True)
        new = committed(pointer, created(catalog, ("db", "t")), {"n": "1"})
        with raises(CommitConflict, NoSuchTable):
            pointer.swap(proposal)
        assert loaded(catalog, ("db", "t")).metadata == new.metadata
        assert committed(pointer, new, {"n": "2"}).metadata == loaded(catalog, ("db", "t")).metadata

    # renaming and registering --------------------------------------------------------------------------------

    def test_renaming_tables(self, catalog: Catalog) -> None:
        """The table is the same under its new name, also in another namespace; or it is refused."""
        for namespace in ("db", "other"):
            catalog.create_namespace((namespace,))
        state = created(catalog, ("db", "t"))
        if Capability.RENAME not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.rename_table(("db", "t"), ("db", "u"))
            assert list(catalog.tables(("db",))) == [("db", "t")]
            return
        for old, new in ((("db", "t"), ("db", "it's")), (("db", "it's"), ("other", "t_%"))):
            catalog.rename_table(old, new)
            assert not catalog.table_exists(old)
            assert catalog.pointer(old).load() is None
            assert loaded(catalog, new).metadata == state.metadata
        assert list(catalog.tables(("db",))) == []
        assert list(catalog.tables(("other",))) == [("other", "t_%")]
        state = committed(catalog.pointer(("other", "t_%")), state, {"a": "1"})
        assert loaded(catalog, ("other", "t_%")).metadata == state.metadata

    def test_renaming_tables_in_vain(self, catalog: Catalog) -> None:
        """A name that is taken, a table or a namespace that is not there: nothing happens."""
        if Capability.RENAME not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        one, two = created(catalog, ("db", "one")), created(catalog, ("db", "two"))
        with raises(TableAlreadyExists):
            catalog.rename_table(("db", "one"), ("db", "two"))
        with raises(NoSuchTable):
            catalog.rename_table(("db", "none"), ("db", "new"))
        with raises(NoSuchNamespace):
            catalog.rename_table(("db", "one"), ("no", "new"))
        with raises(InvalidName):
            catalog.rename_table(("db", "one"), ("db", "a/b"))
        if Capability.VIEWS in catalog.capabilities:
            catalog.create_view(("db", "v"), new_view(catalog, ("db", "v")))
            with raises(AlreadyExists):
                catalog.rename_table(("db", "one"), ("db", "v"))
        assert loaded(catalog, ("db", "one")).metadata == one.metadata
        assert loaded(catalog, ("db", "two")).metadata == two.metadata

    def test_a_commit_under_the_old_name_fails(self, catalog: Catalog) -> None:
        """The table has another name now."""
        if Capability.RENAME not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        state = created(catalog, ("db", "t"))
        proposal = proposed(pointer, state, {"late": "1"})
        catalog.rename_table(("db", "t"), ("db", "u"))
        with raises(CommitConflict, NoSuchTable):
            pointer.swap(proposal)
        assert not catalog.table_exists(("db", "t"))
        assert loaded(catalog, ("db", "u")).metadata == state.metadata

    def test_registering_tables(self, catalog: Catalog) -> None:
        """A metadata file becomes a table that can be committed to; where that cannot be, it is refused."""
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"))
        if Capability.REGISTER_ANYWHERE not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.register_table(("db", "u"), state.location)
            assert list(catalog.tables(("db",))) == [("db", "t")]
            return
        catalog.drop_table(("db", "t"))
        catalog.register_table(("db", "u"), state.location)
        assert loaded(catalog, ("db", "u")).metadata == state.metadata
        assert list(catalog.tables(("db",))) == [("db", "u")]
        after = committed(catalog.pointer(("db", "u")), loaded(catalog, ("db", "u")), {"a": "1"})
        assert loaded(catalog, ("db", "u")).metadata == after.metadata

    def test_registering_in_vain(self, catalog: Catalog) -> None:
        """A name that is taken, a file that is not there or is no metadata: nothing happens."""
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"))
        storage = catalog.pointer(("db", "t")).storage
        folder = join(catalog.default_location(("db", "u")), "metadata")
        broken = join(folder, "00000-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json")
        storage.write(broken, b'{"format-version": 2')
        with raises(TableAlreadyExists):
            catalog.register_table(("db", "t"), state.location)
        with raises(NoSuchFile):
            catalog.register_table(("db", "u"), join(folder, "missing.metadata.json"))
        with raises(FloeError):
            catalog.register_table(("db", "u"), broken)
        with raises(NoSuchNamespace, UnsupportedFeature):
            catalog.register_table(("no", "u"), state.location)
        assert list(catalog.tables(("db",))) == [("db", "t")]
