"""Tables of metadata, manifests and partitions; time travel; what other tables must not be asked."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from floe.errors import CorruptFile, InvalidInput, InvalidMetadata, NoSuchSnapshot, UnsupportedFeature
from floe.plan.manifests import manifests_of_snapshot
from floe.plan.metadata_tables import NAMES, TIME_TRAVEL, metadata_table, schema_of
from floe.spec.manifests.entries import DataFile, EntryStatus, FieldSummary, FileContent, ManifestEntry
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import MetadataLogEntry, SnapshotLogEntry
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, IDENTITY, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, LONG, STRING, TIMESTAMP, Field
from helpers.corpus_tables import CorpusTable, open_table
from helpers.small_tables import FOLDER, added, put_list, small_table

ONE_COLUMN = Schema((Field(1, "x", LONG),))
BY_X = PartitionSpec((PartitionField((1,), 1000, "x", IDENTITY),))


def read(table: CorpusTable, name: str, **options: Any) -> pa.Table:
    return metadata_table(name, table.metadata, "x", table.storage, workers=1, **options)


def data_file(path: str, *partition: Any, **options: Any) -> DataFile:
    return DataFile(FileContent.DATA, path, "parquet", partition, 10, 100, **options)


# time travel --------------------------------------------------------------------------------------------------------


def test_every_snapshot_shows_its_own_files(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    seen = set()
    for snapshot in table.metadata.snapshots:
        manifests = manifests_of_snapshot(snapshot, table.storage)
        shown = read(table, "manifests", snapshot=snapshot)
        assert shown.column("path").to_pylist() == [manifest.manifest_path for manifest in manifests]
        entries = read(table, "entries", snapshot=snapshot.snapshot_id)
        live = [row["data_file"]["file_path"] for row in entries.to_pylist() if row["status"] != 2]
        files = read(table, "files", snapshot=snapshot).column("file_path").to_pylist()
        assert files == live
        seen.add(tuple(sorted(files)))
        counted = read(table, "partitions", snapshot=snapshot)
        columns = ("file_count", "position_delete_file_count", "equality_delete_file_count")
        assert sum(sum(counted.column(name).to_pylist()) for name in columns) == len(files)
    assert len(seen) > 4


def test_all_tables_are_made_of_those_of_the_snapshots(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "combo_v2")
    pairs = [
        (snapshot.snapshot_id, path)
        for snapshot in table.metadata.snapshots
        for path in read(table, "manifests", snapshot=snapshot).column("path").to_pylist()
    ]
    shown = read(table, "all_manifests")
    assert (
        list(zip(shown.column("reference_snapshot_id").to_pylist(), shown.column("path").to_pylist(), strict=True))
        == pairs
    )
    of_snapshots = {
        (row["snapshot_id"], row["status"], row["data_file"]["file_path"])
        for snapshot in table.metadata.snapshots
        for row in read(table, "entries", snapshot=snapshot).to_pylist()
    }
    everything = read(table, "all_entries").to_pylist()
    assert {(row["snapshot_id"], row["status"], row["data_file"]["file_path"]) for row in everything} == of_snapshots


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(TIME_TRAVEL)))
def test_tables_without_time_travel_say_which_have_it(corpus_dir: Path, name: str) -> None:
    table = open_table(corpus_dir, "combo_v2")
    with pytest.raises(
        InvalidInput, match=f"'{name}' shows all snapshots.*time travel is for manifests, entries, files"
    ):
        read(table, name, snapshot=table.metadata.snapshots[0])


def test_the_tables_with_time_travel_are_those_of_java() -> None:
    assert set(TIME_TRAVEL) == {
        "entries", "files", "data_files", "delete_files", "manifests", "partitions", "position_deletes",
    }  # fmt: skip


def test_a_snapshot_that_is_not_there(corpus_dir: Path) -> None:
    with pytest.raises(NoSuchSnapshot, match="no snapshot 5"):
        read(open_table(corpus_dir, "combo_v2"), "files", snapshot=5)


# metadata alone -----------------------------------------------------------------------------------------------------


def test_the_metadata_log_follows_the_last_entry_that_is_not_later() -> None:
    metadata, storage = small_table([], ONE_COLUMN, UNPARTITIONED)
    snapshots = tuple(
        Snapshot(snapshot_id=n, sequence_number=n, timestamp_ms=0, manifest_list="x", schema_id=0) for n in (1, 2)
    )
    # times out of order: the clock went back between the second and third commit; snapshot 9 has expired
    log = [(10, 1), (30, 2), (20, 1), (40, 9)]
    metadata = replace(
        metadata,
        snapshots=snapshots,
        current_snapshot_id=2,
        snapshot_log=tuple(SnapshotLogEntry(timestamp_ms=t, snapshot_id=n) for t, n in log),
        metadata_log=tuple(
            MetadataLogEntry(timestamp_ms=t, metadata_file=f"v{t}.json") for t in (5, 10, 15, 20, 25, 30, 35)
        ),
        last_updated_ms=45,
    )
    rows = metadata_table("metadata_log_entries", metadata, "v45.json", storage).to_pylist()
    found = [(row["file"], row["latest_snapshot_id"], row["latest_sequence_number"]) for row in rows]
    assert found == [
        ("v5.json", None, None),
        ("v10.json", 1, 1),
        ("v15.json", 1, 1),
        ("v20.json", 1, 1),
        ("v25.json", 1, 1),
        ("v30.json", 1, 1),
        ("v35.json", 1, 1),
        ("v45.json", 9, None),
    ]
    assert [row["latest_schema_id"] for row in rows] == [None, 0, 0, 0, 0, 0, 0, None]


def test_snapshots_without_summaries() -> None:
    metadata, storage = small_table([], ONE_COLUMN, UNPARTITIONED)
    summaries: list[dict[str, str] | None] = [None, {}, {"operation": "append", "a": "b"}, {"a": "b"}]
    snapshots = tuple(
        Snapshot(snapshot_id=n, timestamp_ms=n, manifest_list="x", summary=summary)
        for n, summary in enumerate(summaries)
    )
    rows = metadata_table("snapshots", replace(metadata, snapshots=snapshots), "x", storage).to_pylist()
    assert [(row["operation"], row["summary"]) for row in rows] == [
        (None, None),
        (None, []),
        ("append", [("a", "b")]),
        ("overwrite", [("a", "b")]),
    ]


# manifests ----------------------------------------------------------------------------------------------------------


def test_manifests_that_no_list_describes_are_counted() -> None:
    """Snapshots of v1 may name their manifests alone; the counts are required, so they are found by reading."""
    files = [data_file("a", 1), data_file("b", 2)]
    entries = [ManifestEntry(EntryStatus.ADDED, 77, None, None, file) for file in files]
    entries.append(ManifestEntry(EntryStatus.EXISTING, 5, None, None, data_file("c", 3)))
    metadata, storage = small_table([entries], ONE_COLUMN, BY_X, format_version=1)
    snapshot = Snapshot(snapshot_id=77, timestamp_ms=5, manifests=(f"{FOLDER}/m0.avro",))
    metadata = replace(metadata, snapshots=(snapshot,))
    (row,) = metadata_table("manifests", metadata, "x", storage).to_pylist()
    assert [row[f"{status}_data_files_count"] for status in ("added", "existing", "deleted")] == [2, 1, 0]
    assert (row["added_snapshot_id"], row["partition_summaries"]) == (77, [])
    (row,) = metadata_table("all_manifests", metadata, "x", storage).to_pylist()
    assert (row["reference_snapshot_id"], row["partition_summaries"]) == (77, None)
    assert metadata_table("files", metadata, "x", storage).column("file_path").to_pylist() == ["a", "b", "c"]


def test_bounds_of_manifests_are_texts() -> None:
    schema = Schema((Field(1, "ts", TIMESTAMP), Field(2, "s", STRING), Field(3, "d", DOUBLE)))
    spec = PartitionSpec(
        (
            PartitionField((1,), 1000, "day", DAY),
            PartitionField((2,), 1001, "s", IDENTITY),
            PartitionField((3,), 1002, "d", IDENTITY),
        )
    )
    files = [data_file("a", 17486, None, 1e7), data_file("b", -1, None, float("nan"))]
    metadata, storage = small_table([added(*files)], schema, spec)
    (row,) = metadata_table("manifests", metadata, "x", storage).to_pylist()
    shown = [tuple(summary.values()) for summary in row["partition_summaries"]]
    assert shown == [
        (False, False, "1969-12-31", "2017-11-16"),
        (True, False, "null", "null"),
        (False, True, "1.0E7", "1.0E7"),
    ]


def test_summaries_that_contradict_the_spec_are_corrupt() -> None:
    metadata, storage = small_table([added(data_file("a", 1))], ONE_COLUMN, BY_X)
    (manifest,) = manifests_of_snapshot(metadata.snapshots[0], storage)
    put_list(storage, [replace(manifest, partitions=(FieldSummary(False), FieldSummary(False)))])
    with pytest.raises(CorruptFile, match="partition spec 0 with 1 fields has 2 summaries"):
        metadata_table("manifests", metadata, "x", storage)
    put_list(storage, [replace(manifest, partitions=(FieldSummary(False, None, b"odd", b"odd"),))])
    with pytest.raises(CorruptFile, match="a bound of the partition field 'x' cannot be read"):
        metadata_table("manifests", metadata, "x", storage)
    put_list(storage, [replace(manifest, partition_spec_id=4)])
    with pytest.raises(InvalidMetadata, match="no partition spec with id 4"):
        metadata_table("manifests", metadata, "x", storage)


def test_unknown_transforms_leave_what_does_not_need_them() -> None:
    odd = PartitionSpec((PartitionField((1,), 1000, "odd", UnknownTransform("zigzag[4]")),))
    metadata, storage = small_table([], ONE_COLUMN, odd)
    for name in ("files", "entries", "partitions", "position_deletes"):
        with pytest.raises(UnsupportedFeature, match=r"transform 'zigzag\[4\]' of 'odd' is not known"):
            schema_of(name, metadata)
    for name in ("snapshots", "history", "refs", "metadata_log_entries", "manifests", "all_manifests"):
        metadata_table(name, metadata, "x", storage)


# partitions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["combo_v2", "evo_partition", "part_identity_types", "del_dv_part", "hist_expired"])
def test_partitions_are_the_files_counted_one_by_one(corpus_dir: Path, name: str) -> None:
    table = open_table(corpus_dir, name)
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.metadata.snapshots}
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    specs = table.metadata.specs_by_id
    for row in read(table, "entries").to_pylist():
        if row["status"] != 2:
            file = row["data_file"]
            fields = len(specs[file["spec_id"]].fields)
            groups[repr(file.get("partition")), fields].append({**row, **file})
    shown = read(table, "partitions").to_pylist()
    assert len(shown) == len(groups)
    for row, ((partition, _), files) in zip(shown, groups.items(), strict=True):
        assert repr(row.get("partition")) == partition
        for content, prefix in ((1, "position_delete_"), (2, "equality_delete_"), (0, "")):
            chosen = [file for file in files if file["content"] == content]
            assert row[f"{prefix}file_count"] == len(chosen)
            assert row[f"{prefix}record_count"] == sum(file["record_count"] for file in chosen)
        sizes = [file["file_size_in_bytes"] for file in files if file["content"] == 0]
        assert row["total_data_file_size_in_bytes"] == sum(sizes)
        known = [file for file in files if file["snapshot_id"] in times]
        if known:
            last = max(known, key=lambda file: times[file["snapshot_id"]])
            assert row["last_updated_snapshot_id"] == last["snapshot_id"]
            assert row.get("spec_id", last["spec_id"]) == last["spec_id"]
        else:
            assert (row["last_updated_at"], row["last_updated_snapshot_id"]) == (None, None)


def test_partitions_of_floats_are_told_apart_by_their_bits() -> None:
    schema = Schema((Field(1, "d", DOUBLE),))
    spec = PartitionSpec((PartitionField((1,), 1000, "d", IDENTITY),))
    values = [0.0, -0.0, float("nan"), -float("nan"), None, 0.0, None]
    files = [data_file(f"f{n}", value) for n, value in enumerate(values)]
    metadata, storage = small_table([added(*files)], schema, spec)
    rows = metadata_table("partitions", metadata, "x", storage).to_pylist()
    assert [(repr(row["partition"]["d"]), row["file_count"]) for row in rows] == [
        ("0.0", 2), ("-0.0", 1), ("nan", 2), ("None", 2),
    ]  # fmt: skip


def test_a_null_that_is_stored_is_not_a_field_that_is_missing() -> None:
    by_nothing = PartitionSpec((), 1)
    manifests = [added(data_file("a", None)), added(data_file("b")), added(data_file("c", None))]
    metadata, storage = small_table(manifests, ONE_COLUMN, BY_X, by_nothing, spec_ids=(0, 1, 0))
    rows = metadata_table("partitions", metadata, "x", storage).to_pylist()
    assert [(row["partition"], row["spec_id"], row["file_count"]) for row in rows] == [
        ({"x": None}, 0, 2),
        ({"x": None}, 1, 1),
    ]


def test_counts_are_exact_beyond_floating_point() -> None:
    huge = 2**53 + 1
    files = [replace(data_file("a", 1), record_count=huge), replace(data_file("b", 1), record_count=2)]
    metadata, storage = small_table([added(*files)], ONE_COLUMN, BY_X)
    (row,) = metadata_table("partitions", metadata, "x", storage).to_pylist()
    assert row["record_count"] == huge + 2
