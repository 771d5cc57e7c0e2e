"""Branches, tags, fast-forward and rollback: what each does, and what it makes of what others did meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from floe.commit.change import Attempt, Change
from floe.commit.loop import commit
from floe.commit.operations.refs import (
    CreateRef,
    FastForward,
    MoveRef,
    RemoveRef,
    RenameRef,
    RollbackToSnapshot,
    RollbackToTime,
    SetCurrentSnapshot,
    SetRetention,
)
from floe.commit.outcomes import CommitStatus
from floe.commit.pointer import Pointer
from floe.errors import AlreadyExists, ConflictingChange, InvalidUpdate, NoSuchRef, NoSuchSnapshot
from floe.spec.metadata.snapshots import SnapshotRef
from floe.spec.metadata.updates import TableUpdate
from helpers.pointers import LOCATION, loaded, new_table
from helpers.small_snapshots import PutFiles, data_file


class Meanwhile:
    """Something that happens while the first attempt is being made."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        act, self.act = self.act, lambda: None
        act()
        return ()


def put(pointer: Pointer, name: str, branch: str = "main") -> int:
    change = PutFiles(pointer.environment, [data_file(f"{LOCATION}/data/{name}.parquet")], branch=branch)
    commit(pointer, [change])
    return change.snapshot_id


def refs(pointer: Pointer) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in loaded(pointer).metadata.refs.items()}


@pytest.fixture
def table() -> tuple[Pointer, list[int]]:
    """A table with three snapshots on main."""
    pointer = new_table()
    return pointer, [put(pointer, name) for name in ("a", "b", "c")]


Table = tuple[Pointer, list[int]]


# branches and tags ------------------------------------------------------------------------------------------------


def test_created_where_main_is_or_where_told(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("here", "branch"), CreateRef("there", "tag", ids[0], max_ref_age_ms=5)])
    assert refs(pointer) == {"main": ids[2], "here": ids[2], "there": ids[0]}
    assert loaded(pointer).metadata.refs["there"] == SnapshotRef(snapshot_id=ids[0], type="tag", max_ref_age_ms=5)


def test_names_are_taken_once(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("name", "tag", ids[0])])
    for kind in ("branch", "tag"):
        with pytest.raises(AlreadyExists, match="a tag named 'name' already"):
            commit(pointer, [CreateRef("name", kind)])  # type: ignore[arg-type]
    assert refs(pointer)["name"] == ids[0]


def test_a_name_that_somebody_else_takes_meanwhile_is_his(table: Table) -> None:
    pointer, ids = table
    rival = Meanwhile(lambda: commit(pointer, [CreateRef("name", "tag", ids[0])]))
    with pytest.raises(AlreadyExists):
        commit(pointer, [CreateRef("name", "branch"), rival])
    assert refs(pointer)["name"] == ids[0]


def test_a_snapshot_that_is_not_there() -> None:
    pointer = new_table()
    with pytest.raises(InvalidUpdate, match="no current snapshot"):
        commit(pointer, [CreateRef("name", "branch")])
    with pytest.raises(NoSuchSnapshot):
        commit(pointer, [CreateRef("name", "branch", 99)])


def test_retention_of_a_tag_is_its_age_only(table: Table) -> None:
    with pytest.raises(InvalidUpdate, match="that is for branches"):
        commit(table[0], [CreateRef("name", "tag", min_snapshots_to_keep=3)])


def test_moved(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("name", "branch", ids[0], min_snapshots_to_keep=4)])
    commit(pointer, [MoveRef("name", ids[2], expected=ids[0])])
    assert refs(pointer)["name"] == ids[2]
    assert loaded(pointer).metadata.refs["name"].min_snapshots_to_keep == 4
    assert commit(pointer, [MoveRef("name", ids[2], expected=ids[0])]).status is CommitStatus.UNCHANGED
    with pytest.raises(NoSuchRef):
        commit(pointer, [MoveRef("other", ids[2])])
    with pytest.raises(NoSuchSnapshot):
        commit(pointer, [MoveRef("name", 99)])


@pytest.mark.parametrize(
    "change", [lambda i: MoveRef("name", i[1], expected=i[0]), lambda i: RemoveRef("name", expected=i[0])]
)
def test_what_the_user_saw_must_be_so_still(table: Table, change: Callable[[list[int]], Change]) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("name", "branch", ids[0])])
    rival = Meanwhile(lambda: commit(pointer, [MoveRef("name", ids[2])]))
    with pytest.raises(ConflictingChange, match=f"it was at snapshot {ids[0]}, and is at {ids[2]} now"):
        commit(pointer, [change(ids), rival])
    assert refs(pointer)["name"] == ids[2]


