"""The columns of the metadata tables, and `MetadataSource`, from which their rows are read.

Names, order, types, nullability and field ids of the columns are those of Java Iceberg. Some are the same for every
table; those that show files depend on the table's columns and partition specs.

>>> [field.name for field in HISTORY]
['made_current_at', 'snapshot_id', 'parent_id', 'is_current_ancestor']

The ids of the fields within `readable_metrics` are stored nowhere. Java assigns them in the order in which its hash map
returns the keys, so that order is computed here: callers that project by id, or compare schemas, expect the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from floe.avro.manifest_columns import ManifestColumns
from floe.errors import UnsupportedFeature
from floe.plan.manifests import manifests_of_snapshot, read_manifest_groups
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec, unified_partition_type
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS, DELETE_ROW_ID, FILE, PARTITION_ID, SPEC_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import BINARY, BOOLEAN, INT, LONG, STRING, TIMESTAMPTZ, Field, ListType, MapType, StructType, Type
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

# The order of Java's hash maps ------------------------------------------------------------------------------------

_SMALLEST_TABLE = 16


def java_hash_map_order(names: Iterable[str]) -> list[str]:
    """The names, which were put into a `java.util.HashMap` in this order, as the map gives them.

    >>> java_hash_map_order(["b", "a", "id"])
    ['a', 'b', 'id']
    """
    listed = list(names)
    buckets = _SMALLEST_TABLE
    while len(listed) > buckets * 3 // 4:  # the table doubles when it is three quarters full
        buckets *= 2
    return sorted(listed, key=lambda name: _spread(_hash_code(name)) & (buckets - 1))


def _hash_code(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def _spread(code: int) -> int:
    return code ^ (code >> 16)


SNAPSHOTS = Schema(
    (
        Field(1, "committed_at", TIMESTAMPTZ, required=True),
        Field(2, "snapshot_id", LONG, required=True),
        Field(3, "parent_id", LONG),
        Field(4, "operation", STRING),
        Field(5, "manifest_list", STRING),
        Field(6, "summary", MapType(7, STRING, 8, STRING, value_required=True)),
    )
)
HISTORY = Schema(
    (
        Field(1, "made_current_at", TIMESTAMPTZ, required=True),
        Field(2, "snapshot_id", LONG, required=True),
        Field(3, "parent_id", LONG),
        Field(4, "is_current_ancestor", BOOLEAN, required=True),
    )
)
REFS = Schema(
    (
        Field(1, "name", STRING, required=True),
        Field(2, "type", STRING, required=True),
        Field(3, "snapshot_id", LONG, required=True),
        Field(4, "max_reference_age_in_ms", LONG),
        Field(5, "min_snapshots_to_keep", INT),
        Field(6, "max_snapshot_age_in_ms", LONG),
    )
)
METADATA_LOG_ENTRIES = Schema(
    (
        Field(1, "timestamp", TIMESTAMPTZ, required=True),
        Field(2, "file", STRING, required=True),
        Field(3, "latest_snapshot_id", LONG),
        Field(4, "latest_schema_id", INT),
        Field(5, "latest_sequence_number", LONG),
    )
)


# manifests ----------------------------------------------------------------------------------------------------------


def _manifest_fields(required: bool) -> tuple[Field, ...]:
    """The fields that both tables of manifests have; what one requires the other may lack."""
    summary = StructType(
        (
            Field(10, "contains_null", BOOLEAN, required=True),
            Field(11, "contains_nan", BOOLEAN, required=not required),
            Field(12, "lower_bound", STRING),
            Field(13, "upper_bound", STRING),
        )
    )
    return (
        Field(14, "content", INT, required=True),
        Field(1, "path", STRING, required=True),
        Field(2, "length", LONG, required=True),
        Field(3, "partition_spec_id", INT, required=required),
        Field(4, "added_snapshot_id", LONG, required=required),
        Field(5, "added_data_files_count", INT, required=required),
        Field(6, "existing_data_files_count", INT, required=required),
        Field(7, "deleted_data_files_count", INT, required=required),
        Field(15, "added_delete_files_count", INT, required=True),
        Field(16, "existing_delete_files_count", INT, required=True),
        Field(17, "deleted_delete_files_count", INT, required=True),
        Field(8, "partition_summaries", ListType(9, summary, element_required=True), required=required),
    )


MANIFESTS = Schema(_manifest_fields(True))
ALL_MANIFESTS = Schema(
    (
        *_manifest_fields(False),
        Field(18, "reference_snapshot_id", LONG, required=True),
        Field(19, "key_metadata", BINARY),
    )
)


# partitions ---------------------------------------------------------------------------------------------------------


def table_partition_type(metadata: TableMetadata) -> StructType:
    """The struct that holds the partition of every file: the fields of all specs whose source column still exists.

    Like other implementations, this refuses transforms that it does not know: the type of their values is not known.
    """
    for spec in metadata.partition_specs:
        for field in spec.unknown_fields:
            raise UnsupportedFeature(
                f"the partitions of the table cannot be shown: the transform {str(field.transform)[:80]!r} of "
                f"{field.name!r} is not known to this version",
                hint="the tables snapshots, history, refs, metadata_log_entries and manifests do not need it",
            )
    return unified_partition_type(metadata.partition_specs, _schemas(metadata), active_in=metadata.schema)


def partition_types(metadata: TableMetadata, unified: StructType) -> dict[int, StructType]:
    """For each spec, the type of its tuples, with the types that the fields have in the unified one."""
    return {spec.spec_id: _partition_type(spec, metadata, unified) for spec in metadata.partition_specs}


def _partition_type(spec: PartitionSpec, metadata: TableMetadata, unified: StructType) -> StructType:
    unified_types = {field.id: field.type for field in unified}
    current, *earlier = _schemas(metadata)
    stored = spec.partition_type(current, earlier)
    return StructType(tuple(Field(field.id, field.name, unified_types.get(field.id, field.type)) for field in stored))


def _schemas(metadata: TableMetadata) -> list[Schema]:
    """The current schema first, then the others, newest first."""
    earlier = [schema for schema in reversed(metadata.schemas) if schema.schema_id != metadata.current_schema_id]
    return [metadata.schema, *earlier]


def partitions_schema(metadata: TableMetadata) -> Schema:
    """The columns of `partitions`; a table that was never partitioned has one row without partition and spec."""
    partition = table_partition_type(metadata)
    shown = (
        Field(1, "partition", partition, required=True),
        Field(4, "spec_id", INT, required=True, doc="spec of the files that were written last"),
    )
    counts = (
        Field(2, "record_count", LONG, required=True, doc="rows in data files"),
        Field(3, "file_count", INT, required=True, doc="data files"),
        Field(11, "total_data_file_size_in_bytes", LONG, required=True, doc="bytes in data files"),
        Field(5, "position_delete_record_count", LONG, required=True, doc="deleted positions, vectors included"),
        Field(6, "position_delete_file_count", INT, required=True, doc="position delete files and deletion vectors"),
        Field(7, "equality_delete_record_count", LONG, required=True, doc="rows in equality delete files"),
        Field(8, "equality_delete_file_count", INT, required=True, doc="equality delete files"),
        Field(9, "last_updated_at", TIMESTAMPTZ, doc="when the partition's files last changed"),
        Field(10, "last_updated_snapshot_id", LONG, doc="snapshot that last changed the partition's files"),
    )
    return Schema((*shown, *counts) if len(partition) else counts)


# files and entries --------------------------------------------------------------------------------------------------


def _file_fields(partition: StructType) -> tuple[Field, ...]:
    """What is shown of a file; without partition fields there is no `partition`."""

    def by_column(key: int, value: int, type_: Type) -> MapType:
        return MapType(key, INT, value, type_, value_required=True)

    fields = (
        Field(134, "content", INT, doc="0: data, 1: position deletes, 2: equality deletes"),
        Field(100, "file_path", STRING, required=True),
        Field(101, "file_format", STRING, required=True),
        Field(141, "spec_id", INT, doc="partition spec of the file"),
        Field(
            102, "partition", partition, required=True, doc="the fields of all specs; null where the file's has none"
        ),
        Field(103, "record_count", LONG, required=True),
        Field(104, "file_size_in_bytes", LONG, required=True),
        Field(108, "column_sizes", by_column(117, 118, LONG), doc="bytes by column id"),
        Field(109, "value_counts", by_column(119, 120, LONG), doc="values by column id, nulls and NaN included"),
        Field(110, "null_value_counts", by_column(121, 122, LONG), doc="nulls by column id"),
        Field(137, "nan_value_counts", by_column(138, 139, LONG), doc="NaN by column id"),
        Field(125, "lower_bounds", by_column(126, 127, BINARY), doc="lower bounds by column id"),
        Field(128, "upper_bounds", by_column(129, 130, BINARY), doc="upper bounds by column id"),
        Field(131, "key_metadata", BINARY, doc="what is needed to decrypt the file"),
        Field(132, "split_offsets", ListType(133, LONG, element_required=True), doc="where the file may be split"),
        Field(135, "equality_ids", ListType(136, INT, element_required=True), doc="columns that deletes compare"),
        Field(140, "sort_order_id", INT),
        Field(142, "first_row_id", LONG, doc="id of the file's first row"),
        Field(143, "referenced_data_file", STRING, doc="the one data file that deletes are for"),
        Field(144, "content_offset", LONG, doc="where a deletion vector begins"),
        Field(145, "content_size_in_bytes", LONG, doc="how long a deletion vector is"),
    )
    return fields if len(partition) else tuple(field for field in fields if field.name != "partition")


def files_schema(metadata: TableMetadata) -> Schema:
    """The columns of all tables of files."""
    return _with_readable_metrics(Schema(_file_fields(table_partition_type(metadata))), metadata.schema)


def entries_schema(metadata: TableMetadata) -> Schema:
    """The columns of both tables of entries."""
    entry = (
        Field(0, "status", INT, required=True, doc="0: existing, 1: added, 2: deleted"),
        Field(1, "snapshot_id", LONG, doc="snapshot that added the file, or deleted it"),
        Field(3, "sequence_number", LONG),
        Field(4, "file_sequence_number", LONG),
        Field(2, "data_file", StructType(_file_fields(table_partition_type(metadata))), required=True),
    )
    return _with_readable_metrics(Schema(entry), metadata.schema)


READABLE_METRICS = "readable_metrics"

METRICS: tuple[tuple[str, str, Type | None, str], ...] = (
    ("column_size", "column_sizes", LONG, "bytes in the file"),
    ("value_count", "value_counts", LONG, "values, nulls and NaN included"),
    ("null_value_count", "null_value_counts", LONG, "nulls"),
    ("nan_value_count", "nan_value_counts", LONG, "NaN"),
    ("lower_bound", "lower_bounds", None, "lower bound"),
    ("upper_bound", "upper_bounds", None, "upper bound"),
)
"""The parts of a readable metric: name, the map that it comes from, type (None: that of the column), documentation."""


def columns_with_metrics(schema: Schema) -> dict[str, Field]:
    """The columns that have readable metrics, under the names they have there: all that are primitive, at any depth.

    They come in the order in which they get their ids, which is that of the reference implementation's hash map.

    >>> from floe.spec.types import DATE
    >>> point = StructType((Field(2, "x", LONG), Field(3, "y", LONG)))
    >>> list(columns_with_metrics(Schema((Field(1, "p", point), Field(4, "d", DATE)))))
    ['d', 'p.y', 'p.x']
    """
    names: dict[str, int] = {}
    for field_id in _children_first(schema.fields):
        name = schema.name_of(field_id)
        names[name if name not in names else f"{name}_{field_id}"] = field_id
    ordered = {name: schema.entry(names[name]).field for name in java_hash_map_order(names)}
    return {name: field for name, field in ordered.items() if field.type.is_primitive}


def _children_first(fields: tuple[Field, ...]) -> Iterator[int]:
    """The ids of all fields, each behind those that are nested in it; of a map, key and value come together."""
    for field in fields:
        yield from _nested(field.type)
        yield field.id


def _nested(type_: Type) -> Iterator[int]:
    if isinstance(type_, StructType):
        yield from _children_first(type_.fields)
        return
    for child in type_.fields:
        yield from _nested(child.type)
    for child in type_.fields:
        yield child.id


def _with_readable_metrics(schema: Schema, table: Schema) -> Schema:
    next_id = schema.highest_field_id
    metrics = []
    for name, column in columns_with_metrics(table).items():
        next_id += 1
        metric_id = next_id
        parts = []
        for part, _, type_, doc in METRICS:
            next_id += 1
            parts.append(Field(next_id, part, type_ or column.type, doc=doc))
        metrics.append(Field(metric_id, name, StructType(tuple(parts)), doc=f"metrics of the column {name}"))
    metrics.sort(key=lambda field: field.name.encode("utf-16-be", "surrogatepass"))  # as Java compares strings
    readable = Field(next_id + 1, READABLE_METRICS, StructType(tuple(metrics)), doc="metrics by column, as values")
    return Schema((*schema.fields, readable))


# position deletes ---------------------------------------------------------------------------------------------------


def position_deletes_schema(metadata: TableMetadata) -> Schema:
    """The columns of `position_deletes`.

    The fields of `partition` get the lowest ids that no column of any schema has, because partition field ids may be
    those of columns.
    """
    partition = table_partition_type(metadata)
    row = metadata.schema.as_struct()
    fields = [
        Field(DELETE_FILE_PATH.id, "file_path", STRING, required=True, doc="data file that has the deleted row"),
        Field(DELETE_POS.id, "pos", LONG, required=True, doc="place of the deleted row in that file"),
        Field(DELETE_ROW_ID, "row", row, doc="the deleted row, if the writer kept it"),
        Field(PARTITION_ID, "partition", partition, required=True, doc="partition of the delete file"),
        Field(SPEC_ID.id, "spec_id", INT, required=True, doc="partition spec of the delete file"),
        Field(FILE.id, "delete_file_path", STRING, required=True, doc="file that deletes the row"),
    ]
    if metadata.format_version >= 3:
        fields += [
            Field(2147483641, "content_offset", LONG, doc="where the deletion vector begins in its file"),
            Field(2147483640, "content_size_in_bytes", LONG, doc="how long the deletion vector is"),
        ]
    if not len(partition):
        return Schema(tuple(field for field in fields if field.name != "partition"))
    used = {field_id for schema in metadata.schemas for field_id in schema.by_id} | {field.id for field in partition}
    free = (candidate for candidate in range(1, 2**31) if candidate not in used)
    renumbered = StructType(tuple(Field(next(free), field.name, field.type) for field in partition))
    fields[3] = Field(PARTITION_ID, "partition", renumbered, required=True, doc=fields[3].doc)
    return Schema(tuple(fields))


# Source of the rows -----------------------------------------------------------------------------------------------


T = TypeVar("T")
R = TypeVar("R")

_MAX_WORKERS = 16


@dataclass(frozen=True, eq=False)
class MetadataSource:
    """The table whose metadata is read: its metadata, manifest lists and manifests.

    `workers` is the number of threads that read files: None chooses it by the number of files, 1 uses no threads.
    """

    metadata: TableMetadata
    metadata_location: str
    storage: Storage
    workers: int | None = None

    @cached_property
    def partition_type(self) -> StructType:
        """The struct of all partition fields."""
        return table_partition_type(self.metadata)

    @cached_property
    def partition_types(self) -> dict[int, StructType]:
        """The types of partition tuples, by spec id."""
        return partition_types(self.metadata, self.partition_type)

    @cached_property
    def metrics_columns(self) -> dict[str, Field]:
        """The columns with readable metrics, by name."""
        return columns_with_metrics(self.metadata.schema)

    def run_concurrently(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Call a function for each item, several at once; yields the results in the order of the items."""
        all_items = list(items)
        limit = min(len(all_items), _MAX_WORKERS if self.workers is None else self.workers)
        if limit <= 1:
            yield from map(function, all_items)
            return
        with ThreadPoolExecutor(limit, thread_name_prefix="floe-plan") as pool:
            yield from map_concurrently(function, all_items, limit=limit, executor=pool)

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot; empty without a snapshot."""
        return [] if snapshot is None else manifests_of_snapshot(snapshot, self.storage)

    def manifests_by_snapshot(self, snapshots: Iterable[Snapshot]) -> Iterator[tuple[Snapshot, list[ManifestFile]]]:
        """The snapshots, each with its manifests."""
        return self.run_concurrently(lambda snapshot: (snapshot, self.manifests(snapshot)), snapshots)

    def all_manifests(self) -> list[ManifestFile]:
        """The manifests of all snapshots, each once, with the summary of the first snapshot that has it."""
        by_path: dict[str, ManifestFile] = {}
        for _, manifests in self.manifests_by_snapshot(self.metadata.snapshots):
            for manifest in manifests:
                by_path.setdefault(manifest.manifest_path, manifest)
        return list(by_path.values())

    def read_manifests(self, manifests: Sequence[ManifestFile], convert: Callable[[ManifestColumns], R]) -> Iterator[R]:
        """Read manifests, and yield what `convert` returns for their entries, in order; small ones are read at once."""
        return read_manifest_groups(self.storage, manifests, convert, types=self.partition_types, workers=self.workers)
