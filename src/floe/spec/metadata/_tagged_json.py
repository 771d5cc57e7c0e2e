"""JSON objects of several forms, told apart by one key: updates by `action`, requirements by `type`.

Each form is a table of parts: which attribute of the value stands under which JSON key, and how it is read and
written. Reading says where a problem is; a tag that this version does not know is `UnsupportedFeature`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from floe.errors import InvalidInput, InvalidMetadata, UnsupportedFeature
from floe.spec.metadata.json_errors import describe_json, invalid_json
from floe.spec.metadata.records import Int32, Int64, object_from_json

__all__ = ["Form", "Part", "TaggedJson", "form", "int32", "int64", "plain", "string"]

T = TypeVar("T")
JsonObject = dict[str, Any]


def plain(kind: Any) -> Callable[[Any], Any]:
    """A reader of JSON that is nothing but a plain type, such as `tuple[int, ...]`.

    >>> plain(tuple[str, ...])(["a", 1])
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $[1]: must be a string, found an integer
    """

    def read(json: Any) -> Any:
        try:
            return msgspec.convert(json, kind)
        except msgspec.ValidationError as error:
            raise invalid_json(error) from error

    return read


int32 = plain(Int32)
"""Reads a 32-bit integer."""

int64 = plain(Int64)
"""Reads a 64-bit integer."""

string = plain(str)
"""Reads a string."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Part:
    """An attribute of a value and its JSON key."""

    key: str
    attribute: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = _same
    required: bool = True
    """If not, a missing key or null is None, which is not written."""

    earlier_key: str | None = None
    """What the key was called by writers before it had its name; used when `key` is not there."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """One kind of value: its tag, and how its JSON object is read and written (without the tag)."""

    tag: str
    kind: type[T]
    read: Callable[[JsonObject], T]
    write: Callable[[T], JsonObject]


def form(tag: str, kind: type[T], *parts: Part) -> Form[T]:
    """The form of a value whose attributes each have a JSON key."""

    def read(obj: JsonObject) -> T:
        return kind(**{part.attribute: read_part(obj, part) for part in parts})

    def write(value: T) -> JsonObject:
        held = ((part, getattr(value, part.attribute)) for part in parts)
        return {part.key: part.write(held_value) for part, held_value in held if held_value is not None}

    return Form(tag, kind, read, write)


def read_part(obj: Mapping[str, Any], part: Part) -> Any:
    """The value under a part's key; problems are reported with the key."""
    key = part.key
    if key not in obj and part.earlier_key is not None and part.earlier_key in obj:
        key = part.earlier_key
    json = obj.get(key)
    if json is None:
        if part.required:
            raise InvalidMetadata("is missing" if key not in obj else "must not be null").at("." + key)
        return None
    try:
        return part.read(json)
    except InvalidMetadata as error:
        raise error.at("." + key) from None


class TaggedJson:
    """Reads and writes values of several forms.

    >>> shapes = TaggedJson("shape", "type", [form("circle", complex, Part("radius", "real", int32))])
    >>> shapes.read({"type": "circle", "radius": 2})
    (2+0j)
    >>> shapes.read({"type": "blob"})
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the shape 'blob' is not known; known are circle
    """

    def __init__(self, what: str, tag_key: str, forms: Iterable[Form[Any]], hints: Mapping[str, str] | None = None):
        self._what = what
        self._tag_key = tag_key
        self._by_tag = {f.tag: f for f in forms}
        self._by_kind = {f.kind: f for f in self._by_tag.values()}
        self._hints = hints or {}

    def read(self, json: Any) -> Any:
        """The value that a JSON object describes."""
        obj = object_from_json(json)
        tag = read_part(obj, Part(self._tag_key, self._tag_key, string))
        known = self._by_tag.get(tag)
        if known is None:
            raise UnsupportedFeature(
                f"the {self._what} {tag[:80]!r} is not known",
                hint=self._hints.get(tag, f"known are {', '.join(self._by_tag)}"),
            )
        return known.read(obj)

    def read_all(self, json: Any) -> tuple[Any, ...]:
        """The values that a JSON list describes, in its order."""
        if not isinstance(json, list):
            raise InvalidMetadata(f"must be a list, found {describe_json(json)}")
        values = []
        for n, item in enumerate(json):
            try:
                values.append(self.read(item))
            except InvalidMetadata as error:
                raise error.at(f"[{n}]") from None
            except UnsupportedFeature as error:
                error.with_context(path=f"$[{n}]")
                raise
        return tuple(values)

    def check(self, value: Any) -> None:
        """Raise unless what is written of a value can be read again."""
        try:
            json = self.write(value)
        except (AttributeError, TypeError) as error:
            raise InvalidMetadata(f"cannot be written as JSON: {error}") from error
        self.read(json)

    def write(self, value: Any) -> JsonObject:
        """The JSON object of a value."""
        known = self._by_kind.get(type(value))
        if known is None:
            raise InvalidInput(f"not a {self._what}: {value!r:.80}")
        return {self._tag_key: known.tag} | known.write(value)
