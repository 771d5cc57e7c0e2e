"""Checks of the files and entries of manifests, when they are read and before they are written.

Invalid values that are read raise `CorruptFile`, invalid requests of a writer `InvalidUpdate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from floe.errors import CorruptFile, InvalidUpdate
from floe.spec.manifests.entries import (
    FILE_FORMATS,
    DataFile,
    EntryStatus,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    file_format_code,
)
from floe.spec.schemas.schema import Schema

MAX_CONTENT_SIZE = 2**31 - 1
"""The longest deletion vector: its length is stored as a signed 32-bit number."""

# When reading ---------------------------------------------------------------------------------------------------

_FILE_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


def check_data_file(file: DataFile) -> None:
    """Raise CorruptFile if a manifest describes a file in an impossible way (spec: Data File Fields).

    >>> from floe.spec.manifests.entries import FileContent
    >>> check_data_file(DataFile(FileContent.EQUALITY_DELETES, "d.parquet", "parquet", (), 3, 100))
    Traceback (most recent call last):
    floe.errors.CorruptFile: an equality delete file must list the ids of the columns it compares (file: d.parquet)
    """
    for problem in _problems(file):
        raise CorruptFile(problem, file=file.file_path)


def _problems(file: DataFile) -> Iterator[str]:
    """Yield the problems of a file's description."""
    if not file.file_path:
        yield "a file must have a path"
    if file_format_code(file.file_format) is None:
        yield f"a file's format must be one of {', '.join(sorted(FILE_FORMATS))}; found {file.file_format!r:.80}"
    if file.record_count < 0 and not (file.record_count == -1 and file.file_format == "avro" and file.is_data):
        yield f"record_count must not be negative, found {file.record_count}"
    if file.file_size_in_bytes < 0:
        yield f"file_size_in_bytes must not be negative, found {file.file_size_in_bytes}"
    for name in _FILE_COUNTS:
        counts = getattr(file, name)
        if counts and min(counts.values()) < 0:
            column = min(counts, key=counts.__getitem__)
            yield f"{name} must not be negative, found {counts[column]} for column {column}"
    if file.first_row_id is not None and file.first_row_id < 0:
        yield f"first_row_id must not be negative, found {file.first_row_id}"
    if file.is_equality_delete_file and not file.equality_ids:
        yield "an equality delete file must list the ids of the columns it compares"
    if file.file_format == "puffin":
        yield from _vector_problems(file)
    elif file.content_offset is not None and file.content_size_in_bytes is None:
        yield "a file with a content_offset must have a content_size_in_bytes"


def _vector_problems(file: DataFile) -> Iterator[str]:
    if not file.is_deletion_vector:
        yield f"a Puffin file can only be listed as a deletion vector, found {file.content.name.lower()}"
    if not file.referenced_data_file:
        yield "a deletion vector must name its data file (referenced_data_file)"
    offset, size = file.content_offset, file.content_size_in_bytes
    if offset is None or size is None:
        yield "a deletion vector must have its position in the Puffin file (content_offset, content_size_in_bytes)"
    elif offset < 0 or not 0 <= size <= MAX_CONTENT_SIZE or offset + size > file.file_size_in_bytes:
        yield (f"a deletion vector of {size} bytes at {offset} is outside its file of {file.file_size_in_bytes} bytes")


_MANIFEST_COUNTS = (
    "manifest_length",
    "sequence_number",
    "min_sequence_number",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "first_row_id",
)


def check_manifest_file(manifest: ManifestFile) -> None:
    """Raise CorruptFile if a manifest list describes a manifest in an impossible way (spec: Manifest Lists).

    >>> check_manifest_file(ManifestFile("m.avro", 100, 0, added_files_count=-1))
    Traceback (most recent call last):
    floe.errors.CorruptFile: added_files_count must not be negative, found -1 (manifest: m.avro)
    """
    if not manifest.manifest_path:
        raise CorruptFile("a manifest must have a path")
    for name in _MANIFEST_COUNTS:
        value = getattr(manifest, name)
        if value is not None and value < 0:
            raise CorruptFile(f"{name} must not be negative, found {value}", manifest=manifest.manifest_path)
    if manifest.content == ManifestContent.DELETES and manifest.first_row_id is not None:
        raise CorruptFile("a delete manifest has no first_row_id", manifest=manifest.manifest_path)


