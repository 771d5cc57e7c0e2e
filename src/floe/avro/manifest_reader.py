"""Manifests read into columns: what planning looks at as arrays, and Python objects only for the files that are left.

Reading finds where every value is; a column is decoded when it is first asked for. Strings and bounds stay where they
are, as slices of the decompressed bytes, and the metrics of a column are looked up by its id. What entries inherit from
their manifest (snapshot id, sequence numbers, first row ids) is filled in, by the rules of `floe.spec.manifests`.

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

The manifests of a snapshot: from its manifest list, or from the names that old v1 snapshots hold themselves.

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
"""How much of a large manifest, as stored, is read at once where the whole is not needed."""

TypeOf = Callable[[int], StructType | None]


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
    """The entries of manifests, in sets of columns that are neither small nor large, in order.

    Manifests of one schema and spec that follow one another are joined, and each row inherits from its own. A large
    manifest comes in several pieces.
    """
    return decompress_manifests(files, manifests, limits).columns(partition_types or {}, metrics)


def decompress_manifests(
    files: Iterable[bytes], manifests: Sequence[ManifestFile], limits: Limits | None = None
) -> DecompressedManifests:
    """Manifests that are decompressed and not looked into yet.

    Decompressing can be done in many threads at once; what comes after is quicker in one.
    """
    batches: list[list[_Opened]] = []
    small: list[_Opened] = []  # the last batch, if more can join it
    for manifest, data in zip(manifests, files, strict=True):
        pieces = list(_pieces(_container(data, manifest, limits), manifest))
        if len(pieces) == 1 and small and small[0].like(pieces[0]) and _size(small) <= _BATCH_BYTES:
            small.append(pieces[0])
            continue
        batches.extend([piece] for piece in pieces)
        small = batches[-1] if len(pieces) == 1 else []
    return DecompressedManifests(batches)


class DecompressedManifests:
    """Decompressed manifests, small ones joined and large ones in pieces."""

    def __init__(self, batches: list[list[_Opened]]) -> None:
        self._batches = batches[::-1]

    def columns(
        self, partition_types: Mapping[int, StructType], metrics: Collection[int] = ()
    ) -> Iterator[ManifestColumns]:
        """The entries, as `read_joined_manifests` gives them; what was given is not kept."""
        path, numbered = None, 0
        while self._batches:
            batch = self._batches.pop()
            first = batch[0]
            if len(batch) == 1 and first.manifest is not None and first.manifest.first_row_id is not None:
                # a further piece of a manifest goes on where the one before it ended
                numbered = numbered if first.manifest.manifest_path == path else 0
                path = first.manifest.manifest_path
                begins = replace(first.manifest, first_row_id=first.manifest.first_row_id + numbered)
                columns = _joined_columns(batch, [begins], partition_types.get, metrics)
                numbered += columns.numbered_rows
            else:
                path = None
                manifests = [one.manifest for one in batch if one.manifest is not None]
                columns = _joined_columns(batch, manifests, partition_types.get, metrics)
            batch.clear()
            yield columns


def _pieces(container: Container, manifest: ManifestFile) -> Iterator[_Opened]:
    """A manifest, or the pieces of a large one."""
    left = container.limits.total_bytes
    for blocks in _blocks_of_pieces(container):
        limits = replace(container.limits, total_bytes=left)
        opened = _opened(replace(container, blocks=blocks, limits=limits), manifest)
        left -= opened.size
        yield opened


def _blocks_of_pieces(container: Container) -> Iterator[tuple[Block, ...]]:
    piece: list[Block] = []
    for block in container.blocks:
        if piece and block.end - piece[0].start > _PIECE_BYTES:
            yield tuple(piece)
            piece = []
        piece.append(block)
    yield tuple(piece)


def _batches(
    files: Iterable[bytes], manifests: Sequence[ManifestFile] | None, limits: Limits | None
) -> Iterator[list[_Opened]]:
    """Small manifests that follow one another and can be scanned together."""
    batch: list[_Opened] = []
    for number, data in enumerate(files):
        opened = _open(data, None if manifests is None else manifests[number], limits)
        if batch and (not batch[0].like(opened) or _size(batch) > _BATCH_BYTES):
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


def _size(batch: Iterable[_Opened]) -> int:
    return sum(one.size for one in batch)


def _open(data: bytes, manifest: ManifestFile | None, limits: Limits | None) -> _Opened:
    return _opened(_container(data, manifest, limits), manifest)


def _container(data: bytes, manifest: ManifestFile | None, limits: Limits | None) -> Container:
    try:
        return open_container(data, limits)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(manifest=None if manifest is None else manifest.manifest_path) from None


def _opened(container: Container, manifest: ManifestFile | None) -> _Opened:
    try:
        return _Opened(container, manifest)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(manifest=None if manifest is None else manifest.manifest_path) from None


def _spec_id(manifest: ManifestFile | None, text: str | None) -> int:
    if manifest is not None:
        return manifest.partition_spec_id
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _columns(batch: list[_Opened], type_of: TypeOf, metrics: Collection[int]) -> Iterator[ManifestColumns]:
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
    batch: list[_Opened], manifests: Sequence[ManifestFile], type_of: TypeOf, metrics: Collection[int]
) -> ManifestColumns:
    listed = JoinedManifests.of(manifests, [sum(one.counts) for one in batch])
    first, scan = batch[0], _scan(batch, metrics)
    return ManifestColumns(scan, listed, type_of(first.spec_id), first.spec_id, first.metadata)


def _scan(batch: list[_Opened], metrics: Collection[int]) -> ScannedEntries:
    counts = [count for one in batch for count in one.counts]
    blocks = batch[0].blocks if len(batch) == 1 else [block for one in batch for block in one.blocks]
    try:
        return scan_blocks(batch[0].layout, blocks, counts, metrics)
    except CorruptFile as error:
        if len(batch) > 1:  # find out which of them it is
            for one in batch:
                _scan([one], metrics)
        raise error.with_context(manifest=batch[0].path) from None


# The manifests of a snapshot: from its manifest list, or from the names that old v1 snapshots hold themselves.


def read_snapshot_manifests(snapshot: Snapshot, storage: Storage) -> list[ManifestFile]:
    """All manifests of a snapshot, in the order of its list.

    Snapshots of old v1 tables may name their manifests themselves and tell nothing about them; each is then read to
    find out.
    """
    if snapshot.key_id is not None:
        raise UnsupportedFeature(
            "the manifest list is encrypted, and encrypted tables cannot be read yet", snapshot=snapshot.snapshot_id
        )
    if snapshot.manifest_list is None:
        return [_described(path, snapshot, storage) for path in snapshot.manifests or ()]
    data = storage.read(snapshot.manifest_list)
    try:
        return read_manifest_list(data)
    except CorruptFile as error:
        raise error.with_context(file=snapshot.manifest_list, snapshot=snapshot.snapshot_id) from None


def read_manifest_file(manifest: ManifestFile, storage: Storage) -> bytes:
    """The bytes of a manifest's file."""
    if manifest.key_metadata is not None:
        raise UnsupportedFeature(
            "the manifest is encrypted, and encrypted tables cannot be read yet", manifest=manifest.manifest_path
        )
    return storage.read(manifest.manifest_path)


