"""Removing whole files: by filter, by description, by location; and how manifests are filtered."""

from dataclasses import replace

import pytest

from floe.commit.operations.data_changes import DeleteFiles, FastAppend
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import EntryStatus
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec
from floe.sql.filters import parse_filter
from helpers.tables import SCHEMA, Box, data_file, equality_deletes, new_table, other_spec

VERSIONS = [1, 2, 3]
A, B, C, D = (f"memory:wh/t/{name}" for name in "abcd")


def filled(version: int = 2, **options) -> Box:
    """A table of three days, each file appended alone."""
    box = Box(new_table(version, **options))
    for name, day, ids in ((A, 1, (1, 10)), (B, 2, (11, 20)), (C, 3, (21, 30))):
        box.commit(FastAppend([data_file(name, day, ids=ids)]))
    return box


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "how",
    [{"where": parse_filter("day = 2")}, {"where": col("day") == 2}, {"files": [data_file(B, 2)]}, {"paths": [B]}],
)
def test_a_file_is_removed(how, version: int) -> None:
    box = filled(version)
    before = {name: entry for name, entry in box.live().items() if name != B}
    made = box.commit(DeleteFiles(**how))
    assert made.operation == "delete"
    assert box.live() == before, "files that stay keep snapshot, numbers, row ids and metrics"
    (gone,) = [entry for entry in box.entries() if not entry.is_live]
    assert (gone.data_file.file_path, gone.status, gone.snapshot_id) == (B, EntryStatus.DELETED, made.snapshot_id)
    assert gone.sequence_number == (0 if version == 1 else 2)
    assert made.summary["deleted-data-files"] == "1"
    assert made.summary["deleted-records"] == "10"
    assert made.summary["total-data-files"] == "2"
    assert made.summary["manifests-replaced"] == "1"


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_deleted_before_are_not_carried_along(version: int) -> None:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file(A, 1), data_file(B, 2), data_file(C, 3)]))
    box.commit(DeleteFiles(paths=[A]))
    assert len(box.entries()) == 3
    box.commit(DeleteFiles(paths=[B]))
    assert {e.data_file.file_path: e.status.name for e in box.entries()} == {B: "DELETED", C: "EXISTING"}
    box.commit(DeleteFiles(paths=[C]))
    assert [e.status.name for e in box.entries()] == ["DELETED"]
    box.commit(DeleteFiles(where=parse_filter("true")))  # nothing is left: no snapshot
    assert [e.status.name for e in box.entries()] == ["DELETED"]
    box.commit(FastAppend([data_file(D)]))
    assert set(box.live()) == {D}


def test_manifests_of_deleted_entries_alone_drop_out() -> None:
    box = filled()
    box.commit(DeleteFiles(paths=[A]))
    assert len(box.manifests()) == 3
    box.commit(DeleteFiles(paths=[B]))
    assert len(box.manifests()) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_only_manifests_that_may_have_the_file_are_read(version: int) -> None:
    box = filled(version)
    reads = []
    storage = box.storage

    class Watched:
        write = storage.write

        def read(self, location, **options):
            reads.append(location)
            return storage.read(location, **options)

    by_day = {m.partitions[0].lower_bound: m.manifest_path for m in box.manifests()}
    for how in ({"where": parse_filter("day = 2")}, {"files": [data_file(B, 2)]}):
        reads.clear()
        DeleteFiles(**how).updates(replace(box.attempt(), storage=Watched()))
        assert reads == [box.head().manifest_list, by_day[(2).to_bytes(4, "little")]]
    reads.clear()
    DeleteFiles(paths=[B]).updates(replace(box.attempt(), storage=Watched()))
    assert set(reads) == {box.head().manifest_list, *by_day.values()}


def test_metrics_prove_that_all_rows_pass() -> None:
    box = filled()
    box.commit(DeleteFiles(where=parse_filter("id <= 20")))
    assert set(box.live()) == {C}


def test_partition_and_metrics_prove_it_together() -> None:
    box = filled()
    box.commit(DeleteFiles(where=parse_filter("(day = 1 and id < 100) or (day = 3 and id > 20)")))
    assert set(box.live()) == {B}


@pytest.mark.parametrize("where", ["id < 15", "name = 'x'", "day = 2 and id > 12"])
def test_a_file_of_which_some_rows_pass_is_an_error(where: str) -> None:
    box = filled()
    with pytest.raises(InvalidUpdate, match=r"only some rows of a file.*rewrite the file"):
        box.commit(DeleteFiles(where=parse_filter(where)))


