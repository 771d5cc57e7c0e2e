"""Writes manifests, from entries or from the entries of other manifests (spec: Manifests).

`write_manifest` encodes each field for a batch of entries at once, and joins the fields of each entry.

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

`splice_manifests` writes entries of other manifests: to merge manifests, or to mark files as deleted. An entry is a
short head (status, snapshot id, sequence numbers) and a long data file. Only the head changes, so the bytes of the data
file are copied if the source has the same layout as the target; otherwise they are decoded and encoded. Inherited first
row ids are filled in (spec: First Row ID Inheritance).

>>> from floe.spec.manifests.entries import ManifestFile
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

_BATCH_ENTRIES = 1024
"""The number of entries that are encoded together."""


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
    """Write a manifest with entries of one partition spec, and return its bytes.

    Entries are written as they are: values to inherit must be None. `partition_type` is needed only for specs whose
    source columns the schema does not have any more. Without `level`, the compression level is chosen for speed.
    """
    type_ = spec.partition_type(schema) if partition_type is None else partition_type
    header = manifest_header(schema, spec, type_, format_version, content)
    rows = _encode_rows(entries, type_, format_version, content)
    return write_container(header, group_into_blocks(rows, block_bytes), codec=codec, level=level)


def manifest_header(
    schema: Schema, spec: PartitionSpec, partition_type: StructType, format_version: int, content: ManifestContent
) -> dict[str, bytes]:
    """The metadata in the header of a manifest, with its Avro schema."""
    metadata = manifest_metadata(schema, spec, format_version, content)
    header = {SCHEMA: json.dumps(manifest_entry_schema(format_version, partition_type), separators=(",", ":")).encode()}
    return header | {key: text.encode() for key, text in metadata.items()}


def _encode_rows(
    entries: Iterable[ManifestEntry], type_: StructType, format_version: int, content: ManifestContent
) -> Iterable[bytes]:
    encode = encode_data_files(type_, format_version)
    all_entries = entries if isinstance(entries, Sequence) else list(entries)
    for begin in range(0, len(all_entries), _BATCH_ENTRIES):
        batch = all_entries[begin : begin + _BATCH_ENTRIES]
        for entry in batch:
            if not _is_new_data_file(entry, format_version, content):
                _check_entry(entry, format_version, content)
        heads = encode_heads(
            format_version,
            [(e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number) for e in batch],
        )
        files = encode([entry.data_file for entry in batch])
        yield from map(bytes.__add__, heads, files)


def _is_new_data_file(entry: ManifestEntry, format_version: int, content: ManifestContent) -> bool:
    """Whether an entry adds a new data file to a data manifest, as most do; there is nothing to check then."""
    file = entry.data_file
    return (
        entry.status is EntryStatus.ADDED
        and entry.file_sequence_number is None
        and file.first_row_id is None
        and file.content is FileContent.DATA
        and content is ManifestContent.DATA
        and format_version > 1
    )


def _check_entry(entry: ManifestEntry, format_version: int, content: ManifestContent) -> None:
    check_entry_to_write(entry, format_version)
    if (entry.data_file.content is FileContent.DATA) != (content is ManifestContent.DATA):
        raise InvalidUpdate(
            f"a manifest of {content.text} cannot list a file of {entry.data_file.content.name.lower()}",
            file=entry.data_file.file_path,
        )


def encode_heads(format_version: int, heads: Iterable[tuple[int, int | None, int | None, int | None]]) -> list[bytes]:
    r"""Encode the heads of entries, the fields before the data file: status, snapshot id and both sequence numbers.

    >>> encode_heads(2, [(1, 7, None, None)])
    [b'\x02\x02\x0e\x00\x00']
    """
    encoded: dict[tuple[int, int | None, int | None, int | None], bytes] = {}
    field_count = 2 if format_version < 2 else 4
    rows = []
    for head in heads:
        row = encoded.get(head)
        if row is None:
            numbers = [b"\0" if value is None else b"\2" + encode_long(value) for value in head[1:field_count]]
            row = encoded[head] = b"".join((encode_long(head[0]), *numbers))
        rows.append(row)
    return rows


_Encoder = Callable[[Sequence[DataFile]], Iterable[bytes]]


def encode_data_files(partition_type: StructType, format_version: int) -> Callable[[Sequence[DataFile]], list[bytes]]:
    """Return a function that encodes the data files of entries with the schema of a format version."""
    entry = manifest_entry_type(format_version, partition_type)
    file_type = next(child.type for child in entry if child.name == "data_file")
    assert isinstance(file_type, StructType)
    encoders: list[_Encoder] = [
        _partition_encoder(partition_type) if child.name == "partition" else _ENCODERS[child.name]
        for child in file_type
    ]

    def encode(files: Sequence[DataFile]) -> list[bytes]:
        return list(map(b"".join, zip(*[encode_column(files) for encode_column in encoders], strict=True)))

    return encode


def _check_partition_value(field: Field, value: Any) -> None:
    """Check a value of a partition tuple; raises InvalidValue if it does not have the field's type."""
    # the hint of `check` is for values of columns; partition values have their stored form
    try:
        check(field.type, value)
    except InvalidValue as error:
        error.hint = "partition values have their stored form, for example days from 1970-01-01 for a date: "
        error.hint += "floe.spec.values.conversion.convert converts other values to it"
        raise error.with_context(partition=field.name) from None


