"""The source of a read: a table at one snapshot, the options, the pushed predicates, the planned files, the projection.

| option | |
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
from floe.spark.names import NOW, AsOf
from floe.spark.read.filter_terms import Translated
from floe.spark.read.splits import actual_location, splits_for
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
class Source:
    """A table, as of some state, in the columns of that state."""

    name: str
    table: Table
    as_of: AsOf
    schema: Schema
    splits: Mapping[str, int] = field(default_factory=dict)
    """Of the settings of `floe.plan.tasks`, those that the read has itself."""

    since: int | None = None
    """Only what was appended after this snapshot is read, if there is one."""

    options: Mapping[str, str] = field(default_factory=dict)
    """All options of the read, by their names in small letters."""

    session: Mapping[str, str] = field(default_factory=dict)
    """The settings of Iceberg that the session had, by their full names."""

    all_deletes: bool = False
    """Whether files come with all of their deletes, also those that cannot matter to the rows that are asked for."""

    @property
    def key(self) -> Any:
        """What makes two sources the same."""
        return (self.table.uuid, self.table.metadata_location, self.as_of, self.since)

    @property
    def tells_aggregates(self) -> bool:
        """Whether counts, minima and maxima may be told from metadata."""
        return first_set((AGGREGATES, self.options), (SESSION_AGGREGATES, self.session), default=True)

    def split_settings(self, total: int, parallelism: int) -> SplitSettings:
        """How files of so many bytes are cut up for so many cores, as the read, the session and the table say."""
        properties = dict(self.table.metadata.properties)
        if SESSION_ADAPTIVE_SPLITS.is_set(self.session):
            properties[ADAPTIVE_SPLIT_SIZE.name] = self.session[SESSION_ADAPTIVE_SPLITS.name]
        return splits_for(properties, total, SESSION_PARALLELISM.read(self.session) or parallelism, self.splits)

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.table.storage

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None while the table has none."""
        return choose_snapshot(
            self.table.metadata,
            snapshot=self.as_of.snapshot_id,
            ref=self.as_of.ref,
            as_of_ms=self.as_of.timestamp_ms,
        )

    @cached_property
    def shipped_metadata(self) -> TableMetadata:
        """What a reader in an executor needs to know of the table."""
        return executor_metadata(self.table.metadata)

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may hold rows which pass a filter."""
        metadata, snapshot = self.table.metadata, self.snapshot
        options = ScanOptions(schema=self.schema, where=where, metrics=metrics)
        if self.since is not None:
            until = None if snapshot is None else snapshot.snapshot_id
            return plan_appends(metadata, self.storage, SnapshotRange(after=self.since, until=until), options=options)
        return plan_scan(metadata, self.storage, snapshot=snapshot, options=options, all_deletes=self.all_deletes)


def selects_whole_files(plan: ScanPlan) -> bool:
    """Whether all rows of all files of a plan pass its filter."""
    return all(bool((chunk.settled | plan.without_filter(chunk)).all()) for chunk in plan.chunks)


# What the options of a read say: which state of the table, which range of its history, how large the parts are.

_SPLITS = {"target_size": SPLIT_SIZE, "open_file_cost": FILE_OPEN_COST, "lookback": LOOKBACK}
_STATES = (SNAPSHOT_ID, READ_BRANCH, READ_TAG, AS_OF_TIMESTAMP, END_SNAPSHOT_ID)


def with_options(source: Source, given: Mapping[str, str], session: Mapping[str, str] = MappingProxyType({})) -> Source:
    """The source that a read with options reads, in a session with these settings of Iceberg."""
    check_read_options(given)
    as_of = state_of(given, source.as_of, source.name)
    source = replace(source, options=dict(given), as_of=as_of, session=session)
    if START_SNAPSHOT_ID.is_set(given):
        source = replace(source, since=START_SNAPSHOT_ID.read(given))
    elif END_SNAPSHOT_ID.is_set(given):
        raise InvalidInput(f"{END_SNAPSHOT_ID} is the end of a range, of which {START_SNAPSHOT_ID} is the beginning")
    splits = {name: size for name, option in _SPLITS.items() if (size := option.read(given)) is not None}
    if (size := SESSION_SPLIT_SIZE.read(session)) is not None:
        splits.setdefault("target_size", size)
    return replace(source, splits=splits)


def state_of(given: Mapping[str, str], named: AsOf, table: str) -> AsOf:
    """The state that a read with options reads, where a table's name says another one or none.

    >>> state_of({"tag": "eoy"}, AsOf(), "db.t").ref, state_of({}, AsOf(snapshot_id=7), "db.t").snapshot_id
    ('eoy', 7)
    """
    states = [option.name for option in _STATES if option.is_set(given)]
    if len(states) > 1 or (states and not named.is_now):
        raise InvalidInput(f"the state that is read is said twice: {', '.join(states)}", table=table)
    if not states:
        return named
    snapshot_id = SNAPSHOT_ID.read(given) if SNAPSHOT_ID.is_set(given) else END_SNAPSHOT_ID.read(given)
    return AsOf(snapshot_id, READ_BRANCH.read(given) or READ_TAG.read(given), AS_OF_TIMESTAMP.read(given))


def audited_state(jvm: Jvm, metadata: TableMetadata) -> AsOf:
    """The state that is read where nobody says one: that of `spark.wap.branch`, for those who audit what they wrote.

    It counts for tables with `write.wap.enabled`, and where the branch is there; all others are read as they are now.
    """
    if not WAP_ENABLED.read(metadata.properties):
        return NOW
    branch = jvm.setting(WAP_BRANCH.name, "")
    return AsOf(ref=branch) if branch in metadata.refs else NOW


# What a read has been told of the rows that are asked for.


@dataclass(frozen=True)
class Pushed:
    """Spark's predicates: as they are there, as trees, and what they mean."""

    array: Any
    """The `Predicate[]`; None while Spark has given none."""

    trees: Sequence[Node] = ()
    found: Sequence[Translated] = ()

    @cached_property
    def where(self) -> Expression:
        """A filter for the rows that pass all of them."""
        return and_(*(one.filter for one in self.found))

    @cached_property
    def places(self) -> list[int]:
        """Where those are that leave out something."""
        return [place for place, one in enumerate(self.found) if one.filter != TRUE]

    @property
    def is_exact(self) -> bool:
        """Whether the filter lets just these rows pass."""
        return bool(self.places) and all(one.exact for one in self.found)


