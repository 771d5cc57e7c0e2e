"""View metadata: values, JSON both ways, and hostile documents (view spec)."""

import copy
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pyiceberg.view.metadata import ViewMetadata as PyIcebergView

from floe.errors import FloeError, InvalidMetadata, NotFound, UnsupportedFeature
from floe.spec.json_reader import Limits
from floe.spec.schemas.schema import Schema
from floe.spec.types import DATE, INT, Field
from floe.spec.views.view_metadata import (
    OtherRepresentation,
    SqlRepresentation,
    ViewHistoryEntry,
    ViewMetadata,
    ViewVersion,
    parse_view,
    serialize_view,
    view_from_json,
    view_to_json,
)
from helpers.corpus import expected, metadata_files, read_metadata, table_names

# Appendix A of the view spec, after the view was replaced.
EXAMPLE = {
    "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
    "format-version": 1,
    "location": "s3://bucket/warehouse/default.db/event_agg",
    "current-version-id": 2,
    "properties": {"comment": "Daily event counts"},
    "versions": [
        {
            "version-id": 1,
            "timestamp-ms": 1573518431292,
            "schema-id": 1,
            "default-catalog": "prod",
            "default-namespace": ["default"],
            "summary": {"engine-name": "Spark", "engine-version": "3.3.2"},
            "representations": [
                {
                    "type": "sql",
                    "sql": "SELECT\n    COUNT(1), CAST(event_ts AS DATE)\nFROM events\nGROUP BY 2",
                    "dialect": "spark",
                }
            ],
        },
        {
            "version-id": 2,
            "timestamp-ms": 1573518981593,
            "schema-id": 1,
            "default-catalog": "prod",
            "default-namespace": ["default"],
            "summary": {"engine-name": "Spark", "engine-version": "3.3.2"},
            "representations": [
                {
                    "type": "sql",
                    "sql": "SELECT\n    COUNT(1), CAST(event_ts AS DATE)\nFROM prod.default.events\nGROUP BY 2",
                    "dialect": "spark",
                }
            ],
        },
    ],
    "schemas": [
        {
            "schema-id": 1,
            "type": "struct",
            "fields": [
                {"id": 1, "name": "event_count", "required": False, "type": "int", "doc": "Count of events"},
                {"id": 2, "name": "event_date", "required": False, "type": "date"},
            ],
        }
    ],
    "version-log": [
        {"timestamp-ms": 1573518431292, "version-id": 1},
        {"timestamp-ms": 1573518981593, "version-id": 2},
    ],
}


def changed(**parts):
    return copy.deepcopy(EXAMPLE) | parts


def test_view_of_the_spec_is_read():
    view = view_from_json(EXAMPLE)
    assert view.view_uuid == "fa6506c3-7681-40c8-86dc-e36561f83385"
    assert (view.format_version, view.location) == (1, "s3://bucket/warehouse/default.db/event_agg")
    assert view.properties == {"comment": "Daily event counts"}
    assert view.schema == Schema((Field(1, "event_count", INT, doc="Count of events"), Field(2, "event_date", DATE)), 1)
    assert [version.version_id for version in view.versions] == [1, 2]
    assert view.version_log == (ViewHistoryEntry(1573518431292, 1), ViewHistoryEntry(1573518981593, 2))
    current = view.current_version
    assert (current.version_id, current.schema_id, current.timestamp_ms) == (2, 1, 1573518981593)
    assert (current.default_catalog, current.default_namespace) == ("prod", ("default",))
    assert current.summary == {"engine-name": "Spark", "engine-version": "3.3.2"}
    assert current.sql("spark").endswith("FROM prod.default.events\nGROUP BY 2")


def test_view_of_the_spec_is_written_again():
    assert view_to_json(view_from_json(EXAMPLE)) == EXAMPLE
    assert json.loads(serialize_view(parse_view(json.dumps(EXAMPLE).encode()))) == EXAMPLE


def test_view_is_understood_by_pyiceberg():
    theirs = PyIcebergView.model_validate_json(serialize_view(view_from_json(EXAMPLE)))
    assert view_from_json(json.loads(theirs.model_dump_json())) == view_from_json(EXAMPLE)


