"""Partition evolution: what can change, which ids and names result, in v1 and later."""

import json

import pytest
from hypothesis import given, strategies as st
from pyiceberg.table.update.spec import _PartitionNameGenerator

from floe.errors import InvalidInput, InvalidPartitionSpec, NoSuchColumn, NotFound, UnsupportedFeature
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import (
    UNPARTITIONED,
    PartitionField,
    PartitionSpec,
    check_spec,
    spec_from_json,
    unified_partition_type,
)
from floe.spec.partitioning.spec_evolution import SpecUpdate, align_field_ids
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, VOID, Bucket, Truncate, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import Field, StructType
from helpers.corpus import expected, table_names

SCHEMA = Schema(
    (
        Field(1, "id", t.LONG, required=True),
        Field(2, "ts", t.TIMESTAMPTZ, required=True),
        Field(3, "category", t.STRING),
        Field(4, "data", t.STRING),
        Field(5, "at", StructType((Field(6, "city", t.STRING),))),
    )
)
# the three fields that most cases start from
PARTITIONED = build_spec(SCHEMA, ["category", "day(ts)", "bucket(16, id) as shard"])
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def update(version, *specs, last_id=None, **options):
    specs = specs or (PARTITIONED,)
    last = last_id or max(s.last_assigned_field_id for s in specs)
    return SpecUpdate(specs, SCHEMA, version, last, **options)


def shown(spec):
    return [(f.field_id, f.name, f"{f.transform}({f.source_id})") for f in spec.fields]


KEPT = [(1000, "category", "identity(3)"), (1001, "ts_day", "day(2)"), (1002, "shard", "bucket[16](1)")]


# adding ---------------------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize(
    ("term", "name", "transform"),
    [
        ("category", "category", "identity(3)"),
        ("year(ts)", "ts_year", "year(2)"),
        ("month(ts)", "ts_month", "month(2)"),
        ("day(ts)", "ts_day", "day(2)"),
        ("hour(ts)", "ts_hour", "hour(2)"),
        ("bucket(16, id)", "id_bucket_16", "bucket[16](1)"),
        ("truncate(4, data)", "data_trunc_4", "truncate[4](4)"),
        ("void(id)", "id_null", "void(1)"),
        ("at.city", "at.city", "identity(6)"),
        ("bucket(16, id) as shard", "shard", "bucket[16](1)"),
    ],
)
def test_added_fields_have_the_names_of_java(version, term, name, transform):
    assert shown(update(version, UNPARTITIONED).add_field(term).apply()) == [(1000, name, transform)]


@VERSIONS
def test_fields_are_added_at_the_end_with_the_next_ids(version):
    found = update(version).add_field("truncate(4, data)").add_field("bucket(8, id)").apply()
    assert shown(found) == [*KEPT, (1003, "data_trunc_4", "truncate[4](4)"), (1004, "id_bucket_8", "bucket[8](1)")]
    assert found.spec_id == 1


def test_new_ids_come_from_the_last_partition_id_of_the_table():
    assert update(2, last_id=1041).add_field("data").apply().fields[-1].field_id == 1042


@VERSIONS
def test_a_column_and_a_transform_may_be_given_apart(version):
    found = update(version, UNPARTITIONED).add_field("ts", DAY, "d").add_field(("at", "city")).apply()
    assert shown(found) == [(1000, "d", "day(2)"), (1001, "at.city", "identity(6)")]


@VERSIONS
def test_an_hour_may_join_a_day_of_an_earlier_spec(version):
    found = update(version, build_spec(SCHEMA, ["day(ts)"])).add_field("hour(ts)").apply()
    assert shown(found) == [(1000, "ts_day", "day(2)"), (1001, "ts_hour", "hour(2)")]


@VERSIONS
def test_two_time_fields_of_one_column_cannot_be_added_at_once(version):
    adding = update(version, UNPARTITIONED).add_field("day(ts)")
    with pytest.raises(InvalidPartitionSpec, match="'ts_hour' is redundant: 'ts_day' splits the same column"):
        adding.add_field("hour(ts)")


@VERSIONS
@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("category", "partitioned by identity of that column already, as 'category'"),
        ("days(ts) as other", "partitioned by day of that column already, as 'ts_day'"),
        ("bucket(16, id)", "already, as 'shard'"),
        ("bucket(8, id) as shard", "has a partition field 'shard' already"),
        ("hour(data)", "hour cannot be applied to values of type string"),
        ("day(ts) as data", "already, as 'ts_day'"),
        ("year(ts) as data", "would have the name of a column"),
    ],
)
def test_additions_that_are_refused(version, term, message):
    with pytest.raises(InvalidPartitionSpec, match=message):
        update(version).add_field(term)


