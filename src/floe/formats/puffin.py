"""Puffin files in a storage: deletion vectors and statistics.

A Puffin file has blobs instead of rows, so it has a reader and a writer of its own; they come from the registry, like
those of data files. A closed writer describes its file as manifests (`WrittenPuffin.vectors`) and table metadata
(`WrittenPuffin.statistics`) record it. `read_deletion_vector` reads one vector by the offset in its manifest entry.

>>> from floe.formats.registry import default_registry
>>> from floe.storage.memory import MemoryStorage
>>> formats, storage = default_registry(), MemoryStorage()
>>> with formats.write_puffin(storage, "memory:d.puffin") as file:
...     file.add_vector("memory:a.parquet", [1, 5])
...     file.add(Blob("note", (1,), 7, 1, b"hello", "zstd"))
>>> [(vector.referenced_data_file, vector.record_count) for vector in file.close().vectors()]
[('memory:a.parquet', 2)]
>>> reader = formats.read_puffin(storage, "memory:d.puffin")
>>> [reader.read(blob) for blob in reader.blobs if blob.type == "note"]
[b'hello']
>>> list(reader.vectors()["memory:a.parquet"])
[1, 5]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from pyroaring import BitMap64

from floe.errors import CorruptFile, FloeError, InvalidInput
from floe.spec.codecs.deletion_vectors import CARDINALITY, REFERENCED_DATA_FILE, deletion_vector_blob, deserialize
from floe.spec.codecs.puffin import (
    DELETION_VECTOR,
    FOOTER_TAIL_SIZE,
    READ_LIMIT,
    Blob,
    BlobMetadata,
    FooterPayload,
    footer_size,
    parse_footer,
    read_blob,
    write_file,
)
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.table_metadata import BlobMetadata as StatisticsBlob, StatisticsFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.storage.protocol import Storage

_CREATED_BY = "created-by"
_WRITER = "Floe"
_FIRST_READ_BYTES = 8 * 1024
"""How much of the end is read first; a longer footer takes a second read."""


class PuffinReader:
    """Reads a Puffin file: its footer, and the content of single blobs."""

    def __init__(self, storage: Storage, location: str, *, file_size: int | None = None) -> None:
        self.storage = storage
        self.location = location
        self._size = file_size

    @cached_property
    def footer(self) -> FooterPayload:
        """The footer, read at the first use; raises `CorruptFile` if it is damaged."""
        size = self.storage.stat(self.location).size if self._size is None else self._size
        try:
            if size < FOOTER_TAIL_SIZE:
                raise CorruptFile(f"a Puffin file of {size} bytes is too short")
            tail = self._read_end(size, _FIRST_READ_BYTES)
            needed = footer_size(tail)
            return parse_footer(tail if needed <= len(tail) else self._read_end(size, needed), size)
        except FloeError as error:
            raise error.with_context(file=self.location) from None

    def _read_end(self, size: int, count: int) -> bytes:
        count = min(count, size)
        return self.storage.read_range(self.location, size - count, count)

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """The metadata of each blob."""
        return self.footer.blobs

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of the file, such as the application that wrote it."""
        return self.footer.properties

    def read(self, blob: BlobMetadata, *, max_size: int = READ_LIMIT) -> bytes:
        """Read and decompress a blob; raises `CorruptFile` if its content is larger than `max_size` bytes."""
        try:
            return read_blob(self.storage.read_range(self.location, blob.offset, blob.length), blob, max_size=max_size)
        except FloeError as error:
            raise error.with_context(file=self.location) from None

    def vectors(self) -> dict[str, BitMap64]:
        """Read the deletion vectors of the file, by the location of their data file."""
        return {_data_file(blob, self.location): self._vector(blob) for blob in self.blobs if _is_vector(blob)}

    def _vector(self, blob: BlobMetadata) -> BitMap64:
        try:
            return deserialize(self.read(blob), cardinality=_cardinality(blob))
        except FloeError as error:
            raise error.with_context(file=self.location) from None


