"""Views as values: versions with their SQL in one or more dialects, and the log of which was current when.

A view has no data; it is a query that engines share (view spec, format version 1). Versions never change: a view is
replaced by adding a version and making it current, which `floe.spec.views.view_updates` does. `extra` keeps the JSON
keys that this version does not know; it takes no part in comparisons.

>>> version = ViewVersion(
...     1,
...     schema_id=0,
...     timestamp_ms=0,
...     default_namespace=("db",),
...     representations=(SqlRepresentation("SELECT 1 AS one", "spark"),),
... )
>>> version.sql("Spark")
'SELECT 1 AS one'

View metadata from the bytes of a metadata file, and back (view spec; its Appendix A is an example).

What is read may be hostile: sizes and depths are limited, every problem is an `InvalidMetadata` with the JSON path of
the place, and keys that this version does not know are kept and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from floe.errors import InvalidMetadata, NotFound, UnsupportedFeature
from floe.spec.json_reader import Limits, check_unique_keys, decode_unknown, describe_json, document_text
from floe.spec.json_records import (
    JsonField,
    object_from_json,
    read_field,
    read_int32,
    read_int64,
    read_string,
    string_map_from_json,
    typed_reader,
)
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json

T = TypeVar("T")

VIEW_FORMAT_VERSION: Final = 1
"""The only version of the view format."""


@dataclass(frozen=True, slots=True)
class SqlRepresentation:
    """The view as a SELECT statement of one dialect."""

    sql: str
    dialect: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OtherRepresentation:
    """The view in a form that this version does not know; `json` is the whole of it."""

    type: str
    json: dict[str, Any] = field(hash=False, repr=False)


ViewRepresentation: TypeAlias = SqlRepresentation | OtherRepresentation
"""One way to say what the view is."""


@dataclass(frozen=True, slots=True)
class ViewVersion:
    """What the view was defined to be at some time; a version never changes.

    Names in the SQL without a catalog are looked for in `default_catalog`, which is the view's own where it is None,
    and bare names in `default_namespace`.
    """

    version_id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[ViewRepresentation, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None
    summary: dict[str, str] = field(default_factory=dict, hash=False)
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def dialects(self) -> tuple[str, ...]:
        """The SQL dialects of the version, in lower case: there is one representation for each."""
        return tuple(r.dialect.lower() for r in self.representations if isinstance(r, SqlRepresentation))

    def sql(self, dialect: str) -> str:
        """The SELECT statement in a dialect, whatever the case of its name.

        >>> ViewVersion(1, 0, 0, (), ()).sql("trino")
        Traceback (most recent call last):
        floe.errors.NotFound: the view has no SQL in dialect 'trino' (view version: 1); ...
        """
        for representation in self.representations:
            if isinstance(representation, SqlRepresentation) and representation.dialect.lower() == dialect.lower():
                return representation.sql
        raise NotFound(
            f"the view has no SQL in dialect {dialect!r}",
            hint=f"it has {', '.join(self.dialects) or 'none'}",
            **{"view version": self.version_id},
        )

    def same_definition(self, other: ViewVersion) -> bool:
        """Whether two versions mean the same, whatever their ids and times, so that one need not be kept beside it."""
        return (
            self.schema_id == other.schema_id
            and self.representations == other.representations
            and self.default_catalog == other.default_catalog
            and self.default_namespace == other.default_namespace
            and self.summary == other.summary
        )


@dataclass(frozen=True, slots=True)
class ViewHistoryEntry:
    """When a version became current; a version that was rolled back to is there again."""

    timestamp_ms: int
    version_id: int
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """The whole state of a view."""

    view_uuid: str
    location: str
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[ViewHistoryEntry, ...]
    schemas: tuple[Schema, ...]
    properties: dict[str, str] = field(default_factory=dict, hash=False)
    format_version: int = VIEW_FORMAT_VERSION
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def current_version(self) -> ViewVersion:
        """The version that readers use."""
        return self.version(self.current_version_id)

    @property
    def schema(self) -> Schema:
        """The schema of the current version."""
        return self.schema_by_id(self.current_version.schema_id)

    def version(self, version_id: int) -> ViewVersion:
        """The version of that id."""
        return _found(version_id, {version.version_id: version for version in self.versions}, "version")

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema of that id."""
        return _found(schema_id, {schema.schema_id: schema for schema in self.schemas}, "schema")


