"""Histories that expiry has cut: what cannot be told of them is refused, and never taken for "no"."""

import pytest

from floe.commit.change import Reads
from floe.commit.operations.cherry_pick import CherryPick, PublishWap
from floe.commit.operations.data_changes import FastAppend, ReplacePartitions
from floe.commit.operations.refs import FastForward, RollbackToSnapshot, RollbackToTime, SetCurrentSnapshot
from floe.commit.operations.rewrite import RewriteFiles
from floe.commit.outcomes import CommitStatus, find_commit
from floe.errors import ConflictingChange, InvalidUpdate, NoSuchSnapshot
from floe.plan.changelog import plan_changelog
from floe.plan.scan import plan_appends
from floe.plan.snapshot_selection import SnapshotRange, snapshots_in_range
from floe.spec.metadata.ancestry import ancestors, unknown_before
from floe.spec.metadata.snapshots import SnapshotRef
from floe.spec.metadata.updates import RemoveSnapshots, SetSnapshotRef
from helpers.tables import Box, data_file, new_table

VERSIONS = [1, 2, 3]
A, B, C, D, E = (f"memory:wh/t/data/{name}.parquet" for name in "abcde")
CUT = "what came before has expired"


def put(box: Box, path: str, day: int = 1, **options: object) -> int:
    box.environment.clock.advance(1000)
    return box.commit(FastAppend([data_file(path, day)], **options)).snapshot_id


def tag(box: Box, name: str, snapshot_id: int, type_: str = "tag") -> None:
    box.apply(SetSnapshotRef(name, SnapshotRef(snapshot_id=snapshot_id, type=type_)))


def cut(version: int = 2) -> tuple[Box, list[int]]:
    """A, B and C were appended; B's snapshot has expired, and a tag keeps A's."""
    box = Box(new_table(version))
    ids = [put(box, path) for path in (A, B, C)]
    tag(box, "kept", ids[0])
    box.apply(RemoveSnapshots((ids[1],)))
    return box, ids


def compacted(version: int = 2) -> tuple[Box, list[int]]:
    """As before, but for the rows, which have been written to another file."""
    box = Box(new_table(version))
    ids = [put(box, path) for path in (A, B)]
    tag(box, "kept", ids[0])
    files = [box.live()[path].data_file for path in (A, B)]
    reads = Reads(ids[1], files=frozenset({A, B}))
    box.environment.clock.advance(1000)
    ids.append(box.commit(RewriteFiles(removed=files, added=[data_file(E, rows=20)], reads=reads)).snapshot_id)
    box.apply(RemoveSnapshots((ids[1],)))
    return box, ids


# picking ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_snapshot_whose_files_the_branch_holds_is_not_picked(version: int) -> None:
    box, ids = cut(version)
    with pytest.raises(InvalidUpdate, match=f"snapshot {ids[0]} is in 'main' already") as caught:
        box.commit(CherryPick(ids[0]))
    assert caught.value.context["file"] == A
    assert len(box.entries()) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_a_snapshot_whose_rows_may_be_in_other_files_is_not_picked(version: int) -> None:
    box, ids = compacted(version)
    with pytest.raises(InvalidUpdate, match=CUT):
        box.commit(CherryPick(ids[0]))
    assert set(box.live()) == {E}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_replaced_is_not_picked(version: int) -> None:
    box = Box(new_table(version))
    put(box, A)
    picked = box.commit(ReplacePartitions([data_file(B, 1)])).snapshot_id
    tag(box, "kept", picked)
    last = [put(box, path, 2) for path in (C, D)]
    box.apply(RemoveSnapshots((last[0],)))
    with pytest.raises((InvalidUpdate, ConflictingChange)):
        box.commit(CherryPick(picked))
    assert sorted(entry.data_file.file_path for entry in box.entries() if entry.is_live) == [B, C, D]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_staged_is_not_published_twice(version: int) -> None:
    box = Box(new_table(version))
    put(box, A)
    staged = put(box, B, staged=True, summary={"wap.id": "w"})
    tag(box, "kept", staged)
    put(box, C)
    published = box.commit(PublishWap("w")).snapshot_id
    put(box, D)
    box.apply(RemoveSnapshots(tuple(s.snapshot_id for s in box.metadata.snapshots if s.snapshot_id == published)))
    with pytest.raises(InvalidUpdate, match="already"):
        box.commit(PublishWap("w"))
    assert sorted(box.live()) == [A, B, C, D]
    assert len(box.entries()) == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_staged_on_what_is_known_is_published(version: int) -> None:
    box, _ = cut(version)
    staged = put(box, D, staged=True)
    put(box, E)
    box.commit(CherryPick(staged))
    assert set(box.live()) == {A, B, C, D, E}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_branch_that_leaves_below_the_cut_is_picked_from_if_it_is_known_where(version: int) -> None:
    box = Box(new_table(version))
    first = put(box, A)
    side = put(box, B, branch="audit", create_branch=True)
    put(box, C)
    box.apply(RemoveSnapshots((first,)))
    assert unknown_before(box.metadata, box.head().snapshot_id, side) is None, "both name the same parent"
    box.commit(CherryPick(side))
    assert set(box.live()) == {A, B, C}


