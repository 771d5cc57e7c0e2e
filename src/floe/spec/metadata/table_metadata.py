"""A table's metadata as a value: schemas, partition specs, sort orders, snapshots, refs, logs (spec: Table Metadata).

The values are immutable; a change makes a new one (`floe.spec.metadata.metadata_builder`). JSON is in
`floe.spec.metadata.table_metadata_json`, the rules that hold between the parts in `floe.spec.metadata.metadata_checks`.

The two logs of a table: which snapshot was current when, and where earlier metadata lies (spec: Table Metadata).

Entries for encryption keys (spec: Encryption Keys).

Entries for statistics files: Puffin files of a table, and partition statistics (spec: Table Statistics).

The uuids that identify tables, views and files: their form, and whether a thing is still the one that was known.
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

# The two logs of a table: which snapshot was current when, and where earlier metadata lies (spec: Table Metadata).


class SnapshotLogEntry(Record, frozen=True, kw_only=True):
    """From this time on the snapshot was the table's current one.

    >>> SnapshotLogEntry(timestamp_ms=1515100955770, snapshot_id=1).snapshot_id
    1
    """

    timestamp_ms: Int64
    snapshot_id: Int64


class MetadataLogEntry(Record, frozen=True, kw_only=True):
    """An earlier metadata file, and when it was last updated.

    >>> MetadataLogEntry(
    ...     timestamp_ms=1515100955770, metadata_file="s3://bucket/t/metadata/v1.metadata.json"
    ... ).timestamp_ms
    1515100955770
    """

    timestamp_ms: Int64
    metadata_file: str


# Entries for encryption keys (spec: Encryption Keys).


class EncryptionKey(Record, frozen=True, kw_only=True):
    r"""An encrypted key that snapshots refer to by `key_id`.

    >>> EncryptionKey(key_id="5f819b", encrypted_key_metadata="aWNlYmVyZwo=").key_metadata
    b'iceberg\n'
    """

    key_id: str
    encrypted_key_metadata: str
    """Base64 of the encrypted key and its metadata; the table's encryption scheme defines what is in it."""

    encrypted_by_id: str | None = None
    """The id of the key that this one is wrapped with."""

    properties: StringMap = msgspec.field(default_factory=dict)

    @property
    def key_metadata(self) -> bytes:
        """The encrypted key metadata as bytes."""
        try:
            return base64.b64decode(self.encrypted_key_metadata, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidMetadata(f"not base64: {error}", path=".encrypted-key-metadata", key=self.key_id) from error


# Entries for statistics files: Puffin files of a table, and partition statistics (spec: Table Statistics).


class BlobMetadata(Record, frozen=True, kw_only=True):
    """A blob of a statistics file: what it holds, and the snapshot it was computed from.

    >>> BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=3, sequence_number=2, fields=(1,)).properties
    {}
    """

    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: tuple[Int32, ...]
    """The ids of the fields that the statistic is about, in order."""

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
    """Base64 of the key metadata, when the file is encrypted."""

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


LATEST_FORMAT_VERSION: Final = 3
"""The newest version of the format that Floe reads and writes."""

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class TableMetadata:
    """Everything a table's metadata file says.

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
    """None only in tables of format version 1 that old writers made."""

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
    """Branches and tags by name; has `main` whenever there is a current snapshot."""

    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    """Format version 3: higher than every row id given so far. None in earlier versions."""

    encryption_keys: tuple[EncryptionKey, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The keys of the document that this version of Floe does not know."""

    snapshots_json: EncodedList = field(default_factory=EncodedList, repr=False, compare=False)
    snapshot_log_json: EncodedList = field(default_factory=EncodedList, repr=False, compare=False)
    """What is known of the JSON of these two lists, which may be very long, for writing them again."""

    # what is current -----------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schema_by_id(self.current_schema_id)

    @cached_property
    def spec(self) -> PartitionSpec:
        """The partition spec that writers use."""
        return self.spec_by_id(self.default_spec_id)

    @cached_property
    def sort_order(self) -> SortOrder:
        """The sort order that writers use."""
        return self.sort_order_by_id(self.default_sort_order_id)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that readers see, or None in a table without one."""
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    @property
    def next_sequence_number(self) -> int:
        """The sequence number of the next snapshot; format version 1 has none and stays at 0."""
        return self.last_sequence_number + 1 if self.format_version > 1 else 0

    # found by id or name -------------------------------------------------------------------------------------

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
        """The sort orders by their ids; 0 is always there, unsorted."""
        return {UNSORTED.order_id: UNSORTED} | {order.order_id: order for order in self.sort_orders}

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        """The snapshots by their ids."""
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema of that id."""
        try:
            return self.schemas_by_id[schema_id]
        except KeyError:
            raise InvalidMetadata(f"the table has no schema with id {schema_id}", path=".schemas") from None

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """The partition spec of that id."""
        try:
            return self.specs_by_id[spec_id]
        except KeyError:
            raise InvalidMetadata(
                f"the table has no partition spec with id {spec_id}", path=".partition-specs"
            ) from None

    def sort_order_by_id(self, order_id: int) -> SortOrder:
        """The sort order of that id."""
        try:
            return self.sort_orders_by_id[order_id]
        except KeyError:
            raise InvalidMetadata(f"the table has no sort order with id {order_id}", path=".sort-orders") from None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id."""
        try:
            return self.snapshots_by_id[snapshot_id]
        except KeyError:
            check_snapshot_id(snapshot_id)
            raise NoSuchSnapshot(
                f"the table has no snapshot {snapshot_id}",
                hint=self._newest_told() if self.snapshots else "the table has no snapshots at all",
            ) from None

    def _newest_told(self) -> str:
        newest = sorted(self.snapshots, key=lambda one: one.timestamp_ms, reverse=True)[:_SHOWN]
        told = ", ".join(f"{one.snapshot_id} ({millis_to_text(one.timestamp_ms)})" for one in newest)
        older = len(self.snapshots) - len(newest)
        return f"it may have expired; there are {told}{f' and {older} older' if older else ''}"

    def ref(self, name: str) -> SnapshotRef:
        """The branch or tag of that name."""
        try:
            return self.refs[name]
        except KeyError:
            hint = f"there are {', '.join(sorted(self.refs)[:12])}" if self.refs else "the table has no snapshots yet"
            raise NoSuchRef(f"the table has no branch or tag named {name!r}", hint=hint) from None

    def snapshot_of_ref(self, name: str = MAIN_BRANCH) -> Snapshot:
        """The snapshot that a branch or tag points at."""
        return self.snapshot(self.ref(name).snapshot_id)

    # time travel ---------------------------------------------------------------------------------------------

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """The snapshot that was current at a time, by the snapshot log (spec: Point in Time Reads).

        The log says what readers saw, including rollbacks, which the parents of snapshots do not. Where two entries
        have the same time the later one counts, as it is what readers saw from then on.
        """
        best: SnapshotLogEntry | None = None
        for entry in self.snapshot_log:
            if entry.timestamp_ms <= timestamp_ms and (best is None or entry.timestamp_ms >= best.timestamp_ms):
                best = entry
        if best is None:
            first = min((entry.timestamp_ms for entry in self.snapshot_log), default=None)
            raise NoSuchSnapshot(
                f"no snapshot was current at {millis_to_text(timestamp_ms)}",
                hint="the snapshot log is empty"
                if first is None
                else f"the snapshot log begins at {millis_to_text(first)}",
            )
        return self.snapshot(best.snapshot_id)

    def schema_for(self, snapshot: Snapshot) -> Schema:
        """The schema to read a snapshot with: the one it was written under, or the current one if it does not say."""
        return self.schema if snapshot.schema_id is None else self.schema_by_id(snapshot.schema_id)


# The uuids that identify tables, views and files: their form, and whether a thing is still the one that was known.

UUID_PATTERN: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
"""A regular expression, without groups."""

_UUID: Final = re.compile(UUID_PATTERN)


def is_uuid(text: str) -> bool:
    """Whether a text is a uuid in its usual form, of whatever version.

    >>> is_uuid("9c12d441-03fe-4693-9a96-a0705ddf69c1"), is_uuid("9c12d44103fe46939a96a0705ddf69c1")
    (True, False)
    """
    return _UUID.fullmatch(text) is not None


def check_uuid(text: str) -> None:
    """Raise unless a text is a uuid.

    >>> check_uuid("mine")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: 'mine' is not a uuid
    """
    if not is_uuid(text):
        raise InvalidUpdate(f"{text[:80]!r} is not a uuid")


def is_same_uuid(known: str | None, found: str | None) -> bool:
    """Whether a uuid that was found can be that of the table or view that is known.

    Old tables of version 1 may have none: they may get their first one, but no table ever loses its own.

    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> is_same_uuid(uuid, uuid.upper()), is_same_uuid(None, uuid), is_same_uuid(uuid, None)
    (True, True, False)
    """
    return known is None or (found is not None and found.lower() == known.lower())


def check_same_table(known: str | None, found: str | None, table: str) -> None:
    """Raise unless the table of that name has the uuid that it had when it was loaded (spec: `table-uuid`).

    >>> check_same_table("9c12d441-03fe-4693-9a96-a0705ddf69c1", "11111111-03fe-4693-9a96-a0705ddf69c1", "db.t")
    Traceback (most recent call last):
    floe.errors.NoSuchTable: the table that was loaded, with uuid 9c12d441-..., is not there any more: ...
    """
    if not is_same_uuid(known, found):
        raise NoSuchTable(_gone("table", known, found), hint=_LOAD_AGAIN.format("table"), table=table)


def check_same_view(known: str | None, found: str | None, view: str) -> None:
    """Raise unless the view of that name has the uuid that it had when it was loaded."""
    if not is_same_uuid(known, found):
        raise NoSuchView(_gone("view", known, found), hint=_LOAD_AGAIN.format("view"), view=view)


_LOAD_AGAIN: Final = "it was dropped or renamed: load the {0} again, and look at it before you change it"


def _gone(kind: str, known: str | None, found: str | None) -> str:
    other = "has no uuid" if found is None else f"has uuid {found}"
    return f"the {kind} that was loaded, with uuid {known}, is not there any more: the {kind} of that name now {other}"
