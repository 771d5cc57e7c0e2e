"""What must hold of every table after every commit, whoever made it and however often it was tried."""

from collections import Counter

from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import EntryStatus, ManifestContent, ManifestEntry, summarize_manifest
from floe.spec.metadata.snapshots import Snapshot
from helpers.tables import Box, name_of


def check_all(box: Box) -> None:
    """Checks the table and its current snapshot."""
    check_chain(box)
    if box.metadata.current_snapshot is None:
        return
    head = box.head()
    entries = check_manifests(box, head)
    live = [entry for entry in entries if entry.is_live]
    check_paths(live)
    check_deletes(live)
    check_row_ids(box, live)
    check_summary(box, head, entries)


def check_chain(box: Box) -> None:
    """Snapshots follow their parents; numbers go up; the table knows the highest."""
    metadata = box.metadata
    ids = [snapshot.snapshot_id for snapshot in metadata.snapshots]
    assert len(set(ids)) == len(ids)
    for snapshot in metadata.snapshots:
        if snapshot.parent_snapshot_id is not None:
            parent = metadata.snapshots_by_id[snapshot.parent_snapshot_id]
            assert (
                snapshot.sequence_number > parent.sequence_number
                or metadata.format_version == 1
                or (snapshot.sequence_number == parent.sequence_number == 0)
            )
    assert metadata.last_sequence_number == max((s.sequence_number for s in metadata.snapshots), default=0)


def check_manifests(box: Box, snapshot: Snapshot) -> list[ManifestEntry]:
    """Manifests are there, as long as their list says, and what it says of their entries is true."""
    entries: list[ManifestEntry] = []
    for manifest in box.manifests(snapshot):
        assert len(box.storage.read(manifest.manifest_path)) == manifest.manifest_length
        columns = box.columns(manifest)
        own = columns.entries()
        assert all(entry.data_file.is_data == (manifest.content is ManifestContent.DATA) for entry in own)
        truth = summarize_manifest(own, columns.partition_type)
        said = (
            manifest.added_files_count,
            manifest.existing_files_count,
            manifest.deleted_files_count,
            manifest.added_rows_count,
            manifest.existing_rows_count,
            manifest.deleted_rows_count,
            manifest.partitions,
        )
        assert said == (
            truth.added_files_count,
            truth.existing_files_count,
            truth.deleted_files_count,
            truth.added_rows_count,
            truth.existing_rows_count,
            truth.deleted_rows_count,
            truth.partitions,
        )
        if truth.min_sequence_number is not None:
            assert manifest.min_sequence_number == truth.min_sequence_number
        assert manifest.sequence_number <= snapshot.sequence_number
        entries += own
    return entries


def check_paths(live: list[ManifestEntry]) -> None:
    """No file is there twice."""
    names = Counter(name_of(entry.data_file) for entry in live)
    assert max(names.values(), default=1) == 1, names


def check_deletes(live: list[ManifestEntry]) -> None:
    """At most one deletion vector for a data file, which is there, not younger, and of the same partition."""
    data = {entry.data_file.file_path: entry for entry in live if entry.data_file.is_data}
    vectors = [entry for entry in live if entry.data_file.is_deletion_vector]
    targets = Counter(entry.data_file.referenced_data_file for entry in vectors)
    assert max(targets.values(), default=1) == 1, targets
    for entry in live:
        target = entry.data_file.target_path
        if target is None or (not entry.data_file.is_deletion_vector and target not in data):
            continue  # a position delete file may outlive its data file, as it does no harm
        assert target in data, f"{name_of(entry.data_file)} is for {target}, which is gone"
        found, delete = data[target], entry.data_file
        assert partition_key(delete.spec_id, delete.partition) == partition_key(
            found.data_file.spec_id, found.data_file.partition
        )
        assert entry.sequence_number >= found.sequence_number


def check_row_ids(box: Box, live: list[ManifestEntry]) -> None:
    """In v3 every data file has ids of its own, all below the table's next."""
    next_id = box.metadata.next_row_id
    if next_id is None or box.head().first_row_id is None:
        return
    ranges = sorted(
        (entry.data_file.first_row_id, entry.data_file.record_count) for entry in live if entry.data_file.is_data
    )
    end = 0
    for first, count in ranges:
        assert first >= end
        end = first + count
    assert end <= next_id


def check_summary(box: Box, snapshot: Snapshot, entries: list[ManifestEntry]) -> None:
    """The label says what was done, and counts and totals are what a recount gives."""
    summary = snapshot.summary
    own = [entry for entry in entries if entry.snapshot_id == snapshot.snapshot_id]
    added = [e.data_file for e in own if e.status == EntryStatus.ADDED]
    removed = [e.data_file for e in own if e.status == EntryStatus.DELETED]
    live = [entry.data_file for entry in entries if entry.is_live]
    data = [file for file in live if file.is_data]
    assert int(summary["total-data-files"]) == len(data)
    assert int(summary["total-records"]) == sum(file.record_count for file in data)
    assert int(summary["total-delete-files"]) == len(live) - len(data)
    equality = [file for file in live if file.is_equality_delete_file]
    assert int(summary["total-equality-deletes"]) == sum(file.record_count for file in equality)
    positions = [file for file in live if not file.is_data and not file.is_equality_delete_file]
    assert int(summary["total-position-deletes"]) == sum(file.record_count for file in positions)
    assert int(summary["total-files-size"]) == sum(
        file.content_size_in_bytes if file.is_deletion_vector else file.file_size_in_bytes for file in live
    )
    assert int(summary.get("added-data-files", 0)) == sum(file.is_data for file in added)
    assert int(summary.get("deleted-data-files", 0)) == sum(file.is_data for file in removed)
    assert int(summary.get("added-delete-files", 0)) == sum(not file.is_data for file in added)
    assert int(summary.get("removed-delete-files", 0)) == sum(not file.is_data for file in removed)
    adds_data, adds_deletes = any(f.is_data for f in added), any(not f.is_data for f in added)
    drops_data = any(f.is_data for f in removed)
    match snapshot.operation:
        case "append":
            assert not adds_deletes
            assert not removed
        case "delete":
            assert not adds_data
        case "replace":
            assert int(summary.get("added-records", 0)) <= int(summary.get("deleted-records", 0))
        case "overwrite":
            assert (adds_data and (drops_data or adds_deletes)) or summary.get("replace-partitions") == "true"