def _partition_encoder(type_: StructType) -> _Encoder:
    """Return an encoder of partition tuples. Tuples repeat, so each is checked and encoded once."""
    write = make_writer(type_)
    fields = type_.fields

    def encode(partition: tuple[Any, ...]) -> bytes:
        if len(partition) != len(fields):
            raise InvalidInput(f"a partition tuple must have {len(fields)} values, found {len(partition)}")
        for child, value in zip(fields, partition, strict=True):
            if value is not None:
                _check_partition_value(child, value)
        return write(partition)

    if any(child.type.kind in ("float", "double") for child in fields):
        # not cached: 0.0 and -0.0 are the same key in a dict, but have different bytes
        return lambda files: [encode(file.partition) for file in files]

    encoded: dict[tuple[Any, ...], bytes] = {}

    def encode_column(files: Sequence[DataFile]) -> list[bytes]:
        column = []
        for file in files:
            partition = file.partition
            partition_bytes = encoded.get(partition)
            if partition_bytes is None:
                partition_bytes = encoded[partition] = encode(partition)
            column.append(partition_bytes)
        return column

    return encode_column


def _required_long_encoder(name: str) -> _Encoder:
    return lambda files: pack_longs([getattr(file, name) for file in files])


def _optional_long_encoder(name: str) -> _Encoder:
    def encode_column(files: Sequence[DataFile]) -> list[bytes]:
        encoded: dict[int | None, bytes] = {None: b"\0"}
        column = []
        for file in files:
            value = getattr(file, name)
            value_bytes = encoded.get(value)
            if value_bytes is None:
                value_bytes = encoded[value] = b"\2" + encode_long(value)
            column.append(value_bytes)
        return column

    return encode_column


def _string_encoder(name: str, *, tag: bytes = b"") -> _Encoder:
    get = attrgetter(name)

    def encode_column(files: Sequence[DataFile]) -> list[bytes]:
        values = [value.encode() if isinstance(value, str) else value for value in map(get, files)]
        heads = {size: tag + encode_long(size) for size in {len(value) for value in values if value is not None}}
        return [b"\0" if value is None else heads[len(value)] + value for value in values]

    return encode_column


def _encode_formats(files: Sequence[DataFile]) -> list[bytes]:
    """Encode the format names in upper case, as other writers do."""
    encoded = {name: encode_long(len(name)) + name.upper().encode() for name in {file.file_format for file in files}}
    return [encoded[file.file_format] for file in files]


_ENCODERS: dict[str, _Encoder] = {
    "content": lambda files: [b"\0\2\4"[file.content : file.content + 1] for file in files],
    "file_path": _string_encoder("file_path"),
    "file_format": _encode_formats,
    "record_count": _required_long_encoder("record_count"),
    "file_size_in_bytes": _required_long_encoder("file_size_in_bytes"),
    "block_size_in_bytes": lambda files: [encode_long(DEFAULT_BLOCK_SIZE)] * len(files),
    "column_sizes": lambda files: pack_counts([file.column_sizes for file in files]),
    "value_counts": lambda files: pack_counts([file.value_counts for file in files]),
    "null_value_counts": lambda files: pack_counts([file.null_value_counts for file in files]),
    "nan_value_counts": lambda files: pack_counts([file.nan_value_counts for file in files]),
    "lower_bounds": lambda files: pack_bounds([file.lower_bounds for file in files]),
    "upper_bounds": lambda files: pack_bounds([file.upper_bounds for file in files]),
    "key_metadata": _string_encoder("key_metadata", tag=b"\2"),
    "split_offsets": lambda files: pack_long_lists([file.split_offsets for file in files]),
    "equality_ids": lambda files: pack_long_lists([file.equality_ids for file in files]),
    "sort_order_id": _optional_long_encoder("sort_order_id"),
    "first_row_id": _optional_long_encoder("first_row_id"),
    "referenced_data_file": _string_encoder("referenced_data_file", tag=b"\2"),
    "content_offset": _optional_long_encoder("content_offset"),
    "content_size_in_bytes": _optional_long_encoder("content_size_in_bytes"),
}

