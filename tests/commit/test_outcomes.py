"""What became of a commit, and what may be deleted: each rule by itself, where another rule stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyroaring import BitMap64

from floe.commit.change import BranchChange, KeyedChange, Reads, TidyChange
from floe.commit.loop import commit
from floe.commit.operations.create import CreateTable, TableDefinition
from floe.commit.operations.data_changes import FastAppend, RowDelta
from floe.commit.operations.expire import apply_expire, plan_expire
from floe.commit.operations.metadata_changes import UpdateProperties
from floe.commit.operations.refs import CreateRef, RemoveRef, RollbackToSnapshot
from floe.commit.outcomes import (
    CommitStatus,
    clean_failed,
    clean_published,
    discard_absent,
    find_commit,
    format_commit_keys,
    is_published,
    names_metadata_file,
)
from floe.commit.pointer import Outcome, Pointer, Proposal, TableState
from floe.errors import CommitConflict, FloeError, NoSuchTable
from floe.spec.codecs.deletion_vectors import deletion_vector_blob
from floe.spec.codecs.puffin import write_file
from floe.spec.manifests.entries import DataFile, FileContent
from floe.testing.faults import Fault, FaultyStorage
from helpers.pointers import LOCATION, SCHEMA, WrappedPointer, create, loaded, new_table
from helpers.small_snapshots import PutFiles, check_readable, data_file, files_of


def change_of(pointer: Pointer, name: str, branch: str | None = "main") -> PutFiles:
    return PutFiles(pointer.environment, [data_file(f"{LOCATION}/data/{name}.parquet")], branch=branch)


def put(pointer: Pointer, name: str, branch: str | None = "main") -> PutFiles:
    change = change_of(pointer, name, branch)
    commit(pointer, [change])
    return change


# the key ----------------------------------------------------------------------------------------------------------


def test_the_helper_is_what_the_loop_asks_for() -> None:
    change = change_of(new_table(), "a")
    assert isinstance(change, KeyedChange)
    assert isinstance(change, BranchChange)
    assert isinstance(change, TidyChange)
    assert not isinstance(RollbackToSnapshot(7), KeyedChange)
    assert not isinstance(CreateRef("a", "tag", 7), KeyedChange)


def test_a_commit_in_the_history_of_its_branch() -> None:
    pointer = new_table()
    change = change_of(pointer, "a")
    assert find_commit(loaded(pointer).metadata, [change]) is None
    commit(pointer, [change])
    put(pointer, "b")
    assert find_commit(loaded(pointer).metadata, [UpdateProperties(), change]) is CommitStatus.FOUND
    assert commit(pointer, [change]).status is CommitStatus.FOUND


def test_a_commit_that_expired_lives_on_as_a_parent() -> None:
    pointer = new_table()
    change = put(pointer, "a")
    put(pointer, "b")
    apply_expire(pointer, plan_expire(pointer, older_than_ms=pointer.environment.clock.now_ms() + 1))
    assert change.snapshot_id not in loaded(pointer).metadata.snapshots_by_id
    assert find_commit(loaded(pointer).metadata, [change]) is CommitStatus.FOUND
    assert commit(pointer, [change]).status is CommitStatus.FOUND
    assert check_readable(loaded(pointer).metadata, pointer.storage) == 2


@pytest.mark.parametrize("how", ["rolled back", "branch removed"])
def test_a_commit_that_was_taken_back(how: str) -> None:
    pointer = new_table()
    first = put(pointer, "a")
    commit(pointer, [CreateRef("work", "branch")])
    change = put(pointer, "b", "work")
    if how == "rolled back":
        commit(pointer, [RollbackToSnapshot(first.snapshot_id, branch="work")])
    else:
        commit(pointer, [RemoveRef("work")])
    assert find_commit(loaded(pointer).metadata, [change]) is CommitStatus.ROLLED_BACK
    assert find_commit(loaded(pointer).metadata, [first, change]) is CommitStatus.ROLLED_BACK


def test_a_staged_commit_is_on_no_branch() -> None:
    pointer = new_table()
    put(pointer, "a")
    staged = put(pointer, "b", None)
    assert find_commit(loaded(pointer).metadata, [staged]) is CommitStatus.FOUND


def test_a_snapshot_of_the_same_number_by_somebody_else() -> None:
    pointer = new_table()
    change = put(pointer, "a")
    change.commit_id = "another"
    assert find_commit(loaded(pointer).metadata, [change]) is None


def test_a_change_has_no_key_before_its_first_attempt() -> None:
    pointer = new_table()
    change = put(pointer, "a")
    change.commit_id = ""
    assert find_commit(loaded(pointer).metadata, [change]) is None
    assert format_commit_keys([change, UpdateProperties()]) == ""


def test_keys_for_people() -> None:
    pointer = new_table()
    change = change_of(pointer, "a")
    created = CreateTable(TableDefinition(SCHEMA), LOCATION, "9c12d441-03fe-4693-9a96-a0705ddf69c1")
    assert format_commit_keys([created, change]) == (
        "table uuid 9c12d441-03fe-4693-9a96-a0705ddf69c1, "
        f"snapshot {change.snapshot_id} with commit-id {change.commit_id}"
    )


# the metadata file ------------------------------------------------------------------------------------------------


def proposal_of(pointer: Pointer, name: str = "v7.metadata.json") -> Proposal:
    state = loaded(pointer)
    return replace(pointer.propose(state, state.metadata), location=f"{LOCATION}/metadata/{name}")


def state_at(pointer: Pointer, location: str) -> TableState:
    return TableState(loaded(pointer).metadata, location)


def test_a_metadata_file_is_named_by_the_state_or_by_its_log() -> None:
    pointer = new_table()
    first = loaded(pointer).location
    assert names_metadata_file(loaded(pointer), first.replace("memory:", "memory://"))
    commit(pointer, [UpdateProperties({"a": "1"})])
    assert names_metadata_file(loaded(pointer), first)
    assert not names_metadata_file(loaded(pointer), f"{LOCATION}/metadata/other.metadata.json")


def test_a_name_with_a_random_part_can_only_be_ours() -> None:
    pointer = new_table()
    name = "00007-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    proposal = proposal_of(pointer, name)
    assert is_published(proposal, state_at(pointer, proposal.location))
    assert not is_published(proposal, loaded(pointer))
    assert not is_published(proposal, None)


@pytest.mark.parametrize(
    ("answer", "published"), [(Outcome.PUBLISHED, True), (Outcome.ABSENT, False), (Outcome.UNKNOWN, False)]
)
def test_a_name_that_the_winner_has_too_is_looked_into(answer: Outcome, published: bool) -> None:
    class Asked(WrappedPointer):
        def settle(self, proposal: Proposal) -> Outcome:
            return answer

    pointer = Asked(new_table())
    proposal = replace(proposal_of(pointer), pointer=pointer)
    assert is_published(proposal, state_at(pointer, proposal.location)) is published


def test_an_error_of_looking_is_no_proof() -> None:
    class Broken(WrappedPointer):
        def settle(self, proposal: Proposal) -> Outcome:
            raise FloeError("cannot be read")

    pointer = Broken(new_table())
    proposal = replace(proposal_of(pointer), pointer=pointer)
    assert not is_published(proposal, state_at(pointer, proposal.location))


def test_a_metadata_file_that_the_table_names_is_not_discarded() -> None:
    pointer = new_table()
    proposal = pointer.propose(loaded(pointer), loaded(pointer).metadata)
    discard_absent([proposal], lambda one: state_at(pointer, one.location))
    assert pointer.storage.exists(proposal.location)
    discard_absent([proposal], lambda one: loaded(pointer))
    assert not pointer.storage.exists(proposal.location)


# clean-up ---------------------------------------------------------------------------------------------------------


def test_nothing_of_a_commit_that_is_there_is_cleaned_up_as_failed() -> None:
    pointer = new_table()
    change = put(pointer, "a")
    files = change.written()
    assert len(files) == 2
    assert clean_failed(pointer, [change], loaded(pointer)) == []
    assert [pointer.storage.exists(file) for file in files] == [True, True]


def test_of_a_commit_that_was_found_later_what_was_published_stays() -> None:
    """The first attempt is refused and lands all the same while the second is being made: its list is live.

    The second one's files are what the change used last, and are not needed.
    """
    inner = new_table()

    class Late(WrappedPointer):
        held: Proposal | None = None

        def swap(self, proposal: Proposal) -> None:
            if self.held is None:
                self.held = proposal
                raise CommitConflict("somebody else committed first")
            super().swap(self.held)
            super().swap(proposal)

    pointer = Late(inner)
    change = change_of(inner, "a")
    done = commit(pointer, [change])
    assert done.status is CommitStatus.FOUND
    lists = [file for file in change.written() if "/snap-" in file]
    assert [inner.storage.exists(file) for file in lists] == [True, False]
    assert loaded(inner).metadata.snapshots[-1].manifest_list == lists[0]
    assert check_readable(loaded(inner).metadata, inner.storage) == 1


def test_of_a_commit_that_was_found_later_its_merged_vectors_stay() -> None:
    """A deletion loses to another, merges with it, is published, and hears of a conflict."""
    inner = new_table(format_version=3)
    data = f"{LOCATION}/data/a.parquet"
    commit(inner, [FastAppend([data_file(data, 9)])])
    reads = Reads(loaded(inner).metadata.current_snapshot_id)

    def deletion(row: int) -> RowDelta:
        written = write_file([deletion_vector_blob(BitMap64([row]), data)])
        (blob,) = written.payload.blobs
        path = f"{LOCATION}/data/{row}.puffin"
        inner.storage.write(path, written.data)
        place = {"content_offset": blob.offset, "content_size_in_bytes": blob.length, "referenced_data_file": data}
        vector = DataFile(FileContent.POSITION_DELETES, path, "puffin", (), 1, len(written.data), **place)
        return RowDelta([vector], reads=reads)

    class Deaf(WrappedPointer):
        swaps = 0

        def swap(self, proposal: Proposal) -> None:
            self.swaps += 1
            if self.swaps == 1:
                commit(inner, [deletion(1)])
            super().swap(proposal)
            raise CommitConflict("somebody else committed first")

    pointer = Deaf(inner)
    change = deletion(2)
    done = commit(pointer, [change])
    assert (pointer.swaps, done.status) == (2, CommitStatus.FOUND)
    files = files_of(loaded(inner).metadata.snapshots[-1], inner.storage)
    (merged,) = [file for file in files if "merged-dvs" in file]
    assert inner.storage.exists(merged)
    assert [file for file in change.written() if not inner.storage.exists(file)], "what the first attempt wrote is gone"


@pytest.mark.parametrize("name_taken", [False, True])
def test_nothing_is_deleted_when_the_table_went_elsewhere(name_taken: bool) -> None:
    """The commit lands, a conflict is heard, and the table gets another name: what is read now proves nothing."""
    inner = new_table()
    catalog = inner.catalog  # type: ignore[attr-defined]

    class Deaf(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            super().swap(proposal)
            catalog.rename_table(("db", "t"), ("db", "moved"))
            if name_taken:
                create(inner, location=f"{LOCATION}-2")
            raise CommitConflict("somebody else committed first")

    change = change_of(inner, "a")
    with pytest.raises(NoSuchTable):
        commit(Deaf(inner), [change])
    moved = loaded(catalog.pointer(("db", "moved")))
    assert check_readable(moved.metadata, inner.storage) == 1
    assert inner.storage.exists(moved.location)


def test_a_manifest_that_others_built_upon_stays_when_all_traces_of_its_commit_are_gone() -> None:
    """The commit lands, a conflict is heard, and it expires with its heir and its line in a short metadata log."""
    inner = new_table(properties={"commit.retry.num-retries": "0", "write.metadata.previous-versions-max": "1"})
    mine = FastAppend([data_file(f"{LOCATION}/data/a.parquet")])

    class Deaf(WrappedPointer):
        def swap(self, proposal: Proposal) -> None:
            super().swap(proposal)
            for name in "bc":
                commit(inner, [FastAppend([data_file(f"{LOCATION}/data/{name}.parquet")])])
            apply_expire(inner, plan_expire(inner, older_than_ms=inner.environment.clock.now_ms() + 1))
            raise CommitConflict("somebody else committed first")

    with pytest.raises(CommitConflict):
        commit(Deaf(inner), [mine])
    table = loaded(inner).metadata
    assert find_commit(table, [mine]) is None
    assert len(files_of(table.snapshots[-1], inner.storage)) == 3


def test_what_cannot_be_read_is_not_cleaned_up_and_told() -> None:
    pointer = new_table()
    change = put(pointer, "a")
    extra = f"{LOCATION}/metadata/extra.avro"
    pointer.storage.write(extra, b"of an earlier attempt")
    change._written[extra] = None
    done = loaded(pointer)
    files = pointer.storage
    pointer.catalog.storage = FaultyStorage(files, Fault.BEFORE, at=1, only={"read"})  # type: ignore[attr-defined]
    (note,) = clean_published(pointer, [change], done)
    assert note.startswith("1 unused metadata files were kept")
    assert files.exists(extra)
    assert clean_published(pointer, [change], done) == []
    assert not files.exists(extra)
    assert all(files.exists(file) for file in change.used())


def test_files_of_a_change_that_cannot_be_told_stay_when_it_fails() -> None:
    """It could use them again in the next attempt, and would not know that they are gone."""
    pointer = new_table()
    file = f"{LOCATION}/metadata/mine.avro"

    class Untidy:
        def updates(self, attempt: object) -> Sequence[object]:
            pointer.storage.write(file, b"manifest")
            raise FloeError("no")

        def written(self) -> list[str]:
            return [file]

    with pytest.raises(FloeError, match="no"):
        commit(pointer, [Untidy()])  # type: ignore[list-item]
    assert pointer.storage.exists(file)
