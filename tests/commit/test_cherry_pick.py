"""Picking snapshots: staged ones, those of other branches, and what can be picked at all."""

import pytest

from floe.commit.change import BLIND
from floe.commit.operations.cherry_pick import CherryPick, PublishWap
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, ReplacePartitions, RowDelta
from floe.errors import ConflictingChange, InvalidUpdate, NoSuchSnapshot
from floe.spec.metadata.snapshots import SnapshotRef
from floe.spec.metadata.updates import SetSnapshotRef
from helpers.tables import Box, data_file, equality_deletes, new_table

VERSIONS = [1, 2, 3]
A, B, C, D = (f"memory:wh/t/{name}" for name in "abcd")


def filled(version: int = 2) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1)]))
    return box


@pytest.mark.parametrize("version", VERSIONS)
def test_a_staged_append_is_published(version: int) -> None:
    box = filled(version)
    staged = box.commit(FastAppend([data_file(B, 2)], staged=True, summary={"wap.id": "w1"}))
    box.commit(FastAppend([data_file(C, 3)]))
    made = box.commit(PublishWap("w1"))
    assert set(box.live()) == {A, B, C}
    assert made.operation == "append"
    assert made.summary["source-snapshot-id"] == str(staged.snapshot_id)
    assert made.summary["published-wap-id"] == "w1"
    assert "wap.id" not in made.summary
    assert made.summary["total-records"] == "30"
    if version == 3:
        ids = {n: e.data_file.first_row_id for n, e in box.live().items()}
        assert ids == {A: 0, C: 20, B: 30}, "row ids are of the snapshot that is published"


@pytest.mark.parametrize("version", VERSIONS)
def test_right_upon_its_parent_the_snapshot_itself_becomes_head(version: int) -> None:
    box = filled(version)
    staged = box.commit(FastAppend([data_file(B, 2)], staged=True))
    change = CherryPick(staged.snapshot_id)
    assert box.commit(change) is None
    assert box.head().snapshot_id == staged.snapshot_id
    assert not change.written()


def test_the_first_snapshot_can_be_staged() -> None:
    box = Box(new_table(2))
    box.commit(FastAppend([data_file(A)], staged=True, summary={"wap.id": "w"}))
    box.commit(PublishWap("w"))
    assert set(box.live()) == {A}


def test_a_lost_answer_of_moving_ahead_does_no_harm() -> None:
    box = filled()
    staged = box.commit(FastAppend([data_file(B, 2)], staged=True))
    change = CherryPick(staged.snapshot_id)
    box.apply(*change.updates(box.attempt()))
    box.commit(FastAppend([data_file(C)]))
    assert change.updates(box.attempt(2)) == ()
    assert set(box.live()) == {A, B, C}


def test_not_twice() -> None:
    box = filled()
    staged = box.commit(FastAppend([data_file(B, 2)], staged=True, summary={"wap.id": "w"}))
    box.commit(FastAppend([data_file(C)]))
    box.commit(CherryPick(staged.snapshot_id))
    with pytest.raises(InvalidUpdate, match="was picked before"):
        box.commit(CherryPick(staged.snapshot_id))
    with pytest.raises(InvalidUpdate, match="was picked before"):
        box.commit(PublishWap("w"))
    with pytest.raises(InvalidUpdate, match="in the history of 'main' already"):
        box.commit(CherryPick(box.metadata.snapshots[0].snapshot_id))


def test_a_wap_id_is_published_once() -> None:
    box = filled()
    one = box.commit(FastAppend([data_file(B)], staged=True, summary={"wap.id": "w"}))
    two = box.commit(FastAppend([data_file(C)], staged=True, summary={"wap.id": "w"}))
    with pytest.raises(InvalidUpdate, match="2 snapshots were staged with WAP id 'w'"):
        box.commit(PublishWap("w"))
    box.commit(CherryPick(one.snapshot_id))
    with pytest.raises(InvalidUpdate, match="was published before"):
        box.commit(CherryPick(two.snapshot_id))


def test_an_unknown_id() -> None:
    box = filled()
    with pytest.raises(NoSuchSnapshot, match="99"):
        box.commit(CherryPick(99))
    with pytest.raises(NoSuchSnapshot, match="no snapshot has a WAP id"):
        box.commit(PublishWap("w"))


@pytest.mark.parametrize("version", VERSIONS)
def test_replaced_partitions_are_picked_if_nobody_touched_them(version: int) -> None:
    box = filled(version)
    staged = box.commit(ReplacePartitions([data_file(B, 1)], staged=True))
    box.commit(FastAppend([data_file(C, 2)]))
    made = box.commit(CherryPick(staged.snapshot_id))
    assert set(box.live()) == {B, C}
    assert made.operation == "overwrite"
    assert made.summary["replace-partitions"] == "true"


def test_replaced_partitions_with_new_files_are_a_conflict() -> None:
    box = filled()
    staged = box.commit(ReplacePartitions([data_file(B, 1)], staged=True))
    box.commit(FastAppend([data_file(C, 1)]))
    with pytest.raises(ConflictingChange):
        box.commit(CherryPick(staged.snapshot_id))


def test_replaced_files_that_are_gone_are_a_conflict() -> None:
    box = filled()
    staged = box.commit(ReplacePartitions([data_file(B, 1)], staged=True))
    box.commit(DeleteFiles(paths=[A]))
    with pytest.raises(ConflictingChange):
        box.commit(CherryPick(staged.snapshot_id))


@pytest.mark.parametrize(
    "staged",
    [
        lambda: DeleteFiles(paths=[A], staged=True),
        lambda: RowDelta([equality_deletes(D)], reads=BLIND, staged=True),
    ],
)
def test_other_operations_can_only_be_moved_to(staged) -> None:
    box = filled()
    picked = box.commit(staged())
    box.commit(FastAppend([data_file(C)]))
    with pytest.raises(ConflictingChange, match=r"\(delete\) can only be picked if its parent is the head"):
        box.commit(CherryPick(picked.snapshot_id))


def test_from_one_branch_to_another() -> None:
    box = filled()
    box.apply(SetSnapshotRef("dev", SnapshotRef(snapshot_id=box.head().snapshot_id, type="branch")))
    box.commit(FastAppend([data_file(B)], branch="dev"))
    second = box.commit(FastAppend([data_file(C)], branch="dev"))
    box.commit(CherryPick(second.snapshot_id))
    assert set(box.live()) == {A, C}
    assert set(box.live(box.head("dev"))) == {A, B, C}


def test_a_pick_is_retried() -> None:
    box = filled(3)
    staged = box.commit(FastAppend([data_file(B)], staged=True))
    box.commit(FastAppend([data_file(C)]))
    change = CherryPick(staged.snapshot_id)
    box.commit(change, FastAppend([data_file(D)]))
    assert set(box.live()) == {A, B, C, D}
    assert len([path for path in change.written() if "/snap-" not in path]) == 1
