"""The JSON of table updates: as the REST protocol has it, and hostile."""

import copy
import json

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.update import TableUpdate as PyIcebergUpdate

from floe.errors import FloeError, InvalidInput, InvalidMetadata, UnsupportedFeature
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    RemoveProperties,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    update_from_json,
    update_to_json,
    updates_from_json,
    updates_to_json,
)
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, IDENTITY
from helpers.update_samples import SAMPLES, STATISTICS, STATISTICS_JSON

ACTIONS = sorted(SAMPLES)
UNKNOWN_TO_PYICEBERG = {"add-encryption-key", "remove-encryption-key"}


@pytest.mark.parametrize("action", ACTIONS)
def test_update_json_is_read(action):
    document, value = SAMPLES[action]
    assert update_from_json(document) == value


@pytest.mark.parametrize("action", ACTIONS)
def test_update_json_is_written(action):
    document, value = SAMPLES[action]
    assert update_to_json(value) == document


@pytest.mark.parametrize("action", ACTIONS)
def test_update_json_leaves_its_input_alone(action):
    document = SAMPLES[action][0]
    before = copy.deepcopy(document)
    update_from_json(document)
    assert document == before


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - UNKNOWN_TO_PYICEBERG))
def test_update_json_is_understood_by_pyiceberg(action):
    value = SAMPLES[action][1]
    theirs = TypeAdapter(PyIcebergUpdate).validate_json(json.dumps(update_to_json(value)))
    assert update_from_json(json.loads(theirs.model_dump_json())) == _without_deprecated(value)


def _without_deprecated(update):
    """PyIceberg drops `last-column-id`, and `key-id` of snapshots, which it does not know."""
    if isinstance(update, AddSchema):
        return AddSchema(update.schema)
    if isinstance(update, AddSnapshot):
        document = copy.deepcopy(SAMPLES["add-snapshot"][0])
        del document["snapshot"]["key-id"]
        return update_from_json(document)
    return update


def test_lists_of_updates_keep_their_order():
    documents = [SAMPLES[action][0] for action in ACTIONS]
    assert updates_to_json(updates_from_json(documents)) == documents


# forms of other times ---------------------------------------------------------------------------------------------


def test_last_column_id_beside_a_schema_is_optional():
    document = {key: value for key, value in SAMPLES["add-schema"][0].items() if key != "last-column-id"}
    assert update_from_json(document).last_column_id is None
    assert update_to_json(update_from_json(document)) == document


def test_set_statistics_with_the_deprecated_snapshot_id_or_without():
    without = {"action": "set-statistics", "statistics": STATISTICS_JSON}
    assert update_from_json(without) == update_from_json({**without, "snapshot-id": 30}) == SetStatistics(STATISTICS)


def test_set_statistics_refuses_a_snapshot_id_that_contradicts_the_statistics():
    with pytest.raises(InvalidMetadata, match=r"\$\.snapshot-id: contradicts the snapshot-id 30"):
        update_from_json({"action": "set-statistics", "snapshot-id": 31, "statistics": STATISTICS_JSON})


def test_properties_under_their_earlier_names():
    assert update_from_json({"action": "set-properties", "updated": {"a": "1"}}) == SetProperties({"a": "1"})
    assert update_from_json({"action": "remove-properties", "removed": ["a"]}) == RemoveProperties(("a",))
    both = {"action": "set-properties", "updates": {"a": "1"}, "updated": {"a": "2"}}
    assert update_from_json(both) == SetProperties({"a": "1"})


