"""New tables, and tables that take the place of others."""

from dataclasses import replace

import pytest

from floe.errors import InvalidSchema, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.creation import creation_updates, new_table_metadata, replace_table
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.requirements import check_requirements, requirements_for
from floe.spec.metadata.table_metadata_json import parse
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec, SetSnapshotRef
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, VOID, Bucket
from floe.spec.properties import RESERVED_PROPERTIES
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from floe.spec.types import INT, LONG, STRING, TIMESTAMP, Field, ListType, StructType
from helpers.corpus import metadata_files, table_names
from helpers.metadata_samples import (
    BY_BUCKET,
    BY_DAY,
    LOCATION,
    SCHEMA,
    START_MS,
    UUID,
    branch,
    changed,
    commit,
    table,
    tag,
)


def create(schema, spec=UNPARTITIONED, sort_order=UNSORTED, **options):
    return new_table_metadata(schema, spec, sort_order, location=LOCATION, uuid=UUID, now_ms=START_MS, **options)


# new tables -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_new_table_of_each_version(version):
    metadata = create(SCHEMA, format_version=version)
    assert metadata.format_version == version
    assert metadata.table_uuid == UUID
    assert metadata.last_updated_ms == START_MS
    assert (metadata.last_sequence_number, metadata.next_row_id) == (0, 0 if version == 3 else None)
    assert (metadata.current_snapshot_id, metadata.snapshots, metadata.refs) == (None, (), {})
    assert (metadata.snapshot_log, metadata.metadata_log) == ((), ())
    assert (metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id) == (0, 0, 0)
    assert (metadata.last_column_id, metadata.last_partition_id) == (3, 999)


def test_new_table_has_version_2_unless_told():
    assert create(SCHEMA).format_version == 2
    by_property = create(SCHEMA, properties={"format-version": "3", "a": "1"})
    assert (by_property.format_version, by_property.properties) == (3, {"a": "1"})
    assert create(SCHEMA, properties={"format-version": "3"}, format_version=3).format_version == 3
    with pytest.raises(InvalidUpdate, match=r"format version 1 .*the property format-version is 3"):
        create(SCHEMA, properties={"format-version": "3"}, format_version=1)
    with pytest.raises(UnsupportedFeature, match="version 4"):
        create(SCHEMA, format_version=4)
    with pytest.raises(UnsupportedFeature, match="version 0"):
        create(SCHEMA, format_version=0)


def test_new_table_gives_fresh_ids_to_columns():
    nested = StructType((Field(50, "x", INT), Field(40, "y", INT)))
    schema = Schema((Field(9, "b", nested, required=True), Field(2, "a", ListType(7, LONG))), 5)
    fresh = create(schema).schema
    assert [(entry.name, i) for i, entry in fresh.by_id.items()] == [
        ("b", 1),
        ("b.x", 3),
        ("b.y", 4),
        ("a", 2),
        ("a.element", 5),
    ]
    assert (fresh.schema_id, create(schema).last_column_id) == (0, 5)


def test_new_table_keeps_identifier_fields():
    schema = Schema((Field(8, "a", INT), Field(9, "b", INT, required=True)), identifier_field_ids=(9,))
    assert create(schema).schema.identifier_field_ids == (2,)


def test_new_table_spec_and_sort_order_follow_their_columns_by_name():
    swapped = Schema((Field(2, "id", LONG), Field(1, "ts", TIMESTAMP)))
    spec = PartitionSpec((PartitionField((1,), 1007, "ts_day", DAY), PartitionField((2,), 1003, "id_b", Bucket(4))), 3)
    order = SortOrder((SortField((2,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),), 9)
    metadata = create(swapped, spec, order)
    assert [(f.source_id, f.field_id, f.name) for f in metadata.spec.fields] == [(2, 1000, "ts_day"), (1, 1001, "id_b")]
    assert (metadata.spec.spec_id, metadata.last_partition_id) == (0, 1001)
    assert (metadata.sort_order.order_id, metadata.sort_order.fields[0].source_id) == (1, 1)
    assert [o.order_id for o in metadata.sort_orders] == [1], "no unsorted order beside it, as Java writes it"


def test_new_table_spec_and_sort_order_must_refer_to_its_columns():
    stranger = PartitionSpec((PartitionField((3,), 1000, "p", DAY),))
    only_two = Schema((Field(10, "a", INT), Field(11, "b", INT), Field(12, "c", TIMESTAMP)))
    with pytest.raises(InvalidUpdate, match="refers to column 3, which the schema does not have"):
        create(only_two, stranger)
    with pytest.raises(InvalidUpdate, match="refers to column 3"):
        create(only_two, sort_order=SortOrder((SortField((3,), IDENTITY),), 1))
    with pytest.raises(InvalidUpdate, match="cannot"):
        create(SCHEMA, PartitionSpec((PartitionField((3,), 1000, "p", DAY),)))


def test_new_table_does_not_store_reserved_properties():
    properties = dict.fromkeys(RESERVED_PROPERTIES - {"format-version"}, "5") | {"mine": "1"}
    assert create(SCHEMA, properties=properties).properties == {"mine": "1"}


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"commit.retry.num-retries": "many"}, "must be a whole number"),
        ({"commit.retry.min-wait-ms": "-1"}, "must be a whole number of at least 0, found '-1'"),
        ({"write.metadata.metrics.column.nope": "full"}, "names no column of the schema"),
        ({"encryption.key-id": "k"}, "needs format version 3"),
    ],
)
def test_new_table_refuses_properties_that_cannot_be(properties, problem):
    with pytest.raises(InvalidUpdate, match=problem):
        create(SCHEMA, properties=properties)