@dataclass(frozen=True, slots=True)
class WrittenPuffin:
    """A complete Puffin file, and how manifests and table metadata record it."""

    location: str
    file_size: int
    footer_size: int
    footer: FooterPayload
    partitions: Mapping[str, tuple[PartitionSpec | None, tuple[Any, ...]]]
    """The spec and partition of the data files whose vectors are in the file."""

    def vectors(self) -> list[DataFile]:
        """The deletion vectors as files of manifest entries (spec: Deletion Vectors)."""
        return [self._vector(blob) for blob in self.footer.blobs if _is_vector(blob)]

    def _vector(self, blob: BlobMetadata) -> DataFile:
        data_file = _data_file(blob, self.location)
        spec, partition = self.partitions[data_file]
        return DataFile(
            FileContent.POSITION_DELETES,
            self.location,
            "puffin",
            partition,
            int(blob.properties[CARDINALITY]),
            self.file_size,
            referenced_data_file=data_file,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
            spec_id=spec.spec_id if spec is not None else 0,
        )

    def statistics(self, snapshot_id: int) -> StatisticsFile:
        """The file as table metadata lists it for a snapshot (spec: Table Statistics)."""
        blobs = tuple(
            StatisticsBlob(
                type=blob.type,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                fields=blob.fields,
                properties=dict(blob.properties),
            )
            for blob in self.footer.blobs
        )
        return StatisticsFile(
            snapshot_id=snapshot_id,
            statistics_path=self.location,
            file_size_in_bytes=self.file_size,
            file_footer_size_in_bytes=self.footer_size,
            blob_metadata=blobs,
        )


class PuffinWriter:
    """Writes a Puffin file, which exists once `close` is called, and not if the `with` block raises."""

    def __init__(
        self, storage: Storage, location: str, *, overwrite: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        self.storage = storage
        self.location = location
        self._overwrite = overwrite
        self._properties = {_CREATED_BY: _WRITER, **(properties or {})}
        self._blobs: list[Blob] = []
        self._partitions: dict[str, tuple[PartitionSpec | None, tuple[Any, ...]]] = {}
        self._done: WrittenPuffin | None = None
        self._aborted = False

    def add(self, blob: Blob) -> None:
        """Add a blob, such as a theta sketch of a column."""
        if self._done is not None or self._aborted:
            raise ValueError(f"the file is closed: {self.location}")
        self._blobs.append(blob)

    def add_vector(
        self,
        data_file: str | DataFile,
        positions: BitMap64 | Iterable[int],
        *,
        spec: PartitionSpec | None = None,
        partition: Iterable[Any] = (),
    ) -> None:
        """Add the complete deletion vector of a data file; raises `InvalidInput` for a second vector of the same file.

        A `DataFile` also provides the partition.
        """
        if isinstance(data_file, DataFile):
            partition = partition or data_file.partition
            data_file = data_file.file_path
        if data_file in self._partitions:
            raise InvalidInput("a data file has one deletion vector", file=self.location, data_file=data_file)
        self.add(deletion_vector_blob(positions, data_file))
        self._partitions[data_file] = (spec, tuple(partition))

    def close(self) -> WrittenPuffin:
        """Write the file and return its description; further calls return the same."""
        if self._aborted:
            raise ValueError(f"the file is closed: {self.location}")
        if self._done is None:
            file = write_file(self._blobs, self._properties)
            self.storage.write(self.location, file.data, overwrite=self._overwrite)
            self._done = WrittenPuffin(
                self.location, len(file.data), file.footer_size, file.payload, dict(self._partitions)
            )
            self._blobs = []
        return self._done

    def abort(self) -> None:
        """Discard the blobs; does nothing after `close`."""
        self._aborted = self._done is None
        self._blobs = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def read_deletion_vector(storage: Storage, vector: DataFile, *, row_count: int | None = None) -> BitMap64:
    """Read the deleted positions of a deletion vector.

    Raises `CorruptFile` unless the vector has as many positions as its manifest entry says, all below `row_count`.

    >>> from floe.storage.memory import MemoryStorage
    >>> read_deletion_vector(MemoryStorage(), DataFile(FileContent.POSITION_DELETES, "memory:d", "puffin", (), 1, 9))
    Traceback (most recent call last):
    floe.errors.CorruptFile: the manifest does not say where in its file the deletion vector is (file: memory:d)
    """
    offset, length = vector.content_offset, vector.content_size_in_bytes
    if offset is None or length is None:
        raise CorruptFile("the manifest does not say where in its file the deletion vector is", file=vector.file_path)
    try:
        data = storage.read_range(vector.file_path, offset, length)
        return deserialize(data, cardinality=vector.record_count, row_count=row_count)
    except FloeError as error:
        raise error.with_context(file=vector.file_path) from None


def _is_vector(blob: BlobMetadata) -> bool:
    return blob.type == DELETION_VECTOR


def _data_file(blob: BlobMetadata, location: str) -> str:
    referenced = blob.properties.get(REFERENCED_DATA_FILE)
    if referenced is None:
        raise CorruptFile("a deletion vector does not say which data file it is for", file=location)
    return referenced


def _cardinality(blob: BlobMetadata) -> int | None:
    text = blob.properties.get(CARDINALITY, "")
    return int(text) if text.isascii() and text.isdigit() else None
