"""What was appended, and what changed, from one snapshot to another."""

from dataclasses import replace

import pytest

from floe.errors import InvalidInput, NoSuchRef, NoSuchSnapshot
from floe.plan.changelog import AddedRows, DeletedFile, DeletedRows, plan_changelog
from floe.plan.scan import ScanOptions, plan_appends
from floe.plan.snapshot_selection import SnapshotRange
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.snapshots import SnapshotRef
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, STRING, Field
from helpers.corpus_tables import open_table
from helpers.planned_tables import TableMaker, added, data_file, deleted, existing

SCHEMA = Schema((Field(1, "id", INT), Field(2, "p", STRING)))
BY_P = PartitionSpec((PartitionField((2,), 1000, "p", IDENTITY),))
A, B, C, D = (data_file(name, partition=("x" if name in "ab" else "y",)) for name in "abcd")
POSITIONS = DataFile(FileContent.POSITION_DELETES, "pos", "parquet", ("x",), 3, 100)
VECTOR = replace(
    POSITIONS,
    file_path="dv",
    file_format="puffin",
    referenced_data_file="a",
    content_offset=4,
    content_size_in_bytes=44,
)
EQUALITY = DataFile(FileContent.EQUALITY_DELETES, "eq", "parquet", ("x",), 3, 100, equality_ids=(1,))


@pytest.fixture
def history():
    """1: append a; 2: append b, c; 3: a rewrite of a and b; 4: overwrite of c; 5: append d."""
    maker = TableMaker(SCHEMA, (BY_P,))
    one = maker.manifest([added(A)], snapshot=1, number=1)
    maker.snapshot(1, [one])
    two = maker.manifest([added(B), added(C)], snapshot=2, number=2)
    maker.snapshot(2, [two, one])
    joined = data_file("ab", partition=("x",))
    three = maker.manifest([added(joined, number=2)], snapshot=3, number=3)
    gone = maker.manifest([deleted(A, 3, 1), deleted(B, 3, 2), existing(C, 2, 2)], snapshot=3, number=3)
    maker.snapshot(3, [three, gone], "replace")
    other = maker.manifest([deleted(C, 4, 2)], snapshot=4, number=4)
    new = maker.manifest([added(data_file("c2", partition=("y",)))], snapshot=4, number=4)
    maker.snapshot(4, [new, other, three], "overwrite")
    five = maker.manifest([added(D)], snapshot=5, number=5)
    maker.snapshot(5, [five, new, three])
    return maker


def appended(maker, **limits):
    plan = plan_appends(maker.metadata, maker.storage, SnapshotRange(**limits))
    return sorted(task.file.file_path for task in plan.tasks())


def test_all_appends(history):
    assert appended(history) == ["a", "b", "c", "d"]


def test_ranges(history):
    assert appended(history, after=1) == ["b", "c", "d"]
    assert appended(history, first=2) == ["b", "c", "d"]
    assert appended(history, after=1, until=4) == ["b", "c"]
    assert appended(history, first=2, until=2) == ["b", "c"]
    assert appended(history, after=2, until=4) == []
    assert appended(history, after=5) == []


def test_filters_prune_and_leave_residuals(history):
    plan = plan_appends(
        history.metadata, history.storage, options=ScanOptions(where=(col("p") == "y") & (col("id") > 3))
    )
    assert [(task.file.file_path, str(task.residual)) for task in plan.tasks()] == [("c", "id > 3"), ("d", "id > 3")]


def test_the_history_must_be_whole(history):
    metadata = history.metadata
    assert appended_from(metadata, history, (3, 4, 5), after=2) == ["d"]  # 2 has expired, its child has not
    with pytest.raises(NoSuchSnapshot, match=r"snapshot 1 is not in the history of snapshot 5.*expired"):
        appended_from(metadata, history, (3, 4, 5), after=1)
    with pytest.raises(NoSuchSnapshot, match="no snapshot 2"):
        appended_from(metadata, history, (3, 4, 5), first=2)
    with pytest.raises(NoSuchSnapshot, match="no snapshot 9"):
        appended(history, until=9)
    with pytest.raises(NoSuchSnapshot, match="snapshot 5 is not in the history of snapshot 4"):
        appended(history, after=5, until=4)
    with pytest.raises(NoSuchSnapshot, match="snapshot 5 is not in the history of snapshot 4"):
        appended(history, first=5, until=4)
    with pytest.raises(InvalidInput, match="found both"):
        appended(history, first=2, after=1)


def appended_from(metadata, history, kept, **limits):
    snapshots = tuple(s for s in metadata.snapshots if s.snapshot_id in kept)
    plan = plan_appends(replace(metadata, snapshots=snapshots), history.storage, SnapshotRange(**limits))
    return [task.file.file_path for task in plan.tasks()]


def test_branches(history):
    metadata = replace(
        history.metadata,
        refs={
            **history.metadata.refs,
            "audit": SnapshotRef(snapshot_id=2, type="branch"),
            "v1": SnapshotRef(snapshot_id=2, type="tag"),
        },
    )

    def found(**limits):
        plan = plan_appends(metadata, history.storage, SnapshotRange(**limits))
        return sorted(task.file.file_path for task in plan.tasks())

    assert found(branch="audit") == ["a", "b", "c"]
    assert found(branch="audit", until=1) == ["a"]
    with pytest.raises(NoSuchSnapshot, match="branch 'audit'"):
        found(branch="audit", until=5)
    with pytest.raises(InvalidInput, match="is a tag"):
        found(branch="v1")
    with pytest.raises(NoSuchRef):
        found(branch="nobody")


