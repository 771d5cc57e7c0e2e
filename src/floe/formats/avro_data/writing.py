"""Avro data files written from Arrow batches, laid out as the spec says (spec: Appendix A, Avro)."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from typing import Any

import pyarrow as pa

from floe.avro.compression import compress
from floe.avro.varints import encode_long
from floe.formats.appending import ArrowAppender, Written, file_metadata
from floe.formats.avro_data.encoding import check_storable, encode_column
from floe.formats.avro_data.options import avro_codec
from floe.formats.model import WriteRequest
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.manifests.entries import FileContent
from floe.spec.schemas.schema_json import schema_to_json

__all__ = ["AvroAppender"]

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
