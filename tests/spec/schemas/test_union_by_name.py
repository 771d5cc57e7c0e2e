"""Merging another schema in by name, as Java's union does."""

import time
from dataclasses import replace

import pytest

from floe.errors import IncompatibleChange, InvalidSchema
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_evolution import SchemaUpdate
from floe.spec.schemas.union_by_name import AddField, MakeOptional, Promote, SetDoc, SetWriteDefault, union_changes
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType


def union(ours, theirs, version=2, **options):
    schema = Schema(tuple(ours))
    update = SchemaUpdate(schema, format_version=version, last_column_id=schema.highest_field_id, **options)
    return update.union_by_name(Schema(tuple(theirs))).apply()


A, B = Field(1, "a", t.INT), Field(2, "b", t.STRING)


def test_the_same_schema_changes_nothing():
    assert union([A, B], [Field(9, "b", t.STRING), Field(7, "a", t.INT)]).fields == (A, B)


def test_columns_that_the_other_lacks_stay():
    assert union([A, B], []).fields == (A, B)


def test_new_columns_are_added_last_with_new_ids_and_their_docs():
    other = [Field(1, "x", t.LONG, doc="d"), Field(2, "a", t.INT), Field(3, "y", ListType(4, t.INT, True))]
    assert union([A, B], other).fields == (
        A, B, Field(3, "x", t.LONG, doc="d"), Field(4, "y", ListType(5, t.INT, True)),
    )  # fmt: skip


def test_new_columns_are_optional_even_if_they_are_required_in_the_other():
    inner = Field(6, "i", t.INT, required=True)
    changed = union([A], [Field(5, "n", StructType((inner,)), required=True)])
    assert changed.fields[1] == Field(2, "n", StructType((replace(inner, id=3),)))


def test_new_fields_in_structs_lists_and_maps():
    def fields(*extra):
        return (Field(10, "x", t.INT), *extra)

    def schema(*extra):
        inner = [StructType(tuple(replace(f, id=f.id + n) for f in fields(*extra))) for n in (0, 10, 20)]
        return [
            Field(1, "s", inner[0]),
            Field(2, "l", ListType(3, inner[1])),
            Field(4, "m", MapType(5, t.STRING, 6, inner[2])),
        ]

    changed = union(schema(), schema(Field(11, "new", t.INT)))
    assert {name: changed.field(name).id for name in ("s.new", "l.element.new", "m.value.new")} == {
        "s.new": 31, "l.element.new": 32, "m.value.new": 33,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(t.INT, t.LONG), (t.FLOAT, t.DOUBLE), (DecimalType(9, 2), DecimalType(18, 2))],
    ids=str,
)
def test_types_are_widened_and_never_narrowed(narrow, wide):
    assert union([Field(1, "a", narrow)], [Field(1, "a", wide)]).field("a").type == wide
    assert union([Field(1, "a", wide)], [Field(1, "a", narrow)]).field("a").type == wide


def test_elements_and_values_are_widened():
    ours = [Field(1, "l", ListType(2, t.INT)), Field(3, "m", MapType(4, t.STRING, 5, t.FLOAT))]
    theirs = [Field(1, "l", ListType(2, t.LONG)), Field(3, "m", MapType(4, t.STRING, 5, t.DOUBLE))]
    changed = union(ours, theirs)
    assert (changed.field("l.element").type, changed.field("m.value").type) == (t.LONG, t.DOUBLE)


def test_dates_are_widened_in_v3_only():
    day, moment = [Field(1, "d", t.DATE)], [Field(1, "d", t.TIMESTAMP)]
    assert union(day, moment, version=3).field("d").type == t.TIMESTAMP
    assert union(moment, day, version=3).field("d").type == t.TIMESTAMP
    for ours, theirs in ((day, moment), (moment, day)):
        with pytest.raises(IncompatibleChange):
            union(ours, theirs, version=2)


def test_widening_looks_at_the_partition_specs():
    spec = PartitionSpec((PartitionField((1,), 1000, "p", Bucket(4)),))
    with pytest.raises(IncompatibleChange, match="partition field with transform"):
        union([Field(1, "d", t.DATE)], [Field(1, "d", t.TIMESTAMP)], version=3, partition_specs=[spec])