def has_counts(manifest: ManifestFile) -> bool:
    """Whether everything is known that lists of v2 and v3 must tell about a manifest; v1 lists may leave it out.

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
    """The manifest with its counts, which are read from its entries if they are not known."""
    if has_counts(manifest):
        return manifest
    return _with_counts(manifest, read_manifest(read_manifest_file(manifest, storage), manifest))


def _described(path: str, snapshot: Snapshot, storage: Storage) -> ManifestFile:
    """What a manifest list would say about a manifest that has none."""
    data = storage.read(path)
    spec_id = read_manifest(data).spec_id
    manifest = ManifestFile(path, len(data), spec_id)
    columns = read_manifest(data, manifest)
    return replace(_with_counts(manifest, columns), added_snapshot_id=_writer(columns, snapshot.snapshot_id))


def _writer(columns: ManifestColumns, unknown: int | None) -> int | None:
    """The snapshot that wrote a manifest: the one that added or deleted files by it, else the newest in it."""
    own = np.not_equal(columns.status, EntryStatus.EXISTING)
    ids, known = np.asarray(columns.snapshot_id.values), columns.snapshot_id.known
    if (own & known).any():
        return int(ids[own & known][0])
    return int(ids[known].max()) if known.any() else unknown


def _with_counts(manifest: ManifestFile, columns: ManifestColumns) -> ManifestFile:
    rows = np.maximum(columns.record_count, 0)
    which = {status: np.equal(columns.status, status) for status in EntryStatus}
    files = {status: int(mask.sum()) for status, mask in which.items()}
    counts = {status: int(rows[mask].sum()) for status, mask in which.items()}
    added_by = manifest.added_snapshot_id
    return replace(
        manifest,
        added_snapshot_id=_writer(columns, None) if added_by is None else added_by,
        added_files_count=files[EntryStatus.ADDED],
        existing_files_count=files[EntryStatus.EXISTING],
        deleted_files_count=files[EntryStatus.DELETED],
        added_rows_count=counts[EntryStatus.ADDED],
        existing_rows_count=counts[EntryStatus.EXISTING],
        deleted_rows_count=counts[EntryStatus.DELETED],
    )