def test_partition_field_ids_may_be_left_out():
    fields = [
        {"name": "ts_day", "transform": "day", "source-id": 2},
        {"name": "id", "transform": "identity", "source-id": 1},
    ]
    document = {"action": "add-spec", "spec": {"spec-id": 0, "fields": fields}}
    update = update_from_json(document)
    assert update == AddPartitionSpec(
        PartitionSpec((PartitionField((2,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "id", IDENTITY))),
        assign_field_ids=True,
    )
    assert update_to_json(update) == document


def test_a_spec_id_may_be_left_out():
    assert update_from_json({"action": "add-spec", "spec": {"fields": []}}).spec == PartitionSpec()


def test_ref_fields_stand_inline_and_unknown_ones_belong_to_the_ref():
    document = {"action": "set-snapshot-ref", "ref-name": "t", "snapshot-id": 3, "type": "tag", "owner": "ana"}
    update = update_from_json(document)
    assert isinstance(update, SetSnapshotRef)
    assert (update.name, update.ref.is_tag, update.ref.extra) == ("t", True, {"owner": "ana"})
    assert update_to_json(update) == document


def test_unknown_keys_of_stored_things_are_kept():
    document = copy.deepcopy(SAMPLES["add-snapshot"][0])
    document["snapshot"]["colour"] = {"deep": [1]}
    assert update_to_json(update_from_json(document)) == document


# what cannot be read ----------------------------------------------------------------------------------------------


def test_an_unknown_action_is_named():
    with pytest.raises(UnsupportedFeature, match=r"fly-away.*assign-uuid"):
        update_from_json({"action": "fly-away"})


@pytest.mark.parametrize("action", ["add-view-version", "set-current-view-version"])
def test_an_update_of_a_view_is_told_apart(action):
    with pytest.raises(UnsupportedFeature, match="it is an update of a view"):
        update_from_json({"action": action})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "$: must be a JSON object, found null"),
        ([], "$: must be a JSON object, found a list"),
        ({}, "$.action: is missing"),
        ({"action": 3}, "$.action: must be a string, found an integer"),
        ({"action": "assign-uuid", "uuid": None}, "$.uuid: must not be null"),
        ({"action": "assign-uuid", "uuid": 5}, "$.uuid: must be a string, found an integer"),
        ({"action": "upgrade-format-version", "format-version": "3"}, "$.format-version: must be an integer"),
        ({"action": "upgrade-format-version", "format-version": True}, "$.format-version: must be an integer"),
        ({"action": "upgrade-format-version", "format-version": 2**31}, "does not fit a 32-bit integer"),
        ({"action": "remove-snapshots", "snapshot-ids": [1, "2"]}, "$.snapshot-ids[1]: must be an integer"),
        ({"action": "remove-snapshots", "snapshot-ids": 2**70}, "$.snapshot-ids: must be a list"),
        ({"action": "remove-snapshots", "snapshot-ids": [2**63]}, "$.snapshot-ids[0]: the number does not fit"),
        ({"action": "remove-statistics", "snapshot-id": 1.0}, "$.snapshot-id: must be an integer"),
        ({"action": "set-properties", "updates": {"a": 1}}, "$.updates.a: must be a string, found an integer"),
        ({"action": "set-properties", "updated": [1]}, "$.updated: must be a JSON object"),
        ({"action": "remove-properties", "removals": [None]}, "$.removals[0]: must be a string"),
        ({"action": "add-schema", "schema": {"fields": [{"id": 1}]}}, "$.schema.fields[0].name: is missing"),
        ({"action": "add-spec", "spec": {"fields": [{"name": "a"}]}}, "$.spec.fields[0]"),
        ({"action": "add-sort-order", "sort-order": {"order-id": 1}}, "$.sort-order"),
        ({"action": "add-snapshot", "snapshot": {"snapshot-id": 1}}, "$.snapshot.timestamp-ms: is missing"),
        (
            {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "timestamp-ms": 1, "summary": {"a": 1}}},
            "$.snapshot.summary.a: must be a string",
        ),
        (
            {"action": "set-snapshot-ref", "ref-name": "a", "snapshot-id": 1, "type": "twig"},
            "$.type: ",
        ),
        ({"action": "set-snapshot-ref", "ref-name": "a", "type": "tag"}, "$.snapshot-id: is missing"),
        ({"action": "set-statistics", "statistics": {"snapshot-id": 1}}, "$.statistics."),
        ({"action": "add-encryption-key", "encryption-key": {"key-id": "a"}}, "$.encryption-key."),
        ({"action": "add-encryption-key", "encryption-key": []}, "$.encryption-key: must be a JSON object"),
    ],
)
def test_a_mistake_is_found_with_its_path(document, message):
    with pytest.raises(InvalidMetadata) as caught:
        update_from_json(document)
    assert message in str(caught.value)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_part_of_an_update_is_required_but_deprecated_ones(action):
    document = SAMPLES[action][0]
    optional = {
        "last-column-id",
        "min-snapshots-to-keep",
        "max-snapshot-age-ms",
        "max-ref-age-ms",
    } | ({"snapshot-id"} if action == "set-statistics" else set())
    for key in document.keys() - optional - {"action"}:
        with pytest.raises(InvalidMetadata) as caught:
            update_from_json({k: v for k, v in document.items() if k != key})
        assert str(caught.value).startswith(f"$.{key}: is missing")


def test_a_mistake_in_a_list_is_found_with_its_index():
    with pytest.raises(InvalidMetadata) as caught:
        updates_from_json([SAMPLES["set-location"][0], {"action": "set-location", "location": 7}])
    assert caught.value.path == "$[1].location"
    with pytest.raises(InvalidMetadata, match="must be a list, found a JSON object"):
        updates_from_json({})


def test_a_deep_type_is_no_recursion_error():
    type_: object = "int"
    for n in range(5000):
        type_ = {"type": "list", "element-id": n, "element": type_, "element-required": False}
    schema = {"type": "struct", "fields": [{"id": 9999, "name": "a", "required": False, "type": type_}]}
    with pytest.raises(InvalidMetadata, match="deep"):
        update_from_json({"action": "add-schema", "schema": schema})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_hostile_json_gives_floe_errors_alone(data):
    """Any part of a good update in place of any other JSON: a value or an error of ours, nothing else."""
    document = copy.deepcopy(SAMPLES[data.draw(st.sampled_from(ACTIONS))][0])
    places = list(_places(document))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(JSON)
    try:
        update = update_from_json(document)
    except FloeError:
        return
    assert update_from_json(update_to_json(update)) == update


def _places(node):
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])


def test_an_unknown_update_is_named_with_its_place():
    with pytest.raises(UnsupportedFeature, match="fly-away") as caught:
        updates_from_json([{"action": "set-location", "location": "s3://b/t"}, {"action": "fly-away"}])
    assert caught.value.context["path"] == "$[1]"


def test_what_is_no_update_cannot_be_written():
    with pytest.raises(InvalidInput, match="not a table update: 'nonsense'"):
        update_to_json("nonsense")
