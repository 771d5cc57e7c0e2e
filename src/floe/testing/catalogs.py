"""The promises of `Catalog` as tests: whoever writes a catalog can run them on it.

Subclass it in a test module and give one pytest fixture, `catalog`: an empty one that belongs to this test alone. What
a catalog cannot do by its `capabilities` is expected to be refused.

```python
class TestMine(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path):
        return MyCatalog(tmp_path)
```

What every catalog promises of dropping, renaming and registering tables, as tests.

What every catalog promises of tables and commits to them, as tests.

What every catalog promises of several tables, and many writers, at once, as tests.
"""

from __future__ import annotations

from floe.catalog.identifiers import Identifier, format_identifier
from floe.catalog.protocol import Capability, Catalog
from floe.commit.pointer import Outcome, TableState
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
from floe.spec.json_reader import GZIP_MAGIC
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.updates import SetProperties
from floe.storage.locations import join
from floe.testing.catalog_helpers import (
    at_once,
    committed,
    committed_at_last,
    create_table,
    load_table,
    new_metadata,
    new_view,
    now_of,
    proposed,
    raises,
)
from floe.testing.catalog_namespaces import NamespaceTests, ViewTests

# What every catalog promises of dropping, renaming and registering tables, as tests.


class DropTests:
    """Tables: dropped, renamed, registered."""

    def test_a_dropped_table_is_gone(self, catalog: Catalog) -> None:
        """Its name is free again, and what was made under it is not mixed up with what comes next."""
        catalog.create_namespace(("db",))
        for purge in (False, True):
            first = create_table(catalog, ("db", "t"))
            committed(catalog.pointer(("db", "t")), first, {"a": "1"})
            catalog.drop_table(("db", "t"), purge=purge)
            assert not catalog.table_exists(("db", "t"))
            assert catalog.pointer(("db", "t")).load() is None
            assert list(catalog.tables(("db",))) == []
            with raises(NoSuchTable):
                catalog.drop_table(("db", "t"))
            second = create_table(catalog, ("db", "t"))
            assert second.metadata.table_uuid != first.metadata.table_uuid
            assert load_table(catalog, ("db", "t")).metadata == second.metadata
            catalog.drop_table(("db", "t"), purge=True)

    def test_dropping_keeps_data_unless_it_is_purged(self, catalog: Catalog) -> None:
        """A drop alone never deletes data files; a purge deletes the table's metadata files."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"))
        storage = catalog.pointer(("db", "t")).storage
        data = join(state.metadata.location, "data", "a.parquet")
        storage.write(data, b"rows")
        catalog.drop_table(("db", "t"))
        assert storage.read(data) == b"rows"
        state = create_table(catalog, ("db", "t"))
        catalog.drop_table(("db", "t"), purge=True)
        assert not storage.exists(state.location)

    def test_a_purge_is_refused_where_files_are_shared(self, catalog: Catalog) -> None:
        """`gc.enabled=false`: the table is still there, with all its files."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"), {"gc.enabled": "false"})
        with raises(UnsupportedFeature):
            catalog.drop_table(("db", "t"), purge=True)
        assert load_table(catalog, ("db", "t")).metadata == state.metadata
        catalog.drop_table(("db", "t"))
        assert not catalog.table_exists(("db", "t"))

    def test_a_purge_spares_files_that_another_table_has_too(self, catalog: Catalog) -> None:
        """A metadata file that is registered twice makes two tables of the same files: neither is purged."""
        if Capability.REGISTER_ANYWHERE not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"))
        catalog.register_table(("db", "copy"), state.location)
        for name in ("t", "copy"):
            with raises(UnsupportedFeature):
                catalog.drop_table(("db", name), purge=True)
        catalog.drop_table(("db", "copy"))
        assert load_table(catalog, ("db", "t")).location == state.location
        catalog.drop_table(("db", "t"), purge=True)

    def test_a_commit_to_a_dropped_table_fails(self, catalog: Catalog) -> None:
        """It does not bring the table back."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        for purge in (False, True):
            proposal = proposed(pointer, create_table(catalog, ("db", "t")), {"late": "1"})
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
        old = committed(pointer, create_table(catalog, ("db", "t")), {"n": "1"})
        proposal = proposed(pointer, old, {"late": "1"})
        catalog.drop_table(("db", "t"), purge=True)
        new = committed(pointer, create_table(catalog, ("db", "t")), {"n": "1"})
        with raises(CommitConflict, NoSuchTable):
            pointer.swap(proposal)
        assert load_table(catalog, ("db", "t")).metadata == new.metadata
        assert committed(pointer, new, {"n": "2"}).metadata == load_table(catalog, ("db", "t")).metadata

    # renaming and registering --------------------------------------------------------------------------------

    def test_renaming_tables(self, catalog: Catalog) -> None:
        """The table is the same under its new name, also in another namespace; or it is refused."""
        for namespace in ("db", "other"):
            catalog.create_namespace((namespace,))
        state = create_table(catalog, ("db", "t"))
        if Capability.RENAME not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.rename_table(("db", "t"), ("db", "u"))
            assert list(catalog.tables(("db",))) == [("db", "t")]
            return
        for old, new in ((("db", "t"), ("db", "it's")), (("db", "it's"), ("other", "t_%"))):
            catalog.rename_table(old, new)
            assert not catalog.table_exists(old)
            assert catalog.pointer(old).load() is None
            assert load_table(catalog, new).metadata == state.metadata
        assert list(catalog.tables(("db",))) == []
        assert list(catalog.tables(("other",))) == [("other", "t_%")]
        state = committed(catalog.pointer(("other", "t_%")), state, {"a": "1"})
        assert load_table(catalog, ("other", "t_%")).metadata == state.metadata

    def test_renaming_tables_in_vain(self, catalog: Catalog) -> None:
        """A name that is taken, a table or a namespace that is not there: nothing happens."""
        if Capability.RENAME not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        one, two = create_table(catalog, ("db", "one")), create_table(catalog, ("db", "two"))
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
        assert load_table(catalog, ("db", "one")).metadata == one.metadata
        assert load_table(catalog, ("db", "two")).metadata == two.metadata

    def test_a_commit_under_the_old_name_fails(self, catalog: Catalog) -> None:
        """The table has another name now."""
        if Capability.RENAME not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        state = create_table(catalog, ("db", "t"))
        proposal = proposed(pointer, state, {"late": "1"})
        catalog.rename_table(("db", "t"), ("db", "u"))
        with raises(CommitConflict, NoSuchTable):
            pointer.swap(proposal)
        assert not catalog.table_exists(("db", "t"))
        assert load_table(catalog, ("db", "u")).metadata == state.metadata

    def test_registering_tables(self, catalog: Catalog) -> None:
        """A metadata file becomes a table that can be committed to; where that cannot be, it is refused."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"))
        if Capability.REGISTER_ANYWHERE not in catalog.capabilities:
            with raises(UnsupportedFeature):
                catalog.register_table(("db", "u"), state.location)
            assert list(catalog.tables(("db",))) == [("db", "t")]
            return
        catalog.drop_table(("db", "t"))
        catalog.register_table(("db", "u"), state.location)
        assert load_table(catalog, ("db", "u")).metadata == state.metadata
        assert list(catalog.tables(("db",))) == [("db", "u")]
        after = committed(catalog.pointer(("db", "u")), load_table(catalog, ("db", "u")), {"a": "1"})
        assert load_table(catalog, ("db", "u")).metadata == after.metadata

    def test_registering_in_vain(self, catalog: Catalog) -> None:
        """A name that is taken, a file that is not there or is no metadata: nothing happens."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"))
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


# What every catalog promises of tables and commits to them, as tests.


class TableTests:
    """Tables: created, loaded, committed to, cleaned up."""

    def test_a_table_is_created_and_loaded(self, catalog: Catalog) -> None:
        """In every version of the format, as it was given."""
        catalog.create_namespace(("db",))
        for version in (1, 2, 3):
            name = ("db", f"v{version}")
            pointer = catalog.pointer(name)
            assert pointer.load() is None
            assert not catalog.table_exists(name)
            made = create_table(catalog, name, {"a": "ü'%"}, format_version=version)
            assert catalog.table_exists(name)
            state = pointer.load()
            assert state is not None
            assert state.metadata == made.metadata
            assert state.location == made.location
            assert state.metadata.location == catalog.default_location(name)
            assert pointer.storage.exists(state.location)
            assert format_identifier(name) in pointer.name
        assert list(catalog.tables(("db",))) == [("db", "v1"), ("db", "v2"), ("db", "v3")]

    def test_missing_tables(self, catalog: Catalog) -> None:
        """They are told as missing; a pointer to one is fine."""
        catalog.create_namespace(("db",))
        assert not catalog.table_exists(("db", "t"))
        assert not catalog.table_exists(("no", "t"))
        assert catalog.pointer(("no", "t")).load() is None
        for purge in (False, True):
            with raises(NoSuchTable):
                catalog.drop_table(("db", "t"), purge=purge)

    def test_tables_need_a_namespace(self, catalog: Catalog) -> None:
        """A table is not created in one that is not there."""
        with raises(NoSuchNamespace):
            create_table(catalog, ("no", "t"))
        assert not catalog.table_exists(("no", "t"))
        assert list(catalog.namespaces()) == []

    def test_a_table_is_created_once(self, catalog: Catalog) -> None:
        """The second creation is refused, and the first stays as it was."""
        catalog.create_namespace(("db",))
        made = create_table(catalog, ("db", "t"))
        with raises(TableAlreadyExists):
            create_table(catalog, ("db", "t"))
        assert load_table(catalog, ("db", "t")).metadata == made.metadata

    def test_of_two_creations_one_wins(self, catalog: Catalog) -> None:
        """Both proposed before either is swapped."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        one, other = (pointer.propose(None, new_metadata(catalog, ("db", "t"))) for _ in range(2))
        assert pointer.load() is None
        pointer.swap(other)
        with raises(TableAlreadyExists):
            pointer.swap(one)
        assert pointer.settle(other) is Outcome.PUBLISHED
        assert pointer.settle(one) is Outcome.ABSENT
        pointer.discard(one)
        pointer.finish(other)
        assert load_table(catalog, ("db", "t")).metadata == other.metadata

    def test_commits_follow_one_another(self, catalog: Catalog) -> None:
        """Each is loaded as it was proposed, by old pointers and new ones, and remembers those before."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"))
        old = catalog.pointer(("db", "t"))
        files = [state.location]
        for n in range(12):
            state = committed(old, state, {"n": str(n)})
            files.append(state.location)
            assert load_table(catalog, ("db", "t")).metadata == state.metadata
        newest = old.load()
        assert newest is not None
        assert [entry.metadata_file for entry in newest.metadata.metadata_log] == files[:-1]
        assert all(old.storage.exists(file) for file in files)

    def test_of_two_commits_on_one_base_one_wins(self, catalog: Catalog) -> None:
        """The other is told of a conflict, and nothing of it is in the table."""
        catalog.create_namespace(("db",))
        base = create_table(catalog, ("db", "t"))
        pointer, rival = catalog.pointer(("db", "t")), catalog.pointer(("db", "t"))
        first, second = proposed(pointer, base, {"by": "first"}), proposed(rival, base, {"by": "second"})
        rival.swap(second)
        with raises(CommitConflict):
            pointer.swap(first)
        assert (pointer.settle(first), rival.settle(second)) == (Outcome.ABSENT, Outcome.PUBLISHED)
        pointer.discard(first)
        rival.finish(second)
        assert load_table(catalog, ("db", "t")).metadata.properties["by"] == "second"
        with raises(CommitConflict):
            pointer.swap(proposed(pointer, base, {"by": "third"}))

    def test_a_commit_is_found_under_later_ones(self, catalog: Catalog) -> None:
        """Others went on: what was published stays published, what was not stays absent."""
        catalog.create_namespace(("db",))
        base = create_table(catalog, ("db", "t"))
        pointer = catalog.pointer(("db", "t"))
        won, lost = proposed(pointer, base, {"by": "winner"}), proposed(pointer, base, {"by": "loser"})
        pointer.swap(won)
        with raises(CommitConflict):
            pointer.swap(lost)
        state = load_table(catalog, ("db", "t"))
        for n in range(3):
            state = committed(pointer, state, {"n": str(n)})
        assert pointer.settle(won) is Outcome.PUBLISHED
        assert pointer.settle(lost) is Outcome.ABSENT
        assert load_table(catalog, ("db", "t")).metadata == state.metadata

    def test_settling_tells_what_is_so(self, catalog: Catalog) -> None:
        """Whatever is said of a swap whose request may have been lost, the table says the same."""
        catalog.create_namespace(("db",))
        base = create_table(catalog, ("db", "t"))
        pointer = catalog.pointer(("db", "t"))
        proposal = proposed(pointer, base, {"by": "lost"})
        outcome = pointer.settle(proposal)
        assert outcome in (Outcome.PUBLISHED, Outcome.ABSENT)
        published = load_table(catalog, ("db", "t")).metadata.properties.get("by") == "lost"
        assert published == (outcome is Outcome.PUBLISHED)
        assert pointer.settle(proposal) is outcome

    def test_compressed_metadata(self, catalog: Catalog) -> None:
        """A table that wants it gets gzip files, and goes back to plain ones."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        state = create_table(catalog, ("db", "t"), {"write.metadata.compression-codec": "gzip"})
        state = committed(pointer, state, {"a": "1"})
        assert pointer.storage.read(state.location)[:2] == GZIP_MAGIC
        assert ".gz." in state.location
        assert load_table(catalog, ("db", "t")).metadata == state.metadata
        state = committed(pointer, state, {"write.metadata.compression-codec": "none"})
        state = committed(pointer, state, {"a": "2"})
        assert pointer.storage.read(state.location)[:1] == b"{"
        assert load_table(catalog, ("db", "t")).metadata == state.metadata

    def test_old_metadata_is_deleted_if_wanted(self, catalog: Catalog) -> None:
        """What left the log goes; what is in it, and the table, stays."""
        catalog.create_namespace(("db",))
        wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
        state = create_table(catalog, ("db", "t"), wanted)
        pointer, files = catalog.pointer(("db", "t")), [state.location]
        for n in range(8):
            state = committed(pointer, state, {"n": str(n)})
            files.append(state.location)
        assert [pointer.storage.exists(file) for file in files] == [False] * 6 + [True] * 3
        assert load_table(catalog, ("db", "t")).metadata == state.metadata

    def test_old_metadata_is_kept_by_default(self, catalog: Catalog) -> None:
        """Also when it leaves the log."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"), {"write.metadata.previous-versions-max": "1"})
        pointer, files = catalog.pointer(("db", "t")), [state.location]
        for n in range(4):
            state = committed(pointer, state, {"n": str(n)})
            files.append(state.location)
        assert all(pointer.storage.exists(file) for file in files)

    def test_clean_up_stays_in_the_table(self, catalog: Catalog) -> None:
        """A log that names files elsewhere deletes nothing there."""
        catalog.create_namespace(("db",))
        victim = create_table(catalog, ("db", "victim"))
        pointer = catalog.pointer(("db", "t"))
        wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        state = create_table(catalog, ("db", "t"), wanted)
        changed = apply(
            state.metadata,
            [SetProperties({"n": "0"})],
            now_ms=now_of(catalog, ("db", "t")),
            metadata_location=victim.location,
        )
        proposal = pointer.propose(state, changed)
        pointer.swap(proposal)
        pointer.finish(proposal)
        committed(pointer, load_table(catalog, ("db", "t")), {"n": "1"})
        assert load_table(catalog, ("db", "victim")).metadata == victim.metadata


# What every catalog promises of several tables, and many writers, at once, as tests.


class ConcurrencyTests:
    """Several tables, and many writers, at once."""

    def test_several_tables_are_committed_together(self, catalog: Catalog) -> None:
        """All or none: one conflict keeps all of them as they were; creations count too."""
        shared = catalog.shared
        assert (shared is not None) == (Capability.SEVERAL_TABLES in catalog.capabilities)
        if shared is None:
            return
        catalog.create_namespace(("db",))
        names = [("db", name) for name in ("a", "b")]
        pointers = [catalog.pointer(name) for name in names]
        bases = [create_table(catalog, name) for name in names]
        proposals = [proposed(p, base, {"round": "1"}) for p, base in zip(pointers, bases, strict=True)]
        new = catalog.pointer(("db", "c"))
        proposals.append(new.propose(None, new_metadata(catalog, ("db", "c"))))
        stale = [proposed(p, base, {"round": "stale"}) for p, base in zip(pointers, bases, strict=True)]
        shared.swap_all(proposals)
        assert shared.settle_all(proposals) is Outcome.PUBLISHED
        for proposal in proposals:
            proposal.pointer.finish(proposal)
        states = [load_table(catalog, name) for name in names]
        assert [state.metadata.properties["round"] for state in states] == ["1", "1"]
        assert catalog.table_exists(("db", "c"))
        mixed = [proposed(pointers[0], states[0], {"round": "2"}), stale[1]]
        with raises(CommitConflict):
            shared.swap_all(mixed)
        assert shared.settle_all(mixed) is Outcome.ABSENT
        last = [proposed(p, state, {"round": "3"}) for p, state in zip(pointers, states, strict=True)]
        shared.swap_all(list(reversed(last)))
        assert [load_table(catalog, name).metadata.properties["round"] for name in names] == ["3", "3"]

    # many at once --------------------------------------------------------------------------------------------

    def test_of_many_creators_one_wins(self, catalog: Catalog) -> None:
        """Eight threads create the same table: one is told that it did, and its table is there."""
        catalog.create_namespace(("db",))
        for n in range(3):
            name = ("db", f"t{n}")

            def create(_: int, name: Identifier = name) -> TableState | None:
                try:
                    return create_table(catalog, name)
                except TableAlreadyExists:
                    return None

            (winner,) = [made for made in at_once(create, 8) if made is not None]
            assert load_table(catalog, name).metadata == winner.metadata

    def test_no_commit_of_many_is_lost(self, catalog: Catalog) -> None:
        """Threads that commit to one table, each until it succeeds: all of it is there in the end."""
        catalog.create_namespace(("db",))
        create_table(catalog, ("db", "t"))

        def contend(number: int) -> int:
            pointer = catalog.pointer(("db", "t"))
            return sum(committed_at_last(pointer, f"{number}.{n}") for n in range(4))

        attempts = at_once(contend, 4)
        assert sum(attempts) >= 16
        properties = load_table(catalog, ("db", "t")).metadata.properties
        assert sorted(properties) == sorted(f"{number}.{n}" for number in range(4) for n in range(4))


class CatalogConformance(NamespaceTests, TableTests, DropTests, ViewTests, ConcurrencyTests):
    """All promises of the protocol, as test methods for pytest; see the module."""
