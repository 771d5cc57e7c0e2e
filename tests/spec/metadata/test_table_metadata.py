"""Table metadata as a value: what is current, lookups, time travel (spec: Table Metadata; Point in Time Reads)."""

from dataclasses import FrozenInstanceError, replace

import pytest

from floe.errors import InvalidMetadata, NoSuchSnapshot
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION, MetadataLogEntry, SnapshotLogEntry, TableMetadata
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED
from floe.spec.types import LONG, Field
from helpers.metadata_documents import NOW, history, read, snapshot, v1_document, v2_document, v3_document

SCHEMAS = [
    {"type": "struct", "schema-id": n, "fields": [{"id": 1, "name": f"x{n}", "required": True, "type": "long"}]}
    for n in (0, 3)
]


def test_current_schema_spec_and_order() -> None:
    table = read(
        v2_document(
            schemas=SCHEMAS,
            current_schema_id=3,
            partition_specs=[
                {"spec-id": 0, "fields": []},
                {"spec-id": 2, "fields": [{"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}]},
            ],
            default_spec_id=2,
            sort_orders=[
                {"order-id": 0, "fields": []},
                {
                    "order-id": 5,
                    "fields": [
                        {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
                    ],
                },
            ],
            default_sort_order_id=5,
        )
    )
    assert table.schema.field("x3").id == 1
    assert table.schema_by_id(0).field("x0").id == 1
    assert [f.name for f in table.spec.fields] == ["b"]
    assert table.spec_by_id(0).is_unpartitioned
    assert table.sort_order.order_id == 5
    assert table.sort_order_by_id(0) == UNSORTED


def test_lookups_of_ids_that_do_not_exist() -> None:
    table = read(v2_document())
    with pytest.raises(InvalidMetadata, match="no schema with id 9"):
        table.schema_by_id(9)
    with pytest.raises(InvalidMetadata, match="no partition spec with id 9"):
        table.spec_by_id(9)
    with pytest.raises(InvalidMetadata, match="no sort order with id 9"):
        table.sort_order_by_id(9)
    with pytest.raises(NoSuchSnapshot, match="no snapshots at all"):
        table.snapshot(9)
    with pytest.raises(NoSuchSnapshot, match="may have expired"):
        read(v2_document(snapshots=history((1, None)))).snapshot(9)


def test_order_zero_is_unsorted_even_where_the_list_lacks_it() -> None:
    assert read(v2_document(sort_orders=[])).sort_order == UNSORTED


@pytest.mark.parametrize("none", [..., None, -1])
def test_minus_one_null_and_absent_are_no_current_snapshot(none: object) -> None:
    table = read(v2_document(current_snapshot_id=none))
    assert table.current_snapshot_id is None
    assert table.current_snapshot is None


def test_current_snapshot() -> None:
    table = read(v2_document(snapshots=history((1, None), (2, 1)), current_snapshot_id=2))
    assert table.current_snapshot is table.snapshots[1]
    assert table.snapshot(1) is table.snapshots[0]


def test_next_sequence_number() -> None:
    assert read(v2_document(last_sequence_number=34)).next_sequence_number == 35
    assert read(v1_document()).next_sequence_number == 0


def test_next_row_id_is_only_of_version_3() -> None:
    assert read(v3_document(next_row_id=7)).next_row_id == 7
    assert read(v2_document()).next_row_id is None


def test_logs() -> None:
    table = read(
        v2_document(
            snapshot_log=[{"timestamp-ms": 1, "snapshot-id": 10}],
            metadata_log=[{"timestamp-ms": 2, "metadata-file": "s3://bucket/t/metadata/v1.metadata.json"}],
        )
    )
    assert table.snapshot_log == (SnapshotLogEntry(timestamp_ms=1, snapshot_id=10),)
    assert table.metadata_log == (
        MetadataLogEntry(timestamp_ms=2, metadata_file="s3://bucket/t/metadata/v1.metadata.json"),
    )


def log(*pairs: tuple[int, int]) -> TableMetadata:
    """A table whose log has these times and snapshot ids."""
    return read(
        v2_document(
            snapshots=[snapshot(n) for n in (1, 2, 3)],
            snapshot_log=[{"timestamp-ms": NOW + time, "snapshot-id": id_} for time, id_ in pairs],
        )
    )


def as_of(table: TableMetadata, time: int) -> int:
    return table.snapshot_as_of(NOW + time).snapshot_id


def test_point_in_time_reads_use_the_snapshot_log() -> None:
    table = log((10, 1), (20, 2), (30, 3))
    assert [as_of(table, t) for t in (10, 15, 20, 29, 30, 10**9)] == [1, 1, 2, 2, 3, 3]


def test_point_in_time_reads_see_rollbacks_by_their_own_time() -> None:
    table = log((10, 1), (20, 2), (30, 1))
    assert [as_of(table, t) for t in (25, 30)] == [2, 1]


def test_point_in_time_reads_before_the_log_are_an_error() -> None:
    with pytest.raises(NoSuchSnapshot, match=r"the snapshot log begins at 2020-10-14 01:22:53\.6 UTC"):
        as_of(log((10, 1)), 9)
    with pytest.raises(NoSuchSnapshot, match="the snapshot log is empty"):
        as_of(log(), 9)


def test_point_in_time_reads_of_an_expired_snapshot_are_an_error() -> None:
    with pytest.raises(NoSuchSnapshot, match="no snapshot 9"):
        as_of(log((10, 9)), 10)


def test_point_in_time_reads_take_the_later_of_two_entries_of_one_time() -> None:
    assert as_of(log((10, 1), (10, 2)), 10) == 2


def test_point_in_time_reads_bear_a_log_out_of_order_within_a_minute() -> None:
    table = log((20, 1), (10, 2), (30, 3))
    assert [as_of(table, t) for t in (10, 20, 25)] == [2, 1, 1]


def test_metadata_is_immutable() -> None:
    table = read(v2_document(snapshots=history((1, None))))
    with pytest.raises(FrozenInstanceError):
        table.location = "elsewhere"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        table.snapshots[0].snapshot_id = 2  # type: ignore[misc]


def test_replace_makes_another_value_with_lookups_of_its_own() -> None:
    table = read(v2_document(snapshots=history((1, None), (2, 1))))
    assert set(table.snapshots_by_id) == {1, 2}
    assert set(replace(table, snapshots=table.snapshots[:1]).snapshots_by_id) == {1}


def test_defaults_make_an_empty_table() -> None:
    table = TableMetadata(
        format_version=2,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="s3://bucket/t",
        last_updated_ms=NOW,
        last_column_id=1,
        schemas=(Schema((Field(1, "x", LONG),)),),
        partition_specs=(UNPARTITIONED,),
    )
    assert table.sort_order == UNSORTED
    assert table.current_snapshot is None
    assert (dict(table.properties), dict(table.refs), table.snapshots) == ({}, {}, ())


def test_versions_go_up_to_three() -> None:
    assert LATEST_FORMAT_VERSION == 3