def test_unknown_merges_with_anything():
    struct = StructType((Field(5, "x", t.INT),))
    assert union([Field(1, "u", t.UNKNOWN)], [Field(1, "u", t.LONG)], version=3).field("u").type == t.LONG
    assert union([Field(1, "u", t.UNKNOWN)], [Field(1, "u", struct)], version=3).field("u.x").id == 2
    for type_ in (t.LONG, struct, t.VARIANT):
        assert union([Field(1, "u", type_)], [Field(1, "u", t.UNKNOWN)], version=3).field("u").type == type_
    assert union([A], [Field(1, "a", t.UNKNOWN)], version=2).fields == (A,)


def test_required_columns_become_optional_where_the_other_is():
    ours = [
        Field(1, "a", t.INT, required=True),
        Field(2, "l", ListType(3, t.INT, True), required=True),
        Field(4, "m", MapType(5, t.INT, 6, t.INT, True)),
    ]
    theirs = [Field(1, "a", t.INT), Field(2, "l", ListType(3, t.INT)), Field(4, "m", MapType(5, t.INT, 6, t.INT))]
    changed = union(ours, theirs)
    assert [changed.field(n).required for n in ("a", "l", "l.element", "m.value")] == [False] * 4


def test_optional_columns_stay_optional():
    assert not union([A], [replace(A, required=True)]).field("a").required


def test_docs_are_taken_over_but_not_removed():
    ours = replace(A, doc="old")
    assert union([ours], [replace(A, doc="new")]).field("a").doc == "new"
    assert union([ours], [A]).field("a").doc == "old"


def test_defaults_of_new_columns_are_taken_over_in_v3():
    new = Field(5, "n", t.INT, initial_default=1, write_default=2)
    assert union([A], [new], version=3).fields[1] == replace(new, id=2)
    with pytest.raises(InvalidSchema, match="needs format version 3"):
        union([A], [new], version=2)


def test_write_defaults_need_v3():
    for theirs in (Field(5, "n", t.INT, write_default=2), Field(1, "a", t.INT, write_default=2)):
        with pytest.raises(InvalidSchema, match=r"the write-default of .* needs format version 3"):
            union([A], [theirs], version=2)


def test_write_defaults_of_known_columns_are_taken_over_in_the_columns_type():
    ours = Field(1, "d", t.TIMESTAMP, initial_default=0, write_default=0)
    changed = union([ours], [Field(7, "d", t.DATE, initial_default=5, write_default=1)], version=3)
    assert changed.fields == (replace(ours, write_default=86_400_000_000),)
    assert union([ours], [Field(7, "d", t.TIMESTAMP)], version=3).fields == (ours,)


def test_case_matters_unless_told_otherwise():
    other = [Field(1, "A", t.LONG), Field(2, "St", StructType((Field(3, "X", t.LONG),)))]
    ours = [A, Field(2, "st", StructType((Field(3, "x", t.INT),)))]
    assert [f.name for f in union(ours, other)] == ["a", "st", "A", "St"]
    changed = union(ours, other, case_sensitive=False)
    assert {e.name: str(e.field.type) for e in changed.by_id.values() if not e.field.type.is_nested} == {
        "a": "long", "st.x": "long",
    }  # fmt: skip


def test_without_case_a_name_must_mean_one_column():
    ours = [Field(1, "a", t.INT), Field(2, "A", t.INT)]
    assert list(
        union_changes(Schema(tuple(ours)), Schema((Field(1, "A", t.LONG),)), format_version=2, case_sensitive=False)
    ) == [Promote(2, t.LONG)]
    with pytest.raises(InvalidSchema, match="'ST' or 'St'"):
        list(
            union_changes(
                Schema((Field(1, "ST", t.INT), Field(2, "St", t.INT))),
                Schema((Field(1, "st", t.INT),)),
                format_version=2,
                case_sensitive=False,
            )
        )
    with pytest.raises(InvalidSchema, match=r"two fields of the other schema .*'a'"):
        union([A], [Field(1, "a", t.INT), Field(2, "A", t.INT)], case_sensitive=False)


STRUCT = StructType((Field(11, "x", t.INT),))
LIST, MAP = ListType(12, t.INT), MapType(13, t.INT, 14, t.INT)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (t.INT, t.STRING), (t.STRING, t.INT), (t.TIMESTAMP, t.TIMESTAMPTZ), (DecimalType(9, 2), DecimalType(9, 3)),
        (t.INT, STRUCT), (STRUCT, t.INT), (STRUCT, LIST), (LIST, MAP), (MAP, STRUCT), (t.INT, LIST), (MAP, t.INT),
        (t.VARIANT, STRUCT), (STRUCT, t.VARIANT), (t.VARIANT, t.INT),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_do_not_go_together(ours, theirs):
    with pytest.raises(IncompatibleChange, match="'a'"):
        union([Field(1, "a", ours)], [Field(1, "a", theirs)], version=3)


