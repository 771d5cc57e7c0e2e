"""Views as values and as JSON: versions with SQL in one or more dialects, and the log of current versions.

A view is a stored query that engines share (view spec, format version 1). Versions never change: a view is replaced by
adding a version and making it the current one (`floe.spec.views.view_updates`). `extra` has the JSON keys that this
version of Floe does not know; they are written again, and ignored by comparisons.

Files may be damaged or malicious: sizes and nesting are limited, and every problem is an `InvalidMetadata` with its
JSON path.

>>> version = ViewVersion(
...     1,
...     schema_id=0,
...     timestamp_ms=0,
...     default_namespace=("db",),
...     representations=(SqlRepresentation("SELECT 1 AS one", "spark"),),
... )
>>> version.sql("Spark")
'SELECT 1 AS one'
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
    """The query of a view as a SELECT statement of one SQL dialect."""

    sql: str
    dialect: str
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class OtherRepresentation:
    """A representation of a type that this version of Floe does not know; `json` is the entire JSON object."""

    type: str
    json: dict[str, Any] = field(hash=False, repr=False)


ViewRepresentation: TypeAlias = SqlRepresentation | OtherRepresentation
"""A representation of a view's query."""


@dataclass(frozen=True, slots=True)
class ViewVersion:
    """A definition of a view; it never changes.

    Table names in the SQL without a catalog are resolved in `default_catalog` (the catalog of the view if it is None),
    and those without a namespace in `default_namespace`.
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
        """The SQL dialects of the version, in lower case; there is one representation for each."""
        return tuple(r.dialect.lower() for r in self.representations if isinstance(r, SqlRepresentation))

    def sql(self, dialect: str) -> str:
        """Return the SELECT statement in a dialect, ignoring case; `NotFound` if there is none.

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
        """Whether two versions have the same definition, apart from their ids and timestamps."""
        return (
            self.schema_id == other.schema_id
            and self.representations == other.representations
            and self.default_catalog == other.default_catalog
            and self.default_namespace == other.default_namespace
            and self.summary == other.summary
        )


@dataclass(frozen=True, slots=True)
class ViewHistoryEntry:
    """An entry of the version log: when a version became current; a rollback adds an entry, too."""

    timestamp_ms: int
    version_id: int
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """The content of a view's metadata file."""

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
        """Return the version with an id; `NotFound` if there is none."""
        return _look_up(version_id, {version.version_id: version for version in self.versions}, "version")

    def schema_by_id(self, schema_id: int) -> Schema:
        """Return the schema with an id; `NotFound` if there is none."""
        return _look_up(schema_id, {schema.schema_id: schema for schema in self.schemas}, "schema")


def _look_up(id_: int, by_id: Mapping[int, T], kind: str) -> T:
    try:
        return by_id[id_]
    except KeyError:
        ids = ", ".join(map(str, list(by_id)[:12])) or "none"
        raise NotFound(f"the view has no {kind} {id_}", hint=f"it has {ids}") from None


def check_view(metadata: ViewMetadata) -> None:
    """Raise `InvalidMetadata` with a JSON path if the parts of a view's metadata contradict each other.

    >>> check_view(ViewMetadata("c9b7…", "s3://b/v", 1, (), (), ()))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.current-version-id: there is no version 1
    """
    schema_ids = _unique_ids([schema.schema_id for schema in metadata.schemas], ".schemas", ".schema-id")
    version_ids = _unique_ids([version.version_id for version in metadata.versions], ".versions", ".version-id")
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
    dialects: set[str] = set()
    for dialect in version.dialects:
        if dialect in dialects:
            return dialect
        dialects.add(dialect)
    return None


def _unique_ids(ids: list[int], list_path: str, key: str) -> set[int]:
    unique: set[int] = set()
    for n, item_id in enumerate(ids):
        if item_id in unique:
            raise InvalidMetadata(f"the id {item_id} is used twice").at(f"{list_path}[{n}]", key)
        unique.add(item_id)
    return unique


# JSON ------------------------------------------------------------------------------------------------------------


def parse_view(data: bytes, *, limits: Limits | None = None) -> ViewMetadata:
    """Parse the bytes of a view's metadata file, plain or gzip.

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
    """Return the bytes of a view's metadata file: compact JSON with keys in Java's order.

    >>> serialize_view(ViewMetadata("fa6506c3-7681-40c8-86dc-e36561f83385", "s3://bucket/v", 1, (), (), ()))
    b'{"view-uuid":"fa6506c3-7681-40c8-86dc-e36561f83385","format-version":1,"location":"s3://bucket/v",...}'
    """
    return msgspec.json.encode(view_to_json(metadata))


def view_from_json(json: Any) -> ViewMetadata:
    """Parse a view from a JSON object, and check it with `check_view`.

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
    metadata = ViewMetadata(**_read_fields(obj, _VIEW_FIELDS))
    check_view(metadata)
    return metadata


