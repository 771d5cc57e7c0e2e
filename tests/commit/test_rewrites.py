"""Rewrites: of data files, of delete files, of manifests; the table reads the same afterwards."""

from dataclasses import replace

import pytest

from floe.commit.change import BLIND, Reads
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, MergeAppend, RowDelta
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.manifests.entries import ManifestContent
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec
from helpers.tables import Box, data_file, equality_deletes, new_table, other_spec, position_deletes, vector

VERSIONS = [1, 2, 3]
A, B, C, D = (f"memory:wh/t/{name}" for name in "abcd")
DEL = "memory:wh/t/del"


def filled(version: int = 2) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1)]))
    box.commit(FastAppend([data_file(B, 1)]))
    return box


def compaction(box: Box, **options) -> RewriteFiles:
    reads = Reads(box.head().snapshot_id, files=frozenset({A, B}))
    return RewriteFiles(
        removed=[data_file(A, 1), data_file(B, 1)], added=[data_file(C, 1, rows=20)], reads=reads, **options
    )


# files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_files_are_compacted(version: int) -> None:
    box = filled(version)
    made = box.commit(compaction(box))
    assert made.operation == "replace"
    assert set(box.live()) == {C}
    assert made.summary["total-records"] == "20"
    assert made.summary["total-data-files"] == "1"


@pytest.mark.parametrize("version", VERSIONS)
def test_new_files_can_be_as_old_as_what_was_read(version: int) -> None:
    box = filled(version)
    change = compaction(box, data_sequence_number=0 if version == 1 else 2)
    box.commit(change, FastAppend([data_file(D, 2)]))
    entry = box.live()[C]
    assert (entry.sequence_number, entry.file_sequence_number) == ((0, 0) if version == 1 else (2, 4))
    if version > 1:
        lowest = {m.manifest_path: m.min_sequence_number for m in box.manifests()}
        assert sorted(lowest.values()) == [2, 3, 4, 4] or sorted(lowest.values()) == [2, 3, 4]


def test_deletes_that_apply_to_the_new_file_are_not_outdated() -> None:
    """The new file is older than all others, so its deletes must not be taken for outdated."""
    box = filled(2)
    change = compaction(box, data_sequence_number=2)
    change.updates(box.attempt())
    box.commit(FastAppend([data_file(D, 2)]))
    reads = Reads(box.head().snapshot_id, files=frozenset({D}))
    box.commit(RowDelta([equality_deletes(DEL, 1)], reads=BLIND))
    box.commit(RewriteFiles(removed=[data_file(D, 2)], added=[data_file(D + "2", 2)], reads=reads))
    box.apply(*change.updates(box.attempt(2)))
    assert set(box.live()) == {C, D + "2", DEL}
    assert box.live()[DEL].sequence_number == 4


def test_a_sequence_number_of_the_future_is_refused() -> None:
    box = filled(2)
    with pytest.raises(InvalidUpdate, match="sequence number 99"):
        box.commit(compaction(box, data_sequence_number=99))


@pytest.mark.parametrize("version", [2, 3])
def test_a_row_deleted_meanwhile_is_a_conflict(version: int) -> None:
    box = filled(version)
    delete = position_deletes(DEL, 1, target=A) if version == 2 else vector(A, 1)
    change = compaction(box)
    with pytest.raises(ConflictingChange):
        box.commit(change, RowDelta([delete], reads=Reads(box.head().snapshot_id)))


def test_a_file_removed_meanwhile_is_a_conflict() -> None:
    box = filled(2)
    with pytest.raises(ConflictingChange):
        box.commit(compaction(box), DeleteFiles(paths=[B]))


def test_delete_files_are_rewritten_and_keep_their_age() -> None:
    box = filled(2)
    one, two = equality_deletes(DEL + "1", 1), equality_deletes(DEL + "2", 1)
    box.commit(RowDelta([one], reads=BLIND))
    box.commit(RowDelta([two], reads=BLIND))
    box.commit(FastAppend([data_file(C, 1)]))
    merged = equality_deletes(DEL, 1, rows=2)
    change = RewriteFiles(
        removed=[one, two], added=[merged], sequence_numbers={DEL: 4}, reads=Reads(box.head().snapshot_id)
    )
    made = box.commit(change)
    assert box.live()[DEL].sequence_number == 4, "it must not reach the file that came after the deletes"
    assert made.summary["removed-delete-files"] == "2"
    assert made.summary["total-equality-deletes"] == "2"


def test_position_deletes_are_turned_into_vectors() -> None:
    box = filled(2)
    old = position_deletes(DEL, 1, target=A)
    box.commit(RowDelta([old], reads=Reads(box.head().snapshot_id)))
    box.metadata = replace(box.metadata, format_version=3, next_row_id=0)
    box.commit(RewriteFiles(removed=[old], added=[vector(A, 1)], reads=Reads(box.head().snapshot_id)))
    assert {name for name in box.live() if name not in (A, B)} == {"memory:wh/t/data/dv.puffin#4"}


