"""Changing views: updates, requirements, replacing, and how much history stays."""

import json
from dataclasses import fields, replace
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidMetadata, InvalidUpdate, RequirementFailed, UnsupportedFeature
from floe.spec.metadata.updates import (
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetCurrentSchema,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, Field
from floe.spec.views.view_metadata import SqlRepresentation, ViewVersion, check_view, parse_view, serialize_view
from floe.spec.views.view_updates import (
    AddViewVersion,
    AssertViewUuid,
    SetCurrentViewVersion,
    ViewUpdate,
    apply_to_view,
    check_view_requirements,
    view_creation_updates,
    view_replacement_updates,
    view_requirement_from_json,
    view_requirement_to_json,
    view_update_from_json,
    view_update_to_json,
    view_updates_from_json,
)

UUID = "fa6506c3-7681-40c8-86dc-e36561f83385"
OTHER_UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
LOCATION = "s3://bucket/warehouse/v"
SCHEMA = Schema((Field(1, "n", LONG),))
WIDER = Schema((Field(1, "n", LONG), Field(2, "m", INT)))


def version(text="SELECT 1", *dialects, **options):
    representations = tuple(SqlRepresentation(text, dialect) for dialect in dialects or ("spark",))
    return ViewVersion(
        **{
            "version_id": 1,
            "schema_id": 0,
            "timestamp_ms": 1000,
            "representations": representations,
            "default_namespace": ("db",),
        }
        | options
    )


def create(first=None, **options):
    updates = view_creation_updates(SCHEMA, first or version(), location=LOCATION, uuid=UUID, **options)
    return apply_to_view(None, updates, now_ms=5000)


def replaced(view, new, schema=SCHEMA, now_ms=9000):
    return apply_to_view(view, view_replacement_updates(schema, new), now_ms=now_ms)


def log(view):
    return [(entry.timestamp_ms, entry.version_id) for entry in view.version_log]


# creating ---------------------------------------------------------------------------------------------------------


def test_view_is_created():
    view = create(properties={"comment": "mine"})
    assert (view.view_uuid, view.location, view.format_version) == (UUID, LOCATION, 1)
    assert (view.schema, view.properties) == (SCHEMA, {"comment": "mine"})
    assert (view.current_version, log(view)) == (version(), [(1000, 1)])
    check_view(view)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [(AssignUuid, "uuid"), (SetLocation, "location"), (SetCurrentViewVersion, "current version")],
)
def test_view_must_have_all_its_parts(kind, missing):
    updates = [u for u in view_creation_updates(SCHEMA, version(), location=LOCATION, uuid=UUID) if type(u) is not kind]
    with pytest.raises(InvalidUpdate, match=f"the view would have no {missing}"):
        apply_to_view(None, updates, now_ms=1)


# replacing --------------------------------------------------------------------------------------------------------


def test_view_is_replaced_by_a_new_version():
    view = create()
    after = replaced(view, version("SELECT 2", timestamp_ms=7000), WIDER)
    assert [v.version_id for v in after.versions] == [1, 2]
    assert (after.current_version_id, after.schema.schema_id, len(after.schemas)) == (2, 1, 2)
    assert log(after) == [(1000, 1), (7000, 2)]
    assert view.current_version_id == 1, "what was given stays as it was"


def test_view_version_equal_to_another_is_found_again():
    view = replaced(create(), version("SELECT 2", timestamp_ms=7000))
    back = replaced(view, version("SELECT 1", timestamp_ms=8000), now_ms=9000)
    assert (back.versions, back.current_version_id) == (view.versions, 1)
    assert log(back) == [(1000, 1), (7000, 2), (9000, 1)], "a rollback is logged with its own time"


def test_view_replaced_by_the_same_definition_is_the_same():
    view = create()
    assert replaced(view, version(timestamp_ms=7000)) is view


def test_view_version_ids_are_above_all_others():
    assert [v.version_id for v in replaced(create(), version("SELECT 2", version_id=8)).versions] == [1, 8]
    view = replaced(create(), version("SELECT 2", version_id=8))
    assert replaced(view, version("SELECT 3", version_id=3)).current_version_id == 9


