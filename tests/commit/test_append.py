"""Appends: what they write, what they leave alone, and what they refuse."""

from dataclasses import replace

import pytest

from floe.commit.operations.data_changes import FastAppend, MergeAppend
from floe.commit.operations.metadata_changes import UpdateProperties
from floe.errors import ConflictingChange, InvalidInput, InvalidUpdate, NoSuchRef, UnsupportedFeature
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import EntryStatus, ManifestContent
from floe.spec.metadata.snapshots import SnapshotRef
from floe.spec.metadata.table_metadata import EncryptionKey
from floe.spec.metadata.updates import (
    AddEncryptionKey,
    AddSchema,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetProperties,
    SetSnapshotRef,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, Field
from helpers.tables import SCHEMA, Box, data_file, new_table, position_deletes

OPERATIONS = [FastAppend, MergeAppend]
VERSIONS = [1, 2, 3]


class CountingReads:
    """A storage that notes what is read."""

    def __init__(self, storage) -> None:
        self.storage, self.read_paths, self.written_paths = storage, [], []

    def read(self, location, **options):
        self.read_paths.append(location)
        return self.storage.read(location, **options)

    def write(self, location, data, **options):
        self.written_paths.append(location)
        self.storage.write(location, data, **options)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_files_are_added(operation, version: int) -> None:
    box = Box(new_table(version))
    first = box.commit(operation([data_file("memory:wh/t/a", 1), data_file("memory:wh/t/b", 2)]))
    second = box.commit(operation([data_file("memory:wh/t/c", 2, rows=5)]))

    live = box.live()
    assert set(live) == {"memory:wh/t/a", "memory:wh/t/b", "memory:wh/t/c"}
    assert {name: entry.snapshot_id for name, entry in live.items()} == {
        "memory:wh/t/a": first.snapshot_id,
        "memory:wh/t/b": first.snapshot_id,
        "memory:wh/t/c": second.snapshot_id,
    }
    numbers = [0, 0, 0] if version == 1 else [1, 1, 2]
    assert [live[f"memory:wh/t/{n}"].sequence_number for n in "abc"] == numbers
    assert [live[f"memory:wh/t/{n}"].file_sequence_number for n in "abc"] == numbers
    row_ids = [0, 10, 20] if version == 3 else [None] * 3
    assert [live[f"memory:wh/t/{n}"].data_file.first_row_id for n in "abc"] == row_ids
    assert box.metadata.next_row_id == (25 if version == 3 else None)
    assert second.added_rows == (5 if version == 3 else None)
    assert second.parent_snapshot_id == first.snapshot_id
    assert box.metadata.current_snapshot_id == second.snapshot_id


@pytest.mark.parametrize("version", VERSIONS)
def test_file_names_are_those_of_java(version: int) -> None:
    box = Box(new_table(version))
    change = FastAppend([data_file("memory:wh/t/a")])
    snapshot = box.commit(change)
    folder = "memory:wh/t/metadata"
    assert snapshot.manifest_list == f"{folder}/snap-{change.snapshot_id}-1-{change.commit_id}.avro"
    assert [m.manifest_path for m in box.manifests()] == [f"{folder}/{change.commit_id}-m0.avro"]
    assert set(change.written()) == {snapshot.manifest_list, box.manifests()[0].manifest_path}
    assert set(change.used()) == set(change.written())
    assert snapshot.summary["commit-id"] == change.commit_id


def test_metadata_files_go_where_the_table_says() -> None:
    box = Box(new_table(properties={"write.metadata.path": "memory:elsewhere/meta/"}))
    change = FastAppend([data_file("memory:wh/t/a")])
    box.commit(change)
    assert all(path.startswith("memory:elsewhere/meta/") and "//" not in path for path in change.written())


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "uncompressed"])
def test_manifests_have_the_codec_of_the_table(codec: str) -> None:
    box = Box(
        new_table(properties={"write.manifest.compression-codec": codec, "write.manifest.compression-level": "1"})
    )
    box.commit(FastAppend([data_file("memory:wh/t/a")]))
    header = box.storage.read(box.manifests()[0].manifest_path)[:4000]
    names = {"gzip": b"deflate", "zstd": b"zstandard", "snappy": b"snappy", "uncompressed": b"null"}
    assert names[codec] in header
    assert set(box.live()) == {"memory:wh/t/a"}


