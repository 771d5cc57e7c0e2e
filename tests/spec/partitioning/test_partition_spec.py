"""Partition specs: rules, JSON, types over dropped columns and over many specs, tuples of rows."""

import gzip
import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from pyiceberg.partitioning import PartitionSpec as PySpec

from floe.errors import InvalidMetadata, InvalidPartitionSpec, InvalidValue, NoSuchColumn, UnsupportedFeature
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import (
    UNPARTITIONED,
    PartitionField,
    PartitionSpec,
    check_spec,
    check_writable,
    fields_from_json,
    fields_to_json,
    partition_tuple,
    partition_value_fn,
    spec_from_json,
    spec_to_json,
    unified_partition_type,
)
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, Bucket, Truncate, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, GeometryType, ListType, MapType, StructType
from helpers.corpus import metadata_files, table_names
from helpers.transforms import SOURCES

SCHEMA = Schema(
    (
        Field(1, "id", t.LONG, required=True),
        Field(2, "ts", t.TIMESTAMP),
        Field(3, "name", t.STRING),
        Field(4, "at", StructType((Field(5, "city", t.STRING), Field(6, "x", t.DOUBLE)))),
        Field(7, "tags", ListType(8, t.STRING)),
        Field(9, "props", MapType(10, t.STRING, 11, t.INT)),
        Field(12, "shape", GeometryType()),
        Field(13, "v", t.VARIANT),
    )
)


def field(source_id, transform=IDENTITY, name="p", field_id=1000):
    return PartitionField((source_id,), field_id, name, transform)


def spec(*fields, spec_id=0):
    return PartitionSpec(fields, spec_id)


# spec: Partitioning; reference 1.2 ------------------------------------------------------------------------------


def test_source_column_must_exist():
    with pytest.raises(InvalidPartitionSpec, match="the schema has no field with id 99"):
        check_spec(spec(field(99)), SCHEMA, 2)


def test_source_column_must_be_primitive():
    with pytest.raises(InvalidPartitionSpec, match="cannot partition by a struct"):
        check_spec(spec(field(4)), SCHEMA, 2)
    with pytest.raises(InvalidPartitionSpec, match="cannot partition by a variant"):
        check_spec(spec(field(13)), SCHEMA, 3)


@pytest.mark.parametrize("source_id", [8, 10, 11])
def test_source_column_cannot_be_in_a_list_or_map(source_id):
    with pytest.raises(InvalidPartitionSpec, match="part of a list or map"):
        check_spec(spec(field(source_id)), SCHEMA, 2)


def test_source_column_may_be_nested_in_a_struct():
    check_spec(spec(field(5)), SCHEMA, 1)
    assert partition_tuple(spec(field(5, Truncate(3))), SCHEMA, {"at": {"city": "Oslo"}}) == ("Osl",)


def test_identity_of_geometry_is_refused():
    with pytest.raises(InvalidPartitionSpec, match="identity cannot be applied to values of type geometry"):
        check_spec(spec(field(12)), SCHEMA, 3)


def test_transform_must_take_the_type_of_its_source():
    with pytest.raises(InvalidPartitionSpec) as caught:
        check_spec(spec(field(6, Bucket(4))), SCHEMA, 2)
    assert caught.value.context == {"column": "at.x", "partition field": "p"}


def test_names_must_be_there_and_differ():
    with pytest.raises(InvalidPartitionSpec, match="empty name"):
        check_spec(spec(field(1, name="")), SCHEMA, 2)
    with pytest.raises(InvalidPartitionSpec, match="two partition fields are named 'p'"):
        check_spec(spec(field(1), field(2, DAY, field_id=1001)), SCHEMA, 2)


def test_name_of_a_column_is_only_for_fields_of_that_column():
    check_spec(spec(field(3, IDENTITY, "name")), SCHEMA, 2)
    check_spec(spec(field(3, VOID, "name")), SCHEMA, 1)
    with pytest.raises(InvalidPartitionSpec, match="name of a column that is not its source"):
        check_spec(spec(field(1, Bucket(4), "name")), SCHEMA, 2)


def test_name_of_a_column_is_allowed_where_the_source_was_dropped():
    """A later column may take the name of a historic field, whose source is gone."""
    without_id = Schema(SCHEMA.fields[1:])
    check_spec(spec(field(1, VOID, "name")), without_id, 1)