def test_view_rollback_to_a_version():
    view = replaced(create(), version("SELECT 2", timestamp_ms=7000))
    back = apply_to_view(view, [SetCurrentViewVersion(1)], now_ms=9999)
    assert (back.current_version_id, log(back)[-1]) == (1, (9999, 1))
    with pytest.raises(InvalidUpdate, match="the view has no version 5"):
        apply_to_view(view, [SetCurrentViewVersion(5)], now_ms=9999)
    with pytest.raises(InvalidUpdate, match=r"the last added view version .* but none was added"):
        apply_to_view(view, [SetCurrentViewVersion()], now_ms=9999)


def test_view_version_needs_a_schema():
    view = create()
    with pytest.raises(InvalidUpdate, match="no schema with id 3"):
        apply_to_view(view, [AddViewVersion(version("SELECT 2", schema_id=3))], now_ms=1)
    with pytest.raises(InvalidUpdate, match=r"last added schema .* no schema was added"):
        apply_to_view(view, [AddViewVersion(version("SELECT 2", schema_id=-1))], now_ms=1)
    added = apply_to_view(view, [AddSchema(WIDER), AddViewVersion(version("SELECT 2", schema_id=-1))], now_ms=1)
    assert added.versions[1].schema_id == 1
    assert added.current_version_id == 1


def test_view_version_has_at_most_one_sql_representation_per_dialect():
    with pytest.raises(InvalidUpdate, match="one SQL representation of dialect 'spark'"):
        replaced(create(), version("SELECT 2", "spark", "SPARK"))
    with pytest.raises(InvalidUpdate, match="at least one representation"):
        replaced(create(), version(representations=()))


def test_view_replacement_must_not_lose_a_dialect():
    view = create(version("SELECT 1", "spark", "trino"))
    with pytest.raises(InvalidUpdate, match="would lose its SQL in trino; it would have spark"):
        replaced(view, version("SELECT 2", "Spark"))
    assert replaced(view, version("SELECT 2", "SPARK", "Trino", "duckdb")).current_version_id == 2
    allowed = apply_to_view(view, [SetProperties({"replace.drop-dialect.allowed": "true"})], now_ms=1)
    assert replaced(allowed, version("SELECT 2", "spark")).current_version_id == 2
    at_once = [
        SetProperties({"replace.drop-dialect.allowed": "TRUE"}),
        *view_replacement_updates(SCHEMA, version("SELECT 2", "spark")),
    ]
    assert apply_to_view(view, at_once, now_ms=1).current_version.dialects == ("spark",)


# history ----------------------------------------------------------------------------------------------------------


def test_version_history_num_entries_defaults_to_10():
    view = create()
    for n in range(2, 15):
        view = replaced(view, version(f"SELECT {n}", timestamp_ms=n))
    assert [v.version_id for v in view.versions] == list(range(5, 15))
    assert [v for _, v in log(view)] == list(range(5, 15))


def test_version_history_num_entries_is_obeyed():
    view = create(properties={"version.history.num-entries": "2"})
    for n in range(2, 6):
        view = replaced(view, version(f"SELECT {n}", timestamp_ms=n))
    assert ([v.version_id for v in view.versions], [v for _, v in log(view)]) == ([4, 5], [4, 5])
    shorter = apply_to_view(view, [SetProperties({"version.history.num-entries": "1"})], now_ms=1)
    assert [v.version_id for v in shorter.versions] == [5]


def test_version_history_keeps_the_current_version_and_those_just_added():
    view = create(properties={"version.history.num-entries": "1"})
    many = [AddViewVersion(version(f"SELECT {n}")) for n in range(2, 5)]
    after = apply_to_view(view, many, now_ms=1)
    assert [v.version_id for v in after.versions] == [1, 2, 3, 4]
    assert after.current_version_id == 1