def test_an_unknown_codec_is_refused() -> None:
    box = Box(new_table(properties={"write.manifest.compression-codec": "lzma"}))
    with pytest.raises(InvalidUpdate, match="must be one of gzip"):
        box.commit(FastAppend([data_file("memory:wh/t/a")]))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_there_is_neither_read_nor_written(operation) -> None:
    box = Box(new_table(2))
    for number in range(5):
        box.commit(operation([data_file(f"memory:wh/t/{number}")]))
    before = [manifest.manifest_path for manifest in box.manifests()]
    watched = CountingReads(box.storage)
    attempt = replace(box.attempt(), storage=watched)
    operation([data_file("memory:wh/t/new")], fresh=True).updates(attempt)
    assert watched.read_paths == [box.head().manifest_list]
    assert not set(watched.written_paths) & set(before)
    assert len(watched.written_paths) == 2


def test_specs_do_not_share_a_manifest() -> None:
    box = Box(new_table(2))
    unpartitioned = replace(box.metadata.spec, fields=(), spec_id=1)
    box.metadata = replace(box.metadata, partition_specs=(*box.metadata.partition_specs, unpartitioned))
    box.commit(FastAppend([data_file("memory:wh/t/a"), data_file("memory:wh/t/b", (), spec_id=1)]))
    assert [(m.partition_spec_id, m.added_files_count) for m in box.manifests()] == [(0, 1), (1, 1)]
    assert {name: e.data_file.spec_id for name, e in box.live().items()} == {"memory:wh/t/a": 0, "memory:wh/t/b": 1}


def test_many_files_are_cut_into_manifests_of_the_wanted_size() -> None:
    box = Box(new_table(2, properties={"commit.manifest.target-size-bytes": "20000"}))
    files = [data_file(f"memory:wh/t/{n:06}", n % 7, ids=(n, n)) for n in range(3000)]
    box.commit(FastAppend(files))
    manifests = box.manifests()
    assert len(manifests) > 1
    assert all(manifest.manifest_length < 40_000 for manifest in manifests)
    assert [e.data_file.file_path for e in box.entries()] == [file.file_path for file in files]


# retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_retry_uses_its_manifests_again(operation, version: int) -> None:
    box = Box(new_table(version))
    change = operation([data_file("memory:wh/t/a")])
    box.commit(change, FastAppend([data_file("memory:wh/t/r1")]), FastAppend([data_file("memory:wh/t/r2", rows=7)]))
    manifests = [path for path in change.written() if "/snap-" not in path]
    lists = [path for path in change.written() if "/snap-" in path]
    assert len(manifests) == 1
    assert [path.split("/")[-1].split("-")[2] for path in lists] == ["1", "2", "3"]
    assert set(change.used()) == {manifests[0], lists[-1]}
    live = box.live()
    assert set(live) == {"memory:wh/t/a", "memory:wh/t/r1", "memory:wh/t/r2"}
    if version > 1:
        assert live["memory:wh/t/a"].sequence_number == 3
    if version == 3:  # row ids go on behind those that the rivals took
        assert live["memory:wh/t/a"].data_file.first_row_id == 17
        assert box.head().first_row_id == 17
        assert box.metadata.next_row_id == 27


def test_manifests_are_made_anew_when_the_table_is_upgraded_meanwhile() -> None:
    box = Box(new_table(2))
    change = FastAppend([data_file("memory:wh/t/a")])
    change.updates(box.attempt())
    box.metadata = replace(box.metadata, format_version=3, next_row_id=0)
    box.apply(*change.updates(box.attempt(2)))
    manifests = [path for path in change.written() if "/snap-" not in path]
    assert len(manifests) == 2
    assert box.live()["memory:wh/t/a"].data_file.first_row_id == 0


def test_forgotten_files_are_written_again() -> None:
    box = Box(new_table(2))
    change = FastAppend([data_file("memory:wh/t/a")])
    change.updates(box.attempt())
    gone = list(change.written())
    change.forget(gone)
    box.storage.delete_many(gone)
    assert not change.written()
    box.apply(*change.updates(box.attempt(2)))
    assert set(box.live()) == {"memory:wh/t/a"}


