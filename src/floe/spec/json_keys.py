"""Keys that stand twice in an object of a JSON text.

JSON leaves open which of the two counts. Java, PyIceberg and msgspec take the last, others the first, so such a
document could show two readers two different tables: no document of a table may have one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from floe.errors import InvalidMetadata
from floe.spec.metadata.json_errors import invalid_json, step

__all__ = ["check_unique_keys"]


def check_unique_keys(text: bytes | str) -> None:
    """Raise if any object of a JSON text has the same key twice; the text is known to be JSON of a fair depth.

    >>> check_unique_keys(b'{"a": [{"b": 1, "c": 2, "b": 3}]}')
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.a[0].b: the key 'b' stands twice in one object; readers differ in which one ...
    """
    try:
        _DISTINCT.decode(_text(text))
    except _RepeatedKeyError:
        path, key = next(_repeated_keys(_AS_PAIRS.decode(_text(text))))
        raise InvalidMetadata(
            f"the key {key[:80]!r} stands twice in one object",
            path=path,
            hint="readers differ in which one they take: write the file anew with the right one",
        ) from None
    except RecursionError as error:
        raise invalid_json(error) from error
    except ValueError as error:
        raise InvalidMetadata(f"not JSON: {error}") from error


class _RepeatedKeyError(Exception):
    """An object has a key twice."""


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object as they stand."""


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _RepeatedKeyError


def _decoder(hook: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    # numbers do not matter, and may be too long for Python's own; what strings may hold has been decided by others
    return json.JSONDecoder(object_pairs_hook=hook, parse_int=len, parse_float=len, strict=False)


_DISTINCT: Final = _decoder(_distinct)
_AS_PAIRS: Final = _decoder(_Pairs)


def _text(text: bytes | str) -> str:
    return text if isinstance(text, str) else text.decode()


def _repeated_keys(value: Any) -> Iterator[tuple[str, str]]:
    """The path and name of each key that stands twice, without recursion."""
    rest: list[tuple[str, Any]] = [("", value)]
    while rest:
        path, value = rest.pop()
        below: list[tuple[str, Any]] = []
        if isinstance(value, _Pairs):
            seen = set[str]()
            for key, child in value:
                if key in seen:
                    yield path + step(key), key
                seen.add(key)
                below.append((path + step(key), child))
        elif isinstance(value, list):
            below = [(f"{path}[{n}]", child) for n, child in enumerate(value)]
        rest += reversed([(where, child) for where, child in below if isinstance(child, list)])