def test_removed(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("name", "tag", ids[0])])
    with pytest.raises(NoSuchRef, match="it is a tag"):
        commit(pointer, [RemoveRef("name", "branch")])
    commit(pointer, [RemoveRef("name", "tag")])
    assert refs(pointer) == {"main": ids[2]}
    with pytest.raises(NoSuchRef):
        commit(pointer, [RemoveRef("name")])
    assert commit(pointer, [RemoveRef("name", if_exists=True)]).status is CommitStatus.UNCHANGED
    with pytest.raises(InvalidUpdate, match="main cannot be removed"):
        RemoveRef("main")


def test_renamed(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("name", "branch", ids[0], max_snapshot_age_ms=7)])
    rival = Meanwhile(lambda: commit(pointer, [MoveRef("name", ids[1])]))
    commit(pointer, [RenameRef("name", "other"), rival])
    assert refs(pointer) == {"main": ids[2], "other": ids[1]}
    assert loaded(pointer).metadata.refs["other"].max_snapshot_age_ms == 7
    assert commit(pointer, [RenameRef("other", "other")]).status is CommitStatus.UNCHANGED
    commit(pointer, [CreateRef("third", "tag")])
    with pytest.raises(AlreadyExists):
        commit(pointer, [RenameRef("other", "third")])
    with pytest.raises(NoSuchRef):
        commit(pointer, [RenameRef("name", "fourth")])
    for names in (("main", "x"), ("other", "main")):
        with pytest.raises(InvalidUpdate, match="main"):
            RenameRef(*names)


def test_retention_is_set_setting_by_setting(table: Table) -> None:
    pointer, _ = table
    commit(pointer, [CreateRef("name", "branch", min_snapshots_to_keep=3, max_ref_age_ms=9)])
    commit(pointer, [SetRetention("name", max_snapshot_age_ms=5, max_ref_age_ms=None)])
    ref = loaded(pointer).metadata.refs["name"]
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms) == (3, 5, None)
    assert commit(pointer, [SetRetention("name")]).status is CommitStatus.UNCHANGED
    with pytest.raises(InvalidUpdate, match="must be positive"):
        commit(pointer, [SetRetention("name", min_snapshots_to_keep=0)])


def test_fast_forward(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("work", "branch")])
    ahead = put(pointer, "d", "work")
    commit(pointer, [FastForward("main", "work")])
    assert refs(pointer) == {"main": ahead, "work": ahead}
    assert commit(pointer, [FastForward("main", "work")]).status is CommitStatus.UNCHANGED
    commit(pointer, [FastForward("new", ids[0])])
    assert refs(pointer)["new"] == ids[0]
    commit(pointer, [CreateRef("tag", "tag", ids[0])])
    with pytest.raises(InvalidUpdate, match="is a tag, and tags are not moved"):
        commit(pointer, [FastForward("tag", "main")])


def test_fast_forward_loses_nothing(table: Table) -> None:
    """The rule is checked on every attempt: a commit that comes meanwhile makes histories diverge."""
    pointer, _ = table
    commit(pointer, [CreateRef("work", "branch")])
    put(pointer, "d", "work")
    made: list[int] = []
    rival = Meanwhile(lambda: made.append(put(pointer, "e")))
    with pytest.raises(ConflictingChange, match="would be lost"):
        commit(pointer, [FastForward("main", "work"), rival])
    assert refs(pointer)["main"] == made[0]


def test_fast_forward_takes_what_the_target_has_gained(table: Table) -> None:
    pointer, _ = table
    commit(pointer, [CreateRef("work", "branch")])
    put(pointer, "d", "work")
    made: list[int] = []
    commit(pointer, [FastForward("main", "work"), Meanwhile(lambda: made.append(put(pointer, "e", "work")))])
    assert refs(pointer)["main"] == made[0]


# rollback ---------------------------------------------------------------------------------------------------------


def test_back_to_a_snapshot(table: Table) -> None:
    pointer, ids = table
    done = commit(pointer, [RollbackToSnapshot(ids[0])])
    assert done.metadata.current_snapshot_id == ids[0]
    assert set(done.metadata.snapshots_by_id) == set(ids)
    assert [entry.snapshot_id for entry in done.metadata.snapshot_log] == [*ids, ids[0]]
    assert commit(pointer, [RollbackToSnapshot(ids[0])]).status is CommitStatus.UNCHANGED
    with pytest.raises(InvalidUpdate, match="not in the history of its head"):
        commit(pointer, [RollbackToSnapshot(ids[2])])
    with pytest.raises(NoSuchSnapshot):
        commit(pointer, [RollbackToSnapshot(99)])


