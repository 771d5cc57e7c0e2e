"""Applying updates: what each one changes, and why some cannot be applied."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from floe.errors import CommitConflict, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.metadata_checks import check_for_writing
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import EncryptionKey, PartitionStatisticsFile, StatisticsFile
from floe.spec.metadata.table_metadata_json import serialize
from floe.spec.metadata.updates import (
    LAST_ADDED,
    AddEncryptionKey,
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
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
    UpgradeFormatVersion,
)
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, VOID, Bucket
from floe.spec.properties import RESERVED_PROPERTIES
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID, Schema
from floe.spec.sort_order import UNSORTED, SortField, SortOrder
from floe.spec.types import DOUBLE, INT, LONG, STRING, TIMESTAMP_NS, Field
from floe.spec.views.view_updates import SetCurrentViewVersion
from helpers.metadata_samples import (
    BY_BUCKET,
    BY_DAY,
    LOCATION,
    MINUTE_MS,
    OTHER_UUID,
    SCHEMA,
    START_MS,
    UUID,
    branch,
    changed,
    commit,
    snapshot,
    table,
    tag,
)

WIDER = Schema((*SCHEMA.fields, Field(4, "x", DOUBLE)))
BY_NAME = SortOrder((SortField((3,), IDENTITY),), 1)


def refused(metadata, *updates, match, error=InvalidUpdate):
    before = metadata and serialize(metadata)
    with pytest.raises(error, match=match):
        changed(metadata, *updates)
    assert (metadata and serialize(metadata)) == before


def history(metadata):
    return [(entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log]


# the whole --------------------------------------------------------------------------------------------------------


def test_updates_that_change_nothing_give_the_same_metadata():
    metadata = commit(table(properties={"a": "1"}), 1)
    same = apply(
        metadata,
        [
            AssignUuid(UUID.upper()),
            UpgradeFormatVersion(2),
            AddSchema(SCHEMA),
            SetCurrentSchema(0),
            AddPartitionSpec(BY_DAY),
            SetDefaultSpec(0),
            AddSortOrder(UNSORTED),
            SetDefaultSortOrder(0),
            SetSnapshotRef("main", branch(1)),
            RemoveSnapshots((7,)),
            RemoveSnapshotRef("nobody"),
            SetLocation(LOCATION + "/"),
            SetProperties({"a": "1"}),
            SetProperties({}),
            RemoveProperties(("b",)),
            RemoveStatistics(1),
            RemovePartitionStatistics(1),
            RemovePartitionSpecs((9,)),
            RemoveSchemas((9,)),
        ],
        now_ms=START_MS + 10**6,
        metadata_location="s3://bucket/old.json",
    )
    assert same is metadata


def test_the_given_metadata_is_never_changed():
    metadata = commit(commit(table(3, properties={"a": "1"}), 1), 2)
    before = copy.deepcopy(metadata)
    changed(
        metadata,
        AddSchema(WIDER),
        SetCurrentSchema(),
        SetProperties({"b": "2"}),
        RemoveProperties(("a",)),
        SetSnapshotRef("t", tag(1)),
        RemoveSnapshots((1,)),
        AddSnapshot(snapshot(metadata, 3)),
        SetSnapshotRef("main", branch(3)),
    )
    assert metadata == before
    assert metadata.properties == {"a": "1"}
    assert set(metadata.refs) == {"main"}


def test_an_update_that_cannot_be_applied_is_named():
    with pytest.raises(InvalidUpdate, match=r"update: set-current-schema, number 1"):
        changed(table(), SetLocation("s3://b/u"), SetCurrentSchema(8))


def test_what_is_no_update_of_a_table_is_refused():
    refused(table(), SetCurrentViewVersion(1), match="update number 0 is not one of a table: SetCurrentViewVersion")


def test_a_broken_rule_of_a_part_is_an_invalid_update():
    ns = Schema((Field(1, "t", TIMESTAMP_NS),))
    refused(table(), AddSchema(ns), match=r"needs format version 3.*upgrade")
    refused(
        table(), AddPartitionSpec(PartitionSpec((PartitionField((9,), 1001, "p", DAY),))), match="no field with id 9"
    )
    refused(table(), AddSortOrder(SortOrder((SortField((9,), IDENTITY),), 1)), match="9")


def test_the_outcome_passes_the_checks_for_writing():
    check_for_writing(commit(commit(table(3), 1), 2, to="audit"))


def test_unknown_keys_of_the_table_stay():
    metadata = replace(table(), extra={"colour": "blue"})
    assert changed(metadata, SetProperties({"a": "1"})).extra == {"colour": "blue"}


# time and the metadata log ----------------------------------------------------------------------------------------


def test_last_updated_ms_is_the_time_of_the_change():
    assert changed(table(), SetProperties({"a": "1"}), now_ms=START_MS + 77).last_updated_ms == START_MS + 77


def test_metadata_log_gets_the_previous_file_with_its_own_time():
    metadata = table()
    after = apply(metadata, [SetProperties({"a": "1"})], now_ms=START_MS + 5, metadata_location="s3://b/v1.json")
    assert [(e.timestamp_ms, e.metadata_file) for e in after.metadata_log] == [(START_MS, "s3://b/v1.json")]
    assert changed(after, SetProperties({"a": "2"})).metadata_log == after.metadata_log, "no file, no entry"


@pytest.mark.parametrize(("limit", "kept"), [("3", 3), ("1", 1), ("0", 1), ("-5", 1), (None, 100)])
def test_metadata_log_is_bounded_by_previous_versions_max(limit, kept):
    metadata = table(properties={} if limit is None else {"write.metadata.previous-versions-max": limit})
    for n in range(105):
        metadata = apply(
            metadata, [SetProperties({"n": str(n)})], now_ms=START_MS + n, metadata_location=f"s3://b/{n}.json"
        )
    assert [e.metadata_file for e in metadata.metadata_log] == [f"s3://b/{n}.json" for n in range(105 - kept, 105)]


def test_metadata_log_is_cut_by_a_limit_set_in_the_same_change():
    metadata = table()
    for n in range(5):
        metadata = apply(metadata, [SetProperties({"n": str(n)})], now_ms=START_MS, metadata_location=f"{n}")
    limit = SetProperties({"write.metadata.previous-versions-max": "2"})
    after = apply(metadata, [limit], now_ms=START_MS, metadata_location="5")
    assert [e.metadata_file for e in after.metadata_log] == ["4", "5"]


def test_metadata_log_limit_must_be_a_number():
    metadata = table(properties={"write.metadata.previous-versions-max": "few"})
    with pytest.raises(InvalidUpdate, match="must be a whole number, found 'few'"):
        apply(metadata, [SetProperties({"a": "1"})], now_ms=START_MS, metadata_location="x")
    fixed = apply(
        metadata,
        [RemoveProperties(("write.metadata.previous-versions-max",))],
        now_ms=START_MS,
        metadata_location="x",
    )
    assert len(fixed.metadata_log) == 1


def test_a_clock_may_be_a_minute_behind_but_not_more():
    metadata = commit(table(), 1)
    last = metadata.snapshot_log[-1].timestamp_ms
    assert changed(metadata, SetProperties({"a": "1"}), now_ms=last - MINUTE_MS)
    with pytest.raises(InvalidUpdate, match="clock"):
        changed(metadata, SetProperties({"a": "1"}), now_ms=last - MINUTE_MS - 1)
    empty = table()
    with pytest.raises(InvalidUpdate, match="clock"):
        apply(empty, [SetProperties({"a": "1"})], now_ms=START_MS - MINUTE_MS - 1, metadata_location="x")


# identity, version, location, properties --------------------------------------------------------------------------


def test_assign_uuid_once():
    old = replace(table(1), table_uuid=None)
    assert changed(old, AssignUuid(UUID)).table_uuid == UUID
    refused(table(), AssignUuid(OTHER_UUID), match=f"has uuid {UUID} and cannot become {OTHER_UUID}")
    refused(old, AssignUuid("not-a-uuid"), match="'not-a-uuid' is not a uuid")


def test_a_table_without_uuid_gets_one_with_any_change():
    old = replace(table(1), table_uuid=None)
    assert apply(old, [SetProperties({"a": "1"})], now_ms=START_MS, new_uuid=UUID).table_uuid == UUID
    assert apply(old, [], now_ms=START_MS, new_uuid=UUID) is old
    assert apply(table(), [SetProperties({"a": "1"})], now_ms=START_MS, new_uuid=OTHER_UUID).table_uuid == UUID


def test_upgrade_format_version():
    after = changed(table(1), UpgradeFormatVersion(3))
    assert (after.format_version, after.next_row_id, after.last_sequence_number) == (3, 0, 0)
    refused(table(3), UpgradeFormatVersion(2), match="cannot go back from format version 3 to 2")
    refused(table(3), UpgradeFormatVersion(4), match="version 4 is not supported", error=UnsupportedFeature)


def test_upgrade_needs_a_uuid():
    old = replace(table(1), table_uuid=None)
    refused(old, UpgradeFormatVersion(2), match="would have no uuid")
    assert changed(old, UpgradeFormatVersion(2), AssignUuid(UUID)).table_uuid == UUID
    assert apply(old, [UpgradeFormatVersion(2)], now_ms=START_MS, new_uuid=UUID).table_uuid == UUID


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("s3://bucket/new", "s3://bucket/new"),
        ("s3://bucket/new///", "s3://bucket/new"),
        ("file:///", "file://"),
        ("/", "/"),
    ],
)
def test_set_location_without_trailing_slash(given, stored):
    assert changed(table(), SetLocation(given)).location == stored


def test_set_location_must_not_be_empty():
    refused(table(), SetLocation(""), match="location must not be empty")


def test_set_and_remove_properties():
    metadata = table(properties={"a": "1", "b": "2"})
    after = changed(metadata, SetProperties({"b": "3", "c": "4"}), RemoveProperties(("a", "nothing")))
    assert after.properties == {"b": "3", "c": "4"}


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES - {"format-version"}))
def test_reserved_properties_are_not_stored(name):
    metadata = table()
    assert changed(metadata, SetProperties({name: "7"})) is metadata


def test_the_format_version_property_upgrades_the_table():
    after = changed(table(), SetProperties({"format-version": "3", "a": "1"}))
    assert (after.format_version, after.properties) == (3, {"a": "1"})
    refused(table(), SetProperties({"format-version": "1"}), match="cannot go back")
    refused(table(), SetProperties({"format-version": "three"}), match="must be a whole number, found 'three'")


def test_encryption_properties_need_format_version_3():
    refused(table(), SetProperties({"encryption.key-id": "k"}), match="needs format version 3")
    assert changed(table(), SetProperties({"encryption.key-id": "k"}), UpgradeFormatVersion(3)).format_version == 3
    assert changed(table(3), SetProperties({"encryption.data-key-length": "16"}))


# schemas ----------------------------------------------------------------------------------------------------------


def test_add_schema_gets_the_next_id_whatever_id_it_has():
    after = changed(table(), AddSchema(WIDER.with_id(77)))
    assert [s.schema_id for s in after.schemas] == [0, 1]
    assert after.schemas[1].same_columns(WIDER)
    assert (after.last_column_id, after.current_schema_id) == (4, 0)


def test_add_schema_of_equal_columns_reuses_its_id():
    metadata = changed(table(), AddSchema(WIDER), SetCurrentSchema())
    back = changed(metadata, AddSchema(SCHEMA.with_id(9)), SetCurrentSchema(LAST_ADDED))
    assert (back.schemas, back.current_schema_id) == (metadata.schemas, 0)


def test_add_schema_never_lowers_the_last_column_id():
    narrow = Schema((SCHEMA.fields[0],))
    assert changed(table(), AddSchema(narrow)).last_column_id == 3
    assert changed(table(), AddSchema(narrow, last_column_id=2)).last_column_id == 3
    assert changed(table(), AddSchema(narrow, last_column_id=8)).last_column_id == 8
    assert changed(table(), AddSchema(SCHEMA, last_column_id=8)).last_column_id == 8, "columns added and dropped again"
    refused(table(), AddSchema(SCHEMA, last_column_id=MAX_TABLE_FIELD_ID + 1), match="above")


def test_add_schema_does_not_reuse_an_id_that_a_snapshot_names():
    """Readers find a snapshot's schema by id, so an id that is gone must not come to mean another schema."""
    metadata = commit(table(), 1)
    metadata = replace(metadata, schemas=(SCHEMA.with_id(2),), current_schema_id=2)
    orphan = snapshot(metadata, 2, schema_id=5)
    metadata = replace(metadata, snapshots=(orphan,), refs={}, current_snapshot_id=None, last_sequence_number=9)
    after = changed(metadata, AddSchema(WIDER), RemoveSnapshots((2,)))
    assert [s.schema_id for s in after.schemas] == [2, 6]


