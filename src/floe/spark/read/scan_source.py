"""What a scan reads: a table at one snapshot, the predicates that Spark pushed down, the planned files, the columns.

`ScanSource` holds the table, the snapshot and the options of a read. Its `plan` gives the files, which
`PlannedFiles` divides among the readers. The read options are:

| option | meaning |
|---|---|
| `snapshot-id`, `branch`, `tag`, `as-of-timestamp` (milliseconds) | the snapshot; only one of them |
| `start-snapshot-id` (exclusive), `end-snapshot-id` (inclusive) | the rows that were appended in between |
| `split-size` | how many bytes a task reads |
| `file-open-cost`, `lookback` | the least weight of a file in bytes; how many open bins are considered for a file |
| `aggregate-push-down-enabled` | `false`: rows are read even where metadata has the aggregates |

Settings of the session (`spark.sql.iceberg.read.split-size`, …) apply where the option is not set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.errors import InvalidInput, NoSuchColumn
from floe.plan.delete_files import DeleteKind
from floe.plan.scan import ScanOptions, plan_appends, plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshot_selection import SnapshotRange, choose_snapshot
from floe.plan.tasks import FileTask, SplitSettings
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import Node
from floe.spark.executors import executor_metadata
from floe.spark.names import CURRENT, AsOf
from floe.spark.read.filter_operands import Translation
from floe.spark.read.native_reader import actual_location, adaptive_split_settings
from floe.spark.schemas import SparkField, SparkType
from floe.spark.settings import (
    AGGREGATES,
    AS_OF_TIMESTAMP,
    END_SNAPSHOT_ID,
    FILE_OPEN_COST,
    LOOKBACK,
    READ_BRANCH,
    READ_TAG,
    SESSION_ADAPTIVE_SPLITS,
    SESSION_AGGREGATES,
    SESSION_PARALLELISM,
    SESSION_SPLIT_SIZE,
    SNAPSHOT_ID,
    SPLIT_SIZE,
    START_SNAPSHOT_ID,
    WAP_BRANCH,
    check_read_options,
    first_set,
)
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import ADAPTIVE_SPLIT_SIZE, WAP_ENABLED
from floe.spec.schemas.metadata_columns import metadata_column
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.storage.locations import parse
from floe.storage.protocol import Storage
from floe.table.table import Table


@dataclass(frozen=True)
class ScanSource:
    """A table at a snapshot, with the schema of that snapshot and the options of the read."""

    name: str
    table: Table
    as_of: AsOf
    schema: Schema
    splits: Mapping[str, int] = field(default_factory=dict)
    """The split settings (`floe.plan.tasks.SplitSettings`) that the options of the read set, by field name."""

    start_snapshot_id: int | None = None
    """Only rows appended after this snapshot are read; None to read the whole table."""

    options: Mapping[str, str] = field(default_factory=dict)
    """All options of the read, by their names in lower case."""

    session: Mapping[str, str] = field(default_factory=dict)
    """The session's settings for Iceberg, by their full names."""

    all_deletes: bool = False
    """Whether files keep all of their deletes, also those of rows that do not match the filter."""

    @property
    def key(self) -> Any:
        """Equal for two sources that read the same rows."""
        return (self.table.uuid, self.table.metadata_location, self.as_of, self.start_snapshot_id)

    @property
    def pushes_aggregates(self) -> bool:
        """Whether COUNT, MIN and MAX may be computed from metadata."""
        return first_set((AGGREGATES, self.options), (SESSION_AGGREGATES, self.session), default=True)

    def split_settings(self, total: int, parallelism: int) -> SplitSettings:
        """The split settings for files of `total` bytes and `parallelism` cores.

        Options of the read take precedence over settings of the session, and these over properties of the table.
        """
        properties = dict(self.table.metadata.properties)
        if SESSION_ADAPTIVE_SPLITS.is_set(self.session):
            properties[ADAPTIVE_SPLIT_SIZE.name] = self.session[SESSION_ADAPTIVE_SPLITS.name]
        return adaptive_split_settings(
            properties, total, SESSION_PARALLELISM.read(self.session) or parallelism, self.splits
        )

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.table.storage

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None if the table has no snapshot."""
        return choose_snapshot(
            self.table.metadata,
            snapshot=self.as_of.snapshot_id,
            ref=self.as_of.ref,
            as_of_ms=self.as_of.timestamp_ms,
        )

    @cached_property
    def executor_metadata(self) -> TableMetadata:
        """The part of the table metadata that readers on executors need."""
        return executor_metadata(self.table.metadata)

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may have rows which match a filter.

        `metrics` are the field ids of the columns whose metrics the plan keeps.
        """
        metadata, snapshot = self.table.metadata, self.snapshot
        options = ScanOptions(schema=self.schema, where=where, metrics=metrics)
        if self.start_snapshot_id is not None:
            until = None if snapshot is None else snapshot.snapshot_id
            return plan_appends(
                metadata, self.storage, SnapshotRange(after=self.start_snapshot_id, until=until), options=options
            )
        return plan_scan(metadata, self.storage, snapshot=snapshot, options=options, all_deletes=self.all_deletes)