def test_field_ids_are_unique_within_a_spec():
    with pytest.raises(InvalidPartitionSpec, match="id 1000 is used by both 'a' and 'b'"):
        check_spec(spec(field(1, name="a"), field(3, name="b")), SCHEMA, 2)


def test_field_ids_of_v1_are_sequential_from_1000():
    gap = spec(field(1, name="a"), field(3, name="b", field_id=1002))
    check_spec(gap, SCHEMA, 2)
    with pytest.raises(InvalidPartitionSpec, match="must count up from 1000"):
        check_spec(gap, SCHEMA, 1)


def test_void_needs_no_source():
    check_spec(spec(field(99, VOID)), SCHEMA, 1)


def test_several_source_columns_need_version_3():
    many = spec(PartitionField((1, 2), 1000, "p", UnknownTransform("bucket[4]")))
    check_spec(many, SCHEMA, 3)
    with pytest.raises(InvalidPartitionSpec, match="needs format version 3"):
        check_spec(many, SCHEMA, 2)


def test_known_transforms_take_one_source_column():
    with pytest.raises(InvalidPartitionSpec, match=r"bucket\[4\] takes one source column, found 2"):
        PartitionField((1, 2), 1000, "p", Bucket(4))
    with pytest.raises(InvalidPartitionSpec, match="needs a source column"):
        PartitionField((), 1000, "p", UnknownTransform("x"))


def test_unknown_transforms_may_stay_but_not_be_written_with():
    unknown = spec(field(1, UnknownTransform("zorder")))
    check_spec(unknown, SCHEMA, 3)
    for write in (lambda: check_writable(unknown), lambda: partition_value_fn(unknown, SCHEMA)):
        with pytest.raises(UnsupportedFeature, match="does not know its transform 'zorder'"):
            write()
    check_writable(spec(field(1), field(1, VOID, "q", 1001)))


def test_unpartitioned_specs_have_void_fields_at_most():
    assert UNPARTITIONED.is_unpartitioned
    assert spec(field(1, VOID)).is_unpartitioned
    assert not spec(field(1, VOID), field(1)).is_unpartitioned
    assert UNPARTITIONED.last_assigned_field_id == 999


def test_equivalent_specs_have_the_same_sources_transforms_and_names():
    one = spec(field(2, DAY, "d"), field(1, Bucket(4), "b", 1001))
    assert one.compatible_with(spec(field(2, DAY, "d", 1005), field(1, Bucket(4), "b", 1000), spec_id=7))
    for other in (
        spec(field(2, DAY, "d")),
        spec(field(1, Bucket(4), "b", 1001), field(2, DAY, "d")),
        spec(field(2, DAY, "d"), field(1, Bucket(5), "b", 1001)),
        spec(field(2, DAY, "d"), field(3, Bucket(4), "b", 1001)),
        spec(field(2, DAY, "d"), field(1, Bucket(4), "other", 1001)),
    ):
        assert not one.compatible_with(other)


def test_finding_fields():
    both = spec(field(2, DAY, "d"), field(2, HOUR, "h", 1001), field(3, IDENTITY, "name", 1002))
    assert [f.name for f in both.fields_of(2)] == ["d", "h"]
    assert both.field_named("h").field_id == 1001
    assert both.field_named("x") is None
    assert both.identity_source_ids == {3}
    assert both.with_id(5).spec_id == 5


# building from text ---------------------------------------------------------------------------------------------


def test_default_names_of_a_new_table():
    terms = ["id", "hour(ts)", "truncate(4, name)", "bucket(8, name)", "at.city"]
    assert [f.name for f in build_spec(SCHEMA, terms).fields] == [
        "id",
        "ts_hour",
        "name_trunc",
        "name_bucket",
        "at.city",
    ]
    assert [f.field_id for f in build_spec(SCHEMA, terms).fields] == [1000, 1001, 1002, 1003, 1004]


def test_building_ignores_case_when_asked():
    assert build_spec(SCHEMA, ["DAY(TS)"], case_sensitive=False).fields[0].name == "ts_day"
    with pytest.raises(NoSuchColumn):
        build_spec(SCHEMA, ["day(TS)"])


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["day(ts)", "hour(ts)"], "'ts_hour' is redundant: 'ts_day' splits column 'ts' too"),
        (["id", "identity(id) as other"], "redundant"),
        (["bucket(4, id)", "bucket(8, id)"], "two partition fields are named 'id_bucket'"),
        (["day(ts) as ts"], "name of a column that it does not copy"),
        (["id as name"], "name of a column that it does not copy"),
        (["hour(name)"], "hour cannot be applied to values of type string"),
        (["tags.element"], "part of a list or map"),
    ],
)
def test_specs_that_cannot_be_built(terms, message):
    with pytest.raises(InvalidPartitionSpec, match=message):
        build_spec(SCHEMA, terms)


