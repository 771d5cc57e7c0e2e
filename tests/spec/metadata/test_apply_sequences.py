"""Sequences of updates: those that Java made, random ones, and what PyIceberg makes of the same."""

import json
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableUpdate as PyIcebergUpdate, update_table_metadata

from floe.errors import FloeError
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.metadata_checks import check_for_writing
from floe.spec.metadata.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata
from floe.spec.metadata.table_metadata_json import metadata_to_json, parse, serialize
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssignUuid,
    RemovePartitionSpecs,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    TableUpdate,
    UpgradeFormatVersion,
    updates_from_json,
    updates_to_json,
)
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortField, SortOrder
from floe.spec.types import LONG, Field
from helpers.corpus import metadata_files, table_names
from helpers.metadata_samples import MINUTE_MS, START_MS, UUID, branch, commit, snapshot, table, tag

# what Java did ----------------------------------------------------------------------------------------------------


def updates_between(old: TableMetadata, new: TableMetadata) -> list[TableUpdate]:
    """The updates that a writer must have made, from what differs between two metadata files."""
    updates: list[TableUpdate] = []
    if old.table_uuid != new.table_uuid:
        updates.append(AssignUuid(new.table_uuid))
    if old.format_version != new.format_version:
        updates.append(UpgradeFormatVersion(new.format_version))
    updates += [AddSchema(s, new.last_column_id) for s in new.schemas if s.schema_id not in old.schemas_by_id]
    if old.current_schema_id != new.current_schema_id:
        updates.append(SetCurrentSchema(new.current_schema_id))
    updates += [AddPartitionSpec(s) for s in new.partition_specs if s.spec_id not in old.specs_by_id]
    if old.default_spec_id != new.default_spec_id:
        updates.append(SetDefaultSpec(new.default_spec_id))
    updates += [AddSortOrder(o) for o in new.sort_orders if o not in old.sort_orders]
    if old.default_sort_order_id != new.default_sort_order_id:
        updates.append(SetDefaultSortOrder(new.default_sort_order_id))
    updates += [AddSnapshot(s) for s in new.snapshots if s.snapshot_id not in old.snapshots_by_id]
    gone = tuple(i for i in old.snapshots_by_id if i not in new.snapshots_by_id)
    updates += [
        RemoveSnapshotRef(n) for n, ref in old.refs.items() if n not in new.refs and ref.snapshot_id not in gone
    ]
    updates += [SetSnapshotRef(n, ref) for n, ref in new.refs.items() if old.refs.get(n) != ref]
    if gone:
        updates.append(RemoveSnapshots(gone))
    if old.location != new.location:
        updates.append(SetLocation(new.location))
    updates.append(SetProperties({k: v for k, v in new.properties.items() if old.properties.get(k) != v}))
    updates.append(RemoveProperties(tuple(k for k in old.properties if k not in new.properties)))
    updates += [SetStatistics(s) for s in new.statistics if s not in old.statistics]
    updates += [SetPartitionStatistics(s) for s in new.partition_statistics if s not in old.partition_statistics]
    return updates


def in_order(metadata: TableMetadata) -> TableMetadata:
    """Java keeps statistics in a hash map, whose order means nothing."""
    files = sorted(metadata.partition_statistics, key=lambda s: s.snapshot_id)
    return replace(metadata, partition_statistics=tuple(files))


def test_every_commit_that_java_made_is_made_again(corpus_dir: Path):
    """Each metadata file of the corpus is exactly what its updates make of the file before it."""
    actions: set[str] = set()
    commits = 0
    for name in table_names(without=("invalid", "odd", "view")):
        files = {int(re.findall(r"\d+", path.name)[0]): path for path in metadata_files(corpus_dir, name)}
        for number, path in files.items():
            java = parse(path.read_bytes())
            previous = files.get(number - 1)
            if previous is None or not java.metadata_log:
                continue
            location = java.metadata_log[-1].metadata_file
            assert location.endswith(previous.name)
            old = parse(previous.read_bytes())
            updates = updates_between(old, java)
            made = apply(old, updates, now_ms=java.last_updated_ms, metadata_location=location)
            assert in_order(made) == in_order(java), (name, path.name)
            actions.update(update.action for update in updates)
            commits += 1
    assert commits > 500
    assert len(actions) >= 14


