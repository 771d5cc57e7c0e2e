"""The tail of an ORC file: its postscript and footer, read and checked (ORC spec: File Tail).

The footer has the types with their attributes, the stripes with their offsets, and the row counts. `read_tail` checks
all of it: types form a tree, stripes lie within the file, counts add up. `file_columns` describes the columns of the
file (spec: Appendix A, ORC).

The tail consists of Protocol Buffers messages. A message is a sequence of fields, each with a field number and a value:
a number (varint), eight or four bytes, or a byte string, which may be another message. Unknown fields are ignored, as
the format requires.

>>> message = write_fields([(1, 150), (2, b"abc")])
>>> message.hex(), read_fields(message)
('0896011203616263', {1: [150], 2: [b'abc']})

Compressed parts are sequences of chunks, each with a head of three bytes: the length of the chunk, and in the lowest
bit whether it is stored uncompressed (ORC spec: Compression). No chunk may be larger than the file's block size, so
that few bytes cannot fill the memory.

>>> decompress(NONE, b"abc", 256), decompress(ZLIB, store_uncompressed(b"abc", 256), 256)
(b'abc', b'abc')
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import cramjam
import numpy as np

from floe.avro import container
from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.codecs.orc_types import ID, STRUCT_TYPE, OrcType, stored_type
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import MAX_TYPE_DEPTH
from floe.spec.types import BINARY, PrimitiveType, Type

# Protocol Buffers -----------------------------------------------------------------------------------------------------

Value = int | bytes
Message = dict[int, list[Value]]

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MAX_VARINT_BITS = 70
_WORD = 2**64 - 1


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if offset >= len(data) or shift >= _MAX_VARINT_BITS:
            raise CorruptFile("a number in the tail of the ORC file is truncated or too long", position=offset)
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, offset
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    offset = 0
    while offset < len(data):
        key, offset = _read_varint(data, offset)
        kind = key & 7
        if kind == _VARINT:
            number, offset = _read_varint(data, offset)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, offset = _read_varint(data, offset)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise CorruptFile(f"the tail of the ORC file has a field of the unknown kind {kind}", position=offset)
        if size > len(data) - offset:
            raise CorruptFile(
                f"the tail of the ORC file has a field of {size} bytes with {len(data) - offset} left", position=offset
            )
        yield key >> 3, data[offset : offset + size]
        offset += size


def read_fields(data: bytes) -> Message:
    """Parse a message; returns the values of each field, by field number."""
    values: Message = {}
    for number, value in _fields(data):
        values.setdefault(number, []).append(value)
    return values


def get_number(message: Message, field: int, default: int = 0) -> int:
    """The last value of a number field, or the default without one.

    >>> get_number({1: [5, 6]}, 1), get_number({}, 1)
    (6, 0)
    """
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise CorruptFile(f"field {field} in the tail of the ORC file must be a number")
    return value


def get_numbers(message: Message, field: int) -> list[int]:
    r"""The values of a repeated number field, packed or not.

    >>> get_numbers({2: [b"\x01\x02", 3]}, 2)
    [1, 2, 3]
    """
    numbers: list[int] = []
    for value in message.get(field, ()):
        if isinstance(value, int):
            numbers.append(value)
            continue
        offset = 0
        while offset < len(value):
            number, offset = _read_varint(value, offset)
            numbers.append(number)
    return numbers


def get_bytes(message: Message, field: int) -> list[bytes]:
    """The values of a repeated field of byte strings or messages.

    >>> get_bytes({3: [b"a", b"b"]}, 3)
    [b'a', b'b']
    """
    strings: list[bytes] = []
    for value in message.get(field, ()):
        if not isinstance(value, bytes):
            raise CorruptFile(f"field {field} in the tail of the ORC file must be a byte string")
        strings.append(value)
    return strings


def unzigzag(number: int) -> int:
    """Decode a signed number from its zig-zag form.

    >>> [unzigzag(n) for n in (0, 1, 2)]
    [0, -1, 1]
    """
    return (number >> 1) ^ -(number & 1)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def write_fields(fields: Iterable[tuple[int, int | float | bytes]]) -> bytes:
    """Serialize a message; floats are written as eight bytes."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts += (_varint(number << 3 | _BYTES), _varint(len(value)), value)
        elif isinstance(value, float):
            parts += (_varint(number << 3 | _EIGHT), struct.pack("<d", value))
        else:
            parts += (_varint(number << 3 | _VARINT), _varint(value))
    return b"".join(parts)


# Compression ----------------------------------------------------------------------------------------------------------

NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)
CODEC_NAMES = {NONE: "none", ZLIB: "zlib", SNAPPY: "snappy", LZO: "lzo", LZ4: "lz4", ZSTD: "zstd"}
"""The names of the codecs, by their number in files."""

