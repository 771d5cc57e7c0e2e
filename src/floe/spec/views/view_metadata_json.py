"""View metadata from the bytes of a metadata file, and back (view spec; its Appendix A is an example).

What is read may be hostile: sizes and depths are limited, every problem is an `InvalidMetadata` with the JSON path of
the place, and keys that this version does not know are kept and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from floe.errors import InvalidMetadata, UnsupportedFeature
from floe.spec.json_keys import check_unique_keys
from floe.spec.metadata._tagged_json import Part, int32, int64, plain, read_part, string
from floe.spec.metadata.json_errors import describe_json
from floe.spec.metadata.json_reader import Limits, decode_unknown, document_text
from floe.spec.metadata.records import object_from_json, string_map_from_json
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.views.view_metadata import (
    VIEW_FORMAT_VERSION,
    OtherRepresentation,
    SqlRepresentation,
    ViewHistoryEntry,
    ViewMetadata,
    ViewRepresentation,
    ViewVersion,
    check_view,
)

__all__ = [
    "parse_view",
    "serialize_view",
    "view_from_json",
    "view_to_json",
    "view_version_from_json",
    "view_version_to_json",
]

T = TypeVar("T")


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
    version = read_part(obj, Part("format-version", "format_version", int32))
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
    kind = read_part(obj, Part("type", "type", string))
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


_SQL_PARTS = (Part("sql", "sql", string), Part("dialect", "dialect", string))
_HISTORY_PARTS = (Part("timestamp-ms", "timestamp_ms", int64), Part("version-id", "version_id", int32))
_VERSION_PARTS = (
    Part("version-id", "version_id", int32),
    Part("timestamp-ms", "timestamp_ms", int64),
    Part("schema-id", "schema_id", int32),
    Part("summary", "summary", string_map_from_json, dict),
    Part("default-catalog", "default_catalog", string, required=False),
    Part("default-namespace", "default_namespace", plain(tuple[str, ...]), list),
    Part(
        "representations",
        "representations",
        _list_of(_representation_from_json),
        _write_list(_representation_to_json),
    ),
)
_VIEW_PARTS = (
    Part("view-uuid", "view_uuid", string),
    Part("format-version", "format_version", int32),
    Part("location", "location", string),
    Part("properties", "properties", string_map_from_json, dict, required=False),
    Part("schemas", "schemas", _list_of(schema_from_json), _write_list(schema_to_json)),
    Part("current-version-id", "current_version_id", int32),
    Part("versions", "versions", _list_of(view_version_from_json), _write_list(view_version_to_json)),
    Part("version-log", "version_log", _list_of(_history_entry_from_json), _write_list(_history_entry_to_json)),
)


def _read_parts(obj: Mapping[str, Any], parts: tuple[Part, ...]) -> dict[str, Any]:
    """The attributes that an object holds; what is optional and not there keeps its default."""
    known = {part.key for part in parts}
    read = {part.attribute: read_part(obj, part) for part in parts}
    held = {attribute: value for attribute, value in read.items() if value is not None}
    return held | {"extra": {key: value for key, value in obj.items() if key not in known}}


def _write_parts(value: Any, parts: tuple[Part, ...]) -> dict[str, Any]:
    """The object of a value: what is required always, what is optional if it says something, unknown keys last."""
    held = ((part, getattr(value, part.attribute)) for part in parts)
    written = {part.key: part.write(item) for part, item in held if part.required or item not in (None, {})}
    return written | {key: item for key, item in value.extra.items() if key not in written}