def test_set_current_schema():
    metadata = changed(table(), AddSchema(WIDER))
    assert changed(metadata, SetCurrentSchema(1)).schema.same_columns(WIDER)
    refused(metadata, SetCurrentSchema(2), match="no schema with id 2")
    refused(metadata, SetCurrentSchema(LAST_ADDED), match="the last added schema .* but no schema was added")


def test_set_current_schema_must_keep_what_the_default_spec_and_sort_order_need():
    without_ts = Schema((SCHEMA.fields[0], SCHEMA.fields[2]))
    refused(table(), AddSchema(without_ts), SetCurrentSchema(), match=r"invalid: \$\.partition-specs: .*ts_day")
    metadata = changed(table(), AddSortOrder(BY_NAME), SetDefaultSortOrder())
    without_name = Schema(SCHEMA.fields[:2])
    refused(metadata, AddSchema(without_name), SetCurrentSchema(), match=r"invalid: \$\.sort-orders")


def test_remove_schemas():
    metadata = changed(table(), AddSchema(WIDER), SetCurrentSchema())
    assert [s.schema_id for s in changed(metadata, RemoveSchemas((0, 5))).schemas] == [1]
    refused(metadata, RemoveSchemas((0, 1)), match="schema 1 cannot be removed: it is the current one")
    added = changed(metadata, RemoveSchemas((0,)), AddSchema(Schema((Field(5, "y", INT),))))
    assert [s.schema_id for s in added.schemas] == [1, 2]
    other = Schema((Field(5, "y", INT),))
    refused(metadata, AddSchema(other), RemoveSchemas((2,)), SetCurrentSchema(), match="no schema was added")


