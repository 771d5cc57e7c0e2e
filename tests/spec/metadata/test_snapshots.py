"""Snapshots as values and JSON, their summaries, and walks through their history (spec: Snapshots)."""

import json
import pickle
from uuid import UUID

import msgspec
import pytest

from floe.errors import InvalidMetadata, NoSuchSnapshot
from floe.spec.metadata.ancestry import ancestors, is_ancestor_of, oldest_ancestor, snapshots_between
from floe.spec.metadata.snapshots import (
    OPERATIONS,
    Snapshot,
    has_undecoded_summary,
    new_snapshot_id,
    snapshot_from_json,
    snapshot_to_json,
)
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import metadata_to_json, parse, serialize
from helpers.metadata_documents import LIST, NOW, history, read, snapshot, v1_document, v2_document, v3_document

FULL = {
    "sequence-number": 7,
    "snapshot-id": 3051729675574597004,
    "parent-snapshot-id": 2051729675574597004,
    "timestamp-ms": 1515100955770,
    "summary": {"operation": "append", "added-data-files": "4"},
    "manifest-list": "s3://b/wh/s1.avro",
    "schema-id": 3,
    "first-row-id": 40,
    "added-rows": 5,
    "key-id": "k1",
}


def test_every_field_of_a_snapshot_is_read_and_written() -> None:
    value = snapshot_from_json(FULL)
    assert value == Snapshot(
        sequence_number=7,
        snapshot_id=3051729675574597004,
        parent_snapshot_id=2051729675574597004,
        timestamp_ms=1515100955770,
        summary={"operation": "append", "added-data-files": "4"},
        manifest_list="s3://b/wh/s1.avro",
        schema_id=3,
        first_row_id=40,
        added_rows=5,
        key_id="k1",
    )
    assert list(snapshot_to_json(value).items()) == list(FULL.items())


def test_snapshot_id_is_required() -> None:
    with pytest.raises(InvalidMetadata, match=r"\$\.snapshot-id: is missing"):
        snapshot_from_json({"timestamp-ms": 1})


def test_timestamp_is_required() -> None:
    with pytest.raises(InvalidMetadata, match=r"\$\.timestamp-ms: is missing"):
        snapshot_from_json({"snapshot-id": 1})


def test_parent_snapshot_id_is_omitted_without_a_parent() -> None:
    value = snapshot_from_json({"snapshot-id": 1, "timestamp-ms": 1, "parent-snapshot-id": None})
    assert value.parent_snapshot_id is None
    assert snapshot_to_json(value) == {"snapshot-id": 1, "timestamp-ms": 1}


def test_sequence_number_defaults_to_zero_and_is_not_written_then() -> None:
    value = snapshot_from_json({"snapshot-id": 1, "timestamp-ms": 1})
    assert value.sequence_number == 0
    assert "sequence-number" not in snapshot_to_json(value)


def test_manifest_list_or_inline_manifests() -> None:
    table = read(
        v1_document(
            snapshots=[
                {"snapshot-id": 1, "timestamp-ms": 1, "manifests": ["a.avro", "b.avro"]},
                {"snapshot-id": 2, "timestamp-ms": 2, "manifest-list": LIST},
            ]
        )
    )
    assert [(s.manifest_list, s.manifests) for s in table.snapshots] == [(None, ("a.avro", "b.avro")), (LIST, None)]
    assert metadata_to_json(table)["snapshots"][0]["manifests"] == ["a.avro", "b.avro"]


def test_manifests_may_be_an_empty_list() -> None:
    table = read(v1_document(snapshots=[{"snapshot-id": 1, "timestamp-ms": 1, "manifests": []}]))
    assert table.snapshots[0].manifests == ()
    assert metadata_to_json(table)["snapshots"][0]["manifests"] == []


