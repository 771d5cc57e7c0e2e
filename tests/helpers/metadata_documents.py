"""Small metadata documents as JSON values, for tests to change and parse."""

import json
from typing import Any

from floe.spec.json_reader import Limits
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
FIELDS = [
    {"id": 1, "name": "x", "required": True, "type": "long"},
    {"id": 2, "name": "y", "required": True, "type": "long", "doc": "comment"},
]
SPEC_FIELD = {"name": "x", "transform": "identity", "source-id": 1, "field-id": 1000}
NOW = 1602638573590
LIST = "s3://bucket/t/metadata/snap.avro"


def v1_document(**changes: Any) -> dict[str, Any]:
    """The least that a version 1 document has: only what the spec requires of that version."""
    document = {
        "format-version": 1,
        "location": "s3://bucket/t",
        "last-updated-ms": NOW,
        "last-column-id": 2,
        "schema": {"type": "struct", "fields": FIELDS},
        "partition-spec": [{"name": "x", "transform": "identity", "source-id": 1}],
    }
    return with_changes(document, changes)


def v2_document(**changes: Any) -> dict[str, Any]:
    """The least that a version 2 document has."""
    document = {
        "format-version": 2,
        "table-uuid": UUID,
        "location": "s3://bucket/t",
        "last-sequence-number": 34,
        "last-updated-ms": NOW,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [SPEC_FIELD]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
    }
    return with_changes(document, changes)


def v3_document(**changes: Any) -> dict[str, Any]:
    """The least that a version 3 document has."""
    return with_changes(v2_document(format_version=3, next_row_id=0), changes)


DOCUMENTS = {1: v1_document, 2: v2_document, 3: v3_document}


def with_changes(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The document with keys (`_` for `-`) set, or removed where the value is `...`."""
    out = dict(document)
    for name, value in changes.items():
        key = name.replace("_", "-")
        if value is ...:
            out.pop(key, None)
        else:
            out[key] = value
    return out


def snapshot(number: int, /, **changes: Any) -> dict[str, Any]:
    """The JSON of a snapshot."""
    base = {
        "sequence-number": number,
        "snapshot-id": number,
        "timestamp-ms": NOW - 1000 + number,
        "summary": {"operation": "append"},
        "manifest-list": LIST,
        "schema-id": 0,
    }
    return with_changes(base, changes)


def history(*pairs: tuple[int, int | None]) -> list[dict[str, Any]]:
    """Snapshots as pairs of id and parent id."""
    return [snapshot(i, **({} if parent is None else {"parent_snapshot_id": parent})) for i, parent in pairs]


def read(document: Any, limits: Limits | None = None) -> TableMetadata:
    """The metadata of a document given as a JSON value."""
    return parse(json.dumps(document, separators=(",", ":")).encode(), limits=limits)
