"""Metadata JSON from untrusted bytes: unpacked, decoded and measured within limits, never trusted before.

Whatever the bytes are, the outcome is a value or an `InvalidMetadata` with the JSON path of the problem. What guards
against what:

* a gzip bomb: output is produced piece by piece and stops at `max_bytes`, or at `max_gzip_ratio` long before;
* deep nesting: the decoder stops at the interpreter's recursion limit; where a program has raised that limit far enough
  to endanger the stack, the text is measured before it is decoded;
* many tiny values (a byte of JSON can become sixty of Python): they are counted before decoding without a type;
* numbers and text: integers must be integers within 32 or 64 bits (`floe.spec.metadata.records`), text must be UTF-8.

An object that has the same key twice is refused: readers differ in which of the two they take, so that such a document
could show two readers two different tables.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from floe.errors import InvalidMetadata
from floe.spec.metadata.json_errors import invalid_json, step

__all__ = [
    "GZIP_MAGIC",
    "Limits",
    "check_count",
    "check_values",
    "decode_json",
    "decode_unknown",
    "document_text",
    "read_list",
]

GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_GZIP_FREE_BYTES: Final = 16 * 1024 * 1024
"""Up to this size any compression ratio is fine: it is little memory either way."""

_GZIP_PIECE: Final = 1024 * 1024

_SAFE_RECURSION_LIMIT: Final = 10_000
"""Up to this recursion limit the decoder's own check comes long before the end of a thread's stack."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a metadata document may be. The defaults are far above what healthy tables have.

    >>> Limits(max_items=2).max_bytes
    268435456
    """

    max_bytes: int = 256 * 1024 * 1024
    """The size of the JSON text, after decompression: about 300,000 snapshots."""

    max_gzip_ratio: int = 100
    """How many bytes of JSON a byte of gzip may become; metadata comes to 10 or 20."""

    max_depth: int = 400
    """How deep the JSON of schemas and of unknown keys may nest; 100 levels of types take 300."""

    max_items: int = 1_000_000
    """How many snapshots, log entries, references, properties, fields of a schema, … there may be of each."""

    max_values: int = 5_000_000
    """How many JSON values a part without a type of its own may have: schemas, specs, orders, unknown keys."""

    max_string: int = 16 * 1024 * 1024
    """The length of a string, in bytes of JSON text; from half of it on a string may be refused, above it is always."""


def document_text(data: bytes, limits: Limits) -> bytes:
    """The JSON text of a metadata file, decompressed if it is gzip, and known to be UTF-8 of a fair size and depth.

    >>> import gzip
    >>> document_text(gzip.compress(b'{"format-version": 2}'), Limits())
    b'{"format-version": 2}'
    >>> document_text(b'{"format-version": 2}', Limits(max_bytes=10))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: the document has 21 bytes, more than the limit of 10; raise `Limits.max_bytes` ...
    """
    text = _inflated(data, limits) if data[:2] == GZIP_MAGIC else data
    if len(text) > limits.max_bytes:
        raise _too_large(f"the document has {len(text)} bytes, more than the limit of {limits.max_bytes}", "max_bytes")
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if not text or text.isspace():
        raise InvalidMetadata("the file is empty", hint="it was not written completely")
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise invalid_json(error) from error
    if sys.getrecursionlimit() > _SAFE_RECURSION_LIMIT:
        _refuse_deep_nesting(text, limits)
    if len(text) > limits.max_string:
        _refuse_long_strings(text, limits)
    return text


def decode_json(text: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T], limits: Limits) -> T:
    """The value of a JSON text by a typed decoder.

    >>> decode_json(b'{"a": 1.5}', msgspec.json.Decoder(dict[str, int]), Limits())
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $[...]: must be an integer, found a number with a fraction or an exponent
    """
    try:
        return decoder.decode(text)
    except RecursionError as error:
        _refuse_deep_nesting(bytes(text), limits)
        raise invalid_json(error) from error
    except msgspec.DecodeError as error:
        raise invalid_json(error) from error


def decode_unknown(text: bytes | msgspec.Raw, limits: Limits) -> Any:
    """The value of a JSON text of any form, within the limits of depth and of the number of values.

    >>> decode_unknown(b'[1, {"a": null}]', Limits())
    [1, {'a': None}]
    >>> decode_unknown(b"[[[0]]]", Limits(max_depth=2))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: the JSON nests deeper than 2 levels
    """
    check_values(text, limits)
    value = decode_json(text, _UNTYPED, limits)
    _check_tree(value, limits)
    return value


def read_list(text: msgspec.Raw, read_item: Callable[[Any], T], limits: Limits) -> tuple[T, ...]:
    """The items of a JSON list, each read by a function; a problem is reported with the item's index.

    >>> read_list(msgspec.Raw(b"[1, 2]"), str, Limits())
    ('1', '2')
    """
    check_values(text, limits)
    raw_items = decode_json(text, _RAW_LIST, limits)
    items = []
    for n, raw in enumerate(raw_items):
        try:
            items.append(read_item(decode_unknown(raw, limits)))
        except InvalidMetadata as error:
            raise error.at(f"[{n}]") from None
    return tuple(items)


def check_count(items: Sized, limits: Limits) -> None:
    """Raise if a list or map has more items than the limit.

    >>> check_count("abc", Limits(max_items=2))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: has 3 items, more than the limit of 2; raise `Limits.max_items` ...
    """
    if len(items) > limits.max_items:
        raise _too_large(f"has {len(items)} items, more than the limit of {limits.max_items}", "max_items")


def check_values(text: bytes | msgspec.Raw, limits: Limits) -> None:
    """Raise if a JSON text may have more values than the limit; commas within strings are counted too.

    >>> check_values(b"[0,0,0,0,0]", Limits(max_values=3))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: has about 5 values, more than the limit of 3; raise `Limits.max_values` ...
    """
    view = bytes(text)
    if len(view) > limits.max_values:
        count = view.count(b",") + view.count(b"[") + view.count(b"{")
        if count > limits.max_values:
            raise _too_large(f"has about {count} values, more than the limit of {limits.max_values}", "max_values")


_UNTYPED: Final = msgspec.json.Decoder[Any]()
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])

_QUOTE: Final = re.compile(rb'(?<!\\)"')
# a string that never ends is one token too, and no choice is taken back: the time is linear for any bytes
_TOKEN: Final = re.compile(rb'"((?:[^"\\]++|\\.?)*+)(?:"(\s*+:)?|\Z)|([\[{])|[\]}]', re.DOTALL)


def _inflated(data: bytes, limits: Limits) -> bytes:
    """The content of a gzip file, of one or several members, refused as soon as it is too large."""
    pieces: list[bytes] = []
    size = 0
    rest = data
    while rest[:2] == GZIP_MAGIC:
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not member.eof:
            try:
                piece = member.decompress(rest, _GZIP_PIECE)
            except zlib.error as error:
                raise InvalidMetadata(f"the gzip data is damaged: {error}") from error
            rest = member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise InvalidMetadata("the gzip data is cut off", hint="the file was not written completely")
            pieces.append(piece)
            size += len(piece)
            _check_inflated_size(size, len(data), limits)
        rest = member.unused_data
    if rest.strip(b"\0"):
        raise InvalidMetadata(f"{len(rest)} bytes follow the end of the gzip data")
    return b"".join(pieces)


def _check_inflated_size(size: int, compressed: int, limits: Limits) -> None:
    if size > limits.max_bytes:
        raise _too_large(f"the gzip data expands to more than the limit of {limits.max_bytes} bytes", "max_bytes")
    if size > _GZIP_FREE_BYTES and size > compressed * limits.max_gzip_ratio:
        raise _too_large(
            f"the gzip data expands to more than {limits.max_gzip_ratio} times its size: no metadata does",
            "max_gzip_ratio",
        )


def _too_large(message: str, limit: str) -> InvalidMetadata:
    return InvalidMetadata(message, hint=f"raise `Limits.{limit}` if you trust the file")


def _refuse_deep_nesting(text: bytes, limits: Limits) -> None:
    """Raise where the JSON nests too deep, with the key of the outermost object; measured without recursion."""
    if text.count(b"[") + text.count(b"{") <= limits.max_depth:
        return
    depth, path = 0, ""
    for token in _TOKEN.finditer(text):
        if token[3]:
            depth += 1
            if depth > limits.max_depth:
                raise InvalidMetadata(f"the JSON nests deeper than {limits.max_depth} levels", path=path)
        elif token[1] is None:
            depth -= 1
        elif depth == 1 and token[2]:
            path = step(token[1].decode(errors="replace"))


def _refuse_long_strings(text: bytes, limits: Limits) -> None:
    """Raise for a string above the limit: it would fill one of these windows, where healthy text has a quote soon."""
    window = max(1, limits.max_string // 2)
    for start in range(0, len(text) - window, window):
        if not _QUOTE.search(text, start, start + window):
            raise _too_large(f"a string at byte {start} is longer than the limit of {limits.max_string}", "max_string")


def _check_tree(value: Any, limits: Limits) -> None:
    """Raise where a decoded value nests too deep or has too many items; level by level, without recursion."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limits.max_depth):
        if not level:
            return
        below: list[Any] = []
        for item in level:
            check_count(item, limits)
            children = item.values() if isinstance(item, dict) else item
            below += [child for child in children if isinstance(child, (dict, list))]
        level = below
    if level:
        raise InvalidMetadata(f"the JSON nests deeper than {limits.max_depth} levels")
