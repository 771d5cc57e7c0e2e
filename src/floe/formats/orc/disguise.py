"""An ORC file with another tail, as the reader of ORC files sees it.

The reader finds columns by name, and takes dots in names for paths; it also knows timestamps only with nanoseconds,
which reach from 1677 to 2262. So it is given a tail of our own making, from the checked one: every column at the top is
named by its number, and timestamps may pose as the numbers that they are stored as.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import BinaryIO

from floe.formats.orc.chunks import NONE, pack_plain
from floe.formats.orc.protobuf import Message, bytes_of, one_number, read_fields, write_fields
from floe.formats.orc.tail import KINDS, Tail

__all__ = ["DisguisedFile", "column_name"]

_LONG = KINDS.index("long")
_PASSED_ON = (1, 2, 3, 6, 8, 9, 11, 12)  # of the footer: all but types, metadata and statistics
_KEPT_OF_SCRIPT = (2, 3, 4, 6, 8000)


def column_name(number: int) -> str:
    """What the column of a type's number is called in disguise.

    >>> column_name(3)
    'c3'
    """
    return f"c{number}"


class DisguisedFile:
    """The stripes of a file, and a tail of our own; what pyarrow asks of a binary file that is read."""

    mode = "rb"
    closed = False

    def __init__(self, stream: BinaryIO, tail: Tail, as_numbers: Collection[int] = ()) -> None:
        self._stream = stream
        self._begin = tail.content_end
        self._tail = _new_tail(tail, as_numbers)
        self._size = self._begin + len(self._tail)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes: of the file itself, or of the new tail."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        found = b""
        if self._at < self._begin:
            self._stream.seek(self._at)
            found = self._stream.read(min(end, self._begin) - self._at)
            if self._at + len(found) < min(end, self._begin):  # cut off while it is read
                self._at += len(found)
                return found
        if end > self._begin:
            found += self._tail[max(self._at - self._begin, 0) : end - self._begin]
        self._at = max(end, self._at)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False

    def seekable(self) -> bool:
        """True."""
        return True

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing: the file is its owner's to close."""


def _new_tail(tail: Tail, as_numbers: Collection[int]) -> bytes:
    kept = [(field, value) for field in _PASSED_ON for value in tail.footer.get(field, ())]
    types = [(4, write_fields(part)) for part in _types(tail, as_numbers)]
    footer = write_fields([*kept, *types])
    script = tail.postscript
    if script.codec != NONE:
        footer = pack_plain(footer, script.block_size)
    fields = [(field, value) for field in _KEPT_OF_SCRIPT for value in script.fields.get(field, ())]
    postscript = write_fields(
        [(1, len(footer)), *((n, value) for n, value in fields if n < 8000), (5, 0), *fields[-1:]]
    )
    return footer + postscript + bytes([len(postscript)])


def _types(tail: Tail, as_numbers: Collection[int]) -> Iterator[list[tuple[int, int | float | bytes]]]:
    messages: list[Message] = [read_fields(one) for one in bytes_of(tail.footer, 4)]
    for node, message in zip(tail.nodes, messages, strict=True):
        if node.id in as_numbers:
            yield [(1, _LONG)]
            continue
        names = [(3, name.encode()) for name in (map(column_name, node.children) if node.id == 0 else node.names)]
        numbers = [(field, one_number(message, field)) for field in (4, 5, 6) if field in message]
        yield [(1, KINDS.index(node.kind)), *((2, child) for child in node.children), *names, *numbers]
