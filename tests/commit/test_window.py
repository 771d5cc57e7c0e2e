"""What others committed since: the facts of each snapshot, and every way in which the window can be broken."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import pytest

from floe.avro.manifest_lists import write_manifest_list
from floe.commit.change import BLIND, Reads
from floe.commit.conflicts.concurrent_commits import (
    ConcurrentCommits,
    SnapshotCache,
    SnapshotChanges,
    read_concurrent_commits,
)
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, MergeAppend, Overwrite, RowDelta
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.errors import ConflictingChange, CorruptFile, NoSuchFile
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from floe.sql.filters import parse_filter
from floe.testing.faults import FaultyStorage
from helpers.tables import Box, data_file, equality_deletes, new_table, position_deletes

A, B, C, D = (f"memory:wh/t/{name}" for name in "abcd")
PARTS = ("added_data", "removed_data", "added_deletes", "removed_deletes")


def filled(version: int = 2) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1), data_file(B, 2)]))
    return box


def window(box: Box, start: int | None, branch: str = "main", cache: SnapshotCache | None = None) -> ConcurrentCommits:
    return read_concurrent_commits(box.metadata, box.storage, start_id=start, branch=branch, cache=cache)


def told(facts: SnapshotChanges) -> dict[str, list[str]]:
    """The files of each part, those without any left out."""
    found = {name: sorted(file.file_path for part in getattr(facts, name) for file in part.files()) for name in PARTS}
    return {name: files for name, files in found.items() if files}


def facts_of(box: Box, start: int | None) -> list[dict[str, list[str]]]:
    return [told(facts) for _, facts in window(box, start)]


# facts ------------------------------------------------------------------------------------------------------------


def test_nothing_happened() -> None:
    box = filled()
    assert facts_of(box, box.head().snapshot_id) == []
    assert facts_of(Box(new_table()), None) == []


def test_the_facts_of_each_operation() -> None:
    box = filled()
    start = box.head().snapshot_id
    reads = Reads(start)
    box.commit(FastAppend([data_file(C, 1)]))
    box.commit(RowDelta([position_deletes("p", 1, target=A), data_file(D, 1)], reads=reads))
    box.commit(RowDelta([equality_deletes("e", 2)], reads=BLIND))
    box.commit(DeleteFiles(where=parse_filter("day = 2")))
    box.commit(RewriteManifests(cluster_by=lambda file: file.file_path))
    assert facts_of(box, start) == [
        {"added_data": [C]},
        {"added_data": [D], "added_deletes": ["p"]},
        {"added_deletes": ["e"]},
        {"removed_data": [B], "removed_deletes": ["e"]},
        {},
    ]


def test_an_empty_branch_was_read() -> None:
    assert facts_of(filled(), None) == [{"added_data": [A, B]}]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_merged_manifests_do_not_repeat_what_others_did(version: int) -> None:
    box = Box(new_table(version, properties={"commit.manifest.min-count-to-merge": "2"}))
    box.commit(MergeAppend([data_file(A, 1)]))
    start = box.head().snapshot_id
    box.commit(MergeAppend([data_file(B, 1)]))
    box.commit(MergeAppend([data_file(C, 1)]))
    assert len(box.manifests()) == 1
    assert facts_of(box, start) == [{"added_data": [B]}, {"added_data": [C]}]


def rewrite(box: Box, *, rows: int, label: str | None = None) -> SnapshotChanges:
    """The facts of a snapshot that replaces a file of ten rows by one of some rows, with a label of our choice."""
    start = box.head().snapshot_id
    box.commit(Overwrite(removed=[box.live()[A].data_file], added=[data_file(C, 1, rows=rows)], reads=Reads(start)))
    relabel(box, label)
    ((_, facts),) = window(box, start)
    return facts


def relabel(box: Box, label: str | None) -> None:
    head = box.head()
    summary = None if label is None else {**(head.summary or {}), "operation": label}
    changed = msgspec.structs.replace(head, summary=summary)
    others = tuple(one for one in box.metadata.snapshots if one.snapshot_id != head.snapshot_id)
    box.metadata = _with_snapshots(box, (*others, changed))


def _with_snapshots(box: Box, snapshots: tuple[Snapshot, ...]) -> TableMetadata:
    return replace(box.metadata, snapshots=snapshots)


@pytest.mark.parametrize(
    ("label", "rows", "keeps"),
    [
        ("replace", 10, True),
        ("replace", 7, True),  # the rest was deleted before
        ("replace", 11, False),  # where should the eleventh come from?
        ("overwrite", 10, False),
        ("append", 10, False),
        (None, 10, False),
    ],
)
def test_a_rewrite_is_believed_as_far_as_the_counts_allow(label: str | None, rows: int, keeps: bool) -> None:
    facts = rewrite(filled(), rows=rows, label=label)
    assert (facts.keeps_rows, facts.adds_rows) == (keeps, not keeps)


def test_deletes_are_no_rewrite_if_they_delete_more_than_before() -> None:
    box = filled()
    box.commit(RowDelta([position_deletes("p", 1, rows=2, target=A)], reads=Reads(box.head().snapshot_id)))
    for rows, keeps in ((2, True), (3, False)):
        start = box.head().snapshot_id
        old = next(e.data_file for e in box.live().values() if not e.data_file.is_data)
        change = RewriteFiles(
            reads=Reads(start),
            removed=[old],
            added=[position_deletes(f"p{rows}", 1, rows=rows, target=A)],
            sequence_numbers={f"p{rows}": 2},
        )
        box.commit(change)
        ((_, facts),) = window(box, start)
        assert facts.snapshot.operation == "replace"
        assert facts.keeps_rows is keeps


def test_inline_manifests_of_old_tables() -> None:
    box = filled(1)
    start = box.head().snapshot_id
    box.commit(FastAppend([data_file(C, 1)]))
    inline = tuple(
        msgspec.structs.replace(one, manifest_list=None, manifests=tuple(m.manifest_path for m in box.manifests(one)))
        for one in box.metadata.snapshots
    )
    box.metadata = _with_snapshots(box, inline)
    assert facts_of(box, start) == [{"added_data": [C]}]


# commits ----------------------------------------------------------------------------------------------------------


def test_snapshots_of_one_transaction_belong_together() -> None:
    """The log of `main` has only the last snapshot of each commit."""
    box = filled()
    start = box.head().snapshot_id
    first = FastAppend([data_file(C, 1)])
    updates = list(first.updates(box.attempt()))
    between = Box(box.metadata, box.storage, box.environment)
    between.apply(*updates)
    box.apply(*updates, *DeleteFiles(where=parse_filter("day = 2")).updates(between.attempt()))
    box.commit(FastAppend([data_file(D, 1)]))
    commits = window(box, start).commits
    assert [len(commit.snapshots) for commit in commits] == [2, 1]
    assert [commit.adds_rows for commit in commits] == [True, True]


def test_on_other_branches_everything_counts_as_one_commit() -> None:
    box = filled()
    start = box.head().snapshot_id
    box.apply(SetSnapshotRef("audit", SnapshotRef(snapshot_id=start, type="branch")))
    box.commit(FastAppend([data_file(C, 1)], branch="audit"))
    box.commit(DeleteFiles(where=parse_filter("day = 2"), branch="audit"))
    assert [len(commit.snapshots) for commit in window(box, start, "audit").commits] == [2]
    assert facts_of(box, start) == []


# broken windows ---------------------------------------------------------------------------------------------------


def grown(count: int = 3) -> tuple[Box, list[int]]:
    box = filled()
    ids = [box.head().snapshot_id]
    for n in range(count):
        box.commit(FastAppend([data_file(f"memory:wh/t/new-{n}", 1)]))
        ids.append(box.head().snapshot_id)
    return box, ids


def test_the_snapshot_that_was_read_may_expire_if_its_child_is_there() -> None:
    box, ids = grown()
    box.apply(RemoveSnapshots((ids[0],)))
    assert len(facts_of(box, ids[0])) == 3


def test_history_that_has_expired_is_a_conflict() -> None:
    box, ids = grown()
    box.apply(RemoveSnapshots((ids[0], ids[1])))
    with pytest.raises(ConflictingChange, match="what came before has expired") as caught:
        window(box, ids[0])
    assert caught.value.context["snapshot read"] == ids[0]
    with pytest.raises(ConflictingChange, match="what came before has expired"):
        window(box, None)


def test_a_rollback_is_a_conflict() -> None:
    box, ids = grown()
    box.apply(SetSnapshotRef("main", SnapshotRef(snapshot_id=ids[1], type="branch")))
    with pytest.raises(ConflictingChange, match=r"no longer in the history of branch 'main'.*rolled back"):
        window(box, ids[2])
    box.commit(FastAppend([data_file(C, 1)]))
    with pytest.raises(ConflictingChange, match="no longer in the history"):
        window(box, ids[3])
    assert facts_of(box, ids[1]) == [{"added_data": [C]}]


def test_a_rollback_and_back_again_is_none() -> None:
    box, ids = grown()
    for target in (ids[0], ids[3]):
        box.apply(SetSnapshotRef("main", SnapshotRef(snapshot_id=target, type="branch")))
    assert len(facts_of(box, ids[2])) == 1


def test_a_replaced_table_is_a_conflict() -> None:
    """A2: readers of what was there before cannot commit to what took its place."""
    box, ids = grown()
    box.apply(RemoveSnapshotRef("main"))
    with pytest.raises(ConflictingChange, match="no longer in the history"):
        window(box, ids[3])
    box.commit(FastAppend([data_file(C, 1)]))
    with pytest.raises(ConflictingChange, match="no longer in the history"):
        window(box, ids[3])


def test_parents_in_a_circle_end() -> None:
    box, ids = grown(1)
    circle = tuple(
        msgspec.structs.replace(one, parent_snapshot_id=other)
        for one, other in zip(box.metadata.snapshots, reversed(ids), strict=True)
    )
    box.metadata = _with_snapshots(box, circle)
    with pytest.raises(ConflictingChange):
        window(box, 12345)


# what cannot be told ----------------------------------------------------------------------------------------------


def relisted(box: Box, change: Callable[[list[ManifestFile]], list[ManifestFile]]) -> None:
    """The head with another manifest list."""
    head = box.head()
    assert head.manifest_list is not None
    data = write_manifest_list(
        change(box.manifests()),
        format_version=2,
        snapshot_id=head.snapshot_id,
        parent_snapshot_id=head.parent_snapshot_id,
        sequence_number=head.sequence_number,
    )
    box.storage.write(head.manifest_list, data, overwrite=True)


def test_files_that_vanish_without_a_word_are_a_conflict() -> None:
    """A writer that leaves out a manifest removes files, and no entry says so."""
    box, ids = grown(1)
    relisted(box, lambda manifests: manifests[:1])
    with pytest.raises(ConflictingChange, match=r"1 data files after 2.*difference of 1"):
        window(box, ids[0])


def test_a_new_manifest_is_read_whoever_is_said_to_have_written_it() -> None:
    box, ids = grown(1)
    relisted(box, lambda manifests: [replace(manifests[0], added_snapshot_id=ids[0]), *manifests[1:]])
    assert facts_of(box, ids[0]) == [{"added_data": ["memory:wh/t/new-0"]}]  # the entries say whose they are


def test_a_manifest_that_is_missing_or_broken_is_an_error() -> None:
    box, ids = grown(1)
    path = box.manifests()[0].manifest_path
    box.storage.write(path, b"no manifest", overwrite=True)
    with pytest.raises(CorruptFile):
        window(box, ids[0])
    box.storage.delete_many([path])
    with pytest.raises(NoSuchFile):
        window(box, ids[0])


# reading ----------------------------------------------------------------------------------------------------------


def reads_of(box: Box, start: int, cache: SnapshotCache | None = None) -> int:
    """How many calls of the storage a window takes."""
    counting = FaultyStorage(box.storage)
    read_concurrent_commits(box.metadata, counting, start_id=start, cache=cache)
    return len(counting.calls)


def test_only_manifests_of_the_window_are_read() -> None:
    box, ids = grown(6)
    # for two snapshots: three manifest lists (one of the parent), two manifests
    assert reads_of(box, ids[4]) == 5


def test_what_was_read_once_is_not_read_again() -> None:
    box, ids = grown(2)
    cache = SnapshotCache()
    reads_of(box, ids[0], cache)
    assert reads_of(box, ids[0], cache) == 0
    box.commit(FastAppend([data_file(C, 1)]))
    assert reads_of(box, ids[0], cache) == 2
    assert repr(cache) == "SnapshotCache(3 snapshots)"


def test_reading_at_once_gives_the_same() -> None:
    box, ids = grown(6)
    with ThreadPoolExecutor(4) as pool:
        cache = SnapshotCache(pool)
        found = [told(facts) for _, facts in window(box, ids[0], cache=cache)]
    assert found == facts_of(box, ids[0])
