r"""Arrow columns as Avro bytes: one piece of bytes for each row, column by column.

>>> from floe.spec.types import LONG
>>> encode_column(Field(1, "n", LONG), pa.array([1, None, -65]))
[b'\x02\x02', b'\x00', b'\x02\x81\x01']

Avro data files written from Arrow batches, laid out as the spec says (spec: Appendix A, Avro).

Table properties `write.avro.*` as the codec of Avro files; delete files may have their own.

| property | effect |
|---|---|
| `compression-codec` | gzip by default; also zstd, snappy, uncompressed |
| `compression-level` | the level of gzip (0 to 9) or zstd (1 to 22) |

Delete files take `write.delete.avro.*` first.
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
from floe.formats.appender import ArrowAppender, Written, file_metadata
from floe.formats.arrow_conversion import ListBuffers
from floe.formats.model import WriteRequest
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.manifests.entries import FileContent
from floe.spec.properties import AVRO_CODEC, AVRO_LEVEL
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType, Type
from floe.spec.values.exact_numbers import bytes_for_precision

Pieces = list[bytes]
_TRUTH = {True: b"\1", False: b"\0"}


def check_storable(fields: Iterable[Field], path: tuple[str, ...] = ()) -> None:
    """Raise for what Avro has no form for: lists whose elements are of type unknown, and take no bytes.

    >>> from floe.spec.types import UNKNOWN
    >>> check_storable([Field(1, "l", ListType(2, UNKNOWN))])
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: Avro files cannot hold lists of type unknown (column: l); give the elements a type
    """
    for field in fields:
        own = (*path, field.name)
        if isinstance(field.type, ListType) and not _takes_bytes(field.type.element_field):
            raise UnsupportedFeature(
                "Avro files cannot hold lists of type unknown", hint="give the elements a type", column=".".join(own)
            )
        check_storable(field.type.fields, own)


def _takes_bytes(field: Field) -> bool:
    if field.type.kind == "unknown":
        return False
    if field.optional or not isinstance(field.type, StructType):
        return True
    return any(map(_takes_bytes, field.type.fields))


def encode_column(field: Field, array: pa.Array) -> Pieces:
    """The bytes of each row's value: behind the byte of a union, if it may be null (spec: Appendix A, Avro)."""
    if field.type.kind == "unknown":
        return [b""] * len(array)
    if field.required:
        return _encode(field.type, array)
    if not array.null_count:
        return [b"\2" + piece for piece in _encode(field.type, array)]
    pieces = iter(_encode(field.type, array.drop_null()))
    return [b"\2" + next(pieces) if known else b"\0" for known in array.is_valid().to_pylist()]


def _encode(type_: Type, array: pa.Array) -> Pieces:
    """The bytes of values, none of which is null."""
    if isinstance(type_, StructType):
        return _structs(type_, array)
    if isinstance(type_, ListType):
        return _lists(ListBuffers.of(array), array.values, lambda items: encode_column(type_.element_field, items))
    if isinstance(type_, MapType):
        return _maps(type_, array)
    if isinstance(type_, DecimalType):
        return _decimals(type_, array)
    return _PLAIN[type_.kind](array)


def _structs(type_: StructType, array: pa.Array) -> Pieces:
    columns = [encode_column(child, array.field(place)) for place, child in enumerate(type_.fields)]
    return [b"".join(pieces) for pieces in zip(*columns, strict=True)] if columns else [b""] * len(array)


def _lists(parts: ListBuffers, items: pa.Array, encode: Callable[[pa.Array], Pieces]) -> Pieces:
    pieces = encode(parts.items(items))
    edges = np.frombuffer(parts.offsets, np.int32).tolist()
    return [_list(pieces[begin:end]) for begin, end in pairwise(edges)]


def _list(pieces: Pieces) -> bytes:
    return b"".join((encode_long(len(pieces)), *pieces, b"\0")) if pieces else b"\0"


def _maps(type_: MapType, array: pa.Array) -> Pieces:
    """A map with keys that are strings, and a list of pairs, have the same bytes."""
    parts = ListBuffers.of(array)
    keys = encode_column(type_.key_field, parts.items(array.keys))
    values = encode_column(type_.value_field, parts.items(array.items))
    pairs = [key + value for key, value in zip(keys, values, strict=True)]
    edges = np.frombuffer(parts.offsets, np.int32).tolist()
    return [_list(pairs[begin:end]) for begin, end in pairwise(edges)] if len(array) else []


def _integers(array: pa.Array) -> Pieces:
    number = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return pack_longs(array.view(number).to_pylist())


def _booleans(array: pa.Array) -> Pieces:
    return [_TRUTH[value] for value in array.to_pylist()]


def _strings(array: pa.Array) -> Pieces:
    values: list[bytes] = array.view(pa.binary()).to_pylist()
    return [encode_long(len(value)) + value for value in values]


def _of_one_width(array: pa.Array) -> Pieces:
    width = array.type.bit_width // 8
    if not len(array) or not width:
        return [b""] * len(array)
    data = memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width].tobytes()
    return _cut(data, width)


def _cut(data: bytes, width: int) -> Pieces:
    return [data[at : at + width] for at in range(0, len(data), width)]


