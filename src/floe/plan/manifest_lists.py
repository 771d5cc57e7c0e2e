"""The manifests of a snapshot: from its manifest list, or from the list that old snapshots carry themselves."""

from __future__ import annotations

from floe.avro.manifest_lists import read_manifest_list
from floe.avro.snapshot_manifests import snapshot_manifests
from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.storage.protocol import Storage

__all__ = ["MAX_MANIFEST_BYTES", "check_not_encrypted", "manifests_of_snapshot"]

MAX_MANIFEST_BYTES = 2**30
"""No manifest or manifest list is read that is longer; real ones have some MB."""

_ENCRYPTED = b"AGS1"


def manifests_of_snapshot(snapshot: Snapshot, storage: Storage) -> list[ManifestFile]:
    """The manifests of a snapshot, as its manifest list describes them.

    Snapshots of format version 1 may name their manifests without saying anything about them (spec: Snapshots); then
    each manifest is read to find out.

    >>> from floe.avro.manifest_lists import write_manifest_list
    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> manifests = [ManifestFile("memory:t/m.avro", 100, 0, added_snapshot_id=7)]
    >>> data = write_manifest_list(manifests, format_version=1, snapshot_id=7, parent_snapshot_id=None)
    >>> storage.write("memory:t/snap-7.avro", data)
    >>> snapshot = Snapshot(snapshot_id=7, timestamp_ms=5, manifest_list="memory:t/snap-7.avro")
    >>> manifests_of_snapshot(snapshot, storage) == manifests
    True
    """
    path = snapshot.manifest_list
    if path is None:
        return snapshot_manifests(snapshot, storage)
    data = storage.read(path, max_bytes=MAX_MANIFEST_BYTES)
    try:
        check_not_encrypted(data)
        return read_manifest_list(data)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(**{"manifest list": path, "snapshot": snapshot.snapshot_id}) from None


def check_not_encrypted(data: bytes) -> None:
    """Raise unless a manifest or manifest list can be read without a key.

    >>> check_not_encrypted(b"AGS1...")
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the file is encrypted, and this version of Floe cannot decrypt tables
    """
    if data[: len(_ENCRYPTED)] == _ENCRYPTED:
        raise UnsupportedFeature("the file is encrypted, and this version of Floe cannot decrypt tables")
