"""Reads and writes metadata files: table metadata as JSON (spec: Appendix C, Table Metadata and Snapshots).

The reader first decodes the entire document by its type. If that fails, because of an unknown key or because of an
error, it decodes the document again part by part: that keeps unknown keys, and finds the exact path of an error. Files
of all writers are accepted: what old writers omitted is filled in as the spec says.

The writer is canonical: compact, keys in the order of Java's writer, unknown keys last. Snapshots and log entries that
were read or written before are copied as encoded, so that a commit to a table with many snapshots encodes only the new
one. A summary that nobody reads is not decoded at all; therefore a summary that is not a map of strings, or has a
duplicate key, raises an error only when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from floe.errors import InvalidMetadata, UnsupportedFeature
from floe.spec.json_reader import (
    Limits,
    check_count,
    check_unique_keys,
    decode_json,
    decode_unknown,
    document_text,
    invalid_json,
    read_list,
    step,
)
from floe.spec.json_records import (
    EncodedList,
    Int32,
    Int64,
    Record,
    object_from_json,
    record_from_json,
    record_to_json,
    string_map_from_json,
)
from floe.spec.metadata.metadata_checks import check_for_reading
from floe.spec.metadata.snapshots import (
    MAIN_BRANCH,
    Snapshot,
    SnapshotRef,
    has_undecoded_summary,
    snapshot_from_json,
    snapshot_to_json,
)
from floe.spec.metadata.table_metadata import (
    LATEST_FORMAT_VERSION,
    EncryptionKey,
    MetadataLogEntry,
    PartitionStatisticsFile,
    SnapshotLogEntry,
    StatisticsFile,
    TableMetadata,
)
from floe.spec.partitioning.partition_spec import (
    PARTITION_FIELD_ID_START,
    PartitionSpec,
    fields_from_json,
    fields_to_json,
    spec_from_json,
    spec_to_json,
)
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.sort_order import UNSORTED, SortOrder, order_from_json, order_to_json

_NO_SNAPSHOT: Final = -1
"""The current snapshot id that Java writes for "none" in versions 1 and 2 (spec: Appendix F)."""

_INITIAL_SPEC_ID: Final = 0

_ABSENT: Final = msgspec.Raw(b"null")

T = TypeVar("T")


class _Document(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The type of the document: the keys of all format versions. `Raw` values are decoded by their own modules."""

    format_version: Int32
    table_uuid: str | None = None
    location: str
    last_sequence_number: Int64 | None = None
    last_updated_ms: Int64
    last_column_id: Int32
    schema: msgspec.Raw = _ABSENT
    current_schema_id: Int32 | None = None
    schemas: msgspec.Raw = _ABSENT
    partition_spec: msgspec.Raw = _ABSENT
    default_spec_id: Int32 | None = None
    partition_specs: msgspec.Raw = _ABSENT
    last_partition_id: Int32 | None = None
    default_sort_order_id: Int32 | None = None
    sort_orders: msgspec.Raw = _ABSENT
    properties: dict[str, str] | None = None
    current_snapshot_id: Int64 | None = None
    next_row_id: Int64 | None = None
    encryption_keys: tuple[EncryptionKey, ...] | None = None
    refs: dict[str, SnapshotRef] | None = None
    snapshots: tuple[Snapshot, ...] | None = None
    statistics: tuple[StatisticsFile, ...] | None = None
    partition_statistics: tuple[PartitionStatisticsFile, ...] | None = None
    snapshot_log: tuple[SnapshotLogEntry, ...] | None = None
    metadata_log: tuple[MetadataLogEntry, ...] | None = None


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_RAW_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PARTS: Final = {
    field.encode_name: (field, msgspec.json.Decoder(field.type)) for field in msgspec.structs.fields(_Document)
}

_ITEM_READERS: Final[Mapping[str, Callable[[Any], Record]]] = {
    "snapshots": snapshot_from_json,
    "snapshot-log": partial(record_from_json, SnapshotLogEntry),
    "metadata-log": partial(record_from_json, MetadataLogEntry),
    "statistics": partial(record_from_json, StatisticsFile),
    "partition-statistics": partial(record_from_json, PartitionStatisticsFile),
    "encryption-keys": partial(record_from_json, EncryptionKey),
}
"""The functions that read an item of each list part by part."""

_REQUIRED_SINCE_VERSION_2: Final = (
    "table-uuid",
    "last-sequence-number",
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)

