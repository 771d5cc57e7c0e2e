"""Metadata JSON from untrusted bytes: decompressed, decoded and checked against limits.

Whatever the bytes are, the result is a value or an `InvalidMetadata` with the JSON path of the problem. The defences:

* gzip bombs: output is decompressed in chunks and stops at `max_bytes`, or at `max_gzip_ratio` long before;
* deep nesting: the decoder stops at the interpreter's recursion limit; where a program has raised that limit far enough
  to endanger the stack, the depth of the text is measured before it is decoded;
* many tiny values (a byte of JSON can become sixty of Python): they are counted before decoding without a type;
* numbers and text: integers must be integers within 32 or 64 bits (`floe.spec.json_records`), text must be UTF-8;
* duplicate keys: JSON does not say which of the two counts. Java, PyIceberg and msgspec take the last, others the
  first, so such a document could show two readers two different tables. It is rejected.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from floe.errors import InvalidMetadata

# Problems, with the JSON path ---------------------------------------------------------------------------------------

_KIND_NAMES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number with a fraction or an exponent",
    "int": "an integer",
    "null": "null",
    "object": "a JSON object",
    "str": "a string",
}
_PYTHON_KINDS = {
    bool: "bool",
    dict: "object",
    float: "float",
    int: "int",
    list: "array",
    str: "str",
    type(None): "null",
}

_SIMPLE_KEY = re.compile(r"[\w-]{1,80}\Z")
_AT_PATH = re.compile(r" - at `(key in )?`?\$([^`]*)`\Z")
_MISSING = re.compile(r"Object missing required field `(.*)`\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([a-z]+)(?: \| null)?`, got `([a-z]+)`\Z")
_OUT_OF_RANGE = re.compile(r"(?:Expected `int` [<>]= (-?\d+)|Integer value out of range)\Z")


def describe_json(value: Any) -> str:
    """Name the kind of a JSON value for an error message.

    >>> describe_json(3.5), describe_json([1])
    ('a number with a fraction or an exponent', 'a list')
    """
    return _KIND_NAMES[_PYTHON_KINDS.get(type(value), "object")]


def step(key: str) -> str:
    """Return the JSON path step to a key: `.name`, or quoted and shortened where the key is not a plain word.

    >>> step("snapshot-id"), step("a.b")
    ('.snapshot-id', '["a.b"]')
    """
    if _SIMPLE_KEY.match(key):
        return f".{key}"
    return f"[{msgspec.json.encode(key[:80]).decode()}]"


def invalid_json(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError) -> InvalidMetadata:
    """Translate an error of msgspec into an `InvalidMetadata`.

    >>> import msgspec
    >>> try:
    ...     msgspec.json.decode(b'{"a": ["x"]}', type=dict[str, list[int]])
    ... except msgspec.DecodeError as error:
    ...     print(invalid_json(error))
    $[...][0]: must be an integer, found a string
    """
    if isinstance(error, RecursionError):
        return InvalidMetadata("the JSON is nested too deeply to be metadata")
    if isinstance(error, UnicodeDecodeError):
        return InvalidMetadata(f"the text is not UTF-8: {error.reason} at byte {error.start}")
    words = str(error)
    if not isinstance(error, msgspec.ValidationError):
        if words == "Input data was truncated":
            return InvalidMetadata("the JSON is truncated", hint="the file was not written completely")
        return InvalidMetadata(f"not JSON: {words.removeprefix('JSON is malformed: ')}")
    path = ""
    if location := _AT_PATH.search(words):
        words, path = words[: location.start()], location[2]
    if missing := _MISSING.match(words):
        return InvalidMetadata("is missing", path=f"{path}.{missing[1]}")
    if expected := _EXPECTED.match(words):
        expected_kind, actual_kind = (_KIND_NAMES.get(kind, kind) for kind in expected.groups())
        return InvalidMetadata(f"must be {expected_kind}, found {actual_kind}", path=path)
    if bound := _OUT_OF_RANGE.match(words):
        bits = 32 if bound[1] in ("2147483647", "-2147483648") else 64
        return InvalidMetadata(f"the number does not fit a {bits}-bit integer", path=path)
    return InvalidMetadata(words[:1].lower() + words[1:200], path=path)


# Documents within limits ---------------------------------------------------------------------------------------------

GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_GZIP_FREE_BYTES: Final = 16 * 1024 * 1024
"""Up to this size the compression ratio is not checked: the memory at stake is small."""

_GZIP_CHUNK_BYTES: Final = 1024 * 1024

_SAFE_RECURSION_LIMIT: Final = 10_000
"""Up to this recursion limit the decoder's own check stops long before a thread's stack overflows."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a metadata document may be. The defaults are far above the sizes of ordinary tables.

    >>> Limits(max_items=2).max_bytes
    268435456
    """

    max_bytes: int = 256 * 1024 * 1024
    """The size of the JSON text, after decompression: about 300,000 snapshots."""

    max_gzip_ratio: int = 100
    """How many bytes of JSON a byte of gzip may expand to; metadata expands 10 to 20 times."""

    max_depth: int = 400
    """How deeply the JSON of schemas and unknown keys may nest; 100 levels of types need 300."""

    max_items: int = 1_000_000
    """How many items each list or map may have: snapshots, log entries, references, properties, fields, …"""

    max_values: int = 5_000_000
    """How many JSON values a part that is decoded without a type may have: schemas, specs, orders, unknown keys."""

    max_string: int = 16 * 1024 * 1024
    """The length of a string in bytes of JSON text; strings above are rejected, those above half of it may be."""


def document_text(data: bytes, limits: Limits) -> bytes:
    """Return the JSON text of a metadata file, decompressed if it is gzip and checked for UTF-8, size and depth.

    >>> import gzip
    >>> document_text(gzip.compress(b'{"format-version": 2}'), Limits())
    b'{"format-version": 2}'
    >>> document_text(b'{"format-version": 2}', Limits(max_bytes=10))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: the document has 21 bytes, more than the limit of 10; raise `Limits.max_bytes` ...
    """
    text = _decompress(data, limits) if data[:2] == GZIP_MAGIC else data
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
        _check_depth(text, limits)
    if len(text) > limits.max_string:
        _check_string_lengths(text, limits)
    return text


def decode_json(text: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T], limits: Limits) -> T:
    """Decode a JSON text with a typed decoder.

    >>> decode_json(b'{"a": 1.5}', msgspec.json.Decoder(dict[str, int]), Limits())
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $[...]: must be an integer, found a number with a fraction or an exponent
    """
    try:
        return decoder.decode(text)
    except RecursionError as error:
        _check_depth(bytes(text), limits)
        raise invalid_json(error) from error
    except msgspec.DecodeError as error:
        raise invalid_json(error) from error


def decode_unknown(text: bytes | msgspec.Raw, limits: Limits) -> Any:
    """Decode a JSON text of any shape, within the limits of depth and number of values.

    >>> decode_unknown(b'[1, {"a": null}]', Limits())
    [1, {'a': None}]
    >>> decode_unknown(b"[[[0]]]", Limits(max_depth=2))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: the JSON is nested deeper than 2 levels
    """
    check_values(text, limits)
    value = decode_json(text, _UNTYPED, limits)
    _check_tree(value, limits)
    return value


def read_list(text: msgspec.Raw, read_item: Callable[[Any], T], limits: Limits) -> tuple[T, ...]:
    """Read each item of a JSON list with a function; problems are reported with the item's index.

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
    """Raise if a JSON text may have more values than the limit; commas inside strings count too.

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
# An unterminated string is one token too, and all quantifiers are possessive: the time is linear for any bytes.
_TOKEN: Final = re.compile(rb'"((?:[^"\\]++|\\.?)*+)(?:"(\s*+:)?|\Z)|([\[{])|[\]}]', re.DOTALL)


def _decompress(data: bytes, limits: Limits) -> bytes:
    """Decompress a gzip file of one or several members; raise as soon as the output is too large."""
    chunks: list[bytes] = []
    size = 0
    remaining = data
    while remaining[:2] == GZIP_MAGIC:
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not member.eof:
            try:
                chunk = member.decompress(remaining, _GZIP_CHUNK_BYTES)
            except zlib.error as error:
                raise InvalidMetadata(f"the gzip data is damaged: {error}") from error
            remaining = member.unconsumed_tail
            if not chunk and not remaining and not member.eof:
                raise InvalidMetadata("the gzip data is truncated", hint="the file was not written completely")
            chunks.append(chunk)
            size += len(chunk)
            _check_decompressed_size(size, len(data), limits)
        remaining = member.unused_data
    if remaining.strip(b"\0"):
        raise InvalidMetadata(f"{len(remaining)} bytes follow the end of the gzip data")
    return b"".join(chunks)


def _check_decompressed_size(size: int, compressed: int, limits: Limits) -> None:
    if size > limits.max_bytes:
        raise _too_large(f"the gzip data expands to more than the limit of {limits.max_bytes} bytes", "max_bytes")
    if size > _GZIP_FREE_BYTES and size > compressed * limits.max_gzip_ratio:
        raise _too_large(
            f"the gzip data expands to more than {limits.max_gzip_ratio} times its size, which metadata never does",
            "max_gzip_ratio",
        )


def _too_large(message: str, limit: str) -> InvalidMetadata:
    return InvalidMetadata(message, hint=f"raise `Limits.{limit}` if you trust the file")


def _check_depth(text: bytes, limits: Limits) -> None:
    """Raise if the JSON is nested too deeply, with the key of the outermost object; does not recurse."""
    if text.count(b"[") + text.count(b"{") <= limits.max_depth:
        return
    depth, path = 0, ""
    for token in _TOKEN.finditer(text):
        if token[3]:
            depth += 1
            if depth > limits.max_depth:
                raise InvalidMetadata(f"the JSON is nested deeper than {limits.max_depth} levels", path=path)
        elif token[1] is None:
            depth -= 1
        elif depth == 1 and token[2]:
            path = step(token[1].decode(errors="replace"))


def _check_string_lengths(text: bytes, limits: Limits) -> None:
    """Raise for a string above the limit: it would fill one of these windows without any quote."""
    window = max(1, limits.max_string // 2)
    for start in range(0, len(text) - window, window):
        if not _QUOTE.search(text, start, start + window):
            raise _too_large(f"a string at byte {start} is longer than the limit of {limits.max_string}", "max_string")


def _check_tree(value: Any, limits: Limits) -> None:
    """Raise if a decoded value is nested too deeply or has too many items; level by level, without recursion."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limits.max_depth):
        if not level:
            return
        next_level: list[Any] = []
        for item in level:
            check_count(item, limits)
            children = item.values() if isinstance(item, dict) else item
            next_level += [child for child in children if isinstance(child, (dict, list))]
        level = next_level
    if level:
        raise InvalidMetadata(f"the JSON is nested deeper than {limits.max_depth} levels")


