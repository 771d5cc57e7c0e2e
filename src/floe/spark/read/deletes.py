"""Deleted positions of files as bitmaps that travel with the files; Spark's generated code tests the bit of each row.

The driver reads position deletes and deletion vectors as long as they are small, which the manifests show in advance.
Files whose deletes would take more memory are read by the Arrow reader, which loads the deletes in the workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.reading.task_reader import TaskReader
from floe.plan.tasks import FileTask
from floe.spark.read.source import PlannedFiles
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

_BYTES_OF_A_POSITION: Final = 3
"""What a deleted position takes, about, while it is read."""

_READERS: Final = 8


def within_budget(files: PlannedFiles, budget: int, split_size: int) -> NDArray[np.bool_]:
    """Which files have few enough deleted positions for the driver, all together; those without any always do.

    A set of bits is as long as its file has rows, and goes with every part into which the file is cut.
    """
    kept = np.ones(len(files), np.bool_)
    index = files.plan.deletes
    owners, deletes = files.position_deletes
    if index is None or not owners.size:
        return kept
    parts = np.asarray(files.table["file_size_in_bytes"].to_numpy()) // max(1, split_size) + 1
    bits = (np.maximum(files.record_counts, 0) // 8 + 8) * parts
    positions = np.maximum(index.deletes.record_count, 0) * _BYTES_OF_A_POSITION
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    known: set[int] = set()
    left = budget
    for file, own in zip(owners[starts].tolist(), np.split(deletes, starts[1:]), strict=True):
        new = set(own.tolist()) - known
        price = int(bits[file]) + sum(int(positions[one]) for one in new)
        if price > left:
            kept[file] = False
        else:
            left -= price
            known |= new
    return kept


def bit_sets(files: PlannedFiles, metadata: TableMetadata, storage: Storage) -> Mapping[str, bytes]:
    """The deleted rows of those files that have position deletes or deletion vectors, by path."""
    chosen = files.with_positions
    if not chosen.any():
        return {}
    reader = TaskReader(metadata, storage)

    def read(task: FileTask) -> tuple[str, bytes]:
        return task.file.file_path, bit_set(reader.deleted_positions(task))

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(map_concurrently(read, files.tasks(chosen), limit=2 * _READERS, executor=pool))


def bit_set(positions: BitMap64) -> bytes:
    """A bit for each position up to the last, the lowest first, in whole words of eight bytes.

    >>> bit_set(BitMap64([0, 9, 64])).hex()
    '01020000000000000100000000000000'
    """
    if not positions:
        return b""
    places = np.frombuffer(positions.to_array(), np.uint64).astype(np.int64)
    made = np.zeros((int(places[-1]) // 64 + 1) * 8, np.uint8)
    where = places >> 3
    starts = np.flatnonzero(np.diff(where, prepend=-1))
    made[where[starts]] = np.bitwise_or.reduceat((1 << (places & 7)).astype(np.uint8), starts)
    return made.tobytes()
