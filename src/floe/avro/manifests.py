"""Manifests read into columns: what planning looks at as arrays, and Python objects only for the files that are left.

Reading finds where every value is; a column is decoded when it is first asked for. Strings and bounds stay where they
are, as slices of the decompressed bytes, and the metrics of a column are looked up by its id. What entries inherit from
their manifest (snapshot id, sequence numbers, first row ids) is filled in, by the rules of `floe.spec.manifests`.

>>> from floe.avro.manifest_writing import write_manifest
>>> from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent
>>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
>>> entry = ManifestEntry(EntryStatus.ADDED, None, None, None, file)
>>> written = write_manifest([entry], Schema((Field(1, "a", INT),)), UNPARTITIONED, format_version=2)
>>> manifest = ManifestFile("m.avro", len(written), 0, sequence_number=5, added_snapshot_id=77)
>>> columns = read_manifest(written, manifest)
>>> columns.record_count.tolist(), columns.sequence_number.values.tolist(), columns.file_path.to_list()
([3], [5], [b'a.parquet'])
>>> columns.entry(0).data_file == file
True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from floe.avro.container import Container, Limits, open_container
from floe.avro.lanes import Places
from floe.avro.listed import Listed
from floe.avro.manifest_layout import ManifestLayout, PartitionSlot, manifest_layout
from floe.avro.scanning import Scan, scan_blocks
from floe.avro.stored_columns import StoredColumns, column_values
from floe.avro.taking import take_entries
from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.manifests.checks import check_data_file
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_metrics import FileStats
from floe.spec.pruning.columnar_rows import Column
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import Field, StructType

__all__ = ["FORMATS", "ManifestColumns", "read_joined_manifests", "read_manifest", "read_manifests"]

FORMATS = ("parquet", "orc", "avro", "puffin")
"""The file formats, by the numbers that stand for them in `ManifestColumns.file_format`."""

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
_BATCH_BYTES = 8 * 2**20


def read_manifest(
    data: bytes,
    manifest: ManifestFile | None = None,
    *,
    partition_type: StructType | None = None,
    metrics: Collection[int] = (),
    limits: Limits | None = None,
) -> ManifestColumns:
    """The entries of a manifest, given the bytes of its file.

    With `manifest`, as the manifest list describes it, entries inherit from it; without, they are as stored. Partition
    values come in the order and types of `partition_type`, or of the file if it is not given. `metrics` are the ids of
    columns whose metrics will be wanted; they are quicker to find on the way, and can be asked for later all the same.
    """
    (columns,) = _columns([_open(data, manifest, limits)], lambda spec_id: partition_type, metrics)
    return columns


def read_manifests(
    files: Iterable[bytes],
    manifests: Sequence[ManifestFile] | None = None,
    *,
    partition_types: Mapping[int, StructType] | None = None,
    metrics: Collection[int] = (),
    limits: Limits | None = None,
) -> Iterator[ManifestColumns]:
    """The entries of many manifests, each as `read_manifest` gives them; partition types are by spec id.

    Small manifests of one schema that follow one another are read together, which is much quicker.
    """
    type_of = (partition_types or {}).get
    for batch in _batches(files, manifests, limits):
        yield from _columns(batch, type_of, metrics)


def read_joined_manifests(
    files: Iterable[bytes],
    manifests: Sequence[ManifestFile],
    *,
    partition_types: Mapping[int, StructType] | None = None,
    metrics: Collection[int] = (),
    limits: Limits | None = None,
) -> Iterator[ManifestColumns]:
    """The entries of many manifests, those of one schema and spec that follow one another in one set of columns.

    Each row inherits from its own manifest. For tables of many small manifests this saves most of the work.
    """
    type_of = (partition_types or {}).get
    for batch in _batches(files, manifests, limits):
        yield from _joined_columns(batch, type_of, metrics)


def _batches(
    files: Iterable[bytes], manifests: Sequence[ManifestFile] | None, limits: Limits | None
) -> Iterator[list[_Opened]]:
    """Small manifests that follow one another and can be scanned together."""
    batch: list[_Opened] = []
    for number, data in enumerate(files):
        opened = _open(data, None if manifests is None else manifests[number], limits)
        if batch and (not batch[0].like(opened) or sum(one.size for one in batch) > _BATCH_BYTES):
            yield batch
            batch = []
        batch.append(opened)
    yield batch


class _Opened:
    """A manifest that is decompressed and not scanned yet."""

    def __init__(self, container: Container, manifest: ManifestFile | None) -> None:
        self.metadata = container.metadata
        self.manifest = manifest
        self.layout: ManifestLayout = manifest_layout(container.schema_text)
        self.blocks = container.decompressed(self.layout.smallest)
        self.counts = [block.count for block in container.blocks]
        self.size = sum(map(len, self.blocks))
        text = container.text("partition-spec-id")
        self.spec_id = _spec_id(manifest, text)

    @property
    def path(self) -> str | None:
        return None if self.manifest is None else self.manifest.manifest_path

    def like(self, other: _Opened) -> bool:
        """Whether both can be scanned together, and joined."""
        if self.layout is not other.layout or self.spec_id != other.spec_id:
            return False
        return self.manifest is None or other.manifest is None or self.manifest.content == other.manifest.content


def _open(data: bytes, manifest: ManifestFile | None, limits: Limits | None) -> _Opened:
    try:
        return _Opened(open_container(data, limits), manifest)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(manifest=None if manifest is None else manifest.manifest_path) from None


def _spec_id(manifest: ManifestFile | None, text: str | None) -> int:
    if manifest is not None:
        return manifest.partition_spec_id
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _columns(
    batch: list[_Opened], type_of: Callable[[int], StructType | None], metrics: Collection[int]
) -> Iterator[ManifestColumns]:
    if not batch:
        return
    scan = _scan(batch, metrics)
    begin = 0
    for one in batch:
        end = begin + sum(one.counts)
        part = scan if len(batch) == 1 else scan.part(begin, end)
        yield ManifestColumns(part, one.manifest, type_of(one.spec_id), one.spec_id, one.metadata)
        begin = end


def _joined_columns(
    batch: list[_Opened], type_of: Callable[[int], StructType | None], metrics: Collection[int]
) -> Iterator[ManifestColumns]:
    if batch:
        listed = Listed.of([one.manifest for one in batch if one.manifest], [sum(one.counts) for one in batch])
        first, scan = batch[0], _scan(batch, metrics)
        yield ManifestColumns(scan, listed, type_of(first.spec_id), first.spec_id, first.metadata)


def _scan(batch: list[_Opened], metrics: Collection[int]) -> Scan:
    counts = [count for one in batch for count in one.counts]
    blocks = batch[0].blocks if len(batch) == 1 else [block for one in batch for block in one.blocks]
    try:
        return scan_blocks(batch[0].layout, blocks, counts, metrics)
    except CorruptFile as error:
        if len(batch) > 1:  # find out which of them it is
            for one in batch:
                _scan([one], metrics)
        raise error.with_context(manifest=batch[0].path) from None


class ManifestColumns:
    """The entries of a manifest as columns, in their order.

    Numbers that may be null come as `Column`s, strings as `VarBytes`; each is decoded when it is first looked at.
    """

    def __init__(
        self,
        scan: Scan,
        manifest: ManifestFile | Listed | None,
        partition_type: StructType | None,
        spec_id: int,
        metadata: Mapping[str, bytes],
    ) -> None:
        self.stored = StoredColumns(scan)
        self.listed = Listed.of([manifest], [len(scan)]) if isinstance(manifest, ManifestFile) else manifest
        """The manifests of the rows, from which they inherit; None if they are as stored."""

        self.spec_id = spec_id
        self.metadata = metadata
        self.partition_type = _partition_type(scan.layout.partition, partition_type)
        self._partitions: dict[int, Column] = {}

    @property
    def manifest(self) -> ManifestFile | None:
        """The one manifest of all rows, or None."""
        return self.listed.manifests[0] if self.listed is not None and len(self.listed) == 1 else None

    def take(self, rows: Places, *, metrics: bool = True) -> ManifestColumns:
        """The entries at some rows, in ascending order, without the bytes of the others; the metrics may go too."""
        scan = take_entries(self.stored.scan, rows, () if metrics else _METRICS)
        listed = None if self.listed is None else self.listed.take(rows)
        taken = ManifestColumns(scan, listed, self.partition_type, self.spec_id, self.metadata)
        if "first_row_id" in self.stored.scan.layout.index:  # counted from all entries, so it cannot be found later
            taken.__dict__["first_row_id"] = _taken(self.first_row_id, rows)
        for name in ("record_count", "status"):  # what was decoded already
            if name in self.__dict__:
                taken.__dict__[name] = self.__dict__[name][rows]
        return taken

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
    def status(self) -> Places:
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
    def content(self) -> Places:
        """What the files hold: the numbers of `FileContent`."""
        content: Places = np.asarray(self.stored.longs("content").values)
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
        """The formats of the files: places in `FORMATS`, whatever the case they are written in."""
        strings = self._required_strings("file_format")
        found = np.full(len(self), -1, np.int8)
        for code, name in enumerate(FORMATS):
            for word in (name.upper().encode(), name.encode()):
                found[strings.starts_with(word) & (strings.lengths == len(word))] = code
        for row in np.flatnonzero(found < 0).tolist():
            word = strings.take(np.array([row])).to_list()[0] or b""
            name = word.decode(errors="replace").lower()
            if name not in FORMATS:
                raise self._wrong(
                    f"a file's format must be one of {', '.join(sorted(FORMATS))}; found {name!r:.80}", row
                )
            found[row] = FORMATS.index(name)
        return found

    @cached_property
    def record_count(self) -> Places:
        """How many rows the files have."""
        return self.stored.required_longs("record_count")

    @cached_property
    def file_size_in_bytes(self) -> Places:
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

    def split_offsets(self, rows: Places) -> list[tuple[int, ...] | None]:
        """Where some of the files may be split, as stored."""
        return self.stored.lists("split_offsets", rows)

    def equality_ids(self, rows: Places) -> list[tuple[int, ...] | None]:
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

    def stats(self, field_ids: Iterable[int]) -> FileStats:
        """The metrics of some columns, as `columnar_metrics` takes them."""
        return FileStats(self.record_count, {field_id: self.stored.stats(field_id) for field_id in field_ids})

    # objects ----------------------------------------------------------------------------------------------------

    def entry(self, row: int) -> ManifestEntry:
        """One entry as an object; for several, `entries` is quicker."""
        return self.entries(np.array([row]))[0]

    def entries(self, which: Mask | Places | None = None, *, metrics: bool = True) -> list[ManifestEntry]:
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

    def data_files(self, which: Mask | Places | None = None, *, metrics: bool = True) -> list[DataFile]:
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


def _taken(column: Column, rows: Places) -> Column:
    values = np.asarray(column.values)[rows]
    return Column(values, None if column.valid is None else column.valid[rows])


def _rows(which: Mask | Places | None, count: int) -> Places:
    if which is None:
        return np.arange(count)
    return np.flatnonzero(which) if which.dtype == np.bool_ else np.asarray(which, np.int64)


def _filled(column: Column, where: Mask, values: int | Places) -> Column:
    """The column with other values in some rows, which are known then."""
    known = column.known | where
    return Column(np.where(where, values, np.asarray(column.values)), None if known.all() else known)


def _numbers(column: Column, rows: Places) -> list[int | None]:
    values: list[int | None] = np.asarray(column.values)[rows].tolist()
    if column.valid is None:
        return values
    return [one if known else None for one, known in zip(values, column.valid[rows].tolist(), strict=True)]


def _texts(strings: VarBytes, rows: Places) -> list[str | None]:
    try:
        return [None if one is None else one.decode() for one in strings.take(rows).to_list()]
    except UnicodeDecodeError:
        raise CorruptFile("a path is not UTF-8") from None