def _found(wanted: int, known: Mapping[int, T], what: str) -> T:
    try:
        return known[wanted]
    except KeyError:
        some = ", ".join(map(str, list(known)[:12])) or "none"
        raise NotFound(f"the view has no {what} {wanted}", hint=f"it has {some}") from None


def check_view(metadata: ViewMetadata) -> None:
    """Raise unless the parts of a view's metadata agree; problems are `InvalidMetadata` with their JSON path.

    >>> check_view(ViewMetadata("c9b7…", "s3://b/v", 1, (), (), ()))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.current-version-id: there is no version 1
    """
    schema_ids = _distinct([schema.schema_id for schema in metadata.schemas], ".schemas", ".schema-id")
    version_ids = _distinct([version.version_id for version in metadata.versions], ".versions", ".version-id")
    if metadata.current_version_id not in version_ids:
        raise InvalidMetadata(f"there is no version {metadata.current_version_id}").at(".current-version-id")
    for n, version in enumerate(metadata.versions):
        if version.schema_id not in schema_ids:
            raise InvalidMetadata(f"there is no schema {version.schema_id}").at(f".versions[{n}]", ".schema-id")
        if repeated := repeated_dialect(version):
            raise InvalidMetadata(f"there are two SQL representations of dialect {repeated!r}").at(
                f".versions[{n}]", ".representations"
            )


def repeated_dialect(version: ViewVersion) -> str | None:
    """The first dialect that has more than one SQL representation (view spec, SQL representation), or None."""
    seen: set[str] = set()
    for dialect in version.dialects:
        if dialect in seen:
            return dialect
        seen.add(dialect)
    return None


def _distinct(ids: list[int], where: str, key: str) -> set[int]:
    seen: set[int] = set()
    for n, item_id in enumerate(ids):
        if item_id in seen:
            raise InvalidMetadata(f"the id {item_id} is used twice").at(f"{where}[{n}]", key)
        seen.add(item_id)
    return seen


# View metadata from the bytes of a metadata file, and back (view spec; its Appendix A is an example).


def parse_view(data: bytes, *, limits: Limits | None = None) -> ViewMetadata:
    """The metadata in a view's metadata file, plain or gzip.

    >>> parse_view(b'{"format-version": 2}')
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: view format version 2 is not supported; supported is 1
    """
    limits = limits or Limits()
    text = document_text(data, limits)
    json = decode_unknown(text, limits)
    check_unique_keys(text)
    return view_from_json(json)


def serialize_view(metadata: ViewMetadata) -> bytes:
    """The bytes of a view's metadata file: compact JSON, keys in the order in which Java writes them.

    >>> serialize_view(ViewMetadata("fa6506c3-7681-40c8-86dc-e36561f83385", "s3://bucket/v", 1, (), (), ()))
    b'{"view-uuid":"fa6506c3-7681-40c8-86dc-e36561f83385","format-version":1,"location":"s3://bucket/v",...}'
    """
    return msgspec.json.encode(view_to_json(metadata))


def view_from_json(json: Any) -> ViewMetadata:
    """The view that a JSON object describes, checked as `check_view` does.

    >>> view_from_json({"format-version": 1, "view-uuid": 7})
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.view-uuid: must be a string, found an integer
    """
    obj = object_from_json(json)
    version = read_field(obj, JsonField("format-version", "format_version", read_int32))
    if version != VIEW_FORMAT_VERSION:
        raise UnsupportedFeature(
            f"view format version {version} is not supported", hint=f"supported is {VIEW_FORMAT_VERSION}"
        )
    metadata = ViewMetadata(**_read_parts(obj, _VIEW_PARTS))
    check_view(metadata)
    return metadata


def view_to_json(metadata: ViewMetadata) -> dict[str, Any]:
    """The JSON object of a view.

    >>> list(view_to_json(ViewMetadata("fa6506c3-7681-40c8-86dc-e36561f83385", "s3://bucket/v", 1, (), (), ())))
    ['view-uuid', 'format-version', 'location', 'schemas', 'current-version-id', 'versions', 'version-log']
    """
    return _write_parts(metadata, _VIEW_PARTS)


def view_version_from_json(json: Any) -> ViewVersion:
    """The version that a JSON object describes.

    >>> view_version_from_json(
    ...     {"version-id": 1, "timestamp-ms": 5, "schema-id": 0, "summary": {}, "representations": []}
    ... )
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.default-namespace: is missing
    """
    return ViewVersion(**_read_parts(object_from_json(json), _VERSION_PARTS))