NOTHING_PUSHED: Final = Pushed(None)

# The files of a plan that a scan reads: all of them, or those that one of its readers takes.

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


_NOTHING = np.zeros(0, np.int64)


class _Deletes(NamedTuple):
    """What is known of the deletes of some files."""

    positions: tuple[Places, Places]
    compared: Mask
    """Which of the files have deletes that compare columns."""

    comparing: Mask
    """Which of the plan's deletes these are."""


class PlannedFiles:
    """Some files of a plan, in its order, as columns and as tasks."""

    def __init__(self, plan: ScanPlan, table: pa.Table | None = None, places: Places | None = None) -> None:
        self.plan = plan
        self.table: pa.Table = plan.files_to_arrow() if table is None else table
        """The files as `ScanPlan.files_to_arrow` gives them."""

        self._places = np.arange(self.table.num_rows) if places is None else places

    def __len__(self) -> int:
        return int(self.table.num_rows)

    # choosing ----------------------------------------------------------------------------------------------------

    def keeping(self, kept: Mask) -> PlannedFiles:
        """Some of these."""
        if kept.all():
            return self
        return PlannedFiles(self.plan, self.table.filter(pa.array(kept)), self._places[kept])

    def among(self, paths: Collection[str], *, inside: bool = True) -> PlannedFiles:
        """Those with one of some paths, or those with none of them."""
        found = pc.is_in(self.table["file_path"], value_set=pa.array(paths, pa.string())).to_numpy()
        return self.keeping(found if inside else ~found)

    def first(self, rows: int | None) -> PlannedFiles:
        """As many as have so many rows."""
        if rows is None:
            return self
        counted = np.cumsum(np.maximum(self.record_counts, 0))
        return self.keeping(np.arange(len(self)) <= np.searchsorted(counted, rows))

    # what is known of each ---------------------------------------------------------------------------------------

    @property
    def record_counts(self) -> Places:
        """How many rows each has; -1 where nobody counted."""
        return np.asarray(self.table["record_count"].to_numpy())

    @property
    def partition_numbers(self) -> Places:
        """A number for the partition of each that deletes of the same partition have too; -1 if there are none."""
        numbers = [matched.partition for matched in self.plan.matched]
        return np.concatenate(numbers)[self._places] if numbers else np.full(len(self), -1)

    @cached_property
    def position_deletes(self) -> tuple[Places, Places]:
        """Pairs of a file and the number of a delete that names positions in it."""
        return self._deletes.positions

    @cached_property
    def equality_deletes(self) -> Places:
        """The numbers of the deletes that compare columns of one of the files at least."""
        return np.flatnonzero(self._deletes.comparing)

    @cached_property
    def with_positions(self) -> Mask:
        """Which files have deletes that name positions."""
        found = np.zeros(len(self), np.bool_)
        found[self.position_deletes[0]] = True
        return found

    @cached_property
    def with_keys(self) -> Mask:
        """Which files have deletes that compare columns."""
        return self._deletes.compared

    @cached_property
    def _deletes(self) -> _Deletes:
        """Looked at some files at a time: deletes that compare columns may all apply to all files."""
        compared, index = np.zeros(len(self), np.bool_), self.plan.deletes
        if index is None:
            return _Deletes((_NOTHING, _NOTHING), compared, np.zeros(0, np.bool_))
        comparing = np.zeros(len(index), np.bool_)
        files, numbers = [_NOTHING], [_NOTHING]
        for first, number, rows in self._blocks(self._places):
            offsets, deletes = self.plan.deletes_of(number, rows)
            owners = np.repeat(np.arange(first, first + len(rows)), np.diff(offsets))
            by_key = index.deletes.kind[deletes] >= DeleteKind.EQUALITY
            compared[owners[by_key]] = True
            comparing[deletes[by_key]] = True
            files.append(owners[~by_key])
            numbers.append(deletes[~by_key])
        return _Deletes((np.concatenate(files), np.concatenate(numbers)), compared, comparing)

    @cached_property
    def live_rows(self) -> int:
        """About how many rows are left of them; what equality deletes delete is not known."""
        rows = int(np.maximum(self.record_counts, 0).sum())
        numbers = np.unique(self.position_deletes[1])
        if self.plan.deletes is None or not numbers.size:
            return rows
        return max(0, rows - int(self.plan.deletes.deletes.record_count[numbers].sum()))

    # tasks -------------------------------------------------------------------------------------------------------

    def tasks(self, chosen: Mask | None = None) -> Iterator[FileTask]:
        """A task for each of them, or for some."""
        for _, number, rows in self._blocks(self._places if chosen is None else self._places[chosen]):
            yield from self.plan.some_tasks(number, rows)

    def _blocks(self, places: Places) -> Iterator[tuple[int, int, Places]]:
        """Some files after others: how many were before, the number of their chunk, and their places in it."""
        begin = 0
        for number, chunk in enumerate(self.plan.chunks):
            low, high = np.searchsorted(places, [begin, begin + len(chunk)])
            own, size = places[low:high] - begin, self.plan.block(number)
            for start in range(0, len(own), size):
                yield int(low) + start, number, own[start : start + size]
            begin += len(chunk)


