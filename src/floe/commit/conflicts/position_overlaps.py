"""Whether two changes delete the same rows of a file, as far as can be told without reading data.

A deletion vector is read and gives the very positions; of a position delete file the bounds of its `pos` column are
known, if it is for one data file alone. What is not known may be anything. A vector holds the positions of the one that
it takes the place of, so only those that are new to it count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from pyroaring import BitMap64

from floe.errors import CorruptFile, NoSuchFile
from floe.spec.codecs.deletion_vectors import deserialize
from floe.spec.codecs.single_value import decode
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import DELETE_POS
from floe.spec.types import LONG
from floe.storage.protocol import Storage

__all__ = ["PositionRange", "PositionReader", "Positions", "VectorReader", "newly_deleted", "overlap"]

MAX_VECTOR_BYTES: Final = 16 * 2**20
"""Longer vectors are not looked into; a vector of this size deletes tens of millions of scattered rows."""

MAX_TOTAL_BYTES: Final = 128 * 2**20
"""What is read for one change at most."""


class PositionRange(NamedTuple):
    """Positions that lie somewhere between two others, both included."""

    first: int
    last: int


Positions: TypeAlias = BitMap64 | PositionRange | None
"""Deleted positions: all of them, between which they lie, or None if nothing is known."""

PositionReader: TypeAlias = Callable[[DataFile, str], "BitMap64 | None"]
"""What gives the positions that a delete file deletes in a data file, or None if it cannot tell."""


def overlap(one: Positions, other: Positions) -> bool:
    """Whether there may be a position in both.

    >>> overlap(BitMap64([1, 5]), BitMap64([2])), overlap(BitMap64([1, 5]), PositionRange(2, 4))
    (False, False)
    >>> overlap(PositionRange(1, 5), PositionRange(5, 9)), overlap(BitMap64([1]), None)
    (True, True)
    """
    if one is None or other is None:
        return True
    if isinstance(one, PositionRange):
        one, other = other, one
    if isinstance(one, PositionRange) and isinstance(other, PositionRange):
        return one.first <= other.last and other.first <= one.last
    assert isinstance(one, BitMap64)
    if isinstance(other, PositionRange):
        return bool(one.range_cardinality(other.first, other.last + 1))
    return not one.isdisjoint(other)


class VectorReader:
    """Reads deletion vectors from their Puffin files, each once and only up to a limit.

    >>> from floe.spec.codecs.deletion_vectors import blob_of
    >>> from floe.spec.codecs.puffin import write_file
    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, written = MemoryStorage(), write_file([blob_of([3, 8], "a.parquet")])
    >>> storage.write("memory:d.puffin", written.data)
    >>> (blob,) = written.payload.blobs
    >>> place = {"content_offset": blob.offset, "content_size_in_bytes": blob.length}
    >>> vector = DataFile(FileContent.POSITION_DELETES, "memory:d.puffin", "puffin", (), 2, len(written.data), **place)
    >>> list(VectorReader(storage).read(vector))
    [3, 8]
    """

    def __init__(
        self, storage: Storage, *, max_bytes: int = MAX_VECTOR_BYTES, total_bytes: int = MAX_TOTAL_BYTES
    ) -> None:
        self._storage = storage
        self._max_bytes = max_bytes
        self._left = total_bytes
        self._read: dict[tuple[str, int | None], BitMap64 | None] = {}

    def read(self, vector: DataFile) -> BitMap64 | None:
        """The positions of a deletion vector, or None if it is too long to look into."""
        key = vector.file_path, vector.content_offset
        if key not in self._read:
            self._read[key] = self._read_within_limits(vector)
        return self._read[key]

    def _read_within_limits(self, vector: DataFile) -> BitMap64 | None:
        offset, size = vector.content_offset, vector.content_size_in_bytes
        if offset is None or size is None or size > min(self._max_bytes, self._left):
            return None
        self._left -= size
        data = self._storage.read_range(vector.file_path, offset, size)
        try:
            return deserialize(data, cardinality=vector.record_count)
        except CorruptFile as error:
            raise error.with_context(file=vector.file_path) from None


def newly_deleted(
    path: str,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    vectors: VectorReader,
    read: PositionReader | None = None,
) -> list[Positions]:
    """The positions of a data file that one change deletes, by the deletes it adds and removes for that file.

    Each item is what one added delete file says. `read` knows of position delete files, which are data files in a
    format of their own; without it only their bounds are.
    """
    known: list[Positions] = []
    before = BitMap64()
    for vector in removed:
        if vector.is_deletion_vector:
            before |= _read_if_there(vector, vectors)
    for delete in added:
        positions: Positions = vectors.read(delete) if delete.is_deletion_vector else None
        if positions is None and read is not None:
            positions = read(delete, path)
        if isinstance(positions, BitMap64):
            known.append(positions - before)
        else:
            known.append(None if delete.is_deletion_vector else _bounds(delete))
    return known


def _read_if_there(vector: DataFile, vectors: VectorReader) -> BitMap64:
    """The positions of a vector that was removed; without them more is taken for new than is, which is safe."""
    try:
        return vectors.read(vector) or BitMap64()
    except NoSuchFile:
        return BitMap64()


def _bounds(delete: DataFile) -> PositionRange | None:
    """Between which positions a delete file for one data file deletes; bounds that make no sense are none."""
    if delete.target_path is None:
        return None
    first = (delete.lower_bounds or {}).get(DELETE_POS.id)
    last = (delete.upper_bounds or {}).get(DELETE_POS.id)
    if first is None or last is None:
        return None
    try:
        found = PositionRange(decode(LONG, first), decode(LONG, last))
    except CorruptFile:
        return None
    return found if 0 <= found.first <= found.last else None