HEAD = 3
"""The size of the head of a chunk."""

MAX_BLOCK = 2**23
"""The maximum block size: the length of a chunk has 23 bits."""


def _bounded(decompress_into: Callable[[bytes, Any], int]) -> Callable[[bytes, int], bytes]:
    """A function that decompresses into a buffer of the maximum size, of which untouched pages take no memory."""

    def decompress_bounded(data: bytes, limit: int) -> bytes:
        buffer = np.empty(limit, np.uint8)
        return buffer[: decompress_into(data, buffer.data)].tobytes()

    return decompress_bounded


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise CorruptFile(f"a chunk of the ORC file has more than {limit} bytes when decompressed", codec="snappy")
    return bytes(cramjam.snappy.decompress_raw(data))


_DECOMPRESSORS: dict[int, Callable[[bytes, int], bytes]] = {
    ZLIB: lambda data, limit: container.decompress("deflate", data, limit),
    SNAPPY: _decompress_snappy,
    LZ4: _bounded(cramjam.lz4.decompress_block_into),
    ZSTD: lambda data, limit: container.decompress("zstandard", data, limit),
}


def decompress(codec: int, data: bytes, block_size: int, limit: int | None = None) -> bytes:
    """Decompress a part of a file; raises `CorruptFile` if it is damaged, or larger than `limit` bytes."""
    if codec == NONE:
        return data
    parts: list[bytes] = []
    offset = size = 0
    while offset < len(data):
        head = int.from_bytes(data[offset : offset + HEAD], "little")
        offset += HEAD
        length = head >> 1
        if length > len(data) - offset:
            raise CorruptFile(f"the ORC file has a chunk of {length} bytes with {max(len(data) - offset, 0)} left")
        chunk = data[offset : offset + length]
        offset += length
        parts.append(chunk if head & 1 else _decompress_chunk(codec, chunk, block_size))
        size += len(parts[-1])
        if limit is not None and size > limit:
            raise CorruptFile(f"a part of the ORC file has more than {limit} bytes when decompressed")
    return b"".join(parts)


def _decompress_chunk(codec: int, chunk: bytes, block_size: int) -> bytes:
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedFeature(f"the ORC codec {CODEC_NAMES.get(codec, codec)} is not supported")
    try:
        return decompressor(chunk, block_size)
    except cramjam.DecompressionError as error:
        raise CorruptFile(
            f"a chunk of the ORC file cannot be decompressed: {error}", codec=CODEC_NAMES[codec]
        ) from None


def store_uncompressed(data: bytes, block_size: int) -> bytes:
    """Store content in uncompressed chunks, for a file whose codec is not `NONE`."""
    step = min(block_size, MAX_BLOCK - 1)
    chunks = (data[offset : offset + step] for offset in range(0, len(data), step))
    return b"".join((len(chunk) << 1 | 1).to_bytes(HEAD, "little") + chunk for chunk in chunks)


# Postscript and footer ------------------------------------------------------------------------------------------------

MAGIC = b"ORC"
KINDS = (
    "boolean", "tinyint", "smallint", "int", "long", "float", "double", "string", "binary", "timestamp", "array", "map",
    "struct", "union", "decimal", "date", "varchar", "char", "timestamp_instant", "geometry", "geography",
)  # fmt: skip
"""The kinds of types by their number in files, with the names of the table spec."""

_CHILDREN = {"array": 1, "map": 2}
_MAX_TAIL = 256 * 2**20
_MAX_TYPES = 100_000
_FIRST_READ_BYTES = 16 * 2**10
_MAX_POSTSCRIPT = 255
_MIN_ROW_LIMIT, _ROWS_PER_BYTE = 2**20, 2**16
"""The limit of the rows of a stripe: rows of constant columns take few bytes, but not none."""


@dataclass(frozen=True, slots=True)
class Postscript:
    """The layout of the tail; `length` includes the byte after the postscript that has its size."""

    footer_length: int
    metadata_length: int
    codec: int
    block_size: int
    length: int
    fields: Message


