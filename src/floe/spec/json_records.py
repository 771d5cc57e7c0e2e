"""The records that metadata JSON is made of: strictly typed, decoded in C, with unknown keys kept.

A record is a `msgspec.Struct` whose attributes are the JSON keys with `_` for `-`. There are two ways in:

* inside a whole document, msgspec decodes records directly; a key that no record knows makes that fail, and the
  caller goes the second way;
* `record_from_json` reads one JSON object, keeps keys it does not know in `extra`, and says exactly where a problem is.

Writing follows the order of the attributes, which is the order in which Java writes; whatever equals its default is
left out, as Java does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

import msgspec

from floe.errors import InvalidMetadata
from floe.spec.metadata.json_errors import describe_json, invalid_json, step

__all__ = [
    "Int32",
    "Int64",
    "ListJson",
    "Record",
    "StringMap",
    "given_attributes",
    "object_from_json",
    "record_from_json",
    "record_to_json",
    "string_map_from_json",
]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A JSON int: integers only, no floats, no strings, and within 32 bits."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A JSON long: integers only, no floats, no strings, and within 64 bits."""

if TYPE_CHECKING:
    StringMap = Mapping[str, str]
    Extra = Mapping[str, Any]
else:
    StringMap = dict[str, str]  # what msgspec makes; a Mapping to everybody else, so that nobody changes it

    class Extra:
        """A type that no JSON value has: a key named `extra` is an unknown key like any other."""


_NO_EXTRA: Final[Mapping[str, Any]] = MappingProxyType({})  # one for all: most records have none

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound="Record")


class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    forbid_unknown_fields=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,  # records hold plain JSON, which has no cycles; the collector need not look at 10,000 of them
):
    """What all records share: `extra` holds the keys that this version of Floe does not know."""

    parts: ClassVar[Mapping[str, type[Record]]] = {}
    """The JSON keys whose values are lists of records, and of which kind."""

    extra: Extra = _NO_EXTRA

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), given_attributes(self))


class ListJson:
    """The JSON of a list of records that grows at its end, as it was read or written last: what is new is added to it.

    It goes along when metadata is changed, for the first records stay the same objects; where they do not, all are
    encoded anew. Threads may share it.

    >>> known = ListJson((1, 2), b"[1,2]")
    >>> known.of((1, 2, 3), msgspec.json.encode)
    b'[1,2,3]'
    >>> known.of((2, 3), msgspec.json.encode)
    b'[2,3]'
    """

    __slots__ = ("_known",)

    def __init__(self, items: tuple[Any, ...] = (), json: bytes | memoryview = b"[]") -> None:
        self._known = (items, json)

    def of(self, items: tuple[T, ...], encode: Callable[[tuple[T, ...]], bytes]) -> bytes | memoryview:
        """The JSON of a list."""
        known, json = self._known
        count = len(known)
        if not count or items[:count] != known:
            json = encode(items)
        elif len(items) > count:
            json = b"".join((memoryview(json)[:-1], b",", memoryview(encode(items[count:]))[1:]))
        self._known = (items, json)
        return json

    def __reduce__(self) -> tuple[Any, ...]:
        return ListJson, ()  # others encode for themselves


def given_attributes(record: Record) -> dict[str, Any]:
    """The attributes of a record that are not at their defaults.

    >>> from floe.spec.metadata.refs import SnapshotRef
    >>> given_attributes(SnapshotRef(snapshot_id=3, type="tag"))
    {'snapshot_id': 3, 'type': 'tag'}
    """
    return {
        field.name: value
        for field in msgspec.structs.fields(record)
        if (value := getattr(record, field.name)) is not field.default
    }


def _make(kind: type[RecordT], attributes: dict[str, Any]) -> RecordT:
    return kind(**attributes)


def object_from_json(json: Any) -> dict[str, Any]:
    """A JSON value that must be an object.

    >>> object_from_json([])
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: must be a JSON object, found a list
    """
    if not isinstance(json, dict):
        raise InvalidMetadata(f"must be a JSON object, found {describe_json(json)}")
    return json


def string_map_from_json(json: Any) -> dict[str, str]:
    """A JSON value that must be an object whose values are all strings, such as properties.

    >>> string_map_from_json({"a": "1", "b": 2})
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.b: must be a string, found an integer
    """
    for key, value in object_from_json(json).items():
        if not isinstance(value, str):
            raise InvalidMetadata(f"must be a string, found {describe_json(value)}").at(step(key))
    return dict(json)


def record_from_json(kind: type[RecordT], json: Any) -> RecordT:
    """The record that a JSON object describes; unknown keys go to `extra`, and null means absent.

    >>> from floe.spec.metadata.refs import SnapshotRef
    >>> ref = record_from_json(SnapshotRef, {"snapshot-id": 3, "type": "tag", "owner": "ana"})
    >>> ref.snapshot_id, ref.is_tag, ref.extra
    (3, True, {'owner': 'ana'})
    """
    known, extra = {}, {}
    optional = _optional_keys(kind)
    for key, value in object_from_json(json).items():
        if key not in optional:
            extra[key] = value
        elif value is not None or not optional[key]:
            known[key] = value
    for key, part in kind.parts.items():
        if isinstance(items := known.get(key), list):
            known[key] = [_item_from_json(part, item, f".{key}[{n}]") for n, item in enumerate(items)]
    try:
        record = msgspec.convert(known, kind)
    except msgspec.ValidationError as error:
        raise invalid_json(error) from error
    return msgspec.structs.replace(record, extra=extra) if extra else record


def record_to_json(record: Record) -> dict[str, Any]:
    """The JSON object of a record, unknown keys last.

    >>> from floe.spec.metadata.refs import SnapshotRef
    >>> record_to_json(SnapshotRef(snapshot_id=3, type="branch", extra={"owner": "ana"}))
    {'snapshot-id': 3, 'type': 'branch', 'owner': 'ana'}
    """
    plain = record if record.extra is _NO_EXTRA else msgspec.structs.replace(record, extra=_NO_EXTRA)
    built: dict[str, Any] = msgspec.to_builtins(plain)
    out = {key: list(value) if isinstance(value, tuple) else value for key, value in built.items()}
    for key in record.parts:
        if key in out:
            out[key] = [record_to_json(part) for part in getattr(record, key.replace("-", "_"))]
    return out | {key: value for key, value in record.extra.items() if key not in out}


def _item_from_json(kind: type[RecordT], json: Any, step: str) -> RecordT:
    try:
        return record_from_json(kind, json)
    except InvalidMetadata as error:
        raise error.at(step) from None


def _optional_keys(kind: type[Record]) -> dict[str, bool]:
    """The JSON keys of a kind of record, and whether each may be missing."""
    found = _OPTIONAL_KEYS.get(kind)
    if found is None:
        found = _OPTIONAL_KEYS[kind] = {
            field.encode_name: not field.required for field in msgspec.structs.fields(kind) if field.name != "extra"
        }
    return found


_OPTIONAL_KEYS: dict[type[Record], dict[str, bool]] = {}