def test_a_later_number_proves_that_it_is_not_below_the_cut() -> None:
    box = Box(new_table(2))
    put(box, A)
    second, third = put(box, B), put(box, C)
    early = put(box, D, branch="audit", create_branch=True)
    late = put(box, E, branch="audit")
    box.apply(RemoveSnapshots((early, second)))
    assert unknown_before(box.metadata, third, late) is None
    box.commit(CherryPick(late))
    assert E in box.live()


# moving branches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fast_forward_that_cannot_be_proved_is_refused(version: int) -> None:
    box = Box(new_table(version))
    first = put(box, A)
    between = put(box, B, branch="audit", create_branch=True)
    last = put(box, C, branch="audit")
    box.apply(RemoveSnapshots((between,)))
    for to in ("audit", last):
        with pytest.raises(ConflictingChange, match=f"known only down to snapshot {last}, {CUT}"):
            box.commit(FastForward("main", to))
    assert box.head().snapshot_id == first
    box.commit(SetCurrentSnapshot("audit"))
    assert set(box.live()) == {A, B, C}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fast_forward_across_what_is_proved_goes_on(version: int) -> None:
    box, _ = cut(version)
    ahead = put(box, D, branch="audit", create_branch=True)
    box.commit(FastForward("main", "audit"))
    assert box.head().snapshot_id == ahead


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rollback_that_cannot_be_proved_is_refused(version: int) -> None:
    box, ids = cut(version)
    with pytest.raises(InvalidUpdate, match=f"known only down to snapshot {ids[2]}, {CUT}"):
        box.commit(RollbackToSnapshot(ids[0]))
    assert box.head().snapshot_id == ids[2]
    box.commit(SetCurrentSnapshot(ids[0]))
    assert set(box.live()) == {A}


def test_what_is_proved_to_be_another_history_says_so() -> None:
    box, _ = cut()
    side = put(box, D, branch="audit", create_branch=True)
    put(box, E)
    with pytest.raises(InvalidUpdate, match="it is not in the history of its head"):
        box.commit(RollbackToSnapshot(side))
    with pytest.raises(ConflictingChange, match="is not in the history of snapshot"):
        box.commit(FastForward("main", "audit"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rollback_to_a_time_before_the_cut_is_refused(version: int) -> None:
    box, ids = cut(version)
    times = {one.snapshot_id: one.timestamp_ms for one in box.metadata.snapshots}
    for moment in (times[ids[0]] + 1, times[ids[2]]):
        with pytest.raises(NoSuchSnapshot, match="older ones may have expired"):
            box.commit(RollbackToTime(moment))
    box.commit(RollbackToTime(times[ids[2]] + 1))
    assert box.head().snapshot_id == ids[2]


# reading histories --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_across_the_cut_are_refused(version: int) -> None:
    box, ids = cut(version)
    for options in ({"after": ids[0]}, {"first": ids[0]}):
        with pytest.raises(NoSuchSnapshot, match=CUT):
            snapshots_in_range(box.metadata, SnapshotRange(**options))
    with pytest.raises(NoSuchSnapshot, match=f"as far as it is known, down to snapshot {ids[2]}"):
        snapshots_in_range(box.metadata, SnapshotRange(until=ids[0], branch="main"))
    for plan in (plan_changelog, plan_appends):
        with pytest.raises(NoSuchSnapshot, match=CUT):
            plan(box.metadata, box.storage, SnapshotRange(after=ids[0]))
    assert [one.snapshot_id for one in snapshots_in_range(box.metadata, SnapshotRange(after=ids[1]))] == [ids[2]]
    assert [one.snapshot_id for one in ancestors(box.metadata, ids[2])] == [ids[2]]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_change_that_rests_on_what_is_below_the_cut_is_refused(version: int) -> None:
    box, ids = cut(version)
    with pytest.raises(ConflictingChange, match=CUT):
        box.commit(FastAppend([data_file(D)], reads=Reads(ids[0])))


def test_a_commit_below_the_cut_is_not_said_to_be_rolled_back() -> None:
    box = Box(new_table(2))
    change = FastAppend([data_file(A)])
    first = box.commit(change).snapshot_id
    tag(box, "kept", first)
    second = put(box, B)
    put(box, C)
    box.apply(RemoveSnapshots((second,)))
    assert find_commit(box.metadata, [change]) is CommitStatus.FOUND
    box.apply(SetSnapshotRef("main", SnapshotRef(snapshot_id=first, type="branch")))
    side = put(box, D)
    box.commit(SetCurrentSnapshot(first))
    late = FastAppend([data_file(E)])
    late_id = box.commit(late).snapshot_id
    tag(box, "late", late_id)
    box.commit(SetCurrentSnapshot(side))
    assert find_commit(box.metadata, [late]) is CommitStatus.ROLLED_BACK, "here it is known"
