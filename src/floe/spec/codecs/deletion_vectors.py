"""Deletion vectors: the positions of a file's deleted rows as a Puffin blob (Puffin spec: deletion-vector-v1).

```
length   4 bytes, big-endian: of magic and vector together
magic    D1 D3 39 64
vector   number of 32-bit bitmaps (8 bytes, little-endian); then for each its key (4 bytes, little-endian) and bitmap
crc      4 bytes, big-endian: CRC-32 of magic and vector
```
The upper 32 bits of a position are the key of the bitmap with its lower 32 bits. Vectors are `pyroaring.BitMap64`s.
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
"""The highest position that is written; the limit of the reference implementation. The format allows 2**63 - 1."""

_MAX_BLOB_SIZE = 2**31 - 1
_FRAME_SIZE = 12  # length, magic, crc
_COUNT_SIZE = 8
_KEY_SIZE = 4
_MAX_KEY = 2**31 - 1
_INTEGER_COLLECTIONS = (BitMap64, FrozenBitMap64, range)


def serialize(positions: BitMap64 | Iterable[int]) -> bytes:
    """Encode a set of positions as a blob; runs are run-length encoded if that is shorter, as other writers do.

    >>> serialize(range(5, 10))[:20].hex(" ", -4)
    '0000001f d1d33964 01000000 00000000 00000000'
    """
    vector = _to_bitmap(positions)
    vector.run_optimize()
    data = MAGIC + vector.serialize()
    if len(data) > _MAX_BLOB_SIZE - 8:
        raise InvalidValue(f"a deletion vector of {len(data)} bytes; at most {_MAX_BLOB_SIZE} can be written")
    return b"".join((len(data).to_bytes(4, "big"), data, zlib.crc32(data).to_bytes(4, "big")))


def _to_bitmap(positions: BitMap64 | Iterable[int]) -> BitMap64:
    try:
        # BitMap64 would truncate floats, which `index` rejects
        vector = BitMap64(positions if isinstance(positions, _INTEGER_COLLECTIONS) else map(index, positions))
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidValue("positions of deleted rows must be integers from 0") from error
    if vector and vector.max() > MAX_POSITION:
        raise InvalidValue(f"the position of a deleted row must be at most {MAX_POSITION}, found {vector.max()}")
    return vector


def deserialize(data: bytes, *, cardinality: int | None = None, row_count: int | None = None) -> BitMap64:
    """Decode the positions in a blob; `CorruptFile` if it is not valid.

    `cardinality` is the `record_count` of the vector's entry in the manifest, and `row_count` the number of rows of the
    data file; the blob must agree with them.

    >>> list(deserialize(serialize([1, 2, 2**40])))
    [1, 2, 1099511627776]
    """
    vector = _vector_bytes(data)
    end = _check_bitmaps(vector)
    if end != len(vector):
        raise CorruptFile(f"a deletion vector has {len(vector) - end} bytes after its last bitmap")
    try:
        positions = BitMap64.deserialize(vector)
    except ValueError as error:
        raise CorruptFile(f"a deletion vector has a broken bitmap: {error}") from error
    if cardinality is not None and len(positions) != cardinality:
        raise CorruptFile(f"a deletion vector has {len(positions)} positions, expected {cardinality}")
    if row_count is not None and positions and positions.max() >= row_count:
        raise CorruptFile(f"a deletion vector deletes row {positions.max()} of a file of {row_count} rows")
    return positions


def _vector_bytes(data: bytes) -> bytes:
    """The vector between the magic and the checksum, which are checked."""
    if len(data) < _FRAME_SIZE + _COUNT_SIZE:
        raise CorruptFile(f"a deletion vector has at least {_FRAME_SIZE + _COUNT_SIZE} bytes, found {len(data)}")
    length = int.from_bytes(data[:4], "big", signed=True)
    if length != len(data) - 8:
        raise CorruptFile(f"a deletion vector of {len(data)} bytes has content of {length} bytes, by its header")
    if data[4:8] != MAGIC:
        raise CorruptFile(f"a deletion vector must begin with the magic {MAGIC.hex(' ')}, found {data[4:8].hex(' ')}")
    stored, computed = int.from_bytes(data[-4:], "big"), zlib.crc32(data[4:-4])
    if stored != computed:
        raise CorruptFile(f"the checksum of a deletion vector is {computed:08x}, but {stored:08x} is stored")
    return bytes(data[8:-4])


def _check_bitmaps(vector: bytes) -> int:
    """Check the count, the order of the keys and the sizes of the containers; returns where the last bitmap ends.

    The content of containers is checked by pyroaring.
    """
    count = int.from_bytes(vector[:_COUNT_SIZE], "little")
    if count > _MAX_KEY or count * (_KEY_SIZE + 8) > len(vector):  # an empty bitmap has 8 bytes
        raise CorruptFile(f"a deletion vector of {len(vector)} bytes cannot hold {count} bitmaps")
    offset, last_key = _COUNT_SIZE, -1
    for _ in range(count):
        key = _read_number(vector, offset, _KEY_SIZE)
        if not last_key < key <= _MAX_KEY:
            raise CorruptFile(
                f"the keys of a deletion vector must ascend from 0 to {_MAX_KEY}: found {key} after {last_key}"
            )
        offset, last_key = _bitmap_end(vector, offset + _KEY_SIZE), key
    return offset


_NO_RUNS, _RUNS = 12346, 12347
_OFFSETS_FROM = 4  # with runs, bitmaps of fewer containers have no offset table
_ARRAY_MAX, _BITSET_SIZE = 4096, 8192


def _bitmap_end(data: bytes, offset: int) -> int:
    """Return the end of the 32-bit Roaring bitmap at an offset (Roaring format: general layout)."""
    cookie = _read_number(data, offset, 4)
    if cookie & 0xFFFF == _RUNS:
        containers = (cookie >> 16) + 1
        flags = int.from_bytes(_slice(data, offset + 4, (containers + 7) // 8), "little")
        offset += 4 + (containers + 7) // 8
    elif cookie == _NO_RUNS:
        containers, flags = _read_number(data, offset + 4, 4), 0
        offset += 8
    else:
        raise CorruptFile(f"a bitmap of a deletion vector begins with an unknown cookie {cookie:#010x}")
    if containers > 2**16:
        raise CorruptFile(f"a bitmap of a deletion vector has {containers} containers; there can be {2**16}")
    headers = _slice(data, offset, 4 * containers)
    offset += 4 * containers
    if not cookie & 1 or containers >= _OFFSETS_FROM:
        offset += 4 * containers
    for i in range(containers):
        if flags >> i & 1:
            offset += 2 + 4 * _read_number(data, offset, 2)
        else:
            cardinality = int.from_bytes(headers[4 * i + 2 : 4 * i + 4], "little") + 1
            offset += 2 * cardinality if cardinality <= _ARRAY_MAX else _BITSET_SIZE
    if offset > len(data):
        raise CorruptFile("a bitmap of a deletion vector is truncated")
    return offset


def _slice(data: bytes, offset: int, size: int) -> bytes:
    part = data[offset : offset + size]
    if len(part) != size:
        raise CorruptFile("a bitmap of a deletion vector is truncated")
    return part


def _read_number(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(_slice(data, offset, size), "little")


# Puffin blobs ----------------------------------------------------------------------------------------------------


def deletion_vector_blob(positions: BitMap64 | Iterable[int], referenced_data_file: str) -> Blob:
    """Make the blob of a data file's deleted positions for `puffin.write_file`.

    The snapshot id and sequence number are -1, because they are not known when a vector is written.

    >>> blob = deletion_vector_blob([3, 4], "s3://b/a.parquet")
    >>> blob.snapshot_id, blob.fields, blob.properties
    (-1, (2147483645,), {'referenced-data-file': 's3://b/a.parquet', 'cardinality': '2'})
    """
    vector = _to_bitmap(positions)
    properties = {REFERENCED_DATA_FILE: referenced_data_file, CARDINALITY: str(len(vector))}
    return Blob(DELETION_VECTOR, (POS.id,), -1, -1, serialize(vector), None, properties)


def find_blob(payload: FooterPayload, vector: DataFile) -> BlobMetadata:
    """Find the blob of a manifest's deletion vector; `CorruptFile` if they do not agree (spec: Data File Fields).

    Readers of deletion vectors do not need the footer. This is for tests, audits and repairs.

    >>> from floe.spec.codecs.puffin import write_file
    >>> from floe.spec.manifests.entries import FileContent
    >>> written = write_file([deletion_vector_blob([3], "a.parquet")])
    >>> place = {"referenced_data_file": "a.parquet", "content_offset": 4, "content_size_in_bytes": 42}
    >>> vector = DataFile(FileContent.POSITION_DELETES, "d.puffin", "puffin", (), 1, len(written.data), **place)
    >>> find_blob(written.payload, vector).properties["cardinality"]
    '1'
    """
    context = {"file": vector.file_path, "data file": vector.referenced_data_file}
    location = vector.content_offset, vector.content_size_in_bytes
    blob = next((blob for blob in payload.blobs if (blob.offset, blob.length) == location), None)
    if blob is None:
        raise CorruptFile(f"the Puffin file has no blob of {location[1]} bytes at {location[0]}", **context)
    if blob.type != DELETION_VECTOR or blob.compression_codec is not None:
        raise CorruptFile(
            f"the blob at {location[0]} is not an uncompressed deletion vector: {blob.type[:80]!r}", **context
        )
    if blob.properties.get(REFERENCED_DATA_FILE) != vector.referenced_data_file:
        raise CorruptFile("the blob of the deletion vector names another data file", **context)
    if blob.properties.get(CARDINALITY) != str(vector.record_count):
        cardinality = blob.properties.get(CARDINALITY)
        raise CorruptFile(f"the manifest counts {vector.record_count} deleted rows, the blob {cardinality}", **context)
    return blob