def _decimals(type_: DecimalType, array: pa.Array) -> Pieces:
    if not len(array):
        return []
    width = bytes_for_precision(type_.precision)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * 16 : (array.offset + len(array)) * 16]
    return _cut(np.ascontiguousarray(raw.reshape(-1, 16)[:, :width][:, ::-1]).tobytes(), width)


def _variants(array: pa.Array) -> Pieces:
    metadata, value = _strings(array.field(0)), _strings(array.field(1))
    return [first + second for first, second in zip(metadata, value, strict=True)]


_PLAIN: dict[str, Callable[[Any], Pieces]] = {
    "boolean": _booleans,
    **dict.fromkeys(
        ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _integers
    ),
    **dict.fromkeys(("float", "double", "uuid", "fixed"), _of_one_width),
    **dict.fromkeys(("string", "binary", "geometry", "geography"), _strings),
    "variant": _variants,
}

# Table properties `write.avro.*` as the codec of Avro files; delete files may have their own.

_CODECS = {
    "gzip": "deflate",
    "zstd": "zstandard",
    "snappy": "snappy",
    "uncompressed": "null",
    "deflate": "deflate",
    "none": "null",
}
_LEVELS = {"deflate": (0, 9), "zstandard": (1, 22)}
_USUAL_LEVELS = {"deflate": 6}
"""Data is written once and kept for long: worth more time than a manifest, whose codec is chosen for speed."""


def avro_codec(properties: Mapping[str, str], *, deletes: bool) -> tuple[str, int | None]:
    """The codec as Avro files name it, and its level; None for the codec's own.

    >>> avro_codec({"write.avro.compression-codec": "zstd", "write.avro.compression-level": "5"}, deletes=False)
    ('zstandard', 5)
    """
    codec = _CODECS[AVRO_CODEC.read(properties, deletes=deletes)]
    level = AVRO_LEVEL.read(properties, deletes=deletes)
    if level is None or codec not in _LEVELS:
        return codec, _USUAL_LEVELS.get(codec)
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise InvalidUpdate(
            f"the level of {codec} is from {lowest} to {highest}, found {level}",
            property=AVRO_LEVEL.chosen(properties, deletes=deletes).name,
        )
    return codec, level


# Avro data files written from Arrow batches, laid out as the spec says (spec: Appendix A, Avro).

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_BLOCK_BYTES = 64 * 2**10
_BLOCK_ROWS = 2**16
_ROWS_AT_ONCE = 2**14
_FIRST_GUESS = 0.4
"""How many bytes of the file one byte of rows makes, until a block has shown it."""


class AvroAppender(ArrowAppender):
    """An Avro file being written."""

    def __init__(self, request: WriteRequest) -> None:
        check_storable(request.schema.fields)
        self._codec, self._level = avro_codec(request.properties, deletes=request.content != FileContent.DATA)
        header = {
            "avro.schema": _text(type_to_avro(request.schema)),
            "avro.codec": self._codec,
            "iceberg.schema": _text(schema_to_json(request.schema)),
            **file_metadata(request),
        }
        super().__init__(request, "avro")
        # Two files of a table never share a location, and the same file is written the same way every time.
        told = "\n".join((request.location, *header.values()))
        self._sync = hashlib.blake2b(told.encode(), digest_size=_SYNC_BYTES).digest()
        self._pieces: list[bytes] = []
        self._waiting = self._longest = 0
        self._ratio = _FIRST_GUESS
        try:
            self.stream.write(_header(header) + self._sync)
        except BaseException:
            self.abort()
            raise

    @property
    def length(self) -> int:
        """What was written, and about what the rows that are not compressed yet will make; it never shrinks."""
        self._longest = max(self._longest, self.stream.tell() + int(self._waiting * self._ratio))
        return self._longest

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            self._add(_rows(self.request.schema.fields, batch.slice(start, _ROWS_AT_ONCE)))

    def _add(self, rows: list[bytes]) -> None:
        """Cut rows into blocks of about the same size."""
        begin = 0
        for place, size in enumerate(accumulate(map(len, rows)), 1):
            if self._waiting + size >= _BLOCK_BYTES or len(self._pieces) + place - begin >= _BLOCK_ROWS:
                self._pieces += rows[begin:place]
                self._write_block()
                begin = place
                self._waiting = -size
        self._pieces += rows[begin:]
        self._waiting = sum(map(len, self._pieces))

    def _write_block(self) -> None:
        content = b"".join(self._pieces)
        packed = compress(self._codec, content, self._level)
        self._ratio = len(packed) / max(len(content), 1)
        head = encode_long(len(self._pieces)) + encode_long(len(packed))
        self.stream.write(b"".join((head, packed, self._sync)))
        self._pieces = []

    def _finish(self) -> Written:
        if self._pieces:
            self._write_block()
        return Written(self.stream.tell())


def _rows(fields: Any, batch: pa.RecordBatch) -> list[bytes]:
    columns = [encode_column(field, batch.column(place)) for place, field in enumerate(fields)]
    return [b"".join(pieces) for pieces in zip(*columns, strict=True)]


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def _header(entries: dict[str, str]) -> bytes:
    parts = [_MAGIC, encode_long(len(entries))]
    for key, value in entries.items():
        for data in (key.encode(), value.encode()):
            parts += (encode_long(len(data)), data)
    return b"".join((*parts, b"\0"))
