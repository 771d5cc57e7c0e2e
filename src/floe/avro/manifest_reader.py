"""Reads manifests into columns, and the manifests of a snapshot.

`read_manifest` and the other readers return `ManifestColumns`: planning works on arrays, and Python objects are created
only for the files that remain. Reading decompresses a manifest and finds the offsets of all values; a column is decoded
on first use. Strings and bounds are slices of the decompressed bytes. Values that entries inherit from their manifest
(snapshot id, sequence numbers, first row ids) are filled in, by the rules of `floe.spec.manifests`.

>>> from floe.avro.manifest_writer import write_manifest
>>> from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry
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

`read_snapshot_manifests` returns the manifests of a snapshot, from its manifest list, or, for old tables of format
version 1, from the paths in the snapshot.

>>> from floe.avro.manifest_lists import write_manifest_list
>>> from floe.storage.memory import MemoryStorage
>>> storage = MemoryStorage()
>>> manifests = [ManifestFile("memory:t/m.avro", 100, 0, added_snapshot_id=7)]
>>> listed = write_manifest_list(manifests, format_version=1, snapshot_id=7, parent_snapshot_id=None)
>>> storage.write("memory:t/snap-7.avro", listed)
>>> snapshot = Snapshot(snapshot_id=7, timestamp_ms=1, manifest_list="memory:t/snap-7.avro")
>>> read_snapshot_manifests(snapshot, storage) == manifests
True
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from floe.avro.container import Block, Container, Limits, open_container
from floe.avro.entry_scanner import ScannedEntries, scan_blocks
from floe.avro.manifest_columns import JoinedManifests, ManifestColumns
from floe.avro.manifest_layout import ManifestLayout, manifest_layout
from floe.avro.manifest_lists import read_manifest_list
from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.manifests.entries import EntryStatus, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.types import StructType
from floe.storage.protocol import Storage

_BATCH_BYTES = 8 * 2**20
_PIECE_BYTES = 4 * 2**20
"""The size of the pieces of a large manifest, compressed, where the manifest need not be read as one."""

PartitionTypes = Callable[[int], StructType | None]
"""Returns the partition type of a spec id; None for the type in the file."""


def read_manifest(
    data: bytes,
    manifest: ManifestFile | None = None,
    *,
    partition_type: StructType | None = None,
    metrics: Collection[int] = (),
    limits: Limits | None = None,
) -> ManifestColumns:
    """Read the entries of a manifest from the bytes of its file.

    Entries inherit from `manifest`, which comes from the manifest list; without it the values are as stored. Partition
    values have the order and types of `partition_type`, by default those of the file. `metrics` are the field ids of
    columns whose metrics will be used: they are found during the scan, which is faster than later. Other metrics can
    still be used.
    """
    (columns,) = _split_columns([_open_manifest(data, manifest, limits)], lambda spec_id: partition_type, metrics)
    return columns


def read_manifests(
    files: Iterable[bytes],
    manifests: Sequence[ManifestFile] | None = None,
    *,
    partition_types: Mapping[int, StructType] | None = None,
    metrics: Collection[int] = (),
    limits: Limits | None = None,
) -> Iterator[ManifestColumns]:
    """Read the entries of many manifests, each as `read_manifest` does; `partition_types` are by spec id.

    Adjacent small manifests of one schema are scanned together, which is much faster.
    """
    type_of = (partition_types or {}).get
    for batch in _batch_manifests(files, manifests, limits):
        yield from _split_columns(batch, type_of, metrics)


def read_joined_manifests(
    files: Iterable[bytes],
    manifests: Sequence[ManifestFile],
    *,
    partition_types: Mapping[int, StructType] | None = None,
    metrics: Collection[int] = (),
    limits: Limits | None = None,
) -> Iterator[ManifestColumns]:
    """Read the entries of many manifests, in order, as `ManifestColumns` of moderate size.

    Adjacent small manifests of one schema and spec are joined; each row inherits from its own manifest. A large
    manifest is read in several pieces.
    """
    return decompress_manifests(files, manifests, limits).columns(partition_types or {}, metrics)


def decompress_manifests(
    files: Iterable[bytes], manifests: Sequence[ManifestFile], limits: Limits | None = None
) -> DecompressedManifests:
    """Decompress manifests without scanning them.

    Decompression benefits from several threads; `DecompressedManifests.columns` is faster in one.
    """
    batches: list[list[_DecompressedManifest]] = []
    open_batch: list[_DecompressedManifest] = []  # the last batch, if more manifests can join it
    for manifest, data in zip(manifests, files, strict=True):
        pieces = list(_decompress_pieces(_open_file(data, manifest, limits), manifest))
        if (
            len(pieces) == 1
            and open_batch
            and open_batch[0].can_join(pieces[0])
            and _total_size(open_batch) <= _BATCH_BYTES
        ):
            open_batch.append(pieces[0])
            continue
        batches.extend([piece] for piece in pieces)
        open_batch = batches[-1] if len(pieces) == 1 else []
    return DecompressedManifests(batches)


class DecompressedManifests:
    """Decompressed manifests, small ones joined and large ones in pieces."""

    def __init__(self, batches: list[list[_DecompressedManifest]]) -> None:
        self._batches = batches[::-1]

    def columns(
        self, partition_types: Mapping[int, StructType], metrics: Collection[int] = ()
    ) -> Iterator[ManifestColumns]:
        """The entries, as `read_joined_manifests` returns them. This can be called once: the batches are dropped."""
        previous_path, row_ids_before = None, 0
        while self._batches:
            batch = self._batches.pop()
            first = batch[0]
            if len(batch) == 1 and first.manifest is not None and first.manifest.first_row_id is not None:
                # the row ids of a further piece of a manifest continue those of the piece before
                row_ids_before = row_ids_before if first.manifest.manifest_path == previous_path else 0
                previous_path = first.manifest.manifest_path
                piece_manifest = replace(first.manifest, first_row_id=first.manifest.first_row_id + row_ids_before)
                columns = _join_columns(batch, [piece_manifest], partition_types.get, metrics)
                row_ids_before += columns.inherited_row_id_count
            else:
                previous_path = None
                manifests = [part.manifest for part in batch if part.manifest is not None]
                columns = _join_columns(batch, manifests, partition_types.get, metrics)
            batch.clear()
            yield columns


def _decompress_pieces(container: Container, manifest: ManifestFile) -> Iterator[_DecompressedManifest]:
    """Decompress a manifest, in several pieces if it is large."""
    budget = container.limits.total_bytes
    for blocks in _group_blocks(container):
        limits = replace(container.limits, total_bytes=budget)
        piece = _decompress(replace(container, blocks=blocks, limits=limits), manifest)
        budget -= piece.size
        yield piece


def _group_blocks(container: Container) -> Iterator[tuple[Block, ...]]:
    piece: list[Block] = []
    for block in container.blocks:
        if piece and block.end - piece[0].start > _PIECE_BYTES:
            yield tuple(piece)
            piece = []
        piece.append(block)
    yield tuple(piece)


def _batch_manifests(
    files: Iterable[bytes], manifests: Sequence[ManifestFile] | None, limits: Limits | None
) -> Iterator[list[_DecompressedManifest]]:
    """Decompress manifests, in batches of adjacent small ones that can be scanned together."""
    batch: list[_DecompressedManifest] = []
    for index, data in enumerate(files):
        decompressed = _open_manifest(data, None if manifests is None else manifests[index], limits)
        if batch and (not batch[0].can_join(decompressed) or _total_size(batch) > _BATCH_BYTES):
            yield batch
            batch = []
        batch.append(decompressed)
    yield batch


class _DecompressedManifest:
    """A manifest, or a piece of one, that is decompressed but not scanned yet."""

    def __init__(self, container: Container, manifest: ManifestFile | None) -> None:
        self.metadata = container.metadata
        self.manifest = manifest
        self.layout: ManifestLayout = manifest_layout(container.schema_text)
        self.blocks = container.decompressed(self.layout.smallest)
        self.counts = [block.count for block in container.blocks]
        self.size = sum(map(len, self.blocks))
        text = container.text("partition-spec-id")
        self.spec_id = _parse_spec_id(manifest, text)

    @property
    def path(self) -> str | None:
        return None if self.manifest is None else self.manifest.manifest_path

    def can_join(self, other: _DecompressedManifest) -> bool:
        """Whether both can be scanned together and joined."""
        if self.layout is not other.layout or self.spec_id != other.spec_id:
            return False
        return self.manifest is None or other.manifest is None or self.manifest.content == other.manifest.content


def _total_size(batch: Iterable[_DecompressedManifest]) -> int:
    return sum(manifest.size for manifest in batch)


def _open_manifest(data: bytes, manifest: ManifestFile | None, limits: Limits | None) -> _DecompressedManifest:
    return _decompress(_open_file(data, manifest, limits), manifest)


def _open_file(data: bytes, manifest: ManifestFile | None, limits: Limits | None) -> Container:
    try:
        return open_container(data, limits)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(manifest=None if manifest is None else manifest.manifest_path) from None


def _decompress(container: Container, manifest: ManifestFile | None) -> _DecompressedManifest:
    try:
        return _DecompressedManifest(container, manifest)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(manifest=None if manifest is None else manifest.manifest_path) from None


def _parse_spec_id(manifest: ManifestFile | None, text: str | None) -> int:
    if manifest is not None:
        return manifest.partition_spec_id
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _split_columns(
    batch: list[_DecompressedManifest], type_of: PartitionTypes, metrics: Collection[int]
) -> Iterator[ManifestColumns]:
    if not batch:
        return
    scan = _scan_batch(batch, metrics)
    begin = 0
    for manifest in batch:
        end = begin + sum(manifest.counts)
        part = scan if len(batch) == 1 else scan.part(begin, end)
        yield ManifestColumns(part, manifest.manifest, type_of(manifest.spec_id), manifest.spec_id, manifest.metadata)
        begin = end


def _join_columns(
    batch: list[_DecompressedManifest],
    manifests: Sequence[ManifestFile],
    type_of: PartitionTypes,
    metrics: Collection[int],
) -> ManifestColumns:
    joined = JoinedManifests.of(manifests, [sum(manifest.counts) for manifest in batch])
    first, scan = batch[0], _scan_batch(batch, metrics)
    return ManifestColumns(scan, joined, type_of(first.spec_id), first.spec_id, first.metadata)


def _scan_batch(batch: list[_DecompressedManifest], metrics: Collection[int]) -> ScannedEntries:
    counts = [count for manifest in batch for count in manifest.counts]
    blocks = batch[0].blocks if len(batch) == 1 else [block for manifest in batch for block in manifest.blocks]
    try:
        return scan_blocks(batch[0].layout, blocks, counts, metrics)
    except CorruptFile as error:
        if len(batch) > 1:  # raises the error of the manifest that is corrupt
            for manifest in batch:
                _scan_batch([manifest], metrics)
        raise error.with_context(manifest=batch[0].path) from None


# Manifests of a snapshot --------------------------------------------------------------------------------------


def read_snapshot_manifests(snapshot: Snapshot, storage: Storage) -> list[ManifestFile]:
    """Read the manifests of a snapshot, in the order of its manifest list.

    Snapshots of old tables of format version 1 can have the paths of their manifests instead of a manifest list; then
    each manifest is read to count its files.
    """
    if snapshot.key_id is not None:
        raise UnsupportedFeature(
            "the manifest list is encrypted; reading encrypted tables is not supported", snapshot=snapshot.snapshot_id
        )
    if snapshot.manifest_list is None:
        return [_describe_manifest(path, snapshot, storage) for path in snapshot.manifests or ()]
    data = storage.read(snapshot.manifest_list)
    try:
        return read_manifest_list(data)
    except CorruptFile as error:
        raise error.with_context(file=snapshot.manifest_list, snapshot=snapshot.snapshot_id) from None


def read_manifest_file(manifest: ManifestFile, storage: Storage) -> bytes:
    """Read the file of a manifest; raises UnsupportedFeature if it is encrypted."""
    if manifest.key_metadata is not None:
        raise UnsupportedFeature(
            "the manifest is encrypted; reading encrypted tables is not supported", manifest=manifest.manifest_path
        )
    return storage.read(manifest.manifest_path)


def has_counts(manifest: ManifestFile) -> bool:
    """Whether a manifest has all counts that manifest lists of format versions 2 and 3 require; version 1 does not.

    >>> has_counts(ManifestFile("m.avro", 100, 0, added_snapshot_id=7))
    False
    """
    return None not in (
        manifest.added_snapshot_id,
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )


def with_counts(manifest: ManifestFile, storage: Storage) -> ManifestFile:
    """The manifest with its counts; if it has none, its entries are read and counted."""
    if has_counts(manifest):
        return manifest
    return _count_files(manifest, read_manifest(read_manifest_file(manifest, storage), manifest))


def _describe_manifest(path: str, snapshot: Snapshot, storage: Storage) -> ManifestFile:
    """Build the description of a manifest that is in no manifest list, from its entries."""
    data = storage.read(path)
    spec_id = read_manifest(data).spec_id
    manifest = ManifestFile(path, len(data), spec_id)
    columns = read_manifest(data, manifest)
    return replace(_count_files(manifest, columns), added_snapshot_id=_writing_snapshot(columns, snapshot.snapshot_id))


def _writing_snapshot(columns: ManifestColumns, default: int | None) -> int | None:
    """The snapshot that wrote a manifest: the one that added or deleted files in it, otherwise the highest id in it."""
    is_changed = np.not_equal(columns.status, EntryStatus.EXISTING)
    ids, is_known = np.asarray(columns.snapshot_id.values), columns.snapshot_id.is_valid
    if (is_changed & is_known).any():
        return int(ids[is_changed & is_known][0])
    return int(ids[is_known].max()) if is_known.any() else default


def _count_files(manifest: ManifestFile, columns: ManifestColumns) -> ManifestFile:
    rows = np.maximum(columns.record_count, 0)
    masks = {status: np.equal(columns.status, status) for status in EntryStatus}
    files = {status: int(mask.sum()) for status, mask in masks.items()}
    counts = {status: int(rows[mask].sum()) for status, mask in masks.items()}
    added_by = manifest.added_snapshot_id
    return replace(
        manifest,
        added_snapshot_id=_writing_snapshot(columns, None) if added_by is None else added_by,
        added_files_count=files[EntryStatus.ADDED],
        existing_files_count=files[EntryStatus.EXISTING],
        deleted_files_count=files[EntryStatus.DELETED],
        added_rows_count=counts[EntryStatus.ADDED],
        existing_rows_count=counts[EntryStatus.EXISTING],
        deleted_rows_count=counts[EntryStatus.DELETED],
    )
