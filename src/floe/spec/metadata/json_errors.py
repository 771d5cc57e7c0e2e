"""What msgspec says is wrong with a document, in our words and with the JSON path."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from floe.errors import InvalidMetadata

__all__ = ["describe_json", "invalid_json", "step"]

_JSON_WORDS = {
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
_PLACE = re.compile(r" - at `(key in )?`?\$([^`]*)`\Z")
_MISSING = re.compile(r"Object missing required field `(.*)`\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([a-z]+)(?: \| null)?`, got `([a-z]+)`\Z")
_OUT_OF_RANGE = re.compile(r"(?:Expected `int` [<>]= (-?\d+)|Integer value out of range)\Z")


def describe_json(value: Any) -> str:
    """The kind of a JSON value, as words for an error message.

    >>> describe_json(3.5), describe_json([1])
    ('a number with a fraction or an exponent', 'a list')
    """
    return _JSON_WORDS[_PYTHON_KINDS.get(type(value), "object")]


def step(key: str) -> str:
    """The step of a JSON path to a key: `.name`, or quoted and cut short where the key is no plain word.

    >>> step("snapshot-id"), step("a.b")
    ('.snapshot-id', '["a.b"]')
    """
    if _SIMPLE_KEY.match(key):
        return f".{key}"
    return f"[{msgspec.json.encode(key[:80]).decode()}]"


def invalid_json(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError) -> InvalidMetadata:
    """The `InvalidMetadata` that tells what msgspec found.

    >>> import msgspec
    >>> try:
    ...     msgspec.json.decode(b'{"a": ["x"]}', type=dict[str, list[int]])
    ... except msgspec.DecodeError as error:
    ...     print(invalid_json(error))
    $[...][0]: must be an integer, found a string
    """
    if isinstance(error, RecursionError):
        return InvalidMetadata("the JSON nests too deep to be metadata")
    if isinstance(error, UnicodeDecodeError):
        return InvalidMetadata(f"the text is not UTF-8: {error.reason} at byte {error.start}")
    words = str(error)
    if not isinstance(error, msgspec.ValidationError):
        if words == "Input data was truncated":
            return InvalidMetadata("the JSON is cut off", hint="the file was not written completely")
        return InvalidMetadata(f"not JSON: {words.removeprefix('JSON is malformed: ')}")
    path = ""
    if place := _PLACE.search(words):
        words, path = words[: place.start()], place[2]
    if missing := _MISSING.match(words):
        return InvalidMetadata("is missing", path=f"{path}.{missing[1]}")
    if expected := _EXPECTED.match(words):
        wanted, found = (_JSON_WORDS.get(kind, kind) for kind in expected.groups())
        return InvalidMetadata(f"must be {wanted}, found {found}", path=path)
    if bound := _OUT_OF_RANGE.match(words):
        bits = 32 if bound[1] in ("2147483647", "-2147483648") else 64
        return InvalidMetadata(f"the number does not fit a {bits}-bit integer", path=path)
    return InvalidMetadata(words[:1].lower() + words[1:200], path=path)
