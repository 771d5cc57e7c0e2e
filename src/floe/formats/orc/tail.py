"""The tail of an ORC file: its postscript and footer, read and checked (ORC spec: File Tail).

The footer tells the types with their attributes, where the stripes are, and how many rows they have. All of it is
checked before any of it is handed on: a tree of types that is one, stripes inside the file, counts that add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from floe.errors import CorruptFile
from floe.formats.orc.chunks import CODEC_NAMES, MAX_BLOCK, NONE, unpack
from floe.formats.orc.protobuf import Message, bytes_of, numbers_of, one_number, read_fields
from floe.spec.schemas.schema_fields import MAX_TYPE_DEPTH

__all__ = [
    "KINDS",
    "MAGIC",
    "OrcNode",
    "Postscript",
    "Stripe",
    "Tail",
    "most_rows",
    "nodes_below",
    "parse_footer",
    "parse_postscript",
    "read_tail",
]

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
