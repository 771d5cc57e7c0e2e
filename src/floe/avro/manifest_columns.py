"""`ManifestColumns`: the entries of manifests as columns, decoded on first use, with inherited values filled in.

`floe.avro.manifest_reader` creates them. Numbers that can be null are `Column`s; strings are slices of the decompressed
bytes. The metrics of a column are looked up by its field id. `entries` and `data_files` create objects of some rows.

Small manifests are read together: their entries are the rows of one `ManifestColumns`. `JoinedManifests` says which row
belongs to which manifest, from which it inherits.

>>> joined = JoinedManifests.of(
...     [ManifestFile("a", 9, 0, sequence_number=4), ManifestFile("b", 9, 0, sequence_number=5)], [1, 2]
... )
>>> joined.repeat_per_row(lambda manifest: manifest.sequence_number).tolist(), joined.manifest_of(2).manifest_path
([4, 5, 5], 'b')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from floe.avro.entry_scanner import ScannedEntries, take_entries
from floe.avro.manifest_layout import PartitionSlot
from floe.avro.stored_columns import StoredColumns, column_values
from floe.avro.vector_decoder import Offsets
from floe.errors import CorruptFile
from floe.spec.manifests.entries import (
    FILE_FORMAT_NAMES,
    FILE_FORMATS,
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    file_format_code,
)
from floe.spec.manifests.manifest_checks import check_data_file
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.metrics_evaluation import FileStats
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import Field, StructType


@dataclass(frozen=True, eq=False, slots=True)
class JoinedManifests:
    """Manifests of one partition spec and content, and the number of rows of each, in the order of the rows."""

    manifests: tuple[ManifestFile, ...]
    counts: Offsets

    @classmethod
    def of(cls, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> JoinedManifests:
        """Create it from manifests and their numbers of rows.

        >>> len(JoinedManifests.of([], []))
        0
        """
        return cls(tuple(manifests), np.array(counts, np.int64))

    def __len__(self) -> int:
        return len(self.manifests)

    def repeat_per_row(self, value: Callable[[ManifestFile], int]) -> Offsets:
        """Compute a number for each manifest and repeat it for each of the manifest's rows."""
        values = np.array([value(manifest) for manifest in self.manifests], np.int64)
        if len(values) and (values == values[0]).all():
            return np.broadcast_to(values[0], (int(self.counts.sum()),))
        return np.repeat(values, self.counts)

    @property
    def first_rows(self) -> Offsets:
        """The index of the first row of each manifest; for a manifest without rows, where it would be."""
        return np.cumsum(self.counts) - self.counts

    def manifest_of(self, row: int) -> ManifestFile:
        """The manifest that a row belongs to."""
        return self.manifests[int(np.searchsorted(np.cumsum(self.counts), row, "right"))]

    def take(self, rows: Offsets) -> JoinedManifests:
        """Select some ascending rows.

        >>> JoinedManifests.of([ManifestFile("a", 9, 0), ManifestFile("b", 9, 0)], [2, 2]).take(
        ...     np.array([1, 2, 3])
        ... ).counts
        array([1, 2])
        """
        numbers = np.searchsorted(np.cumsum(self.counts), rows, "right")
        return JoinedManifests(self.manifests, np.bincount(numbers, minlength=len(self)).astype(np.int64))


FORMATS = FILE_FORMAT_NAMES
"""The names of the file formats; `ManifestColumns.file_format` has their indexes in this list."""

# the names in the spec fit into a word of eight bytes; other names are compared one by one
_FORMAT_WORDS = [
    (code, np.uint64(int.from_bytes(text.encode().ljust(8, b"\0"), "big")), len(text))
    for code, name in enumerate(FORMATS[:4])
    for text in (name.upper(), name)
]

_METRIC_MAPS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
_STATUSES = tuple(EntryStatus)
_CONTENTS = tuple(FileContent)