# The columns that a query needs, as Spark says it by names, as a schema that says it by ids.


def projected(schema: Schema, wanted: SparkType, partition_type: StructType) -> Schema:
    """The part of a schema that a Spark schema names, nested parts too, in the order in which it does.

    >>> from floe.sql.columns import parse_columns
    >>> struct = {"type": "struct", "fields": [{"name": "b", "type": "string"}]}
    >>> wanted = {"type": "struct", "fields": [{"name": "s", "type": struct}, {"name": "_pos", "type": "long"}]}
    >>> print(projected(parse_columns("id int, s struct<a: int, b: string>"), wanted, StructType(())))
    table {
      2: s: optional struct<4: b: optional string>
      2147483645: _pos: required long (position of the row in its file, from 0)
    }
    """
    return Schema(tuple(_top_level(schema, field, partition_type) for field in wanted["fields"]))


def _top_level(schema: Schema, wanted: SparkField, partition_type: StructType) -> Field:
    own = _named(schema.fields, wanted["name"])
    if own is not None:
        return _narrowed(own, wanted["type"])
    found = metadata_column(wanted["name"], partition_type=partition_type)
    if found is None:
        raise NoSuchColumn(f"the table has no column {wanted['name']!r}")
    return _narrowed(found, wanted["type"])


def _named(fields: Iterable[Field], name: str) -> Field | None:
    return next((field for field in fields if field.name == name), None)


def _narrowed(field: Field, wanted: SparkType) -> Field:
    return replace(field, type=_type(field.type, wanted))


def _type(type_: Type, wanted: Any) -> Type:
    if isinstance(wanted, str):
        return type_
    match type_:
        case StructType():
            children = []
            for child in wanted["fields"]:
                found = _named(type_.fields, child["name"])
                if found is None:
                    raise NoSuchColumn(f"there is no field {child['name']!r} in {type_}")
                children.append(_narrowed(found, child["type"]))
            return StructType(tuple(children))
        case ListType():
            return replace(type_, element=_type(type_.element, wanted["elementType"]))
        case MapType():
            key, value = _type(type_.key, wanted["keyType"]), _type(type_.value, wanted["valueType"])
            return replace(type_, key=key, value=value)
        case _:
            return type_


# Whether Spark's own readers reach the files of a table.


def why_not_reachable(jvm: Jvm, source: Source) -> str | None:
    """A scheme that has no Hadoop file system on the class path is reached from Python."""
    location = actual_location(source.storage, source.table.location)
    scheme = parse(location).scheme
    if scheme == "file":
        return None
    try:
        hadoop = jvm.active_session().sessionState().newHadoopConf()
        jvm.named("org.apache.hadoop.fs.FileSystem").getFileSystemClass(location.partition(":")[0], hadoop)
    except Exception:
        return f"{scheme}: locations"
    return None