def test_two_buckets_of_a_column_with_names_of_their_own():
    build_spec(SCHEMA, ["bucket(4, id) as a", "bucket(8, id) as b"])


# types ----------------------------------------------------------------------------------------------------------


def test_partition_type_has_optional_fields_under_partition_field_ids():
    found = build_spec(SCHEMA, ["day(ts)", "bucket(4, id)", "truncate(2, name)", "id"]).partition_type(SCHEMA)
    assert str(found) == (
        "struct<1000: ts_day: optional date, 1001: id_bucket: optional int, "
        "1002: name_trunc: optional string, 1003: id: optional long>"
    )


def test_partition_type_of_dropped_source_columns():
    built = build_spec(SCHEMA, ["day(ts)", "bucket(4, id)", "truncate(2, name)", "id"])
    kinds = [f.type.kind for f in built.partition_type(Schema(())).fields]
    assert kinds == ["date", "int", "unknown", "unknown"]
    assert built.partition_type(Schema(()), [Schema(()), SCHEMA]) == built.partition_type(SCHEMA)


def test_partition_type_of_void_is_the_source_type_or_int():
    kinds = [spec(field(i, VOID)).partition_type(SCHEMA).fields[0].type.kind for i in (1, 4, 99)]
    assert kinds == ["long", "int", "unknown"]  # long, a struct, a dropped column


def test_partition_type_of_unknown_transforms_is_string():
    assert spec(field(1, UnknownTransform("x"))).partition_type(SCHEMA).fields[0].type == t.STRING


def test_unified_type_has_all_fields_by_id_under_their_newest_names():
    old = spec(field(2, MONTH, "m"), field(1, Bucket(4), "shard", 1001))
    new = spec(field(1, Bucket(4), "bucket_of_id", 1001), field(2, DAY, "d", 1002), spec_id=1)
    found = unified_partition_type([old, new], [SCHEMA])
    assert [(f.id, f.name, f.type.kind) for f in found.fields] == [
        (1000, "m", "int"),
        (1001, "bucket_of_id", "int"),
        (1002, "d", "date"),
    ]


@pytest.mark.parametrize("void_first", [True, False])
def test_unified_type_takes_the_type_from_before_a_v1_field_became_void(void_first):
    real, void = spec(field(2, DAY, "d")), spec(field(2, VOID, "d_1000"), spec_id=1)
    if void_first:
        real, void = real.with_id(1), void.with_id(0)
    (found,) = unified_partition_type([real, void], [SCHEMA]).fields
    assert found.type == t.DATE
    assert found.name == ("d" if void_first else "d_1000")


def test_unified_type_of_void_between_two_uses():
    specs = [spec(field(2, DAY, "d")), spec(field(2, VOID, "d"), spec_id=1), spec(field(2, DAY, "e"), spec_id=2)]
    (found,) = unified_partition_type(specs, [SCHEMA]).fields
    assert (found.name, found.type) == ("e", t.DATE)


def test_unified_type_refuses_ids_that_mean_different_things():
    specs = [spec(field(2, DAY)), spec(field(1, Bucket(4)), spec_id=1)]
    with pytest.raises(InvalidPartitionSpec, match="id 1000 means different things in two specs"):
        unified_partition_type(specs, [SCHEMA])
    # a void field in between does not hide it
    with pytest.raises(InvalidPartitionSpec, match="means different things"):
        unified_partition_type([*specs, spec(field(2, VOID), spec_id=2)], [SCHEMA])


def test_unified_type_keeps_fields_of_one_name_apart():
    specs = [spec(field(2, MONTH, "p")), spec(field(2, DAY, "p", 1001), spec_id=1)]
    assert [f.name for f in unified_partition_type(specs, [SCHEMA]).fields] == ["p_1000", "p"]


def test_unified_type_includes_unknown_transforms_and_dropped_columns():
    specs = [spec(field(1, UnknownTransform("x"), "u"), field(77, IDENTITY, "gone", 1001))]
    found = unified_partition_type(specs, [SCHEMA])
    assert [(f.name, f.type.kind) for f in found.fields] == [("u", "string"), ("gone", "unknown")]
    active = unified_partition_type(specs, [SCHEMA], active_in=SCHEMA)
    assert [f.name for f in active.fields] == ["u"]


