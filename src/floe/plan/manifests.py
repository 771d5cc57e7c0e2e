"""Reading of manifest lists and manifests.

`manifests_of_snapshot` reads the manifest list of a snapshot; old snapshots have the paths of manifests in the table
metadata instead. `read_manifest_groups` reads many manifests in parallel, small ones together, with little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_lists import read_manifest_list
from floe.avro.manifest_reader import DecompressedManifests, decompress_manifests, read_snapshot_manifests
from floe.errors import CorruptFile, InvalidInput, StorageError, UnsupportedFeature
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.types import StructType
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

# Manifest lists ---------------------------------------------------------------------------------------------------

MAX_MANIFEST_BYTES = 2**30
"""No manifest or manifest list is read that is longer; real ones have some MB."""

_ENCRYPTED = b"AGS1"


def manifests_of_snapshot(snapshot: Snapshot, storage: Storage) -> list[ManifestFile]:
    """The manifests of a snapshot, with the summaries of its manifest list.

    Snapshots of format version 1 may name their manifests without saying anything about them (spec: Snapshots); then
    each manifest is read to find out.

    >>> from floe.avro.manifest_lists import write_manifest_list
    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> manifests = [ManifestFile("memory:t/m.avro", 100, 0, added_snapshot_id=7)]
    >>> data = write_manifest_list(manifests, format_version=1, snapshot_id=7, parent_snapshot_id=None)
    >>> storage.write("memory:t/snap-7.avro", data)
    >>> snapshot = Snapshot(snapshot_id=7, timestamp_ms=5, manifest_list="memory:t/snap-7.avro")
    >>> manifests_of_snapshot(snapshot, storage) == manifests
    True
    """
    path = snapshot.manifest_list
    if path is None:
        return read_snapshot_manifests(snapshot, storage)
    data = storage.read(path, max_bytes=MAX_MANIFEST_BYTES)
    try:
        check_not_encrypted(data)
        return read_manifest_list(data)
    except (CorruptFile, UnsupportedFeature) as error:
        raise error.with_context(**{"manifest list": path, "snapshot": snapshot.snapshot_id}) from None


def check_not_encrypted(data: bytes) -> None:
    """Raise unless a manifest or manifest list can be read without a key.

    >>> check_not_encrypted(b"AGS1...")
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the file is encrypted, and this version of Floe cannot decrypt tables
    """
    if data[: len(_ENCRYPTED)] == _ENCRYPTED:
        raise UnsupportedFeature("the file is encrypted, and this version of Floe cannot decrypt tables")


R = TypeVar("R")

GROUP_BYTES = 4 * 2**20
"""How much of small manifests, as stored, is read together: enough to make each array operation worth its overhead."""

_GROUP_FILES = 256
_BYTES_UNDER_WAY = 24 * 2**20
_MOST_UNDER_WAY = 16
_LEAST_UNDER_WAY = 2


def group_manifests(manifests: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Groups of consecutive manifests with one spec and content, up to some MB; a large one is its own group.

    >>> small, large = ManifestFile("a", 1000, 0), ManifestFile("b", 8 * 2**20, 0)
    >>> [len(group) for group in group_manifests([small, small, large, small])]
    [2, 1, 1]
    """
    group: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        length = min(manifest.manifest_length, GROUP_BYTES)  # what the list says of it may be wrong
        full = size + length > GROUP_BYTES or len(group) >= _GROUP_FILES
        if group and (full or not _alike(group[0], manifest)):
            yield group
            group, size = [], 0
        group.append(manifest)
        size += length
    if group:
        yield group


def _alike(left: ManifestFile, right: ManifestFile) -> bool:
    return (left.partition_spec_id, left.content) == (right.partition_spec_id, right.content)


def read_manifest_groups(
    storage: Storage,
    manifests: Sequence[ManifestFile],
    convert: Callable[[ManifestColumns], R],
    *,
    types: Mapping[int, StructType],
    metrics: Collection[int] | Callable[[Sequence[ManifestFile]], Collection[int]] = (),
    workers: int | None = None,
) -> Iterator[R]:
    """Read manifests, and yield what `convert` returns for their entries, in order.

    `convert` gets the entries of many small manifests, or of a part of a large one, as one set of columns, and should
    not keep them. `metrics` are the columns whose metrics most entries will be asked for, or a function that returns
    them for a group of manifests. `workers` is how many threads read and decompress; 1 reads in the calling thread.
    """
    if workers is not None and workers < 1:
        raise InvalidInput(f"a plan needs at least one worker, found {workers}")
    groups = list(group_manifests(manifests))
    if not groups:
        return

    # Reading and decompressing go on in other threads while this one looks: Python's threads get in each other's way
    # where much is done in small steps, as when entries are decoded.
    def open_group(group: list[ManifestFile]) -> DecompressedManifests:
        return decompress_manifests(_contents(storage, group), group)

    def converted(group: list[ManifestFile], opened: DecompressedManifests) -> Iterator[R]:
        return map(convert, opened.columns(types, metrics(group) if callable(metrics) else metrics))

    limit = min(len(groups), _under_way(groups) if workers is None else workers)
    if limit == 1:
        for group in groups:
            yield from converted(group, open_group(group))
        return
    with ThreadPoolExecutor(limit, thread_name_prefix="floe-plan") as pool:
        opened_groups = map_concurrently(open_group, groups, limit=limit, executor=pool)
        for group, opened in zip(groups, opened_groups, strict=True):
            yield from converted(group, opened)


def _under_way(groups: Sequence[list[ManifestFile]]) -> int:
    """The number of groups to read at once."""
    sizes = [sum(manifest.manifest_length for manifest in group) for group in groups]
    usual = max(1, sum(sizes) // len(sizes))
    return max(_LEAST_UNDER_WAY, min(_MOST_UNDER_WAY, _BYTES_UNDER_WAY // usual))


def _contents(storage: Storage, manifests: Iterable[ManifestFile]) -> Iterator[bytes]:
    for manifest in manifests:
        try:
            data = storage.read(manifest.manifest_path, max_bytes=MAX_MANIFEST_BYTES)
            check_not_encrypted(data)
        except (CorruptFile, StorageError, UnsupportedFeature) as error:
            raise error.with_context(manifest=manifest.manifest_path) from None
        yield data
