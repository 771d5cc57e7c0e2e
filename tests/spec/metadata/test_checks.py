"""The rules between the parts of table metadata: which readers insist on, which only writers."""

from typing import Any

import pytest

from floe.errors import InvalidMetadata, NoSuchTable
from floe.spec.json_reader import Limits
from floe.spec.metadata.metadata_checks import (
    all_problems,
    check_for_reading,
    check_for_writing,
    reading_problems,
    writing_problems,
)
from floe.spec.metadata.table_metadata import check_same_table
from helpers.metadata_documents import (
    DOCUMENTS,
    NOW,
    UUID,
    history,
    read,
    snapshot,
    v1_document,
    v2_document,
    v3_document,
)

MINUTE = 60_000
BRANCH = {"snapshot-id": 1, "type": "branch"}
TWO_SCHEMAS = [v2_document()["schemas"][0]] * 2
ROW_IDS = {"first-row-id": 5, "added-rows": 10}


def log(*times: int) -> list[dict[str, int]]:
    return [{"timestamp-ms": NOW + time, "snapshot-id": 1} for time in times]


def files(*times: int) -> list[dict[str, Any]]:
    return [{"timestamp-ms": NOW + time, "metadata-file": "f"} for time in times]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_healthy_metadata_has_no_problems(version: int) -> None:
    table = read(DOCUMENTS[version]())
    assert list(all_problems(table)) == []
    check_for_reading(table)
    check_for_writing(table)


READING = {
    "uuid is required since version 2": (v2_document(table_uuid=...), "$.table-uuid"),
    "uuid is a uuid": (v2_document(table_uuid="x"), "$.table-uuid"),
    "location is given": (v2_document(location=""), "$.location"),
    "current schema exists": (v2_document(current_schema_id=77), "$.current-schema-id"),
    "default spec exists": (v2_document(default_spec_id=77), "$.default-spec-id"),
    "default sort order exists": (v2_document(default_sort_order_id=77), "$.default-sort-order-id"),
    "there is a spec": (v2_document(partition_specs=[]), "$.default-spec-id"),
    "schema ids are unique": (v2_document(schemas=TWO_SCHEMAS), "$.schemas[1]"),
    "spec ids are unique": (v2_document(partition_specs=[{"spec-id": 0, "fields": []}] * 2), "$.partition-specs[1]"),
    "sort order ids are unique": (v2_document(sort_orders=[{"order-id": 0, "fields": []}] * 2), "$.sort-orders[1]"),
    "snapshot ids are unique": (v2_document(snapshots=[snapshot(1), snapshot(2), snapshot(1)]), "$.snapshots[2]"),
    "refs point at snapshots": (v2_document(refs={"b": BRANCH}), "$.refs.b.snapshot-id"),
    "main is the current snapshot": (
        v2_document(snapshots=history((1, None), (2, 1)), current_snapshot_id=2, refs={"main": BRANCH}),
        "$.refs.main.snapshot-id",
    ),
    "main needs a current snapshot": (
        v2_document(snapshots=history((1, None)), refs={"main": BRANCH}),
        "$.refs.main.snapshot-id",
    ),
    "current snapshot exists": (
        v2_document(snapshots=history((1, None)), current_snapshot_id=9, refs={"main": BRANCH | {"snapshot-id": 9}}),
        "$.refs.main.snapshot-id",
    ),
    "sequence numbers are up to the last": (
        v2_document(last_sequence_number=1, snapshots=[snapshot(1), snapshot(2)]),
        "$.snapshots[1].sequence-number",
    ),
    "sequence numbers are zero in version 1": (v1_document(snapshots=[snapshot(1)]), "$.snapshots[0].sequence-number"),
    "a snapshot has manifests": (
        v2_document(snapshots=[snapshot(1, manifest_list=...)]),
        "$.snapshots[0].manifest-list",
    ),
    "first row id is not negative": (
        v3_document(snapshots=[snapshot(1) | {"first-row-id": -1, "added-rows": 0}]),
        "$.snapshots[0].first-row-id",
    ),
    "added rows are not negative": (
        v3_document(snapshots=[snapshot(1) | {"added-rows": -1}]),
        "$.snapshots[0].added-rows",
    ),
    "first row id needs added rows": (
        v3_document(snapshots=[snapshot(1) | {"first-row-id": 1}]),
        "$.snapshots[0].added-rows",
    ),
    "next row id is required in version 3": (v3_document(next_row_id=...), "$.next-row-id"),
    "the snapshot log is in order": (v2_document(snapshot_log=log(0, -MINUTE - 1)), "$.snapshot-log[1].timestamp-ms"),
    "the snapshot log ends before the update": (v2_document(snapshot_log=log(0, MINUTE + 1)), "$.last-updated-ms"),
    "the metadata log is in order": (
        v2_document(metadata_log=files(-5, -MINUTE - 6)),
        "$.metadata-log[1].timestamp-ms",
    ),
    "the metadata log ends before the update": (v2_document(metadata_log=files(MINUTE + 1)), "$.last-updated-ms"),
}


@pytest.mark.parametrize("rule", READING)
def test_reading_insists(rule: str) -> None:
    document, path = READING[rule]
    with pytest.raises(InvalidMetadata) as caught:
        read(document)
    assert caught.value.path == path


def test_logs_may_step_back_by_a_minute_as_clocks_differ() -> None:
    read(v2_document(snapshot_log=log(0, -MINUTE, 0, MINUTE), metadata_log=files(MINUTE, 0, MINUTE)))


def test_a_log_may_name_snapshots_that_are_gone() -> None:
    read(v2_document(snapshot_log=log(-5)))


def test_a_parent_may_be_gone() -> None:
    assert list(writing_problems(read(v2_document(snapshots=history((2, 1)))))) == []