def test_remove_schemas_refuses_those_of_snapshots():
    metadata = changed(commit(table(), 1), AddSchema(WIDER), SetCurrentSchema())
    refused(metadata, RemoveSchemas((0,)), match="snapshot 1 was written with it")
    assert changed(metadata, RemoveSchemas((0,)), RemoveSnapshots((1,))).schemas == (WIDER.with_id(1),)


# partition specs --------------------------------------------------------------------------------------------------


def test_add_spec_gets_the_next_id_and_raises_the_last_partition_id():
    after = changed(table(), AddPartitionSpec(BY_BUCKET.with_id(50)), SetDefaultSpec())
    assert [s.spec_id for s in after.partition_specs] == [0, 1]
    assert (after.default_spec_id, after.last_partition_id) == (1, 1001)


def test_add_spec_equivalent_to_another_reuses_it():
    metadata = changed(table(), AddPartitionSpec(BY_BUCKET), SetDefaultSpec())
    same = PartitionSpec((replace(BY_DAY.fields[0], field_id=1234),))
    after = changed(metadata, AddPartitionSpec(same), SetDefaultSpec())
    assert (after.partition_specs, after.default_spec_id) == (metadata.partition_specs, 0)
    assert after.last_partition_id == 1001


def test_add_spec_under_other_names_is_another_spec():
    renamed = PartitionSpec((replace(BY_DAY.fields[0], name="day"),))
    after = changed(table(), AddPartitionSpec(renamed), SetDefaultSpec())
    assert [f.field_id for s in after.partition_specs for f in s.fields] == [1000, 1000]


def test_add_spec_without_field_ids_reuses_and_counts_on():
    fields = (PartitionField((1,), 1000, "id_bucket", Bucket(4)), PartitionField((2,), 1001, "day", DAY))
    after = changed(table(), AddPartitionSpec(PartitionSpec(fields), assign_field_ids=True), SetDefaultSpec())
    assert [(f.name, f.field_id) for f in after.spec.fields] == [("id_bucket", 1001), ("day", 1000)]
    assert after.last_partition_id == 1001