_CURRENT_ID_KEYS: Final = {
    "schemas": "current-schema-id",
    "partition-specs": "default-spec-id",
    "sort-orders": "default-sort-order-id",
}
"""Lists that a version 1 document may have, each with the key that it then requires."""


def parse(data: bytes, *, limits: Limits | None = None) -> TableMetadata:
    """Parse the bytes of a metadata file, plain or gzip, and check the metadata with `check_for_reading`.

    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 1515100955770,
    ...     "last-column-id": 1, "partition-spec": [],
    ...     "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "required": true, "type": "long"}]}}'''
    ... )
    >>> metadata.format_version, metadata.schema.field("x").type, metadata.last_partition_id
    (1, LONG, 999)
    """
    limits = limits or Limits()
    try:
        text = document_text(data, limits)
        document, extra = _read_document(text, limits)
        metadata = _metadata_of(document, extra, text, limits)
    except RecursionError as error:  # the caller's stack is nearly full
        raise invalid_json(error) from error
    check_for_reading(metadata)
    return metadata


def serialize(metadata: TableMetadata) -> bytes:
    """Return the bytes of a metadata file: compact JSON, not compressed.

    >>> from floe.spec.metadata.table_metadata import TableMetadata
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    ...     location="s3://bucket/t",
    ...     last_updated_ms=1602638573590,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> serialize(metadata)[:72]
    b'{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1",'
    >>> parse(serialize(metadata)) == metadata
    True
    """
    return _ENCODER.encode(_json_of(metadata))


def metadata_from_json(value: Any, *, limits: Limits | None = None) -> TableMetadata:
    """Parse metadata from a JSON value, such as a part of a catalog's response.

    >>> metadata_from_json([])
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $: must be a JSON object, found a list
    """
    try:
        data = _ENCODER.encode(value)
    except RecursionError as error:
        raise invalid_json(error) from error
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidMetadata(f"not JSON: {error}") from error
    return parse(data, limits=limits)


def metadata_to_json(metadata: TableMetadata) -> dict[str, Any]:
    """Return the metadata as a JSON value, with the same keys in the same order as `serialize`.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> metadata = TableMetadata(
    ...     format_version=1,
    ...     table_uuid=None,
    ...     location="s3://bucket/t",
    ...     last_updated_ms=1602638573590,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> metadata_to_json(metadata)["schema"]
    {'type': 'struct', 'schema-id': 0, 'fields': []}
    """
    return _UNTYPED_OBJECT.decode(serialize(metadata))


# Decoding the document -------------------------------------------------------------------------------------------


def _read_document(text: bytes, limits: Limits) -> tuple[_Document, dict[str, Any]]:
    """Decode the document; returns it with its unknown top-level keys."""
    extra: dict[str, Any] = {}
    try:
        document = _DOCUMENT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        document, extra = _read_parts(text, limits)
    _check_version(document.format_version)
    if not _is_compact(text):
        _read_summaries(document.snapshots or ())
    return document, extra


def _read_parts(text: bytes, limits: Limits) -> tuple[_Document, dict[str, Any]]:
    """Decode the document part by part: keeps unknown keys, and raises errors with their exact path."""
    raw_parts = decode_json(text, _RAW_PARTS, limits)
    values: dict[str, Any] = {}
    for key, (field, _) in _PARTS.items():
        raw = raw_parts.pop(key, _ABSENT)
        if not _is_null(raw):
            values[field.name] = _read_part(key, raw, limits)
            if key == "format-version":  # checked first: in a later version all other keys may differ
                _check_version(values[field.name])
        elif field.required:
            raise InvalidMetadata("is missing").at(step(key))
    extra = {key: _at(step(key), decode_unknown, raw, limits) for key, raw in raw_parts.items()}
    return _Document(**values), extra


def _read_part(key: str, raw: msgspec.Raw, limits: Limits) -> Any:
    decoder: msgspec.json.Decoder[Any] = _PARTS[key][1]
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:  # decode its items one by one, to keep unknown keys or to find the error
        pass
    if key in _ITEM_READERS:
        return _at(step(key), read_list, raw, _ITEM_READERS[key], limits)
    if key in _MAP_READERS:
        return _at(step(key), _read_value, raw, _MAP_READERS[key], limits)
    return _at(step(key), decode_json, raw, decoder, limits)