def test_the_key_stays_and_is_drawn_from_the_environment() -> None:
    box = Box(new_table(2))
    change = FastAppend([data_file("memory:wh/t/a")])
    assert (change.snapshot_id, change.commit_id) == (0, "")
    change.updates(box.attempt())
    key = change.snapshot_id, change.commit_id
    change.updates(box.attempt(2))
    assert (change.snapshot_id, change.commit_id) == key
    same = FastAppend([data_file("memory:wh/t/a")])
    same.updates(Box(new_table(2)).attempt())
    assert (same.snapshot_id, same.commit_id) == key


# branches -----------------------------------------------------------------------------------------------------------


def test_a_branch_goes_on_alone_and_keeps_its_retention() -> None:
    box = Box(new_table(3))
    base = box.commit(FastAppend([data_file("memory:wh/t/a")]))
    box.apply(SetSnapshotRef("dev", SnapshotRef(snapshot_id=base.snapshot_id, type="branch", min_snapshots_to_keep=3)))
    box.commit(FastAppend([data_file("memory:wh/t/m")]))
    made = box.commit(FastAppend([data_file("memory:wh/t/d", rows=3)], branch="dev"))
    assert set(box.live(box.head("dev"))) == {"memory:wh/t/a", "memory:wh/t/d"}
    assert set(box.live()) == {"memory:wh/t/a", "memory:wh/t/m"}
    assert box.metadata.refs["dev"].min_snapshots_to_keep == 3
    # totals are chained on the branch, sequence numbers and row ids on the table
    assert made.summary["total-records"] == "13"
    assert (made.sequence_number, made.first_row_id) == (3, 20)


def test_an_unknown_branch_is_refused_unless_it_is_to_be_made() -> None:
    box = Box(new_table(2))
    box.commit(FastAppend([data_file("memory:wh/t/a")]))
    with pytest.raises(NoSuchRef, match="dev"):
        box.commit(FastAppend([data_file("memory:wh/t/b")], branch="dev"))
    made = box.commit(FastAppend([data_file("memory:wh/t/b")], branch="dev", create_branch=True))
    assert set(box.live(made)) == {"memory:wh/t/a", "memory:wh/t/b"}
    assert made.summary["total-data-files"] == "2"
    assert set(box.live()) == {"memory:wh/t/a"}


def test_a_tag_stays_where_it_is() -> None:
    box = Box(new_table(2))
    base = box.commit(FastAppend([data_file("memory:wh/t/a")]))
    box.apply(SetSnapshotRef("v1", SnapshotRef(snapshot_id=base.snapshot_id, type="tag")))
    with pytest.raises(InvalidUpdate, match="is a tag"):
        box.commit(FastAppend([data_file("memory:wh/t/b")], branch="v1"))


def test_a_staged_snapshot_is_on_no_branch() -> None:
    box = Box(new_table(2))
    change = FastAppend([data_file("memory:wh/t/a")], staged=True, summary={"wap.id": "w1"})
    made = box.commit(change)
    assert change.branch is None
    assert box.metadata.current_snapshot_id is None
    assert made.summary["wap.id"] == "w1"
    assert set(box.live(made)) == {"memory:wh/t/a"}


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_file_twice_and_no_deletes(operation) -> None:
    with pytest.raises(InvalidInput, match="added twice"):
        operation([data_file("memory:wh/t/a"), data_file("memory:wh/t/a", 2)])
    with pytest.raises(InvalidInput, match="RowDelta"):
        operation([position_deletes("memory:wh/t/d")])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_spec_of_a_file_must_exist(operation) -> None:
    box = Box(new_table(2))
    with pytest.raises(InvalidUpdate, match="partition spec 7"):
        box.commit(operation([data_file("memory:wh/t/a", spec_id=7)]))
    with pytest.raises(InvalidUpdate, match="1 partition values, found 2"):
        box.commit(operation([data_file("memory:wh/t/a", (1, 2))]))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_required_columns_must_have_values(operation) -> None:
    box = Box(new_table(2))
    with pytest.raises(InvalidUpdate, match=r"3 nulls in a required column.*column: id"):
        box.commit(operation([data_file("memory:wh/t/a", null_value_counts={1: 3})]))
    box.commit(operation([data_file("memory:wh/t/a", null_value_counts={2: 3})]))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_column_that_became_required_meanwhile_is_a_conflict(operation) -> None:
    box = Box(new_table(2))
    change = operation([data_file("memory:wh/t/a")], written_with=0)
    change.updates(box.attempt())
    box.apply(AddSchema(Schema((*SCHEMA.fields, Field(4, "new", INT, required=True)))), SetCurrentSchema(-1))
    with pytest.raises(ConflictingChange, match=r"before the column was required.*column: new"):
        change.updates(box.attempt(2))


