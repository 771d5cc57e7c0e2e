"""The entries of manifests as columns: decoded when they are looked at, with what entries inherit filled in.

`manifests` reads them. Numbers that may be null come as `Column`s, and strings as slices of the decompressed bytes; the
metrics of a column are looked up by its id.

Manifests that are read together: what each row of their joined columns inherits from its own manifest.

>>> two = JoinedManifests.of(
...     [ManifestFile("a", 9, 0, sequence_number=4), ManifestFile("b", 9, 0, sequence_number=5)], [1, 2]
... )
>>> two.spread(lambda manifest: manifest.sequence_number).tolist(), two.manifest_of(2).manifest_path
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
    FILE_FORMATS,
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from floe.spec.manifests.file_formats import FILE_FORMAT_NAMES, file_format_code
from floe.spec.manifests.manifest_checks import check_data_file
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.metrics_evaluation import FileStats
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import Field, StructType

# Manifests that are read together: what each row of their joined columns inherits from its own manifest.


@dataclass(frozen=True, eq=False, slots=True)
class JoinedManifests:
    """Manifests of one spec and content, and how many rows each has, one after another."""

    manifests: tuple[ManifestFile, ...]
    counts: Offsets

    @classmethod
    def of(cls, manifests: Sequence[ManifestFile], counts: Sequence[int]) -> JoinedManifests:
        """The manifests with the counts of their rows.

        >>> len(JoinedManifests.of([], []))
        0
        """
        return cls(tuple(manifests), np.array(counts, np.int64))

    def __len__(self) -> int:
        return len(self.manifests)

    def spread(self, value: Callable[[ManifestFile], int]) -> Offsets:
        """A number of each manifest, for each of its rows."""
        values = np.array([value(manifest) for manifest in self.manifests], np.int64)
        if len(values) and (values == values[0]).all():
            return np.broadcast_to(values[0], (int(self.counts.sum()),))
        return np.repeat(values, self.counts)

    @property
    def begins(self) -> Offsets:
        """The first row of each manifest, also where it has none."""
        return np.cumsum(self.counts) - self.counts

    def manifest_of(self, row: int) -> ManifestFile:
        """The manifest of a row."""
        return self.manifests[int(np.searchsorted(np.cumsum(self.counts), row, "right"))]

    def take(self, rows: Offsets) -> JoinedManifests:
        """The manifests of some rows, which are in ascending order.

        >>> JoinedManifests.of([ManifestFile("a", 9, 0), ManifestFile("b", 9, 0)], [2, 2]).take(
        ...     np.array([1, 2, 3])
        ... ).counts
        array([1, 2])
        """
        numbers = np.searchsorted(np.cumsum(self.counts), rows, "right")
        return JoinedManifests(self.manifests, np.bincount(numbers, minlength=len(self)).astype(np.int64))


FORMATS = FILE_FORMAT_NAMES
"""The file formats; `ManifestColumns.file_format` has the index of each."""

# the names of the spec all fit into a word of eight bytes; other names are compared one by one
_FORMAT_WORDS = [
    (code, np.uint64(int.from_bytes(text.encode().ljust(8, b"\0"), "big")), len(text))
    for code, name in enumerate(FORMATS[:4])
    for text in (name.upper(), name)
]

_METRICS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
_STATUS = tuple(EntryStatus)
_CONTENT = tuple(FileContent)


class ManifestColumns:
    """The entries of a manifest as columns, in their order.

    Numbers that may be null come as `Column`s, strings as `VarBytes`; each is decoded when it is first looked at.
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
        self.listed = JoinedManifests.of([manifest], [len(scan)]) if isinstance(manifest, ManifestFile) else manifest
        """The manifests of the rows, from which they inherit; None if they are as stored."""

        self.spec_id = spec_id
        self.metadata = metadata
        self.partition_type = _partition_type(scan.layout.partition, partition_type)
        self._partitions: dict[int, Column] = {}

    @property
    def manifest(self) -> ManifestFile | None:
        """The one manifest of all rows, or None."""
        return self.listed.manifests[0] if self.listed is not None and len(self.listed) == 1 else None

    def take(self, rows: Offsets, *, metrics: bool = True) -> ManifestColumns:
        """The entries at some rows, in ascending order, without the bytes of the others; the metrics may go too."""
        scan = take_entries(self.stored.scan, rows, () if metrics else _METRICS)
        listed = None if self.listed is None else self.listed.take(rows)
        taken = ManifestColumns(scan, listed, self.partition_type, self.spec_id, self.metadata)
        if "first_row_id" in self.stored.scan.layout.index:  # counted from all entries, so it cannot be found later
            taken.__dict__["first_row_id"] = _taken(self.first_row_id, rows)
        return taken

    def forget(self) -> None:
        """Drop what was decoded so far; it is decoded again when somebody asks."""
        for name in self.__dict__.keys() & _DECODED:
            del self.__dict__[name]
        self._partitions.clear()

    def __len__(self) -> int:
        return len(self.stored)

    def __repr__(self) -> str:
        return f"<ManifestColumns: {len(self)} entries of spec {self.spec_id}>"

    def _wrong(self, message: str, row: int) -> CorruptFile:
        path = self.file_path.take(np.array([row])).to_list()[0] or b""
        manifest = None if self.listed is None else self.listed.manifest_of(row).manifest_path
        return CorruptFile(message, file=path.decode(errors="replace"), manifest=manifest)

    # the entry --------------------------------------------------------------------------------------------------

    @cached_property
    def status(self) -> Offsets:
        """What became of each file: the numbers of `EntryStatus`."""
        status = self.stored.required_longs("status")
        wrong = (status < 0) | (status >= len(_STATUS))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            known = ", ".join(f"{one.value} ({one.name.lower()})" for one in EntryStatus)
            raise self._wrong(f"an entry's status must be one of {known}; found {int(status[row])}", row)
        return status

    @cached_property
    def live(self) -> Mask:
        """Which files are part of the snapshot."""
        return np.not_equal(self.status, EntryStatus.DELETED)

    @cached_property
    def snapshot_id(self) -> Column:
        """The snapshots that added the files, or deleted them."""
        stored = self.stored.longs("snapshot_id")
        if self.listed is None or stored.valid is None:
            return stored
        has_one = self.listed.spread(lambda manifest: manifest.added_snapshot_id is not None) != 0
        return _filled(stored, ~stored.known & has_one, self.listed.spread(lambda m: m.added_snapshot_id or 0))

    @cached_property
    def sequence_number(self) -> Column:
        """The data sequence numbers (spec: Sequence Number Inheritance)."""
        stored = self._inherited_number("sequence_number")
        if self.listed is None or stored.valid is None:
            return stored
        lost = ~stored.known & self.live
        if lost.any():
            raise self._wrong(
                "an existing file must carry its data sequence number, which it cannot inherit",
                int(np.flatnonzero(lost)[0]),
            )
        return stored

    @cached_property
    def file_sequence_number(self) -> Column:
        """The sequence numbers of the commits that brought the files."""
        return self._inherited_number("file_sequence_number")

    def _inherited_number(self, name: str) -> Column:
        stored = self.stored.longs(name)
        if self.listed is None or stored.valid is None:
            return stored
        numbers = self.listed.spread(lambda manifest: manifest.sequence_number)
        inherits = ~stored.known & (np.equal(numbers, 0) | np.equal(self.status, EntryStatus.ADDED))
        return _filled(stored, inherits, numbers)

    # the file ---------------------------------------------------------------------------------------------------

    @cached_property
    def content(self) -> Offsets:
        """What the files hold: the numbers of `FileContent`."""
        content: Offsets = np.asarray(self.stored.longs("content").values)
        wrong = (content < 0) | (content >= len(_CONTENT))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            known = ", ".join(f"{one.value} ({one.name.lower().replace('_', ' ')})" for one in FileContent)
            raise self._wrong(f"a file's content must be one of {known}; found {int(content[row])}", row)
        if self.listed is not None:
            expected = self.listed.spread(lambda manifest: manifest.content)
            wrong = np.equal(content, FileContent.DATA) != np.equal(expected, ManifestContent.DATA)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                found = _CONTENT[int(content[row])].name.lower().replace("_", " ")
                raise self._wrong(
                    f"a manifest of {ManifestContent(int(expected[row])).text} lists a file of {found}", row
                )
        return content

    @cached_property
    def file_path(self) -> VarBytes:
        """Where the files are."""
        return self._required_strings("file_path")

    def _required_strings(self, name: str) -> VarBytes:
        found = self.stored.strings(name)
        if not found.known.all():
            raise CorruptFile(f"an entry has no {name}")
        return found

    @cached_property
    def file_format(self) -> NDArray[np.int8]:
        """The formats of the files, as indexes in `FORMATS`, whatever the case they are written in."""
        strings = self._required_strings("file_format")
        codes = np.full(len(self), -1, np.int8)
        words = strings.words()
        for code, name_word, length in _FORMAT_WORDS:
            same = (words == name_word) & (strings.lengths == length)
            codes[same] = code
            if same.all():
                return codes
        for row in np.flatnonzero(codes < 0).tolist():
            word = strings.take(np.array([row])).to_list()[0] or b""
            name = word.decode(errors="replace").lower()
            number = file_format_code(name)
            if number is None:
                raise self._wrong(
                    f"a file's format must be one of {', '.join(sorted(FILE_FORMATS))}; found {name!r:.80}", row
                )
            codes[row] = number
        return codes

    @cached_property
    def record_count(self) -> Offsets:
        """How many rows the files have."""
        return self.stored.required_longs("record_count")

    @cached_property
    def file_size_in_bytes(self) -> Offsets:
        """How long the files are."""
        return self.stored.required_longs("file_size_in_bytes")

    @cached_property
    def sort_order_id(self) -> Column:
        """The sort orders of the files."""
        return self.stored.longs("sort_order_id")

    @cached_property
    def first_row_id(self) -> Column:
        """The ids of the files' first rows (spec: First Row ID Inheritance)."""
        stored = self.stored.longs("first_row_id")
        if self.listed is None or not len(self):
            return stored
        firsts = self.listed.spread(lambda m: -1 if m.first_row_id is None or m.content else m.first_row_id)
        has_ids = firsts >= 0
        inherits = ~stored.known & self.live & has_ids
        uncounted = inherits & (self.record_count < 0)
        if uncounted.any():
            raise self._wrong("a file of unknown row count cannot have row ids", int(np.flatnonzero(uncounted)[0]))
        rows = np.where(inherits, self.record_count, 0)
        before = np.cumsum(rows) - rows
        begins = np.repeat(before[np.minimum(self.listed.begins, len(self) - 1)], self.listed.counts)
        filled = _filled(stored, inherits, firsts + before - begins)
        return Column(filled.values, None if has_ids.all() and filled.valid is None else filled.known & has_ids)

    @property
    def numbered_rows(self) -> int:
        """How many row ids the entries take that inherit theirs."""
        stored = self.stored.longs("first_row_id")
        return int(self.record_count[~stored.known & self.live].sum())

    @cached_property
    def referenced_data_file(self) -> VarBytes:
        """The data files that delete files are for, where they are for one alone."""
        return self.stored.strings("referenced_data_file")

    @cached_property
    def content_offset(self) -> Column:
        """Where deletion vectors begin in their files."""
        return self.stored.longs("content_offset")

    @cached_property
    def content_size_in_bytes(self) -> Column:
        """How long deletion vectors are."""
        return self.stored.longs("content_size_in_bytes")

    @cached_property
    def key_metadata(self) -> VarBytes:
        """What is needed to decrypt the files."""
        return self.stored.strings("key_metadata")

    def split_offsets(self, rows: Offsets) -> list[tuple[int, ...] | None]:
        """Where some of the files may be split, as stored."""
        return self.stored.lists("split_offsets", rows)

    def equality_ids(self, rows: Offsets) -> list[tuple[int, ...] | None]:
        """The columns that some of the files, of equality deletes, compare."""
        return self.stored.lists("equality_ids", rows)

    # partitions and metrics -------------------------------------------------------------------------------------

    def partition(self, field_id: int) -> Column:
        """The values of a partition field, in the layout that `columnar_rows.evaluate` takes."""
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
    def has_metrics_at_hand(self) -> bool:
        """Whether metrics were asked for when the entries were read, so that they need not be looked for now."""
        return bool(self.stored.scan.bounds)

    def stats(self, field_ids: Iterable[int]) -> FileStats:
        """The metrics of some columns, as `columnar_metrics` takes them."""
        return FileStats(self.record_count, {field_id: self.stored.stats(field_id) for field_id in field_ids})

    # objects ----------------------------------------------------------------------------------------------------

    def entry(self, row: int) -> ManifestEntry:
        """One entry as an object; for several, `entries` is quicker."""
        return self.entries(np.array([row]))[0]

    def entries(self, which: Mask | Offsets | None = None, *, metrics: bool = True) -> list[ManifestEntry]:
        """Some entries as objects, by a mask or their numbers; all of them by default.

        Without `metrics` the maps of sizes, counts and bounds are left out, which saves most of the time.
        """
        rows = _rows(which, len(self))
        return [
            ManifestEntry(*values)
            for values in zip(
                map(_STATUS.__getitem__, self.status[rows].tolist()),
                _numbers(self.snapshot_id, rows),
                _numbers(self.sequence_number, rows),
                _numbers(self.file_sequence_number, rows),
                self.data_files(rows, metrics=metrics),
                strict=True,
            )
        ]

    def data_files(self, which: Mask | Offsets | None = None, *, metrics: bool = True) -> list[DataFile]:
        """The files of some entries as objects."""
        rows = _rows(which, len(self))
        nothing = [None] * len(rows)
        columns = zip(*(column_values(f.type, self.partition(f.id), rows) for f in self.partition_type), strict=True)
        partitions = list(columns) if len(self.partition_type) else [()] * len(rows)
        maps = [self.stored.maps(name, rows) if metrics else nothing for name in _METRICS]
        files = [
            DataFile(*values)
            for values in zip(
                map(_CONTENT.__getitem__, self.content[rows].tolist()),
                _texts(self.file_path, rows),
                map(FORMATS.__getitem__, self.file_format[rows].tolist()),
                partitions,
                self.record_count[rows].tolist(),
                self.file_size_in_bytes[rows].tolist(),
                *maps,
                self.key_metadata.take(rows).to_list(),
                self.split_offsets(rows),
                self.equality_ids(rows),
                _numbers(self.sort_order_id, rows),
                _numbers(self.first_row_id, rows),
                _texts(self.referenced_data_file, rows),
                _numbers(self.content_offset, rows),
                _numbers(self.content_size_in_bytes, rows),
                repeat(self.spec_id, len(rows)),
                strict=True,
            )
        ]
        for file in files:
            check_data_file(file)
        return files


