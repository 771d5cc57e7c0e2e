"""Conformance tests for implementations of the protocol `Catalog`.

Subclass `CatalogConformance` in a test module, with a pytest fixture `catalog` that returns an empty catalog for each
test. Features that are not among the catalog's `capabilities` must raise `UnsupportedFeature`.

```python
class TestMine(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path):
        return MyCatalog(tmp_path)
```
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
    commit_properties,
    commit_until_success,
    create_table,
    current_time_ms,
    load_table,
    new_metadata,
    new_view,
    propose_properties,
    raises,
    run_concurrently,
)
from floe.testing.catalog_namespaces import NamespaceTests, ViewTests


class DropTests:
    """Tests of dropping, renaming and registering tables."""

    def test_a_dropped_table_is_gone(self, catalog: Catalog) -> None:
        """The name of a dropped table is free; a new table of the name is another table."""
        catalog.create_namespace(("db",))
        for purge in (False, True):
            first = create_table(catalog, ("db", "t"))
            commit_properties(catalog.pointer(("db", "t")), first, {"a": "1"})
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
        """A drop never deletes data files; a purge deletes the metadata files too."""
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

    def test_no_purge_with_gc_disabled(self, catalog: Catalog) -> None:
        """A purge raises with `gc.enabled=false`, and the table still exists with all of its files."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"), {"gc.enabled": "false"})
        with raises(UnsupportedFeature):
            catalog.drop_table(("db", "t"), purge=True)
        assert load_table(catalog, ("db", "t")).metadata == state.metadata
        catalog.drop_table(("db", "t"))
        assert not catalog.table_exists(("db", "t"))

    def test_no_purge_of_files_of_another_table(self, catalog: Catalog) -> None:
        """A purge raises if another table of the catalog is registered with the same metadata file."""
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
        """A commit does not create a dropped table again."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        for purge in (False, True):
            proposal = propose_properties(pointer, create_table(catalog, ("db", "t")), {"late": "1"})
            catalog.drop_table(("db", "t"), purge=purge)
            with raises(CommitConflict, NoSuchTable):
                pointer.swap(proposal)
            pointer.discard(proposal)
            assert not catalog.table_exists(("db", "t"))
            assert list(catalog.tables(("db",))) == []

    def test_a_commit_does_not_reach_another_table_of_the_name(self, catalog: Catalog) -> None:
        """A commit to a dropped table does not change a new table of the name, even one with as many commits."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        old = commit_properties(pointer, create_table(catalog, ("db", "t")), {"n": "1"})
        proposal = propose_properties(pointer, old, {"late": "1"})
        catalog.drop_table(("db", "t"), purge=True)
        new = commit_properties(pointer, create_table(catalog, ("db", "t")), {"n": "1"})
        with raises(CommitConflict, NoSuchTable):
            pointer.swap(proposal)
        assert load_table(catalog, ("db", "t")).metadata == new.metadata
        assert commit_properties(pointer, new, {"n": "2"}).metadata == load_table(catalog, ("db", "t")).metadata

    # Renaming and registering -----------------------------------------------------------------------------------------

    def test_renaming_tables(self, catalog: Catalog) -> None:
        """A renamed table is the same under its new name, also in another namespace."""
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
        state = commit_properties(catalog.pointer(("other", "t_%")), state, {"a": "1"})
        assert load_table(catalog, ("other", "t_%")).metadata == state.metadata

    def test_invalid_renames(self, catalog: Catalog) -> None:
        """A rename to a name in use, of a missing table or into a missing namespace raises and changes nothing."""
        if Capability.RENAME not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        first, second = create_table(catalog, ("db", "one")), create_table(catalog, ("db", "two"))
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
        assert load_table(catalog, ("db", "one")).metadata == first.metadata
        assert load_table(catalog, ("db", "two")).metadata == second.metadata

    def test_a_commit_under_the_old_name_fails(self, catalog: Catalog) -> None:
        """A commit to the old name of a renamed table raises and changes nothing."""
        if Capability.RENAME not in catalog.capabilities:
            return
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        state = create_table(catalog, ("db", "t"))
        proposal = propose_properties(pointer, state, {"late": "1"})
        catalog.rename_table(("db", "t"), ("db", "u"))
        with raises(CommitConflict, NoSuchTable):
            pointer.swap(proposal)
        assert not catalog.table_exists(("db", "t"))
        assert load_table(catalog, ("db", "u")).metadata == state.metadata

    def test_registering_tables(self, catalog: Catalog) -> None:
        """A registered metadata file is a table that accepts commits."""
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
        after = commit_properties(catalog.pointer(("db", "u")), load_table(catalog, ("db", "u")), {"a": "1"})
        assert load_table(catalog, ("db", "u")).metadata == after.metadata

    def test_invalid_registrations(self, catalog: Catalog) -> None:
        """A name in use, a missing file and a file that is no metadata raise and change nothing."""
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


