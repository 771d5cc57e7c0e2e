"""Files cut into stretches, and stretches packed into bins of about equal work, as Java Iceberg does it.

A file is cut where its writer said that it can be cut (the row groups of Parquet, the stripes of ORC), or else every so
many bytes. The weight of a stretch is its bytes and those of its deletes, and at least a fixed price for every file
that has to be opened. Bins are filled in the order of the files, so that neighbours stay together, with a few bins open
at a time; when there are too many, the heaviest is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from floe.errors import InvalidInput
from floe.plan.tasks import FileTask
from floe.spec.metadata.properties import integer_property

__all__ = ["SplitSettings", "adjusted_split_size", "pack", "pack_tasks", "split_settings", "split_task"]

T = TypeVar("T")

_MB = 2**20
_LEAST_SPLIT = 16 * _MB


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How large the bins are.

    >>> SplitSettings(target_size=0)
    Traceback (most recent call last):
    floe.errors.InvalidInput: the size of a split must be positive, found 0
    """

    target_size: int = 128 * _MB
    """How many bytes a bin has at most (`read.split.target-size`)."""

    lookback: int = 10
    """How many bins are open at a time (`read.split.planning-lookback`)."""

    open_file_cost: int = 4 * _MB
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
    """The settings of a table's properties, or those that are given.

    >>> split_settings({"read.split.target-size": "1000"}, lookback=2)
    SplitSettings(target_size=1000, lookback=2, open_file_cost=4194304)
    """
    usual = SplitSettings()

    def chosen(given: int | None, name: str, default: int) -> int:
        return integer_property(properties, f"read.split.{name}", default=default) if given is None else given

    return SplitSettings(
        chosen(target_size, "target-size", usual.target_size),
        chosen(lookback, "planning-lookback", usual.lookback),
        chosen(open_file_cost, "open-file-cost", usual.open_file_cost),
    )


def split_task(task: FileTask, target_size: int) -> Iterator[FileTask]:
    """The stretches of a file, in order: one for each place where it can be cut, or of that many bytes each."""
    file = task.file
    if file.file_format == "puffin":
        yield task
        return
    offsets = file.usable_split_offsets
    if offsets is None:
        for start in range(0, file.file_size_in_bytes, target_size):
            yield task.part(start, min(target_size, file.file_size_in_bytes - start))
        return
    for start, end in zip(offsets, (*offsets[1:], file.file_size_in_bytes), strict=True):
        yield task.part(start, end - start)


def pack_tasks(tasks: Iterable[FileTask], settings: SplitSettings) -> Iterator[tuple[FileTask, ...]]:
    """The tasks cut up and packed into bins; stretches of one file that meet in a bin are one task again."""

    def weight(task: FileTask) -> int:
        return max(task.size, task.files_count * settings.open_file_cost)

    parts = (part for task in tasks for part in split_task(task, settings.target_size))
    for found in pack(parts, weight, settings.target_size, settings.lookback):
        yield tuple(_merged(found))


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


def pack(items: Iterable[T], weight: Callable[[T], int], target: int, lookback: int) -> Iterator[list[T]]:
    """Items in bins that weigh up to `target`; an item that is heavier has a bin of its own.

    >>> list(pack([5, 4, 3, 5, 2], int, 8, 10))
    [[5, 3], [4, 2], [5]]
    """
    bins: list[tuple[list[T], list[int]]] = []
    for item in items:
        own = weight(item)
        for held, sums in bins:
            if sums[0] + own <= target:
                held.append(item)
                sums[0] += own
                break
        else:
            bins.append(([item], [own]))
            if len(bins) > lookback:
                heaviest = max(range(len(bins)), key=lambda n: bins[n][1][0])
                yield bins.pop(heaviest)[0]
    for held, _ in bins:
        yield held


def adjusted_split_size(scan_size: int, parallelism: int, target_size: int) -> int:
    """The size of splits that keeps as many readers busy; it only ever becomes smaller, and not below 16 MB.

    >>> adjusted_split_size(256 * 2**20, 8, 128 * 2**20) == 32 * 2**20
    True
    """
    if parallelism < 1 or target_size < 1:
        raise InvalidInput(f"cannot split for {parallelism} readers into {target_size} bytes each")
    splits = -(-scan_size // target_size)
    if splits >= parallelism:
        return target_size
    return max(scan_size // parallelism, min(_LEAST_SPLIT, target_size))