# random sequences -------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """Makes updates that fit a table as it stands, and keeps track of how it stands after each."""

    draw: Any
    metadata: TableMetadata
    now_ms: int
    updates: list[TableUpdate] = field(default_factory=list)
    ids: int = 0

    def make(self, *updates: TableUpdate) -> None:
        self.metadata = apply(self.metadata, updates, now_ms=self.now_ms)
        self.updates += updates

    def choose(self, items):
        return self.draw(st.sampled_from(sorted(items, key=str)))

    def new_snapshot(self, parent: int | None):
        self.ids += 1
        rows = self.draw(st.integers(0, 100))
        lineage = {"added_rows": rows} if self.metadata.format_version >= 3 else {}
        when = self.now_ms - self.draw(st.integers(0, MINUTE_MS // 2))
        used = {s.snapshot_id for s in self.metadata.snapshots} | {
            s.parent_snapshot_id for s in self.metadata.snapshots
        }
        while self.ids in used:
            self.ids += 1
        return snapshot(self.metadata, self.ids, parent_snapshot_id=parent, timestamp_ms=when, **lineage)

    def commit(self):
        name = self.choose(["main", "main", "audit", "test"])
        head = self.metadata.refs.get(name)
        if head is not None and head.is_tag:
            return
        new = self.new_snapshot(head.snapshot_id if head else self.metadata.current_snapshot_id)
        self.make(AddSnapshot(new), SetSnapshotRef(name, branch(new.snapshot_id)))

    def stage(self):
        self.make(AddSnapshot(self.new_snapshot(self.metadata.current_snapshot_id)))

    def move_ref(self):
        if self.metadata.snapshots:
            snapshot_id = self.choose(self.metadata.snapshots_by_id)
            name = self.choose(["main", "audit", "test"])
            self.make(SetSnapshotRef(name, branch(snapshot_id, min_snapshots_to_keep=self.draw(st.integers(1, 3)))))

    def tag(self):
        if self.metadata.snapshots:
            self.make(SetSnapshotRef(self.choose(["v1", "v2"]), tag(self.choose(self.metadata.snapshots_by_id))))

    def drop_ref(self):
        self.make(RemoveSnapshotRef(self.choose([*self.metadata.refs, "none"])))

    def expire(self):
        known = sorted(self.metadata.snapshots_by_id)
        if known:
            self.make(RemoveSnapshots(tuple(self.draw(st.lists(st.sampled_from(known), max_size=3)))))

    def expire_what_is_gone(self):
        self.make(RemoveSnapshots((10**6,)))

    def add_column(self):
        new_id = self.metadata.last_column_id + 1
        columns = (*self.metadata.schema.fields, Field(new_id, f"c{new_id}", LONG))
        next_id = max(s.schema_id for s in self.metadata.schemas) + 1
        self.make(AddSchema(Schema(columns, next_id)), SetCurrentSchema(next_id))

    def set_schema(self):
        self.make(SetCurrentSchema(self.choose(self.metadata.schemas_by_id)))

    def add_spec(self):
        buckets = self.draw(st.integers(1, 50))
        next_id = max(s.spec_id for s in self.metadata.partition_specs) + 1
        first = 1000 if self.metadata.format_version == 1 else self.metadata.last_partition_id + 1
        new = PartitionSpec((PartitionField((1,), first, f"id_{buckets}", Bucket(buckets)),), next_id)
        if not any(new.compatible_with(known) for known in self.metadata.partition_specs):
            self.make(AddPartitionSpec(new), SetDefaultSpec(next_id))

    def add_order(self):
        fields = (SortField((self.draw(st.integers(1, 3)),), IDENTITY),)
        if all(order.fields != fields for order in self.metadata.sort_orders):
            next_id = max(o.order_id for o in self.metadata.sort_orders) + 1
            self.make(AddSortOrder(SortOrder(fields, next_id)), SetDefaultSortOrder(next_id))

    def drop_spec(self):
        self.make(
            RemovePartitionSpecs(tuple(i for i in self.metadata.specs_by_id if i != self.metadata.default_spec_id))
        )

    def drop_schemas(self):
        used = {s.schema_id for s in self.metadata.snapshots} | {self.metadata.current_schema_id}
        self.make(RemoveSchemas(tuple(i for i in self.metadata.schemas_by_id if i not in used)))

    def set_statistics(self):
        if self.metadata.snapshots:
            snapshot_id = self.choose(self.metadata.snapshots_by_id)
            path = f"s3://b/{self.draw(st.integers(0, 9))}"
            self.make(
                SetStatistics(
                    StatisticsFile(
                        snapshot_id=snapshot_id,
                        statistics_path=path,
                        file_size_in_bytes=1,
                        file_footer_size_in_bytes=1,
                        blob_metadata=(),
                    )
                ),
                SetPartitionStatistics(
                    PartitionStatisticsFile(snapshot_id=snapshot_id, statistics_path=path, file_size_in_bytes=1)
                ),
            )

    def drop_statistics(self):
        if self.metadata.statistics:
            self.make(RemoveStatistics(self.choose({s.snapshot_id for s in self.metadata.statistics})))

    def set_property(self):
        self.make(SetProperties({self.choose("abc"): self.choose("xyz")}))

    def drop_property(self):
        if self.metadata.properties:
            self.make(RemoveProperties((self.choose(self.metadata.properties),)))

    def move(self):
        self.make(SetLocation(f"s3://bucket/{self.draw(st.integers(0, 3))}"))

    def upgrade(self):
        self.make(UpgradeFormatVersion(min(3, self.metadata.format_version + 1)))


def starting_table(draw, version: int) -> TableMetadata:
    """An empty table, or one with a history, a tag and statistics."""
    metadata = table(version)
    if draw(st.booleans()):
        for number in (101, 102, 103):
            metadata = commit(metadata, number)
        writer = Writer(draw, metadata, metadata.last_updated_ms)
        writer.make(SetSnapshotRef("v1", tag(102)))
        writer.set_statistics()
        writer.add_column()
        metadata = writer.metadata
    return metadata


ALL_STEPS = [
    Writer.commit,
    Writer.commit,
    Writer.stage,
    Writer.move_ref,
    Writer.tag,
    Writer.drop_ref,
    Writer.expire,
    Writer.expire_what_is_gone,
    Writer.add_column,
    Writer.set_schema,
    Writer.add_spec,
    Writer.add_order,
    Writer.drop_spec,
    Writer.drop_schemas,
    Writer.set_statistics,
    Writer.drop_statistics,
    Writer.set_property,
    Writer.drop_property,
    Writer.move,
    Writer.upgrade,
]


def check_invariants(before: TableMetadata, after: TableMetadata) -> None:
    check_for_writing(after)
    assert parse(serialize(after)) == after
    assert after.table_uuid == before.table_uuid == UUID
    for grows in ("format_version", "last_column_id", "last_partition_id", "last_sequence_number"):
        assert getattr(after, grows) >= getattr(before, grows)
    assert (after.next_row_id or 0) >= (before.next_row_id or 0)
    assert after.current_snapshot_id == (after.refs["main"].snapshot_id if "main" in after.refs else None)
    assert {ref.snapshot_id for ref in after.refs.values()} <= after.snapshots_by_id.keys()
    assert {s.snapshot_id for s in (*after.statistics, *after.partition_statistics)} <= after.snapshots_by_id.keys()
    logged = [entry.snapshot_id for entry in after.snapshot_log]
    assert set(logged) <= after.snapshots_by_id.keys()
    if after.current_snapshot_id is not None:
        assert logged[-1] == after.current_snapshot_id
    assert all(s.sequence_number <= after.last_sequence_number for s in after.snapshots)
    ranges = sorted(
        (s.first_row_id, s.first_row_id + s.added_rows) for s in after.snapshots if s.first_row_id is not None
    )
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges)), "no row id twice"