@pytest.mark.parametrize("name", table_names("view_"))
def test_views_of_the_corpus_are_read_and_written_again_with_nothing_lost(corpus_dir: Path, name):
    answers = expected(corpus_dir, name)["view"]
    files = metadata_files(corpus_dir, name)
    assert files
    for file in files:
        view = parse_view(file.read_bytes())
        assert json.loads(serialize_view(view)) == read_metadata(file)
    view = parse_view((corpus_dir / name / answers["metadata"]).read_bytes())
    assert (view.view_uuid, view.current_version_id) == (answers["uuid"], answers["current_version_id"])
    assert [[entry.timestamp_ms, entry.version_id] for entry in view.version_log] == answers["history"]
    assert view.properties == answers["properties"]
    for version, answer in zip(view.versions, answers["versions"], strict=True):
        assert version.dialects == tuple(r["dialect"] for r in answer["representations"])
        for representation in answer["representations"]:
            assert version.sql(representation["dialect"]) == representation["sql"]


@pytest.mark.parametrize(
    "key", ["view-uuid", "format-version", "location", "schemas", "current-version-id", "versions", "version-log"]
)
def test_view_fields_that_are_required(key):
    with pytest.raises(InvalidMetadata) as caught:
        view_from_json({k: v for k, v in EXAMPLE.items() if k != key})
    assert str(caught.value) == f"$.{key}: is missing"


def test_view_properties_are_optional():
    without = {k: v for k, v in EXAMPLE.items() if k != "properties"}
    assert view_from_json(without).properties == {}
    assert view_to_json(view_from_json(without)) == without


@pytest.mark.parametrize(
    "key", ["version-id", "schema-id", "timestamp-ms", "summary", "representations", "default-namespace"]
)
def test_view_version_fields_that_are_required(key):
    document = changed()
    del document["versions"][1][key]
    with pytest.raises(InvalidMetadata) as caught:
        view_from_json(document)
    assert str(caught.value) == f"$.versions[1].{key}: is missing"


@pytest.mark.parametrize("absent", ["missing", "null"])
def test_view_default_catalog_of_null_means_the_views_own(absent):
    document = changed()
    if absent == "null":
        document["versions"][1]["default-catalog"] = None
    else:
        del document["versions"][1]["default-catalog"]
    view = view_from_json(document)
    assert view.current_version.default_catalog is None
    assert "default-catalog" not in view_to_json(view)["versions"][1]


def test_view_default_namespace_may_be_empty_but_not_missing():
    document = changed()
    document["versions"][1]["default-namespace"] = []
    assert view_from_json(document).current_version.default_namespace == ()
    assert view_to_json(view_from_json(document)) == document


def test_view_has_one_sql_representation_of_each_dialect():
    document = changed()
    document["versions"][0]["representations"].append({"type": "sql", "sql": "SELECT 2", "dialect": "trino"})
    assert view_from_json(document).versions[0].dialects == ("spark", "trino")
    document["versions"][0]["representations"].append({"type": "sql", "sql": "SELECT 3", "dialect": "Trino"})
    with pytest.raises(InvalidMetadata, match=r"\$\.versions\[0\]\.representations: there are two .* 'trino'"):
        view_from_json(document)


def test_view_representations_of_other_types_are_kept():
    document = changed()
    other = {"type": "substrait", "plan": {"bytes": "AAEC"}}
    document["versions"][1]["representations"].append(other)
    view = view_from_json(document)
    assert view.current_version.representations[1] == OtherRepresentation("substrait", other)
    assert view.current_version.dialects == ("spark",)
    assert view_to_json(view) == document


def test_view_unknown_keys_are_kept_everywhere():
    document = changed(colour={"a": [1]})
    document["versions"][0]["owner"] = "ana"
    document["versions"][0]["representations"][0]["hints"] = ["x"]
    document["version-log"][0]["who"] = 7
    document["schemas"][0]["note"] = "n"
    assert view_to_json(view_from_json(document)) == document
    assert view_from_json(document) == view_from_json(EXAMPLE).__class__(
        **{
            name: getattr(view_from_json(EXAMPLE), name)
            for name in view_from_json(EXAMPLE).__dataclass_fields__
            if name != "extra"
        }
    ), "and take no part in comparisons"


