"""Table metadata from the bytes of a metadata file, and back (spec: Appendix C, Table Metadata and Snapshots).

Reading tries the whole document at once by its type. If anything is not as the type says, be it a key that this version
does not know or a mistake, the document is read again part by part: that keeps unknown keys, and finds the exact place
of a mistake. Files of every age are read: what old writers left out is filled in as the spec says.

Writing is canonical: compact, keys in the order in which Java writes them, unknown keys last. Snapshots and entries of
the log that were read or written before are carried over as they stand there, so that a commit to a table with many
snapshots encodes only the new one. The summary of a snapshot that nobody looked at is not even decoded; that is also
why a summary that is not a map of strings, or has a key twice, is found when it is first looked at, not before.
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
"""What Java writes for "no current snapshot" in versions 1 and 2 (spec: Appendix F)."""

_INITIAL_SPEC_ID: Final = 0


_ABSENT: Final = msgspec.Raw(b"null")

T = TypeVar("T")


class _Document(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The document as it stands: what each key may hold, in any version. `Raw` parts are read by their own modules."""

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
"""How to read an item of each list with care."""

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

_TOGETHER: Final = {
    "schemas": "current-schema-id",
    "partition-specs": "default-spec-id",
    "sort-orders": "default-sort-order-id",
}
"""Where a version 1 document has the list, it must also say which one of it is current."""


def parse(data: bytes, *, limits: Limits | None = None) -> TableMetadata:
    """The metadata in a metadata file's bytes, plain or gzip, checked as `check_for_reading` does.

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
    except RecursionError as error:  # the caller's own stack is nearly full
        raise invalid_json(error) from error
    check_for_reading(metadata)
    return metadata


def serialize(metadata: TableMetadata) -> bytes:
    """The bytes of a metadata file: compact JSON, not compressed.

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
    """The metadata that a JSON value describes, such as a part of a catalog's answer.

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
    """The metadata as a JSON value, with the same keys in the same order as `serialize` writes.

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


# reading --------------------------------------------------------------------------------------------------------


def _read_document(text: bytes, limits: Limits) -> tuple[_Document, dict[str, Any]]:
    """The document, and the keys of its outermost object that nobody knows."""
    extra: dict[str, Any] = {}
    try:
        document = _DOCUMENT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        document, extra = _read_with_care(text, limits)
    _check_version(document.format_version)
    if not _is_compact(text):
        _read_summaries(document.snapshots or ())
    return document, extra


def _read_with_care(text: bytes, limits: Limits) -> tuple[_Document, dict[str, Any]]:
    """Part by part: unknown keys are kept, and a mistake is found where it is."""
    raw_parts = decode_json(text, _RAW_PARTS, limits)
    values: dict[str, Any] = {}
    for key, (field, _) in _PARTS.items():
        raw = raw_parts.pop(key, _ABSENT)
        if not _is_null(raw):
            values[field.name] = _read_part(key, raw, limits)
            if key == "format-version":  # the first key: a later version may differ in all the others
                _check_version(values[field.name])
        elif field.required:
            raise InvalidMetadata("is missing").at(step(key))
    extra = {key: _at(step(key), decode_unknown, raw, limits) for key, raw in raw_parts.items()}
    return _Document(**values), extra


def _read_part(key: str, raw: msgspec.Raw, limits: Limits) -> Any:
    decoder: msgspec.json.Decoder[Any] = _PARTS[key][1]
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:  # go on with more care
        pass
    if key in _ITEM_READERS:
        return _at(step(key), read_list, raw, _ITEM_READERS[key], limits)
    if key in _MAP_READERS:
        return _at(step(key), _read_one, raw, _MAP_READERS[key], limits)
    return _at(step(key), decode_json, raw, decoder, limits)


def _refs_from_json(json: Any) -> dict[str, SnapshotRef]:
    return {name: _at(step(name), record_from_json, SnapshotRef, ref) for name, ref in object_from_json(json).items()}


_MAP_READERS: Final = {"refs": _refs_from_json, "properties": string_map_from_json}
"""How to read each map with care."""


def _check_keys(text: bytes, document: _Document) -> dict[str, EncodedList]:
    """Raise if a key stands twice in any object but a summary; gives the long lists as they stand in the text.

    The snapshots and their log are nearly all of a large document. Where they stand there just as they are written,
    which is compared in no time, no key of theirs stands twice, and what is left to look at is short. It does not
    matter where such bytes are found: all the rest is looked at, a second list of the same name too.
    """
    found, rest, done = dict[str, EncodedList](), list[bytes | memoryview](), 0
    raw_parts: dict[str, msgspec.Raw] = {}
    for key, items in (("snapshots", document.snapshots or ()), ("snapshot-log", document.snapshot_log or ())):
        name = b'"%s":' % key.encode()
        begin = text.find(name, done) + len(name)
        if not items or any(map(_EXTRA, items)) or begin < len(name):
            continue
        written = _ENCODER.encode(items[:1])[:-1]
        if text.startswith(written, begin) and text.startswith(written := _ENCODER.encode(items), begin):
            found[f"{_PARTS[key][0].name}_json"] = EncodedList(items, memoryview(text)[begin : begin + len(written)])
        else:
            raw_parts = raw_parts or _RAW_PARTS.decode(text)
            written = _in_its_own_order(raw_parts[key])
            if not text.startswith(written, begin):
                continue
        rest += (memoryview(text)[done:begin], b"[]")
        done = begin + len(written)
    rest.append(memoryview(text)[done:])
    check_unique_keys(b"".join(rest))
    return found


