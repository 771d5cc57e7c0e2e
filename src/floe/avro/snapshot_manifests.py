"""The manifests of a snapshot: from its manifest list, or from the names that old v1 snapshots hold themselves.

>>> from floe.avro.manifest_lists import write_manifest_list
>>> from floe.storage.memory import MemoryStorage
>>> storage = MemoryStorage()
>>> manifests = [ManifestFile("memory:t/m.avro", 100, 0, added_snapshot_id=7)]
>>> listed = write_manifest_list(manifests, format_version=1, snapshot_id=7, parent_snapshot_id=None)
>>> storage.write("memory:t/snap-7.avro", listed)
>>> snapshot = Snapshot(snapshot_id=7, timestamp_ms=1, manifest_list="memory:t/snap-7.avro")
>>> snapshot_manifests(snapshot, storage) == manifests
True
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from floe.avro.manifest_lists import read_manifest_list
from floe.avro.manifests import ManifestColumns, read_manifest
from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.manifests.entries import EntryStatus, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.storage.protocol import Storage

__all__ = ["counted", "is_counted", "open_manifest", "snapshot_manifests"]


def snapshot_manifests(snapshot: Snapshot, storage: Storage) -> list[ManifestFile]:
    """All manifests of a snapshot, in the order of its list.

    Snapshots of old v1 tables may name their manifests themselves and tell nothing about them; each is then read to
    find out.
    """
    if snapshot.key_id is not None:
        raise UnsupportedFeature(
            "the manifest list is encrypted, and encrypted tables cannot be read yet", snapshot=snapshot.snapshot_id
        )
    if snapshot.manifest_list is None:
        return [_described(path, snapshot, storage) for path in snapshot.manifests or ()]
    data = storage.read(snapshot.manifest_list)
    try:
        return read_manifest_list(data)
    except CorruptFile as error:
        raise error.with_context(file=snapshot.manifest_list, snapshot=snapshot.snapshot_id) from None


def open_manifest(manifest: ManifestFile, storage: Storage) -> bytes:
    """The bytes of a manifest's file."""
    if manifest.key_metadata is not None:
        raise UnsupportedFeature(
            "the manifest is encrypted, and encrypted tables cannot be read yet", manifest=manifest.manifest_path
        )
    return storage.read(manifest.manifest_path)


def is_counted(manifest: ManifestFile) -> bool:
    """Whether everything is known that lists of v2 and v3 must tell about a manifest; v1 lists may leave it out.

    >>> is_counted(ManifestFile("m.avro", 100, 0, added_snapshot_id=7))
    False
    """
    return None not in (
        manifest.added_snapshot_id,
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )


def counted(manifest: ManifestFile, storage: Storage) -> ManifestFile:
    """The manifest with its counts, which are read from its entries if they are not known."""
    if is_counted(manifest):
        return manifest
    return _with_counts(manifest, read_manifest(open_manifest(manifest, storage), manifest))


def _described(path: str, snapshot: Snapshot, storage: Storage) -> ManifestFile:
    """What a manifest list would say about a manifest that has none."""
    data = storage.read(path)
    spec_id = read_manifest(data).spec_id
    manifest = ManifestFile(path, len(data), spec_id)
    columns = read_manifest(data, manifest)
    return replace(_with_counts(manifest, columns), added_snapshot_id=_writer(columns, snapshot.snapshot_id))


def _writer(columns: ManifestColumns, unknown: int | None) -> int | None:
    """The snapshot that wrote a manifest: the one that added or deleted files by it, else the newest in it."""
    own = np.not_equal(columns.status, EntryStatus.EXISTING)
    ids, known = np.asarray(columns.snapshot_id.values), columns.snapshot_id.known
    if (own & known).any():
        return int(ids[own & known][0])
    return int(ids[known].max()) if known.any() else unknown


def _with_counts(manifest: ManifestFile, columns: ManifestColumns) -> ManifestFile:
    rows = np.maximum(columns.record_count, 0)
    which = {status: np.equal(columns.status, status) for status in EntryStatus}
    files = {status: int(mask.sum()) for status, mask in which.items()}
    counts = {status: int(rows[mask].sum()) for status, mask in which.items()}
    added_by = manifest.added_snapshot_id
    return replace(
        manifest,
        added_snapshot_id=_writer(columns, None) if added_by is None else added_by,
        added_files_count=files[EntryStatus.ADDED],
        existing_files_count=files[EntryStatus.EXISTING],
        deleted_files_count=files[EntryStatus.DELETED],
        added_rows_count=counts[EntryStatus.ADDED],
        existing_rows_count=counts[EntryStatus.EXISTING],
        deleted_rows_count=counts[EntryStatus.DELETED],
    )