def test_version_history_log_has_no_gap():
    """A log with a gap would name wrong versions for times in between."""
    view = create(properties={"version.history.num-entries": "2"})
    view = replaced(view, version("SELECT 2", timestamp_ms=2000))
    view = apply_to_view(view, [SetCurrentViewVersion(1)], now_ms=3000)
    view = replaced(view, version("SELECT 3", timestamp_ms=4000))
    assert [v.version_id for v in view.versions] == [2, 3]
    assert log(view) == [(4000, 3)], "entries before that of version 1, which is gone, are gone too"


@pytest.mark.parametrize("text", ["0", "-1", "few"])
def test_version_history_num_entries_must_be_positive(text):
    with pytest.raises(InvalidUpdate, match=r"version\.history\.num-entries must be"):
        create(properties={"version.history.num-entries": text})


# other updates ----------------------------------------------------------------------------------------------------


def test_view_properties_location_and_uuid():
    view = create(properties={"a": "1"})
    after = apply_to_view(
        view,
        [SetProperties({"b": "2"}), RemoveProperties(("a", "none")), SetLocation("s3://new"), AssignUuid(UUID.upper())],
        now_ms=1,
    )
    assert (after.properties, after.location, after.view_uuid) == ({"b": "2"}, "s3://new", UUID)
    with pytest.raises(InvalidUpdate, match=r"cannot become .*update: assign-uuid, number 0"):
        apply_to_view(view, [AssignUuid(OTHER_UUID)], now_ms=1)
    with pytest.raises(InvalidUpdate, match="is not a uuid"):
        apply_to_view(view, [AssignUuid("x")], now_ms=1)
    with pytest.raises(InvalidUpdate, match="location must not be empty"):
        apply_to_view(view, [SetLocation("")], now_ms=1)


def test_view_format_version_stays_1():
    view = create()
    assert apply_to_view(view, [UpgradeFormatVersion(1)], now_ms=1) is view
    with pytest.raises(UnsupportedFeature, match="view format version 2"):
        apply_to_view(view, [UpgradeFormatVersion(2)], now_ms=1)
    with pytest.raises(InvalidUpdate, match="cannot go back"):
        apply_to_view(view, [UpgradeFormatVersion(0)], now_ms=1)


def test_what_is_no_update_of_a_view_is_refused():
    with pytest.raises(InvalidUpdate, match="update number 0 is not one of a view: SetCurrentSchema"):
        apply_to_view(create(), [SetCurrentSchema(0)], now_ms=1)


def test_view_unknown_keys_stay():
    view = replace(create(), extra={"colour": "blue"})
    assert apply_to_view(view, [SetProperties({"a": "1"})], now_ms=1).extra == {"colour": "blue"}


# requirements -----------------------------------------------------------------------------------------------------


def test_assert_view_uuid():
    view = create()
    check_view_requirements([AssertViewUuid(UUID), AssertViewUuid(UUID.upper())], view)
    with pytest.raises(RequirementFailed, match=f"uuid must be {OTHER_UUID}, found {UUID}"):
        check_view_requirements([AssertViewUuid(OTHER_UUID)], view)
    with pytest.raises(RequirementFailed, match="the view must exist"):
        check_view_requirements([AssertViewUuid(UUID)], None)


def test_view_requirement_json():
    document = {"type": "assert-view-uuid", "uuid": UUID}
    assert view_requirement_from_json(document) == AssertViewUuid(UUID)
    assert view_requirement_to_json(AssertViewUuid(UUID)) == document
    with pytest.raises(UnsupportedFeature, match="assert-create"):
        view_requirement_from_json({"type": "assert-create"})
    with pytest.raises(InvalidMetadata, match=r"\$\.uuid: is missing"):
        view_requirement_from_json({"type": "assert-view-uuid"})


# JSON -------------------------------------------------------------------------------------------------------------

