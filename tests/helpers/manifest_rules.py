"""The rules of manifests entry by entry and row by row: an oracle for the columnar reader."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import IntEnum
from typing import Any

from floe.errors import CorruptFile
from floe.spec.manifests.entries import (
    FILE_FORMATS,
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)


def _enum(kind: type[IntEnum], value: object, what: str) -> Any:
    if type(value) is int and value in list(kind):
        return kind(value)
    raise CorruptFile(f"{what} must be one of {[int(member) for member in kind]}; found {value!r:.80}")


def entry_status(value: object) -> EntryStatus:
    """Return the status of a stored number."""
    status: EntryStatus = _enum(EntryStatus, value, "an entry's status")
    return status


def file_content(value: object) -> FileContent:
    """Return the content of a stored number; v1 manifests store none and list only data files."""
    content: FileContent = FileContent.DATA if value is None else _enum(FileContent, value, "a file's content")
    return content


def file_format(text: object) -> str:
    """Return the file format that a manifest names, in any case."""
    name = text.lower() if isinstance(text, str) else None
    if name not in FILE_FORMATS:
        raise CorruptFile(f"a file's format must be one of {', '.join(sorted(FILE_FORMATS))}; found {text!r:.80}")
    return str(name)


def inherit(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """Return the entry with all that it inherits but its first row id (spec: Sequence Number Inheritance).

    Only added files inherit sequence numbers. A manifest of sequence number 0 comes from a v1 table, where every file
    has 0. Otherwise an existing file must store its data sequence number; deleted entries and file sequence numbers may
    lack them, because early writers of v2 tables did not store these.
    """
    file = entry.data_file
    if file.is_data != (manifest.content == ManifestContent.DATA):
        raise CorruptFile(
            f"a manifest of {manifest.content.text} lists a file of {file.content.name.lower().replace('_', ' ')}",
            file=file.file_path,
            manifest=manifest.manifest_path,
        )
    snapshot_id, number, file_number = entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
    if snapshot_id is None:
        snapshot_id = manifest.added_snapshot_id
    if entry.status == EntryStatus.ADDED or manifest.sequence_number == 0:
        number = manifest.sequence_number if number is None else number
        file_number = manifest.sequence_number if file_number is None else file_number
    elif number is None and entry.is_live:
        raise CorruptFile(
            "an existing file must carry its data sequence number, which it cannot inherit",
            file=file.file_path,
            manifest=manifest.manifest_path,
        )
    if file.spec_id != manifest.partition_spec_id:
        file = replace(file, spec_id=manifest.partition_spec_id)
    return ManifestEntry(entry.status, snapshot_id, number, file_number, file)


def inherit_first_row_ids(entries: Iterable[ManifestEntry], manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """Yield all entries of a manifest, in order, with the first row ids of their files.

    Files without an id are numbered from the manifest's first row id on. Deleted entries neither get an id nor use any.
    Without the manifest's id, as in snapshots from before an upgrade to v3, no file has one (spec: First Row ID
    Inheritance; Row Lineage for Upgraded Tables).
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
    """Return the id of the row at a position of a file: the stored one, else first row id plus position."""
    if first_row_id is None:
        return None
    return first_row_id + position if stored is None else stored


def last_updated_sequence_number(
    stored: int | None, first_row_id: int | None, data_sequence_number: int | None
) -> int | None:
    """Return the sequence number of the last change of a row: the stored one, else that of its file."""
    if first_row_id is None:
        return None
    return data_sequence_number if stored is None else stored


def without_metrics(file: DataFile) -> DataFile:
    """Return the same file without its metrics."""
    return replace(
        file,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=None,
        upper_bounds=None,
    )