@dataclass(frozen=True, slots=True)
class OrcNode:
    """A type of the file. Its id is its index in the list of types, and the id of its column."""

    id: int
    kind: str
    names: tuple[str, ...] = ()
    children: tuple[int, ...] = ()
    precision: int = 0
    scale: int = 0
    attributes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Stripe:
    """A stripe: its offset, the lengths of its parts, and its row count."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def end(self) -> int:
        """The offset after the stripe."""
        return self.offset + self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True)
class Tail:
    """The parsed and checked tail of a file."""

    postscript: Postscript
    nodes: tuple[OrcNode, ...]
    stripes: tuple[Stripe, ...]
    rows: int
    content_end: int
    """The offset after the last stripe."""

    footer: Message
    metadata: bytes
    """The compressed statistics of the stripes."""

    def statistics(self) -> list[list[Message]]:
        """The statistics of each stripe, by column id; empty if the file has none."""
        script = self.postscript
        content = decompress(script.codec, self.metadata, script.block_size, _MAX_TAIL)
        by_stripe = [
            [read_fields(column) for column in get_bytes(read_fields(stripe), 1)]
            for stripe in get_bytes(read_fields(content), 1)
        ]
        return by_stripe if len(by_stripe) == len(self.stripes) else []


def read_tail(stream: BinaryIO, size: int) -> Tail:
    """Read the tail of a file of `size` bytes; raises `CorruptFile` if it is damaged."""
    if size < len(MAGIC) + 2:
        raise CorruptFile(f"not an ORC file: it has only {size} bytes")
    end = _read_end(stream, size, min(size, _FIRST_READ_BYTES))
    script = parse_postscript(end)
    needed = script.length + script.footer_length + script.metadata_length
    if needed > size - len(MAGIC):
        raise CorruptFile(f"the tail of the ORC file has {needed} bytes, the whole file {size}")
    if needed > _MAX_TAIL:
        raise CorruptFile(f"the tail of the ORC file has {needed} bytes; at most {_MAX_TAIL} are read")
    if needed > len(end):
        end = _read_end(stream, size, needed)
    footer_start = len(end) - script.length - script.footer_length
    return parse_footer(
        script,
        end[footer_start : footer_start + script.footer_length],
        size - needed,
        end[footer_start - script.metadata_length : footer_start],
    )


def _read_end(stream: BinaryIO, size: int, count: int) -> bytes:
    stream.seek(size - count)
    data = stream.read(count)
    if len(data) != count:
        raise CorruptFile(f"the file is truncated: {count} bytes are missing at its end", position=size - count)
    return data


def parse_postscript(end: bytes) -> Postscript:
    """Parse the postscript in the last bytes of a file."""
    length = end[-1]
    if length >= len(end):
        raise CorruptFile(f"not an ORC file: a postscript of {length} bytes")
    script = read_fields(end[-1 - length : -1])
    if get_bytes(script, 8000)[-1:] != [MAGIC]:
        raise CorruptFile("not an ORC file: its postscript has no magic bytes")
    codec, block_size = get_number(script, 2), get_number(script, 3)
    if codec not in CODEC_NAMES:
        raise CorruptFile(f"the ORC file has an unknown codec, {codec}")
    if codec != NONE and not 0 < block_size <= MAX_BLOCK:
        raise CorruptFile(f"the ORC file has an invalid block size of {block_size} bytes")
    return Postscript(get_number(script, 1), get_number(script, 5), codec, block_size, length + 1, script)


def parse_footer(script: Postscript, compressed: bytes, content_end: int, metadata: bytes = b"") -> Tail:
    """Parse and check a compressed footer; stripes must end before `content_end`."""
    footer = read_fields(decompress(script.codec, compressed, script.block_size, _MAX_TAIL))
    if 10 in footer:
        raise CorruptFile("the ORC file has columns encrypted by ORC, which tables do not support")
    nodes = _nodes([read_fields(message) for message in get_bytes(footer, 4)])
    stripes = tuple(_stripe(read_fields(message), content_end) for message in get_bytes(footer, 3))
    rows = get_number(footer, 6)
    if sum(stripe.rows for stripe in stripes) != rows:
        raise CorruptFile(f"the footer counts {rows} rows, its stripes {sum(stripe.rows for stripe in stripes)}")
    return Tail(script, nodes, stripes, rows, content_end, footer, metadata)


def max_rows(stripe: Stripe) -> int:
    """The maximum rows, or items of lists, of a stripe that is not corrupt."""
    return _MIN_ROW_LIMIT + _ROWS_PER_BYTE * (stripe.end - stripe.offset)


def _stripe(message: Message, content_end: int) -> Stripe:
    stripe = Stripe(*(get_number(message, field) for field in (1, 2, 3, 4, 5)))
    if stripe.offset < len(MAGIC) or stripe.end > content_end:
        raise CorruptFile(
            f"the ORC file has a stripe at {stripe.offset} to {stripe.end}, but its stripes end at {content_end}"
        )
    if stripe.rows > max_rows(stripe):
        raise CorruptFile(f"the ORC file has a stripe of {stripe.end - stripe.offset} bytes with {stripe.rows} rows")
    return stripe


def nodes_below(nodes: Sequence[OrcNode], number: int) -> Iterator[OrcNode]:
    """The type with an id, and all types inside of it.

    >>> [node.kind for node in nodes_below([OrcNode(0, "array", (), (1,)), OrcNode(1, "timestamp")], 0)]
    ['array', 'timestamp']
    """
    yield nodes[number]
    for child in nodes[number].children:
        yield from nodes_below(nodes, child)


# Types ----------------------------------------------------------------------------------------------------------------


def _nodes(messages: Sequence[Message]) -> tuple[OrcNode, ...]:
    if not 0 < len(messages) <= _MAX_TYPES:
        raise CorruptFile(f"the ORC file has {len(messages)} types; allowed are 1 to {_MAX_TYPES}")
    nodes = tuple(_node(number, message) for number, message in enumerate(messages))
    if nodes[0].kind != "struct":
        raise CorruptFile(f"the root type of an ORC file must be a struct, found {nodes[0].kind}")
    _check_tree(nodes)
    return nodes


def _node(number: int, message: Message) -> OrcNode:
    kind = get_number(message, 1)
    if kind >= len(KINDS):
        raise CorruptFile(f"the ORC file has a type of the unknown kind {kind}")
    children, names = tuple(get_numbers(message, 2)), tuple(map(_text, get_bytes(message, 3)))
    name = KINDS[kind]
    expected = len(names) if name == "struct" else len(children) if name == "union" else _CHILDREN.get(name, 0)
    if len(children) != expected:
        raise CorruptFile(f"the ORC file has a type of kind {name} with {expected} fields and {len(children)} children")
    attributes = {}
    for pair in map(read_fields, get_bytes(message, 7)):
        key, value = get_bytes(pair, 1), get_bytes(pair, 2)
        attributes[_text(key[-1] if key else b"")] = _text(value[-1] if value else b"")
    return OrcNode(number, name, names, children, get_number(message, 5), get_number(message, 6), attributes)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile("a name in the tail of the ORC file is not UTF-8") from None


def _check_tree(nodes: Sequence[OrcNode]) -> None:
    """Raise `CorruptFile` unless types are numbered depth-first, so that each has one parent and there is no cycle."""
    expected = 0
    waiting = [(0, 0)]
    while waiting:
        number, depth = waiting.pop()
        if number != expected or number >= len(nodes):
            raise CorruptFile(f"the ORC file has type {number} where type {expected} of {len(nodes)} is expected")
        if depth > MAX_TYPE_DEPTH:
            raise CorruptFile(f"the columns of the file nest more than {MAX_TYPE_DEPTH} deep")
        expected += 1
        waiting.extend((child, depth + 1) for child in reversed(nodes[number].children))
    if expected != len(nodes):
        raise CorruptFile(f"{len(nodes) - expected} types of the ORC file belong to no column")


# Columns --------------------------------------------------------------------------------------------------------------

_NESTED = {"struct": "struct", "array": "list", "map": "map"}
_CHILD_NAMES = {"array": ("element",), "map": ("key", "value")}


def file_columns(nodes: Sequence[OrcNode]) -> tuple[FileField, ...]:
    """The columns of a file, from its types and their attributes (spec: Appendix A, ORC).

    >>> root, number = OrcNode(0, "struct", ("n",), (1,)), OrcNode(1, "int", attributes={"iceberg.id": "7"})
    >>> file_columns([root, number])
    (FileField(name='n', kind='int', stored=INT, id=7, children=()),)
    """
    root = nodes[0]
    return tuple(_column(nodes, name, child) for name, child in zip(root.names, root.children, strict=True))


def _column(nodes: Sequence[OrcNode], name: str, number: int) -> FileField:
    node = nodes[number]
    field_id = _field_id(node, name)
    if node.kind in _NESTED and (node.attributes or {}).get(STRUCT_TYPE) != "VARIANT":
        names = node.names if node.kind == "struct" else _CHILD_NAMES[node.kind]
        children = tuple(
            _column(nodes, child_name, child) for child_name, child in zip(names, node.children, strict=True)
        )
        return FileField(name, _NESTED[node.kind], None, field_id, children)
    stored = type_of(node)
    return FileField(name, stored.kind, stored, field_id)


def type_of(node: OrcNode) -> Type:
    """The type of a column that is not nested; unsupported kinds have a type of their name, which cannot be read.

    >>> type_of(OrcNode(1, "union"))
    UNION
    """
    try:
        stored = stored_type(OrcType(node.kind, node.attributes or {}, node.precision, node.scale))
    except UnsupportedFeature:
        return PrimitiveType(node.kind)
    return BINARY if stored.kind in ("geometry", "geography") else stored  # the table has the reference system


def _field_id(node: OrcNode, name: str) -> int | None:
    text = (node.attributes or {}).get(ID)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise CorruptFile(f"a field id must be a number, found {text[:20]!r}", column=name)
    return int(text)