def test_add_spec_refuses_a_field_id_that_means_something_else():
    clash = PartitionSpec((PartitionField((1,), 1000, "id_bucket", Bucket(4)),))
    refused(table(), AddPartitionSpec(clash), match="1000 of 'id_bucket' means 1000: ts_day: day")


def test_add_spec_with_an_id_that_old_v1_specs_used_for_different_fields():
    """Old v1 writers numbered the fields of every spec anew; either meaning of an id is then the right one."""
    reused = PartitionSpec((PartitionField((1,), 1000, "id_bucket", Bucket(4)),))
    metadata = changed(table(1), AddPartitionSpec(reused), SetDefaultSpec(), UpgradeFormatVersion(2))
    renamed = PartitionSpec((replace(BY_DAY.fields[0], name="d"),))
    assert changed(metadata, AddPartitionSpec(renamed), SetDefaultSpec()).spec.fields[0].field_id == 1000
    hourly = PartitionSpec((PartitionField((2,), 1000, "ts_hour", HOUR),))
    refused(metadata, AddPartitionSpec(hourly), match="1000 of 'ts_hour' means")
    void = PartitionSpec((replace(BY_DAY.fields[0], transform=VOID),))
    assert changed(metadata, AddPartitionSpec(void), SetDefaultSpec()).default_spec_id == 2


def test_add_spec_in_v1_has_sequential_ids():
    hourly = PartitionSpec((PartitionField((2,), 1000, "ts_hour", HOUR),))
    assert changed(table(1), AddPartitionSpec(hourly), SetDefaultSpec()).default_spec_id == 1
    void = PartitionSpec((replace(BY_DAY.fields[0], transform=VOID), replace(BY_BUCKET.fields[0], field_id=1001)))
    assert changed(table(1), AddPartitionSpec(void), SetDefaultSpec()).last_partition_id == 1001
    refused(table(1), AddPartitionSpec(BY_BUCKET), match="count up from 1000")


def test_set_default_spec():
    metadata = changed(table(), AddPartitionSpec(BY_BUCKET))
    assert changed(metadata, SetDefaultSpec(1)).default_spec_id == 1
    refused(metadata, SetDefaultSpec(2), match="no partition spec with id 2")
    refused(metadata, SetDefaultSpec(LAST_ADDED), match="no partition spec was added")


def test_remove_partition_specs():
    metadata = changed(table(), AddPartitionSpec(BY_BUCKET), SetDefaultSpec())
    after = changed(metadata, RemovePartitionSpecs((0,)))
    assert [s.spec_id for s in after.partition_specs] == [1]
    assert after.last_partition_id == 1001
    refused(metadata, RemovePartitionSpecs((0, 1)), match="partition spec 1 cannot be removed: it is the default")
    added = AddPartitionSpec(UNPARTITIONED)
    refused(metadata, added, RemovePartitionSpecs((2,)), SetDefaultSpec(), match="no partition spec was added")


# sort orders ------------------------------------------------------------------------------------------------------


def test_add_sort_order_counts_from_1_and_reuses_ids():
    metadata = changed(table(), AddSortOrder(replace(BY_NAME, order_id=9)), SetDefaultSortOrder())
    assert [o.order_id for o in metadata.sort_orders] == [0, 1]
    by_id = SortOrder((SortField((1,), IDENTITY),), 1)
    more = changed(metadata, AddSortOrder(by_id), SetDefaultSortOrder())
    assert more.default_sort_order_id == 2
    again = changed(more, AddSortOrder(BY_NAME), SetDefaultSortOrder())
    assert (again.sort_orders, again.default_sort_order_id) == (more.sort_orders, 1)


def test_the_unsorted_order_is_always_number_0():
    metadata = replace(table(), sort_orders=(BY_NAME,), default_sort_order_id=1)
    refused(metadata, SetDefaultSortOrder(0), match="no sort order with id 0")
    after = changed(metadata, AddSortOrder(UNSORTED), SetDefaultSortOrder())
    assert ([o.order_id for o in after.sort_orders], after.default_sort_order_id) == ([1, 0], 0)


def test_set_default_sort_order():
    metadata = changed(table(), AddSortOrder(BY_NAME))
    assert changed(metadata, SetDefaultSortOrder(1)).sort_order.fields == BY_NAME.fields
    refused(metadata, SetDefaultSortOrder(3), match="no sort order with id 3")
    refused(metadata, SetDefaultSortOrder(LAST_ADDED), match="no sort order was added")


# snapshots --------------------------------------------------------------------------------------------------------


def test_add_snapshot_is_current_nowhere():
    metadata = table()
    after = changed(metadata, AddSnapshot(snapshot(metadata, 1)))
    assert [s.snapshot_id for s in after.snapshots] == [1]
    assert (after.current_snapshot_id, after.refs, after.snapshot_log) == (None, {}, ())
    assert after.last_sequence_number == 1


def test_snapshot_ids_are_unique():
    metadata = commit(commit(table(), 1), 2)
    refused(metadata, AddSnapshot(snapshot(metadata, 2)), match="has a snapshot 2 already")
    expired = changed(metadata, RemoveSnapshots((1,)))
    refused(expired, AddSnapshot(snapshot(expired, 1)), match="1 is the id of a snapshot's parent")
    refused(
        metadata, AddSnapshot(snapshot(metadata, 3, parent_snapshot_id=3)), match="is the id of a snapshot's parent"
    )
    again = snapshot(metadata, 2, parent_snapshot_id=1)
    refused(metadata, RemoveSnapshots((2,)), AddSnapshot(again), match="removed by the same updates")
    refused(metadata, AddSnapshot(snapshot(metadata, -1)), match="must be positive")


