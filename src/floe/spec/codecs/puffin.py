"""Puffin files: blobs of statistics or deletion vectors, and the footer that describes them (Puffin spec).

```
PFA1  blob … blob  PFA1 payload  payload-size flags PFA1
                   └──────────────── footer ───────────┘
```
The payload is JSON, plain or as one LZ4 frame. The functions work on bytes that the caller has read: `footer_size`
returns, from the last 12 bytes of a file, how many bytes to read for `parse_footer`; `read_blob` decodes the bytes of
one blob.

Files are not trusted. LZ4 and Zstandard frames must have the size of their content in their header (Puffin spec:
Compression codecs); it is checked against a limit before anything is allocated, and the content must have exactly that
size, so a few bytes cannot expand to gigabytes. Only one frame is read, and nothing may follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import cramjam
import msgspec

from floe.errors import CorruptFile, InvalidInput, UnsupportedFeature
from floe.spec.json_reader import check_unique_keys

# LZ4 and Zstandard frames ----------------------------------------------------------------------------------------

_LZ4_MAGIC = bytes.fromhex("04224d18")
_LZ4_VERSION, _LZ4_VERSION_MASK = 0x40, 0xC0
_LZ4_HAS_CONTENT_SIZE = 0x08
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_ZSTD_SINGLE_SEGMENT = 0x20
_ZSTD_SIZE_IN_8_BYTES = 0xC0
_U32 = 0xFFFFFFFF


def compress_lz4(data: bytes) -> bytes:
    """Compress data into an LZ4 frame with the size of its content.

    >>> decompress_lz4(compress_lz4(b"abc" * 100), 300) == b"abc" * 100
    True
    """
    frame = bytes(cramjam.lz4.compress(data))
    flags, block = frame[4], frame[5]
    if flags & _LZ4_HAS_CONTENT_SIZE:
        return frame
    # The compressor omitted the size. It comes after the flags and the block size, and before a checksum of all three.
    head = bytes((flags | _LZ4_HAS_CONTENT_SIZE, block)) + len(data).to_bytes(8, "little")
    return b"".join((_LZ4_MAGIC, head, bytes(((_xxh32_short(head) >> 8) & 0xFF,)), frame[7:]))


def decompress_lz4(frame: bytes, max_size: int) -> bytes:
    """Return the content of an LZ4 frame; `CorruptFile` if it has more than `max_size` bytes.

    >>> decompress_lz4(compress_lz4(bytes(1000)), 999)
    Traceback (most recent call last):
    floe.errors.CorruptFile: the content of the LZ4 frame has 1000 bytes; at most 999 are read
    """
    if len(frame) < 15 or frame[:4] != _LZ4_MAGIC or frame[4] & _LZ4_VERSION_MASK != _LZ4_VERSION:
        raise CorruptFile("compressed with lz4, but not an LZ4 frame")
    if not frame[4] & _LZ4_HAS_CONTENT_SIZE:
        raise CorruptFile("an LZ4 frame without the size of its content")
    return _decompress("LZ4", cramjam.lz4.decompress_into, frame, int.from_bytes(frame[6:14], "little"), max_size)


def compress_zstd(data: bytes) -> bytes:
    """Compress data into a Zstandard frame with the size of its content.

    >>> decompress_zstd(compress_zstd(b"abc" * 100), 300) == b"abc" * 100
    True
    """
    return _with_zstd_content_size(bytes(cramjam.zstd.compress(data)), len(data))


def _with_zstd_content_size(frame: bytes, size: int) -> bytes:
    """Add the size of the content to the header of a frame if the compressor omitted it."""
    start, width = _zstd_content_size_position(frame)
    if width:
        return frame
    descriptor = frame[4] | _ZSTD_SIZE_IN_8_BYTES
    return b"".join((frame[:4], bytes((descriptor,)), frame[5:start], size.to_bytes(8, "little"), frame[start:]))


def decompress_zstd(frame: bytes, max_size: int) -> bytes:
    """Return the content of a Zstandard frame; `CorruptFile` if it has more than `max_size` bytes.

    >>> decompress_zstd(b"no frame", 100)
    Traceback (most recent call last):
    floe.errors.CorruptFile: compressed with zstd, but not a Zstandard frame
    """
    if len(frame) < 6 or frame[:4] != _ZSTD_MAGIC:
        raise CorruptFile("compressed with zstd, but not a Zstandard frame")
    return _decompress("Zstandard", cramjam.zstd.decompress_into, frame, _zstd_content_size(frame), max_size)


def _zstd_content_size(frame: bytes) -> int:
    start, width = _zstd_content_size_position(frame)
    if not width or len(frame) < start + width:
        raise CorruptFile("a Zstandard frame without the size of its content")
    return int.from_bytes(frame[start : start + width], "little") + (256 if width == 2 else 0)


def _zstd_content_size_position(frame: bytes) -> tuple[int, int]:
    """The offset and width of the content size in a frame's header: after descriptor, window and dictionary id."""
    descriptor = frame[4]
    single = descriptor & _ZSTD_SINGLE_SEGMENT
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    return start, (1 if single else 0, 2, 4, 8)[descriptor >> 6]


