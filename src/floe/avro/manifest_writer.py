"""Manifests written from entries (spec: Manifests), field by field for all entries, then joined entry by entry.

>>> from floe.avro.manifest_reader import read_manifest
>>> from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent
>>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
>>> from floe.spec.types import Field, INT
>>> entry = ManifestEntry(
...     EntryStatus.ADDED, 7, None, None, DataFile(FileContent.DATA, "a.orc", "orc", (), 3, 100, value_counts={1: 3})
... )
>>> data = write_manifest([entry], Schema((Field(1, "a", INT),)), UNPARTITIONED, format_version=3)
>>> read_manifest(data).entries() == [entry]
True

Manifests rewritten from others: merged, or with files marked as deleted, without decoding the files' descriptions.

An entry is a short head (status, snapshot id, sequence numbers) and a long description of its file. A rewrite changes
the head alone; so the bytes of the description are copied as they are, if the source has the layout of the target, and
else made again from values. First row ids, which files have inherited until then, are filled in (spec: First Row ID
Inheritance).

>>> from floe.avro.manifest_writer import write_manifest
>>> from floe.avro.manifest_reader import read_manifest
>>> from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry, ManifestFile
>>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
>>> from floe.spec.types import Field, INT
>>> schema = Schema((Field(1, "a", INT),))
>>> added = ManifestEntry(EntryStatus.ADDED, 7, None, None, DataFile(FileContent.DATA, "a.orc", "orc", (), 3, 100))
>>> old = write_manifest([added], schema, UNPARTITIONED, format_version=2)
>>> source = read_manifest(old, ManifestFile("m.avro", len(old), 0, sequence_number=5, added_snapshot_id=7))
>>> kept = CopiedEntries(source, np.array([0]), np.array([EntryStatus.DELETED]), snapshot_id=np.array([8]))
>>> (entry,) = read_manifest(splice_manifests([kept], schema, UNPARTITIONED, format_version=2)).entries()
>>> entry.status, entry.snapshot_id, entry.sequence_number, entry.data_file == added.data_file
(<EntryStatus.DELETED: 2>, 8, 5, True)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.avro.container import SCHEMA, write_container
from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_layout import ManifestLayout, manifest_layout
from floe.avro.manifest_lists import BLOCK_BYTES, group_into_blocks
from floe.avro.records import encode_long, make_writer
from floe.avro.vector_decoder import Offsets
from floe.avro.vector_encoder import pack_bounds, pack_counts, pack_long_lists, pack_longs
from floe.errors import InvalidInput, InvalidUpdate, InvalidValue
from floe.spec.codecs.manifest_schemas import (
    DEFAULT_BLOCK_SIZE,
    manifest_entry_schema,
    manifest_entry_type,
    manifest_metadata,
)
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent, ManifestEntry
from floe.spec.manifests.manifest_checks import check_entry_to_write
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning.column_evaluation import Column
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType
from floe.spec.values.value_checks import check

_BATCH = 1024
"""How many entries are encoded together."""


def write_manifest(
    entries: Iterable[ManifestEntry],
    schema: Schema,
    spec: PartitionSpec,
    *,
    format_version: int,
    content: ManifestContent = ManifestContent.DATA,
    partition_type: StructType | None = None,
    codec: str = "deflate",
    level: int | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> bytes:
    """The file of a manifest with some entries, all of one spec.

    Entries are written as they are: numbers to be inherited must be None. `partition_type` is needed only for specs
    with source columns that the schema no longer has. Without a `level`, the codec is set for speed.
    """
    type_ = spec.partition_type(schema) if partition_type is None else partition_type
    header = manifest_header(schema, spec, type_, format_version, content)
    rows = _rows(entries, type_, format_version, content)
    return write_container(header, group_into_blocks(rows, block_bytes), codec=codec, level=level)


def manifest_header(
    schema: Schema, spec: PartitionSpec, partition_type: StructType, format_version: int, content: ManifestContent
) -> dict[str, bytes]:
    """The metadata of a manifest's file, with its Avro schema."""
    metadata = manifest_metadata(schema, spec, format_version, content)
    header = {SCHEMA: json.dumps(manifest_entry_schema(format_version, partition_type), separators=(",", ":")).encode()}
    return header | {key: text.encode() for key, text in metadata.items()}