def view_version_to_json(version: ViewVersion) -> dict[str, Any]:
    """The JSON object of a version.

    >>> view_version_to_json(ViewVersion(1, 0, 5, (), ("db",)))
    {'version-id': 1, 'timestamp-ms': 5, 'schema-id': 0, 'summary': {}, 'default-namespace': ['db'], ...}
    """
    return _write_parts(version, _VERSION_PARTS)


def _representation_from_json(json: Any) -> ViewRepresentation:
    obj = object_from_json(json)
    kind = read_field(obj, JsonField("type", "type", read_string))
    if kind.lower() != "sql":
        return OtherRepresentation(kind, obj)
    return SqlRepresentation(**_read_parts({k: v for k, v in obj.items() if k != "type"}, _SQL_PARTS))


def _representation_to_json(representation: ViewRepresentation) -> dict[str, Any]:
    if isinstance(representation, OtherRepresentation):
        return dict(representation.json)
    return {"type": "sql"} | _write_parts(representation, _SQL_PARTS)


def _history_entry_from_json(json: Any) -> ViewHistoryEntry:
    return ViewHistoryEntry(**_read_parts(object_from_json(json), _HISTORY_PARTS))


def _history_entry_to_json(entry: ViewHistoryEntry) -> dict[str, Any]:
    return _write_parts(entry, _HISTORY_PARTS)


# the parts of each object, in the order in which they are written ---------------------------------------------------


def _list_of(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    def read_list(json: Any) -> tuple[T, ...]:
        if not isinstance(json, list):
            raise InvalidMetadata(f"must be a list, found {describe_json(json)}")
        items = []
        for n, item in enumerate(json):
            try:
                items.append(read(item))
            except InvalidMetadata as error:
                raise error.at(f"[{n}]") from None
        return tuple(items)

    return read_list


def _write_list(write: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda items: [write(item) for item in items]


_SQL_PARTS = (JsonField("sql", "sql", read_string), JsonField("dialect", "dialect", read_string))
_HISTORY_PARTS = (
    JsonField("timestamp-ms", "timestamp_ms", read_int64),
    JsonField("version-id", "version_id", read_int32),
)
_VERSION_PARTS = (
    JsonField("version-id", "version_id", read_int32),
    JsonField("timestamp-ms", "timestamp_ms", read_int64),
    JsonField("schema-id", "schema_id", read_int32),
    JsonField("summary", "summary", string_map_from_json, dict),
    JsonField("default-catalog", "default_catalog", read_string, required=False),
    JsonField("default-namespace", "default_namespace", typed_reader(tuple[str, ...]), list),
    JsonField(
        "representations",
        "representations",
        _list_of(_representation_from_json),
        _write_list(_representation_to_json),
    ),
)
_VIEW_PARTS = (
    JsonField("view-uuid", "view_uuid", read_string),
    JsonField("format-version", "format_version", read_int32),
    JsonField("location", "location", read_string),
    JsonField("properties", "properties", string_map_from_json, dict, required=False),
    JsonField("schemas", "schemas", _list_of(schema_from_json), _write_list(schema_to_json)),
    JsonField("current-version-id", "current_version_id", read_int32),
    JsonField("versions", "versions", _list_of(view_version_from_json), _write_list(view_version_to_json)),
    JsonField("version-log", "version_log", _list_of(_history_entry_from_json), _write_list(_history_entry_to_json)),
)


def _read_parts(obj: Mapping[str, Any], parts: tuple[JsonField, ...]) -> dict[str, Any]:
    """The attributes that an object holds; what is optional and not there keeps its default."""
    known = {part.key for part in parts}
    read = {part.attribute: read_field(obj, part) for part in parts}
    held = {attribute: value for attribute, value in read.items() if value is not None}
    return held | {"extra": {key: value for key, value in obj.items() if key not in known}}


def _write_parts(value: Any, parts: tuple[JsonField, ...]) -> dict[str, Any]:
    """The object of a value: what is required always, what is optional if it says something, unknown keys last."""
    held = ((part, getattr(value, part.attribute)) for part in parts)
    written = {part.key: part.write(item) for part, item in held if part.required or item not in (None, {})}
    return written | {key: item for key, item in value.extra.items() if key not in written}