@VERSIONS
def test_the_same_field_cannot_be_added_twice(version):
    adding = update(version, UNPARTITIONED).add_field("bucket(16, id)")
    with pytest.raises(InvalidPartitionSpec, match="redundant"):
        adding.add_field("bucket(16, id) as other")
    with pytest.raises(InvalidPartitionSpec, match="two added partition fields are named"):
        adding.add_field("data", Truncate(3), "id_bucket_16")


def test_adding_a_column_that_does_not_exist():
    with pytest.raises(NoSuchColumn):
        update(2).add_field("bucket(16, nope)")
    assert update(2, case_sensitive=False).add_field("DATA").apply().fields[-1].name == "data"


# removing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["category", "identity(category)"])
def test_removed_fields_are_gone_in_v2(given):
    assert shown(update(2).remove_field(given).apply()) == KEPT[1:]


@pytest.mark.parametrize("given", ["ts_day", "day(ts)", "days(ts)"])
def test_removed_fields_of_v1_are_void_in_place(given):
    found = update(1).remove_field(given).apply()
    assert shown(found) == [KEPT[0], (1001, "ts_day", "void(2)"), KEPT[2]]


def test_removing_everything_leaves_an_unpartitioned_spec():
    for version in (1, 2):
        change = update(version)
        for name in ("category", "ts_day", "shard"):
            change.remove_field(name)
        found = change.apply()
        assert found.is_unpartitioned
        assert len(found.fields) == (3 if version == 1 else 0)


@VERSIONS
def test_fields_that_do_not_exist_cannot_be_removed_or_renamed(version):
    for wrong in ("moon", "hour(ts)", "bucket(8, id)"):
        with pytest.raises(NotFound, match=r"has no partition field .* category, ts_day, shard"):
            update(version).remove_field(wrong)
    with pytest.raises(NotFound):
        update(version).rename_field("moon", "sun")


@VERSIONS
@pytest.mark.parametrize("given", ["data_trunc_4", "truncate(4, data)"])
def test_fields_that_were_only_just_added_cannot_be_removed_or_renamed(version, given):
    adding = update(version).add_field("truncate(4, data)")
    with pytest.raises(InvalidPartitionSpec, match="only just added"):
        adding.remove_field(given)
    with pytest.raises(InvalidPartitionSpec, match="only just added"):
        adding.rename_field("data_trunc_4", "x")


# renaming -------------------------------------------------------------------------------------------------------


@VERSIONS
def test_renamed_fields_keep_their_ids(version):
    assert shown(update(version).rename_field("shard", "id_bucket").apply())[2] == (1002, "id_bucket", "bucket[16](1)")


@VERSIONS
def test_a_field_cannot_be_renamed_and_removed(version):
    with pytest.raises(InvalidPartitionSpec, match="renamed and removed"):
        update(version).rename_field("shard", "x").remove_field("shard")
    with pytest.raises(InvalidPartitionSpec, match="removed and renamed"):
        update(version).remove_field("shard").rename_field("shard", "x")


@VERSIONS
def test_a_name_that_is_taken_cannot_be_given(version):
    with pytest.raises(InvalidPartitionSpec, match="two partition fields are named 'ts_day'"):
        update(version).rename_field("shard", "ts_day").apply()


@VERSIONS
def test_a_name_that_becomes_free_can_be_given(version):
    found = update(version).rename_field("shard", "old").add_field("bucket(8, id) as shard").apply()
    assert shown(found)[2:] == [(1002, "old", "bucket[16](1)"), (1003, "shard", "bucket[8](1)")]


# removing and adding --------------------------------------------------------------------------------------------


@VERSIONS
def test_adding_what_was_just_removed_changes_nothing(version):
    assert update(version).remove_field("shard").add_field("bucket(16, id)").apply() is PARTITIONED
    assert update(version).remove_field("shard").add_field("bucket(16, id) as shard").apply() is PARTITIONED


@VERSIONS
def test_adding_what_was_just_removed_under_another_name_renames_it(version):
    found = update(version).remove_field("shard").add_field("bucket(16, id) as new").apply()
    assert shown(found)[2] == (1002, "new", "bucket[16](1)")


def test_a_removed_name_may_be_used_again_at_once():
    change = [update(v).remove_field("shard").add_field("bucket(8, id) as shard") for v in (1, 2)]
    assert shown(change[0].apply())[2:] == [(1002, "shard_1002", "void(1)"), (1003, "shard", "bucket[8](1)")]
    assert shown(change[1].apply())[2:] == [(1003, "shard", "bucket[8](1)")]


