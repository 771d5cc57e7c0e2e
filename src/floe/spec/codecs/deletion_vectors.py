"""Deletion vectors: the positions of a file's deleted rows as a Puffin blob (Puffin spec: deletion-vector-v1).

```
length   4 bytes, big-endian: of magic and vector together
magic    D1 D3 39 64
vector   how many 32-bit bitmaps (8 bytes, little-endian), then each: its key (4 bytes, little-endian), Roaring bitmap
crc      4 bytes, big-endian: CRC-32 of magic and vector
```
A position's upper 32 bits are the key of the bitmap that holds its lower 32 bits. Vectors are `pyroaring.BitMap64`s.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from operator import index

from pyroaring import BitMap64, FrozenBitMap64

from floe.errors import CorruptFile, InvalidValue
from floe.spec.codecs.puffin import DELETION_VECTOR, Blob, BlobMetadata, FooterPayload
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import POS

MAGIC = bytes.fromhex("d1d33964")
REFERENCED_DATA_FILE = "referenced-data-file"
CARDINALITY = "cardinality"

MAX_POSITION = 0x7FFF_FFFE_8000_0000
"""The highest position that is written. The format allows up to 2**63 - 1, the reference implementation this far."""

_MAX_BLOB_SIZE = 2**31 - 1
_FRAME_SIZE = 12  # length, magic, crc
_COUNT_SIZE = 8
_KEY_SIZE = 4
_MAX_KEY = 2**31 - 1
_WHOLE = (BitMap64, FrozenBitMap64, range)


def serialize(positions: BitMap64 | Iterable[int]) -> bytes:
    """The blob of a set of positions. Runs are encoded as such where that is shorter, as other writers do.

    >>> serialize(range(5, 10))[:20].hex(" ", -4)
    '0000001f d1d33964 01000000 00000000 00000000'
    """
    vector = _bitmap(positions)
    vector.run_optimize()
    data = MAGIC + vector.serialize()
    if len(data) > _MAX_BLOB_SIZE - 8:
        raise InvalidValue(f"a deletion vector of {len(data)} bytes; at most {_MAX_BLOB_SIZE} can be written")
    return b"".join((len(data).to_bytes(4, "big"), data, zlib.crc32(data).to_bytes(4, "big")))


def _bitmap(positions: BitMap64 | Iterable[int]) -> BitMap64:
    try:
        # the bitmap would cut a float down to a whole number, so what may hold one goes through `index`
        vector = BitMap64(positions if isinstance(positions, _WHOLE) else map(index, positions))
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidValue("positions of deleted rows must be whole numbers from 0") from error
    if vector and vector.max() > MAX_POSITION:
        raise InvalidValue(f"the position of a deleted row must be at most {MAX_POSITION}, found {vector.max()}")
    return vector


def deserialize(data: bytes, *, cardinality: int | None = None, row_count: int | None = None) -> BitMap64:
    """The positions in a blob; CorruptFile unless every byte is as it must be.

    `cardinality` is what the manifest says (`record_count` of the vector's entry), and `row_count` the rows of the data
    file: no position can lie beyond.

    >>> list(deserialize(serialize([1, 2, 2**40])))
    [1, 2, 1099511627776]
    """
    vector = _vector_bytes(data)
    end = _walk(vector)
    if end != len(vector):
        raise CorruptFile(f"a deletion vector has {len(vector) - end} bytes behind its last bitmap")
    try:
        positions = BitMap64.deserialize(vector)
    except ValueError as error:
        raise CorruptFile(f"a deletion vector has a broken bitmap: {error}") from error
    if cardinality is not None and len(positions) != cardinality:
        raise CorruptFile(f"a deletion vector of {len(positions)} positions, where {cardinality} were announced")
    if row_count is not None and positions and positions.max() >= row_count:
        raise CorruptFile(f"a deletion vector deletes row {positions.max()} of a file of {row_count} rows")
    return positions


def _vector_bytes(data: bytes) -> bytes:
    """What lies within length, magic and checksum."""
    if len(data) < _FRAME_SIZE + _COUNT_SIZE:
        raise CorruptFile(f"a deletion vector of {len(data)} bytes; the shortest has {_FRAME_SIZE + _COUNT_SIZE}")
    length = int.from_bytes(data[:4], "big", signed=True)
    if length != len(data) - 8:
        raise CorruptFile(f"a deletion vector of {len(data)} bytes says that {length} of them are content")
    if data[4:8] != MAGIC:
        raise CorruptFile(f"a deletion vector must begin with the magic {MAGIC.hex(' ')}, found {data[4:8].hex(' ')}")
    stored, computed = int.from_bytes(data[-4:], "big"), zlib.crc32(data[4:-4])
    if stored != computed:
        raise CorruptFile(f"the checksum of a deletion vector is {computed:08x}, but {stored:08x} is stored")
    return bytes(data[8:-4])


def _walk(vector: bytes) -> int:
    """Where the last bitmap ends; checks the count, the order of the keys and that every container is there.

    What is inside the containers is checked by the library that reads them.
    """
    count = int.from_bytes(vector[:_COUNT_SIZE], "little")
    if count > _MAX_KEY or count * (_KEY_SIZE + 8) > len(vector):  # an empty bitmap has 8 bytes
        raise CorruptFile(f"a deletion vector of {len(vector)} bytes cannot hold {count} bitmaps")
    at, last = _COUNT_SIZE, -1
    for _ in range(count):
        key = _number(vector, at, _KEY_SIZE)
        if not last < key <= _MAX_KEY:
            raise CorruptFile(
                f"the keys of a deletion vector must ascend from 0 to {_MAX_KEY}: found {key} after {last}"
            )
        at, last = _bitmap_end(vector, at + _KEY_SIZE), key
    return at


_NO_RUNS, _RUNS = 12346, 12347
_OFFSETS_FROM = 4  # with runs, bitmaps of fewer containers have no offset table
_ARRAY_MAX, _BITSET_SIZE = 4096, 8192


def _bitmap_end(data: bytes, at: int) -> int:
    """Where a 32-bit Roaring bitmap that starts at `at` ends (Roaring format: general layout)."""
    cookie = _number(data, at, 4)
    if cookie & 0xFFFF == _RUNS:
        containers = (cookie >> 16) + 1
        flags = int.from_bytes(_take(data, at + 4, (containers + 7) // 8), "little")
        at += 4 + (containers + 7) // 8
    elif cookie == _NO_RUNS:
        containers, flags = _number(data, at + 4, 4), 0
        at += 8
    else:
        raise CorruptFile(f"a bitmap of a deletion vector begins with an unknown cookie {cookie:#010x}")
    if containers > 2**16:
        raise CorruptFile(f"a bitmap of a deletion vector has {containers} containers; there can be {2**16}")
    heads = _take(data, at, 4 * containers)
    at += 4 * containers
    if not cookie & 1 or containers >= _OFFSETS_FROM:
        at += 4 * containers
    for i in range(containers):
        if flags >> i & 1:
            at += 2 + 4 * _number(data, at, 2)
        else:
            cardinality = int.from_bytes(heads[4 * i + 2 : 4 * i + 4], "little") + 1
            at += 2 * cardinality if cardinality <= _ARRAY_MAX else _BITSET_SIZE
    if at > len(data):
        raise CorruptFile("a bitmap of a deletion vector is cut off")
    return at


def _take(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if len(part) != size:
        raise CorruptFile("a bitmap of a deletion vector is cut off")
    return part


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_take(data, at, size), "little")


# in a Puffin file -----------------------------------------------------------------------------------------------


def blob_of(positions: BitMap64 | Iterable[int], referenced_data_file: str) -> Blob:
    """The blob of a data file's deleted positions, ready for `puffin.write_file`.

    Snapshot and sequence number are not known when a vector is written, so they are -1.

    >>> blob = blob_of([3, 4], "s3://b/a.parquet")
    >>> blob.snapshot_id, blob.fields, blob.properties
    (-1, (2147483645,), {'referenced-data-file': 's3://b/a.parquet', 'cardinality': '2'})
    """
    vector = _bitmap(positions)
    properties = {REFERENCED_DATA_FILE: referenced_data_file, CARDINALITY: str(len(vector))}
    return Blob(DELETION_VECTOR, (POS.id,), -1, -1, serialize(vector), None, properties)


def find_blob(payload: FooterPayload, vector: DataFile) -> BlobMetadata:
    """The blob that a manifest's deletion vector means; both must say the same about it (spec: Data File Fields).

    Reading a vector needs no footer. This is for those who want to be sure: tests, audits, repairs.

    >>> from floe.spec.codecs.puffin import write_file
    >>> from floe.spec.manifests.entries import FileContent
    >>> written = write_file([blob_of([3], "a.parquet")])
    >>> place = {"referenced_data_file": "a.parquet", "content_offset": 4, "content_size_in_bytes": 42}
    >>> vector = DataFile(FileContent.POSITION_DELETES, "d.puffin", "puffin", (), 1, len(written.data), **place)
    >>> find_blob(written.payload, vector).properties["cardinality"]
    '1'
    """
    where = {"file": vector.file_path, "data file": vector.referenced_data_file}
    place = vector.content_offset, vector.content_size_in_bytes
    blob = next((blob for blob in payload.blobs if (blob.offset, blob.length) == place), None)
    if blob is None:
        raise CorruptFile(f"the Puffin file has no blob of {place[1]} bytes at {place[0]}", **where)
    if blob.type != DELETION_VECTOR or blob.compression_codec is not None:
        raise CorruptFile(f"the blob at {place[0]} is not an uncompressed deletion vector: {blob.type[:80]!r}", **where)
    if blob.properties.get(REFERENCED_DATA_FILE) != vector.referenced_data_file:
        raise CorruptFile("the blob of the deletion vector names another data file", **where)
    if blob.properties.get(CARDINALITY) != str(vector.record_count):
        found = blob.properties.get(CARDINALITY)
        raise CorruptFile(f"the manifest counts {vector.record_count} deleted rows, the blob {found}", **where)
    return blob
