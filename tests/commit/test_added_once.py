"""No file comes to be live twice, whoever adds it: every operation looks for the files it is given in the head."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from floe.commit.change import BLIND, Change, Reads
from floe.commit.operations.cherry_pick import CherryPick
from floe.commit.operations.data_changes import FastAppend, MergeAppend, Overwrite, ReplacePartitions, RowDelta
from floe.commit.operations.rewrite import RewriteFiles
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.manifests.entries import DataFile
from floe.sql.filters import parse_filter
from helpers.tables import Box, data_file, equality_deletes, new_table, position_deletes, vector

VERSIONS = [1, 2, 3]
A, B, C, D, E = (f"memory:wh/t/data/{name}.parquet" for name in "abcde")
HELD = "the file is in the table already"

Adding = Callable[[Box, DataFile], Change]

ADDING: dict[str, Adding] = {
    "fast append": lambda box, file: FastAppend([file]),
    "append": lambda box, file: MergeAppend([file]),
    "overwrite by name": lambda box, file: Overwrite(added=[file], removed=[box.live()[B].data_file], reads=BLIND),
    "overwrite of other rows": lambda box, file: Overwrite(added=[file], where=parse_filter("day = 2"), reads=BLIND),
    "overwrite of the file itself": lambda box, file: Overwrite(
        added=[file], where=parse_filter("day = 1"), reads=BLIND
    ),
    "replace partitions": lambda box, file: ReplacePartitions([replace(file, partition=(2,))]),
    "replace its own partition": lambda box, file: ReplacePartitions([file]),
    "row delta": lambda box, file: RowDelta([file], reads=BLIND),
    "rewrite": lambda box, file: RewriteFiles(
        added=[file], removed=[box.live()[B].data_file], reads=Reads(box.head().snapshot_id, files=frozenset({B}))
    ),
}


def filled(version: int) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1)]))
    box.commit(FastAppend([data_file(B, 2)]))
    return box


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("adding", ADDING.values(), ids=ADDING)
def test_a_file_that_the_head_holds_is_refused(adding: Adding, version: int) -> None:
    box = filled(version)
    before = box.metadata
    with pytest.raises(InvalidUpdate, match=HELD) as caught:
        box.commit(adding(box, data_file(A, 1)))
    assert caught.value.context["file"] == A
    assert box.metadata is before
    box.commit(adding(box, data_file(C, 1)))
    assert C in box.live(), "a file that is not there is taken"


@pytest.mark.parametrize("adding", ADDING.values(), ids=ADDING)
def test_a_file_that_somebody_adds_meanwhile_is_a_conflict(adding: Adding) -> None:
    box = filled(2)
    with pytest.raises(ConflictingChange, match=f"{HELD}|file added twice"):
        box.commit(adding(box, data_file(C, 1)), FastAppend([data_file(C, 1)]))


def test_a_file_that_somebody_removes_meanwhile_may_be_added() -> None:
    box = filled(2)
    box.commit(Overwrite(where=parse_filter("day = 1"), reads=BLIND))
    box.commit(MergeAppend([data_file(A, 1)]))
    assert set(box.live()) == {A, B}


def test_spellings_of_a_path_are_one_file() -> None:
    box = filled(2)
    spelled = "memory:/wh/t/data/a.parquet"
    with pytest.raises(InvalidUpdate, match=HELD):
        box.commit(FastAppend([data_file(spelled, 1)]))
    with pytest.raises(InvalidInput, match="added twice"):
        box.commit(FastAppend([data_file(spelled.replace("a.p", "z.p"), 1), data_file(A.replace("a.p", "z.p"), 1)]))


def test_another_partition_than_the_one_it_is_in_does_not_hide_it() -> None:
    box = filled(2)
    with pytest.raises(InvalidUpdate, match=HELD):
        box.commit(FastAppend([data_file(A, 7)]))


@pytest.mark.parametrize("kind", ["position", "equality", "vector"])
def test_delete_files_come_once(kind: str) -> None:
    version = 3 if kind == "vector" else 2
    box = filled(version)
    made = {
        "position": lambda: position_deletes(D, 1, target=A),
        "equality": lambda: equality_deletes(D, 1),
        "vector": lambda: vector(A, 1),
    }[kind]
    box.commit(RowDelta([made()], reads=Reads(box.head().snapshot_id)))
    with pytest.raises((InvalidUpdate, ConflictingChange)):
        box.commit(RowDelta([made()], reads=Reads(box.head().snapshot_id)))
    if kind != "vector":
        with pytest.raises(InvalidUpdate, match=HELD):
            box.commit(FastAppend([data_file(D, 1)]))


def test_vectors_at_other_places_of_one_puffin_file_are_others() -> None:
    box = filled(3)
    box.commit(RowDelta([vector(A, 1, offset=4)], reads=Reads(box.head().snapshot_id)))
    box.commit(RowDelta([vector(B, 2, offset=44)], reads=Reads(box.head().snapshot_id)))
    assert sum(entry.data_file.is_deletion_vector for entry in box.live().values()) == 2
    box.commit(FastAppend([data_file(C, 1)]))
    with pytest.raises(InvalidUpdate, match=HELD):
        box.commit(RowDelta([vector(C, 1, offset=44)], reads=Reads(box.head().snapshot_id)))


@pytest.mark.parametrize("version", VERSIONS)
def test_two_changes_of_one_commit_cannot_add_it_both(version: int) -> None:
    box = filled(version)
    box.commit(MergeAppend([data_file(C, 1)]))
    with pytest.raises(InvalidUpdate, match=HELD):
        box.commit(FastAppend([data_file(C, 1)]))


def test_a_file_of_a_staged_snapshot_is_published_once() -> None:
    box = filled(2)
    first, second = (box.commit(FastAppend([data_file(C, 1)], staged=True)) for _ in range(2))
    box.commit(FastAppend([data_file(D, 1)]))
    box.commit(CherryPick(first.snapshot_id))
    with pytest.raises(InvalidUpdate, match="the branch has a file that it added"):
        box.commit(CherryPick(second.snapshot_id))


def test_branches_hold_files_by_themselves() -> None:
    box = filled(2)
    box.commit(FastAppend([data_file(C, 1)], branch="audit", create_branch=True))
    box.commit(FastAppend([data_file(C, 1)]))
    assert {C} <= set(box.live()) & set(box.live(box.head("audit")))


# what it costs ------------------------------------------------------------------------------------------------------


class CountingReads:
    """A storage that notes what is read."""

    def __init__(self, box: Box) -> None:
        self.storage, self.paths = box.storage, []

    def read(self, location, **options):
        self.paths.append(location)
        return self.storage.read(location, **options)

    def write(self, location, data, **options):
        self.storage.write(location, data, **options)


@pytest.mark.parametrize("operation", [FastAppend, MergeAppend])
def test_files_of_fresh_names_are_not_looked_for(operation) -> None:
    box = filled(2)
    watched = CountingReads(box)
    operation([data_file(C, 1)], fresh=True).updates(replace(box.attempt(), storage=watched))
    assert watched.paths == [box.head().manifest_list]


def test_a_manifest_is_read_once_however_many_commits_come() -> None:
    box = filled(2)
    watched = CountingReads(box)
    box.storage = watched
    box.commit(FastAppend([data_file(C, 1)]))
    assert sum(not path.rpartition("/")[2].startswith("snap-") for path in watched.paths) == 2
    watched.paths.clear()
    head = box.head().manifest_list
    box.commit(FastAppend([data_file(D, 1)]))
    own = [path for path in watched.paths if path != head]
    assert len(own) == 1, "only the manifest of the commit before"
    with pytest.raises(InvalidUpdate, match=HELD):
        box.commit(FastAppend([data_file(B, 2)]))
