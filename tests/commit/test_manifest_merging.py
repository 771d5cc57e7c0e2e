"""Merging of manifests: which, when, in which order, and what becomes of their entries."""

from dataclasses import replace

import pytest

from floe.commit.change import BLIND
from floe.commit.manifests.manifest_merge import pack_from_end
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, MergeAppend, RowDelta
from floe.spec.manifests.entries import ManifestContent
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec
from floe.sql.filters import parse_filter
from helpers.tables import Box, data_file, equality_deletes, new_table, other_spec

VERSIONS = [1, 2, 3]


def merging(version: int = 2, count: int = 3, target: int | None = None) -> Box:
    properties = {"commit.manifest.min-count-to-merge": str(count)}
    if target is not None:
        properties["commit.manifest.target-size-bytes"] = str(target)
    return Box(new_table(version, properties=properties))


def name(number: int) -> str:
    return f"memory:wh/t/{number:03}"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_newest_are_merged_when_there_are_enough(version: int) -> None:
    box = merging(version)
    counts = []
    for number in range(7):
        box.commit(MergeAppend([data_file(name(number), number)]))
        counts.append(len(box.manifests()))
    assert counts == [1, 2, 1, 2, 1, 2, 1]
    live = box.live()
    assert [live[name(n)].sequence_number for n in range(7)] == ([0] * 7 if version == 1 else [1, 2, 3, 4, 5, 6, 7])
    ids = [snapshot.snapshot_id for snapshot in box.metadata.snapshots]
    assert [live[name(n)].snapshot_id for n in range(7)] == ids
    if version == 3:
        assert [live[name(n)].data_file.first_row_id for n in range(7)] == [
            box.live(s)[name(n)].data_file.first_row_id for n, s in enumerate(box.metadata.snapshots)
        ]
    (manifest,) = box.manifests()
    assert (manifest.added_files_count, manifest.existing_files_count) == (1, 6)
    assert manifest.min_sequence_number == (0 if version == 1 else 1)
    low, high = manifest.partitions[0].lower_bound, manifest.partitions[0].upper_bound
    assert (int.from_bytes(low, "little"), int.from_bytes(high, "little")) == (0, 6)


def test_the_order_of_files_is_kept() -> None:
    box = merging()
    for number in range(3):
        box.commit(MergeAppend([data_file(name(number), number)]))
    assert [entry.data_file.file_path for entry in box.entries()] == [name(2), name(1), name(0)]


def test_full_manifests_are_left_alone() -> None:
    box = merging(count=2)
    box.commit(MergeAppend([data_file(name(n), n) for n in range(3000)]))
    full = box.manifests()[0]
    box.metadata = replace(
        box.metadata,
        properties={
            "commit.manifest.min-count-to-merge": "2",
            "commit.manifest.target-size-bytes": str(full.manifest_length + 10),
        },
    )
    for number in range(5000, 5003):
        box.commit(MergeAppend([data_file(name(number), number)]))
    assert box.manifests()[-1] == full
    assert [m.added_files_count + m.existing_files_count for m in box.manifests()] == [3, 3000]


def test_older_bins_are_merged_at_once() -> None:
    """Only the bin with the newest manifest waits for more."""
    box = Box(new_table(2))
    for number in range(6):
        box.commit(FastAppend([data_file(name(number), number)]))
    length = box.manifests()[0].manifest_length
    box.metadata = replace(box.metadata, properties={"commit.manifest.target-size-bytes": str(length * 3 + 50)})
    box.commit(MergeAppend([data_file(name(6), 6)]))
    assert [m.added_files_count + m.existing_files_count for m in box.manifests()] == [1, 3, 3]


def test_merging_can_be_switched_off() -> None:
    box = merging(count=2)
    box.metadata = replace(
        box.metadata, properties={**box.metadata.properties, "commit.manifest-merge.enabled": "false"}
    )
    for number in range(4):
        box.commit(MergeAppend([data_file(name(number))]))
    assert len(box.manifests()) == 4


def test_specs_and_contents_are_merged_apart() -> None:
    box = merging(count=2)
    box.commit(MergeAppend([data_file(name(0))]))
    box.commit(MergeAppend([data_file(name(1))]))
    box.commit(RowDelta([equality_deletes(name(50))], reads=BLIND))
    box.commit(RowDelta([equality_deletes(name(51))], reads=BLIND))
    box.apply(AddPartitionSpec(other_spec([])), SetDefaultSpec(-1))
    for number in (2, 3):
        box.commit(MergeAppend([data_file(name(number), (), spec_id=1)]))
    kinds = [(m.content, m.partition_spec_id) for m in box.manifests()]
    assert kinds == [(ManifestContent.DATA, 1), (ManifestContent.DATA, 0), (ManifestContent.DELETES, 0)]
    assert len(box.live()) == 6


@pytest.mark.parametrize("version", VERSIONS)
def test_what_this_commit_deleted_is_told_in_the_merged_manifest(version: int) -> None:
    box = merging(version, count=2)
    box.commit(MergeAppend([data_file(name(0), 0), data_file(name(1), 1)]))
    box.metadata = replace(box.metadata, properties={"commit.manifest-merge.enabled": "false"})
    box.commit(MergeAppend([data_file(name(2), 2)]))
    box.metadata = replace(box.metadata, properties={"commit.manifest.min-count-to-merge": "2"})
    made = box.commit(DeleteFiles(where=parse_filter("day = 1")))
    assert len(box.manifests()) == 1
    found = {e.data_file.file_path: (e.status.name, e.snapshot_id == made.snapshot_id) for e in box.entries()}
    assert found == {name(0): ("EXISTING", False), name(1): ("DELETED", True), name(2): ("EXISTING", False)}
    box.commit(MergeAppend([data_file(name(3), 3)]))
    assert {e.data_file.file_path for e in box.entries()} == {name(0), name(2), name(3)}


def test_a_merge_is_done_again_with_what_came_meanwhile() -> None:
    box = merging(3, count=2)
    box.commit(MergeAppend([data_file(name(0))]))
    change = MergeAppend([data_file(name(1))])
    box.commit(change, MergeAppend([data_file(name(2), rows=5)]))
    assert len(box.manifests()) == 1
    ids = {n: e.data_file.first_row_id for n, e in box.live().items()}
    assert ids[name(0)] == 0
    assert len(set(ids.values())) == 3
    merged = [path for path in change.written() if "/snap-" not in path]
    assert len(merged) == 3, "its own, and one merged manifest for each attempt"


def test_packing() -> None:
    assert pack_from_end([], [], 10) == []
    assert pack_from_end(["a"], [99], 10) == [["a"]]
    assert pack_from_end(["a", "b", "c"], [5, 5, 5], 10) == [["a"], ["b", "c"]]
    assert pack_from_end(["a", "b", "c", "d"], [3, 9, 3, 3], 10) == [["a"], ["b"], ["c", "d"]]
    assert pack_from_end(["a", "b", "c", "d"], [1, 9, 6, 3], 10) == [["a", "b"], ["c", "d"]]