def test_new_table_takes_properties_that_can_be():
    properties = {"commit.retry.num-retries": "0", "write.metadata.metrics.column.name": "full"}
    assert create(SCHEMA, properties=properties).properties == properties


def test_new_table_location_has_no_trailing_slash():
    assert new_table_metadata(SCHEMA, location="s3://b/t//", uuid=UUID, now_ms=0).location == "s3://b/t"
    with pytest.raises(InvalidUpdate, match="must not be empty"):
        new_table_metadata(SCHEMA, location="", uuid=UUID, now_ms=0)
    with pytest.raises(InvalidUpdate, match="is not a uuid"):
        new_table_metadata(SCHEMA, location="s3://b/t", uuid="1", now_ms=0)


def test_creation_updates_for_a_catalog_that_takes_updates():
    updates = creation_updates(SCHEMA, BY_DAY, location=LOCATION, uuid=UUID)
    assert apply(None, updates, now_ms=START_MS) == table()
    check_requirements(requirements_for(updates, None), None)


def test_new_tables_are_those_that_java_made(corpus_dir):
    """The first metadata file of every table, made again from its parts."""
    compared = 0
    for name in table_names(without=("invalid", "odd", "view")):
        for file in metadata_files(corpus_dir, name):
            java = parse(file.read_bytes())
            if java.snapshots or java.metadata_log or len(java.schemas) > 1 or java.table_uuid is None:
                continue
            made = new_table_metadata(
                java.schema,
                java.spec,
                java.sort_order,
                location=java.location,
                uuid=java.table_uuid,
                now_ms=java.last_updated_ms,
                properties=java.properties,
                format_version=java.format_version,
            )
            assert made == java, (name, file.name)
            compared += 1
    assert compared > 80


# tables that take the place of others -----------------------------------------------------------------------------

NEW = Schema((Field(1, "name", STRING), Field(2, "extra", INT), Field(3, "ts", TIMESTAMP)))


def replaced(metadata, schema=NEW, spec=UNPARTITIONED, sort_order=UNSORTED, **options):
    return replace_table(metadata, schema, spec, sort_order, now_ms=metadata.last_updated_ms + 1000, **options)


def test_replaced_table_keeps_identity_history_and_other_refs():
    old = changed(commit(commit(table(), 1), 2), SetSnapshotRef("v1", tag(1)), SetSnapshotRef("audit", branch(2)))
    new = replaced(old, metadata_location="s3://b/old.json")
    assert new.table_uuid == old.table_uuid
    assert (new.snapshots, new.snapshot_log) == (old.snapshots, old.snapshot_log)
    assert (new.current_snapshot_id, set(new.refs)) == (None, {"v1", "audit"})
    assert (new.last_sequence_number, new.location) == (2, old.location)
    assert new.metadata_log[-1].metadata_file == "s3://b/old.json"
    rolled_back = changed(new, SetSnapshotRef("main", branch(2)))
    assert rolled_back.current_snapshot_id == 2


def test_replaced_table_reuses_ids_of_columns_by_name():
    new = replaced(table())
    assert [(f.name, f.id) for f in new.schema.fields] == [("name", 3), ("extra", 4), ("ts", 2)]
    assert (new.current_schema_id, new.last_column_id, len(new.schemas)) == (1, 4, 2)


def test_replaced_table_with_equal_columns_keeps_its_schema():
    assert replaced(table(), SCHEMA).current_schema_id == 0