def test_v1_readded_field_gets_a_new_id_and_its_name_and_the_void_one_steps_aside():
    without = update(1).remove_field("ts_day").apply()
    found = update(1, PARTITIONED, without).add_field("day(ts)").apply()
    assert shown(found) == [KEPT[0], (1001, "ts_day_1001", "void(2)"), KEPT[2], (1003, "ts_day", "day(2)")]
    again = update(1, PARTITIONED, without, found).remove_field("ts_day").apply()
    assert shown(again)[1::2] == [(1001, "ts_day_1001", "void(2)"), (1003, "ts_day", "void(2)")]
    last = update(1, PARTITIONED, without, found, again).add_field("day(ts)").apply()
    assert shown(last)[1:] == [
        (1001, "ts_day_1001", "void(2)"),
        KEPT[2],
        (1003, "ts_day_1003", "void(2)"),
        (1004, "ts_day", "day(2)"),
    ]


def test_v1_rename_makes_a_void_field_step_aside():
    without = update(1).remove_field("ts_day").apply()
    found = update(1, PARTITIONED, without).rename_field("shard", "ts_day").apply()
    assert shown(found)[1:] == [(1001, "ts_day_1001", "void(2)"), (1002, "ts_day", "bucket[16](1)")]


def test_v2_readded_field_reuses_its_id_and_name():
    without = update(2).remove_field("shard").add_field("data").apply()
    found = update(2, PARTITIONED, without).add_field("bucket(16, id)").apply()
    assert shown(found) == [*KEPT[:2], (1003, "data", "identity(4)"), KEPT[2]]


def test_v2_readded_field_reuses_its_id_under_a_new_name():
    without = update(2).remove_field("shard").apply()
    found = update(2, PARTITIONED, without).add_field("bucket(16, id) as other").apply()
    assert shown(found)[-1] == (1002, "other", "bucket[16](1)")


def test_v2_does_not_reuse_an_id_that_another_field_of_the_spec_has():
    """Specs of old v1 tables may have given one id to different fields."""
    old = PartitionSpec((PartitionField((2,), 1000, "ts_day", DAY),), 0)
    now = PartitionSpec((PartitionField((1,), 1000, "id", IDENTITY),), 1)
    assert shown(update(2, old, now).add_field("day(ts)").apply()) == [
        (1000, "id", "identity(1)"),
        (1001, "ts_day", "day(2)"),
    ]


def test_void_fields_of_an_upgraded_table_can_be_removed():
    without = update(1).remove_field("ts_day").apply()
    assert shown(update(2, PARTITIONED, without).remove_field("ts_day").apply()) == [KEPT[0], KEPT[2]]
    kept = update(2, PARTITIONED, without).add_field("hour(ts) as ts_day").apply()
    assert shown(kept)[1] == (1001, "ts_day_1001", "void(2)")


@VERSIONS
def test_no_new_spec_when_an_equivalent_one_exists(version):
    by_day = build_spec(SCHEMA, ["day(ts)"], spec_id=4)
    both = update(version, by_day).add_field("category").apply()
    if version == 1:
        assert update(1, by_day, both).add_field("data").remove_field("category").apply().spec_id == 6
    else:
        assert update(version, by_day, both).remove_field("category").apply() is by_day


def test_the_changed_spec_is_the_default_one():
    by_day, by_hour = build_spec(SCHEMA, ["day(ts)"]), PartitionSpec((PartitionField((2,), 1001, "ts_hour", HOUR),), 1)
    found = update(2, by_day, by_hour, default_spec_id=0).add_field("category").apply()
    assert shown(found) == [(1000, "ts_day", "day(2)"), (1002, "category", "identity(3)")]
    assert found.spec_id == 2
    with pytest.raises(InvalidPartitionSpec, match="no partition spec with id 9"):
        update(2, by_day, default_spec_id=9)


def test_v1_fills_positions_that_other_specs_have_with_void():
    longer = update(1, build_spec(SCHEMA, ["day(ts)"])).add_field("category").apply()
    shorter = build_spec(SCHEMA, ["day(ts)"])
    found = update(1, shorter, longer, default_spec_id=0).add_field("data").apply()
    assert shown(found) == [(1000, "ts_day", "day(2)"), (1001, "category", "void(3)"), (1002, "data", "identity(4)")]


def test_fields_with_unknown_transforms_must_go_before_other_changes():
    strange = PartitionSpec((PartitionField((1,), 1000, "z", UnknownTransform("zorder")),))
    with pytest.raises(UnsupportedFeature, match="zorder"):
        update(2, strange).add_field("data").apply()
    assert shown(update(2, strange).remove_field("z").add_field("data").apply()) == [(1001, "data", "identity(4)")]
    assert shown(update(1, strange).remove_field("z").apply()) == [(1000, "z", "void(1)")]


# replacing a whole spec -----------------------------------------------------------------------------------------


