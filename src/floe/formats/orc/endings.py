"""The end of an ORC file as it is written: what pyarrow has written, completed, or put together anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from floe.errors import CorruptFile
from floe.formats.orc.chunks import NONE, pack_plain, unpack
from floe.formats.orc.early_moments import MadeStripe
from floe.formats.orc.protobuf import bytes_of, one_number, read_fields, write_fields
from floe.formats.orc.tail import MAGIC, Tail, parse_footer, parse_postscript

__all__ = ["combined_end", "tail_of", "with_metadata"]

_OF_FIRST_WRITER = (1, 4, 8, 9, 11, 12)  # header, types, row index stride, who wrote it


def tail_of(held: bytes, written: int) -> tuple[Tail, int]:
    """The tail at the end of some bytes, before which so many were written, and where its footer begins there."""
    script = parse_postscript(held)
    end = len(held) - script.length
    start = end - script.footer_length
    if start < 0:
        raise CorruptFile("the ORC writer wrote its footer too early")
    begin = start - script.metadata_length
    return parse_footer(script, held[start:end], written + begin, held[begin:start]), start


def with_metadata(tail: Tail, end: bytes, metadata: Mapping[str, str]) -> bytes:
    """The footer and postscript with key-value metadata; a message is made longer by writing on."""
    if not metadata:
        return end
    script = tail.postscript
    more = write_fields(_entries(metadata))
    if script.codec != NONE:
        more = pack_plain(more, script.block_size)
    footer = end[: -script.length] + more
    fields = [(number, value) for number, values in script.fields.items() if number != 1 for value in values]
    postscript = write_fields([(1, len(footer)), *fields])
    return footer + postscript + bytes([len(postscript)])


def _entries(metadata: Mapping[str, str]) -> list[tuple[int, bytes]]:
    return [(5, write_fields([(1, key.encode()), (2, value.encode())])) for key, value in metadata.items()]


def combined_end(
    tail: Tail, stripes: Sequence[tuple[int, MadeStripe]], content_end: int, metadata: Mapping[str, str]
) -> bytes:
    """The end of a file that has stripes of pyarrow's, whose tail is given, and then others, at their places."""
    script, footer = tail.postscript, tail.footer
    made = [stripe for _, stripe in stripes]
    own = bytes_of(read_fields(unpack(script.codec, tail.metadata, script.block_size)), 1)
    told = [(1, part) for part in own]
    told += [(1, write_fields([(1, one) for one in stripe.statistics])) for stripe in made]
    fields = [(field, value) for field in _OF_FIRST_WRITER for value in footer.get(field, ())]
    fields += [(3, part) for part in bytes_of(footer, 3)]
    fields += [(3, stripe.described(offset)) for offset, stripe in stripes]
    fields += [(2, content_end - len(MAGIC)), (6, tail.rows + sum(stripe.rows for stripe in made))]
    fields += [(7, part) for part in _counts(bytes_of(footer, 7), [stripe.statistics for stripe in made])]
    packed = [
        content if script.codec == NONE else pack_plain(content, script.block_size)
        for content in (write_fields(told), write_fields([*fields, *_entries(metadata)]))
    ]
    lengths = {1: len(packed[1]), 5: len(packed[0])}
    kept = [(n, value) for n, values in script.fields.items() if n not in lengths for value in values]
    postscript = write_fields([*lengths.items(), *kept])
    return b"".join((*packed, postscript, bytes([len(postscript)])))


def _counts(first: Sequence[bytes], others: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The statistics of all rows, by column: how many values there are, and whether nulls; stripes tell the rest."""
    made = []
    for several in zip(first, *others, strict=True):
        messages = [read_fields(one) for one in several]
        values = sum(one_number(message, 1) for message in messages)
        made.append(write_fields([(1, values), (10, int(any(one_number(message, 10) for message in messages)))]))
    return made
