"""One file to read, or a part of one: with the deletes to apply and the filter that is left to check."""

from __future__ import annotations

from dataclasses import dataclass

from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile, ManifestEntry
from floe.spec.partitioning.partition_spec import PartitionSpec

__all__ = ["FileTask", "content_size"]


def content_size(file: DataFile) -> int:
    """How many bytes a reader takes from a file: of a Puffin file only those of the deletion vector.

    >>> from floe.spec.manifests.entries import FileContent
    >>> content_size(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100))
    100
    """
    if file.is_deletion_vector and file.content_size_in_bytes is not None:
        return file.content_size_in_bytes
    return file.file_size_in_bytes


@dataclass(frozen=True, slots=True)
class FileTask:
    """A data file, or the stretch of it from `start` on, to be read.

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
    """Where the stretch begins, and how many bytes it has; up to the end of the file unless told."""

    def __post_init__(self) -> None:
        if self.length < 0:
            object.__setattr__(self, "length", self.file.file_size_in_bytes - self.start)

    @property
    def file(self) -> DataFile:
        """The data file."""
        return self.entry.data_file

    @property
    def is_whole(self) -> bool:
        """Whether the task is the whole file."""
        return self.start == 0 and self.length == self.file.file_size_in_bytes

    @property
    def deletes_size(self) -> int:
        """How many bytes of deletes have to be read."""
        return sum(map(content_size, self.deletes))

    @property
    def size(self) -> int:
        """How many bytes have to be read, deletes too."""
        return self.length + self.deletes_size

    @property
    def files_count(self) -> int:
        """How many files have to be opened."""
        return 1 + len(self.deletes)

    @property
    def estimated_rows(self) -> int:
        """About how many rows the stretch has, deleted ones too."""
        file = self.file
        if self.is_whole:
            return file.record_count
        offsets = file.usable_split_offsets
        readable = file.file_size_in_bytes - (offsets[0] if offsets else 0)
        return file.record_count * self.length // readable if readable > 0 else 0

    def part(self, start: int, length: int) -> FileTask:
        """A stretch of the file, with the same deletes and filter."""
        return FileTask(self.entry, self.spec, self.deletes, self.residual, start, length)
