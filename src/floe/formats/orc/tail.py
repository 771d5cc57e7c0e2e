"""The tail of an ORC file: its postscript and footer, read and checked (ORC spec: File Tail).

The footer tells the types with their attributes, where the stripes are, and how many rows they have. All of it is
checked before any of it is handed on: a tree of types that is one, stripes inside the file, counts that add up.

Protocol Buffers as bytes: the little of it that the tail of an ORC file needs.

A message is a sequence of fields, each with a number and a value: a number (varint), eight or four bytes, or a byte
string, which may be a message again. Fields that nobody asks for are passed over, as the format wants it.

>>> message = write_fields([(1, 150), (2, b"abc")])
>>> message.hex(), read_fields(message)
('0896011203616263', {1: [150], 2: [b'abc']})

Compressed parts of ORC files: chunks with a head of three bytes each (ORC spec: Compression).

The head holds the chunk's length, and in its lowest bit whether the chunk is stored as it is. No chunk gives more bytes
than the file's block size, so a few bytes cannot fill the memory.

>>> unpack(NONE, b"abc", 256), unpack(ZLIB, pack_plain(b"abc", 256), 256)
(b'abc', b'abc')

The columns of an ORC file, told by its types and their attributes (spec: Appendix A, ORC).
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

# Protocol Buffers as bytes: the little of it that the tail of an ORC file needs.

Value = int | bytes
Message = dict[int, list[Value]]

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MAX_VARINT_BITS = 70
_WORD = 2**64 - 1


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift >= _MAX_VARINT_BITS:
            raise CorruptFile("a number of the file's tail is cut off or too long", position=at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _read_varint(data, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise CorruptFile(f"a field of the unknown kind {kind} in the file's tail", position=at)
        if size > len(data) - at:
            raise CorruptFile(f"a field of {size} bytes in the file's tail, and {len(data) - at} are left", position=at)
        yield key >> 3, data[at : at + size]
        at += size


def read_fields(data: bytes) -> Message:
    """The values of a message by field number, in their order."""
    found: Message = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def one_number(message: Message, field: int, default: int = 0) -> int:
    """The number of a field: the last one, if there are several.

    >>> one_number({1: [5, 6]}, 1), one_number({}, 1)
    (6, 0)
    """
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise CorruptFile(f"field {field} of the file's tail must be a number")
    return value


def numbers_of(message: Message, field: int) -> list[int]:
    r"""The numbers of a repeated field, packed into byte strings or not.

    >>> numbers_of({2: [b"\x01\x02", 3]}, 2)
    [1, 2, 3]
    """
    found: list[int] = []
    for value in message.get(field, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _read_varint(value, at)
            found.append(number)
    return found


def bytes_of(message: Message, field: int) -> list[bytes]:
    """The byte strings of a repeated field.

    >>> bytes_of({3: [b"a", b"b"]}, 3)
    [b'a', b'b']
    """
    found: list[bytes] = []
    for value in message.get(field, ()):
        if not isinstance(value, bytes):
            raise CorruptFile(f"field {field} of the file's tail must be text or a message")
        found.append(value)
    return found


def signed(number: int) -> int:
    """A number that was stored in zig-zag form.

    >>> [signed(n) for n in (0, 1, 2)]
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
    """The message of some fields; floats are written as eight bytes."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts += (_varint(number << 3 | _BYTES), _varint(len(value)), value)
        elif isinstance(value, float):
            parts += (_varint(number << 3 | _EIGHT), struct.pack("<d", value))
        else:
            parts += (_varint(number << 3 | _VARINT), _varint(value))
    return b"".join(parts)


# Compressed parts of ORC files: chunks with a head of three bytes each (ORC spec: Compression).

NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)
CODEC_NAMES = {NONE: "none", ZLIB: "zlib", SNAPPY: "snappy", LZO: "lzo", LZ4: "lz4", ZSTD: "zstd"}
"""The codecs by the number that files have for them."""

HEAD = 3
"""The bytes before each chunk."""

MAX_BLOCK = 2**23
"""A chunk's length has 23 bits, so blocks cannot be longer."""


def _with_room(decompress_into: Callable[[bytes, Any], int]) -> Callable[[bytes, int], bytes]:
    """Decompress into as much room as a block may take; pages not written to take no memory."""

    def unpacked(data: bytes, limit: int) -> bytes:
        room = np.empty(limit, np.uint8)
        return room[: decompress_into(data, room.data)].tobytes()

    return unpacked


