"""The records that metadata JSON consists of: strictly typed, decoded in C, with unknown keys preserved.

A `Record` is a `msgspec.Struct` whose attributes are the JSON keys with `_` for `-`. There are two ways to read one:

* as part of a document, msgspec decodes records directly; an unknown key makes that fail, and the caller falls back to
  the second way;
* `record_from_json` reads one JSON object, keeps unknown keys in `extra`, and reports exactly where a problem is.

Writing follows the order of the attributes, which is the order in which Java writes; attributes at their default are
omitted, as in Java.

`TaggedJson` reads and writes objects of several kinds, distinguished by one key: updates by `action`, requirements by
`type`. Each kind is a list of `JsonField`: which attribute has which JSON key, and how it is read and written. A tag
that this version does not know is `UnsupportedFeature`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, TypeVar

import msgspec

from floe.errors import InvalidInput, InvalidMetadata, UnsupportedFeature
from floe.spec.json_reader import describe_json, invalid_json, step

if TYPE_CHECKING:
    StringMap = Mapping[str, str]
    Extra = Mapping[str, Any]
else:
    StringMap = dict[str, str]  # what msgspec makes; type checkers see a Mapping, so that nobody changes it

    class Extra:
        """A type that no JSON value has: a key named `extra` is an unknown key like any other."""


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A JSON int: integers only, no floats, no strings, and within 32 bits."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A JSON long: integers only, no floats, no strings, and within 64 bits."""


_NO_EXTRA: Final[Mapping[str, Any]] = MappingProxyType({})  # shared: most records have none

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
    gc=False,  # records hold plain JSON, which has no cycles: the garbage collector can skip them
):
    """Base class of records; `extra` holds the keys that this version of Floe does not know."""

    nested_records: ClassVar[Mapping[str, type[Record]]] = {}
    """The JSON keys whose values are lists of records, with the record class of each."""

    extra: Extra = _NO_EXTRA

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), non_default_attributes(self))


class EncodedList:
    """The JSON of a list of records as it was last read or written, so that only new records have to be encoded.

    New metadata inherits it from the metadata that it was made from. If the list still starts with the same records,
    the rest is appended to the known JSON; otherwise all records are encoded again. Threads may share it.

    >>> encoded = EncodedList((1, 2), b"[1,2]")
    >>> encoded.encode((1, 2, 3), msgspec.json.encode)
    b'[1,2,3]'
    >>> encoded.encode((2, 3), msgspec.json.encode)
    b'[2,3]'
    """

    __slots__ = ("_last",)

    def __init__(self, items: tuple[Any, ...] = (), json: bytes | memoryview = b"[]") -> None:
        self._last = (items, json)

    def encode(self, items: tuple[T, ...], encode: Callable[[tuple[T, ...]], bytes]) -> bytes | memoryview:
        """Return the JSON of a list, encoding only the items that follow those encoded last."""
        encoded, json = self._last
        count = len(encoded)
        if not count or items[:count] != encoded:
            json = encode(items)
        elif len(items) > count:
            json = b"".join((memoryview(json)[:-1], b",", memoryview(encode(items[count:]))[1:]))
        self._last = (items, json)
        return json

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodedList, ()  # not pickled: another process encodes the list itself


def non_default_attributes(record: Record) -> dict[str, Any]:
    """Return the attributes of a record that are not at their defaults.

    >>> from floe.spec.metadata.snapshots import SnapshotRef
    >>> non_default_attributes(SnapshotRef(snapshot_id=3, type="tag"))
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
    """Return a JSON value that must be an object.

    >>> object_from_json([])
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: must be a JSON object, found a list
    """
    if not isinstance(json, dict):
        raise InvalidMetadata(f"must be a JSON object, found {describe_json(json)}")
    return json


def string_map_from_json(json: Any) -> dict[str, str]:
    """Return a JSON value that must be an object whose values are all strings, such as properties.

    >>> string_map_from_json({"a": "1", "b": 2})
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.b: must be a string, found an integer
    """
    for key, value in object_from_json(json).items():
        if not isinstance(value, str):
            raise InvalidMetadata(f"must be a string, found {describe_json(value)}").at(step(key))
    return dict(json)


def record_from_json(kind: type[RecordT], json: Any) -> RecordT:
    """Read a record from a JSON object; unknown keys go to `extra`, and null means absent.

    >>> from floe.spec.metadata.snapshots import SnapshotRef
    >>> ref = record_from_json(SnapshotRef, {"snapshot-id": 3, "type": "tag", "owner": "ana"})
    >>> ref.snapshot_id, ref.is_tag, ref.extra
    (3, True, {'owner': 'ana'})
    """
    attributes, extra = {}, {}
    optional = _optional_keys(kind)
    for key, value in object_from_json(json).items():
        if key not in optional:
            extra[key] = value
        elif value is not None or not optional[key]:
            attributes[key] = value
    for key, item_kind in kind.nested_records.items():
        if isinstance(items := attributes.get(key), list):
            attributes[key] = [_item_from_json(item_kind, item, f".{key}[{n}]") for n, item in enumerate(items)]
    try:
        record = msgspec.convert(attributes, kind)
    except msgspec.ValidationError as error:
        raise invalid_json(error) from error
    return msgspec.structs.replace(record, extra=extra) if extra else record


def record_to_json(record: Record) -> dict[str, Any]:
    """Return the JSON object of a record, unknown keys last.

    >>> from floe.spec.metadata.snapshots import SnapshotRef
    >>> record_to_json(SnapshotRef(snapshot_id=3, type="branch", extra={"owner": "ana"}))
    {'snapshot-id': 3, 'type': 'branch', 'owner': 'ana'}
    """
    without_extra = record if record.extra is _NO_EXTRA else msgspec.structs.replace(record, extra=_NO_EXTRA)
    built: dict[str, Any] = msgspec.to_builtins(without_extra)
    json = {key: list(value) if isinstance(value, tuple) else value for key, value in built.items()}
    for key in record.nested_records:
        if key in json:
            json[key] = [record_to_json(item) for item in getattr(record, key.replace("-", "_"))]
    return json | {key: value for key, value in record.extra.items() if key not in json}


def _item_from_json(kind: type[RecordT], json: Any, step: str) -> RecordT:
    try:
        return record_from_json(kind, json)
    except InvalidMetadata as error:
        raise error.at(step) from None


def _optional_keys(kind: type[Record]) -> dict[str, bool]:
    """Map each JSON key of a record class to whether it may be missing."""
    keys = _OPTIONAL_KEYS.get(kind)
    if keys is None:
        keys = _OPTIONAL_KEYS[kind] = {
            field.encode_name: not field.required for field in msgspec.structs.fields(kind) if field.name != "extra"
        }
    return keys


_OPTIONAL_KEYS: dict[type[Record], dict[str, bool]] = {}

# Objects of several kinds, distinguished by a tag ---------------------------------------------------------------------

JsonObject = dict[str, Any]


def typed_reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that reads JSON as a plain type, such as `tuple[int, ...]`.

    >>> typed_reader(tuple[str, ...])(["a", 1])
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $[1]: must be a string, found an integer
    """

    def read(json: Any) -> Any:
        try:
            return msgspec.convert(json, kind)
        except msgspec.ValidationError as error:
            raise invalid_json(error) from error

    return read