@pytest.mark.parametrize("version", [2, 3])
def test_sequence_number_must_be_above_the_last_one(version):
    metadata = commit(commit(table(version), 1), 2)
    for stale in (0, 1, 2):
        refused(
            metadata,
            AddSnapshot(snapshot(metadata, 3, sequence_number=stale)),
            match=f"sequence number {stale}, but the table is at 2 already",
            error=CommitConflict,
        )
    assert changed(metadata, AddSnapshot(snapshot(metadata, 3, sequence_number=7))).last_sequence_number == 7


def test_sequence_number_of_a_snapshot_without_parent_may_be_any():
    metadata = commit(commit(table(), 1), 2)
    after = changed(metadata, AddSnapshot(snapshot(metadata, 3, sequence_number=1, parent_snapshot_id=None)))
    assert after.last_sequence_number == 2, "never lowered"


def test_a_stale_snapshot_is_a_conflict_that_can_be_retried():
    metadata = commit(table(), 1)
    with pytest.raises(CommitConflict) as caught:
        changed(metadata, AddSnapshot(snapshot(metadata, 2, sequence_number=1)))
    assert caught.value.retryable


def test_v1_snapshots_have_no_sequence_numbers():
    metadata = commit(commit(table(1), 1), 2)
    assert metadata.last_sequence_number == 0
    refused(metadata, AddSnapshot(snapshot(metadata, 3, sequence_number=3)), match="format version 1 has none")


@pytest.mark.parametrize(
    ("version", "fields", "problem"),
    [
        (1, {"manifest_list": None}, "neither a manifest list nor manifests"),
        (1, {"manifests": ("a",)}, "both a manifest list and manifests"),
        (2, {"manifest_list": None, "manifests": ("a",)}, "no manifest list"),
        (2, {"summary": None}, "no operation in its summary"),
        (2, {"summary": {"added-records": "1"}}, "no operation in its summary"),
        (2, {"sequence_number": -1, "parent_snapshot_id": None}, "negative sequence number"),
        (2, {"first_row_id": 0, "added_rows": 0}, "first-row-id, which came with format version 3"),
        (2, {"key_id": "k"}, "key-id, which came with format version 3"),
        (3, {"first_row_id": None}, "no first-row-id"),
        (3, {"added_rows": None}, "no added-rows"),
        (3, {"schema_id": 9}, "schema 9"),
    ],
)
def test_snapshot_fields_of_each_version(version, fields, problem):
    metadata = table(version)
    refused(metadata, AddSnapshot(snapshot(metadata, 1, **fields)), match=problem)


def test_v1_snapshot_with_manifests_inline_and_without_summary():
    metadata = table(1)
    inline = snapshot(metadata, 1, manifest_list=None, manifests=("m1.avro",), summary=None, schema_id=None)
    assert changed(metadata, AddSnapshot(inline)).snapshots == (inline,)


def test_snapshots_are_expected_to_follow_each_other_within_a_minute_of_skew():
    metadata = commit(table(), 1)
    last = metadata.snapshot_log[-1].timestamp_ms
    early = snapshot(metadata, 2, timestamp_ms=last - MINUTE_MS)
    assert changed(metadata, AddSnapshot(early), SetSnapshotRef("main", branch(2))).current_snapshot_id == 2
    too_early = snapshot(metadata, 2, timestamp_ms=last - MINUTE_MS - 1)
    refused(metadata, AddSnapshot(too_early), SetSnapshotRef("main", branch(2)), match="clock")
    assert changed(metadata, AddSnapshot(too_early), SetSnapshotRef("audit", branch(2))), "branches have no log"


def test_a_snapshot_cannot_be_from_the_future():
    metadata = table()
    soon = snapshot(metadata, 1, timestamp_ms=START_MS + 1000 + MINUTE_MS)
    assert changed(metadata, AddSnapshot(soon), SetSnapshotRef("main", branch(1)))
    late = snapshot(metadata, 1, timestamp_ms=START_MS + 1001 + MINUTE_MS)
    refused(metadata, AddSnapshot(late), SetSnapshotRef("main", branch(1)), match="clock")


# row lineage ------------------------------------------------------------------------------------------------------


def test_row_lineage_next_row_id_grows_with_added_rows():
    metadata = commit(table(3), 1, added_rows=1000)
    assert (metadata.next_row_id, metadata.snapshots[0].first_row_id) == (1000, 0)
    metadata = commit(metadata, 2, added_rows=375)
    assert metadata.next_row_id == 1375, "the spec's example"
    assert commit(metadata, 3, added_rows=0).next_row_id == 1375


def test_row_lineage_next_row_id_grows_on_branches_and_for_staged_snapshots():
    metadata = commit(table(3), 1, added_rows=10)
    on_branch = commit(metadata, 2, to="audit", added_rows=5)
    assert on_branch.next_row_id == 15
    staged = changed(on_branch, AddSnapshot(snapshot(on_branch, 3, added_rows=7)))
    assert staged.next_row_id == 22


def test_row_lineage_first_row_id_must_not_be_behind_the_table():
    metadata = commit(table(3), 1, added_rows=10)
    stale = snapshot(metadata, 2, first_row_id=9)
    refused(
        metadata, AddSnapshot(stale), match="first-row-id 9, but the table's next row id is 10", error=CommitConflict
    )


