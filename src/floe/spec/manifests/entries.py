"""Manifests, their entries and the files that they list, as values (spec: Manifests, Manifest Lists).

The manifest list of a snapshot has `ManifestFile`s, a manifest has `ManifestEntry`s, and each entry has a status and a
`DataFile`, which may also be a delete file. `manifest_checks` has the rules for their values.

The format of a file is a name: one of the spec, or one that another package adds, when its format model is registered
(`floe.formats.Registry.register`) or with an entry point in the group `floe.formats`.

>>> file_format_code("parquet"), file_format_code("no-such-format")
(0, None)

`ManifestSummary` is what a manifest list stores about a manifest. A manifest is written once, before its sequence
number is known; its summary is kept until the manifest list is written, and gives a new `ManifestFile` for every commit
attempt. `assign_first_row_ids` then assigns row ids to the manifests of a v3 table (spec: Row Lineage): files and rows
inherit theirs when they are read, so neither manifests nor data files have to be rewritten when a commit is retried.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final

from floe.errors import CorruptFile, InvalidUpdate, InvalidValue
from floe.plugins import entry_points
from floe.spec.codecs import single_value
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.spec.types import StructType, Type
from floe.spec.values.value_checks import short_repr
from floe.spec.values.value_order import sort_key

FILE_FORMATS = frozenset({"avro", "orc", "parquet", "puffin"})


class FileContent(IntEnum):
    """The content of a file: rows, position deletes or equality deletes."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(IntEnum):
    """The files that a manifest lists: data files or delete files, never both."""

    DATA = 0
    DELETES = 1

    @property
    def text(self) -> str:
        """The name in the header of the manifest file."""
        return self.name.lower()


class EntryStatus(IntEnum):
    """What the snapshot that wrote an entry did with its file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file or delete file as a manifest describes it.

    `partition` is the tuple of partition values in the order of the fields of spec `spec_id`. Metrics are keyed by
    column id, and None where the writer stored none; bounds are in the single-value encoding.
    """

    content: FileContent
    file_path: str
    file_format: str
    """`avro`, `orc`, `parquet` or `puffin`."""

    partition: tuple[Any, ...]
    record_count: int
    """The number of rows or deletes; -1 for Avro files that old versions imported without counting."""

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
        """Whether this is a data file."""
        return self.content == FileContent.DATA

    @property
    def is_deletion_vector(self) -> bool:
        """Whether this is one deletion vector within a Puffin file."""
        return self.content == FileContent.POSITION_DELETES and self.file_format == "puffin"

    @property
    def is_position_delete_file(self) -> bool:
        """Whether this is a position delete file, not a deletion vector."""
        return self.content == FileContent.POSITION_DELETES and self.file_format != "puffin"

    @property
    def is_equality_delete_file(self) -> bool:
        """Whether this is an equality delete file."""
        return self.content == FileContent.EQUALITY_DELETES

    @property
    def target_path(self) -> str | None:
        """The only data file that position deletes refer to, or None if they may refer to several.

        That is `referenced_data_file`, or for writers that do not set it the equal bounds of the path column.

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
        """The sort order of the rows; ignored for position deletes, whose order is fixed."""
        return None if self.content == FileContent.POSITION_DELETES else self.sort_order_id

    @property
    def usable_split_offsets(self) -> tuple[int, ...] | None:
        """The offsets where the file may be split, or None if they are not ascending or outside the file."""
        offsets = self.split_offsets
        if not offsets or offsets[0] < 0 or offsets[-1] >= self.file_size_in_bytes:
            return None
        ascending = all(a < b for a, b in pairwise(offsets))
        return offsets if ascending else None


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file in a manifest, with its status.

    `snapshot_id` is the snapshot that added or deleted the file. `sequence_number` is the data sequence number, which
    decides which deletes apply; `file_sequence_number` is that of the commit that added the file, and never lower.
    In the file all three may be None; then they are inherited from the manifest.
    """

    status: EntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the snapshot; deleted entries are only informative."""
        return self.status != EntryStatus.DELETED


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The values of one partition field over a manifest; bounds are in the single-value encoding of its type."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as the manifest list describes it; fields that v1 lists lack are 0 or None."""

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
        """Whether there may be entries with status ADDED; an unknown count is assumed non-zero."""
        return self.added_files_count != 0

    @property
    def may_have_existing_files(self) -> bool:
        """Whether there may be entries with status EXISTING; an unknown count is assumed non-zero."""
        return self.existing_files_count != 0

    @property
    def may_have_live_files(self) -> bool:
        """Whether a scan has to read the manifest."""
        return self.may_have_added_files or self.may_have_existing_files


