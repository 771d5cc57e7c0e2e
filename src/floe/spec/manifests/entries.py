"""Manifests, their entries and the files they list, as values, and what entries inherit.

A snapshot's manifest list holds `ManifestFile`s, a manifest holds `ManifestEntry`s, and each entry tells what became of
one `DataFile`, which may also be a file of deletes (spec: Manifests, Manifest Lists, Sequence Number Inheritance). What
they may say, and what not, is in `checks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any

from floe.errors import CorruptFile
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH

__all__ = [
    "FILE_FORMATS",
    "DataFile",
    "EntryStatus",
    "FieldSummary",
    "FileContent",
    "ManifestContent",
    "ManifestEntry",
    "ManifestFile",
    "entry_status",
    "file_content",
    "file_format",
    "inherit",
    "manifest_content",
]

FILE_FORMATS = frozenset({"avro", "orc", "parquet", "puffin"})


class FileContent(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(IntEnum):
    """Which files a manifest lists; never both kinds."""

    DATA = 0
    DELETES = 1

    @property
    def text(self) -> str:
        """The word in the manifest's own metadata."""
        return self.name.lower()


class EntryStatus(IntEnum):
    """What the snapshot that wrote an entry did with its file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows, or of deletes, as a manifest describes it.

    `partition` is the tuple of partition values in the order of the fields of spec `spec_id`. Metrics are keyed by
    column id, and None where the writer kept none; bounds are in the single-value encoding.
    """

    content: FileContent
    file_path: str
    file_format: str
    """`avro`, `orc`, `parquet` or `puffin`."""

    partition: tuple[Any, ...]
    record_count: int
    """Rows, or the cardinality of a deletion vector; -1 in Avro files that old versions imported uncounted."""

    file_size_in_bytes: int
    column_sizes: dict[int, int] | None = field(default=None, hash=False)
    value_counts: dict[int, int] | None = field(default=None, hash=False)
    null_value_counts: dict[int, int] | None = field(default=None, hash=False)
    nan_value_counts: dict[int, int] | None = field(default=None, hash=False)
    lower_bounds: dict[int, bytes] | None = field(default=None, hash=False)
    upper_bounds: dict[int, bytes] | None = field(default=None, hash=False)
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    spec_id: int = 0

    @property
    def is_data(self) -> bool:
        """Whether the file holds rows of the table."""
        return self.content == FileContent.DATA

    @property
    def is_deletion_vector(self) -> bool:
        """Whether this is one deletion vector within a Puffin file."""
        return self.content == FileContent.POSITION_DELETES and self.file_format == "puffin"

    @property
    def is_position_delete_file(self) -> bool:
        """Whether this is a file of paths and positions, not a deletion vector."""
        return self.content == FileContent.POSITION_DELETES and self.file_format != "puffin"

    @property
    def is_equality_delete_file(self) -> bool:
        """Whether this is a file of values whose rows are deleted."""
        return self.content == FileContent.EQUALITY_DELETES

    @property
    def target_path(self) -> str | None:
        """The one data file that position deletes are for, or None if they may be for several.

        It is named by `referenced_data_file`; writers that do not set it leave equal bounds of the path column.

        >>> path = b"s3://b/a.parquet"
        >>> bounds = {2147483546: path}
        >>> DataFile(
        ...     FileContent.POSITION_DELETES, "d", "orc", (), 1, 1, lower_bounds=bounds, upper_bounds=bounds
        ... ).target_path
        's3://b/a.parquet'
        """
        if self.content != FileContent.POSITION_DELETES:
            return None
        if self.referenced_data_file is not None:
            return self.referenced_data_file
        lower = (self.lower_bounds or {}).get(DELETE_FILE_PATH.id)
        upper = (self.upper_bounds or {}).get(DELETE_FILE_PATH.id)
        if lower is None or lower != upper:
            return None
        try:
            return bytes(lower).decode()
        except UnicodeDecodeError as error:
            raise CorruptFile("the bounds of the path column are not UTF-8", file=self.file_path) from error

    @property
    def order_id(self) -> int | None:
        """The sort order of the rows; the one of position deletes is fixed, so what is stored there is ignored."""
        return None if self.content == FileContent.POSITION_DELETES else self.sort_order_id

    @property
    def usable_split_offsets(self) -> tuple[int, ...] | None:
        """Where the file may be split, or None where the stored offsets are not ascending or beyond its end."""
        offsets = self.split_offsets
        if not offsets or offsets[0] < 0 or offsets[-1] >= self.file_size_in_bytes:
            return None
        ascending = all(a < b for a, b in pairwise(offsets))
        return offsets if ascending else None

    def without_metrics(self) -> DataFile:
        """The same file without its metrics, which may be large."""
        return replace(
            self,
            column_sizes=None,
            value_counts=None,
            null_value_counts=None,
            nan_value_counts=None,
            lower_bounds=None,
            upper_bounds=None,
        )


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """What became of a file, and when.

    `snapshot_id` is the snapshot that added the file, or deleted it. `sequence_number` is the age of the content, by
    which deletes find the rows they apply to; `file_sequence_number` is when the file itself came, and never older.
    As stored all three may be None and are then inherited from the manifest.
    """

    status: EntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the snapshot; deleted entries only tell what happened."""
        return self.status != EntryStatus.DELETED


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What the files of a manifest have in one partition field; bounds are in the single-value encoding of its type."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as the manifest list describes it; what v1 lists do not have reads as 0 or None."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    """The lowest data sequence number of the live files."""

    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    @property
    def may_have_added_files(self) -> bool:
        """Whether there may be entries with status ADDED; an unknown count is taken for non-zero."""
        return self.added_files_count != 0

    @property
    def may_have_existing_files(self) -> bool:
        """Whether there may be entries with status EXISTING; an unknown count is taken for non-zero."""
        return self.existing_files_count != 0

    @property
    def may_have_deleted_files(self) -> bool:
        """Whether there may be entries with status DELETED; an unknown count is taken for non-zero."""
        return self.deleted_files_count != 0

    @property
    def may_have_live_files(self) -> bool:
        """Whether a scan has to look into the manifest at all."""
        return self.may_have_added_files or self.may_have_existing_files


# stored numbers and words ---------------------------------------------------------------------------------------


def _enum(kind: type[IntEnum], value: object, what: str) -> Any:
    if type(value) is int and value in kind._value2member_map_:
        return kind(value)
    known = ", ".join(f"{member.value} ({member.name.lower().replace('_', ' ')})" for member in kind)
    raise CorruptFile(f"{what} must be one of {known}; found {value!r:.80}")


def entry_status(value: object) -> EntryStatus:
    """The status of a stored number.

    >>> entry_status(7)
    Traceback (most recent call last):
    floe.errors.CorruptFile: an entry's status must be one of 0 (existing), 1 (added), 2 (deleted); found 7
    """
    status: EntryStatus = _enum(EntryStatus, value, "an entry's status")
    return status


def file_content(value: object) -> FileContent:
    """The content of a stored number; v1 manifests store none, and list data files alone.

    >>> file_content(None), file_content(2)
    (<FileContent.DATA: 0>, <FileContent.EQUALITY_DELETES: 2>)
    """
    content: FileContent = FileContent.DATA if value is None else _enum(FileContent, value, "a file's content")
    return content


def manifest_content(value: object) -> ManifestContent:
    """The content of a stored number; v1 manifest lists store none, and list data manifests alone.

    >>> manifest_content(None), manifest_content(1)
    (<ManifestContent.DATA: 0>, <ManifestContent.DELETES: 1>)
    """
    if value is None:
        return ManifestContent.DATA
    content: ManifestContent = _enum(ManifestContent, value, "a manifest's content")
    return content


def file_format(text: object) -> str:
    """The file format that a manifest names, whatever the case.

    >>> file_format("PARQUET")
    'parquet'
    """
    name = text.lower() if isinstance(text, str) else None
    if name not in FILE_FORMATS:
        raise CorruptFile(f"a file's format must be one of {', '.join(sorted(FILE_FORMATS))}; found {text!r:.80}")
    return str(name)


# inheritance ----------------------------------------------------------------------------------------------------


def inherit(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """The entry with what it inherits from its manifest (spec: Sequence Number Inheritance); first row ids come later.

    Sequence numbers are inherited by added files alone. A manifest of sequence number 0 comes from a v1 table, where
    every file has 0. Otherwise a live file that came before must carry its data sequence number; deleted entries and
    file sequence numbers may lack them, because early writers of v2 tables did not store these.

    >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> manifest = ManifestFile("m.avro", 100, 0, sequence_number=5, added_snapshot_id=77)
    >>> entry = inherit(ManifestEntry(EntryStatus.ADDED, None, None, None, file), manifest)
    >>> entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
    (77, 5, 5)
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