def test_v2_replacement_reuses_ids_of_equivalent_fields():
    wanted = build_spec(SCHEMA, ["bucket(16, id)", "hour(ts)", "category"])
    found = align_field_ids(wanted, PARTITIONED, [PARTITIONED], 2, 1002)
    assert shown(found) == [
        (1002, "id_bucket", "bucket[16](1)"),
        (1003, "ts_hour", "hour(2)"),
        (1000, "category", "identity(3)"),
    ]


def test_v1_replacement_carries_all_fields_forward():
    wanted = build_spec(SCHEMA, ["bucket(16, id) as ts_day", "data"])
    found = align_field_ids(wanted, PARTITIONED, [PARTITIONED], 1, 1002)
    assert shown(found) == [
        (1000, "category", "void(3)"),
        (1001, "ts_day_1001", "void(2)"),
        (1002, "ts_day", "bucket[16](1)"),
        (1003, "data", "identity(4)"),
    ]


# any sequence of changes ----------------------------------------------------------------------------------------

TERMS = ["category", "data", "day(ts)", "hour(ts)", "bucket(16, id)", "bucket(8, id)", "truncate(2, data)"]
CHANGES = st.lists(
    st.tuples(st.just("add"), st.sampled_from(TERMS))
    | st.tuples(st.just("add"), st.sampled_from([f"{term} as n{n}" for n, term in enumerate(TERMS)]))
    | st.tuples(st.just("remove"), st.sampled_from(TERMS))
    | st.tuples(st.just("rename"), st.sampled_from(["category", "n1", "ts_day"])),
    max_size=3,
)


@given(st.sampled_from([1, 2, 3]), st.lists(CHANGES, max_size=6))
def test_any_history_keeps_the_rules(version, history):
    specs, last_id = [UNPARTITIONED], 999
    for changes in history:
        change = SpecUpdate(specs, SCHEMA, version, last_id)
        try:
            for kind, term in changes:
                if kind == "add":
                    change.add_field(term)
                elif kind == "remove":
                    change.remove_field(term)
                else:
                    change.rename_field(term, f"{term}_new")
            found = change.apply()
        except (InvalidInput, NotFound):
            continue
        check_spec(found, SCHEMA, version)
        if found in specs:
            continue
        assert not any(found.compatible_with(s) for s in specs)
        assert found.spec_id == max(s.spec_id for s in specs) + 1
        if version == 1:  # nothing is dropped or moved
            before = specs[-1].fields
            assert [f.source_ids for f in found.fields[: len(before)]] == [f.source_ids for f in before]
        specs.append(found)
        last_id = max(last_id, found.last_assigned_field_id)
    # an id means one thing in all specs
    unified_partition_type(specs, [SCHEMA])
    if version > 1:
        meanings = {(f.source_ids, f.transform): set() for s in specs for f in s.fields}
        for s in specs:
            for f in s.fields:
                meanings[f.source_ids, f.transform].add(f.field_id)
        assert all(len(ids) == 1 for ids in meanings.values())


@pytest.mark.parametrize("table", table_names("evo_partition", "part_void", "del_spec_evolution", "combo_v2"))
def test_specs_of_the_corpus_follow_from_each_other(corpus_dir, table):
    """Removing what the next spec lacks and adding what it has gives Java's spec, ids and names included."""
    metadata = json.loads((corpus_dir / table / expected(corpus_dir, table)["metadata"]).read_text())
    specs = [spec_from_json(item) for item in metadata["partition-specs"]]
    schema = schema_from_json(metadata["schemas"][-1])
    last_id = specs[0].last_assigned_field_id
    for n in range(1, len(specs)):
        before, after = specs[n - 1], specs[n]
        change = SpecUpdate(specs[:n], schema, metadata["format-version"], last_id)
        for old in before.fields:
            if old not in after.fields:
                change.remove_field(old.name)
        for new in after.fields:
            if new not in before.fields and new.transform != VOID:
                change.add_field(schema.entry(new.source_id).path, new.transform, new.name)
        assert change.apply() == after
        last_id = max(last_id, after.last_assigned_field_id)


@pytest.mark.parametrize(
    ("transform", "theirs"),
    [
        (Bucket(16), _PartitionNameGenerator().bucket(1000, "data", 4, 16)),
        (Truncate(3), _PartitionNameGenerator().truncate(1000, "data", 4, 3)),
        (IDENTITY, _PartitionNameGenerator().identity(1000, "data", 4)),
        (VOID, _PartitionNameGenerator().always_null(1000, "data", 4)),
    ],
    ids=str,
)
def test_default_names_are_pyicebergs_too(transform, theirs):
    assert update(2, UNPARTITIONED).add_field("data", transform).apply().fields[0].name == theirs


@VERSIONS
def test_void_of_a_column_cannot_be_added_twice(version):
    with pytest.raises(InvalidPartitionSpec, match="partitioned by void of that column already, as 'id_null'"):
        update(version, build_spec(SCHEMA, ["void(id)"])).add_field("void(id)")
