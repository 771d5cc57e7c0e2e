"""Deletion vectors of two changes for one data file made into one, so that both commit.

Two deletions of rows of a file do not disturb each other, but a data file can have only one deletion vector (spec:
Deletion Vectors). Whoever comes second adds a vector with the rows of both and removes the other one; its own vector
for a file that is no longer there is left out.

A change that can do so calls `conflicts.check` with `can_merge=True` on every attempt, and if it gets merges back,
commits what `merge_vectors` makes of its writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from floe.commit.conflicts.declared import Declared, delete_place, deletes_naming
from floe.commit.conflicts.position_overlap import VectorReader
from floe.commit.conflicts.window import Window
from floe.commit.footprint import Writes
from floe.commit.path_set import PathSet
from floe.errors import ConflictingChange
from floe.spec.codecs.deletion_vectors import CARDINALITY, blob_of
from floe.spec.codecs.puffin import write_file
from floe.spec.manifests.entries import DataFile
from floe.storage.locations import canonical
from floe.storage.protocol import Storage

__all__ = ["VectorMerge", "merge_vectors", "merges_for"]


@dataclass(frozen=True, slots=True)
class VectorMerge:
    """What is to be done about one data file.

    `ours` are the vectors that the change would have added. `theirs` are the position deletes that others added since
    and that are still there: the change must remove them, and delete their rows too. `replaced` are the vectors that
    the change was to remove and that others have left. If the data file is `gone`, nothing is added for it.
    """

    data_file: str
    ours: tuple[DataFile, ...]
    theirs: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...] = ()
    gone: bool = False

    @property
    def possible(self) -> bool:
        """Whether vectors alone are to be merged; position delete files, of older tables, have to be read for it."""
        return self.gone or all(delete.is_deletion_vector for delete in self.theirs)


def merges_for(mine: Declared, window: Window) -> tuple[VectorMerge, ...]:
    """What has to be merged or left out, for all data files that others touched since and that get a vector."""
    targets = mine.vector_targets
    theirs: dict[str, dict[tuple[str, int | None], DataFile]] = {}
    gone: set[str] = set()
    unseen: set[tuple[str, int | None]] = set()
    for _, facts in window:
        for path, deletes in mine.aimed(targets, facts.added_position_deletes).items():
            theirs.setdefault(path, {}).update((delete_place(delete), delete) for delete in deletes)
        for path, deletes in deletes_naming(targets, facts.removed_deletes).items():
            unseen.update(map(delete_place, deletes))
            for delete in deletes:
                theirs.get(path, {}).pop(delete_place(delete), None)
        for entries in facts.removed_data:
            gone |= targets.found_in(entries.paths)
    return tuple(
        VectorMerge(
            path,
            tuple(mine.vectors[canonical(path)]),
            tuple(theirs.get(path, {}).values()),
            tuple(v for v in mine.replaced_vectors.get(canonical(path), ()) if delete_place(v) not in unseen),
            path in gone,
        )
        for path in sorted(gone | theirs.keys())
    )


def merge_vectors(writes: Writes, merges: Sequence[VectorMerge], storage: Storage, location: str) -> Writes:
    """What a change writes instead: merged vectors, in a Puffin file that is written at a location nobody else uses.

    If there is no data file left that needs one, nothing is written.
    """
    alive = [merge for merge in merges if not merge.gone]
    concerned = PathSet(merge.data_file for merge in merges)
    return replace(
        writes,
        added=(*(f for f in writes.added if not _is_vector_for(f, concerned)), *_write(alive, storage, location)),
        removed=(
            *(f for f in writes.removed if not _is_vector_for(f, concerned)),
            *(delete for merge in alive for delete in merge.theirs),
            *(vector for merge in merges for vector in merge.replaced),
        ),
        referenced=frozenset(writes.referenced) - {merge.data_file for merge in merges if merge.gone},
    )


def _is_vector_for(file: DataFile, data_files: PathSet) -> bool:
    return file.is_deletion_vector and file.referenced_data_file in data_files


def _write(merges: Sequence[VectorMerge], storage: Storage, location: str) -> list[DataFile]:
    if not merges:
        return []
    reader = VectorReader(storage)
    written = write_file([blob_of(_union(merge, reader), merge.data_file) for merge in merges])
    storage.write(location, written.data)
    return [
        replace(
            merge.ours[0],
            file_path=location,
            record_count=int(blob.properties[CARDINALITY]),
            file_size_in_bytes=len(written.data),
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for merge, blob in zip(merges, written.payload.blobs, strict=True)
    ]


def _union(merge: VectorMerge, reader: VectorReader) -> BitMap64:
    positions = BitMap64()
    for vector in (*merge.ours, *merge.theirs):
        found = reader.read(vector)
        if found is None:
            raise ConflictingChange(
                "others deleted rows of the same file, and a deletion vector of "
                f"{vector.content_size_in_bytes} bytes is too long to be merged",
                hint="read the table again and make the change anew",
                file=vector.file_path,
            )
        positions |= found
    return positions