def test_a_required_column_with_a_default_may_be_missing() -> None:
    box = Box(new_table(3))
    change = FastAppend([data_file("memory:wh/t/a")], written_with=0)
    field = Field(4, "new", INT, required=True, initial_default=7, write_default=7)
    box.apply(AddSchema(Schema((*SCHEMA.fields, field))), SetCurrentSchema(-1))
    assert box.commit(change) is not None


def test_encrypted_tables_are_not_written() -> None:
    box = Box(new_table(3, properties={"encryption.key-id": "k"}))
    with pytest.raises(UnsupportedFeature, match="encryption"):
        box.commit(FastAppend([data_file("memory:wh/t/a")]))
    box = Box(new_table(3))
    box.apply(AddEncryptionKey(EncryptionKey(key_id="k1", encrypted_key_metadata="aWNlYmVyZwo=")))
    with pytest.raises(UnsupportedFeature, match="keys in its metadata"):
        box.commit(FastAppend([data_file("memory:wh/t/a")]))
    box.apply(SetProperties({"encryption.key-id": "k"}))
    with pytest.raises(UnsupportedFeature, match="cannot be removed from an encrypted table"):
        box.commit(UpdateProperties(remove=["encryption.key-id"]))
    with pytest.raises(UnsupportedFeature, match="cannot be encrypted without"):
        WriteTarget.of(box.metadata, box.storage)


def test_nothing_to_add_makes_no_snapshot_unless_wanted() -> None:
    box = Box(new_table(2))
    assert box.commit(FastAppend([])) is None
    assert box.commit(MergeAppend([])) is None
    made = box.commit(MergeAppend([], keep_empty=True, summary={"epoch": "7"}))
    assert made.summary["epoch"] == "7"
    assert made.summary["total-records"] == "0"


def test_computed_counts_cannot_be_set() -> None:
    for name in ("added-records", "total-records", "operation", "commit-id", "partitions.day=1", "source-snapshot-id"):
        with pytest.raises(InvalidInput, match="cannot be set"):
            FastAppend([], summary={name: "1"})
    for wrong in ({"n": 1}, {1: "n"}):
        with pytest.raises(InvalidInput, match="holds text"):
            FastAppend([], summary=wrong)


def test_first_row_ids_of_callers_are_dropped() -> None:
    box = Box(new_table(3))
    box.commit(FastAppend([data_file("memory:wh/t/a", first_row_id=999)]))
    assert box.live()["memory:wh/t/a"].data_file.first_row_id == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_without_main_starts_anew(version: int) -> None:
    box = Box(new_table(version))
    box.commit(FastAppend([data_file("memory:wh/t/a")]))
    box.apply(RemoveSnapshotRef("main"))
    made = box.commit(FastAppend([data_file("memory:wh/t/b")]))
    assert made.parent_snapshot_id is None
    assert made.summary["total-data-files"] == "1"
    assert set(box.live()) == {"memory:wh/t/b"}


def test_added_entries_hold_neither_number_nor_row_id() -> None:
    box = Box(new_table(3))
    box.commit(FastAppend([data_file("memory:wh/t/a")]))
    (manifest,) = box.manifests()
    assert manifest.content is ManifestContent.DATA
    stored = box.columns(replace(manifest, sequence_number=99, first_row_id=500))
    entry = stored.entry(0)
    assert entry.status is EntryStatus.ADDED
    assert (entry.sequence_number, entry.data_file.first_row_id) == (99, 500)