def _refs_from_json(json: Any) -> dict[str, SnapshotRef]:
    return {name: _at(step(name), record_from_json, SnapshotRef, ref) for name, ref in object_from_json(json).items()}


_MAP_READERS: Final = {"refs": _refs_from_json, "properties": string_map_from_json}
"""The functions that read each map part by part."""


def _check_keys(text: bytes, document: _Document) -> dict[str, EncodedList]:
    """Raise if an object, other than a summary, has a duplicate key; returns the long lists as they are encoded.

    The snapshots and the snapshot log are nearly all of a large document. If encoding them gives the bytes in the text,
    which is a fast comparison, they have no duplicate keys, and only the remaining text has to be checked. It does not
    matter where in the text these bytes are found, because all other text is checked, including a second list of the
    same name.
    """
    encoded_lists, unchecked, done = dict[str, EncodedList](), list[bytes | memoryview](), 0
    raw_parts: dict[str, msgspec.Raw] = {}
    for key, items in (("snapshots", document.snapshots or ()), ("snapshot-log", document.snapshot_log or ())):
        name = b'"%s":' % key.encode()
        begin = text.find(name, done) + len(name)
        if not items or any(map(_EXTRA, items)) or begin < len(name):
            continue
        written = _ENCODER.encode(items[:1])[:-1]
        if text.startswith(written, begin) and text.startswith(written := _ENCODER.encode(items), begin):
            encoded = memoryview(text)[begin : begin + len(written)]
            encoded_lists[f"{_PARTS[key][0].name}_json"] = EncodedList(items, encoded)
        else:
            raw_parts = raw_parts or _RAW_PARTS.decode(text)
            written = _encode_in_key_order(raw_parts[key])
            if not text.startswith(written, begin):
                continue
        unchecked += (memoryview(text)[done:begin], b"[]")
        done = begin + len(written)
    unchecked.append(memoryview(text)[done:])
    check_unique_keys(b"".join(unchecked))
    return encoded_lists


def _encode_in_key_order(raw: msgspec.Raw) -> bytes:
    """Encode a list of records again, with the key order that its writer used and with unchanged values.

    The order is taken from the first two items, because the first snapshot of a table has no parent. If an item has its
    keys in another order, or a duplicate key, the result differs from the text.
    """
    head = bytes(memoryview(raw)[:_HEAD_BYTES]).decode(errors="replace")
    try:
        keys, end = _KEYS.raw_decode(head, 1)
        if head[end : end + 1] == ",":
            keys = max(keys, _KEYS.raw_decode(head, end + 1)[0], key=len)
    except ValueError:
        return _ENCODER.encode(None)
    return _ENCODER.encode(_layout(tuple(dict.fromkeys(keys))).decode(raw))


