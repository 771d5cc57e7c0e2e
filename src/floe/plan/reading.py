"""Many manifests read in parallel, small ones together, with little in memory at any time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TypeVar

from floe.avro.manifests import ManifestColumns, read_joined_manifests
from floe.errors import CorruptFile, InvalidInput, StorageError, UnsupportedFeature
from floe.plan.manifest_lists import MAX_MANIFEST_BYTES, check_not_encrypted
from floe.spec.manifests.entries import ManifestFile
from floe.spec.types import StructType
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

__all__ = ["manifest_groups", "read_in_groups"]

R = TypeVar("R")

GROUP_BYTES = 4 * 2**20
"""How much of small manifests, as stored, is read together: enough to make each array operation worth its overhead."""

_GROUP_FILES = 256
_BYTES_UNDER_WAY = 32 * 2**20
_MOST_UNDER_WAY = 16
_LEAST_UNDER_WAY = 2


def manifest_groups(manifests: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Manifests of one spec and content that follow one another, up to some MB; a large one is a group of its own.

    >>> small, large = ManifestFile("a", 1000, 0), ManifestFile("b", 8 * 2**20, 0)
    >>> [len(group) for group in manifest_groups([small, small, large, small])]
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


def _alike(one: ManifestFile, other: ManifestFile) -> bool:
    return (one.partition_spec_id, one.content) == (other.partition_spec_id, other.content)


def read_in_groups(
    storage: Storage,
    manifests: Sequence[ManifestFile],
    look: Callable[[ManifestColumns], R],
    *,
    types: Mapping[int, StructType],
    metrics: Collection[int] = (),
    workers: int | None = None,
) -> Iterator[R]:
    """What `look` makes of the entries of some manifests, in their order; it is called in several threads.

    `look` gets the entries of many small manifests, or of one large one, as one set of columns, and should not hold on
    to them. `workers` is how many threads read; 1 reads here, one group after another.
    """
    if workers is not None and workers < 1:
        raise InvalidInput(f"a plan needs at least one worker, found {workers}")
    groups = list(manifest_groups(manifests))
    if not groups:
        return
    # Waiting for files and decoding them are limited apart: many may be on their way, few in the works.
    decoding = BoundedSemaphore(_decoders())

    def read(group: list[ManifestFile]) -> list[R]:
        files = deque(_read(storage, manifest) for manifest in group)
        with decoding:
            opened = read_joined_manifests(_emptied(files), group, partition_types=types, metrics=metrics)
            return [look(columns) for columns in opened]

    limit = min(len(groups), _under_way(groups) if workers is None else workers)
    if limit == 1:
        for group in groups:
            yield from read(group)
        return
    with ThreadPoolExecutor(limit, thread_name_prefix="floe-plan") as pool:
        for found in map_concurrently(read, groups, limit=limit, executor=pool):
            yield from found


def _emptied(files: deque[bytes]) -> Iterator[bytes]:
    """The files one by one, none of which is held on to."""
    while files:
        yield files.popleft()


def _decoders() -> int:
    return max(1, os.cpu_count() or 1)


def _under_way(groups: Sequence[list[ManifestFile]]) -> int:
    """How many groups to read at once."""
    sizes = [sum(manifest.manifest_length for manifest in group) for group in groups]
    usual = max(1, sum(sizes) // len(sizes))
    return max(_LEAST_UNDER_WAY, min(_MOST_UNDER_WAY, _BYTES_UNDER_WAY // usual))


def _read(storage: Storage, manifest: ManifestFile) -> bytes:
    try:
        data = storage.read(manifest.manifest_path, max_bytes=MAX_MANIFEST_BYTES)
        check_not_encrypted(data)
    except (CorruptFile, StorageError, UnsupportedFeature) as error:
        raise error.with_context(manifest=manifest.manifest_path) from None
    return data