# Stored numbers --------------------------------------------------------------------------------------------------


def _enum(kind: type[IntEnum], value: object, label: str) -> Any:
    if type(value) is int and value in kind._value2member_map_:
        return kind(value)
    members = ", ".join(f"{member.value} ({member.name.lower().replace('_', ' ')})" for member in kind)
    raise CorruptFile(f"{label} must be one of {members}; found {value!r:.80}")


def manifest_content(value: object) -> ManifestContent:
    """Return the content of a stored number; v1 manifest lists store none and have only data manifests.

    >>> manifest_content(None), manifest_content(1)
    (<ManifestContent.DATA: 0>, <ManifestContent.DELETES: 1>)
    """
    if value is None:
        return ManifestContent.DATA
    content: ManifestContent = _enum(ManifestContent, value, "a manifest's content")
    return content


# Summaries of manifests ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """The counts and partition summaries of a manifest."""

    added_files_count: int = 0
    existing_files_count: int = 0
    deleted_files_count: int = 0
    added_rows_count: int = 0
    existing_rows_count: int = 0
    deleted_rows_count: int = 0
    min_sequence_number: int | None = None
    """The lowest data sequence number that a live entry stores; None if all inherit theirs."""

    partitions: tuple[FieldSummary, ...] = ()

    def manifest_file(
        self,
        manifest_path: str,
        manifest_length: int,
        *,
        spec_id: int,
        content: ManifestContent,
        snapshot_id: int,
        sequence_number: int,
        key_metadata: bytes | None = None,
    ) -> ManifestFile:
        """Return the manifest for a manifest list of the commit with that snapshot id and sequence number."""
        # Inherited numbers are the commit's own, and none is higher: the lowest is a stored one if there is any.
        lowest = sequence_number if self.min_sequence_number is None else self.min_sequence_number
        return ManifestFile(
            manifest_path,
            manifest_length,
            spec_id,
            content,
            sequence_number=sequence_number,
            min_sequence_number=min(lowest, sequence_number),
            added_snapshot_id=snapshot_id,
            added_files_count=self.added_files_count,
            existing_files_count=self.existing_files_count,
            deleted_files_count=self.deleted_files_count,
            added_rows_count=self.added_rows_count,
            existing_rows_count=self.existing_rows_count,
            deleted_rows_count=self.deleted_rows_count,
            partitions=self.partitions,
            key_metadata=key_metadata,
        )


def summarize_manifest(entries: Iterable[ManifestEntry], partition_type: StructType) -> ManifestSummary:
    """Count the entries of a manifest, as stored, and summarize their partitions.

    >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> summary = summarize_manifest([ManifestEntry(EntryStatus.ADDED, None, None, None, file)], StructType())
    >>> summary.added_files_count, summary.added_rows_count, summary.deleted_files_count
    (1, 3, 0)
    """
    files = dict.fromkeys(EntryStatus, 0)
    rows = dict.fromkeys(EntryStatus, 0)
    partitions: list[tuple[Any, ...]] = []
    lowest: int | None = None
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += max(entry.data_file.record_count, 0)
        partitions.append(entry.data_file.partition)
        number = entry.sequence_number
        if entry.is_live and number is not None and (lowest is None or number < lowest):
            lowest = number
    return ManifestSummary(
        files[EntryStatus.ADDED],
        files[EntryStatus.EXISTING],
        files[EntryStatus.DELETED],
        rows[EntryStatus.ADDED],
        rows[EntryStatus.EXISTING],
        rows[EntryStatus.DELETED],
        lowest,
        summarize_partitions(partitions, partition_type),
    )