@settings(max_examples=100)
@given(st.data(), st.integers(1, 3))
def test_random_sequences_keep_all_invariants(data, version):
    metadata = starting_table(data.draw, version)
    ids = 0
    for n in range(data.draw(st.integers(1, 8))):
        now = metadata.last_updated_ms + data.draw(st.integers(0, 10 * MINUTE_MS))
        writer = Writer(data.draw, metadata, now, ids=ids)
        for step in data.draw(st.lists(st.sampled_from(ALL_STEPS), min_size=1, max_size=3)):
            step(writer)
        ids = writer.ids
        untouched = serialize(metadata)
        updates = updates_from_json(json.loads(json.dumps(updates_to_json(writer.updates))))
        after = apply(metadata, updates, now_ms=now, metadata_location=f"s3://b/{n}.json")
        assert serialize(metadata) == untouched
        check_invariants(metadata, after)
        # One change of many updates ends where many changes of one do, but for what the logs have seen.
        logs = {"snapshot_log": (), "metadata_log": (), "last_updated_ms": 0}
        assert replace(after, **logs) == replace(writer.metadata, **logs)
        assert len(after.snapshot_log) <= len(metadata.snapshot_log) + 1
        metadata = after


@settings(max_examples=150)
@given(st.data())
def test_updates_that_do_not_fit_are_refused_and_nothing_else(data):
    """Updates made for one table, applied to another: an error of ours, or metadata that is fit to be written."""
    wrong, other = (
        Writer(data.draw, starting_table(data.draw, data.draw(st.integers(1, 3))), START_MS + MINUTE_MS)
        for _ in range(2)
    )
    for writer in (wrong, other):
        for step in data.draw(st.lists(st.sampled_from(ALL_STEPS), max_size=6)):
            step(writer)
    updates = data.draw(st.permutations(wrong.updates))
    try:
        after = apply(other.metadata, updates, now_ms=other.now_ms)
    except FloeError:
        return
    check_invariants(other.metadata, after)