def test_if_the_file_came_meanwhile_it_is_a_conflict() -> None:
    box = filled()
    change = DeleteFiles(where=parse_filter("id <= 20"))
    with pytest.raises(ConflictingChange, match="only some rows"):
        box.commit(change, FastAppend([data_file(D, 1, ids=(15, 25))]))


def test_rows_that_came_meanwhile_go_too() -> None:
    box = filled()
    made = box.commit(DeleteFiles(where=parse_filter("day = 2")), FastAppend([data_file(D, 2)]))
    assert set(box.live()) == {A, C}
    assert made.summary["deleted-data-files"] == "2"


@pytest.mark.parametrize("how", [{"files": [data_file(D, 1)]}, {"paths": [D]}, {"files": [data_file(B, 1)]}])
def test_missing_files_are_named(how) -> None:
    box = filled()
    with pytest.raises(ConflictingChange, match=r"1 files to be removed are not in the table: .*memory:.*wh/t/[bd]"):
        box.commit(DeleteFiles(**how))


def test_a_file_that_was_removed_is_missing() -> None:
    box = filled()
    change = DeleteFiles(files=[data_file(B, 2)])
    with pytest.raises(ConflictingChange, match="not in the table"):
        box.commit(change, DeleteFiles(paths=[B]))


def test_filtered_manifests_are_used_again_while_their_inputs_are_equal() -> None:
    box = filled()
    change = DeleteFiles(files=[data_file(B, 2)])
    box.commit(change, FastAppend([data_file(D, 2)]), FastAppend([data_file("memory:wh/t/e", 3)]))
    manifests = [path for path in change.written() if "/snap-" not in path]
    assert len(manifests) == 1
    assert set(box.live()) == {A, C, D, "memory:wh/t/e"}


def test_another_spelling_of_a_location_is_the_same_file() -> None:
    box = Box(new_table(2))
    box.commit(FastAppend([data_file("s3a://b/t/a"), data_file("s3://b/t/b")]))
    box.commit(DeleteFiles(paths=["s3://b/t/a", "s3n://b/t/b"]))
    assert not box.live()


def test_files_of_older_specs_are_removed_too() -> None:
    box = filled()
    box.apply(AddPartitionSpec(other_spec(["truncate(10, id)"])), SetDefaultSpec(-1))
    box.commit(FastAppend([data_file(D, (0,), spec_id=1, ids=(1, 5))]))
    box.commit(DeleteFiles(where=parse_filter("id <= 10")))
    assert set(box.live()) == {B, C}


def test_a_spec_whose_column_was_dropped_is_still_filtered() -> None:
    box = filled()
    from floe.spec.metadata.updates import AddSchema, SetCurrentSchema
    from floe.spec.schemas.schema import Schema

    box.apply(AddPartitionSpec(other_spec([])), SetDefaultSpec(-1))
    box.apply(AddSchema(Schema(tuple(f for f in SCHEMA.fields if f.name != "day"))), SetCurrentSchema(-1))
    box.commit(DeleteFiles(files=[data_file(B, 2)]))
    assert {name: e.data_file.partition for name, e in box.live().items()} == {A: (1,), C: (3,)}


def test_nulls_and_nan_in_partitions_are_found() -> None:
    from floe.spec.schemas.schema import Schema
    from floe.spec.types import DOUBLE, Field

    schema = Schema((Field(1, "x", DOUBLE),))
    box = Box(new_table(2, ["x"], schema=schema))
    values = {A: None, B: float("nan"), C: -0.0, D: 0.0}
    for name, value in values.items():
        box.commit(FastAppend([data_file(name, (value,))]))
    for name, value in values.items():
        box.commit(DeleteFiles(files=[data_file(name, (value,))]))
        assert name not in box.live()


def test_delete_files_cannot_be_removed_alone() -> None:
    with pytest.raises(InvalidInput, match="bring rows back"):
        DeleteFiles(files=[equality_deletes("memory:wh/t/d")])


def test_nothing_removed_makes_no_snapshot() -> None:
    box = filled()
    head = box.head()
    assert box.commit(DeleteFiles(where=parse_filter("day = 9"))) is None
    assert box.head() == head


def test_duplicates_of_a_broken_table_all_go() -> None:
    box = Box(new_table(2))
    box.commit(FastAppend([data_file(A)]))
    box.commit(FastAppend([data_file(A)], fresh=True))  # as other writers may have done
    made = box.commit(DeleteFiles(paths=[A]))
    assert not box.live()
    assert made.summary["deleted-data-files"] == "2"
