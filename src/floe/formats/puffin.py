"""Puffin files in a storage: deletion vectors and statistics, as the other formats hold rows.

A Puffin file has blobs in place of rows, so it has a reader and a writer of its own; they come from the registry, like
those of data files. Once closed, a writer tells what manifests and metadata have to say of the file.

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
from floe.spec.codecs.deletion_vectors import CARDINALITY, REFERENCED_DATA_FILE, blob_of, deserialize
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
_USUAL_FOOTER = 8 * 1024
"""Read from the end at once; more only where a footer is longer."""


class PuffinReader:
    """A Puffin file that is read: what it holds, and the content of single blobs."""

    def __init__(self, storage: Storage, location: str, *, file_size: int | None = None) -> None:
        self.storage = storage
        self.location = location
        self._size = file_size

    @cached_property
    def footer(self) -> FooterPayload:
        """All that the footer says, read when it is first asked for."""
        size = self.storage.stat(self.location).size if self._size is None else self._size
        try:
            if size < FOOTER_TAIL_SIZE:
                raise CorruptFile(f"a Puffin file of {size} bytes is too short")
            tail = self._last(size, _USUAL_FOOTER)
            needed = footer_size(tail)
            return parse_footer(tail if needed <= len(tail) else self._last(size, needed), size)
        except FloeError as error:
            raise error.with_context(file=self.location) from None

    def _last(self, size: int, count: int) -> bytes:
        count = min(count, size)
        return self.storage.read_range(self.location, size - count, count)

    @property
    def blobs(self) -> tuple[BlobMetadata, ...]:
        """What the footer says of each blob."""
        return self.footer.blobs

    @property
    def properties(self) -> Mapping[str, str]:
        """What the footer says of the whole file, such as who wrote it."""
        return self.footer.properties

    def read(self, blob: BlobMetadata, *, max_size: int = READ_LIMIT) -> bytes:
        """The content of a blob, decompressed; at most `max_size` bytes of it."""
        try:
            return read_blob(self.storage.read_range(self.location, blob.offset, blob.length), blob, max_size=max_size)
        except FloeError as error:
            raise error.with_context(file=self.location) from None

    def vectors(self) -> dict[str, BitMap64]:
        """The deletion vectors in the file, by the location of the data file that each is for."""
        return {_data_file(blob, self.location): self._vector(blob) for blob in self.blobs if _is_vector(blob)}

    def _vector(self, blob: BlobMetadata) -> BitMap64:
        try:
            return deserialize(self.read(blob), cardinality=_cardinality(blob))
        except FloeError as error:
            raise error.with_context(file=self.location) from None


@dataclass(frozen=True, slots=True)
class WrittenPuffin:
    """A Puffin file that is there: what manifests say of its vectors, and metadata of its statistics."""

    location: str
    file_size: int
    footer_size: int
    footer: FooterPayload
    partitions: Mapping[str, tuple[PartitionSpec | None, tuple[Any, ...]]]
    """The spec and partition of each data file that has a vector here."""

    def vectors(self) -> list[DataFile]:
        """The deletion vectors as entries of a manifest (spec: Deletion Vectors)."""
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
        """The file as metadata lists it for a snapshot (spec: Table Statistics)."""
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
    """A Puffin file being written; seen by nobody until `close`, and never if the block raises."""

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
        """Add a blob, such as a sketch of a column's distinct values."""
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
        """Add the complete deletion vector of a data file, which may have only one; its partition is the file's."""
        if isinstance(data_file, DataFile):
            partition = partition or data_file.partition
            data_file = data_file.file_path
        if data_file in self._partitions:
            raise InvalidInput("a data file has one deletion vector", file=self.location, data_file=data_file)
        self.add(blob_of(positions, data_file))
        self._partitions[data_file] = (spec, tuple(partition))

    def close(self) -> WrittenPuffin:
        """Write the file, and describe it; closing twice gives the same answer."""
        if self._aborted:
            raise ValueError(f"the file is closed: {self.location}")
        if self._done is None:
            made = write_file(self._blobs, self._properties)
            self.storage.write(self.location, made.data, overwrite=self._overwrite)
            self._done = WrittenPuffin(
                self.location, len(made.data), made.footer_size, made.payload, dict(self._partitions)
            )
            self._blobs = []
        return self._done

    def abort(self) -> None:
        """Throw away what was added; after `close`, does nothing."""
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


def _is_vector(blob: BlobMetadata) -> bool:
    return blob.type == DELETION_VECTOR


def _data_file(blob: BlobMetadata, location: str) -> str:
    found = blob.properties.get(REFERENCED_DATA_FILE)
    if found is None:
        raise CorruptFile("a deletion vector does not say which data file it is for", file=location)
    return found


def _cardinality(blob: BlobMetadata) -> int | None:
    text = blob.properties.get(CARDINALITY, "")
    return int(text) if text.isascii() and text.isdigit() else None