read_int32 = typed_reader(Int32)
"""Reads a 32-bit integer."""

read_int64 = typed_reader(Int64)
"""Reads a 64-bit integer."""

read_string = typed_reader(str)
"""Reads a string."""


def _identity(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class JsonField:
    """An attribute of a value and its JSON key."""

    key: str
    attribute: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = _identity
    required: bool = True
    """If false, a missing key or null reads as None, and None is not written."""

    earlier_key: str | None = None
    """The name that older writers used; read when `key` is missing."""


@dataclass(frozen=True, slots=True)
class JsonForm(Generic[T]):
    """One kind of value: its tag, and how its JSON object, without the tag, is read and written."""

    tag: str
    kind: type[T]
    read: Callable[[JsonObject], T]
    write: Callable[[T], JsonObject]


def json_form(tag: str, kind: type[T], *fields: JsonField) -> JsonForm[T]:
    """Return the form of a class whose attributes each have a JSON key."""

    def read(obj: JsonObject) -> T:
        return kind(**{field.attribute: read_field(obj, field) for field in fields})

    def write(value: T) -> JsonObject:
        attributes = ((field, getattr(value, field.attribute)) for field in fields)
        return {field.key: field.write(attribute) for field, attribute in attributes if attribute is not None}

    return JsonForm(tag, kind, read, write)


def read_field(obj: Mapping[str, Any], field: JsonField) -> Any:
    """Read the value of one field of an object; problems are reported with its key."""
    key = field.key
    if key not in obj and field.earlier_key is not None and field.earlier_key in obj:
        key = field.earlier_key
    json = obj.get(key)
    if json is None:
        if field.required:
            raise InvalidMetadata("is missing" if key not in obj else "must not be null").at("." + key)
        return None
    try:
        return field.read(json)
    except InvalidMetadata as error:
        raise error.at("." + key) from None


class TaggedJson:
    """Reads and writes the values of several classes, distinguished by a tag.

    >>> shapes = TaggedJson("shape", "type", [json_form("circle", complex, JsonField("radius", "real", read_int32))])
    >>> shapes.read({"type": "circle", "radius": 2})
    (2+0j)
    >>> shapes.read({"type": "blob"})
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the shape 'blob' is not supported; supported are circle
    """

    def __init__(
        self, label: str, tag_key: str, forms: Iterable[JsonForm[Any]], hints: Mapping[str, str] | None = None
    ):
        self._label = label
        self._tag_key = tag_key
        self._by_tag = {f.tag: f for f in forms}
        self._by_kind = {f.kind: f for f in self._by_tag.values()}
        self._hints = hints or {}

    def read(self, json: Any) -> Any:
        """Read a value from its JSON object."""
        obj = object_from_json(json)
        tag = read_field(obj, JsonField(self._tag_key, self._tag_key, read_string))
        form = self._by_tag.get(tag)
        if form is None:
            raise UnsupportedFeature(
                f"the {self._label} {tag[:80]!r} is not supported",
                hint=self._hints.get(tag, f"supported are {', '.join(self._by_tag)}"),
            )
        return form.read(obj)

    def read_all(self, json: Any) -> tuple[Any, ...]:
        """Read the values of a JSON list, in order."""
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
        """Raise unless the JSON of a value can be read again."""
        try:
            json = self.write(value)
        except (AttributeError, TypeError) as error:
            raise InvalidMetadata(f"cannot be written as JSON: {error}") from error
        self.read(json)

    def write(self, value: Any) -> JsonObject:
        """Return the JSON object of a value."""
        form = self._by_kind.get(type(value))
        if form is None:
            raise InvalidInput(f"not a {self._label}: {value!r:.80}")
        return {self._tag_key: form.tag} | form.write(value)
