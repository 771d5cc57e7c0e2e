"""Table metadata as a value: schemas, partition specs, sort orders, snapshots, refs, logs (spec: Table Metadata).

`TableMetadata` is immutable; `floe.spec.metadata.metadata_builder` applies updates to it and returns a new value.
`floe.spec.metadata.table_metadata_json` reads and writes it as JSON, and `floe.spec.metadata.metadata_checks` has the
rules between its parts.

The module also has the records in it: entries of the snapshot log and the metadata log, encryption keys, statistics
files; and the UUIDs that identify tables and views. Snapshots and refs are in `floe.spec.metadata.snapshots`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec

from floe.errors import InvalidMetadata, InvalidUpdate, NoSuchRef, NoSuchSnapshot, NoSuchTable, NoSuchView
from floe.spec.json_records import EncodedList, Int32, Int64, Record, StringMap
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef, check_snapshot_id
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED, SortOrder
from floe.spec.values.civil_time import millis_to_text

# Snapshot log and metadata log -----------------------------------------------------------------------------------


class SnapshotLogEntry(Record, frozen=True, kw_only=True):
    """An entry of the snapshot log: from this timestamp on, the snapshot was the table's current one.

    >>> SnapshotLogEntry(timestamp_ms=1515100955770, snapshot_id=1).snapshot_id
    1
    """

    timestamp_ms: Int64
    snapshot_id: Int64


class MetadataLogEntry(Record, frozen=True, kw_only=True):
    """An entry of the metadata log: an earlier metadata file, and the table's last update in it.

    >>> MetadataLogEntry(
    ...     timestamp_ms=1515100955770, metadata_file="s3://bucket/t/metadata/v1.metadata.json"
    ... ).timestamp_ms
    1515100955770
    """

    timestamp_ms: Int64
    metadata_file: str


# Encryption keys -------------------------------------------------------------------------------------------------


class EncryptionKey(Record, frozen=True, kw_only=True):
    r"""An encrypted key that snapshots refer to by `key_id`.

    >>> EncryptionKey(key_id="5f819b", encrypted_key_metadata="aWNlYmVyZwo=").key_metadata
    b'iceberg\n'
    """

    key_id: str
    encrypted_key_metadata: str
    """The encrypted key and its metadata in base64; the table's encryption scheme defines their content."""

    encrypted_by_id: str | None = None
    """The id of the key that encrypts this one."""

    properties: StringMap = msgspec.field(default_factory=dict)

    @property
    def key_metadata(self) -> bytes:
        """The encrypted key metadata as bytes; `InvalidMetadata` if it is not base64."""
        try:
            return base64.b64decode(self.encrypted_key_metadata, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidMetadata(f"not base64: {error}", path=".encrypted-key-metadata", key=self.key_id) from error


# Statistics files ------------------------------------------------------------------------------------------------


class BlobMetadata(Record, frozen=True, kw_only=True):
    """A blob of a statistics file: its type, its columns, and the snapshot that it was computed from.

    >>> BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=3, sequence_number=2, fields=(1,)).properties
    {}
    """

    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: tuple[Int32, ...]
    """The ids of the fields that the blob was computed from, in order."""

    properties: StringMap = msgspec.field(default_factory=dict)


class StatisticsFile(Record, frozen=True, kw_only=True):
    """A Puffin file with statistics of a snapshot; readers may ignore it.

    >>> StatisticsFile(
    ...     snapshot_id=3,
    ...     statistics_path="s3://bucket/t/metadata/3.stats",
    ...     file_size_in_bytes=413,
    ...     file_footer_size_in_bytes=42,
    ...     blob_metadata=(),
    ... ).snapshot_id
    3
    """

    nested_records: ClassVar[Mapping[str, type[Record]]] = {"blob-metadata": BlobMetadata}

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64
    file_footer_size_in_bytes: Int64
    """The size of the whole footer of the Puffin file, not of the payload in it."""

    key_metadata: str | None = None
    """The key metadata in base64, if the file is encrypted."""

    blob_metadata: tuple[BlobMetadata, ...]


class PartitionStatisticsFile(Record, frozen=True, kw_only=True):
    """A file with one row of counts for each partition, as of a snapshot.

    >>> PartitionStatisticsFile(
    ...     snapshot_id=3, statistics_path="s3://bucket/t/metadata/p.parquet", file_size_in_bytes=99
    ... ).snapshot_id
    3
    """

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: Int64


# Table metadata --------------------------------------------------------------------------------------------------

LATEST_FORMAT_VERSION: Final = 3
"""The newest version of the format that Floe reads and writes."""

_LISTED_SNAPSHOTS: Final = 5
"""How many snapshots an error message lists."""


@dataclass(frozen=True, kw_only=True)
class TableMetadata:
    """The content of a table's metadata file.

    >>> from floe.spec.types import Field, LONG
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    ...     location="s3://bucket/t",
    ...     last_updated_ms=1602638573590,
    ...     last_column_id=1,
    ...     schemas=(Schema((Field(1, "x", LONG),)),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> metadata.schema.field("x").type, metadata.spec.is_unpartitioned, metadata.current_snapshot
    (LONG, True, None)
    """

    format_version: int
    table_uuid: str | None
    """None only in tables of format version 1 that old writers created."""

    location: str
    last_sequence_number: int = 0
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int = 0
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int = 0
    last_partition_id: int = 999
    sort_orders: tuple[SortOrder, ...] = (UNSORTED,)
    default_sort_order_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    """Branches and tags by name; includes `main` whenever there is a current snapshot."""

    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    """Format version 3: the first row id that is not assigned yet. None in earlier versions."""

    encryption_keys: tuple[EncryptionKey, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The keys of the document that this version of Floe does not know; they are written again."""

    snapshots_json: EncodedList = field(default_factory=EncodedList, repr=False, compare=False)
    snapshot_log_json: EncodedList = field(default_factory=EncodedList, repr=False, compare=False)
    """The JSON of these two lists as it was read or written last: they may be very long, and most of it is reused."""

    # Current and default values -----------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        """The table's current schema."""
        return self.schema_by_id(self.current_schema_id)

    @cached_property
    def spec(self) -> PartitionSpec:
        """The default partition spec, which writers use."""
        return self.spec_by_id(self.default_spec_id)

    @cached_property
    def sort_order(self) -> SortOrder:
        """The default sort order, which writers use."""
        return self.sort_order_by_id(self.default_sort_order_id)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that readers see by default; None if the table is empty."""
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    @property
    def next_sequence_number(self) -> int:
        """The sequence number of the next snapshot; always 0 in format version 1."""
        return self.last_sequence_number + 1 if self.format_version > 1 else 0

    # Lookup by id or name -----------------------------------------------------------------------------------------

    @cached_property
    def schemas_by_id(self) -> Mapping[int, Schema]:
        """The schemas by their ids."""
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def specs_by_id(self) -> Mapping[int, PartitionSpec]:
        """The partition specs by their ids."""
        return {spec.spec_id: spec for spec in self.partition_specs}

    @cached_property
    def sort_orders_by_id(self) -> Mapping[int, SortOrder]:
        """The sort orders by their ids; always includes 0, unsorted."""
        return {UNSORTED.order_id: UNSORTED} | {order.order_id: order for order in self.sort_orders}

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        """The snapshots by their ids."""
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    def schema_by_id(self, schema_id: int) -> Schema:
        """Return the schema with an id; `InvalidMetadata` if there is none."""
        try:
            return self.schemas_by_id[schema_id]
        except KeyError:
            raise InvalidMetadata(f"the table has no schema with id {schema_id}", path=".schemas") from None

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """Return the partition spec with an id; `InvalidMetadata` if there is none."""
        try:
            return self.specs_by_id[spec_id]
        except KeyError:
            raise InvalidMetadata(
                f"the table has no partition spec with id {spec_id}", path=".partition-specs"
            ) from None

    def sort_order_by_id(self, order_id: int) -> SortOrder:
        """Return the sort order with an id; `InvalidMetadata` if there is none."""
        try:
            return self.sort_orders_by_id[order_id]
        except KeyError:
            raise InvalidMetadata(f"the table has no sort order with id {order_id}", path=".sort-orders") from None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot with an id; `NoSuchSnapshot` if there is none."""
        try:
            return self.snapshots_by_id[snapshot_id]
        except KeyError:
            check_snapshot_id(snapshot_id)
            raise NoSuchSnapshot(
                f"the table has no snapshot {snapshot_id}",
                hint=self._newest_snapshots() if self.snapshots else "the table has no snapshots at all",
            ) from None

    def _newest_snapshots(self) -> str:
        """The hint of the error for a snapshot that is not there."""
        by_time = sorted(self.snapshots, key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
        newest = by_time[:_LISTED_SNAPSHOTS]
        listed = ", ".join(f"{s.snapshot_id} ({millis_to_text(s.timestamp_ms)})" for s in newest)
        older = len(self.snapshots) - len(newest)
        return f"it may have expired; there are {listed}{f' and {older} older' if older else ''}"

    def ref(self, name: str) -> SnapshotRef:
        """Return the branch or tag with a name; `NoSuchRef` if there is none."""
        try:
            return self.refs[name]
        except KeyError:
            hint = f"there are {', '.join(sorted(self.refs)[:12])}" if self.refs else "the table has no snapshots yet"
            raise NoSuchRef(f"the table has no branch or tag named {name!r}", hint=hint) from None

    def snapshot_of_ref(self, name: str = MAIN_BRANCH) -> Snapshot:
        """Return the snapshot that a branch or tag points at."""
        return self.snapshot(self.ref(name).snapshot_id)

    # Time travel --------------------------------------------------------------------------------------------------

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """Return the snapshot that was current at a timestamp (spec: Point in Time Reads).

        The snapshot log is used, not the parents of snapshots, because it records rollbacks. Of two entries with the
        same timestamp the later one counts. `NoSuchSnapshot` is raised if the log begins after the timestamp.
        """
        latest: SnapshotLogEntry | None = None
        for entry in self.snapshot_log:
            if entry.timestamp_ms <= timestamp_ms and (latest is None or entry.timestamp_ms >= latest.timestamp_ms):
                latest = entry
        if latest is None:
            first = min((entry.timestamp_ms for entry in self.snapshot_log), default=None)
            raise NoSuchSnapshot(
                f"no snapshot was current at {millis_to_text(timestamp_ms)}",
                hint="the snapshot log is empty"
                if first is None
                else f"the snapshot log begins at {millis_to_text(first)}",
            )
        return self.snapshot(latest.snapshot_id)

    def schema_for(self, snapshot: Snapshot) -> Schema:
        """Return the schema of a snapshot; the current one if the snapshot has no schema id."""
        return self.schema if snapshot.schema_id is None else self.schema_by_id(snapshot.schema_id)


# UUIDs of tables and views ---------------------------------------------------------------------------------------

UUID_PATTERN: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
"""A regular expression for UUIDs, without groups."""

_UUID: Final = re.compile(UUID_PATTERN)


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual form, of any version.

    >>> is_uuid("9c12d441-03fe-4693-9a96-a0705ddf69c1"), is_uuid("9c12d44103fe46939a96a0705ddf69c1")
    (True, False)
    """
    return _UUID.fullmatch(text) is not None


def check_uuid(text: str) -> None:
    """Raise `InvalidUpdate` unless a text is a UUID.

    >>> check_uuid("mine")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: 'mine' is not a uuid
    """
    if not is_uuid(text):
        raise InvalidUpdate(f"{text[:80]!r} is not a uuid")


def is_same_uuid(expected: str | None, actual: str | None) -> bool:
    """Whether a table or view that was loaded with UUID `expected`, and now has UUID `actual`, is still the same one.

    A table of format version 1 may have no UUID and get its first one later; no table ever loses its UUID.

    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> is_same_uuid(uuid, uuid.upper()), is_same_uuid(None, uuid), is_same_uuid(uuid, None)
    (True, True, False)
    """
    return expected is None or (actual is not None and actual.lower() == expected.lower())


def check_same_table(expected: str | None, actual: str | None, table: str) -> None:
    """Raise `NoSuchTable` unless the table has the UUID that it had when it was loaded (spec: `table-uuid`).

    >>> check_same_table("9c12d441-03fe-4693-9a96-a0705ddf69c1", "11111111-03fe-4693-9a96-a0705ddf69c1", "db.t")
    Traceback (most recent call last):
    floe.errors.NoSuchTable: the table that was loaded, with uuid 9c12d441-..., is not there any more: ...
    """
    if not is_same_uuid(expected, actual):
        raise NoSuchTable(_replaced_message("table", expected, actual), hint=_LOAD_AGAIN.format("table"), table=table)


def check_same_view(expected: str | None, actual: str | None, view: str) -> None:
    """Raise `NoSuchView` unless the view has the UUID that it had when it was loaded."""
    if not is_same_uuid(expected, actual):
        raise NoSuchView(_replaced_message("view", expected, actual), hint=_LOAD_AGAIN.format("view"), view=view)


_LOAD_AGAIN: Final = "it was dropped or renamed: load the {0} again, and look at it before you change it"


def _replaced_message(kind: str, expected: str | None, actual: str | None) -> str:
    now = "has no uuid" if actual is None else f"has uuid {actual}"
    return f"the {kind} that was loaded, with uuid {expected}, is not there any more: the {kind} of that name now {now}"