def test_back_to_a_time(table: Table) -> None:
    """The newest ancestor strictly older than the time, as in Java."""
    pointer, ids = table
    times = [snapshot.timestamp_ms for snapshot in loaded(pointer).metadata.snapshots]
    commit(pointer, [RollbackToTime(times[2])])
    assert refs(pointer)["main"] == ids[1]
    commit(pointer, [RollbackToTime(times[0] + 1)])
    assert refs(pointer)["main"] == ids[0]
    with pytest.raises(NoSuchSnapshot, match="no snapshot from before"):
        commit(pointer, [RollbackToTime(times[0])])


def test_the_log_tells_the_transactions_of_other_writers(table: Table) -> None:
    pointer, (_, _, before) = table
    clock = pointer.environment.clock
    clock.advance(1000)
    inside, after = (
        PutFiles(pointer.environment, [data_file(f"{LOCATION}/data/{name}.parquet")]) for name in ("d", "e")
    )
    commit(pointer, [inside, after])
    assert all("committed-with-parent" not in (s.summary or {}) for s in loaded(pointer).metadata.snapshots)
    with pytest.raises(InvalidUpdate, match=f"from snapshot {before} to snapshot {after.snapshot_id} at once"):
        commit(pointer, [RollbackToSnapshot(inside.snapshot_id)])
    clock.advance(1000)
    commit(pointer, [RollbackToTime(clock.now_ms())])
    assert refs(pointer)["main"] == after.snapshot_id
    commit(pointer, [RollbackToTime(loaded(pointer).metadata.snapshot(after.snapshot_id).timestamp_ms)])
    assert refs(pointer)["main"] == before
    commit(pointer, [SetCurrentSnapshot(inside.snapshot_id)])
    put(pointer, "f")
    commit(pointer, [RollbackToSnapshot(inside.snapshot_id)])
    assert refs(pointer)["main"] == inside.snapshot_id, "by now it has been seen"


def test_to_any_snapshot(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("work", "branch", ids[0])])
    other = put(pointer, "d", "work")
    commit(pointer, [SetCurrentSnapshot(other)])
    assert refs(pointer)["main"] == other
    commit(pointer, [SetCurrentSnapshot("work", branch="main"), SetCurrentSnapshot(ids[2])])
    assert refs(pointer)["main"] == ids[2]
    with pytest.raises(NoSuchRef):
        commit(pointer, [SetCurrentSnapshot("none")])


@pytest.mark.parametrize(
    "change",
    [
        lambda ids, **o: RollbackToSnapshot(ids[0], **o),
        lambda ids, **o: RollbackToTime(2**62, **o),
        lambda ids, **o: SetCurrentSnapshot(ids[0], **o),
    ],
    ids=["snapshot", "time", "current"],
)
def test_commits_that_the_user_has_not_seen_are_not_taken_back(table: Table, change) -> None:  # type: ignore[no-untyped-def]
    pointer, ids = table
    made: list[int] = []
    rival = Meanwhile(lambda: made.append(put(pointer, "d")))
    with pytest.raises(ConflictingChange, match=f"it was at snapshot {ids[2]}"):
        commit(pointer, [change(ids), UpdateBeside(), rival])
    assert refs(pointer)["main"] == made[0]
    with pytest.raises(ConflictingChange):
        commit(pointer, [change(ids, expected=ids[2])])
    commit(pointer, [change(ids, expected=ids[2], discard_newer=True)])


class UpdateBeside:
    """Makes every attempt publish something."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        from floe.spec.metadata.updates import SetProperties

        return (SetProperties({"n": str(attempt.number)}),)


def test_commits_to_other_branches_are_no_matter(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("work", "branch")])
    rival = Meanwhile(lambda: put(pointer, "d", "work"))
    assert commit(pointer, [RollbackToSnapshot(ids[0]), rival]).attempts == 2
    assert refs(pointer)["main"] == ids[0]


def test_branches_go_back_too_and_tags_do_not(table: Table) -> None:
    pointer, ids = table
    commit(pointer, [CreateRef("work", "branch", min_snapshots_to_keep=2), CreateRef("tag", "tag")])
    commit(pointer, [RollbackToSnapshot(ids[1], branch="work")])
    assert refs(pointer) == {"main": ids[2], "work": ids[1], "tag": ids[2]}
    assert loaded(pointer).metadata.refs["work"].min_snapshots_to_keep == 2
    with pytest.raises(InvalidUpdate, match="is a tag, and tags are not moved"):
        commit(pointer, [RollbackToSnapshot(ids[1], branch="tag")])
    with pytest.raises(NoSuchRef):
        commit(pointer, [RollbackToSnapshot(ids[1], branch="none")])


def test_an_empty_table_has_nothing_to_go_back_to() -> None:
    with pytest.raises(NoSuchSnapshot, match="the branch is empty"):
        commit(new_table(), [RollbackToTime(2**62)])