class ManifestColumns:
    """The entries of one or more manifests as columns, in the order of the entries.

    Numbers that can be null are `Column`s, strings are `VarBytes`. Each column is decoded when it is first used.
    """

    def __init__(
        self,
        scan: ScannedEntries,
        manifest: ManifestFile | JoinedManifests | None,
        partition_type: StructType | None,
        spec_id: int,
        metadata: Mapping[str, bytes],
    ) -> None:
        self.stored = StoredColumns(scan)
        self.joined = JoinedManifests.of([manifest], [len(scan)]) if isinstance(manifest, ManifestFile) else manifest
        """The manifests that the rows inherit from; None if the values are as stored."""

        self.spec_id = spec_id
        self.metadata = metadata
        self.partition_type = _resolve_partition_type(scan.layout.partition, partition_type)
        self._partitions: dict[int, Column] = {}

    @property
    def manifest(self) -> ManifestFile | None:
        """The manifest, if all rows belong to one; otherwise None."""
        return self.joined.manifests[0] if self.joined is not None and len(self.joined) == 1 else None

    def take(self, rows: Offsets, *, metrics: bool = True) -> ManifestColumns:
        """Copy the entries at some ascending rows, with or without metrics, so that the other bytes can be freed."""
        scan = take_entries(self.stored.scan, rows, () if metrics else _METRIC_MAPS)
        manifests = None if self.joined is None else self.joined.take(rows)
        columns = ManifestColumns(scan, manifests, self.partition_type, self.spec_id, self.metadata)
        if (
            "first_row_id" in self.stored.scan.layout.index
        ):  # depends on all entries before, so it cannot be computed later
            columns.__dict__["first_row_id"] = _take_rows(self.first_row_id, rows)
        return columns

    def forget(self) -> None:
        """Drop the decoded columns to free memory; they are decoded again on the next use."""
        for name in self.__dict__.keys() & _CACHED_COLUMNS:
            del self.__dict__[name]
        self._partitions.clear()

    def __len__(self) -> int:
        return len(self.stored)

    def __repr__(self) -> str:
        return f"<ManifestColumns: {len(self)} entries of spec {self.spec_id}>"

    def _corrupt_entry(self, message: str, row: int) -> CorruptFile:
        path = self.file_path.take(np.array([row])).to_list()[0] or b""
        manifest = None if self.joined is None else self.joined.manifest_of(row).manifest_path
        return CorruptFile(message, file=path.decode(errors="replace"), manifest=manifest)

    # Fields of the entry ----------------------------------------------------------------------------------------

    @cached_property
    def status(self) -> Offsets:
        """The status of each entry: the numbers of `EntryStatus`."""
        status = self.stored.required_longs("status")
        is_invalid = (status < 0) | (status >= len(_STATUSES))
        if is_invalid.any():
            row = int(np.flatnonzero(is_invalid)[0])
            names = ", ".join(f"{status_value.value} ({status_value.name.lower()})" for status_value in EntryStatus)
            raise self._corrupt_entry(f"an entry's status must be one of {names}; found {int(status[row])}", row)
        return status

    @cached_property
    def live(self) -> Mask:
        """Which entries are not deleted, so that their files belong to the snapshot."""
        return np.not_equal(self.status, EntryStatus.DELETED)

    @cached_property
    def snapshot_id(self) -> Column:
        """The ids of the snapshots that added or deleted the files."""
        stored = self.stored.longs("snapshot_id")
        if self.joined is None or stored.valid is None:
            return stored
        has_snapshot = self.joined.repeat_per_row(lambda manifest: manifest.added_snapshot_id is not None) != 0
        return _fill(
            stored, ~stored.is_valid & has_snapshot, self.joined.repeat_per_row(lambda m: m.added_snapshot_id or 0)
        )

    @cached_property
    def sequence_number(self) -> Column:
        """The data sequence numbers (spec: Sequence Number Inheritance)."""
        stored = self._inherited_number("sequence_number")
        if self.joined is None or stored.valid is None:
            return stored
        is_missing = ~stored.is_valid & self.live
        if is_missing.any():
            raise self._corrupt_entry(
                "the entry of an existing file has no data sequence number, and only added files inherit one",
                int(np.flatnonzero(is_missing)[0]),
            )
        return stored

    @cached_property
    def file_sequence_number(self) -> Column:
        """The sequence numbers of the commits that added the files."""
        return self._inherited_number("file_sequence_number")

    def _inherited_number(self, name: str) -> Column:
        stored = self.stored.longs(name)
        if self.joined is None or stored.valid is None:
            return stored
        numbers = self.joined.repeat_per_row(lambda manifest: manifest.sequence_number)
        inherits = ~stored.is_valid & (np.equal(numbers, 0) | np.equal(self.status, EntryStatus.ADDED))
        return _fill(stored, inherits, numbers)

    # Fields of the file -----------------------------------------------------------------------------------------

    @cached_property
    def content(self) -> Offsets:
        """The content of the files: the numbers of `FileContent`."""
        content: Offsets = np.asarray(self.stored.longs("content").values)
        is_invalid = (content < 0) | (content >= len(_CONTENTS))
        if is_invalid.any():
            row = int(np.flatnonzero(is_invalid)[0])
            names = ", ".join(
                f"{content_value.value} ({content_value.name.lower().replace('_', ' ')})"
                for content_value in FileContent
            )
            raise self._corrupt_entry(f"a file's content must be one of {names}; found {int(content[row])}", row)
        if self.joined is not None:
            expected = self.joined.repeat_per_row(lambda manifest: manifest.content)
            is_invalid = np.equal(content, FileContent.DATA) != np.equal(expected, ManifestContent.DATA)
            if is_invalid.any():
                row = int(np.flatnonzero(is_invalid)[0])
                content_name = _CONTENTS[int(content[row])].name.lower().replace("_", " ")
                raise self._corrupt_entry(
                    f"a manifest of {ManifestContent(int(expected[row])).text} lists a file of {content_name}", row
                )
        return content

    @cached_property
    def file_path(self) -> VarBytes:
        """The paths of the files."""
        return self._required_strings("file_path")

    def _required_strings(self, name: str) -> VarBytes:
        strings = self.stored.strings(name)
        if not strings.is_valid.all():
            raise CorruptFile(f"an entry has no {name}")
        return strings

    @cached_property
    def file_format(self) -> NDArray[np.int8]:
        """The formats of the files, as indexes in `FORMATS`; names are not case-sensitive."""
        strings = self._required_strings("file_format")
        codes = np.full(len(self), -1, np.int8)
        words = strings.words()
        for code, name_word, length in _FORMAT_WORDS:
            matches = (words == name_word) & (strings.lengths == length)
            codes[matches] = code
            if matches.all():
                return codes
        for row in np.flatnonzero(codes < 0).tolist():
            word = strings.take(np.array([row])).to_list()[0] or b""
            name = word.decode(errors="replace").lower()
            unusual_code = file_format_code(name)
            if unusual_code is None:
                raise self._corrupt_entry(
                    f"a file's format must be one of {', '.join(sorted(FILE_FORMATS))}; found {name!r:.80}", row
                )
            codes[row] = unusual_code
        return codes

    @cached_property
    def record_count(self) -> Offsets:
        """The numbers of rows of the files."""
        return self.stored.required_longs("record_count")

    @cached_property
    def file_size_in_bytes(self) -> Offsets:
        """The sizes of the files."""
        return self.stored.required_longs("file_size_in_bytes")

    @cached_property
    def sort_order_id(self) -> Column:
        """The ids of the sort orders of the files."""
        return self.stored.longs("sort_order_id")

    @cached_property
    def first_row_id(self) -> Column:
        """The ids of the files' first rows (spec: First Row ID Inheritance)."""
        stored = self.stored.longs("first_row_id")
        if self.joined is None or not len(self):
            return stored
        first_row_ids = self.joined.repeat_per_row(
            lambda m: -1 if m.first_row_id is None or m.content else m.first_row_id
        )
        has_ids = first_row_ids >= 0
        inherits = ~stored.is_valid & self.live & has_ids
        has_unknown_count = inherits & (self.record_count < 0)
        if has_unknown_count.any():
            raise self._corrupt_entry(
                "a file with an unknown row count cannot inherit row ids", int(np.flatnonzero(has_unknown_count)[0])
            )
        rows = np.where(inherits, self.record_count, 0)
        rows_before = np.cumsum(rows) - rows
        rows_before_manifest = np.repeat(
            rows_before[np.minimum(self.joined.first_rows, len(self) - 1)], self.joined.counts
        )
        filled = _fill(stored, inherits, first_row_ids + rows_before - rows_before_manifest)
        return Column(filled.values, None if has_ids.all() and filled.valid is None else filled.is_valid & has_ids)

    @property
    def inherited_row_id_count(self) -> int:
        """How many row ids the entries that inherit theirs use."""
        stored = self.stored.longs("first_row_id")
        return int(self.record_count[~stored.is_valid & self.live].sum())

    @cached_property
    def referenced_data_file(self) -> VarBytes:
        """The paths of the data files that delete files apply to, if a delete file applies to one data file only."""
        return self.stored.strings("referenced_data_file")

    @cached_property
    def content_offset(self) -> Column:
        """The offsets of deletion vectors in their Puffin files."""
        return self.stored.longs("content_offset")

    @cached_property
    def content_size_in_bytes(self) -> Column:
        """The sizes of deletion vectors."""
        return self.stored.longs("content_size_in_bytes")

    @cached_property
    def key_metadata(self) -> VarBytes:
        """The encryption key metadata of the files."""
        return self.stored.strings("key_metadata")

    def split_offsets(self, rows: Offsets) -> list[tuple[int, ...] | None]:
        """The split offsets of the files of some rows, as stored."""
        return self.stored.lists("split_offsets", rows)

    def equality_ids(self, rows: Offsets) -> list[tuple[int, ...] | None]:
        """The field ids of the columns that the equality deletes of some rows compare."""
        return self.stored.lists("equality_ids", rows)

    # Partitions and metrics -------------------------------------------------------------------------------------

    def partition(self, field_id: int) -> Column:
        """The values of a partition field, as `floe.spec.pruning.column_evaluation` takes them."""
        if field_id not in self._partitions:
            field = next((child for child in self.partition_type if child.id == field_id), None)
            if field is None:
                raise CorruptFile(f"the partition type of the manifest has no field {field_id}")
            self._partitions[field_id] = self.stored.partition(field)
        return self._partitions[field_id]

    @property
    def partitions(self) -> dict[int, Column]:
        """The values of all partition fields, by field id."""
        return {child.id: self.partition(child.id) for child in self.partition_type}

    @property
    def has_scanned_metrics(self) -> bool:
        """Whether metrics were looked up when the entries were scanned, so that `stats` does not search for them."""
        return bool(self.stored.scan.bounds)

    def stats(self, field_ids: Iterable[int]) -> FileStats:
        """The metrics of some columns, as `floe.spec.pruning.metrics_evaluation` takes them."""
        return FileStats(self.record_count, {field_id: self.stored.stats(field_id) for field_id in field_ids})

    # Objects ----------------------------------------------------------------------------------------------------

    def entry(self, row: int) -> ManifestEntry:
        """Create the object of one entry; for several, `entries` is faster."""
        return self.entries(np.array([row]))[0]

    def entries(self, which: Mask | Offsets | None = None, *, metrics: bool = True) -> list[ManifestEntry]:
        """Create the objects of some entries, selected by a mask or row numbers; by default of all.

        Without `metrics` the maps of sizes, counts and bounds are left out, which takes much less time.
        """
        rows = _to_row_numbers(which, len(self))
        return [
            ManifestEntry(*values)
            for values in zip(
                map(_STATUSES.__getitem__, self.status[rows].tolist()),
                _optional_longs(self.snapshot_id, rows),
                _optional_longs(self.sequence_number, rows),
                _optional_longs(self.file_sequence_number, rows),
                self.data_files(rows, metrics=metrics),
                strict=True,
            )
        ]

    def data_files(self, which: Mask | Offsets | None = None, *, metrics: bool = True) -> list[DataFile]:
        """Create the objects of the files of some entries; see `entries`."""
        rows = _to_row_numbers(which, len(self))
        no_maps = [None] * len(rows)
        columns = zip(*(column_values(f.type, self.partition(f.id), rows) for f in self.partition_type), strict=True)
        partitions = list(columns) if len(self.partition_type) else [()] * len(rows)
        maps = [self.stored.maps(name, rows) if metrics else no_maps for name in _METRIC_MAPS]
        files = [
            DataFile(*values)
            for values in zip(
                map(_CONTENTS.__getitem__, self.content[rows].tolist()),
                _decode_paths(self.file_path, rows),
                map(FORMATS.__getitem__, self.file_format[rows].tolist()),
                partitions,
                self.record_count[rows].tolist(),
                self.file_size_in_bytes[rows].tolist(),
                *maps,
                self.key_metadata.take(rows).to_list(),
                self.split_offsets(rows),
                self.equality_ids(rows),
                _optional_longs(self.sort_order_id, rows),
                _optional_longs(self.first_row_id, rows),
                _decode_paths(self.referenced_data_file, rows),
                _optional_longs(self.content_offset, rows),
                _optional_longs(self.content_size_in_bytes, rows),
                repeat(self.spec_id, len(rows)),
                strict=True,
            )
        ]
        for file in files:
            check_data_file(file)
        return files


