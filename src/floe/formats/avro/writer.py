r"""Avro data files written from Arrow batches, in the layout of the spec (spec: Appendix A, Avro).

Batches are encoded column by column, to a byte string for each row; the byte strings of a row are joined.

>>> from floe.spec.types import LONG
>>> encode_column(Field(1, "n", LONG), pa.array([1, None, -65]))
[b'\x02\x02', b'\x00', b'\x02\x81\x01']

The codec is configured by the table properties `write.avro.*`:

| property | effect |
|---|---|
| `compression-codec` | gzip by default; also zstd, snappy, uncompressed |
| `compression-level` | the level of gzip (0 to 9) or zstd (1 to 22) |

For delete files, `write.delete.avro.*` takes precedence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from floe.avro.container import compress
from floe.avro.records import encode_long
from floe.avro.vector_encoder import pack_longs
from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.formats.appender import ArrowAppender, WrittenFile, file_metadata
from floe.formats.columns.conversion import ListBuffers
from floe.formats.model import WriteRequest
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.manifests.entries import FileContent
from floe.spec.properties import AVRO_CODEC, AVRO_LEVEL
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType, Type
from floe.spec.values.exact_numbers import bytes_for_precision

Encoded = list[bytes]
"""The bytes of a value, for each row."""

_BOOLEANS = {True: b"\1", False: b"\0"}


def check_storable(fields: Iterable[Field], path: tuple[str, ...] = ()) -> None:
    """Raise `UnsupportedFeature` for lists of type unknown, whose elements would take no bytes.

    >>> from floe.spec.types import UNKNOWN
    >>> check_storable([Field(1, "l", ListType(2, UNKNOWN))])
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: Avro files cannot store lists of type unknown (column: l); give the elements a type
    """
    for field in fields:
        field_path = (*path, field.name)
        if isinstance(field.type, ListType) and not _takes_bytes(field.type.element_field):
            raise UnsupportedFeature(
                "Avro files cannot store lists of type unknown",
                hint="give the elements a type",
                column=".".join(field_path),
            )
        check_storable(field.type.fields, field_path)


def _takes_bytes(field: Field) -> bool:
    if field.type.kind == "unknown":
        return False
    if field.optional or not isinstance(field.type, StructType):
        return True
    return any(map(_takes_bytes, field.type.fields))


def encode_column(field: Field, array: pa.Array) -> Encoded:
    """Encode the values of a column, an optional one as a union with null (spec: Appendix A, Avro)."""
    if field.type.kind == "unknown":
        return [b""] * len(array)
    if field.required:
        return _encode(field.type, array)
    if not array.null_count:
        return [b"\2" + value for value in _encode(field.type, array)]
    values = iter(_encode(field.type, array.drop_null()))
    return [b"\2" + next(values) if valid else b"\0" for valid in array.is_valid().to_pylist()]


def _encode(type_: Type, array: pa.Array) -> Encoded:
    """Encode values, none of which is null."""
    if isinstance(type_, StructType):
        return _encode_structs(type_, array)
    if isinstance(type_, ListType):
        return _encode_lists(
            ListBuffers.of(array), array.values, lambda items: encode_column(type_.element_field, items)
        )
    if isinstance(type_, MapType):
        return _encode_maps(type_, array)
    if isinstance(type_, DecimalType):
        return _encode_decimals(type_, array)
    return _PRIMITIVE_ENCODERS[type_.kind](array)


def _encode_structs(type_: StructType, array: pa.Array) -> Encoded:
    columns = [encode_column(child, array.field(index)) for index, child in enumerate(type_.fields)]
    return [b"".join(values) for values in zip(*columns, strict=True)] if columns else [b""] * len(array)


def _encode_lists(buffers: ListBuffers, items: pa.Array, encode: Callable[[pa.Array], Encoded]) -> Encoded:
    values = encode(buffers.items(items))
    offsets = np.frombuffer(buffers.offsets, np.int32).tolist()
    return [_encode_list(values[start:end]) for start, end in pairwise(offsets)]


def _encode_list(items: Encoded) -> bytes:
    return b"".join((encode_long(len(items)), *items, b"\0")) if items else b"\0"


def _encode_maps(type_: MapType, array: pa.Array) -> Encoded:
    """Encode maps: a map with string keys and a list of pairs have the same bytes."""
    buffers = ListBuffers.of(array)
    keys = encode_column(type_.key_field, buffers.items(array.keys))
    values = encode_column(type_.value_field, buffers.items(array.items))
    pairs = [key + value for key, value in zip(keys, values, strict=True)]
    offsets = np.frombuffer(buffers.offsets, np.int32).tolist()
    return [_encode_list(pairs[start:end]) for start, end in pairwise(offsets)] if len(array) else []


def _encode_integers(array: pa.Array) -> Encoded:
    number = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pack_longs(array.view(number).to_pylist())


def _encode_booleans(array: pa.Array) -> Encoded:
    return [_BOOLEANS[value] for value in array.to_pylist()]


def _encode_strings(array: pa.Array) -> Encoded:
    values: list[bytes] = array.view(pa.binary()).to_pylist()
    return [encode_long(len(value)) + value for value in values]


def _encode_fixed(array: pa.Array) -> Encoded:
    width = array.type.bit_width // 8
    if not len(array) or not width:
        return [b""] * len(array)
    data = memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width].tobytes()
    return _split(data, width)


def _split(data: bytes, width: int) -> Encoded:
    return [data[at : at + width] for at in range(0, len(data), width)]


def _encode_decimals(type_: DecimalType, array: pa.Array) -> Encoded:
    if not len(array):
        return []
    width = bytes_for_precision(type_.precision)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 16 : (array.offset + len(array)) * 16]
    return _split(np.ascontiguousarray(raw.reshape(-1, 16)[:, :width][:, ::-1]).tobytes(), width)


def _encode_variants(array: pa.Array) -> Encoded:
    metadata, value = _encode_strings(array.field(0)), _encode_strings(array.field(1))
    return [first + second for first, second in zip(metadata, value, strict=True)]


_PRIMITIVE_ENCODERS: dict[str, Callable[[Any], Encoded]] = {
    "boolean": _encode_booleans,
    **dict.fromkeys(
        ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _encode_integers
    ),
    **dict.fromkeys(("float", "double", "uuid", "fixed"), _encode_fixed),
    **dict.fromkeys(("string", "binary", "geometry", "geography"), _encode_strings),
    "variant": _encode_variants,
}

# Codec ----------------------------------------------------------------------------------------------------------------

_CODECS = {
    "gzip": "deflate",
    "zstd": "zstandard",
    "snappy": "snappy",
    "uncompressed": "null",
    "deflate": "deflate",
    "none": "null",
}
_LEVELS = {"deflate": (0, 9), "zstandard": (1, 22)}
_DEFAULT_LEVELS = {"deflate": 6}
"""Higher than for manifests, whose level is chosen for speed: data files are written once and stored for long."""


def avro_codec(properties: Mapping[str, str], *, deletes: bool) -> tuple[str, int | None]:
    """The name of the codec in Avro files, and its level, None for its default; raises `InvalidUpdate` if invalid.

    >>> avro_codec({"write.avro.compression-codec": "zstd", "write.avro.compression-level": "5"}, deletes=False)
    ('zstandard', 5)
    """
    codec = _CODECS[AVRO_CODEC.read(properties, deletes=deletes)]
    level = AVRO_LEVEL.read(properties, deletes=deletes)
    if level is None or codec not in _LEVELS:
        return codec, _DEFAULT_LEVELS.get(codec)
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise InvalidUpdate(
            f"the level of {codec} must be from {lowest} to {highest}, found {level}",
            property=AVRO_LEVEL.chosen(properties, deletes=deletes).name,
        )
    return codec, level


# Writer ---------------------------------------------------------------------------------------------------------------

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_BLOCK_BYTES = 64 * 2**10
_BLOCK_ROWS = 2**16
_ENCODED_ROWS = 2**14
_INITIAL_RATIO = 0.4
"""The assumed compression ratio of rows, before the first block."""


class AvroAppender(ArrowAppender):
    """Writes an Avro file."""

    def __init__(self, request: WriteRequest) -> None:
        check_storable(request.schema.fields)
        self._codec, self._level = avro_codec(request.properties, deletes=request.content != FileContent.DATA)
        header = {
            "avro.schema": _json_text(type_to_avro(request.schema)),
            "avro.codec": self._codec,
            "iceberg.schema": _json_text(schema_to_json(request.schema)),
            **file_metadata(request),
        }
        super().__init__(request, "avro")
        # The sync marker is derived from the location, which is unique, so that the bytes of a file are reproducible.
        sync_source = "\n".join((request.location, *header.values()))
        self._sync = hashlib.blake2b(sync_source.encode(), digest_size=_SYNC_BYTES).digest()
        self._buffered_rows: list[bytes] = []
        self._buffered_bytes = self._longest = 0
        self._ratio = _INITIAL_RATIO
        try:
            self.stream.write(_encode_header(header) + self._sync)
        except BaseException:
            self.abort()
            raise

    @property
    def length(self) -> int:
        """The size of what was written, and the approximate size of the rows that are buffered; it never shrinks."""
        self._longest = max(self._longest, self.stream.tell() + int(self._buffered_bytes * self._ratio))
        return self._longest

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Encode a batch, and write the blocks that it completes."""
        for start in range(0, batch.num_rows, _ENCODED_ROWS):
            self._add_rows(_encode_rows(self.request.schema.fields, batch.slice(start, _ENCODED_ROWS)))

    def _add_rows(self, rows: list[bytes]) -> None:
        """Add rows, and write the blocks that they complete."""
        start = 0
        for count, size in enumerate(accumulate(map(len, rows)), 1):
            if self._buffered_bytes + size >= _BLOCK_BYTES or len(self._buffered_rows) + count - start >= _BLOCK_ROWS:
                self._buffered_rows += rows[start:count]
                self._write_block()
                start = count
                self._buffered_bytes = -size
        self._buffered_rows += rows[start:]
        self._buffered_bytes = sum(map(len, self._buffered_rows))

    def _write_block(self) -> None:
        content = b"".join(self._buffered_rows)
        packed = compress(self._codec, content, self._level)
        self._ratio = len(packed) / max(len(content), 1)
        head = encode_long(len(self._buffered_rows)) + encode_long(len(packed))
        self.stream.write(b"".join((head, packed, self._sync)))
        self._buffered_rows = []

    def finish(self) -> WrittenFile:
        """Write the last block."""
        if self._buffered_rows:
            self._write_block()
        return WrittenFile(self.stream.tell())


def _encode_rows(fields: Any, batch: pa.RecordBatch) -> list[bytes]:
    columns = [encode_column(field, batch.column(index)) for index, field in enumerate(fields)]
    return [b"".join(values) for values in zip(*columns, strict=True)]


def _json_text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def _encode_header(entries: dict[str, str]) -> bytes:
    encoded = [_MAGIC, encode_long(len(entries))]
    for key, value in entries.items():
        for data in (key.encode(), value.encode()):
            encoded += (encode_long(len(data)), data)
    return b"".join((*encoded, b"\0"))