def test_replaced_table_reuses_ids_of_partition_fields():
    old = changed(table(), AddPartitionSpec(BY_BUCKET), SetDefaultSpec())
    spec = PartitionSpec((PartitionField((3,), 1000, "ts_hour", HOUR), PartitionField((3,), 1001, "day", DAY)))
    new = replaced(old, spec=spec)
    assert [(f.name, f.field_id) for f in new.spec.fields] == [("ts_hour", 1002), ("day", 1000)]
    assert (new.default_spec_id, new.last_partition_id, len(new.partition_specs)) == (2, 1002, 3)
    unpartitioned = replaced(old)
    assert (unpartitioned.spec.fields, unpartitioned.default_spec_id) == ((), 2)


def test_replaced_v1_table_keeps_partition_fields_as_void():
    spec = PartitionSpec((PartitionField((1,), 1000, "name", IDENTITY),))
    new = replaced(table(1), spec=spec)
    assert [(f.name, f.field_id, f.transform) for f in new.spec.fields] == [
        ("ts_day", 1000, VOID),
        ("name", 1001, IDENTITY),
    ]


def test_replaced_v1_table_keeps_a_void_field_whose_column_is_gone():
    gone = PartitionField((99,), 1000, "old", VOID)
    both = PartitionSpec((gone, PartitionField((1,), 1001, "name", IDENTITY)))
    new = replaced(table(1, spec=PartitionSpec((gone,))), spec=both)
    assert [(f.source_id, f.field_id, f.transform) for f in new.spec.fields] == [(99, 1000, VOID), (3, 1001, IDENTITY)]


def test_replaced_table_sort_order():
    order = SortOrder((SortField((1,), IDENTITY),), 1)
    new = replaced(table(), sort_order=order)
    assert (new.default_sort_order_id, new.sort_order.fields[0].source_id) == (1, 3)
    assert replaced(new).default_sort_order_id == 0


def test_replaced_table_adds_properties_and_may_be_upgraded():
    old = table(properties={"a": "1", "b": "2"})
    new = replaced(old, properties={"b": "3", "format-version": "3"}, location="s3://b/new/")
    assert (new.properties, new.format_version, new.location) == ({"a": "1", "b": "3"}, 3, "s3://b/new")
    assert replaced(table(3)).format_version == 3
    with pytest.raises(InvalidUpdate, match="cannot go back"):
        replaced(table(3), format_version=2)


def test_replaced_table_goes_on_counting_row_ids():
    old = commit(table(3), 1, added_rows=10)
    new = replaced(old)
    assert new.next_row_id == 10
    assert commit(new, 2, parent_snapshot_id=None, schema_id=1).next_row_id == 20


def test_replaced_old_table_without_uuid_gets_one():
    old = replace(table(1), table_uuid=None)
    assert replaced(old, properties={"format-version": "2"}, new_uuid=UUID).table_uuid == UUID


def test_replaced_table_is_the_one_that_java_made(corpus_dir):
    """Java replaced the table with new columns and another spec, and committed a snapshot at once."""
    seen = 0
    files = [parse(file.read_bytes()) for file in metadata_files(corpus_dir, "hist_replace")]
    for old in files:
        for java in files:
            if not java.metadata_log or java.metadata_log[-1].timestamp_ms != old.last_updated_ms:
                continue
            if java.schema == old.schema or java.current_snapshot is None:
                continue
            if java.current_snapshot.parent_snapshot_id is not None:
                continue
            new = replaced(old, java.schema, java.spec, java.sort_order, properties=java.properties)
            assert (new.schemas, new.current_schema_id) == (java.schemas, java.current_schema_id)
            assert (new.partition_specs, new.default_spec_id) == (java.partition_specs, java.default_spec_id)
            assert (new.last_column_id, new.last_partition_id) == (java.last_column_id, java.last_partition_id)
            assert (new.sort_orders, new.properties) == (java.sort_orders, java.properties)
            seen += 1
    assert seen == 1


def test_a_number_as_property_is_refused():
    with pytest.raises(InvalidUpdate, match="the property format-version must be a whole number, found 3 "):
        new_table_metadata(SCHEMA, location=LOCATION, uuid=UUID, now_ms=0, properties={"format-version": 3})


@pytest.mark.parametrize("name", ["", "_file", "_row_id", "_partition"])
def test_columns_of_a_new_table_have_names_of_their_own(name):
    with pytest.raises(InvalidSchema, match="name"):
        create(Schema((Field(1, name, LONG),)))


def test_fields_of_structs_may_be_named_like_metadata_columns():
    inner = StructType((Field(2, "_file", LONG),))
    assert create(Schema((Field(1, "a", inner),))).schema.field("a._file").id == 2
