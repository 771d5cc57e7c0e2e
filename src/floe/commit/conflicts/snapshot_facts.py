"""What one snapshot did to the files of a table: facts, taken from the entries of its manifests and not from its label.

A snapshot's `operation` is what its writer thinks of it. What entries cannot tell is only whether files were merely
rewritten, with the same rows in them; that claim (`replace`) is believed as long as the counts of rows do not speak
against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from floe.avro.lanes import Places
from floe.avro.manifests import ManifestColumns
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.var_bytes import VarBytes

__all__ = ["Entries", "SnapshotFacts", "facts_of"]

REPLACE: Final = "replace"


@dataclass(frozen=True, eq=False, slots=True)
class Entries:
    """Some entries of one manifest: files that one snapshot added, or removed."""

    columns: ManifestColumns
    rows: Places

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def spec_id(self) -> int:
        """The partition spec of the files."""
        return self.columns.spec_id

    @property
    def paths(self) -> VarBytes:
        """Where the files are."""
        return self.columns.file_path.take(self.rows)

    @property
    def record_count(self) -> int:
        """The rows of all files, or -1 if a file does not say."""
        counts = self.columns.record_count[self.rows]
        return -1 if (counts < 0).any() else int(counts.sum())

    def of_content(self, *contents: FileContent) -> Entries:
        """Those that hold certain contents."""
        return self.where(np.isin(self.columns.content[self.rows], contents))

    def where(self, mask: Mask) -> Entries:
        """Those for which the mask is true."""
        return Entries(self.columns, self.rows[mask])

    def files(self) -> list[DataFile]:
        """The files as objects."""
        return self.columns.data_files(self.rows)


@dataclass(frozen=True, eq=False)
class SnapshotFacts:
    """What one snapshot did, by the entries of the manifests that it wrote; each part has an item for each manifest."""

    snapshot: Snapshot
    added_data: tuple[Entries, ...] = ()
    removed_data: tuple[Entries, ...] = ()
    added_deletes: tuple[Entries, ...] = ()
    removed_deletes: tuple[Entries, ...] = ()

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether this is a rewrite: it says so, and the counts of rows do not speak against it.

        A rewrite cannot add more rows than it removes, nor delete more positions than the deletes had that it removes
        (equality deletes, whose reach is not known, left aside), nor add equality deletes out of nothing.
        """
        if self.snapshot.operation != REPLACE:
            return False
        added, removed = _records(self.added_data), _records(self.removed_data)
        if added is None or removed is None or added > removed:
            return False
        by_value = (FileContent.EQUALITY_DELETES,)
        if any(map(len, _of(self.removed_deletes, by_value))):
            return True
        if any(map(len, _of(self.added_deletes, by_value))):
            return False
        deleted, undone = _records(self.added_deletes), _records(self.removed_deletes)
        return deleted is not None and undone is not None and deleted <= undone

    @property
    def adds_rows(self) -> bool:
        """Whether rows came that were not in the table before, as far as can be told."""
        return bool(self.added_data) and not self.keeps_rows

    @cached_property
    def added_position_deletes(self) -> tuple[Entries, ...]:
        """Position delete files and deletion vectors that it added."""
        return _of(self.added_deletes, (FileContent.POSITION_DELETES,))

    @cached_property
    def added_equality_deletes(self) -> tuple[Entries, ...]:
        """Equality deletes that it added."""
        return _of(self.added_deletes, (FileContent.EQUALITY_DELETES,))


def _of(parts: Iterable[Entries], contents: tuple[FileContent, ...]) -> tuple[Entries, ...]:
    return tuple(found for part in parts if len(found := part.of_content(*contents)))


def _records(parts: Iterable[Entries]) -> int | None:
    counts = [part.record_count for part in parts]
    return None if any(count < 0 for count in counts) else sum(counts)


def facts_of(snapshot: Snapshot, manifests: Iterable[ManifestColumns]) -> SnapshotFacts:
    """What a snapshot did: entries that are its own, for what others did is only carried along."""
    parts: dict[tuple[ManifestContent, EntryStatus], list[Entries]] = {}
    for columns in manifests:
        assert columns.manifest is not None
        own = columns.snapshot_id.known & np.equal(np.asarray(columns.snapshot_id.values), snapshot.snapshot_id)
        for status in (EntryStatus.ADDED, EntryStatus.DELETED):
            rows = np.flatnonzero(own & np.equal(columns.status, status))
            if rows.size:
                parts.setdefault((columns.manifest.content, status), []).append(Entries(columns, rows))
    return SnapshotFacts(
        snapshot,
        tuple(parts.get((ManifestContent.DATA, EntryStatus.ADDED), ())),
        tuple(parts.get((ManifestContent.DATA, EntryStatus.DELETED), ())),
        tuple(parts.get((ManifestContent.DELETES, EntryStatus.ADDED), ())),
        tuple(parts.get((ManifestContent.DELETES, EntryStatus.DELETED), ())),
    )
