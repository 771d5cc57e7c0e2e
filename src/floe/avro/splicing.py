"""Manifests rewritten from others: merged, or with files marked as deleted, without decoding the files' descriptions.

An entry is a short head (status, snapshot id, sequence numbers) and a long description of its file. A rewrite changes
the head alone; so the bytes of the description are copied as they are, if the source has the layout of the target, and
else made again from values. First row ids, which files have inherited until then, are filled in (spec: First Row ID
Inheritance).

>>> from floe.avro.manifest_writing import write_manifest
>>> from floe.avro.manifests import read_manifest
>>> from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry, ManifestFile
>>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
>>> from floe.spec.types import Field, INT
>>> schema = Schema((Field(1, "a", INT),))
>>> added = ManifestEntry(EntryStatus.ADDED, 7, None, None, DataFile(FileContent.DATA, "a.orc", "orc", (), 3, 100))
>>> old = write_manifest([added], schema, UNPARTITIONED, format_version=2)
>>> source = read_manifest(old, ManifestFile("m.avro", len(old), 0, sequence_number=5, added_snapshot_id=7))
>>> kept = Kept(source, np.array([0]), np.array([EntryStatus.DELETED]), snapshot_id=np.array([8]))
>>> (entry,) = read_manifest(splice_manifests([kept], schema, UNPARTITIONED, format_version=2)).entries()
>>> entry.status, entry.snapshot_id, entry.sequence_number, entry.data_file == added.data_file
(<EntryStatus.DELETED: 2>, 8, 5, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.avro.container import SCHEMA, write_container
from floe.avro.lanes import Places
from floe.avro.manifest_layout import ManifestLayout, manifest_layout
from floe.avro.manifest_lists import BLOCK_BYTES, blocks_of
from floe.avro.manifest_writing import encode_data_files, encode_heads, manifest_header
from floe.avro.manifests import ManifestColumns
from floe.avro.varints import encode_long
from floe.errors import InvalidUpdate
from floe.spec.manifests.entries import EntryStatus, FileContent, ManifestContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning.columnar_rows import Column
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

__all__ = ["Kept", "splice_manifests"]


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """Entries of a manifest that go into another: which, with which status, and by which snapshots.

    Without `snapshot_id` they keep theirs; sequence numbers they keep always. An entry that stays ADDED, in a manifest
    that was read without inheritance, goes on to inherit.
    """

    columns: ManifestColumns
    rows: Places
    status: NDArray[Any]
    snapshot_id: NDArray[Any] | None = None


def splice_manifests(
    parts: Iterable[Kept],
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
    rows = (row for part in parts for row in _rows(part, target, type_, format_version, content))
    return write_container(header, blocks_of(rows, block_bytes), codec=codec, level=level)


def _rows(
    part: Kept, target: ManifestLayout, type_: StructType, format_version: int, content: ManifestContent
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
    status: Places, numbers: list[list[int | None]], columns: ManifestColumns, rows: Places, format_version: int
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


def _optional(column: Column, rows: Places) -> list[int | None]:
    values: list[int | None] = np.asarray(column.values)[rows].tolist()
    known = column.known[rows]
    return values if known.all() else [v if k else None for v, k in zip(values, known.tolist(), strict=True)]


def _data_files(
    columns: ManifestColumns, rows: Places, target: ManifestLayout, type_: StructType, format_version: int
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


def _slices(raw: bytes, begins: Places, ends: Places) -> list[bytes]:
    return [raw[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