def test_empty_tables():
    maker = TableMaker(SCHEMA, (BY_P,))
    assert appended(maker) == []
    assert list(plan_changelog(maker.metadata, maker.storage).tasks()) == []
    with pytest.raises(NoSuchSnapshot, match="no current snapshot"):
        appended(maker, after=1)


def test_parents_in_a_circle_end(history):
    snapshots = tuple(
        type(s)(**{name: getattr(s, name) for name in s.__struct_fields__} | {"parent_snapshot_id": 5})
        if s.snapshot_id == 1
        else s
        for s in history.metadata.snapshots
    )
    metadata = replace(history.metadata, snapshots=snapshots)
    assert len(plan_appends(metadata, history.storage)) == 4
    with pytest.raises(NoSuchSnapshot):
        plan_appends(metadata, history.storage, SnapshotRange(after=77))


def test_the_corpus(corpus_dir):
    table = open_table(corpus_dir, "incr_append")
    for case in table.facts["cases"]:
        asked = case["query"].get("incremental_append")
        if asked:
            plan = plan_appends(
                table.metadata,
                table.storage,
                SnapshotRange(after=asked["from_snapshot_id_exclusive"], until=asked["to_snapshot_id"]),
            )
            assert plan.record_count == case["count"]


# changes --------------------------------------------------------------------------------------------------------------


def changes(maker, where=None, **limits):
    plan = plan_changelog(maker.metadata, maker.storage, SnapshotRange(**limits), options=ScanOptions(where=where))
    return [
        (type(change).__name__, change.ordinal, change.snapshot_id, change.file.file_path) for change in plan.tasks()
    ]


def test_files_that_came_and_went(history):
    assert changes(history) == [
        ("AddedRows", 0, 1, "a"),
        ("AddedRows", 1, 2, "b"),
        ("AddedRows", 1, 2, "c"),
        ("AddedRows", 2, 4, "c2"),
        ("DeletedFile", 2, 4, "c"),
        ("AddedRows", 3, 5, "d"),
    ]
    assert changes(history, after=3, until=4) == [("AddedRows", 0, 4, "c2"), ("DeletedFile", 0, 4, "c")]
    assert changes(history, where=col("p") == "x") == [("AddedRows", 0, 1, "a"), ("AddedRows", 1, 2, "b")]


@pytest.fixture
def row_deletes():
    """1: append a, b; 2: positions; 3: a vector for a, and c with deletes of its own; 4: equality; 5: a is removed."""
    maker = TableMaker(SCHEMA, (BY_P,), format_version=3)
    one = maker.manifest([added(A), added(B)], snapshot=1, number=1)
    maker.snapshot(1, [one])
    two = maker.manifest([added(POSITIONS)], snapshot=2, number=2)
    maker.snapshot(2, [one, two], "delete")
    own = replace(POSITIONS, file_path="own", partition=("y",))
    three = maker.manifest([added(VECTOR), added(own)], snapshot=3, number=3)
    new = maker.manifest([added(C)], snapshot=3, number=3)
    maker.snapshot(3, [one, new, two, three], "overwrite")
    four = maker.manifest([added(EQUALITY)], snapshot=4, number=4)
    maker.snapshot(4, [one, new, two, three, four], "delete")
    gone = maker.manifest([deleted(A, 5, 1), existing(B, 1, 1)], snapshot=5, number=5)
    maker.snapshot(5, [gone, new, two, three, four], "overwrite")
    return maker


def test_deleted_rows_come_with_the_deletes_of_then_and_before(row_deletes):
    def paths(files):
        return [file.file_path for file in files]

    found = list(plan_changelog(row_deletes.metadata, row_deletes.storage).tasks())
    told = [
        (
            type(change),
            change.snapshot_id,
            change.file.file_path,
            paths(change.task.deletes),
            paths(change.added_deletes) if isinstance(change, DeletedRows) else [],
        )
        for change in found
    ]
    assert told == [
        (AddedRows, 1, "a", [], []),
        (AddedRows, 1, "b", [], []),
        (DeletedRows, 2, "a", [], ["pos"]),
        (DeletedRows, 2, "b", [], ["pos"]),
        (AddedRows, 3, "c", ["own"], []),
        (DeletedRows, 3, "a", ["pos"], ["dv"]),
        (DeletedRows, 4, "a", ["dv"], ["eq"]),
        (DeletedRows, 4, "b", ["pos"], ["eq"]),
        (DeletedFile, 5, "a", ["dv", "eq"], []),
    ]
    assert found[5].existing_deletes == found[5].task.deletes


def test_what_was_deleted_before_must_be_known(row_deletes):
    metadata = row_deletes.metadata
    late = replace(metadata, snapshots=metadata.snapshots[4:])
    with pytest.raises(NoSuchSnapshot, match="its parent 4 has expired"):
        list(plan_changelog(late, row_deletes.storage).tasks())


def test_a_lost_parent_does_not_matter_without_deletes(history):
    summary = {"operation": "overwrite", "total-delete-files": "0"}
    snapshots = tuple(
        type(s)(**{name: getattr(s, name) for name in s.__struct_fields__} | {"summary": summary})
        for s in history.metadata.snapshots[3:4]
    )
    metadata = replace(history.metadata, snapshots=snapshots, current_snapshot_id=4, refs={})
    found = plan_changelog(metadata, history.storage).tasks()
    assert [change.file.file_path for change in found] == ["c2", "c"]
