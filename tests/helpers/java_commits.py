"""Commits of other writers made again: what a snapshot of a real table did, and the state that it was made upon."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from floe.avro.manifest_reader import read_snapshot_manifests
from floe.errors import NoSuchFile
from floe.spec.manifests.entries import EntryStatus, ManifestEntry
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse
from floe.storage.local import LocalStorage
from floe.storage.memory import MemoryStorage
from floe.storage.wrappers import PrefixMap
from helpers.corpus import expected
from helpers.tables import Box


class OverlayStorage(MemoryStorage):
    """Files of the corpus, which are only read, under files in memory."""

    def __init__(self, corpus_dir: Path) -> None:
        super().__init__()
        self.below = PrefixMap(LocalStorage(), {"/floe-corpus/": f"{corpus_dir}/"})

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        try:
            return super().read(location, max_bytes=max_bytes)
        except NoSuchFile:
            return self.below.read(location, max_bytes=max_bytes)


@dataclass
class JavaCommit:
    """One snapshot of a corpus table, and the table as it was before."""

    snapshot: Snapshot
    before: TableMetadata
    entries: list[ManifestEntry]
    corpus_dir: Path

    def box(self) -> Box:
        return Box(self.before, OverlayStorage(self.corpus_dir))

    def own(self, status: EntryStatus) -> list[ManifestEntry]:
        snapshot_id = self.snapshot.snapshot_id
        return [one for one in self.entries if one.status == status and one.snapshot_id == snapshot_id]

    def live(self) -> list[ManifestEntry]:
        return [one for one in self.entries if one.is_live]


def java_commits(corpus_dir: Path, table: str) -> Iterator[JavaCommit]:
    """The snapshots of a table whose parents are still there."""
    storage = OverlayStorage(corpus_dir)
    facts = expected(corpus_dir, table)
    metadata = parse((corpus_dir / table / facts["metadata"]).read_bytes())
    for snapshot in (*metadata.snapshots[:20], *metadata.snapshots[20:][-5:]):  # one table has hundreds
        parent_id = snapshot.parent_snapshot_id
        if parent_id is not None and parent_id not in metadata.snapshots_by_id:
            continue
        before = _before(metadata, snapshot)
        box = Box(before, storage)
        entries = [e for m in read_snapshot_manifests(snapshot, storage) for e in box.columns(m).entries()]
        yield JavaCommit(snapshot, before, entries, corpus_dir)


def _before(metadata: TableMetadata, snapshot: Snapshot) -> TableMetadata:
    """The table as it was when the snapshot was made, as far as a commit can tell."""
    parent_id = snapshot.parent_snapshot_id
    version = metadata.format_version
    if version > 2 and snapshot.first_row_id is None:
        version = 2
    if version > 1 and snapshot.sequence_number == 0:
        version = 1
    kept = metadata.snapshots[: metadata.snapshots.index(snapshot)]
    return replace(
        metadata,
        format_version=version,
        snapshots=kept,
        refs={} if parent_id is None else {"main": SnapshotRef(snapshot_id=parent_id, type="branch")},
        current_snapshot_id=parent_id,
        snapshot_log=(),
        last_sequence_number=max(snapshot.sequence_number - 1, 0),
        next_row_id=snapshot.first_row_id,
        current_schema_id=metadata.current_schema_id if snapshot.schema_id is None else snapshot.schema_id,
        statistics=(),
        partition_statistics=(),
        last_updated_ms=snapshot.timestamp_ms - 1,
    )


def counts(summary: Any, without: Iterable[str] = ()) -> dict[str, str]:
    """What a summary counts: the keys that do not depend on who wrote it."""
    starts = ("added-", "deleted-", "removed-", "total-", "changed-partition", "operation", "replace-partitions")
    return {k: v for k, v in dict(summary).items() if k.startswith(starts) and k not in set(without)}