def selects_whole_files(plan: ScanPlan) -> bool:
    """Whether all rows of all files of a plan match its filter."""
    return all(bool((chunk.all_match | plan.without_filter(chunk)).all()) for chunk in plan.chunks)


# Read options ---------------------------------------------------------------------------------------------------------

_SPLITS = {"target_size": SPLIT_SIZE, "open_file_cost": FILE_OPEN_COST, "lookback": LOOKBACK}
_STATES = (SNAPSHOT_ID, READ_BRANCH, READ_TAG, AS_OF_TIMESTAMP, END_SNAPSHOT_ID)


def apply_read_options(
    source: ScanSource, options: Mapping[str, str], session: Mapping[str, str] = MappingProxyType({})
) -> ScanSource:
    """A source with the options of a read applied, and the session's settings for Iceberg.

    Raises `InvalidInput` for options that contradict each other.
    """
    check_read_options(options)
    as_of = requested_state(options, source.as_of, source.name)
    source = replace(source, options=dict(options), as_of=as_of, session=session)
    if START_SNAPSHOT_ID.is_set(options):
        source = replace(source, start_snapshot_id=START_SNAPSHOT_ID.read(options))
    elif END_SNAPSHOT_ID.is_set(options):
        raise InvalidInput(
            f"the option {END_SNAPSHOT_ID} is set without {START_SNAPSHOT_ID}", hint=f"set {START_SNAPSHOT_ID} too"
        )
    splits = {name: size for name, option in _SPLITS.items() if (size := option.read(options)) is not None}
    if (size := SESSION_SPLIT_SIZE.read(session)) is not None:
        splits.setdefault("target_size", size)
    return replace(source, splits=splits)


def requested_state(options: Mapping[str, str], named: AsOf, table: str) -> AsOf:
    """The snapshot that the options of a read choose, or else the one that the table's name chose (`named`).

    Raises `InvalidInput` if more than one is chosen.

    >>> (
    ...     requested_state({"tag": "eoy"}, AsOf(), "db.t").ref,
    ...     requested_state({}, AsOf(snapshot_id=7), "db.t").snapshot_id,
    ... )
    ('eoy', 7)
    """
    states = [option.name for option in _STATES if option.is_set(options)]
    if len(states) > 1 or (states and not named.is_current):
        sources = [*([] if named.is_current else [f"the table's name ({named})"]), *states]
        raise InvalidInput(
            f"more than one snapshot is chosen to be read: by {', '.join(sources)}", hint="choose one", table=table
        )
    if not states:
        return named
    snapshot_id = SNAPSHOT_ID.read(options) if SNAPSHOT_ID.is_set(options) else END_SNAPSHOT_ID.read(options)
    return AsOf(snapshot_id, READ_BRANCH.read(options) or READ_TAG.read(options), AS_OF_TIMESTAMP.read(options))


def wap_state(jvm: Jvm, metadata: TableMetadata) -> AsOf:
    """The snapshot that a read without a choice of its own reads: the branch in `spark.wap.branch`, or the current one.

    The setting applies to tables with `write.wap.enabled`, if they have that branch, so that those who audit a write
    read what they wrote.
    """
    if not WAP_ENABLED.read(metadata.properties):
        return CURRENT
    branch = jvm.setting(WAP_BRANCH.name, "")
    return AsOf(ref=branch) if branch in metadata.refs else CURRENT


# Pushed predicates ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PushedPredicates:
    """The predicates that Spark pushed down: as Java objects, as trees, and translated to filters."""

    array: Any
    """The Java array `Predicate[]`; None if Spark pushed no predicates."""

    trees: Sequence[Node] = ()
    translations: Sequence[Translation] = ()

    @cached_property
    def where(self) -> Expression:
        """A filter that keeps all rows which match all predicates."""
        return and_(*(translation.filter for translation in self.translations))

    @cached_property
    def pruning(self) -> list[int]:
        """The indexes of the predicates that can prune: those that are translated at least in part."""
        return [index for index, translation in enumerate(self.translations) if translation.filter != TRUE]

    @property
    def is_exact(self) -> bool:
        """Whether the filter keeps exactly the rows that match the predicates, and there is one that prunes."""
        return bool(self.pruning) and all(translation.exact for translation in self.translations)