def _snappy(data: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise CorruptFile(f"a chunk of more than {limit} bytes when decompressed", codec="snappy")
    return bytes(cramjam.snappy.decompress_raw(data))


_UNPACK: dict[int, Callable[[bytes, int], bytes]] = {
    ZLIB: lambda data, limit: container.decompress("deflate", data, limit),
    SNAPPY: _snappy,
    LZ4: _with_room(cramjam.lz4.decompress_block_into),
    ZSTD: lambda data, limit: container.decompress("zstandard", data, limit),
}


def unpack(codec: int, data: bytes, block_size: int, most: int | None = None) -> bytes:
    """The content of a compressed part; CorruptFile if it is broken, or has more than `most` bytes."""
    if codec == NONE:
        return data
    parts: list[bytes] = []
    at = size = 0
    while at < len(data):
        head = int.from_bytes(data[at : at + HEAD], "little")
        at += HEAD
        length = head >> 1
        if length > len(data) - at:
            raise CorruptFile(f"a chunk of {length} bytes, and {max(len(data) - at, 0)} are left")
        chunk = data[at : at + length]
        at += length
        parts.append(chunk if head & 1 else _unpacked(codec, chunk, block_size))
        size += len(parts[-1])
        if most is not None and size > most:
            raise CorruptFile(f"a part of the file has more than {most} bytes when decompressed")
    return b"".join(parts)


def _unpacked(codec: int, chunk: bytes, block_size: int) -> bytes:
    decompress = _UNPACK.get(codec)
    if decompress is None:
        raise UnsupportedFeature(f"the ORC codec {CODEC_NAMES.get(codec, codec)} is not known")
    try:
        return decompress(chunk, block_size)
    except cramjam.DecompressionError as error:
        raise CorruptFile(f"a chunk cannot be decompressed: {error}", codec=CODEC_NAMES[codec]) from None


def pack_plain(data: bytes, block_size: int) -> bytes:
    """Content as chunks that are stored as they are, for a file whose codec is not `NONE`."""
    step = min(block_size, MAX_BLOCK - 1)
    cut = (data[at : at + step] for at in range(0, len(data), step))
    return b"".join((len(chunk) << 1 | 1).to_bytes(HEAD, "little") + chunk for chunk in cut)


MAGIC = b"ORC"
KINDS = (
    "boolean", "tinyint", "smallint", "int", "long", "float", "double", "string", "binary", "timestamp", "array", "map",
    "struct", "union", "decimal", "date", "varchar", "char", "timestamp_instant", "geometry", "geography",
)  # fmt: skip
"""The kinds of types by the number that files have for them, with the names that the spec of tables uses."""

_CHILDREN = {"array": 1, "map": 2}
_MAX_TAIL = 256 * 2**20
_MAX_TYPES = 100_000
_FIRST_READ = 16 * 2**10
_MAX_POSTSCRIPT = 255
_ROWS_AT_LEAST, _ROWS_PER_BYTE = 2**20, 2**16
"""How many rows a stripe may claim to have: those of constants take few bytes, but some."""


@dataclass(frozen=True, slots=True)
class Postscript:
    """How the tail is laid out; `length` counts the byte behind it that tells its size."""

    footer_length: int
    metadata_length: int
    codec: int
    block_size: int
    length: int
    fields: Message


@dataclass(frozen=True, slots=True)
class OrcNode:
    """A type of the file. Its id is its place in the file's list, and that of the column which it is the type of."""

    id: int
    kind: str
    names: tuple[str, ...] = ()
    children: tuple[int, ...] = ()
    precision: int = 0
    scale: int = 0
    attributes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Stripe:
    """A run of rows: where it begins, and how long its parts are."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def end(self) -> int:
        """Where the stripe ends."""
        return self.offset + self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True)
class Tail:
    """What the end of a file says about it."""

    postscript: Postscript
    nodes: tuple[OrcNode, ...]
    stripes: tuple[Stripe, ...]
    rows: int
    content_end: int
    """Where the last stripe ends, and everything else begins."""

    footer: Message
    metadata: bytes
    """The statistics of stripes, still compressed."""

    def statistics(self) -> list[list[Message]]:
        """For each stripe, the statistics of each column by its id; nothing where the file has none."""
        script = self.postscript
        content = unpack(script.codec, self.metadata, script.block_size, _MAX_TAIL)
        found = [
            [read_fields(one) for one in bytes_of(read_fields(part), 1)] for part in bytes_of(read_fields(content), 1)
        ]
        return found if len(found) == len(self.stripes) else []


def read_tail(stream: BinaryIO, size: int) -> Tail:
    """The tail of a file of so many bytes."""
    if size < len(MAGIC) + 2:
        raise CorruptFile(f"not an ORC file: it has {size} bytes")
    end = _last(stream, size, min(size, _FIRST_READ))
    script = parse_postscript(end)
    needed = script.length + script.footer_length + script.metadata_length
    if needed > size - len(MAGIC):
        raise CorruptFile(f"the tail of the ORC file has {needed} bytes, the whole file {size}")
    if needed > _MAX_TAIL:
        raise CorruptFile(f"the tail of the ORC file has {needed} bytes; at most {_MAX_TAIL} are read")
    if needed > len(end):
        end = _last(stream, size, needed)
    begin = len(end) - script.length - script.footer_length
    return parse_footer(
        script, end[begin : begin + script.footer_length], size - needed, end[begin - script.metadata_length : begin]
    )


def _last(stream: BinaryIO, size: int, count: int) -> bytes:
    stream.seek(size - count)
    data = stream.read(count)
    if len(data) != count:
        raise CorruptFile(f"the file is cut off: {count} bytes are missing at its end", position=size - count)
    return data


def parse_postscript(end: bytes) -> Postscript:
    """The postscript at the end of some bytes, with which a file ends."""
    length = end[-1]
    if length >= len(end):
        raise CorruptFile(f"not an ORC file: a postscript of {length} bytes")
    script = read_fields(end[-1 - length : -1])
    if bytes_of(script, 8000)[-1:] != [MAGIC]:
        raise CorruptFile("not an ORC file: its end does not say so")
    codec, block_size = one_number(script, 2), one_number(script, 3)
    if codec not in CODEC_NAMES:
        raise CorruptFile(f"the ORC file has an unknown codec, {codec}")
    if codec != NONE and not 0 < block_size <= MAX_BLOCK:
        raise CorruptFile(f"blocks of {block_size} bytes, which ORC cannot have")
    return Postscript(one_number(script, 1), one_number(script, 5), codec, block_size, length + 1, script)


def parse_footer(script: Postscript, packed: bytes, content_end: int, metadata: bytes = b"") -> Tail:
    """The footer as the file has it, checked; stripes have to end before `content_end`."""
    footer = read_fields(unpack(script.codec, packed, script.block_size, _MAX_TAIL))
    if 10 in footer:
        raise CorruptFile("columns are encrypted by ORC itself, which tables do not know")
    nodes = _nodes([read_fields(one) for one in bytes_of(footer, 4)])
    stripes = tuple(_stripe(read_fields(one), content_end) for one in bytes_of(footer, 3))
    rows = one_number(footer, 6)
    if sum(stripe.rows for stripe in stripes) != rows:
        raise CorruptFile(f"the footer counts {rows} rows, its stripes {sum(stripe.rows for stripe in stripes)}")
    return Tail(script, nodes, stripes, rows, content_end, footer, metadata)


def most_rows(stripe: Stripe) -> int:
    """How many rows, or values of lists, a stripe may have at most."""
    return _ROWS_AT_LEAST + _ROWS_PER_BYTE * (stripe.end - stripe.offset)


def _stripe(message: Message, content_end: int) -> Stripe:
    stripe = Stripe(*(one_number(message, field) for field in (1, 2, 3, 4, 5)))
    if stripe.offset < len(MAGIC) or stripe.end > content_end:
        raise CorruptFile(
            f"a stripe is said to be at {stripe.offset} to {stripe.end}, and stripes end at {content_end}"
        )
    if stripe.rows > most_rows(stripe):
        raise CorruptFile(f"a stripe of {stripe.end - stripe.offset} bytes is said to have {stripe.rows} rows")
    return stripe


def nodes_below(nodes: Sequence[OrcNode], number: int) -> Iterator[OrcNode]:
    """The type of a number, and all that are inside.

    >>> [node.kind for node in nodes_below([OrcNode(0, "array", (), (1,)), OrcNode(1, "timestamp")], 0)]
    ['array', 'timestamp']
    """
    yield nodes[number]
    for child in nodes[number].children:
        yield from nodes_below(nodes, child)


# types ----------------------------------------------------------------------------------------------------------------


def _nodes(messages: Sequence[Message]) -> tuple[OrcNode, ...]:
    if not 0 < len(messages) <= _MAX_TYPES:
        raise CorruptFile(f"the file tells {len(messages)} types; there is at least one, and at most {_MAX_TYPES}")
    nodes = tuple(_node(number, message) for number, message in enumerate(messages))
    if nodes[0].kind != "struct":
        raise CorruptFile(f"the rows of an ORC file are structs, found {nodes[0].kind}")
    _check_tree(nodes)
    return nodes


def _node(number: int, message: Message) -> OrcNode:
    kind = one_number(message, 1)
    if kind >= len(KINDS):
        raise CorruptFile(f"a type of the unknown kind {kind}")
    children, names = tuple(numbers_of(message, 2)), tuple(map(_text, bytes_of(message, 3)))
    name = KINDS[kind]
    wanted = len(names) if name == "struct" else len(children) if name == "union" else _CHILDREN.get(name, 0)
    if len(children) != wanted:
        raise CorruptFile(f"a type of kind {name} with {wanted} fields has {len(children)} children")
    attributes = {}
    for pair in map(read_fields, bytes_of(message, 7)):
        key, value = bytes_of(pair, 1), bytes_of(pair, 2)
        attributes[_text(key[-1] if key else b"")] = _text(value[-1] if value else b"")
    return OrcNode(number, name, names, children, one_number(message, 5), one_number(message, 6), attributes)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile("a name in the file's tail is not UTF-8") from None


def _check_tree(nodes: Sequence[OrcNode]) -> None:
    """Types are numbered as they are met from the root down, so each has one place and none holds itself."""
    expected = 0
    waiting = [(0, 0)]
    while waiting:
        number, depth = waiting.pop()
        if number != expected or number >= len(nodes):
            raise CorruptFile(f"type {number} is not where type {expected} of {len(nodes)} has to be")
        if depth > MAX_TYPE_DEPTH:
            raise CorruptFile(f"the columns of the file nest more than {MAX_TYPE_DEPTH} deep")
        expected += 1
        waiting.extend((child, depth + 1) for child in reversed(nodes[number].children))
    if expected != len(nodes):
        raise CorruptFile(f"{len(nodes) - expected} types of the file belong to no column")


# The columns of an ORC file, told by its types and their attributes (spec: Appendix A, ORC).

_NESTED = {"struct": "struct", "array": "list", "map": "map"}
_NAMES = {"array": ("element",), "map": ("key", "value")}


def file_columns(nodes: Sequence[OrcNode]) -> tuple[FileField, ...]:
    """The columns of a file, by its checked types.

    >>> root, number = OrcNode(0, "struct", ("n",), (1,)), OrcNode(1, "int", attributes={"iceberg.id": "7"})
    >>> file_columns([root, number])
    (FileField(name='n', kind='int', stored=INT, id=7, children=()),)
    """
    root = nodes[0]
    return tuple(_column(nodes, name, child) for name, child in zip(root.names, root.children, strict=True))


def _column(nodes: Sequence[OrcNode], name: str, number: int) -> FileField:
    node = nodes[number]
    field_id = _id(node, name)
    if node.kind in _NESTED and (node.attributes or {}).get(STRUCT_TYPE) != "VARIANT":
        names = node.names if node.kind == "struct" else _NAMES[node.kind]
        children = tuple(_column(nodes, own, child) for own, child in zip(names, node.children, strict=True))
        return FileField(name, _NESTED[node.kind], None, field_id, children)
    stored = type_of(node)
    return FileField(name, stored.kind, stored, field_id)


def type_of(node: OrcNode) -> Type:
    """The type of a column without children; one that tables have not is named as it is, and cannot be read.

    >>> type_of(OrcNode(1, "union"))
    UNION
    """
    try:
        stored = stored_type(OrcType(node.kind, node.attributes or {}, node.precision, node.scale))
    except UnsupportedFeature:
        return PrimitiveType(node.kind)
    return BINARY if stored.kind in ("geometry", "geography") else stored  # of what system, the table says


def _id(node: OrcNode, name: str) -> int | None:
    text = (node.attributes or {}).get(ID)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**31):
        raise CorruptFile(f"a field id must be a number, found {text[:20]!r}", column=name)
    return int(text)