# PyIceberg --------------------------------------------------------------------------------------------------------

SHARED_STEPS = [step for step in ALL_STEPS if step not in (Writer.upgrade, Writer.expire_what_is_gone)]
"""All but what PyIceberg 0.12 refuses: to write format version 3, and to remove what is not there."""


def pyiceberg_apply(metadata: TableMetadata, updates: list[TableUpdate], *, with_log: bool = False) -> TableMetadata:
    base = TableMetadataUtil.parse_obj(metadata_to_json(metadata))
    theirs = TypeAdapter(list[PyIcebergUpdate]).validate_python(updates_to_json(updates))
    document = json.loads(update_table_metadata(base, tuple(theirs)).model_dump_json())
    if not with_log:
        del document["snapshot-log"]
    return parse(json.dumps(document).encode())


def comparable(metadata: TableMetadata) -> TableMetadata:
    """Without what differs on purpose.

    * `last-updated-ms`: theirs is the time of the last snapshot, or of the machine's clock.
    * the snapshot log: theirs takes the time of a rollback from the machine's clock, logs what was current only between
      two updates, logs a change of retention as a change of snapshot, and loses only the entries of expired snapshots,
      not those before them.
    * parents: theirs forgets the parent of a snapshot whose parent expires; Java and we keep it.
    * partition statistics: theirs keeps those of snapshots that are gone.
    """
    kept = metadata.snapshots_by_id
    return replace(
        metadata,
        last_updated_ms=0,
        snapshot_log=(),
        snapshots=tuple(
            type(s)(
                **{
                    name: getattr(s, name)
                    for name in s.__struct_fields__
                    if name not in ("extra", "parent_snapshot_id")
                }
            )
            for s in metadata.snapshots
        ),
        partition_statistics=tuple(s for s in metadata.partition_statistics if s.snapshot_id in kept),
    )


@settings(max_examples=100)
@given(st.data(), st.integers(1, 2))
def test_pyiceberg_makes_the_same_of_the_same_updates(data, version):
    metadata = starting_table(data.draw, version)
    writer = Writer(data.draw, metadata, metadata.last_updated_ms + 1000)
    for step in data.draw(st.lists(st.sampled_from(SHARED_STEPS), min_size=1, max_size=8)):
        step(writer)
    ours = apply(metadata, writer.updates, now_ms=writer.now_ms)
    assert comparable(pyiceberg_apply(metadata, writer.updates)) == comparable(ours)


def test_pyiceberg_logs_the_same_for_one_commit():
    metadata = table()
    for number in (1, 2):
        new = snapshot(metadata, number)
        updates = [AddSnapshot(new), SetSnapshotRef("main", branch(number))]
        theirs = pyiceberg_apply(metadata, updates, with_log=True)
        metadata = apply(metadata, updates, now_ms=new.timestamp_ms)
        assert theirs == metadata


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_keeps_the_same_metadata_log(version):
    metadata = table(version, properties={"write.metadata.previous-versions-max": "2"})
    theirs = TableMetadataUtil.parse_obj(metadata_to_json(metadata))
    for n in range(4):
        update = SetProperties({"n": str(n)})
        adapted = TypeAdapter(list[PyIcebergUpdate]).validate_python(updates_to_json([update]))
        theirs = update_table_metadata(theirs, tuple(adapted), metadata_location=f"s3://b/{n}")
        metadata = apply(metadata, [update], now_ms=metadata.last_updated_ms, metadata_location=f"s3://b/{n}")
    assert [e.metadata_file for e in metadata.metadata_log] == [e.metadata_file for e in theirs.metadata_log]
