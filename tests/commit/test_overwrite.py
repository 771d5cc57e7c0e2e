"""Overwrites: by filter, by files, and what the snapshot is called."""

import pytest

from floe.commit.change import BLIND, Reads
from floe.commit.operations.data_changes import FastAppend, Overwrite, ReplacePartitions
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.expressions.nodes import TRUE
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec
from floe.sql.filters import parse_filter
from helpers.tables import Box, data_file, equality_deletes, new_table, other_spec

VERSIONS = [1, 2, 3]
A, B, C, D, E = (f"memory:wh/t/{name}" for name in "abcde")


def filled(version: int = 2) -> Box:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1), data_file(B, 2)]))
    box.commit(FastAppend([data_file(C, 3)]))
    return box


@pytest.mark.parametrize("version", VERSIONS)
def test_files_are_exchanged(version: int) -> None:
    box = filled(version)
    reads = Reads(box.head().snapshot_id, files=frozenset({A}))
    made = box.commit(Overwrite(added=[data_file(D, 1, rows=9)], removed=[data_file(A, 1)], reads=reads))
    assert made.operation == "overwrite"
    assert set(box.live()) == {B, C, D}
    assert made.summary["added-records"] == "9"
    assert made.summary["deleted-records"] == "10"
    assert made.summary["total-records"] == "29"
    assert made.summary["changed-partition-count"] == "1"
    if version == 3:  # files that stay keep their row ids though their manifest is another
        assert {n: e.data_file.first_row_id for n, e in box.live().items()} == {B: 10, C: 20, D: 30}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_label_says_what_was_done(version: int) -> None:
    box = filled(version)
    assert box.commit(Overwrite(where=parse_filter("day = 2"), reads=BLIND)).operation == "delete"
    assert (
        box.commit(Overwrite(where=parse_filter("day = 2"), added=[data_file(D, 2)], reads=BLIND)).operation == "append"
    )
    assert (
        box.commit(Overwrite(where=parse_filter("day = 2"), added=[data_file(E, 2)], reads=BLIND)).operation
        == "overwrite"
    )
    assert box.commit(Overwrite(where=parse_filter("day = 9"), reads=BLIND)) is None
    assert set(box.live()) == {A, C, E}


def test_everything_can_be_overwritten() -> None:
    box = filled()
    made = box.commit(Overwrite(where=TRUE, added=[data_file(D, 7)], reads=BLIND))
    assert set(box.live()) == {D}
    assert made.summary["total-records"] == "10"


def test_files_that_are_gone_are_a_conflict() -> None:
    box = filled()
    reads = Reads(box.head().snapshot_id, files=frozenset({A}))
    change = Overwrite(added=[data_file(D, 1)], removed=[data_file(A, 1)], reads=reads)
    with pytest.raises(ConflictingChange):
        box.commit(change, Overwrite(where=parse_filter("day = 1"), reads=BLIND))


def test_a_file_of_another_partition_commits_beside_it() -> None:
    box = filled()
    reads = Reads(box.head().snapshot_id, files=frozenset({A}))
    change = Overwrite(added=[data_file(D, 1)], removed=[data_file(A, 1)], reads=reads)
    box.commit(change, FastAppend([data_file(E, 2)]))
    assert set(box.live()) == {B, C, D, E}


def test_what_cannot_be() -> None:
    with pytest.raises(InvalidInput, match="removed and added in one commit"):
        Overwrite(added=[data_file(A)], removed=[data_file(A)], reads=BLIND)
    with pytest.raises(InvalidInput, match="RowDelta"):
        Overwrite(added=[equality_deletes(A)], reads=BLIND)
    box = filled()
    with pytest.raises(InvalidUpdate, match="in the table already"):
        box.commit(Overwrite(added=[data_file(B, 1)], removed=[data_file(A, 1)], reads=BLIND))


# replace partitions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_replaced(version: int) -> None:
    box = filled(version)
    made = box.commit(ReplacePartitions([data_file(D, 1), data_file(E, 9)]))
    assert made.operation == "overwrite"
    assert made.summary["replace-partitions"] == "true"
    assert set(box.live()) == {B, C, D, E}
    assert made.summary["changed-partition-count"] == "2"


@pytest.mark.parametrize("version", VERSIONS)
def test_without_partitioning_all_is_replaced(version: int) -> None:
    box = Box(new_table(version, []))
    box.commit(FastAppend([data_file(A, ()), data_file(B, ())]))
    box.commit(ReplacePartitions([data_file(C, ())]))
    assert set(box.live()) == {C}


def test_partitions_of_another_spec_stay() -> None:
    box = filled()
    box.apply(AddPartitionSpec(other_spec(["day", "truncate(10, id)"])), SetDefaultSpec(-1))
    box.commit(ReplacePartitions([data_file(D, (1, 0), spec_id=1)]))
    assert set(box.live()) == {A, B, C, D}
    box.commit(ReplacePartitions([data_file(E, (1, 0), spec_id=1)]))
    assert set(box.live()) == {A, B, C, E}


def test_several_fields_are_compared_together() -> None:
    box = Box(new_table(2, ["day", "name"]))
    box.commit(FastAppend([data_file(A, (1, "x")), data_file(B, (1, "y")), data_file(C, (2, "x"))]))
    box.commit(ReplacePartitions([data_file(D, (1, "x")), data_file(E, (2, "y"))]))
    assert set(box.live()) == {B, C, D, E}


def test_partitions_that_must_be_new() -> None:
    box = filled()
    with pytest.raises(InvalidUpdate, match="has files already"):
        box.commit(ReplacePartitions([data_file(D, 1)], only_new=True))
    box.commit(ReplacePartitions([data_file(D, 5)], only_new=True))
    assert set(box.live()) == {A, B, C, D}


def test_deletes_cannot_replace_partitions() -> None:
    with pytest.raises(InvalidInput, match="this is a delete file"):
        ReplacePartitions([equality_deletes(A)])