# Before writing --------------------------------------------------------------------------------------------------


def check_addable(file: DataFile, format_version: int) -> None:
    """Raise InvalidUpdate unless a file may be added to a table of a format version (spec: Delete Formats).

    >>> from floe.spec.manifests.entries import FileContent
    >>> check_addable(DataFile(FileContent.POSITION_DELETES, "d.parquet", "parquet", (), 3, 100), 3)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: position delete files must not be added to a v3 table (file: d.parquet); write a deletion
    vector
    """
    check_data_file(file)
    if file.is_data:
        return
    if format_version < 2:
        raise InvalidUpdate(
            "a v1 table has no row-level deletes", hint="upgrade it to format version 2 first", file=file.file_path
        )
    if file.is_deletion_vector and format_version < 3:
        raise InvalidUpdate(
            f"deletion vectors need format version 3; the table has {format_version}",
            hint="write position delete files",
            file=file.file_path,
        )
    if file.is_position_delete_file and format_version >= 3:
        raise InvalidUpdate(
            f"position delete files must not be added to a v{format_version} table",
            hint="write a deletion vector",
            file=file.file_path,
        )


def check_entry_to_write(entry: ManifestEntry, format_version: int) -> None:
    """Raise InvalidUpdate unless an entry may be written into a new manifest (spec: Manifest Entry Fields).

    An existing file must have its sequence numbers, and in v3 its first row id; a new data file must not have a first
    row id, because it gets one when the snapshot is read.

    >>> from floe.spec.manifests.entries import FileContent
    >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> check_entry_to_write(ManifestEntry(EntryStatus.EXISTING, 1, None, None, file), 2)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: the entry of an existing file must have its sequence_number (file: a.parquet, ...
    """
    file, added = entry.data_file, entry.status == EntryStatus.ADDED
    context = {"file": file.file_path, "status": entry.status.name.lower()}
    if format_version < 2:
        if entry.snapshot_id is None:
            raise InvalidUpdate("an entry of a v1 manifest must have a snapshot id", **context)
        return
    for name in () if added else ("sequence_number", "file_sequence_number"):
        if getattr(entry, name) is None:
            raise InvalidUpdate(f"the entry of an existing file must have its {name}", **context)
    if added and entry.file_sequence_number is not None:
        raise InvalidUpdate("the file sequence number of a new file is assigned when it is committed", **context)
    if format_version >= 3 and added and file.first_row_id is not None:
        raise InvalidUpdate("the first_row_id of a new file is assigned when it is committed", **context)
    if not file.is_data and file.first_row_id is not None:
        raise InvalidUpdate("a delete file has no first_row_id", **context)


_NOT_COMPARABLE = frozenset({"float", "double", "geometry", "geography", "unknown"})


def check_equality_columns(schema: Schema, equality_ids: Iterable[int]) -> None:
    """Raise InvalidUpdate unless new equality deletes may compare these columns (spec: Equality Delete Files).

    The rules are those of identifier fields, but the columns may be optional: a null deletes the rows with null.

    >>> from floe.spec.types import DOUBLE, INT, Field
    >>> schema = Schema((Field(1, "a", INT), Field(2, "b", DOUBLE)))
    >>> check_equality_columns(schema, [1])
    >>> check_equality_columns(schema, [1, 2])
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: equality deletes cannot compare values of type double (column: b)
    """
    columns = [schema.entry(field_id) for field_id in equality_ids]
    if not columns:
        raise InvalidUpdate("an equality delete file must compare at least one column")
    for column in columns:
        type_ = column.field.type
        if not type_.is_primitive or type_.kind in _NOT_COMPARABLE:
            raise InvalidUpdate(f"equality deletes cannot compare values of type {type_.kind}", column=column.name)
        if column.in_collection:
            raise InvalidUpdate("equality deletes cannot compare values inside a list or map", column=column.name)