def test_what_a_rewrite_cannot_be() -> None:
    with pytest.raises(InvalidInput, match="must keep their sequence number"):
        RewriteFiles(removed=[equality_deletes(DEL + "1")], added=[equality_deletes(DEL)], reads=BLIND)
    with pytest.raises(InvalidInput, match="must remove files"):
        RewriteFiles(removed=[], added=[data_file(A)], reads=BLIND)
    with pytest.raises(InvalidInput, match="adds data files, and removes none"):
        RewriteFiles(removed=[equality_deletes(DEL)], added=[data_file(A)], reads=BLIND)
    with pytest.raises(InvalidInput, match="adds delete files, and removes none"):
        RewriteFiles(removed=[data_file(A)], added=[equality_deletes(DEL)], reads=BLIND)


def test_a_rewrite_must_not_add_rows() -> None:
    box = filled(2)
    reads = Reads(box.head().snapshot_id, files=frozenset({A}))
    change = RewriteFiles(removed=[data_file(A, 1)], added=[data_file(C, 1, rows=11)], reads=reads)
    with pytest.raises(InvalidUpdate, match="must not add rows"):
        box.commit(change)


# manifests ------------------------------------------------------------------------------------------------------------


def scattered(version: int) -> Box:
    """Twelve files of three days, a manifest each."""
    box = Box(new_table(version))
    for number in range(12):
        box.commit(FastAppend([data_file(f"memory:wh/t/{number:02}", number % 3)]))
    return box


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_put_together(version: int) -> None:
    box = scattered(version)
    before = box.live()
    made = box.commit(RewriteManifests())
    assert made.operation == "replace"
    assert box.live() == {name: replace(e, status=0) for name, e in before.items()}
    assert len(box.manifests()) == 1
    counts = {k: v for k, v in made.summary.items() if "manifests" in k or "entries" in k or "changed" in k}
    assert counts == {
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "12",
        "entries-processed": "12",
        "changed-partition-count": "0",
    }
    assert made.summary["total-data-files"] == "12"
    assert box.commit(RewriteManifests()) is None, "one manifest of a good size stays as it is"


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_a_partition_come_together(version: int) -> None:
    box = scattered(version)
    before = box.live()
    size = sum(manifest.manifest_length for manifest in box.manifests())
    box.metadata = replace(box.metadata, properties={"commit.manifest.target-size-bytes": str(size // 3 + 10)})
    box.commit(RewriteManifests())
    manifests = box.manifests()
    assert [m.existing_files_count for m in manifests] == [4, 4, 4]
    assert all(m.partitions[0].lower_bound == m.partitions[0].upper_bound for m in manifests)
    assert box.live().keys() == before.keys()


def test_a_key_of_ones_own() -> None:
    box = scattered(2)
    box.commit(RewriteManifests(cluster_by=lambda file: int(file.file_path[-2:]) < 5))
    assert sorted(m.existing_files_count for m in box.manifests()) == [5, 7]


def test_only_some_manifests() -> None:
    box = scattered(2)
    some = {m.manifest_path for m in box.manifests()[:4]}
    box.commit(RewriteManifests(where=lambda manifest: manifest.manifest_path in some))
    assert len(box.manifests()) == 9
    assert len(box.live()) == 12


def test_only_one_spec_and_content() -> None:
    box = scattered(2)
    box.metadata = replace(box.metadata, properties={"commit.manifest-merge.enabled": "false"})
    box.apply(AddPartitionSpec(other_spec([])), SetDefaultSpec(-1))
    for number in range(3):
        box.commit(FastAppend([data_file(f"memory:wh/t/u{number}", (), spec_id=1)]))
        box.commit(RowDelta([equality_deletes(f"{DEL}{number}", number)], reads=BLIND))
    box.commit(RewriteManifests(spec_id=1))
    assert sum(m.partition_spec_id == 1 for m in box.manifests()) == 1
    assert sum(m.partition_spec_id == 0 for m in box.manifests()) == 15
    box.commit(RewriteManifests(content=ManifestContent.DELETES))
    assert sum(m.content == ManifestContent.DELETES for m in box.manifests()) == 1
    assert {n: e.sequence_number for n, e in box.live().items() if n.startswith(DEL)} == {
        DEL + "0": 14,
        DEL + "1": 16,
        DEL + "2": 18,
    }


def test_what_others_append_is_kept_beside() -> None:
    box = scattered(3)
    change = RewriteManifests()
    made = box.commit(change, FastAppend([data_file("memory:wh/t/new")]))
    assert len([path for path in change.written() if "/snap-" not in path]) == 1
    assert made.summary["manifests-kept"] == "1"
    assert len(box.live()) == 13


def test_work_is_done_again_if_a_manifest_is_gone() -> None:
    box = scattered(2)
    change = RewriteManifests()
    box.commit(change, DeleteFiles(paths=["memory:wh/t/03"]))
    assert len([path for path in change.written() if "/snap-" not in path]) == 2
    assert len(box.live()) == 11


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"has no field 'month'.*it has day"):
        scattered(2).commit(RewriteManifests(cluster_by=["month"]))
    with pytest.raises(InvalidInput, match="takes a list"):
        RewriteManifests(cluster_by="day")


def test_rows_keep_their_ids() -> None:
    box = scattered(3)
    before = {name: entry.data_file.first_row_id for name, entry in box.live().items()}
    box.commit(RewriteManifests())
    assert {name: entry.data_file.first_row_id for name, entry in box.live().items()} == before
    box.commit(MergeAppend([data_file("memory:wh/t/new")]))
    ids = [entry.data_file.first_row_id for entry in box.live().values()]
    assert len(set(ids)) == 13
    assert box.metadata.next_row_id >= max(ids) + 10