class TableTests:
    """Tests of creating tables, loading them and committing to them, and of the clean-up of metadata files."""

    def test_a_table_is_created_and_loaded(self, catalog: Catalog) -> None:
        """A table of each format version is loaded as it was created."""
        catalog.create_namespace(("db",))
        for version in (1, 2, 3):
            name = ("db", f"v{version}")
            pointer = catalog.pointer(name)
            assert pointer.load() is None
            assert not catalog.table_exists(name)
            created = create_table(catalog, name, {"a": "ü'%"}, format_version=version)
            assert catalog.table_exists(name)
            state = pointer.load()
            assert state is not None
            assert state.metadata == created.metadata
            assert state.location == created.location
            assert state.metadata.location == catalog.default_location(name)
            assert pointer.storage.exists(state.location)
            assert format_identifier(name) in pointer.name
        assert list(catalog.tables(("db",))) == [("db", "v1"), ("db", "v2"), ("db", "v3")]

    def test_missing_tables(self, catalog: Catalog) -> None:
        """A missing table does not exist, its pointer loads None, and dropping it raises `NoSuchTable`."""
        catalog.create_namespace(("db",))
        assert not catalog.table_exists(("db", "t"))
        assert not catalog.table_exists(("no", "t"))
        assert catalog.pointer(("no", "t")).load() is None
        for purge in (False, True):
            with raises(NoSuchTable):
                catalog.drop_table(("db", "t"), purge=purge)

    def test_tables_need_a_namespace(self, catalog: Catalog) -> None:
        """Creating a table in a missing namespace raises `NoSuchNamespace`."""
        with raises(NoSuchNamespace):
            create_table(catalog, ("no", "t"))
        assert not catalog.table_exists(("no", "t"))
        assert list(catalog.namespaces()) == []

    def test_a_table_is_created_once(self, catalog: Catalog) -> None:
        """A second creation raises `TableAlreadyExists` and changes nothing."""
        catalog.create_namespace(("db",))
        created = create_table(catalog, ("db", "t"))
        with raises(TableAlreadyExists):
            create_table(catalog, ("db", "t"))
        assert load_table(catalog, ("db", "t")).metadata == created.metadata

    def test_of_two_creations_one_wins(self, catalog: Catalog) -> None:
        """Of two creations that are proposed at the same time, the first swap wins."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        loser, winner = (pointer.propose(None, new_metadata(catalog, ("db", "t"))) for _ in range(2))
        assert pointer.load() is None
        pointer.swap(winner)
        with raises(TableAlreadyExists):
            pointer.swap(loser)
        assert pointer.settle(winner) is Outcome.PUBLISHED
        assert pointer.settle(loser) is Outcome.ABSENT
        pointer.discard(loser)
        pointer.finish(winner)
        assert load_table(catalog, ("db", "t")).metadata == winner.metadata

    def test_commits_follow_one_another(self, catalog: Catalog) -> None:
        """Each commit is loaded as it was proposed, by old and new pointers; the metadata log has the earlier ones."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"))
        old = catalog.pointer(("db", "t"))
        files = [state.location]
        for n in range(12):
            state = commit_properties(old, state, {"n": str(n)})
            files.append(state.location)
            assert load_table(catalog, ("db", "t")).metadata == state.metadata
        newest = old.load()
        assert newest is not None
        assert [entry.metadata_file for entry in newest.metadata.metadata_log] == files[:-1]
        assert all(old.storage.exists(file) for file in files)

    def test_of_two_commits_on_one_base_one_wins(self, catalog: Catalog) -> None:
        """The second of two commits on a base raises `CommitConflict`, and the table has none of its changes."""
        catalog.create_namespace(("db",))
        base = create_table(catalog, ("db", "t"))
        pointer, rival = catalog.pointer(("db", "t")), catalog.pointer(("db", "t"))
        first, second = (
            propose_properties(pointer, base, {"by": "first"}),
            propose_properties(rival, base, {"by": "second"}),
        )
        rival.swap(second)
        with raises(CommitConflict):
            pointer.swap(first)
        assert (pointer.settle(first), rival.settle(second)) == (Outcome.ABSENT, Outcome.PUBLISHED)
        pointer.discard(first)
        rival.finish(second)
        assert load_table(catalog, ("db", "t")).metadata.properties["by"] == "second"
        with raises(CommitConflict):
            pointer.swap(propose_properties(pointer, base, {"by": "third"}))

    def test_a_commit_is_found_under_later_ones(self, catalog: Catalog) -> None:
        """`settle` finds a commit, or its absence, also after later commits."""
        catalog.create_namespace(("db",))
        base = create_table(catalog, ("db", "t"))
        pointer = catalog.pointer(("db", "t"))
        won, lost = (
            propose_properties(pointer, base, {"by": "winner"}),
            propose_properties(pointer, base, {"by": "loser"}),
        )
        pointer.swap(won)
        with raises(CommitConflict):
            pointer.swap(lost)
        state = load_table(catalog, ("db", "t"))
        for n in range(3):
            state = commit_properties(pointer, state, {"n": str(n)})
        assert pointer.settle(won) is Outcome.PUBLISHED
        assert pointer.settle(lost) is Outcome.ABSENT
        assert load_table(catalog, ("db", "t")).metadata == state.metadata

    def test_settle_reports_the_outcome(self, catalog: Catalog) -> None:
        """The outcome that `settle` reports for a lost swap is that of the table, and does not change."""
        catalog.create_namespace(("db",))
        base = create_table(catalog, ("db", "t"))
        pointer = catalog.pointer(("db", "t"))
        proposal = propose_properties(pointer, base, {"by": "lost"})
        outcome = pointer.settle(proposal)
        assert outcome in (Outcome.PUBLISHED, Outcome.ABSENT)
        is_published = load_table(catalog, ("db", "t")).metadata.properties.get("by") == "lost"
        assert is_published == (outcome is Outcome.PUBLISHED)
        assert pointer.settle(proposal) is outcome

    def test_compressed_metadata(self, catalog: Catalog) -> None:
        """The property `write.metadata.compression-codec` turns gzip on and off."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        state = create_table(catalog, ("db", "t"), {"write.metadata.compression-codec": "gzip"})
        state = commit_properties(pointer, state, {"a": "1"})
        assert pointer.storage.read(state.location)[:2] == GZIP_MAGIC
        assert ".gz." in state.location
        assert load_table(catalog, ("db", "t")).metadata == state.metadata
        state = commit_properties(pointer, state, {"write.metadata.compression-codec": "none"})
        state = commit_properties(pointer, state, {"a": "2"})
        assert pointer.storage.read(state.location)[:1] == b"{"
        assert load_table(catalog, ("db", "t")).metadata == state.metadata

    def test_old_metadata_is_deleted_if_enabled(self, catalog: Catalog) -> None:
        """With `write.metadata.delete-after-commit.enabled`, files that leave the metadata log are deleted."""
        catalog.create_namespace(("db",))
        properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
        state = create_table(catalog, ("db", "t"), properties)
        pointer, files = catalog.pointer(("db", "t")), [state.location]
        for n in range(8):
            state = commit_properties(pointer, state, {"n": str(n)})
            files.append(state.location)
        assert [pointer.storage.exists(file) for file in files] == [False] * 6 + [True] * 3
        assert load_table(catalog, ("db", "t")).metadata == state.metadata

    def test_old_metadata_is_kept_by_default(self, catalog: Catalog) -> None:
        """By default metadata files are kept when they leave the metadata log."""
        catalog.create_namespace(("db",))
        state = create_table(catalog, ("db", "t"), {"write.metadata.previous-versions-max": "1"})
        pointer, files = catalog.pointer(("db", "t")), [state.location]
        for n in range(4):
            state = commit_properties(pointer, state, {"n": str(n)})
            files.append(state.location)
        assert all(pointer.storage.exists(file) for file in files)

    def test_clean_up_stays_in_the_table(self, catalog: Catalog) -> None:
        """Files outside of the table are not deleted, even if the metadata log names them."""
        catalog.create_namespace(("db",))
        victim = create_table(catalog, ("db", "victim"))
        pointer = catalog.pointer(("db", "t"))
        properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        state = create_table(catalog, ("db", "t"), properties)
        changed = apply(
            state.metadata,
            [SetProperties({"n": "0"})],
            now_ms=current_time_ms(catalog, ("db", "t")),
            metadata_location=victim.location,
        )
        proposal = pointer.propose(state, changed)
        pointer.swap(proposal)
        pointer.finish(proposal)
        commit_properties(pointer, load_table(catalog, ("db", "t")), {"n": "1"})
        assert load_table(catalog, ("db", "victim")).metadata == victim.metadata


class ConcurrencyTests:
    """Tests of commits to several tables, and of concurrent writers."""

    def test_several_tables_are_committed_together(self, catalog: Catalog) -> None:
        """A commit to several tables publishes all changes and creations or, after a conflict, none."""
        shared = catalog.shared
        assert (shared is not None) == (Capability.SEVERAL_TABLES in catalog.capabilities)
        if shared is None:
            return
        catalog.create_namespace(("db",))
        names = [("db", name) for name in ("a", "b")]
        pointers = [catalog.pointer(name) for name in names]
        bases = [create_table(catalog, name) for name in names]
        proposals = [propose_properties(p, base, {"round": "1"}) for p, base in zip(pointers, bases, strict=True)]
        new = catalog.pointer(("db", "c"))
        proposals.append(new.propose(None, new_metadata(catalog, ("db", "c"))))
        stale = [propose_properties(p, base, {"round": "stale"}) for p, base in zip(pointers, bases, strict=True)]
        shared.swap_all(proposals)
        assert shared.settle_all(proposals) is Outcome.PUBLISHED
        for proposal in proposals:
            proposal.pointer.finish(proposal)
        states = [load_table(catalog, name) for name in names]
        assert [state.metadata.properties["round"] for state in states] == ["1", "1"]
        assert catalog.table_exists(("db", "c"))
        mixed = [propose_properties(pointers[0], states[0], {"round": "2"}), stale[1]]
        with raises(CommitConflict):
            shared.swap_all(mixed)
        assert shared.settle_all(mixed) is Outcome.ABSENT
        last = [propose_properties(p, state, {"round": "3"}) for p, state in zip(pointers, states, strict=True)]
        shared.swap_all(list(reversed(last)))
        assert [load_table(catalog, name).metadata.properties["round"] for name in names] == ["3", "3"]

    # Concurrent writers -----------------------------------------------------------------------------------------------

    def test_of_many_creators_one_wins(self, catalog: Catalog) -> None:
        """Of eight threads that create the same table, one succeeds, and its table exists."""
        catalog.create_namespace(("db",))
        for n in range(3):
            name = ("db", f"t{n}")

            def create(_: int, name: Identifier = name) -> TableState | None:
                try:
                    return create_table(catalog, name)
                except TableAlreadyExists:
                    return None

            (winner,) = [state for state in run_concurrently(create, 8) if state is not None]
            assert load_table(catalog, name).metadata == winner.metadata

    def test_no_commit_of_many_is_lost(self, catalog: Catalog) -> None:
        """Threads that commit to one table and retry after conflicts lose no change."""
        catalog.create_namespace(("db",))
        create_table(catalog, ("db", "t"))

        def contend(number: int) -> int:
            pointer = catalog.pointer(("db", "t"))
            return sum(commit_until_success(pointer, f"{number}.{n}") for n in range(4))

        attempts = run_concurrently(contend, 4)
        assert sum(attempts) >= 16
        properties = load_table(catalog, ("db", "t")).metadata.properties
        assert sorted(properties) == sorted(f"{number}.{n}" for number in range(4) for n in range(4))


class CatalogConformance(NamespaceTests, TableTests, DropTests, ViewTests, ConcurrencyTests):
    """The conformance tests of a catalog, as test methods for pytest."""