NO_PREDICATES: Final = PushedPredicates(None)

# Planned files --------------------------------------------------------------------------------------------------------

Indexes = NDArray[np.int64]
Mask = NDArray[np.bool_]


_NOTHING = np.zeros(0, np.int64)


class _Deletes(NamedTuple):
    """The deletes of some files of a plan."""

    positions: tuple[Indexes, Indexes]
    """Pairs of the index of a file and the index of a position delete file or deletion vector that applies to it."""

    with_equality: Mask
    """Which of the files have equality deletes."""

    equality: Mask
    """Which of the plan's deletes are equality deletes of these files."""


class PlannedFiles:
    """Some or all files of a plan, in its order, as columns and as tasks."""

    def __init__(self, plan: ScanPlan, table: pa.Table | None = None, indexes: Indexes | None = None) -> None:
        self.plan = plan
        self.table: pa.Table = plan.files_to_arrow() if table is None else table
        """The files, with the columns of `ScanPlan.files_to_arrow`."""

        self._indexes = np.arange(self.table.num_rows) if indexes is None else indexes

    def __len__(self) -> int:
        return int(self.table.num_rows)

    # selection ---------------------------------------------------------------------------------------------------

    def select(self, selected: Mask) -> PlannedFiles:
        """The files that a mask selects."""
        if selected.all():
            return self
        return PlannedFiles(self.plan, self.table.filter(pa.array(selected)), self._indexes[selected])

    def select_paths(self, paths: Collection[str], *, inside: bool = True) -> PlannedFiles:
        """The files with one of the paths; with `inside=False` all others."""
        listed = pc.is_in(self.table["file_path"], value_set=pa.array(paths, pa.string())).to_numpy()
        return self.select(listed if inside else ~listed)

    def first(self, rows: int | None) -> PlannedFiles:
        """The first files, as many as have `rows` rows in all; all files if it is None."""
        if rows is None:
            return self
        counted = np.cumsum(np.maximum(self.record_counts, 0))
        return self.select(np.arange(len(self)) <= np.searchsorted(counted, rows))

    # properties of the files -------------------------------------------------------------------------------------

    @property
    def record_counts(self) -> Indexes:
        """The number of rows of each file; -1 where it is unknown."""
        return np.asarray(self.table["record_count"].to_numpy())

    @property
    def partition_ids(self) -> Indexes:
        """A number for the partition of each file, which deletes of the same partition have too; -1 without deletes."""
        numbers = [matched.partition for matched in self.plan.matched]
        return np.concatenate(numbers)[self._indexes] if numbers else np.full(len(self), -1)

    @cached_property
    def position_deletes(self) -> tuple[Indexes, Indexes]:
        """Pairs of the index of a file and the index of a position delete or deletion vector that applies to it."""
        return self._deletes.positions

    @cached_property
    def equality_deletes(self) -> Indexes:
        """The indexes of the equality deletes that apply to at least one of the files."""
        return np.flatnonzero(self._deletes.equality)

    @cached_property
    def has_position_deletes(self) -> Mask:
        """Which files have position deletes or deletion vectors."""
        mask = np.zeros(len(self), np.bool_)
        mask[self.position_deletes[0]] = True
        return mask

    @cached_property
    def has_equality_deletes(self) -> Mask:
        """Which files have equality deletes."""
        return self._deletes.with_equality

    @cached_property
    def _deletes(self) -> _Deletes:
        # block by block: every equality delete may apply to every file, so the pairs of all files could exceed memory
        with_equality, index = np.zeros(len(self), np.bool_), self.plan.deletes
        if index is None:
            return _Deletes((_NOTHING, _NOTHING), with_equality, np.zeros(0, np.bool_))
        equality = np.zeros(len(index), np.bool_)
        file_indexes, delete_indexes = [_NOTHING], [_NOTHING]
        for first, chunk, within_chunk in self._blocks(self._indexes):
            offsets, deletes = self.plan.deletes_of(chunk, within_chunk)
            owner_indexes = np.repeat(np.arange(first, first + len(within_chunk)), np.diff(offsets))
            is_equality = index.deletes.kind[deletes] >= DeleteKind.EQUALITY
            with_equality[owner_indexes[is_equality]] = True
            equality[deletes[is_equality]] = True
            file_indexes.append(owner_indexes[~is_equality])
            delete_indexes.append(deletes[~is_equality])
        return _Deletes((np.concatenate(file_indexes), np.concatenate(delete_indexes)), with_equality, equality)

    @cached_property
    def live_rows(self) -> int:
        """An estimate of the rows that are not deleted: how many rows equality deletes delete is not known."""
        rows = int(np.maximum(self.record_counts, 0).sum())
        delete_indexes = np.unique(self.position_deletes[1])
        if self.plan.deletes is None or not delete_indexes.size:
            return rows
        return max(0, rows - int(self.plan.deletes.deletes.record_count[delete_indexes].sum()))

    # tasks -------------------------------------------------------------------------------------------------------

    def tasks(self, chosen: Mask | None = None) -> Iterator[FileTask]:
        """A task for each file, or for those that a mask selects."""
        for _, chunk, within_chunk in self._blocks(self._indexes if chosen is None else self._indexes[chosen]):
            yield from self.plan.some_tasks(chunk, within_chunk)

    def _blocks(self, indexes: Indexes) -> Iterator[tuple[int, int, Indexes]]:
        """Yield the files at some indexes in blocks: how many came before, their chunk, and their indexes within it."""
        begin = 0
        for chunk, files in enumerate(self.plan.chunks):
            low, high = np.searchsorted(indexes, [begin, begin + len(files)])
            within_chunk, size = indexes[low:high] - begin, self.plan.block(chunk)
            for start in range(0, len(within_chunk), size):
                yield int(low) + start, chunk, within_chunk[start : start + size]
            begin += len(files)