def test_map_keys_stay_as_they_are():
    def keyed(type_):
        return [Field(1, "m", MapType(2, type_, 3, t.INT))]

    assert union(keyed(t.LONG), keyed(t.INT)).field("m.key").type == t.LONG
    with pytest.raises(IncompatibleChange, match="map keys"):
        union(keyed(t.INT), keyed(t.LONG))
    struct = StructType((Field(5, "x", t.INT),))
    wider = StructType((Field(5, "x", t.INT), Field(6, "y", t.INT)))
    with pytest.raises(IncompatibleChange, match="map keys"):
        union(keyed(struct), keyed(wider))
    assert union(keyed(wider), keyed(struct)).field("m.key").type == wider


def test_identifier_fields_are_ours():
    schema = Schema((replace(A, required=True), replace(B, required=True)), identifier_field_ids=(1,))
    other = Schema((replace(A, required=True), replace(B, required=True)), identifier_field_ids=(2,))
    update = SchemaUpdate(schema, format_version=2, last_column_id=2)
    assert update.union_by_name(other).apply().identifier_field_ids == (1,)
    with pytest.raises(InvalidSchema, match="it is optional"):
        SchemaUpdate(schema, format_version=2, last_column_id=2).union_by_name(Schema((A,))).apply()


def test_the_union_is_with_the_schema_as_the_steps_before_left_it():
    update = SchemaUpdate(Schema((A, B)), format_version=2, last_column_id=2)
    changed = update.rename_column("a", "c").drop_column("b").union_by_name(Schema((A, B))).apply()
    assert [(f.id, f.name) for f in changed] == [(1, "c"), (3, "a"), (4, "b")]


def test_a_union_that_is_refused_changes_nothing():
    schema = Schema((A, B))
    update = SchemaUpdate(schema, format_version=2, last_column_id=2)
    with pytest.raises(IncompatibleChange):
        update.union_by_name(Schema((Field(9, "new", t.INT), replace(A, type=t.LONG), replace(B, id=3, type=t.INT))))
    assert update.apply() is schema
    assert update.last_column_id == 2


def test_the_changes_as_values():
    ours = Schema((Field(1, "a", t.INT, required=True), Field(2, "s", StructType((Field(3, "x", t.INT),)))))
    theirs = Schema(
        (
            Field(1, "a", t.LONG, doc="d", write_default=4),
            Field(2, "s", StructType((Field(3, "y", t.INT, required=True),))),
        )
    )
    assert list(union_changes(ours, theirs, format_version=3)) == [
        MakeOptional(1),
        Promote(1, t.LONG),
        SetDoc(1, "d"),
        SetWriteDefault(1, 4),
        AddField(2, Field(3, "y", t.INT)),
    ]


def test_new_fields_inside_existing_ones_get_their_ids_before_those_beside_them():
    point = StructType((Field(3, "x", t.INT),))
    update = SchemaUpdate(Schema((A, Field(2, "s", point))), format_version=2, last_column_id=3)
    other = Schema((Field(1, "new", t.INT), Field(2, "s", StructType((Field(3, "y", t.INT),)))))
    changed = update.union_by_name(other).apply()
    assert (changed.field("s.y").id, changed.field("new").id) == (4, 5)  # as Java numbers them


def test_a_write_default_of_nan_is_the_same_default():
    x = Field(1, "x", t.DOUBLE, write_default=float("nan"))
    assert (
        list(union_changes(Schema((x,)), Schema((replace(x, write_default=-x.write_default),)), format_version=2)) == []
    )


@pytest.mark.parametrize("case_sensitive", [True, False])
def test_wide_schemas_are_merged_quickly(case_sensitive):
    columns = [Field(n, f"column_{n}", t.INT) for n in range(1, 10_001)]
    started = time.process_time()
    merged = union(columns, [*reversed(columns), Field(1_000_000, "new", t.INT)], case_sensitive=case_sensitive)
    assert time.process_time() - started < 8  # comparing every name with every other takes a minute
    assert len(merged) == 10_001