def test_schema_id_may_be_missing_and_then_the_current_schema_counts() -> None:
    schemas = [
        {"type": "struct", "schema-id": n, "fields": [{"id": 1, "name": f"x{n}", "required": True, "type": "long"}]}
        for n in (0, 1)
    ]
    table = read(v2_document(schemas=schemas, current_schema_id=1, snapshots=[snapshot(1), snapshot(2, schema_id=...)]))
    assert [table.schema_for(s).schema_id for s in table.snapshots] == [0, 1]


def test_a_schema_id_that_the_table_does_not_have_is_found_when_used() -> None:
    table = read(v2_document(snapshots=[snapshot(1, schema_id=9)]))
    with pytest.raises(InvalidMetadata, match="no schema with id 9"):
        table.schema_for(table.snapshots[0])


@pytest.mark.parametrize("key", ["first-row-id", "added-rows"])
def test_v3_row_ids_of_a_snapshot_are_not_negative(key: str) -> None:
    document = v3_document(snapshots=[snapshot(1) | {"first-row-id": 0, "added-rows": 0} | {key: -1}])
    with pytest.raises(InvalidMetadata, match="must not be negative") as caught:
        read(document)
    assert caught.value.path == f"$.snapshots[0].{key}"


def test_v3_first_row_id_needs_added_rows() -> None:
    with pytest.raises(InvalidMetadata) as caught:
        read(v3_document(snapshots=[snapshot(1) | {"first-row-id": 0}]))
    assert caught.value.path == "$.snapshots[0].added-rows"


def test_v3_snapshots_of_an_upgraded_table_have_no_row_ids() -> None:
    table = read(v3_document(snapshots=[snapshot(1), snapshot(2) | {"first-row-id": 0, "added-rows": 0}]))
    assert [s.first_row_id for s in table.snapshots] == [None, 0]


def test_v3_zero_row_ids_are_written() -> None:
    value = snapshot_from_json(snapshot(1) | {"first-row-id": 0, "added-rows": 0})
    assert snapshot_to_json(value)["first-row-id"] == 0
    assert snapshot_to_json(value)["added-rows"] == 0


def test_key_id_names_the_key_of_the_manifest_list() -> None:
    assert snapshot_from_json(FULL).key_id == "k1"


def test_unknown_keys_of_a_snapshot_survive() -> None:
    json_ = FULL | {"later": {"a": [1, 2.5, None]}, "extra": "a key of that very name"}
    value = snapshot_from_json(json_)
    assert value.extra == {"later": {"a": [1, 2.5, None]}, "extra": "a key of that very name"}
    assert snapshot_to_json(value) == json_


def test_a_snapshot_is_not_an_object_of_another_kind() -> None:
    for wrong in (None, [], "x", 3):
        with pytest.raises(InvalidMetadata, match="must be a JSON object"):
            snapshot_from_json(wrong)


# summaries ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation: str) -> None:
    table = read(v2_document(snapshots=[snapshot(1, summary={"operation": operation, "k": "v"})]))
    assert table.snapshots[0].operation == operation


def test_operations_are_those_of_the_spec() -> None:
    assert OPERATIONS == ("append", "replace", "overwrite", "delete")


def test_a_snapshot_without_summary_has_no_operation() -> None:
    table = read(v2_document(snapshots=[snapshot(1, summary=...), snapshot(2, summary=None), snapshot(3, summary={})]))
    assert [s.operation for s in table.snapshots] == [None, None, None]
    assert [s.summary for s in table.snapshots] == [None, None, {}]


def test_a_summary_without_operation_counts_as_overwrite_as_in_java() -> None:
    table = read(v2_document(snapshots=[snapshot(1, summary={"added-records": "3"})]))
    assert table.snapshots[0].operation == "overwrite"
    assert metadata_to_json(table)["snapshots"][0]["summary"] == {"added-records": "3"}