def test_view_gzip_and_limits():
    text = json.dumps(EXAMPLE).encode()
    assert parse_view(gzip.compress(text)) == parse_view(text)
    with pytest.raises(InvalidMetadata, match="more than the limit"):
        parse_view(text, limits=Limits(max_bytes=100))
    with pytest.raises(InvalidMetadata, match="deep"):
        parse_view(b'{"a":' * 2000 + b"1" + b"}" * 2000)
    with pytest.raises(InvalidMetadata):
        parse_view(b"not json")


@pytest.mark.parametrize("version", [0, 2, 99])
def test_view_format_version_must_be_1(version):
    with pytest.raises(UnsupportedFeature, match=f"view format version {version} is not supported"):
        view_from_json(changed(**{"format-version": version}))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"current-version-id": 7}, "$.current-version-id: there is no version 7"),
        ({"versions": []}, "$.current-version-id: there is no version 2"),
        ({"schemas": []}, "$.versions[0].schema-id: there is no schema 1"),
        ({"schemas": [EXAMPLE["schemas"][0]] * 2}, "$.schemas[1].schema-id: the id 1 is used twice"),
        ({"versions": [EXAMPLE["versions"][1]] * 2}, "$.versions[1].version-id: the id 2 is used twice"),
        ({"properties": {"a": 1}}, "$.properties"),
        ({"properties": []}, "$.properties: must be a JSON object"),
        ({"versions": {}}, "$.versions: must be a list"),
        ({"versions": [5]}, "$.versions[0]: must be a JSON object"),
        (
            {"version-log": [{"timestamp-ms": "1", "version-id": 1}]},
            "$.version-log[0].timestamp-ms: must be an integer",
        ),
        ({"location": 5}, "$.location: must be a string"),
        ({"current-version-id": 2**40}, "$.current-version-id: the number does not fit a 32-bit integer"),
    ],
)
def test_view_mistakes_are_found_with_their_path(parts, message):
    with pytest.raises(InvalidMetadata) as caught:
        view_from_json(changed(**parts))
    assert str(caught.value).startswith(message)


@given(st.data())
def test_hostile_view_json_gives_floe_errors_alone(data):
    document = copy.deepcopy(EXAMPLE)
    places = list(_places(document))
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({}) | st.just([[]])
    )
    try:
        view = view_from_json(document)
    except FloeError:
        return
    assert view_from_json(view_to_json(view)) == view


def _places(node):
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])


def test_view_lookups_name_what_there_is():
    view = view_from_json(EXAMPLE)
    with pytest.raises(NotFound, match="no version 9; it has 1, 2"):
        view.version(9)
    with pytest.raises(NotFound, match="no schema 9; it has 1"):
        view.schema_by_id(9)
    with pytest.raises(NotFound, match="no SQL in dialect 'trino'"):
        view.current_version.sql("trino")


def test_view_versions_with_the_same_definition():
    version = ViewVersion(1, 0, 5, (SqlRepresentation("SELECT 1", "spark"),), ("db",))
    assert version.same_definition(replace(version, version_id=2, timestamp_ms=6))
    for other in (
        {"schema_id": 1},
        {"default_catalog": "c"},
        {"default_namespace": ()},
        {"summary": {"a": "b"}},
        {"representations": (SqlRepresentation("SELECT 2", "spark"),)},
    ):
        assert not version.same_definition(replace(version, **other))


def test_a_view_is_a_value():
    assert view_from_json(EXAMPLE) == view_from_json(changed())
    assert isinstance(hash(view_from_json(EXAMPLE)), int)
    assert ViewMetadata("u", "l", 1, (), (), ()).properties == {}


def test_an_empty_default_catalog_is_kept() -> None:
    document = copy.deepcopy(EXAMPLE)
    document["versions"][0]["default-catalog"] = ""
    assert view_to_json(view_from_json(document)) == document
