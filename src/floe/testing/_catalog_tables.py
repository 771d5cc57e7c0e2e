"""What every catalog promises of tables and commits to them, as tests."""

from __future__ import annotations

from floe.catalog.identifiers import format_identifier
from floe.catalog.protocol import Catalog
from floe.commit.pointer import Outcome
from floe.errors import CommitConflict, NoSuchNamespace, NoSuchTable, TableAlreadyExists
from floe.spec.metadata.apply import apply
from floe.spec.metadata.json_reader import GZIP_MAGIC
from floe.spec.metadata.updates import SetProperties
from floe.testing._catalog_steps import committed, created, loaded, new_metadata, now_of, proposed, raises

__all__ = ["TablePromises"]


class TablePromises:
    """Tables: created, loaded, committed to, cleaned up."""

    def test_a_table_is_created_and_loaded(self, catalog: Catalog) -> None:
        """In every version of the format, as it was given."""
        catalog.create_namespace(("db",))
        for version in (1, 2, 3):
            name = ("db", f"v{version}")
            pointer = catalog.pointer(name)
            assert pointer.load() is None
            assert not catalog.table_exists(name)
            made = created(catalog, name, {"a": "ü'%"}, format_version=version)
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
            created(catalog, ("no", "t"))
        assert not catalog.table_exists(("no", "t"))
        assert list(catalog.namespaces()) == []

    def test_a_table_is_created_once(self, catalog: Catalog) -> None:
        """The second creation is refused, and the first stays as it was."""
        catalog.create_namespace(("db",))
        made = created(catalog, ("db", "t"))
        with raises(TableAlreadyExists):
            created(catalog, ("db", "t"))
        assert loaded(catalog, ("db", "t")).metadata == made.metadata

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
        assert loaded(catalog, ("db", "t")).metadata == other.metadata

    def test_commits_follow_one_another(self, catalog: Catalog) -> None:
        """Each is loaded as it was proposed, by old pointers and new ones, and remembers those before."""
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"))
        old = catalog.pointer(("db", "t"))
        files = [state.location]
        for n in range(12):
            state = committed(old, state, {"n": str(n)})
            files.append(state.location)
            assert loaded(catalog, ("db", "t")).metadata == state.metadata
        newest = old.load()
        assert newest is not None
        assert [entry.metadata_file for entry in newest.metadata.metadata_log] == files[:-1]
        assert all(old.storage.exists(file) for file in files)

    def test_of_two_commits_on_one_base_one_wins(self, catalog: Catalog) -> None:
        """The other is told of a conflict, and nothing of it is in the table."""
        catalog.create_namespace(("db",))
        base = created(catalog, ("db", "t"))
        pointer, rival = catalog.pointer(("db", "t")), catalog.pointer(("db", "t"))
        first, second = proposed(pointer, base, {"by": "first"}), proposed(rival, base, {"by": "second"})
        rival.swap(second)
        with raises(CommitConflict):
            pointer.swap(first)
        assert (pointer.settle(first), rival.settle(second)) == (Outcome.ABSENT, Outcome.PUBLISHED)
        pointer.discard(first)
        rival.finish(second)
        assert loaded(catalog, ("db", "t")).metadata.properties["by"] == "second"
        with raises(CommitConflict):
            pointer.swap(proposed(pointer, base, {"by": "third"}))

    def test_a_commit_is_found_under_later_ones(self, catalog: Catalog) -> None:
        """Others went on: what was published stays published, what was not stays absent."""
        catalog.create_namespace(("db",))
        base = created(catalog, ("db", "t"))
        pointer = catalog.pointer(("db", "t"))
        won, lost = proposed(pointer, base, {"by": "winner"}), proposed(pointer, base, {"by": "loser"})
        pointer.swap(won)
        with raises(CommitConflict):
            pointer.swap(lost)
        state = loaded(catalog, ("db", "t"))
        for n in range(3):
            state = committed(pointer, state, {"n": str(n)})
        assert pointer.settle(won) is Outcome.PUBLISHED
        assert pointer.settle(lost) is Outcome.ABSENT
        assert loaded(catalog, ("db", "t")).metadata == state.metadata

    def test_settling_tells_what_is_so(self, catalog: Catalog) -> None:
        """Whatever is said of a swap whose request may have been lost, the table says the same."""
        catalog.create_namespace(("db",))
        base = created(catalog, ("db", "t"))
        pointer = catalog.pointer(("db", "t"))
        proposal = proposed(pointer, base, {"by": "lost"})
        outcome = pointer.settle(proposal)
        assert outcome in (Outcome.PUBLISHED, Outcome.ABSENT)
        published = loaded(catalog, ("db", "t")).metadata.properties.get("by") == "lost"
        assert published == (outcome is Outcome.PUBLISHED)
        assert pointer.settle(proposal) is outcome

    def test_compressed_metadata(self, catalog: Catalog) -> None:
        """A table that wants it gets gzip files, and goes back to plain ones."""
        catalog.create_namespace(("db",))
        pointer = catalog.pointer(("db", "t"))
        state = created(catalog, ("db", "t"), {"write.metadata.compression-codec": "gzip"})
        state = committed(pointer, state, {"a": "1"})
        assert pointer.storage.read(state.location)[:2] == GZIP_MAGIC
        assert ".gz." in state.location
        assert loaded(catalog, ("db", "t")).metadata == state.metadata
        state = committed(pointer, state, {"write.metadata.compression-codec": "none"})
        state = committed(pointer, state, {"a": "2"})
        assert pointer.storage.read(state.location)[:1] == b"{"
        assert loaded(catalog, ("db", "t")).metadata == state.metadata

    def test_old_metadata_is_deleted_if_wanted(self, catalog: Catalog) -> None:
        """What left the log goes; what is in it, and the table, stays."""
        catalog.create_namespace(("db",))
        wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
        state = created(catalog, ("db", "t"), wanted)
        pointer, files = catalog.pointer(("db", "t")), [state.location]
        for n in range(8):
            state = committed(pointer, state, {"n": str(n)})
            files.append(state.location)
        assert [pointer.storage.exists(file) for file in files] == [False] * 6 + [True] * 3
        assert loaded(catalog, ("db", "t")).metadata == state.metadata

    def test_old_metadata_is_kept_by_default(self, catalog: Catalog) -> None:
        """Also when it leaves the log."""
        catalog.create_namespace(("db",))
        state = created(catalog, ("db", "t"), {"write.metadata.previous-versions-max": "1"})
        pointer, files = catalog.pointer(("db", "t")), [state.location]
        for n in range(4):
            state = committed(pointer, state, {"n": str(n)})
            files.append(state.location)
        assert all(pointer.storage.exists(file) for file in files)

    def test_clean_up_stays_in_the_table(self, catalog: Catalog) -> None:
        """A log that names files elsewhere deletes nothing there."""
        catalog.create_namespace(("db",))
        victim = created(catalog, ("db", "victim"))
        pointer = catalog.pointer(("db", "t"))
        wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        state = created(catalog, ("db", "t"), wanted)
        changed = apply(
            state.metadata,
            [SetProperties({"n": "0"})],
            now_ms=now_of(catalog, ("db", "t")),
            metadata_location=victim.location,
        )
        proposal = pointer.propose(state, changed)
        pointer.swap(proposal)
        pointer.finish(proposal)
        committed(pointer, loaded(catalog, ("db", "t")), {"n": "1"})
        assert loaded(catalog, ("db", "victim")).metadata == victim.metadata