# first row ids are counted from all entries of a manifest, and may be of entries that are gone
_DECODED = {name for name, value in vars(ManifestColumns).items() if isinstance(value, cached_property)} - {
    "first_row_id"
}


def _partition_type(stored: Sequence[PartitionSlot], wanted: StructType | None) -> StructType:
    """The type of the partition tuples: the one asked for, and that of the file where nobody knows it any more."""
    if wanted is None:
        return StructType(
            tuple(Field(-1 - n if slot.id is None else slot.id, slot.name, slot.type) for n, slot in enumerate(stored))
        )
    if all(field.type.kind != "unknown" for field in wanted):
        return wanted
    types = {slot.id: slot.type for slot in stored}
    return StructType(
        tuple(replace(f, type=types.get(f.id, f.type)) if f.type.kind == "unknown" else f for f in wanted)
    )


def _taken(column: Column, rows: Offsets) -> Column:
    values = np.asarray(column.values)[rows]
    return Column(values, None if column.valid is None else column.valid[rows])


def _rows(which: Mask | Offsets | None, count: int) -> Offsets:
    if which is None:
        return np.arange(count)
    return np.flatnonzero(which) if which.dtype == np.bool_ else np.asarray(which, np.int64)


def _filled(column: Column, where: Mask, values: int | Offsets) -> Column:
    """The column with other values in some rows, which are known then."""
    known = column.known | where
    return Column(np.where(where, values, np.asarray(column.values)), None if known.all() else known)


def _numbers(column: Column, rows: Offsets) -> list[int | None]:
    values: list[int | None] = np.asarray(column.values)[rows].tolist()
    if column.valid is None:
        return values
    return [one if known else None for one, known in zip(values, column.valid[rows].tolist(), strict=True)]


def _texts(strings: VarBytes, rows: Offsets) -> list[str | None]:
    try:
        return [None if one is None else one.decode() for one in strings.take(rows).to_list()]
    except UnicodeDecodeError:
        raise CorruptFile("a path is not UTF-8") from None