def test_a_summary_is_decoded_only_when_asked_for() -> None:
    table = read(v2_document(snapshots=[snapshot(1), snapshot(2)]))
    assert [has_undecoded_summary(s) for s in table.snapshots] == [True, True]
    assert table.snapshots[0].summary == {"operation": "append"}
    assert [has_undecoded_summary(s) for s in table.snapshots] == [False, True]
    assert table.snapshots[0].summary is table.snapshots[0].summary


def test_a_summary_that_was_not_decoded_is_written_as_it_was() -> None:
    document = v2_document(snapshots=[snapshot(1, summary={"b": "1", "a": 'é\u2028\\"', "operation": "append"})])
    table = read(document)
    assert metadata_to_json(table)["snapshots"] == document["snapshots"]


def test_a_summary_is_written_with_its_operation_first() -> None:
    value = Snapshot(snapshot_id=1, timestamp_ms=1, summary={"a": "1", "operation": "delete"}, manifest_list=LIST)
    assert list(snapshot_to_json(value)["summary"]) == ["operation", "a"]


def test_equality_does_not_depend_on_what_was_decoded() -> None:
    one, other = read(v2_document(snapshots=[snapshot(1)])), read(v2_document(snapshots=[snapshot(1)]))
    assert one.snapshots[0].summary is not None
    assert has_undecoded_summary(other.snapshots[0])
    assert one == other
    assert hash(one.snapshots[0]) == hash(other.snapshots[0])
    assert one.snapshots[0] != snapshot_from_json(snapshot(1, summary={"operation": "delete"}))
    assert one.snapshots[0] != 1


def test_a_snapshot_that_was_not_decoded_can_be_shown_copied_and_pickled() -> None:
    for use in (
        lambda s: s,
        lambda s: pickle.loads(pickle.dumps(s)),
        msgspec.structs.replace,
    ):
        table = read(v2_document(snapshots=[snapshot(1)]))
        assert use(table.snapshots[0]) == snapshot_from_json(snapshot(1))
    assert "summary={'operation': 'append'}" in repr(read(v2_document(snapshots=[snapshot(1)])).snapshots[0])


def test_metadata_can_be_pickled() -> None:
    table = read(v2_document(snapshots=history((1, None), (2, 1)), unknown=1))
    assert pickle.loads(pickle.dumps(table)) == table


@pytest.mark.parametrize(
    ("summary", "path"),
    [
        ({"operation": 5}, "$.snapshots[1].summary.operation"),
        ({"operation": "append", "n": 5}, "$.snapshots[1].summary.n"),
        ({"operation": "append", "n": None}, "$.snapshots[1].summary.n"),
        ([], "$.snapshots[1].summary"),
        ("append", "$.snapshots[1].summary"),
    ],
)
def test_a_summary_must_be_a_map_of_strings(summary: object, path: str) -> None:
    """Found at once where the document is read with care, else when the summary is first looked at."""
    document = v2_document(snapshots=[snapshot(1), snapshot(2, summary=summary)])
    lazily = read(document)
    with pytest.raises(InvalidMetadata, match="must be a") as caught:
        _ = lazily.snapshots[1].summary
    assert caught.value.path == path.replace("snapshots[1].", "")
    assert caught.value.context == {"snapshot": 2}
    document["snapshots"][0]["unknown"] = 1
    with pytest.raises(InvalidMetadata) as caught:
        read(document)
    assert caught.value.path == path


def test_a_summary_in_a_document_with_layout_is_read_at_once_and_written_compactly() -> None:
    document = v2_document(snapshots=[snapshot(1), snapshot(2)])
    compact = serialize(read(document))
    for indent in (None, 1, 4, "\t"):
        assert serialize(parse(json.dumps(document, indent=indent).encode())) == compact
    document["snapshots"][1]["summary"] = {"operation": 5}
    with pytest.raises(InvalidMetadata) as caught:
        parse(json.dumps(document, indent=1).encode())
    assert caught.value.path == "$.snapshots[1].summary.operation"