def test_row_lineage_a_gap_before_first_row_id_is_kept_free():
    metadata = commit(table(3), 1, added_rows=10)
    assert commit(metadata, 2, first_row_id=50, added_rows=5).next_row_id == 55, "higher than all assigned row ids"


def test_row_lineage_added_rows_must_be_possible():
    metadata = table(3)
    refused(metadata, AddSnapshot(snapshot(metadata, 1, added_rows=-1)), match="cannot have added -1 rows")
    refused(
        metadata, AddSnapshot(snapshot(metadata, 1, first_row_id=5, added_rows=2**63 - 1)), match="cannot have added"
    )


def test_row_lineage_upgraded_table_starts_at_0_and_keeps_old_snapshots():
    old = commit(table(2), 1)
    metadata = changed(old, UpgradeFormatVersion(3))
    assert metadata.next_row_id == 0
    assert metadata.snapshots == old.snapshots
    assert metadata.snapshots[0].first_row_id is None
    after = commit(metadata, 2, added_rows=20)
    assert (after.snapshots[1].first_row_id, after.next_row_id) == (0, 20)


# branches and tags ------------------------------------------------------------------------------------------------


def test_main_is_the_current_snapshot():
    metadata = commit(table(), 1)
    assert (metadata.current_snapshot_id, metadata.refs["main"]) == (1, branch(1))
    gone = changed(metadata, RemoveSnapshotRef("main"))
    assert (gone.current_snapshot_id, gone.refs, gone.snapshots) == (None, {}, metadata.snapshots)
    assert gone.snapshot_log == metadata.snapshot_log


def test_main_must_be_a_branch():
    refused(commit(table(), 1), SetSnapshotRef("main", tag(1)), match="main must be a branch")


def test_other_refs_do_not_move_the_current_snapshot():
    metadata = commit(commit(table(), 1), 2)
    after = changed(metadata, SetSnapshotRef("v1", tag(1)), SetSnapshotRef("audit", branch(1)))
    assert (after.current_snapshot_id, after.snapshot_log) == (2, metadata.snapshot_log)
    assert after.refs == {"main": branch(2), "v1": tag(1), "audit": branch(1)}
    assert changed(after, RemoveSnapshotRef("v1")).refs == {"main": branch(2), "audit": branch(1)}


def test_a_ref_needs_a_name_and_a_snapshot():
    metadata = commit(table(), 1)
    refused(metadata, SetSnapshotRef("v", tag(7)), match="tag 'v' cannot be set to snapshot 7")
    refused(metadata, SetSnapshotRef("", tag(1)), match="must have a name")


def test_retention_settings_of_refs():
    metadata = commit(table(), 1)
    own = branch(1, min_snapshots_to_keep=5, max_snapshot_age_ms=1000, max_ref_age_ms=2000)
    assert changed(metadata, SetSnapshotRef("audit", own)).refs["audit"] == own
    assert changed(metadata, SetSnapshotRef("v", tag(1, max_ref_age_ms=1))).refs["v"].max_ref_age_ms == 1
    for key in ("min_snapshots_to_keep", "max_snapshot_age_ms"):
        refused(metadata, SetSnapshotRef("v", tag(1, **{key: 1})), match="that is for branches")
    for key in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"):
        refused(metadata, SetSnapshotRef("b", branch(1, **{key: 0})), match="must be positive, found 0")


# the snapshot log -------------------------------------------------------------------------------------------------


def test_snapshot_log_has_the_time_of_a_new_snapshot():
    metadata = table()
    new = snapshot(metadata, 1, timestamp_ms=START_MS + 500)
    after = changed(metadata, AddSnapshot(new), SetSnapshotRef("main", branch(1)), now_ms=START_MS + 900)
    assert history(after) == [(START_MS + 500, 1)]
    assert after.last_updated_ms == START_MS + 900


def test_snapshot_log_of_a_rollback_has_the_time_of_the_rollback():
    metadata = commit(commit(table(), 1), 2)
    back = changed(metadata, SetSnapshotRef("main", branch(1)), now_ms=START_MS + 50_000)
    assert history(back) == [(START_MS + 1000, 1), (START_MS + 2000, 2), (START_MS + 50_000, 1)]


def test_snapshot_log_of_a_staged_snapshot_that_is_published_has_the_time_of_publishing():
    metadata = table()
    staged = changed(metadata, AddSnapshot(snapshot(metadata, 1)))
    published = changed(staged, SetSnapshotRef("main", branch(1)), now_ms=START_MS + 9000)
    assert history(published) == [(START_MS + 9000, 1)]


def test_snapshot_log_leaves_out_intermediate_snapshots():
    metadata = commit(table(), 1)
    first = snapshot(metadata, 2)
    second = snapshot(metadata, 3, sequence_number=3, parent_snapshot_id=2, timestamp_ms=first.timestamp_ms + 1)
    after = changed(
        metadata,
        AddSnapshot(first),
        SetSnapshotRef("main", branch(2)),
        AddSnapshot(second),
        SetSnapshotRef("main", branch(3)),
    )
    assert [s for _, s in history(after)] == [1, 3]
    assert [s.snapshot_id for s in after.snapshots] == [1, 2, 3]