def summarize_partitions(partitions: Iterable[tuple[Any, ...]], partition_type: StructType) -> tuple[FieldSummary, ...]:
    """Summarize each partition field over many partition tuples.

    Bounds ignore nulls and NaN, and are encoded in the type of the partition field, not of its source column. -0.0
    sorts below 0.0.

    >>> from floe.spec.types import DOUBLE, Field
    >>> nan = float("nan")
    >>> (summary,) = summarize_partitions([(None,), (nan,), (0.0,), (-0.0,)], StructType((Field(1000, "x", DOUBLE),)))
    >>> summary.contains_null, summary.contains_nan, summary.lower_bound.hex(), summary.upper_bound.hex()
    (True, True, '0000000000000080', '0000000000000000')
    """
    tuples = list(partitions)
    for values in tuples:
        if len(values) != len(partition_type):
            raise InvalidValue(f"a partition tuple must have {len(partition_type)} values, found {short_repr(values)}")
    columns = zip(*tuples, strict=True) if tuples else ((),) * len(partition_type)
    return tuple(_summary(child.type, values) for child, values in zip(partition_type, columns, strict=True))


def _summary(type_: Type, values: Iterable[Any]) -> FieldSummary:
    values = tuple(values)
    present = [value for value in values if value is not None]
    numbers = [value for value in present if value == value]  # only NaN differs from itself
    bounds: tuple[bytes | None, bytes | None] = (None, None)
    if numbers and type_.kind != "unknown":
        key = sort_key(type_)
        bounds = single_value.encode(type_, min(numbers, key=key)), single_value.encode(type_, max(numbers, key=key))
    return FieldSummary(len(present) < len(values), len(numbers) < len(present), *bounds)


# Row lineage -----------------------------------------------------------------------------------------------------


def assign_first_row_ids(manifests: Iterable[ManifestFile], first_row_id: int) -> tuple[tuple[ManifestFile, ...], int]:
    """Return a snapshot's manifests with their first row ids, and the table's next row id after them.

    Manifests that have an id keep it, and delete manifests have none. Each of the others reserves ids for its added and
    existing rows, because existing files of an upgraded table may have no ids yet (spec: First Row ID Assignment). The
    snapshot's `added-rows` is the difference between the two row ids.

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
                    "cannot assign row ids to a manifest whose row counts are unknown",
                    hint="read the manifest and fill in its counts first",
                    manifest=manifest.manifest_path,
                )
            manifest = replace(manifest, first_row_id=first_row_id)
            first_row_id += added + existing
        assigned.append(manifest)
    return tuple(assigned), first_row_id


# File formats ---------------------------------------------------------------------------------------------------------


ENTRY_POINT_GROUP: Final = "floe.formats"

FILE_FORMAT_NAMES: Final = ["parquet", "orc", "avro", "puffin"]
"""All known names, in lower case; append-only, because the index of a name stands for it in columns of manifests."""

_LOCK: Final = threading.Lock()


def add_file_format(name: str) -> int:
    """Add a name, in lower case, unless it is known already; returns its index in `FILE_FORMAT_NAMES`."""
    with _LOCK:
        if name not in FILE_FORMAT_NAMES:
            FILE_FORMAT_NAMES.append(name)
        return FILE_FORMAT_NAMES.index(name)


def file_format_code(name: str) -> int | None:
    """The index of a name in `FILE_FORMAT_NAMES`; None if no registered model or entry point has the name."""
    if name in FILE_FORMAT_NAMES:
        return FILE_FORMAT_NAMES.index(name)
    if any(point.name.lower() == name for point in entry_points(ENTRY_POINT_GROUP)):
        return add_file_format(name)
    return None
