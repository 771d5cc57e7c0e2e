"""Tasks of a scan: a data file or a split of it, with its deletes and residual; splitting and packing of tasks.

Files are split, and splits packed into bins of about equal work, as Java Iceberg does it. A file is split at the
offsets that its writer recorded (the row groups of Parquet, the stripes of ORC), or else every so many bytes. The
weight of a split is its bytes and those of its deletes, and at least a fixed cost for every file to open. Bins are
filled in the order of the files, so that neighbours stay together, with a few open bins; if there are too many, the
heaviest is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from floe.errors import InvalidInput
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile, ManifestEntry
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.properties import FILE_FORMATS, SPLIT_LOOKBACK, SPLIT_OPEN_FILE_COST, SPLIT_TARGET_SIZE


def content_size(file: DataFile) -> int:
    """The number of bytes that a reader reads of a file: of a Puffin file only those of the deletion vector.

    >>> from floe.spec.manifests.entries import FileContent
    >>> content_size(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100))
    100
    """
    if file.is_deletion_vector and file.content_size_in_bytes is not None:
        return file.content_size_in_bytes
    return file.file_size_in_bytes


@dataclass(frozen=True, slots=True)
class FileTask:
    """A data file to read, or the split of it that begins at `start`.

    >>> from floe.spec.manifests.entries import EntryStatus, FileContent
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> file = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)
    >>> task = FileTask(ManifestEntry(EntryStatus.ADDED, 1, 1, 1, file), UNPARTITIONED)
    >>> task.file.file_path, task.length, task.is_whole, task.estimated_rows
    ('a.parquet', 100, True, 3)
    """

    entry: ManifestEntry
    """The file, with the sequence numbers that its rows inherit."""

    spec: PartitionSpec
    """The spec that the file was written with."""

    deletes: tuple[DataFile, ...] = ()
    """The delete files and deletion vectors to apply."""

    residual: Expression = TRUE
    """What rows of the file must pass, bound to the schema of the read; the rest holds in all of the partition."""

    start: int = 0
    length: int = -1
    """Where the stretch begins, and how many bytes it has; by default up to the end of the file."""

    def __post_init__(self) -> None:
        if self.length < 0:
            object.__setattr__(self, "length", self.file.file_size_in_bytes - self.start)

    @property
    def file(self) -> DataFile:
        """The data file."""
        return self.entry.data_file

    @property
    def is_whole(self) -> bool:
        """Whether the task reads the whole file."""
        return self.start == 0 and self.length == self.file.file_size_in_bytes

    @property
    def deletes_size(self) -> int:
        """The size of the deletes that must be read, in bytes."""
        return sum(map(content_size, self.deletes))

    @property
    def size(self) -> int:
        """The number of bytes to read, including deletes."""
        return self.length + self.deletes_size

    @property
    def files_count(self) -> int:
        """The number of files to open."""
        return 1 + len(self.deletes)

    @property
    def estimated_rows(self) -> int:
        """The estimated number of rows of the split, including deleted ones."""
        file = self.file
        if self.is_whole:
            return file.record_count
        offsets = file.usable_split_offsets
        readable = file.file_size_in_bytes - (offsets[0] if offsets else 0)
        return file.record_count * self.length // readable if readable > 0 else 0

    def part(self, start: int, length: int) -> FileTask:
        """A split of the file, with the same deletes and residual."""
        return FileTask(self.entry, self.spec, self.deletes, self.residual, start, length)


# Splits and bins --------------------------------------------------------------------------------------------------

T = TypeVar("T")

_MB = 2**20
_LEAST_SPLIT = 16 * _MB


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """The sizes of splits and bins.

    >>> SplitSettings(target_size=0)
    Traceback (most recent call last):
    floe.errors.InvalidInput: the size of a split must be positive, found 0
    """

    target_size: int = SPLIT_TARGET_SIZE.default
    """How many bytes a bin has at most (`read.split.target-size`)."""

    lookback: int = SPLIT_LOOKBACK.default
    """How many bins are open at a time (`read.split.planning-lookback`)."""

    open_file_cost: int = SPLIT_OPEN_FILE_COST.default
    """What opening a file weighs at least (`read.split.open-file-cost`)."""

    def __post_init__(self) -> None:
        if self.target_size < 1:
            raise InvalidInput(f"the size of a split must be positive, found {self.target_size}")
        if self.lookback < 1:
            raise InvalidInput(f"at least one bin must be open, found a lookback of {self.lookback}")
        if self.open_file_cost < 0:
            raise InvalidInput(f"the cost of a file must not be negative, found {self.open_file_cost}")


def split_settings(
    properties: Mapping[str, str],
    *,
    target_size: int | None = None,
    lookback: int | None = None,
    open_file_cost: int | None = None,
) -> SplitSettings:
    """The settings of a table's properties; arguments override them.

    >>> split_settings({"read.split.target-size": "1000"}, lookback=2)
    SplitSettings(target_size=1000, lookback=2, open_file_cost=4194304)
    """
    return SplitSettings(
        SPLIT_TARGET_SIZE.read(properties) if target_size is None else target_size,
        SPLIT_LOOKBACK.read(properties) if lookback is None else lookback,
        SPLIT_OPEN_FILE_COST.read(properties) if open_file_cost is None else open_file_cost,
    )


def split_task(task: FileTask, target_size: int) -> Iterator[FileTask]:
    """The splits of a file, in order: at its split offsets, or of this many bytes each."""
    file = task.file
    offsets = file.usable_split_offsets
    # Where no offsets are known, only readers of Iceberg's own formats find the rows of any range of bytes.
    if file.file_format == "puffin" or (offsets is None and file.file_format not in FILE_FORMATS):
        yield task
        return
    if offsets is None:
        for start in range(0, file.file_size_in_bytes, target_size):
            yield task.part(start, min(target_size, file.file_size_in_bytes - start))
        return
    for start, end in zip(offsets, (*offsets[1:], file.file_size_in_bytes), strict=True):
        yield task.part(start, end - start)


def pack_tasks(tasks: Iterable[FileTask], settings: SplitSettings) -> Iterator[tuple[FileTask, ...]]:
    """The tasks split and packed into bins; neighbouring splits of a file in one bin are one task again."""

    def weight(task: FileTask) -> int:
        return max(task.size, task.files_count * settings.open_file_cost)

    parts = (part for task in tasks for part in split_task(task, settings.target_size))
    for bin_tasks in pack_bins(parts, weight, settings.target_size, settings.lookback):
        yield tuple(_merged(bin_tasks))


def _merged(tasks: Iterable[FileTask]) -> Iterator[FileTask]:
    last: FileTask | None = None
    for task in tasks:
        if last is not None and last.entry is task.entry and last.start + last.length == task.start:
            last = last.part(last.start, last.length + task.length)
            continue
        if last is not None:
            yield last
        last = task
    if last is not None:
        yield last


def pack_bins(items: Iterable[T], weight: Callable[[T], int], target: int, lookback: int) -> Iterator[list[T]]:
    """Items in bins that weigh up to `target`; a heavier item has its own bin.

    >>> list(pack_bins([5, 4, 3, 5, 2], int, 8, 10))
    [[5, 3], [4, 2], [5]]
    """
    bins: list[tuple[list[T], list[int]]] = []
    for item in items:
        item_weight = weight(item)
        for held, sums in bins:
            if sums[0] + item_weight <= target:
                held.append(item)
                sums[0] += item_weight
                break
        else:
            bins.append(([item], [item_weight]))
            if len(bins) > lookback:
                heaviest = max(range(len(bins)), key=lambda n: bins[n][1][0])
                yield bins.pop(heaviest)[0]
    for held, _ in bins:
        yield held


def adjusted_split_size(scan_size: int, parallelism: int, target_size: int) -> int:
    """The split size that keeps this many readers busy; never larger than before, and at least 16 MB.

    >>> adjusted_split_size(256 * 2**20, 8, 128 * 2**20) == 32 * 2**20
    True
    """
    if parallelism < 1 or target_size < 1:
        raise InvalidInput(f"cannot split for {parallelism} readers into {target_size} bytes each")
    splits = -(-scan_size // target_size)
    if splits >= parallelism:
        return target_size
    return max(scan_size // parallelism, min(_LEAST_SPLIT, target_size))