def test_snapshot_log_leaves_out_what_was_current_only_between_two_updates():
    metadata = commit(commit(table(), 1), 2)
    there_and_back = [SetSnapshotRef("main", branch(1)), SetSnapshotRef("main", branch(2))]
    assert changed(metadata, *there_and_back) is metadata
    dropped_and_set = [RemoveSnapshotRef("main"), SetSnapshotRef("main", branch(2))]
    assert changed(metadata, *dropped_and_set, SetProperties({"a": "1"})).snapshot_log == metadata.snapshot_log


def test_snapshot_log_is_not_touched_by_a_change_of_retention():
    metadata = commit(table(), 1)
    after = changed(metadata, SetSnapshotRef("main", branch(1, min_snapshots_to_keep=3)))
    assert after.snapshot_log == metadata.snapshot_log


def test_snapshot_log_loses_all_entries_before_an_expired_one():
    metadata = commit(commit(commit(table(), 1), 2), 3)
    assert [s for _, s in history(changed(metadata, RemoveSnapshots((2,))))] == [3], "not [1, 3]: 2 was current between"
    assert [s for _, s in history(changed(metadata, RemoveSnapshots((1,))))] == [2, 3]
    rolled_back = changed(metadata, SetSnapshotRef("main", branch(1)))
    assert [s for _, s in history(changed(rolled_back, RemoveSnapshots((2, 3))))] == [1]


def test_snapshot_log_is_empty_when_the_current_snapshot_is_removed():
    metadata = changed(commit(commit(table(), 1), 2), RemoveSnapshots((2,)))
    assert (metadata.current_snapshot_id, metadata.snapshot_log, set(metadata.refs)) == (None, (), set())
    assert [s.snapshot_id for s in metadata.snapshots] == [1]


# removing snapshots, statistics -----------------------------------------------------------------------------------


def statistics(snapshot_id, path="s3://b/s.puffin"):
    return StatisticsFile(
        snapshot_id=snapshot_id,
        statistics_path=path,
        file_size_in_bytes=5,
        file_footer_size_in_bytes=2,
        blob_metadata=(),
    )


def partition_statistics(snapshot_id, path="s3://b/p.parquet"):
    return PartitionStatisticsFile(snapshot_id=snapshot_id, statistics_path=path, file_size_in_bytes=5)


def test_remove_snapshots_removes_dangling_refs_and_statistics():
    metadata = changed(
        commit(commit(table(), 1), 2),
        SetSnapshotRef("v1", tag(1)),
        SetSnapshotRef("v2", tag(2)),
        SetStatistics(statistics(1)),
        SetStatistics(statistics(2)),
        SetPartitionStatistics(partition_statistics(1)),
        SetPartitionStatistics(partition_statistics(2)),
    )
    after = changed(metadata, RemoveSnapshots((1, 99)))
    assert set(after.refs) == {"main", "v2"}
    assert after.statistics == (statistics(2),)
    assert after.partition_statistics == (partition_statistics(2),)
    assert after.snapshots[0].parent_snapshot_id == 1, "lineage still says where it came from"
    assert after.last_sequence_number == 2


@pytest.mark.parametrize(
    ("put", "remove", "make", "attribute"),
    [
        (SetStatistics, RemoveStatistics, statistics, "statistics"),
        (SetPartitionStatistics, RemovePartitionStatistics, partition_statistics, "partition_statistics"),
    ],
)
def test_statistics_are_one_file_for_each_snapshot(put, remove, make, attribute):
    metadata = changed(commit(commit(table(), 1), 2), put(make(1)), put(make(2)))
    newer = changed(metadata, put(make(1, "s3://b/newer")))
    assert getattr(newer, attribute) == (make(2), make(1, "s3://b/newer"))
    assert getattr(changed(newer, remove(1)), attribute) == (make(2),)
    refused(metadata, put(make(7)), match="statistics .*snapshot 7: the table has no such snapshot")


# encryption keys --------------------------------------------------------------------------------------------------


def key(key_id, by=None, text="a2V5"):
    return EncryptionKey(key_id=key_id, encrypted_key_metadata=text, encrypted_by_id=by)


def test_encryption_keys_are_added_once():
    metadata = changed(table(3), AddEncryptionKey(key("k1")), AddEncryptionKey(key("k2", by="k1")))
    assert [k.key_id for k in metadata.encryption_keys] == ["k1", "k2"]
    assert changed(metadata, AddEncryptionKey(key("k1"))) is metadata
    refused(metadata, AddEncryptionKey(key("k1", text="b3RoZXI=")), match="another encryption key of id 'k1'")
    refused(table(2), AddEncryptionKey(key("k1")), match="encryption keys need format version 3")
    refused(table(3), AddEncryptionKey(key("k1", text="?")), match="base64")


def test_encryption_keys_in_use_are_not_removed():
    metadata = changed(table(3), AddEncryptionKey(key("kek")), AddEncryptionKey(key("k1", by="kek")))
    metadata = commit(metadata, 1, key_id="k1")
    refused(metadata, RemoveEncryptionKey("k1"), match="snapshot 1 is encrypted with key 'k1'")
    refused(metadata, RemoveEncryptionKey("kek"), match="key 'k1' is encrypted with it")
    after = changed(metadata, RemoveEncryptionKey("kek"), RemoveEncryptionKey("k1"), RemoveSnapshots((1,)))
    assert after.encryption_keys == ()
    assert changed(metadata, RemoveEncryptionKey("other")) is metadata


def test_a_snapshot_needs_its_encryption_key():
    metadata = table(3)
    encrypted = snapshot(metadata, 1, key_id="k1")
    refused(metadata, AddSnapshot(encrypted), match="key 'k1', which the table would not have")
    assert changed(metadata, AddSnapshot(encrypted), AddEncryptionKey(key("k1"))), "in whatever order"