@lru_cache(maxsize=16)
def _layout(keys: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """The decoder of a list of objects with keys in a given order; leaves all values raw."""
    fields = [(f"field_{n}", msgspec.Raw, msgspec.field(default=_ABSENT, name=key)) for n, key in enumerate(keys)]
    kind = msgspec.defstruct("Layout", fields, omit_defaults=True, gc=False)
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


_KEYS: Final = json.JSONDecoder(object_pairs_hook=lambda pairs: [key for key, _ in pairs])
_HEAD_BYTES: Final = 64 * 1024
"""How much of a list is searched for its first two items; enough for items of the usual size."""


def _check_version(version: int) -> None:
    if version > LATEST_FORMAT_VERSION:
        raise UnsupportedFeature(
            f"the table has format version {version}; this version of Floe reads 1 to {LATEST_FORMAT_VERSION}",
            hint="a newer Floe may read it",
            path="$.format-version",
        )
    if version < 1:
        raise InvalidMetadata(f"there is no format version {version}").at(".format-version")


def _read_summaries(snapshots: Iterable[Snapshot]) -> None:
    for n, snapshot in enumerate(snapshots):
        _at(f".snapshots[{n}]", getattr, snapshot, "summary")


def _is_compact(text: bytes) -> bool:
    """Whether the document has no insignificant whitespace, so that parts of it can be copied as they are.

    A document with a null summary does not count: Java rejects it, so it must not be copied.
    """
    if any(text.find(blank, 0, len(text) - 1) >= 0 for blank in (b"\n", b"\t", b"\r")):
        return False
    if text.rfind(b'"summary":null') >= 0:  # rfind is much faster than find here
        return False
    start = text[:1000]
    return b'": ' not in start and b', "' not in start


# From the document to metadata -----------------------------------------------------------------------------------


def _metadata_of(document: _Document, extra: dict[str, Any], text: bytes, limits: Limits) -> TableMetadata:
    version = document.format_version
    _check_required(document)
    _check_counts(document, limits)
    schemas, current_schema_id = _schemas_of(document, limits)
    specs, default_spec_id = _specs_of(document, limits)
    orders, default_order_id = _sort_orders_of(document, limits)
    last_partition_id = document.last_partition_id
    if last_partition_id is None:
        last_partition_id = max((spec.last_assigned_field_id for spec in specs), default=PARTITION_FIELD_ID_START - 1)
    current_id = document.current_snapshot_id
    if current_id == _NO_SNAPSHOT:
        current_id = None
    refs = document.refs or {}
    if current_id is not None and MAIN_BRANCH not in refs:  # spec: there is always a main branch
        refs = {MAIN_BRANCH: SnapshotRef(snapshot_id=current_id, type="branch")} | refs
    return TableMetadata(
        format_version=version,
        table_uuid=document.table_uuid,
        location=document.location,
        last_sequence_number=_since(document, 2, "last-sequence-number", extra) or 0,
        last_updated_ms=document.last_updated_ms,
        last_column_id=document.last_column_id,
        schemas=schemas,
        current_schema_id=current_schema_id,
        partition_specs=specs,
        default_spec_id=default_spec_id,
        last_partition_id=last_partition_id,
        sort_orders=orders,
        default_sort_order_id=default_order_id,
        properties=document.properties or {},
        current_snapshot_id=current_id,
        snapshots=document.snapshots or (),
        snapshot_log=document.snapshot_log or (),
        metadata_log=document.metadata_log or (),
        refs=refs,
        statistics=document.statistics or (),
        partition_statistics=document.partition_statistics or (),
        next_row_id=_since(document, 3, "next-row-id", extra),
        encryption_keys=document.encryption_keys or (),
        extra=extra,
        **_check_keys(text, document),  # last: nothing that exceeds the limits reaches it
    )


def _check_required(document: _Document) -> None:
    if document.format_version > 1:
        for key in _REQUIRED_SINCE_VERSION_2:
            if _is_absent(document, key):
                raise InvalidMetadata(f"is missing; format version {document.format_version} needs it").at(step(key))
    if document.format_version > 2 and document.next_row_id is None:
        raise InvalidMetadata(f"is missing; format version {document.format_version} needs it").at(".next-row-id")
    for key, companion in _CURRENT_ID_KEYS.items():
        if not _is_absent(document, key) and _is_absent(document, companion):
            raise InvalidMetadata(f"is missing, while the document has {key}").at(step(companion))


def _check_counts(document: _Document, limits: Limits) -> None:
    for key in (*_ITEM_READERS, "refs", "properties"):
        _at(step(key), check_count, getattr(document, _PARTS[key][0].name) or (), limits)
    for n, snapshot in enumerate(document.snapshots or ()):
        if snapshot.manifests is not None:
            _at(f".snapshots[{n}].manifests", check_count, snapshot.manifests, limits)
    for n, file in enumerate(document.statistics or ()):
        _at(f".statistics[{n}].blob-metadata", check_count, file.blob_metadata, limits)


def _since(document: _Document, version: int, key: str, extra: dict[str, Any]) -> int | None:
    """A number that a format version introduced; in documents of earlier versions it is kept as an unknown key."""
    value: int | None = getattr(document, _PARTS[key][0].name)
    if document.format_version >= version or value is None:
        return value
    extra[key] = value
    return None


def _schemas_of(document: _Document, limits: Limits) -> tuple[tuple[Schema, ...], int]:
    if document.current_schema_id is not None and not _is_null(document.schemas):
        schemas = _at(".schemas", read_list, document.schemas, schema_from_json, limits)
        return schemas, document.current_schema_id
    if _is_null(document.schema):
        raise InvalidMetadata("is missing, and there is no list of schemas either").at(".schema")
    schema = _at(".schema", _read_value, document.schema, schema_from_json, limits)
    return (schema,), schema.schema_id


def _specs_of(document: _Document, limits: Limits) -> tuple[tuple[PartitionSpec, ...], int]:
    if document.default_spec_id is not None and not _is_null(document.partition_specs):
        specs = _at(".partition-specs", read_list, document.partition_specs, spec_from_json, limits)
        return specs, document.default_spec_id
    if _is_null(document.partition_spec):
        raise InvalidMetadata("is missing, and there is no list of partition specs either").at(".partition-spec")
    fields = _at(".partition-spec", _read_value, document.partition_spec, fields_from_json, limits)
    return (PartitionSpec(fields, _INITIAL_SPEC_ID),), _INITIAL_SPEC_ID


def _sort_orders_of(document: _Document, limits: Limits) -> tuple[tuple[SortOrder, ...], int]:
    if document.default_sort_order_id is not None and not _is_null(document.sort_orders):
        orders = _at(".sort-orders", read_list, document.sort_orders, order_from_json, limits)
        return orders, document.default_sort_order_id
    return (UNSORTED,), UNSORTED.order_id


def _read_value(raw: msgspec.Raw, read: Callable[[Any], T], limits: Limits) -> T:
    return read(decode_unknown(raw, limits))


def _is_absent(document: _Document, key: str) -> bool:
    value = getattr(document, _PARTS[key][0].name)
    return value is None or (isinstance(value, msgspec.Raw) and _is_null(value))


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(raw) == b"null"


def _at(step: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function; errors that it raises get the step as a prefix of their path."""
    try:
        return function(*arguments)
    except InvalidMetadata as error:
        raise error.at(step) from None


# Encoding --------------------------------------------------------------------------------------------------------


def _json_of(metadata: TableMetadata) -> dict[str, Any]:
    """The document with its keys in Java's order; records and raw parts are left to the encoder."""
    version = metadata.format_version
    out: dict[str, Any] = {"format-version": version}
    if metadata.table_uuid is not None:
        out["table-uuid"] = metadata.table_uuid
    out["location"] = metadata.location
    if version > 1:
        out["last-sequence-number"] = metadata.last_sequence_number
    out["last-updated-ms"] = metadata.last_updated_ms
    out["last-column-id"] = metadata.last_column_id
    if version == 1:  # old readers know only this key
        out["schema"] = schema_to_json(metadata.schema)
    out["current-schema-id"] = metadata.current_schema_id
    out["schemas"] = [schema_to_json(schema) for schema in metadata.schemas]
    if version == 1:
        out["partition-spec"] = fields_to_json(metadata.spec.fields)
    out["default-spec-id"] = metadata.default_spec_id
    out["partition-specs"] = [spec_to_json(spec) for spec in metadata.partition_specs]
    out["last-partition-id"] = metadata.last_partition_id
    out["default-sort-order-id"] = metadata.default_sort_order_id
    out["sort-orders"] = [order_to_json(order) for order in metadata.sort_orders]
    out["properties"] = dict(metadata.properties)
    no_snapshot = None if version >= 3 else _NO_SNAPSHOT
    out["current-snapshot-id"] = no_snapshot if metadata.current_snapshot_id is None else metadata.current_snapshot_id
    if version >= 3:
        out["next-row-id"] = metadata.next_row_id
    if metadata.encryption_keys:
        out["encryption-keys"] = [record_to_json(key) for key in metadata.encryption_keys]
    out["refs"] = {name: record_to_json(ref) for name, ref in metadata.refs.items()}
    out["snapshots"] = msgspec.Raw(metadata.snapshots_json.encode(metadata.snapshots, _encode_snapshots))
    out["statistics"] = [record_to_json(file) for file in metadata.statistics]
    out["partition-statistics"] = [record_to_json(file) for file in metadata.partition_statistics]
    out["snapshot-log"] = msgspec.Raw(metadata.snapshot_log_json.encode(metadata.snapshot_log, _encode_entries))
    out["metadata-log"] = [record_to_json(entry) if entry.extra else entry for entry in metadata.metadata_log]
    return out | {key: value for key, value in metadata.extra.items() if key not in out}


def _encode_snapshots(snapshots: Sequence[Snapshot]) -> bytes:
    return _ENCODER.encode(
        [
            snapshot if has_undecoded_summary(snapshot) and not snapshot.extra else snapshot_to_json(snapshot)
            for snapshot in snapshots
        ]
    )


def _encode_entries(entries: Sequence[SnapshotLogEntry]) -> bytes:
    return _ENCODER.encode([record_to_json(entry) if entry.extra else entry for entry in entries])


_ENCODER: Final = msgspec.json.Encoder()
_EXTRA: Final = attrgetter("extra")
_UNTYPED_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