WRITING = {
    "last column id is the highest": (v2_document(last_column_id=1), "$.last-column-id"),
    "last column id counts old schemas": (
        v2_document(
            schemas=[
                v2_document()["schemas"][0],
                {"type": "struct", "schema-id": 1, "fields": [
                    {"id": 9, "name": "z", "required": False, "type": "int"}]},
            ]
        ),
        "$.last-column-id",
    ),
    "last partition id is the highest": (v2_document(last_partition_id=999), "$.last-partition-id"),
    "the schema is of the table's version": (
        v2_document(
            schemas=[{"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "x", "required": False, "type": "timestamp_ns"}]}]
        ),
        "$.schemas",
    ),
    "the default spec fits the schema": (
        v2_document(
            partition_specs=[{"spec-id": 0, "fields": [
                {"name": "gone", "transform": "identity", "source-id": 77, "field-id": 1000}]}]
        ),
        "$.partition-specs",
    ),
    "no column has the name of an old spec's field": (
        v2_document(
            partition_specs=[
                {"spec-id": 0, "fields": []},
                {"spec-id": 1, "fields": [{"name": "y", "transform": "identity", "source-id": 1, "field-id": 1000}]},
            ]
        ),
        "$.partition-specs[1]",
    ),
    "the sort order fits the schema": (
        v2_document(
            sort_orders=[{"order-id": 1, "fields": [
                {"transform": "identity", "source-id": 77, "direction": "asc", "null-order": "nulls-first"}]}],
            default_sort_order_id=1,
        ),
        "$.sort-orders",
    ),
    "main is a branch": (
        v2_document(
            snapshots=history((1, None)), current_snapshot_id=1, refs={"main": {"snapshot-id": 1, "type": "tag"}}
        ),
        "$.refs.main.type",
    ),
    "sequence numbers grow from parent to child": (
        v2_document(snapshots=[snapshot(5), snapshot(4, parent_snapshot_id=5)]),
        "$.snapshots[1].sequence-number",
    ),
    "next row id is above all row ids": (
        v3_document(next_row_id=14, snapshots=[snapshot(1) | ROW_IDS]),
        "$.next-row-id",
    ),
    "next row id is not negative": (v3_document(next_row_id=-1), "$.next-row-id"),
    "schemas of snapshots exist": (v2_document(snapshots=[snapshot(1, schema_id=9)]), "$.snapshots[0].schema-id"),
    "one statistics file for a snapshot": (
        v2_document(
            statistics=[{"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1,
                         "file-footer-size-in-bytes": 1, "blob-metadata": []}] * 2
        ),
        "$.statistics[1]",
    ),
    "one partition statistics file for a snapshot": (
        v2_document(
            partition_statistics=[{"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1}] * 2
        ),
        "$.partition-statistics[1]",
    ),
    "key ids are unique": (
        v3_document(encryption_keys=[{"key-id": "k", "encrypted-key-metadata": ""}] * 2),
        "$.encryption-keys[1]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", WRITING)
def test_writing_insists_while_reading_does_not(rule: str) -> None:
    document, path = WRITING[rule]
    table = read(document)
    assert list(reading_problems(table)) == []
    with pytest.raises(InvalidMetadata) as caught:
        check_for_writing(table)
    assert caught.value.path == path


def test_a_refreshed_table_must_have_the_same_uuid() -> None:
    other = "11111111-03fe-4693-9a96-a0705ddf69c1"
    known = read(v2_document()).table_uuid
    check_same_table(known, read(v2_document(last_sequence_number=35)).table_uuid, "db.t")
    check_same_table(known, read(v2_document(table_uuid=UUID.upper())).table_uuid, "db.t")
    check_same_table(None, read(v1_document(table_uuid=UUID)).table_uuid, "db.t")
    for changed in (v2_document(table_uuid=other), v1_document()):
        found = read(changed).table_uuid
        told = rf"uuid {UUID}.* now has (uuid {found}|no uuid).*db\.t.*load the table again"
        with pytest.raises(NoSuchTable, match=told):
            check_same_table(known, found, "db.t")


def test_next_row_id_may_be_the_first_free_one() -> None:
    check_for_writing(read(v3_document(next_row_id=15, snapshots=[snapshot(1) | ROW_IDS])))


def test_snapshots_from_before_an_upgrade_have_sequence_number_zero() -> None:
    snapshots = [snapshot(1, sequence_number=...), snapshot(2, sequence_number=..., parent_snapshot_id=1)]
    check_for_writing(read(v2_document(snapshots=[*snapshots, snapshot(3, parent_snapshot_id=2)])))


def test_all_problems_lists_every_one() -> None:
    table = read(
        v2_document(
            last_column_id=1,
            last_partition_id=1,
            snapshots=[snapshot(1, summary={"operation": 5}), snapshot(2, summary={"operation": "vacuum"})],
        )
    )
    assert [problem.path for problem in all_problems(table)] == [
        "$.last-column-id",
        "$.last-partition-id",
        "$.snapshots[0].summary.operation",
        "$.snapshots[1].summary.operation",
    ]


def test_problems_of_reading_come_before_those_of_writing() -> None:
    table = read(v2_document(last_column_id=1))
    broken = type(table)(**{**{f: getattr(table, f) for f in table.__dataclass_fields__}, "table_uuid": None})
    assert [problem.path for problem in writing_problems(broken)] == ["$.table-uuid", "$.last-column-id"]


def test_checks_of_ten_thousand_snapshots_are_part_of_parsing() -> None:
    ids = list(range(1, 10_001))
    document = v2_document(last_sequence_number=10_000, snapshots=[snapshot(n) for n in ids] + [snapshot(5)])
    with pytest.raises(InvalidMetadata, match="numbers 4 and 10000 of the list"):
        read(document, Limits())