# ids ------------------------------------------------------------------------------------------------------------


def test_snapshot_ids_are_positive_longs_from_both_halves_of_a_uuid() -> None:
    made = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert new_snapshot_id(make_uuid=lambda: made) == 0xF79C3E09677C4BBD ^ 0xA4793F349CB785E7
    assert all(0 < new_snapshot_id() < 2**63 for _ in range(100))
    negative = UUID("80000000-0000-0000-0000-000000000001")
    assert new_snapshot_id(make_uuid=lambda: negative) == 1


def test_snapshot_ids_do_not_clash_with_existing_ones() -> None:
    made = iter([UUID(int=7), UUID(int=0), UUID(int=7), UUID(int=8)])
    assert new_snapshot_id({7}, lambda: next(made)) == 8


# history --------------------------------------------------------------------------------------------------------


def table_of(*pairs: tuple[int, int | None]) -> TableMetadata:
    return read(v2_document(snapshots=history(*pairs)))


def ids(snapshots: object) -> list[int]:
    return [s.snapshot_id for s in snapshots]  # type: ignore[attr-defined]


def test_ancestors_go_from_the_snapshot_to_the_first() -> None:
    table = table_of((1, None), (2, 1), (3, 2), (4, 2))
    assert ids(ancestors(table, 4)) == [4, 2, 1]
    assert ids(ancestors(table, 1)) == [1]
    assert ids(ancestors(table, None)) == []


def test_ancestors_end_where_a_parent_has_expired() -> None:
    assert ids(ancestors(table_of((3, 2), (4, 3)), 4)) == [4, 3]


def test_ancestors_end_where_parents_form_a_cycle() -> None:
    assert ids(ancestors(table_of((1, 3), (2, 1), (3, 2)), 3)) == [3, 2, 1]
    assert ids(ancestors(table_of((1, 1)), 1)) == [1]


def test_ancestors_of_a_long_history() -> None:
    document = v2_document(last_sequence_number=5000, snapshots=history(*((n, n - 1 or None) for n in range(1, 5001))))
    assert len(ids(ancestors(read(document), 5000))) == 5000


def test_ancestors_of_an_unknown_snapshot() -> None:
    with pytest.raises(NoSuchSnapshot, match="no snapshot 9"):
        list(ancestors(table_of((1, None)), 9))


def test_is_ancestor_of() -> None:
    table = table_of((1, None), (2, 1), (3, 2), (4, 2))
    assert is_ancestor_of(table, 1, 4)
    assert is_ancestor_of(table, 4, 4)
    assert not is_ancestor_of(table, 3, 4)
    assert not is_ancestor_of(table, 1, None)


def test_oldest_ancestor() -> None:
    assert oldest_ancestor(table_of((1, None), (2, 1), (3, 2)), 3).snapshot_id == 1
    assert oldest_ancestor(table_of((2, 1), (3, 2)), 3).snapshot_id == 2


def test_snapshots_between() -> None:
    table = table_of((1, None), (2, 1), (3, 2), (4, 3), (5, 2))
    assert ids(snapshots_between(table, 1, 4)) == [2, 3, 4]
    assert ids(snapshots_between(table, 4, 4)) == []
    assert ids(snapshots_between(table, None, 3)) == [1, 2, 3]
    with pytest.raises(NoSuchSnapshot, match="5 is not in the history of snapshot 4"):
        snapshots_between(table, 5, 4)


def test_snapshots_between_starts_after_an_expired_snapshot_that_a_child_names() -> None:
    assert ids(snapshots_between(table_of((3, 2), (4, 3)), 2, 4)) == [3, 4]
    with pytest.raises(NoSuchSnapshot):
        snapshots_between(table_of((3, 2), (4, 3)), 1, 4)


def test_timestamps_are_milliseconds() -> None:
    assert table_of((1, None)).snapshots[0].timestamp_ms == NOW - 999