# Duplicate keys ------------------------------------------------------------------------------------------------------


def check_unique_keys(text: bytes | str) -> None:
    """Raise if any object of a JSON text has the same key twice; `document_text` has checked the depth before.

    >>> check_unique_keys(b'{"a": [{"b": 1, "c": 2, "b": 3}]}')
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.a[0].b: the key 'b' appears twice in one object; readers differ in which one ...
    """
    try:
        _DISTINCT.decode(_text(text))
    except _DuplicateKeyError:
        path, key = next(_duplicate_keys(_AS_PAIRS.decode(_text(text))))
        raise InvalidMetadata(
            f"the key {key[:80]!r} appears twice in one object",
            path=path,
            hint="readers differ in which one they take: rewrite the file with the right one",
        ) from None
    except RecursionError as error:
        raise invalid_json(error) from error
    except ValueError as error:
        raise InvalidMetadata(f"not JSON: {error}") from error


class _DuplicateKeyError(Exception):
    """An object has a key twice."""


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, in order and with duplicates."""


def _check_distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _DuplicateKeyError


def _decoder(hook: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    # Only keys matter here: numbers, which may be too long for Python, and strings were checked before.
    return json.JSONDecoder(object_pairs_hook=hook, parse_int=len, parse_float=len, strict=False)


_DISTINCT: Final = _decoder(_check_distinct)
_AS_PAIRS: Final = _decoder(_Pairs)


def _text(text: bytes | str) -> str:
    return text if isinstance(text, str) else text.decode()


def _duplicate_keys(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the path and name of each duplicate key, without recursion."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, value = stack.pop()
        children: list[tuple[str, Any]] = []
        if isinstance(value, _Pairs):
            keys = set[str]()
            for key, child in value:
                if key in keys:
                    yield path + step(key), key
                keys.add(key)
                children.append((path + step(key), child))
        elif isinstance(value, list):
            children = [(f"{path}[{n}]", child) for n, child in enumerate(value)]
        stack += reversed([(child_path, child) for child_path, child in children if isinstance(child, list)])