# Manifests from entries of other manifests --------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class CopiedEntries:
    """Entries of a manifest that are copied to another, with a new status.

    They keep their sequence numbers. An entry that stays ADDED, from a manifest that was read without inheritance,
    still inherits.
    """

    columns: ManifestColumns
    rows: Offsets
    """The rows of the entries in `columns`."""

    status: NDArray[Any]
    """The new status of each entry."""

    snapshot_id: NDArray[Any] | None = None
    """The new snapshot id of each entry; None to keep the ids."""


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
    """Write a manifest with entries of other manifests of the same partition spec, in order, and return its bytes."""
    type_ = spec.partition_type(schema) if partition_type is None else partition_type
    header = manifest_header(schema, spec, type_, format_version, content)
    target = manifest_layout(header[SCHEMA])
    rows = (row for part in parts for row in _splice_rows(part, target, type_, format_version, content))
    return write_container(header, group_into_blocks(rows, block_bytes), codec=codec, level=level)


def _splice_rows(
    part: CopiedEntries, target: ManifestLayout, type_: StructType, format_version: int, content: ManifestContent
) -> Iterator[bytes]:
    columns, rows = part.columns, part.rows
    if (np.equal(columns.content[rows], FileContent.DATA) != (content is ManifestContent.DATA)).any():
        raise InvalidUpdate(f"a manifest of {content.text} cannot list files of other content")
    status = np.asarray(part.status, np.int64)
    sequence_numbers = [
        _optional_values(column, rows) for column in (columns.sequence_number, columns.file_sequence_number)
    ]
    _check_sequence_numbers(status, sequence_numbers, columns, rows, format_version)
    snapshots = _optional_values(columns.snapshot_id, rows) if part.snapshot_id is None else part.snapshot_id.tolist()
    heads = encode_heads(format_version, zip(status.tolist(), snapshots, *sequence_numbers, strict=True))
    return map(bytes.__add__, heads, _copy_data_files(columns, rows, target, type_, format_version))


def _check_sequence_numbers(
    status: Offsets,
    sequence_numbers: list[list[int | None]],
    columns: ManifestColumns,
    rows: Offsets,
    format_version: int,
) -> None:
    if format_version < 2:
        return
    for row, is_added, sequence_number in zip(
        rows.tolist(), np.equal(status, EntryStatus.ADDED).tolist(), sequence_numbers[0], strict=True
    ):
        if not is_added and sequence_number is None:
            path = columns.file_path.take(np.array([row])).to_list()[0] or b""
            raise InvalidUpdate(
                "the entry of a file that is not new must have a sequence_number", file=path.decode(errors="replace")
            )


def _optional_values(column: Column, rows: Offsets) -> list[int | None]:
    values: list[int | None] = np.asarray(column.values)[rows].tolist()
    is_known = column.is_valid[rows]
    return (
        values
        if is_known.all()
        else [value if known else None for value, known in zip(values, is_known.tolist(), strict=True)]
    )


def _copy_data_files(
    columns: ManifestColumns, rows: Offsets, target: ManifestLayout, type_: StructType, format_version: int
) -> Iterable[bytes]:
    """The encoded data files of some entries: copied if the layouts are the same, otherwise decoded and encoded."""
    scan = columns.stored.scan
    if scan.is_subset or not target.same_data_file(scan.layout):
        return encode_data_files(type_, format_version)(columns.data_files(rows))
    data_file_slots = scan.layout.data_file
    begins = scan.starts[data_file_slots.start][rows]
    ends = (scan.starts[data_file_slots.stop] if data_file_slots.stop < len(scan.starts) else scan.ends)[rows]
    slot = scan.layout.index.get("first_row_id")
    if slot is None:
        return _slice_bytes(scan.raw, begins, ends)
    id_starts, id_ends = scan.starts[slot][rows], scan.starts[slot + 1][rows]
    ids = _optional_values(columns.first_row_id, rows)
    encoded_ids = [b"\0" if value is None else b"\2" + encode_long(value) for value in ids]
    return map(
        _join,
        zip(_slice_bytes(scan.raw, begins, id_starts), encoded_ids, _slice_bytes(scan.raw, id_ends, ends), strict=True),
    )


_join = b"".join


def _slice_bytes(raw: bytes, begins: Offsets, ends: Offsets) -> list[bytes]:
    return [raw[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
