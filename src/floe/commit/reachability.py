"""The files that a table's metadata reaches, from metadata files and manifests to data files and statistics.

Files are returned in batches, one manifest at a time, as columns, so that memory does not grow with the table. A file
is reachable if a snapshot needs it to be read; entries with status `deleted` do not count. Metadata that cannot be read
is an error, never skipped, because callers delete files that are not reachable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import Enum

import numpy as np

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.avro.manifest_reader import read_manifest, read_manifest_file, read_snapshot_manifests
from floe.commit.manifests.file_sets import PathSet, text_of
from floe.errors import FloeError
from floe.spec.manifests.entries import FileContent, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.storage.concurrency import map_concurrently
from floe.storage.locations import canonical
from floe.storage.protocol import Storage

_PUFFIN = FORMATS.index("puffin")


class FileKind(Enum):
    """The kinds of files of a table."""

    DATA = "data file"
    POSITION_DELETES = "position delete file"
    EQUALITY_DELETES = "equality delete file"
    DELETION_VECTORS = "deletion vector file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    STATISTICS = "statistics file"
    PARTITION_STATISTICS = "partition statistics file"
    METADATA = "metadata file"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False, slots=True)
class FileBatch:
    """Files of one kind; the same file may come in several batches."""

    kind: FileKind
    paths: VarBytes

    def __len__(self) -> int:
        return len(self.paths)

    def texts(self) -> list[str]:
        """The paths as text."""
        return [text_of(path) for path in self.paths.to_list()]

    @staticmethod
    def of(kind: FileKind, paths: Iterable[str]) -> FileBatch:
        """A batch of files, given as text.

        >>> FileBatch.of(FileKind.MANIFEST, ["s3://b/t/metadata/m.avro"]).texts()
        ['s3://b/t/metadata/m.avro']
        """
        return FileBatch(kind, VarBytes.of(path.encode() for path in paths))


def reachable_files(
    metadata: TableMetadata,
    storage: Storage,
    *,
    metadata_location: str | None = None,
    snapshots: Iterable[Snapshot] | None = None,
    executor: Executor | None = None,
) -> Iterator[FileBatch]:
    """All files that a table's metadata reaches, or those of the given snapshots.

    With `metadata_location`, the location of the metadata file, that file and those of the metadata log are included.
    Each manifest list and each manifest is read once, however many snapshots share it.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0)
    >>> files = reachable_files(table, MemoryStorage(), metadata_location="s3://b/t/metadata/v1.metadata.json")
    >>> [(str(batch.kind), batch.texts()) for batch in files]
    [('metadata file', ['s3://b/t/metadata/v1.metadata.json'])]
    """
    chosen = list(metadata.snapshots if snapshots is None else snapshots)
    if metadata_location is not None:
        log = [entry.metadata_file for entry in metadata.metadata_log]
        yield FileBatch.of(FileKind.METADATA, [metadata_location, *log])
    ids = {snapshot.snapshot_id for snapshot in chosen}
    yield from statistics_batches(metadata, ids)
    lists = [snapshot.manifest_list for snapshot in chosen if snapshot.manifest_list is not None]
    manifests = list(listed_manifests(chosen, storage, executor=executor))
    yield from _named(FileKind.MANIFEST_LIST, lists)
    yield from _named(FileKind.MANIFEST, [manifest.manifest_path for manifest in manifests])
    yield from file_batches(manifests, storage, executor=executor)


def reachable_among(
    metadata: TableMetadata, files: Collection[str], storage: Storage, *, executor: Executor | None = None
) -> set[str]:
    """The files among `files` that a table's metadata reaches, in whatever spelling.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0)
    >>> reachable_among(table, ["s3://b/t/data/a.parquet"], MemoryStorage())
    set()
    """
    not_reached = PathSet(files)
    reached: set[str] = set()
    for batch in reachable_files(metadata, storage, executor=executor):
        in_batch = not_reached.found_in(batch.paths)
        reached |= in_batch
        not_reached.remove(in_batch)
        if not not_reached:
            break
    return reached


def statistics_batches(metadata: TableMetadata, snapshot_ids: Collection[int]) -> Iterator[FileBatch]:
    """The statistics files of snapshots."""
    kinds = ((FileKind.STATISTICS, metadata.statistics), (FileKind.PARTITION_STATISTICS, metadata.partition_statistics))
    for kind, files in kinds:
        yield from _named(kind, [file.statistics_path for file in files if file.snapshot_id in snapshot_ids])


def listed_manifests(
    snapshots: Iterable[Snapshot], storage: Storage, *, executor: Executor | None = None
) -> Iterator[ManifestFile]:
    """The manifests of snapshots, each once."""
    distinct: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        distinct.setdefault(snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}", snapshot)
    paths: set[str] = set()
    for manifests in map_concurrently(
        lambda s: read_snapshot_manifests(s, storage), distinct.values(), executor=executor
    ):
        for manifest in manifests:
            path = canonical(manifest.manifest_path)
            if path not in paths:
                paths.add(path)
                yield manifest


def file_batches(
    manifests: Iterable[ManifestFile],
    storage: Storage,
    *,
    with_deleted: bool = False,
    executor: Executor | None = None,
) -> Iterator[FileBatch]:
    """The live files of manifests, by kind; with `with_deleted` also those of entries with status `deleted`."""
    for columns in map_concurrently(lambda m: _columns(m, storage), manifests, executor=executor):
        yield from _files(columns, np.ones(len(columns), np.bool_) if with_deleted else columns.live)


def _files(columns: ManifestColumns, selected: Mask) -> Iterator[FileBatch]:
    content, puffin = columns.content, columns.file_format == _PUFFIN
    position = content == FileContent.POSITION_DELETES
    kinds = (
        (FileKind.DATA, content == FileContent.DATA),
        (FileKind.POSITION_DELETES, position & ~puffin),
        (FileKind.DELETION_VECTORS, position & puffin),
        (FileKind.EQUALITY_DELETES, content == FileContent.EQUALITY_DELETES),
    )
    for kind, mask in kinds:
        rows = np.flatnonzero(mask & selected)
        if rows.size:
            yield FileBatch(kind, columns.file_path.take(rows))


def _columns(manifest: ManifestFile, storage: Storage) -> ManifestColumns:
    try:
        return read_manifest(read_manifest_file(manifest, storage))
    except FloeError as error:
        error.with_context(manifest=manifest.manifest_path)
        raise


def _named(kind: FileKind, paths: list[str]) -> Iterator[FileBatch]:
    if paths:
        yield FileBatch.of(kind, paths)