def _decompress(name: str, decompress_into: Callable[..., Any], frame: bytes, size: int, max_size: int) -> bytes:
    if size > max_size:
        raise CorruptFile(f"the content of the {name} frame has {size} bytes; at most {max_size} are read")
    content = bytearray(size)
    try:
        length = decompress_into(frame, content)
    except cramjam.DecompressionError as error:
        raise CorruptFile(f"a broken {name} frame: {error}") from error
    if length != size:
        raise CorruptFile(f"a {name} frame should have {size} bytes of content, found {length}")
    return bytes(content)


def _xxh32_short(data: bytes) -> int:
    """The checksum of an LZ4 frame's header: xxHash-32, seed 0, for fewer than 16 bytes."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    h = (p5 + len(data)) & _U32
    words, remainder = divmod(len(data), 4)
    for i in range(words):
        h = _rotate(h + int.from_bytes(data[4 * i : 4 * i + 4], "little") * p3, 17) * p4 & _U32
    for byte in data[len(data) - remainder :]:
        h = _rotate(h + byte * p5, 11) * p1 & _U32
    h = (h ^ (h >> 15)) * p2 & _U32
    h = (h ^ (h >> 13)) * p3 & _U32
    return h ^ (h >> 16)


def _rotate(value: int, bits: int) -> int:
    value &= _U32
    return (value << bits | value >> (32 - bits)) & _U32


# Blobs and footers -----------------------------------------------------------------------------------------------

MAGIC = b"PFA1"
THETA_SKETCH = "apache-datasketches-theta-v1"
DELETION_VECTOR = "deletion-vector-v1"

FOOTER_TAIL_SIZE = 12
"""The size of the end of the footer: payload size, flags, magic."""

MAX_PAYLOAD_SIZE = 64 * 2**20
MAX_BLOBS = 250_000
MAX_BLOB_SIZE = 2**31 - 1
READ_LIMIT = 256 * 2**20
_PAYLOAD_IS_COMPRESSED = 1
_FOOTER_FRAME = len(MAGIC) + FOOTER_TAIL_SIZE

_COMPRESS = {"lz4": compress_lz4, "zstd": compress_zstd}
_DECOMPRESS = {"lz4": decompress_lz4, "zstd": decompress_zstd}


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """The description of a blob in the footer: its type, position and compression."""

    type: str
    fields: tuple[int, ...]
    """The ids of the columns that the blob was computed from, in order."""

    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class FooterPayload:
    """The content of a footer."""

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob to be written; `data` is not compressed yet."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    data: bytes
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class PuffinFile:
    """The bytes of a file, with what table metadata or a manifest stores about it."""

    data: bytes = field(repr=False)
    payload: FooterPayload
    footer_size: int


# Reading ---------------------------------------------------------------------------------------------------------

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _BlobJson(msgspec.Struct, rename="kebab"):
    type: str
    fields: list[_Int32]
    snapshot_id: _Int64
    sequence_number: _Int64
    offset: _Count
    length: _Count
    compression_codec: str | None = None
    properties: dict[str, str] | None = None


class _PayloadJson(msgspec.Struct):
    blobs: Annotated[list[_BlobJson], msgspec.Meta(max_length=MAX_BLOBS)]
    properties: dict[str, str] | None = None


def footer_size(tail: bytes) -> int:
    """Return the size of the footer from the last bytes of a file (`FOOTER_TAIL_SIZE` or more).

    >>> footer_size(bytes([2, 0, 0, 0]) + bytes(4) + b"PFA1")
    18
    """
    if len(tail) < FOOTER_TAIL_SIZE or tail[-len(MAGIC) :] != MAGIC:
        raise CorruptFile(f"not a Puffin file: it must end with {MAGIC.decode()}, found {bytes(tail[-4:])!r}")
    size = int.from_bytes(tail[-FOOTER_TAIL_SIZE:-8], "little", signed=True)
    if not 0 <= size <= MAX_PAYLOAD_SIZE:
        raise CorruptFile(f"the footer's payload must have 0 to {MAX_PAYLOAD_SIZE} bytes, found {size}")
    return size + _FOOTER_FRAME


def parse_footer(data: bytes, file_size: int | None = None) -> FooterPayload:
    """Parse the footer at the end of `data`: the entire file, or its last bytes if `file_size` is passed.

    >>> written = write_file([Blob("note", (1,), 7, 1, b"hello")])
    >>> parse_footer(written.data).blobs
    (BlobMetadata(type='note', fields=(1,), snapshot_id=7, sequence_number=1, offset=4, length=5, ...),)
    """
    is_complete = file_size is None or file_size == len(data)
    total_size = len(data) if file_size is None else file_size
    size = footer_size(data)
    if size > len(data) and not is_complete:
        raise InvalidInput(f"the footer has {size} bytes, but only the last {len(data)} bytes of the file were passed")
    if size + len(MAGIC) > total_size:
        raise CorruptFile(f"a footer of {size} bytes does not fit a Puffin file of {total_size} bytes")
    if is_complete and data[: len(MAGIC)] != MAGIC:
        raise CorruptFile(f"not a Puffin file: it must start with {MAGIC.decode()}, found {bytes(data[:4])!r}")
    footer = data[len(data) - size :]
    if footer[: len(MAGIC)] != MAGIC:
        raise CorruptFile(f"the footer must start with {MAGIC.decode()}, found {bytes(footer[:4])!r}")
    payload = _payload_from_json(_footer_json(footer))
    for blob in payload.blobs:
        if blob.offset < len(MAGIC) or blob.offset + blob.length > total_size - size:
            raise CorruptFile(
                f"a blob of {blob.length} bytes at {blob.offset} is not between the start and the footer "
                f"of a Puffin file of {total_size} bytes"
            )
    return payload


def _footer_json(footer: bytes) -> bytes:
    """The JSON of a footer, decompressed if the flag is set."""
    payload = footer[len(MAGIC) : -FOOTER_TAIL_SIZE]
    flags = int.from_bytes(footer[-8:-4], "little")
    if flags & ~_PAYLOAD_IS_COMPRESSED:
        raise UnsupportedFeature(f"the Puffin footer has flags of a later version: {flags:#010x}")
    if flags & _PAYLOAD_IS_COMPRESSED:
        return decompress_lz4(payload, MAX_PAYLOAD_SIZE)
    return bytes(payload)


def _payload_from_json(data: bytes) -> FooterPayload:
    try:
        json = msgspec.json.decode(data, type=_PayloadJson)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a ValidationError is a DecodeError, with its path
        raise CorruptFile(f"the payload of the Puffin footer is not valid: {error}") from error
    except RecursionError:
        raise CorruptFile("the payload of the Puffin footer is nested too deeply") from None
    check_unique_keys(data)
    return FooterPayload(tuple(map(_blob_from_json, json.blobs)), json.properties or {})


def _blob_from_json(json: _BlobJson) -> BlobMetadata:
    return BlobMetadata(
        json.type,
        tuple(json.fields),
        json.snapshot_id,
        json.sequence_number,
        json.offset,
        json.length,
        json.compression_codec,
        json.properties or {},
    )


def read_blob(stored: bytes, metadata: BlobMetadata, *, max_size: int = READ_LIMIT) -> bytes:
    """Decode the content of a blob from its bytes in the file; `CorruptFile` if it has more than `max_size` bytes.

    >>> written = write_file([Blob("note", (1,), 7, 1, b"hello", "zstd")])
    >>> (blob,) = written.payload.blobs
    >>> read_blob(written.data[blob.offset : blob.offset + blob.length], blob)
    b'hello'
    """
    if len(stored) != metadata.length:
        raise CorruptFile(f"a blob of {metadata.length} bytes, of which {len(stored)} could be read")
    codec = metadata.compression_codec
    if codec is None:
        if len(stored) > max_size:
            raise CorruptFile(f"a blob of {len(stored)} bytes; at most {max_size} are read")
        return bytes(stored)
    if codec not in _DECOMPRESS:
        raise UnsupportedFeature(f"a blob is compressed with {codec[:80]!r}; Puffin has only lz4 and zstd")
    return _DECOMPRESS[codec](stored, max_size)


# Writing ---------------------------------------------------------------------------------------------------------


def write_file(
    blobs: Iterable[Blob], properties: Mapping[str, str] | None = None, *, compress_footer: bool = False
) -> PuffinFile:
    r"""Encode a Puffin file. `properties` should have the name of the writer as `created-by`.

    `compress_footer` is off by default, because the reference implementation cannot read LZ4.

    >>> write_file([]).data
    b'PFA1PFA1{"blobs":[]}\x0c\x00\x00\x00\x00\x00\x00\x00PFA1'
    """
    parts, blob_metadata, offset = [MAGIC], [], len(MAGIC)
    for blob in blobs:
        stored = _encode_blob(blob)
        blob_metadata.append(
            BlobMetadata(
                blob.type,
                tuple(blob.fields),
                blob.snapshot_id,
                blob.sequence_number,
                offset,
                len(stored),
                blob.compression_codec,
                dict(blob.properties),
            )
        )
        parts.append(stored)
        offset += len(stored)
    payload = FooterPayload(tuple(blob_metadata), dict(properties or {}))
    footer = _footer(payload, compress_footer)
    return PuffinFile(b"".join((*parts, footer)), payload, len(footer))


def _encode_blob(blob: Blob) -> bytes:
    codec = blob.compression_codec
    if codec is not None and blob.type == DELETION_VECTOR:
        raise InvalidInput("a deletion vector is never compressed")
    if codec is not None and codec not in _COMPRESS:
        raise InvalidInput(f"Puffin has no codec {codec!r}", hint="use lz4, zstd or none")
    stored = bytes(blob.data) if codec is None else _COMPRESS[codec](blob.data)
    if len(stored) > MAX_BLOB_SIZE:
        raise InvalidInput(f"a blob of {len(stored)} bytes; at most {MAX_BLOB_SIZE} can be written")
    return stored


def _footer(payload: FooterPayload, compress: bool) -> bytes:
    json = msgspec.json.encode(_payload_to_json(payload))
    stored = compress_lz4(json) if compress else json
    flags = _PAYLOAD_IS_COMPRESSED if compress else 0
    return b"".join((MAGIC, stored, len(stored).to_bytes(4, "little"), flags.to_bytes(4, "little"), MAGIC))


def _payload_to_json(payload: FooterPayload) -> dict[str, Any]:
    out: dict[str, Any] = {"blobs": [_blob_to_json(blob) for blob in payload.blobs]}
    if payload.properties:
        out["properties"] = payload.properties
    return out


def _blob_to_json(blob: BlobMetadata) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": blob.type,
        "fields": blob.fields,
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        out["compression-codec"] = blob.compression_codec
    if blob.properties:
        out["properties"] = dict(blob.properties)
    return out