def _rows(
    entries: Iterable[ManifestEntry], type_: StructType, format_version: int, content: ManifestContent
) -> Iterable[bytes]:
    encode = encode_data_files(type_, format_version)
    all_entries = entries if isinstance(entries, Sequence) else list(entries)
    for begin in range(0, len(all_entries), _BATCH):
        batch = all_entries[begin : begin + _BATCH]
        for entry in batch:
            if not _is_plain(entry, format_version, content):
                _check(entry, format_version, content)
        heads = encode_heads(
            format_version,
            [(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in batch],
        )
        files = encode([entry.data_file for entry in batch])
        yield from map(bytes.__add__, heads, files)


def _is_plain(entry: ManifestEntry, format_version: int, content: ManifestContent) -> bool:
    """Whether there is nothing to check: a new data file in a manifest of data, as nearly all entries are."""
    file = entry.data_file
    return (
        entry.status is EntryStatus.ADDED
        and entry.file_sequence_number is None
        and file.first_row_id is None
        and file.content is FileContent.DATA
        and content is ManifestContent.DATA
        and format_version > 1
    )


def _check(entry: ManifestEntry, format_version: int, content: ManifestContent) -> None:
    check_entry_to_write(entry, format_version)
    if (entry.data_file.content is FileContent.DATA) != (content is ManifestContent.DATA):
        raise InvalidUpdate(
            f"a manifest of {content.text} cannot list a file of {entry.data_file.content.name.lower()}",
            file=entry.data_file.file_path,
        )


def encode_heads(format_version: int, heads: Iterable[tuple[int, int | None, int | None, int | None]]) -> list[bytes]:
    r"""The bytes of entries in front of their files: status, snapshot id, and both sequence numbers.

    >>> encode_heads(2, [(1, 7, None, None)])
    [b'\x02\x02\x0e\x00\x00']
    """
    known: dict[tuple[int, int | None, int | None, int | None], bytes] = {}
    stored = 2 if format_version < 2 else 4
    found = []
    for head in heads:
        data = known.get(head)
        if data is None:
            numbers = [b"\0" if value is None else b"\2" + encode_long(value) for value in head[1:stored]]
            data = known[head] = b"".join((encode_long(head[0]), *numbers))
        found.append(data)
    return found


_Column = Callable[[Sequence[DataFile]], Iterable[bytes]]


def encode_data_files(partition_type: StructType, format_version: int) -> Callable[[Sequence[DataFile]], list[bytes]]:
    """What encodes the files of entries, for the schema of that version."""
    entry = manifest_entry_type(format_version, partition_type)
    file_type = next(child.type for child in entry if child.name == "data_file")
    assert isinstance(file_type, StructType)
    columns: list[_Column] = [
        _partitions(partition_type) if child.name == "partition" else _COLUMNS[child.name] for child in file_type
    ]

    def encode(files: Sequence[DataFile]) -> list[bytes]:
        return list(map(b"".join, zip(*[column(files) for column in columns], strict=True)))

    return encode


def _check_stored(field: Field, value: Any) -> None:
    """Partition values are given as they are stored, which the hint for values in general does not say."""
    try:
        check(field.type, value)
    except InvalidValue as error:
        error.hint = "partition values are given as they are stored, such as a date as days from 1970-01-01: "
        error.hint += "floe.spec.values.conversion.convert makes them of others"
        raise error.with_context(partition=field.name) from None


def _partitions(type_: StructType) -> _Column:
    """Partition tuples repeat, so that each is checked and encoded once.

    The key is the tuple with the types of its values: `0.0`, `-0.0` and `False` are equal to Python.
    """
    write = make_writer(type_)
    fields = type_.fields

    def encode(partition: tuple[Any, ...]) -> bytes:
        if len(partition) != len(fields):
            raise InvalidInput(f"a partition tuple must have {len(fields)} values, found {len(partition)}")
        for child, value in zip(fields, partition, strict=True):
            if value is not None:
                _check_stored(child, value)
        return write(partition)

    if any(child.type.kind in ("float", "double") for child in fields):
        return lambda files: [encode(file.partition) for file in files]

    known: dict[tuple[Any, ...], bytes] = {}

    def column(files: Sequence[DataFile]) -> list[bytes]:
        found = []
        for file in files:
            partition = file.partition
            data = known.get(partition)
            if data is None:
                data = known[partition] = encode(partition)
            found.append(data)
        return found

    return column


def _required_longs(name: str) -> _Column:
    return lambda files: pack_longs([getattr(file, name) for file in files])


def _optional_longs(name: str) -> _Column:
    def column(files: Sequence[DataFile]) -> list[bytes]:
        known: dict[int | None, bytes] = {None: b"\0"}
        found = []
        for file in files:
            value = getattr(file, name)
            data = known.get(value)
            if data is None:
                data = known[value] = b"\2" + encode_long(value)
            found.append(data)
        return found

    return column


def _strings(name: str, *, tag: bytes = b"") -> _Column:
    get = attrgetter(name)

    def column(files: Sequence[DataFile]) -> list[bytes]:
        values = [value.encode() if isinstance(value, str) else value for value in map(get, files)]
        heads = {size: tag + encode_long(size) for size in {len(value) for value in values if value is not None}}
        return [b"\0" if value is None else heads[len(value)] + value for value in values]

    return column


def _formats(files: Sequence[DataFile]) -> list[bytes]:
    """Format names in capitals, as other writers spell them."""
    known = {name: encode_long(len(name)) + name.upper().encode() for name in {file.file_format for file in files}}
    return [known[file.file_format] for file in files]


_COLUMNS: dict[str, _Column] = {
    "content": lambda files: [b"\0\2\4"[file.content : file.content + 1] for file in files],
    "file_path": _strings("file_path"),
    "file_format": _formats,
    "record_count": _required_longs("record_count"),
    "file_size_in_bytes": _required_longs("file_size_in_bytes"),
    "block_size_in_bytes": lambda files: [encode_long(DEFAULT_BLOCK_SIZE)] * len(files),
    "column_sizes": lambda files: pack_counts([file.column_sizes for file in files]),
    "value_counts": lambda files: pack_counts([file.value_counts for file in files]),
    "null_value_counts": lambda files: pack_counts([file.null_value_counts for file in files]),
    "nan_value_counts": lambda files: pack_counts([file.nan_value_counts for file in files]),
    "lower_bounds": lambda files: pack_bounds([file.lower_bounds for file in files]),
    "upper_bounds": lambda files: pack_bounds([file.upper_bounds for file in files]),
    "key_metadata": _strings("key_metadata", tag=b"\2"),
    "split_offsets": lambda files: pack_long_lists([file.split_offsets for file in files]),
    "equality_ids": lambda files: pack_long_lists([file.equality_ids for file in files]),
    "sort_order_id": _optional_longs("sort_order_id"),
    "first_row_id": _optional_longs("first_row_id"),
    "referenced_data_file": _strings("referenced_data_file", tag=b"\2"),
    "content_offset": _optional_longs("content_offset"),
    "content_size_in_bytes": _optional_longs("content_size_in_bytes"),
}

# Manifests rewritten from others: merged, or with files marked as deleted, without decoding the files' descriptions.


@dataclass(frozen=True, eq=False, slots=True)
class CopiedEntries:
    """Entries of a manifest that go into another: which, with which status, and by which snapshots.

    Without `snapshot_id` they keep theirs; sequence numbers they keep always. An entry that stays ADDED, in a manifest
    that was read without inheritance, goes on to inherit.
    """

    columns: ManifestColumns
    rows: Offsets
    status: NDArray[Any]
    snapshot_id: NDArray[Any] | None = None


def splice_manifests(
    parts: Iterable[CopiedEntries],
    schema: Schema,
    spec: PartitionSpec,
    *,
    format_version: int,
    content: ManifestContent = ManifestContent.DATA,
    partition_type: StructType | None = None,
    codec: str = "deflate",
    level: int | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> bytes:
    """The file of a manifest with entries of others, which are of the same spec, in the order given."""
    type_ = spec.partition_type(schema) if partition_type is None else partition_type
    header = manifest_header(schema, spec, type_, format_version, content)
    target = manifest_layout(header[SCHEMA])
    rows = (row for part in parts for row in _spliced_rows(part, target, type_, format_version, content))
    return write_container(header, group_into_blocks(rows, block_bytes), codec=codec, level=level)


def _spliced_rows(
    part: CopiedEntries, target: ManifestLayout, type_: StructType, format_version: int, content: ManifestContent
) -> Iterator[bytes]:
    columns, rows = part.columns, part.rows
    if (np.equal(columns.content[rows], FileContent.DATA) != (content is ManifestContent.DATA)).any():
        raise InvalidUpdate(f"a manifest of {content.text} gets files of the other kind")
    status = np.asarray(part.status, np.int64)
    numbers = [_optional(column, rows) for column in (columns.sequence_number, columns.file_sequence_number)]
    _check_numbers(status, numbers, columns, rows, format_version)
    snapshots = _optional(columns.snapshot_id, rows) if part.snapshot_id is None else part.snapshot_id.tolist()
    heads = encode_heads(format_version, zip(status.tolist(), snapshots, *numbers, strict=True))
    return map(bytes.__add__, heads, _data_files(columns, rows, target, type_, format_version))


def _check_numbers(
    status: Offsets, numbers: list[list[int | None]], columns: ManifestColumns, rows: Offsets, format_version: int
) -> None:
    if format_version < 2:
        return
    for row, is_added, number in zip(
        rows.tolist(), np.equal(status, EntryStatus.ADDED).tolist(), numbers[0], strict=True
    ):
        if not is_added and number is None:
            path = columns.file_path.take(np.array([row])).to_list()[0] or b""
            raise InvalidUpdate(
                "the entry of a file that is not new must carry its sequence_number", file=path.decode(errors="replace")
            )


def _optional(column: Column, rows: Offsets) -> list[int | None]:
    values: list[int | None] = np.asarray(column.values)[rows].tolist()
    known = column.known[rows]
    return values if known.all() else [v if k else None for v, k in zip(values, known.tolist(), strict=True)]


def _data_files(
    columns: ManifestColumns, rows: Offsets, target: ManifestLayout, type_: StructType, format_version: int
) -> Iterable[bytes]:
    """The descriptions of files, copied where that is exact."""
    scan = columns.stored.scan
    if scan.taken or not target.same_data_file(scan.layout):
        return encode_data_files(type_, format_version)(columns.data_files(rows))
    own = scan.layout.data_file
    begins = scan.starts[own.start][rows]
    ends = (scan.starts[own.stop] if own.stop < len(scan.starts) else scan.ends)[rows]
    slot = scan.layout.index.get("first_row_id")
    if slot is None:
        return _slices(scan.raw, begins, ends)
    middle, after = scan.starts[slot][rows], scan.starts[slot + 1][rows]
    ids = _optional(columns.first_row_id, rows)
    filled = [b"\0" if value is None else b"\2" + encode_long(value) for value in ids]
    return map(_join, zip(_slices(scan.raw, begins, middle), filled, _slices(scan.raw, after, ends), strict=True))


_join = b"".join


def _slices(raw: bytes, begins: Offsets, ends: Offsets) -> list[bytes]:
    return [raw[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