def view_to_json(metadata: ViewMetadata) -> dict[str, Any]:
    """Return a view as a JSON object.

    >>> list(view_to_json(ViewMetadata("fa6506c3-7681-40c8-86dc-e36561f83385", "s3://bucket/v", 1, (), (), ())))
    ['view-uuid', 'format-version', 'location', 'schemas', 'current-version-id', 'versions', 'version-log']
    """
    return _write_fields(metadata, _VIEW_FIELDS)


def view_version_from_json(json: Any) -> ViewVersion:
    """Parse a view version from a JSON object.

    >>> view_version_from_json(
    ...     {"version-id": 1, "timestamp-ms": 5, "schema-id": 0, "summary": {}, "representations": []}
    ... )
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.default-namespace: is missing
    """
    return ViewVersion(**_read_fields(object_from_json(json), _VERSION_FIELDS))


def view_version_to_json(version: ViewVersion) -> dict[str, Any]:
    """Return a view version as a JSON object.

    >>> view_version_to_json(ViewVersion(1, 0, 5, (), ("db",)))
    {'version-id': 1, 'timestamp-ms': 5, 'schema-id': 0, 'summary': {}, 'default-namespace': ['db'], ...}
    """
    return _write_fields(version, _VERSION_FIELDS)


def _representation_from_json(json: Any) -> ViewRepresentation:
    obj = object_from_json(json)
    kind = read_field(obj, JsonField("type", "type", read_string))
    if kind.lower() != "sql":
        return OtherRepresentation(kind, obj)
    return SqlRepresentation(**_read_fields({k: v for k, v in obj.items() if k != "type"}, _SQL_FIELDS))


def _representation_to_json(representation: ViewRepresentation) -> dict[str, Any]:
    if isinstance(representation, OtherRepresentation):
        return dict(representation.json)
    return {"type": "sql"} | _write_fields(representation, _SQL_FIELDS)


def _history_entry_from_json(json: Any) -> ViewHistoryEntry:
    return ViewHistoryEntry(**_read_fields(object_from_json(json), _HISTORY_FIELDS))


def _history_entry_to_json(entry: ViewHistoryEntry) -> dict[str, Any]:
    return _write_fields(entry, _HISTORY_FIELDS)


# Fields of each JSON object, in the order in which they are written ----------------------------------------------


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


_SQL_FIELDS = (JsonField("sql", "sql", read_string), JsonField("dialect", "dialect", read_string))
_HISTORY_FIELDS = (
    JsonField("timestamp-ms", "timestamp_ms", read_int64),
    JsonField("version-id", "version_id", read_int32),
)
_VERSION_FIELDS = (
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
_VIEW_FIELDS = (
    JsonField("view-uuid", "view_uuid", read_string),
    JsonField("format-version", "format_version", read_int32),
    JsonField("location", "location", read_string),
    JsonField("properties", "properties", string_map_from_json, dict, required=False),
    JsonField("schemas", "schemas", _list_of(schema_from_json), _write_list(schema_to_json)),
    JsonField("current-version-id", "current_version_id", read_int32),
    JsonField("versions", "versions", _list_of(view_version_from_json), _write_list(view_version_to_json)),
    JsonField("version-log", "version_log", _list_of(_history_entry_from_json), _write_list(_history_entry_to_json)),
)


def _read_fields(obj: Mapping[str, Any], fields: tuple[JsonField, ...]) -> dict[str, Any]:
    """The attributes of a JSON object, with unknown keys as `extra`; optional ones that are absent are omitted."""
    keys = {field.key for field in fields}
    attributes = {field.attribute: read_field(obj, field) for field in fields}
    present = {attribute: value for attribute, value in attributes.items() if value is not None}
    return present | {"extra": {key: value for key, value in obj.items() if key not in keys}}


def _write_fields(value: Any, fields: tuple[JsonField, ...]) -> dict[str, Any]:
    """The JSON object of a value: required fields, optional ones that are not empty, then unknown keys."""
    attributes = ((field, getattr(value, field.attribute)) for field in fields)
    written = {field.key: field.write(item) for field, item in attributes if field.required or item not in (None, {})}
    return written | {key: item for key, item in value.extra.items() if key not in written}