def _in_its_own_order(raw: msgspec.Raw) -> bytes:
    """A list of records, each with its keys in the order in which others wrote them, and its values as they stand.

    The order is that of the first two items: a table's first snapshot has no parent. Where an item has its keys in
    another order, or one twice, this is not what stands in the text.
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
    """How to read a list of objects whose keys stand in an order, with all values left as they are."""
    fields = [(f"field_{n}", msgspec.Raw, msgspec.field(default=_ABSENT, name=key)) for n, key in enumerate(keys)]
    kind = msgspec.defstruct("Layout", fields, omit_defaults=True, gc=False)
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


_KEYS: Final = json.JSONDecoder(object_pairs_hook=lambda pairs: [key for key, _ in pairs])
_HEAD_BYTES: Final = 64 * 1024
"""In so much of a list its first two items stand, if they are of the usual size."""


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
    """Whether the document has no layout, so that parts of it can be carried over as they are.

    A summary of null is never written: Java refuses it.
    """
    if any(text.find(blank, 0, len(text) - 1) >= 0 for blank in (b"\n", b"\t", b"\r")):
        return False
    if text.rfind(b'"summary":null') >= 0:  # from its end, for that is much faster
        return False
    start = text[:1000]
    return b'": ' not in start and b', "' not in start


# from a document to the metadata --------------------------------------------------------------------------------


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
        **_check_keys(text, document),  # last: by now nothing in it is too large or too deep
    )


def _check_required(document: _Document) -> None:
    if document.format_version > 1:
        for key in _REQUIRED_SINCE_VERSION_2:
            if _is_absent(document, key):
                raise InvalidMetadata(f"is missing; format version {document.format_version} needs it").at(step(key))
    if document.format_version > 2 and document.next_row_id is None:
        raise InvalidMetadata(f"is missing; format version {document.format_version} needs it").at(".next-row-id")
    for key, companion in _TOGETHER.items():
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
    """A number that came with a version; in earlier ones it means nothing, and is kept like an unknown key."""
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
    schema = _at(".schema", _read_one, document.schema, schema_from_json, limits)
    return (schema,), schema.schema_id


def _specs_of(document: _Document, limits: Limits) -> tuple[tuple[PartitionSpec, ...], int]:
    if document.default_spec_id is not None and not _is_null(document.partition_specs):
        specs = _at(".partition-specs", read_list, document.partition_specs, spec_from_json, limits)
        return specs, document.default_spec_id
    if _is_null(document.partition_spec):
        raise InvalidMetadata("is missing, and there is no list of partition specs either").at(".partition-spec")
    fields = _at(".partition-spec", _read_one, document.partition_spec, fields_from_json, limits)
    return (PartitionSpec(fields, _INITIAL_SPEC_ID),), _INITIAL_SPEC_ID


def _sort_orders_of(document: _Document, limits: Limits) -> tuple[tuple[SortOrder, ...], int]:
    if document.default_sort_order_id is not None and not _is_null(document.sort_orders):
        orders = _at(".sort-orders", read_list, document.sort_orders, order_from_json, limits)
        return orders, document.default_sort_order_id
    return (UNSORTED,), UNSORTED.order_id


def _read_one(raw: msgspec.Raw, read: Callable[[Any], T], limits: Limits) -> T:
    return read(decode_unknown(raw, limits))


def _is_absent(document: _Document, key: str) -> bool:
    value = getattr(document, _PARTS[key][0].name)
    return value is None or (isinstance(value, msgspec.Raw) and _is_null(value))


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(raw) == b"null"


def _at(step: str, function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns; the problems that it finds lie below the step."""
    try:
        return function(*arguments)
    except InvalidMetadata as error:
        raise error.at(step) from None


# writing --------------------------------------------------------------------------------------------------------


def _json_of(metadata: TableMetadata) -> dict[str, Any]:
    """The document in the order in which Java writes it, with records and raw parts left to the encoder."""
    version = metadata.format_version
    out: dict[str, Any] = {"format-version": version}
    if metadata.table_uuid is not None:
        out["table-uuid"] = metadata.table_uuid
    out["location"] = metadata.location
    if version > 1:
        out["last-sequence-number"] = metadata.last_sequence_number
    out["last-updated-ms"] = metadata.last_updated_ms
    out["last-column-id"] = metadata.last_column_id
    if version == 1:  # readers of that time know only this one
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