# Projection -----------------------------------------------------------------------------------------------------------


def project_schema(schema: Schema, spark_schema: SparkType, partition_type: StructType) -> Schema:
    """The columns and nested fields of a schema that a Spark schema names, in its order.

    Metadata columns are found by their names too. Raises `NoSuchColumn` for other names.

    >>> from floe.sql.columns import parse_columns
    >>> struct = {"type": "struct", "fields": [{"name": "b", "type": "string"}]}
    >>> columns = {"type": "struct", "fields": [{"name": "s", "type": struct}, {"name": "_pos", "type": "long"}]}
    >>> print(project_schema(parse_columns("id int, s struct<a: int, b: string>"), columns, StructType(())))
    table {
      2: s: optional struct<4: b: optional string>
      2147483645: _pos: required long (position of the row in its file, from 0)
    }
    """
    return Schema(tuple(_resolve_column(schema, field, partition_type) for field in spark_schema["fields"]))


def _resolve_column(schema: Schema, spark_field: SparkField, partition_type: StructType) -> Field:
    table_field = _find_field(schema.fields, spark_field["name"])
    if table_field is not None:
        return _prune_field(table_field, spark_field["type"])
    metadata_field = metadata_column(spark_field["name"], partition_type=partition_type)
    if metadata_field is None:
        raise NoSuchColumn(f"the table has no column {spark_field['name']!r}")
    return _prune_field(metadata_field, spark_field["type"])


def _find_field(fields: Iterable[Field], name: str) -> Field | None:
    return next((field for field in fields if field.name == name), None)


def _prune_field(field: Field, spark_type: SparkType) -> Field:
    return replace(field, type=_prune_type(field.type, spark_type))


def _prune_type(type_: Type, spark_type: Any) -> Type:
    if isinstance(spark_type, str):
        return type_
    match type_:
        case StructType():
            children = []
            for child in spark_type["fields"]:
                child_field = _find_field(type_.fields, child["name"])
                if child_field is None:
                    raise NoSuchColumn(f"there is no field {child['name']!r} in {type_}")
                children.append(_prune_field(child_field, child["type"]))
            return StructType(tuple(children))
        case ListType():
            return replace(type_, element=_prune_type(type_.element, spark_type["elementType"]))
        case MapType():
            key, value = (
                _prune_type(type_.key, spark_type["keyType"]),
                _prune_type(type_.value, spark_type["valueType"]),
            )
            return replace(type_, key=key, value=value)
        case _:
            return type_


# Access to files ------------------------------------------------------------------------------------------------------


def location_obstacle(jvm: Jvm, source: ScanSource) -> str | None:
    """Why Spark's Parquet reader cannot open the files of a table; None if it can.

    It needs a Hadoop file system on the class path for the scheme of the table's location.
    """
    location = actual_location(source.storage, source.table.location)
    scheme = parse(location).scheme
    if scheme == "file":
        return None
    try:
        hadoop = jvm.active_session().sessionState().newHadoopConf()
        jvm.java_class("org.apache.hadoop.fs.FileSystem").getFileSystemClass(location.partition(":")[0], hadoop)
    except Exception:
        return f"{scheme}: locations"
    return None