# the first row ids depend on all entries of a manifest, which `take` may have dropped, so they are not forgotten
_CACHED_COLUMNS = {name for name, value in vars(ManifestColumns).items() if isinstance(value, cached_property)} - {
    "first_row_id"
}


def _resolve_partition_type(stored: Sequence[PartitionSlot], requested: StructType | None) -> StructType:
    """The type of the partition tuples: the requested one; for fields of unknown type, the type in the file."""
    if requested is None:
        return StructType(
            tuple(Field(-1 - n if slot.id is None else slot.id, slot.name, slot.type) for n, slot in enumerate(stored))
        )
    if all(field.type.kind != "unknown" for field in requested):
        return requested
    types = {slot.id: slot.type for slot in stored}
    return StructType(
        tuple(replace(f, type=types.get(f.id, f.type)) if f.type.kind == "unknown" else f for f in requested)
    )


def _take_rows(column: Column, rows: Offsets) -> Column:
    values = np.asarray(column.values)[rows]
    return Column(values, None if column.valid is None else column.valid[rows])


def _to_row_numbers(which: Mask | Offsets | None, count: int) -> Offsets:
    if which is None:
        return np.arange(count)
    return np.flatnonzero(which) if which.dtype == np.bool_ else np.asarray(which, np.int64)


def _fill(column: Column, where: Mask, values: int | Offsets) -> Column:
    """Replace the values of some rows, which are not null then."""
    is_known = column.is_valid | where
    return Column(np.where(where, values, np.asarray(column.values)), None if is_known.all() else is_known)


def _optional_longs(column: Column, rows: Offsets) -> list[int | None]:
    values: list[int | None] = np.asarray(column.values)[rows].tolist()
    if column.valid is None:
        return values
    return [value if is_valid else None for value, is_valid in zip(values, column.valid[rows].tolist(), strict=True)]


def _decode_paths(strings: VarBytes, rows: Offsets) -> list[str | None]:
    try:
        return [None if path is None else path.decode() for path in strings.take(rows).to_list()]
    except UnicodeDecodeError:
        raise CorruptFile("a path is not UTF-8") from None
