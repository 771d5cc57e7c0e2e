"""Merging small manifests into larger ones, as Java Iceberg does it.

| property | default | meaning |
|---|---|---|
| `commit.manifest-merge.enabled` | true | whether manifests are merged |
| `commit.manifest.target-size-bytes` | 8388608 | the target size of a manifest |
| `commit.manifest.min-count-to-merge` | 100 | how many manifests there must be before the newest are merged |

Manifests of one spec and content are packed into bins in their order, beginning with the oldest, so that the newest bin
is the one which is not full and is merged next time. The bin with the newest manifest waits until it has
`min-count-to-merge` manifests; the others are merged at once. Files stay in their order, so that files which were
written together stay in few manifests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_reader import read_manifest_file, read_manifests
from floe.avro.manifest_writer import CopiedEntries
from floe.commit.manifests.manifest_files import Manifest, NewManifest, Workspace
from floe.spec.manifests.entries import EntryStatus, ManifestContent
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import MANIFEST_MERGE, MANIFEST_MIN_COUNT


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When manifests are merged."""

    enabled: bool
    min_count: int

    @classmethod
    def of(cls, metadata: TableMetadata) -> MergePolicy:
        """The policy of a table's properties."""
        properties = metadata.properties
        return cls(MANIFEST_MERGE.read(properties), MANIFEST_MIN_COUNT.read(properties))


def merge_manifests(
    workspace: Workspace, manifests: Sequence[Manifest], content: ManifestContent
) -> tuple[list[Manifest], int]:
    """The manifests of a snapshot after merging, newest first, and how many manifests of its parent were replaced."""
    policy = MergePolicy.of(workspace.metadata)
    if not policy.enabled or len(manifests) < 2:
        return list(manifests), 0
    groups: dict[int, list[Manifest]] = {}
    for manifest in manifests:
        groups.setdefault(_spec_id(manifest), []).append(manifest)
    merged: list[Manifest] = []
    replaced = 0
    for spec_id in sorted(groups, reverse=True):
        group = groups[spec_id]
        for packed in pack_from_end(group, [_length(manifest) for manifest in group], workspace.target_bytes):
            is_newest = manifests[0] in packed
            if len(packed) == 1 or (is_newest and len(packed) < policy.min_count):
                merged += packed
                continue
            merged += _merge_bin(workspace, packed, spec_id, content)
            replaced += sum(not isinstance(manifest, NewManifest) for manifest in packed)
    return merged, replaced


def pack_from_end(items: Sequence[Manifest], sizes: Sequence[int], target: int) -> list[list[Manifest]]:
    """Pack items into bins of up to the target size, in their order, beginning with the last item.

    >>> pack_from_end(["a", "b", "c", "d"], [1, 4, 3, 2], 5)
    [['a', 'b'], ['c', 'd']]
    """
    bins: list[list[Manifest]] = []
    room = 0
    for item, size in zip(reversed(items), reversed(sizes), strict=True):
        if not bins or size > room:
            bins.append([])
            room = target
        bins[-1].append(item)
        room -= size
    return [packed[::-1] for packed in reversed(bins)]


def _merge_bin(
    workspace: Workspace, packed: Sequence[Manifest], spec_id: int, content: ManifestContent
) -> tuple[NewManifest, ...]:
    """Write one manifest with the entries of several."""
    key = ("merged", tuple(packed), workspace.encoding_key(spec_id))

    def write() -> list[NewManifest]:
        parts = [_entries_to_copy(columns) for columns in _read(workspace, packed, spec_id)]
        return [workspace.splice(workspace.new_path(), parts, spec_id, content)]

    return workspace.files.write_once(key, write)


def _read(workspace: Workspace, packed: Sequence[Manifest], spec_id: int) -> list[ManifestColumns]:
    """The entries of manifests; those of the table are read together, which is faster for small ones."""
    old = [manifest for manifest in packed if not isinstance(manifest, NewManifest)]
    data = workspace.run_concurrently(lambda manifest: read_manifest_file(manifest, workspace.storage), old)
    types = {spec_id: workspace.layout(spec_id).partition_type}
    columns = read_manifests(data, old, partition_types=types)
    return [workspace.read(manifest) if isinstance(manifest, NewManifest) else next(columns) for manifest in packed]


def _entries_to_copy(columns: ManifestColumns) -> CopiedEntries:
    """The entries that go into the merged manifest.

    Entries of manifests that this commit wrote keep their status, added or deleted. Of older manifests the live entries
    are copied, as existing; entries that earlier snapshots deleted are left out.
    """
    if columns.manifest is not None:
        return existing_entries(columns)
    return CopiedEntries(columns, np.arange(len(columns)), columns.status)


def existing_entries(columns: ManifestColumns) -> CopiedEntries:
    """The live entries of a manifest, with the status `existing`."""
    rows = np.flatnonzero(columns.live)
    return CopiedEntries(columns, rows, np.full(rows.size, EntryStatus.EXISTING))


def _spec_id(manifest: Manifest) -> int:
    return manifest.spec_id if isinstance(manifest, NewManifest) else manifest.partition_spec_id


def _length(manifest: Manifest) -> int:
    return manifest.length if isinstance(manifest, NewManifest) else manifest.manifest_length