def test_unified_type_of_no_specs_is_empty():
    assert unified_partition_type([], [SCHEMA]) == StructType(())


# tuples ---------------------------------------------------------------------------------------------------------


def test_partition_tuple_of_rows():
    built = build_spec(SCHEMA, ["day(ts)", "truncate(10, id)", "at.city"])
    assert partition_tuple(built, SCHEMA, {"id": -1, "ts": -1, "at": {"city": "Oslo"}}) == (-1, -10, "Oslo")
    assert partition_tuple(built, SCHEMA, {"id": 1, "ts": None, "at": None}) == (None, 0, None)
    assert partition_tuple(built, SCHEMA, {"id": 1}) == (None, 0, None)


def test_partition_tuple_of_a_row_without_a_column_uses_its_write_default():
    schema = Schema((Field(1, "c", t.STRING, write_default="none"),))
    built = build_spec(schema, ["c"])
    assert partition_tuple(built, schema, {}) == ("none",)
    assert partition_tuple(built, schema, {"c": None}) == (None,)


def test_partition_tuple_of_a_row_without_a_required_column_is_refused():
    with pytest.raises(InvalidValue, match="'id' is required and has no write-default"):
        partition_tuple(build_spec(SCHEMA, ["id"]), SCHEMA, {"ts": 1})


def test_partition_tuple_of_void_fields_is_null_even_without_their_column():
    assert partition_tuple(spec(field(99, VOID), field(1, name="id", field_id=1001)), SCHEMA, {"id": 5}) == (None, 5)


# JSON -----------------------------------------------------------------------------------------------------------

EXAMPLE = {
    "spec-id": 0,
    "fields": [
        {"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
    ],
}


def test_example_of_appendix_c():
    found = spec_from_json(EXAMPLE)
    assert found == PartitionSpec(
        (PartitionField((4,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "id_bucket", Bucket(16)))
    )
    assert spec_to_json(found) == EXAMPLE


def test_field_list_of_v1_without_ids_counts_from_1000():
    fields = [{k: v for k, v in item.items() if k != "field-id"} for item in EXAMPLE["fields"]]
    found = fields_from_json(fields)
    assert [f.field_id for f in found] == [1000, 1001]
    assert fields_to_json(found) == EXAMPLE["fields"]


def test_ids_of_some_fields_alone_are_refused():
    fields = [EXAMPLE["fields"][0], {k: v for k, v in EXAMPLE["fields"][1].items() if k != "field-id"}]
    with pytest.raises(InvalidMetadata, match="other fields of the spec have it") as caught:
        spec_from_json({"fields": fields})
    assert caught.value.path == "$.fields[1].field-id"


def test_unknown_keys_and_unknown_transforms_survive_a_round_trip():
    item = {"source-id": 1, "field-id": 1000, "name": "p", "transform": "HILBERT[3]", "comment": {"by": "me"}}
    original = {"spec-id": 3, "fields": [item], "note": [1, 2]}
    found = spec_from_json(original)
    assert found.fields[0].transform == UnknownTransform("HILBERT[3]")
    assert spec_to_json(found) == original


def test_source_ids_of_a_multi_argument_transform_survive_a_round_trip():
    item = {"source-ids": [1, 2], "field-id": 1000, "name": "p", "transform": "bucket[4]"}
    (found,) = fields_from_json([item])
    assert (found.source_ids, found.source_id) == ((1, 2), 1)
    assert not found.transform.is_known  # no transform of several columns is known
    assert fields_to_json([found]) == [item]


def test_single_argument_transforms_write_source_id_only():
    (found,) = fields_from_json([{"source-ids": [7], "field-id": 1000, "name": "p", "transform": "bucket[4]"}])
    assert found == field(7, Bucket(4))
    assert fields_to_json([found]) == [{"source-id": 7, "field-id": 1000, "name": "p", "transform": "bucket[4]"}]


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"source-id": None}, "$.fields[0].source-id", "is missing"),
        ({"source-id": "1"}, "$.fields[0].source-id", "must be an integer, found '1'"),
        ({"source-id": True}, "$.fields[0].source-id", "must be an integer, found true"),
        ({"source-id": 1.5}, "$.fields[0].source-id", "must be an integer"),
        ({"source-id": 2**31}, "$.fields[0].source-id", "does not fit a 32-bit integer"),
        ({"source-id": 10**5000}, "$.fields[0].source-id", "does not fit a 32-bit integer"),
        ({"source-ids": []}, "$.fields[0].source-ids", "list of at least one field id"),
        ({"source-ids": 3}, "$.fields[0].source-ids", "list of at least one field id"),
        ({"source-ids": [4, "x"]}, "$.fields[0].source-ids[1]", "must be an integer"),
        ({"source-ids": [1, 2]}, "$.fields[0].source-id", "contradicts source-ids"),
        ({"field-id": "x"}, "$.fields[0].field-id", "must be an integer"),
        ({"field-id": None}, "$.fields[0].field-id", "is missing"),
        ({"name": None}, "$.fields[0].name", "is missing"),
        ({"name": ["x"] * 10**6}, "$.fields[0].name", "must be a string, found a list"),
        ({"transform": None}, "$.fields[0].transform", "is missing"),
        ({"transform": 7}, "$.fields[0].transform", "must be a string"),
        ({"transform": "bucket[0]"}, "$.fields[0].transform", "number of buckets"),
        ({"transform": "truncate[99999999999]"}, "$.fields[0].transform", "width of truncate"),
    ],
)
def test_broken_fields_give_the_path(change, path, message):
    broken = {**EXAMPLE, "fields": [EXAMPLE["fields"][0] | change]}
    with pytest.raises(InvalidMetadata, match=message) as caught:
        spec_from_json(broken)
    assert caught.value.path == path
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        ([], "$"),
        (None, "$"),
        ({"spec-id": 0}, "$.fields"),
        ({"fields": {}}, "$.fields"),
        ({"fields": None}, "$.fields"),
        ({"fields": [3]}, "$.fields[0]"),
        ({"spec-id": "0", "fields": []}, "$.spec-id"),
    ],
)
def test_broken_specs_give_the_path(broken, path):
    with pytest.raises(InvalidMetadata) as caught:
        spec_from_json(broken)
    assert caught.value.path == path


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["fields", "name", "transform", "source-id", "source-ids"]), inner, max_size=5
        )
    ),
    max_leaves=12,
)


