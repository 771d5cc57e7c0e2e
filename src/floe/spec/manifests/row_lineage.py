"""Row ids: how snapshots, manifests, files and rows of a v3 table get them (spec: Row Lineage).

Ids are handed down. A snapshot starts at the table's `next-row-id`; each data manifest that has no first id yet gets
the next free one when the manifest list is written; files and rows get theirs when they are read, so that neither
manifests nor data files are written again when a commit has to be tried once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from floe.errors import CorruptFile, InvalidUpdate
from floe.spec.manifests.entries import EntryStatus, ManifestContent, ManifestEntry, ManifestFile

__all__ = [
    "assign_first_row_ids",
    "inherit_first_row_ids",
    "last_updated_sequence_number",
    "lineage_to_write",
    "row_id",
]


def assign_first_row_ids(manifests: Iterable[ManifestFile], first_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """A snapshot's manifests with their first row ids, and the table's next row id after them.

    Manifests that have an id keep it, and delete manifests have none. Each of the others takes room for its added and
    existing rows, because existing files of an upgraded table may still be without ids (spec: First Row ID Assignment).
    The snapshot's `added-rows` is the difference between the two row ids.

    >>> new = ManifestFile("m.avro", 100, 0, added_rows_count=5, existing_rows_count=2)
    >>> manifests, next_row_id = assign_first_row_ids([new, new], 1000)
    >>> [m.first_row_id for m in manifests], next_row_id
    ([1000, 1007], 1014)
    """
    assigned = []
    for manifest in manifests:
        if manifest.content == ManifestContent.DATA and manifest.first_row_id is None:
            added, existing = manifest.added_rows_count, manifest.existing_rows_count
            if added is None or existing is None:
                raise InvalidUpdate(
                    "cannot give row ids to a manifest whose row counts are unknown",
                    hint="read the manifest and fill in its counts first",
                    manifest=manifest.manifest_path,
                )
            manifest = replace(manifest, first_row_id=first_row_id)
            first_row_id += added + existing
        assigned.append(manifest)
    return tuple(assigned), first_row_id


def inherit_first_row_ids(entries: Iterable[ManifestEntry], manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """All entries of a manifest, in their order, with the first row ids of their files.

    Files without an id follow one another from the manifest's own first id. Deleted entries neither get one nor take
    room, as none was kept for them. Without the manifest's id, as in snapshots from before an upgrade to v3, no file
    has one (spec: First Row ID Inheritance; Row Lineage for Upgraded Tables).

    >>> from floe.spec.manifests.entries import DataFile, FileContent
    >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 50, 100)
    >>> entries = [ManifestEntry(EntryStatus.ADDED, 1, 1, 1, file)] * 2
    >>> manifest = ManifestFile("m.avro", 100, 0, first_row_id=1000)
    >>> [entry.data_file.first_row_id for entry in inherit_first_row_ids(entries, manifest)]
    [1000, 1050]
    """
    next_id = manifest.first_row_id if manifest.content == ManifestContent.DATA else None
    for entry in entries:
        file = entry.data_file
        if next_id is None:
            yield entry if file.first_row_id is None else replace(entry, data_file=replace(file, first_row_id=None))
        elif file.first_row_id is None and entry.status != EntryStatus.DELETED:
            if file.record_count < 0:
                raise CorruptFile("a file of unknown row count cannot have row ids", file=file.file_path)
            yield replace(entry, data_file=replace(file, first_row_id=next_id))
            next_id += file.record_count
        else:
            yield entry


def row_id(stored: int | None, first_row_id: int | None, position: int) -> int | None:
    """The id of the row at a position of a file: the one stored, else counted from the file's first.

    >>> row_id(None, 1000, 7), row_id(55, 1000, 7), row_id(55, None, 7)
    (1007, 55, None)
    """
    if first_row_id is None:
        return None
    return first_row_id + position if stored is None else stored


def last_updated_sequence_number(
    stored: int | None, first_row_id: int | None, data_sequence_number: int | None
) -> int | None:
    """The sequence number of the commit that last changed a row: the one stored, else that of its file.

    >>> last_updated_sequence_number(None, 1000, 4), last_updated_sequence_number(2, 1000, 4)
    (4, 2)
    """
    if first_row_id is None:
        return None
    return data_sequence_number if stored is None else stored


def lineage_to_write(row_id: int | None, last_updated: int | None, *, modified: bool) -> tuple[int | None, int | None]:
    """What to store as `_row_id` and `_last_updated_sequence_number` of a row that is moved to another file.

    The row keeps its id. When it is modified, the number is left out, so that the commit's own takes its place.

    >>> lineage_to_write(7, 3, modified=False), lineage_to_write(7, 3, modified=True)
    ((7, 3), (7, None))
    """
    return row_id, None if modified else last_updated