SAMPLES = [
    ({"action": "assign-uuid", "uuid": UUID}, AssignUuid(UUID)),
    ({"action": "upgrade-format-version", "format-version": 1}, UpgradeFormatVersion(1)),
    (
        {
            "action": "add-schema",
            "schema": {
                "type": "struct",
                "schema-id": 0,
                "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}],
            },
        },
        AddSchema(SCHEMA),
    ),
    ({"action": "set-location", "location": LOCATION}, SetLocation(LOCATION)),
    ({"action": "set-properties", "updates": {"a": "1"}}, SetProperties({"a": "1"})),
    ({"action": "remove-properties", "removals": ["a"]}, RemoveProperties(("a",))),
    (
        {
            "action": "add-view-version",
            "view-version": {
                "version-id": 1,
                "timestamp-ms": 1000,
                "schema-id": -1,
                "summary": {"engine-name": "spark"},
                "default-catalog": "prod",
                "default-namespace": ["db", "sub"],
                "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
            },
        },
        AddViewVersion(
            version(
                schema_id=-1,
                summary={"engine-name": "spark"},
                default_catalog="prod",
                default_namespace=("db", "sub"),
            )
        ),
    ),
    ({"action": "set-current-view-version", "view-version-id": -1}, SetCurrentViewVersion(-1)),
]


def test_there_is_a_view_update_for_every_one_of_the_rest_protocol():
    assert {kind.action for kind in get_args(ViewUpdate)} == {document["action"] for document, _ in SAMPLES}


@pytest.mark.parametrize(("document", "update"), SAMPLES)
def test_view_update_json_both_ways(document, update):
    assert view_update_from_json(document) == update
    assert view_update_to_json(update) == document


def test_view_update_json_mistakes():
    assert view_updates_from_json([document for document, _ in SAMPLES]) == tuple(update for _, update in SAMPLES)
    with pytest.raises(UnsupportedFeature, match="add-snapshot"):
        view_update_from_json({"action": "add-snapshot"})
    broken = json.loads(json.dumps(SAMPLES[6][0]))
    del broken["view-version"]["representations"][0]["dialect"]
    with pytest.raises(InvalidMetadata) as caught:
        view_updates_from_json([SAMPLES[0][0], broken])
    assert caught.value.path == "$[1].view-version.representations[0].dialect"


# many changes -----------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("replace"), st.integers(1, 6), st.sampled_from([SCHEMA, WIDER])),
            st.tuples(st.just("roll back"), st.integers(0, 20), st.none()),
            st.tuples(st.just("keep"), st.integers(1, 4), st.none()),
        ),
        max_size=15,
    )
)
def test_random_changes_leave_a_valid_view(steps):
    view, now = create(), 10_000
    for kind, number, schema in steps:
        now += 1000
        before = replace(view)
        if kind == "replace":
            updates = view_replacement_updates(schema, version(f"SELECT {number}", timestamp_ms=now))
        elif kind == "roll back":
            updates = (SetCurrentViewVersion(view.versions[number % len(view.versions)].version_id),)
        else:
            updates = (SetProperties({"version.history.num-entries": str(number)}),)
        after = apply_to_view(view, updates, now_ms=now)
        assert view == before
        check_view(after)
        assert parse_view(serialize_view(after)) == after
        assert after.version_log[-1].version_id == after.current_version_id
        assert {entry.version_id for entry in after.version_log} <= {v.version_id for v in after.versions}
        times = [entry.timestamp_ms for entry in after.version_log]
        assert times == sorted(times)
        assert [getattr(after, f.name) for f in fields(after) if f.name in ("view_uuid", "location")] == [
            UUID,
            LOCATION,
        ]
        view = after


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (SetProperties({"a": 1}), "updates.a: must be a string"),
        (AddViewVersion(version("SELECT 2", summary={"rows": 5})), "view-version.summary.rows: must be a string"),
        (AddViewVersion(version("SELECT 2", timestamp_ms=1.5)), "view-version.timestamp-ms: must be an integer"),
        (AddViewVersion(None), "view-version: is missing"),
    ],
)
def test_values_of_wrong_kinds_are_refused_before_anything_is_written(update, words):
    created = apply_to_view(None, view_creation_updates(SCHEMA, version(), location=LOCATION, uuid=UUID), now_ms=1)
    with pytest.raises(InvalidUpdate, match=words):
        apply_to_view(created, [update], now_ms=2)
    with pytest.raises(InvalidUpdate, match="now_ms must be whole milliseconds"):
        apply_to_view(created, [SetLocation(LOCATION + "2")], now_ms=2.5)