@given(ANY_JSON)
def test_any_json_is_a_spec_or_invalid_metadata(value):
    with suppress(InvalidMetadata):
        found = spec_from_json(value)
        assert spec_from_json(spec_to_json(found)) == found


NAMES = st.text(max_size=6)
SPECS = st.lists(
    st.builds(
        PartitionField,
        st.tuples(st.integers(0, 2**31 - 1)),
        st.integers(0, 2**31 - 1),
        NAMES,
        st.sampled_from([IDENTITY, DAY, VOID, Bucket(3), Truncate(9), UnknownTransform("x y")]),
    ),
    max_size=4,
).map(lambda fields: PartitionSpec(tuple(fields), 5))


@given(SPECS)
def test_specs_survive_a_round_trip_and_pyiceberg_reads_them(original):
    text = json.dumps(spec_to_json(original))
    assert spec_from_json(json.loads(text)) == original
    theirs = PySpec.model_validate_json(text)
    # PyIceberg forgets the text of a transform that it does not know, and would write `unknown` in its place
    known = [f if f.transform.is_known else replace(f, transform=UnknownTransform("unknown")) for f in original.fields]
    assert [(f.source_id, f.field_id, f.name, str(f.transform)) for f in theirs.fields] == [
        (f.source_id, f.field_id, f.name, str(f.transform)) for f in known
    ]


@pytest.mark.parametrize("table", table_names(without=("view_", "invalid_", "odd_")))
def test_specs_of_the_corpus_survive_a_round_trip(corpus_dir, table):
    for path in metadata_files(corpus_dir, table):
        data = path.read_bytes()
        metadata = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        for item in metadata.get("partition-specs", []):
            assert spec_to_json(spec_from_json(item)) == item
        if "partition-spec" in metadata:
            found = fields_from_json(metadata["partition-spec"])
            with_ids = [{"field-id": 1000 + n} | item for n, item in enumerate(metadata["partition-spec"])]
            assert fields_to_json(found) == with_ids


def test_every_source_type_has_a_partition_type():
    for n, source in enumerate(SOURCES, 1):
        schema = Schema((Field(n, "c", source),))
        assert spec(field(n, IDENTITY, "c")).partition_type(schema).fields[0].type == source