# creating by updates ----------------------------------------------------------------------------------------------

CREATION = [
    AssignUuid(UUID),
    UpgradeFormatVersion(3),
    AddSchema(SCHEMA),
    SetCurrentSchema(),
    AddPartitionSpec(BY_DAY),
    SetDefaultSpec(),
    AddSortOrder(UNSORTED),
    SetDefaultSortOrder(),
    SetLocation(LOCATION),
    SetProperties({"a": "1"}),
]


def test_a_table_is_created_by_updates_alone():
    assert changed(None, *CREATION) == table(3, properties={"a": "1"})


def test_a_table_is_created_in_version_2_unless_told():
    assert changed(None, *(u for u in CREATION if not isinstance(u, UpgradeFormatVersion))).format_version == 2
    assert changed(None, UpgradeFormatVersion(1), *(u for u in CREATION if u.action[:3] != "upg")).format_version == 1


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        (AssignUuid, "uuid"),
        (SetLocation, "location"),
        ((SetCurrentSchema, AddPartitionSpec, SetDefaultSpec), "current schema"),
        (SetDefaultSpec, "default partition spec"),
        (SetDefaultSortOrder, "default sort order"),
    ],
)
def test_a_created_table_must_have_all_its_parts(kind, missing):
    refused(None, *(u for u in CREATION if not isinstance(u, kind)), match=missing)
    refused(None, match="no uuid")


def test_a_snapshot_comes_after_schema_spec_and_order():
    early = AddSnapshot(Snapshot(snapshot_id=1, timestamp_ms=START_MS, manifest_list="a"))
    refused(None, early, *CREATION, match="before the table has a schema")
    refused(None, AddSchema(SCHEMA), AddPartitionSpec(UNPARTITIONED), match="before the table has a current schema")
    refused(None, AddSchema(SCHEMA), AddSortOrder(BY_NAME), match="before the table has a current schema")


def test_a_created_table_may_have_a_first_snapshot():
    first = snapshot(table(3), 1)
    after = changed(None, *CREATION, AddSnapshot(first), SetSnapshotRef("main", branch(1)), now_ms=first.timestamp_ms)
    assert (after.current_snapshot_id, after.next_row_id, history(after)) == (1, 10, [(START_MS + 1000, 1)])


def test_fields_that_have_nothing_to_do_with_an_update_stay():
    metadata = changed(commit(table(3, properties={"p": "1"}), 1), SetStatistics(statistics(1)))
    after = changed(metadata, SetLocation("s3://elsewhere"))
    assert after == replace(metadata, location="s3://elsewhere", last_updated_ms=after.last_updated_ms)


def test_names_of_columns_do_not_matter_to_ids():
    renamed = Schema((replace(SCHEMA.fields[0], name="key"), *SCHEMA.fields[1:]))
    after = changed(table(), AddSchema(renamed), SetCurrentSchema())
    assert (after.current_schema_id, after.last_column_id) == (1, 3)
    assert changed(table(), AddSchema(Schema((Field(1, "id", LONG), Field(3, "name", STRING))))).last_column_id == 3


# values of wrong kinds, which would make a file that nobody can read -----------------------------------------------


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (SetProperties({"a": 1}), r"updates.a: must be a string, found an integer"),
        (SetProperties({"format-version": 3}), r"updates.format-version: must be a string, found an integer"),
        (RemoveProperties((1,)), r"removals\[0\]: must be a string"),
        (SetLocation(Path("/tmp/t")), r"location: "),
        (
            AddSnapshot(snapshot(table(3), 1, summary={"operation": "append", "added-records": 5})),
            r"summary.added-records: must be",
        ),
        (AddSnapshot(snapshot(table(3), 1, timestamp_ms=5.5)), r"timestamp-ms: must be an integer"),
        (AddSnapshot(snapshot(table(3), 2**63)), r"snapshot-id: the number does not fit a 64-bit integer"),
        (AddSnapshot(snapshot(table(3), 1, manifest_list=Path("/tmp/m.avro"))), r"cannot be written as JSON"),
        (SetSnapshotRef("x", SnapshotRef(snapshot_id=1, type="twig")), r"type: invalid enum value 'twig'"),
        (SetSnapshotRef("x", None), r"cannot be written as JSON"),
        (UpgradeFormatVersion("3"), r"format-version: must be an integer"),
        (AddEncryptionKey(EncryptionKey(key_id=1, encrypted_key_metadata="")), r"key-id: must be a string"),
    ],
)
def test_values_of_wrong_kinds_are_refused_before_anything_is_written(update, words):
    refused(table(3), update, match=words)


def test_the_time_of_an_update_is_an_integer():
    with pytest.raises(InvalidUpdate, match="now_ms must be whole milliseconds"):
        apply(table(), [SetLocation("s3://b/x")], now_ms=START_MS + 0.5)


def test_conflicts_and_unsupported_features_say_which_update_they_come_from():
    head = commit(table(2), 1)
    with pytest.raises(CommitConflict) as conflict:
        changed(head, SetLocation("s3://b/x"), AddSnapshot(snapshot(head, 2, sequence_number=1)))
    assert conflict.value.context["update"] == "add-snapshot, number 1"
    with pytest.raises(UnsupportedFeature) as unsupported:
        changed(head, UpgradeFormatVersion(4))
    assert unsupported.value.context["update"] == "upgrade-format-version, number 0"
