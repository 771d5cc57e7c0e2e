"""Schema evolution (spec: Schema Evolution): every change that is allowed, and why the others are not."""

import datetime
import time
from dataclasses import replace
from decimal import Decimal

import pytest

from floe.errors import IncompatibleChange, InvalidInput, InvalidSchema, InvalidType, InvalidValue, NoSuchColumn
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, IDENTITY, VOID, Bucket
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID, Schema
from floe.spec.schemas.schema_evolution import SchemaUpdate
from floe.spec.sort_order import SortField, SortOrder
from floe.spec.types import DecimalType, Field, GeometryType, ListType, MapType, StructType

SCHEMA = Schema(
    (
        Field(1, "id", t.INT, required=True, doc="key"),
        Field(2, "data", t.STRING),
        Field(3, "st", StructType((Field(4, "a", t.INT, required=True), Field(5, "b", t.FLOAT)))),
        Field(6, "points", ListType(7, StructType((Field(8, "x", t.LONG), Field(9, "y", t.LONG))))),
        Field(
            10,
            "m",
            MapType(11, StructType((Field(12, "k", t.INT),)), 13, StructType((Field(14, "v", t.INT, required=True),))),
        ),
        Field(15, "tags", ListType(16, t.INT, element_required=True)),
        Field(17, "amount", DecimalType(9, 2)),
        Field(18, "day", t.DATE),
    ),
    schema_id=4,
)


def update(schema=SCHEMA, version=2, last=None, **options):
    last = schema.highest_field_id if last is None else last
    return SchemaUpdate(schema, format_version=version, last_column_id=last, **options)


def names(schema):
    return [field.name for field in schema.fields]


def simple(*columns):
    return Schema(tuple(Field(n, name, t.INT) for n, name in enumerate(columns, 1)))


# in general --------------------------------------------------------------------------------------------------------


def test_no_change_gives_the_same_schema():
    assert update().apply() is SCHEMA
    assert update().set_doc("id", "key").make_optional("data").promote("id", "int").apply() is SCHEMA


def test_the_old_schema_stays_and_applying_again_gives_the_same():
    change = update().add_column("n", t.INT).drop_column("data")
    assert change.apply() == change.apply()
    assert change.last_column_id == 19
    assert names(SCHEMA)[1] == "data"


def test_the_schema_id_is_kept_until_the_table_gives_one():
    assert update().drop_column("data").apply().schema_id == 4


def test_unknown_json_keys_survive():
    a = Field(1, "a", StructType((Field(2, "x", t.INT, extra={"f": 1}),), {"s": 1}), extra={"g": 1})
    changed = update(Schema((a,), extra={"k": 1})).add_column("a.y", "int").rename_column("a.x", "z").apply()
    assert changed.extra == {"k": 1}
    assert changed.fields[0].extra == {"g": 1}
    assert changed.fields[0].type.extra == {"s": 1}
    assert changed.field("a.z").extra == {"f": 1}


def test_each_step_sees_the_names_that_the_steps_before_left():
    changed = (
        update(simple("a", "b"))
        .rename_column("a", "c")
        .set_doc("c", "was a")
        .add_column("a", "int")
        .set_doc("a", "new")
        .apply()
    )
    assert [(f.id, f.name, f.doc) for f in changed] == [(1, "c", "was a"), (2, "b", None), (3, "a", "new")]


def test_an_unknown_name_tells_which_there_are():
    with pytest.raises(NoSuchColumn, match=r"no column is named 'nope' .*columns are id, data, st"):
        update().drop_column("nope")


def test_a_name_that_an_earlier_step_changed():
    with pytest.raises(NoSuchColumn, match=r"'data'.*'text'"):
        update().rename_column("data", "text").set_doc("data", "x")


def test_case_may_be_ignored():
    change = update(case_sensitive=False)
    changed = change.rename_column("DATA", "text").set_doc("ST.A", "d").add_column("St.new", "int", after="A").apply()
    assert names(changed)[1] == "text"
    assert [f.name for f in changed.field("st").type.fields] == ["a", "new", "b"]
    with pytest.raises(InvalidSchema, match="both"):
        update(case_sensitive=False).add_column("ID", "int").apply()
    assert names(update().add_column("ID", "int").apply())[-1] == "ID"
    assert names(update(case_sensitive=False).rename_column("id", "ID").apply())[0] == "ID"


# add ---------------------------------------------------------------------------------------------------------------


def test_add_a_column():
    change = update().add_column("n", "long", doc="new")
    assert change.apply().fields == (*SCHEMA.fields, Field(19, "n", t.LONG, doc="new"))
    assert change.last_column_id == 19


def test_ids_go_on_from_the_last_one_the_table_ever_used():
    change = update(last=100).add_column("a", "int").add_column("b", "int")
    assert [f.id for f in change.apply().fields[-2:]] == [101, 102]
    assert change.last_column_id == 102


def test_adding_assigns_new_ids_to_all_that_is_nested():
    """Java's order: the field, then its children level by level; the ids given do not matter."""
    inner = StructType((Field(0, "x", t.INT), Field(0, "l", ListType(0, t.INT)), Field(1, "y", t.INT)))
    change = update(simple("a")).add_column("m", MapType(1, t.STRING, 1, inner)).add_column("b", "int")
    assert {e.name: i for i, e in change.apply().by_id.items()} == {
        "a": 1, "m": 2, "m.key": 3, "m.value": 4, "m.value.x": 5, "m.value.l": 6, "m.value.y": 7,
        "m.value.l.element": 8, "b": 9,
    }  # fmt: skip
    assert change.last_column_id == 9


@pytest.mark.parametrize(
    ("place", "order"),
    [
        ({"first": True}, ["n", "a", "b", "c"]),
        ({"before": "b"}, ["a", "n", "b", "c"]),
        ({"after": "b"}, ["a", "b", "n", "c"]),
        ({"after": "c"}, ["a", "b", "c", "n"]),
        ({}, ["a", "b", "c", "n"]),
    ],
)
def test_add_at_a_place(place, order):
    assert names(update(simple("a", "b", "c")).add_column("n", "int", **place).apply()) == order


def test_add_at_two_places():
    with pytest.raises(InvalidInput, match="one of first, before and after"):
        update().add_column("n", "int", first=True, after="id")


def test_a_failed_add_leaves_no_trace():
    change = update()
    for bad in ({"after": "nope"}, {"required": True}, {"default": 3}):
        with pytest.raises(InvalidInput) if "after" not in bad else pytest.raises(NoSuchColumn):
            change.add_column("n", "int", **bad)
    assert change.apply() is SCHEMA
    assert change.last_column_id == SCHEMA.highest_field_id


def test_add_into_a_struct():
    changed = update().add_column("st.c", "int", after="a").add_column(("st", "d"), "int", before="st.b").apply()
    assert [(f.id, f.name) for f in changed.field("st").type.fields] == [(4, "a"), (19, "c"), (20, "d"), (5, "b")]


@pytest.mark.parametrize("name", ["points.z", "points.element.z", ("points", "element", "z"), ("points", "z")])
def test_add_into_the_structs_of_a_list(name):
    changed = update().add_column(name, "int").apply()
    assert changed.field("points.element.z") == Field(19, "z", t.INT)


@pytest.mark.parametrize("name", ["m.w", "m.value.w", ("m", "value", "w")])
def test_add_into_the_structs_of_a_maps_values(name):
    assert update().add_column(name, "int").apply().field("m.value.w").id == 19


def test_add_into_a_column_added_before():
    struct = StructType((Field(0, "x", t.INT),))
    changed = update().add_column("new", struct).add_column("new.y", "int", first=True).apply()
    assert [f.name for f in changed.field("new").type.fields] == ["y", "x"]
    assert changed.field("new.y").id == 21


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("data.x", "'data'.* not a struct"),
        ("tags.x", r"'tags\.element'.* not a struct"),
        ("m.key.x", "map keys"),
    ],
)
def test_add_where_there_is_no_struct(name, why):
    with pytest.raises(InvalidSchema, match=why):
        update().add_column(name, "int")


def test_add_into_a_missing_struct_hints_at_names_with_dots():
    with pytest.raises(NoSuchColumn, match=r"contains a dot as a path: \('a\.b',\)"):
        update().add_column("a.b", "int")
    changed = update().add_column(("a.b",), "int").apply()
    assert changed.field(("a.b",)).id == 19


def test_add_under_a_name_in_use():
    for name in ("data", "st.a", "points.x"):
        with pytest.raises(InvalidSchema, match="is already in use"):
            update().add_column(name, "int").apply()
    with pytest.raises(InvalidSchema, match="is already in use"):
        update().add_column("n", "int").add_column("n", "int").apply()


def test_add_a_name_that_dots_make_ambiguous():
    """Java cannot read a schema in which two fields have one full name."""
    with pytest.raises(InvalidSchema, match=r"both \('st', 'a'\) and \('st\.a',\)"):
        update().add_column(("st.a",), "int").apply()


def test_add_names_that_cannot_be():
    with pytest.raises(InvalidSchema, match="must have a name"):
        update().add_column("", "int")
    with pytest.raises(InvalidInput, match="at least one name"):
        update().add_column((), "int")
    with pytest.raises(InvalidSchema, match="'_pos' is the name of a metadata column"):
        update().add_column("_pos", "int")
    update().add_column("st._pos", "int").add_column("pos", "int").apply()


def test_a_required_column_needs_a_default():
    with pytest.raises(IncompatibleChange) as caught:
        update(version=3).add_column("n", "int", required=True)
    assert str(caught.value) == (
        "cannot add 'n' as a required column: rows already written have no value for it (column: n); "
        "give it a default or make it optional"
    )
    with pytest.raises(IncompatibleChange, match=r"'st\.n'.* default values need format version 3"):
        update(version=2).add_column("st.n", "int", required=True)


def test_a_required_column_with_a_default():
    changed = update(version=3).add_column("n", "int", required=True, default=7).apply()
    assert changed.field("n") == Field(19, "n", t.INT, required=True, initial_default=7, write_default=7)


def test_a_required_column_without_a_default_when_allowed():
    changed = update(allow_incompatible=True).add_column("n", "int", required=True).apply()
    assert changed.field("n").required


def test_a_new_struct_may_have_required_fields_without_defaults():
    """No row has the struct yet; for old rows it is null."""
    struct = StructType((Field(0, "x", t.INT, required=True),))
    changed = update().add_column("new", struct).add_column("new.y", "int", required=True).apply()
    assert [f.required for f in changed.field("new").type.fields] == [True, True]


def test_add_types_of_v3():
    for type_ in (t.TIMESTAMP_NS, t.UNKNOWN, t.VARIANT, GeometryType(), ListType(0, t.TIMESTAMPTZ_NS)):
        with pytest.raises(InvalidSchema, match="needs format version 3; the table has 2"):
            update().add_column("n", type_)
        update(version=3).add_column("n", type_).apply()


def test_add_a_required_unknown():
    with pytest.raises(InvalidSchema, match="has type unknown and so must be optional"):
        update(version=3, allow_incompatible=True).add_column("n", "unknown", required=True)


def test_ids_do_not_grow_into_the_reserved_range():
    with pytest.raises(InvalidSchema, match="reserved for metadata columns"):
        update(last=MAX_TABLE_FIELD_ID).add_column("n", "int")


# defaults ----------------------------------------------------------------------------------------------------------


def test_both_defaults_are_set_when_a_field_is_added():
    field = update(version=3).add_column("n", "string", default="x").apply().field("n")
    assert (field.initial_default, field.write_default) == ("x", "x")


def test_an_optional_field_may_be_added_with_null_defaults():
    field = update(version=3).add_column("n", "string").apply().field("n")
    assert (field.initial_default, field.write_default) == (None, None)


@pytest.mark.parametrize("version", [1, 2])
def test_defaults_need_v3(version):
    with pytest.raises(InvalidSchema, match=f"initial-default of 'n' needs format version 3; the table has {version}"):
        update(version=version).add_column("n", "int", default=1)
    with pytest.raises(InvalidSchema, match="write-default of 'data' needs format version 3"):
        update(version=version).set_default("data", "x")
    with pytest.raises(InvalidSchema, match="has an initial-default"):
        update(version=version).add_column("n", StructType((Field(0, "x", t.INT, initial_default=1),)))


@pytest.mark.parametrize(
    ("type_", "given", "value"),
    [
        ("date", datetime.date(2017, 11, 16), 17486),
        ("date", "2017-11-16", 17486),
        ("decimal(9,2)", "14.20", Decimal("14.20")),
        ("long", 5, 5),
        ("timestamptz", "1970-01-01T01:00:00+01:00", 0),
        (ListType(0, t.DATE), ["1970-01-02"], [1]),
    ],
)
def test_defaults_are_given_as_people_write_them(type_, given, value):
    field = update(version=3).add_column("n", type_, default=given).apply().field("n")
    assert (field.initial_default, field.write_default) == (value, value)
    changed = update(Schema((replace(field, write_default=None),)), version=3).set_default("n", given).apply()
    assert changed.field("n").write_default == value


def test_a_default_that_does_not_fit_its_type():
    with pytest.raises(InvalidValue, match="column: n"):
        update(version=3).add_column("n", "int", default="x")
    with pytest.raises(InvalidValue, match="column: id"):
        update(version=3).set_default("id", 2**31)


def test_the_initial_default_never_changes():
    start = Schema((Field(1, "a", t.INT, initial_default=1, write_default=1),))
    field = update(start, version=3).set_default("a", 2).apply().field("a")
    assert (field.initial_default, field.write_default) == (1, 2)
    field = update(start, version=3).set_default("a", None).apply().field("a")
    assert (field.initial_default, field.write_default) == (1, None)


def test_the_write_default_may_change_for_a_field_added_in_the_same_update():
    field = update(version=3).add_column("n", "int", default=1).set_default("n", 2).apply().field("n")
    assert (field.initial_default, field.write_default) == (1, 2)
    with pytest.raises(IncompatibleChange, match="cannot add 'n' as a required column"):
        update(version=3).add_column("n", "int", default=1, required=True).set_default("n", None).apply()


def test_a_structs_default_is_null_or_empty():
    struct = StructType((Field(0, "x", t.INT, initial_default=0, write_default=0),))
    field = update(version=3).add_column("p", struct, default={}).apply().field("p")
    assert (field.initial_default, field.write_default) == ({}, {})
    with pytest.raises(InvalidSchema, match="can only be null or an empty struct"):
        update(version=3).add_column("p", struct, default={"x": 1})


def test_a_structs_empty_default_needs_values_for_its_required_fields():
    struct = StructType((Field(0, "x", t.INT, required=True),))
    with pytest.raises(InvalidSchema, match="the default of 'p' is incomplete: 'x' is required"):
        update(version=3).add_column("p", struct, default={})
    change = update(version=3).add_column("p", StructType(()), default={})
    with pytest.raises(InvalidSchema, match="the default of 'p' is incomplete"):
        change.add_column("p.x", "int", required=True).apply()


@pytest.mark.parametrize("type_", ["unknown", "variant", "geometry", "geography"])
def test_types_whose_default_is_null_only(type_):
    with pytest.raises(InvalidSchema, match="can only be null"):
        update(version=3).add_column("n", type_, default=b"")
    change = update(version=3).add_column("n", type_)
    with pytest.raises(InvalidSchema, match="whose write-default can only be null"):
        change.set_default("n", b"")


def test_elements_and_values_have_no_default_doc_or_name():
    for name in ("points.element", "m.value"):
        for step in (
            lambda c, n: c.set_doc(n, "d"),
            lambda c, n: c.set_default(n, {}),
            lambda c, n: c.rename_column(n, "x"),
            lambda c, n: c.drop_column(n),
            lambda c, n: c.move_column(n, first=True),
        ):
            with pytest.raises(IncompatibleChange, match=r"it is a part of the (list|map)"):
                step(update(version=3), name)


# drop --------------------------------------------------------------------------------------------------------------


def test_drop_columns_at_any_depth():
    changed = update().drop_column("data").drop_column("st.a").drop_column("points.x").drop_column("m.value.v").apply()
    assert set(SCHEMA.by_id) - set(changed.by_id) == {2, 4, 8, 14}


def test_dropping_a_struct_drops_what_it_holds():
    assert set(SCHEMA.by_id) - set(update().drop_column("st").apply().by_id) == {3, 4, 5}


def test_a_column_dropped_and_added_again_is_another_column():
    changed = update().drop_column("data").add_column("data", "string", after="id").apply()
    assert changed.field("data").id == 19
    assert names(changed)[1] == "data"


def test_an_added_column_may_be_dropped_again_and_its_id_is_lost():
    change = update().add_column("n", "int").drop_column("n").add_column("o", "int")
    assert change.apply().field("o").id == 20


def test_a_dropped_column_cannot_be_changed():
    for step in (
        lambda c: c.set_doc("data", "x"),
        lambda c: c.rename_column("data", "x"),
        lambda c: c.promote("data", "string"),
        lambda c: c.make_optional("data"),
        lambda c: c.require("data"),
        lambda c: c.move_column("data", first=True),
        lambda c: c.drop_column("data"),
        lambda c: c.set_default("data", "x"),
        lambda c: c.add_column("n", "int", after="data"),
    ):
        with pytest.raises(NoSuchColumn, match="earlier step") as refusal:
            step(update(version=3).drop_column("data"))
        assert refusal.value.context["column"] == "data"
    with pytest.raises(NoSuchColumn):
        update().drop_column("st").add_column("st.x", "int")


def test_a_struct_whose_last_field_is_dropped_stays_empty_through_other_changes():
    start = Schema((Field(1, "st", StructType((Field(2, "x", t.INT),))),))
    changed = update(start).drop_column("st.x").rename_column("st", "s").set_doc("s", "d").apply()
    assert changed.fields == (Field(1, "s", StructType(), doc="d"),)


SPEC = PartitionSpec((PartitionField((4,), 1000, "a_bucket", Bucket(4)), PartitionField((2,), 1001, "data", VOID)))
ORDER = SortOrder((SortField((9,), IDENTITY),), 1)


def test_a_column_that_the_partition_spec_uses_is_not_dropped():
    for name in ("st.a", "st"):
        with pytest.raises(IncompatibleChange, match="the table's partition spec uses it"):
            update(current_spec=SPEC).drop_column(name)
    update(current_spec=SPEC).drop_column("st.b").drop_column("data").apply()


def test_a_column_that_the_sort_order_uses_is_not_dropped():
    for name in ("points.y", "points"):
        with pytest.raises(IncompatibleChange, match="the table's sort order uses it"):
            update(sort_order=ORDER).drop_column(name)
    update(sort_order=ORDER).drop_column("points.x").apply()


def test_old_specs_do_not_keep_a_column():
    update(partition_specs=[SPEC]).drop_column("st").apply()


# rename ------------------------------------------------------------------------------------------------------------


def test_rename_changes_the_name_and_not_the_id():
    changed = update().rename_column("data", "text").rename_column("points.x", "lon").rename_column("st", "s").apply()
    assert changed.find(2).name == "text"
    assert changed.name_of(8) == "points.element.lon"
    assert changed.name_of(4) == "s.a"


def test_rename_onto_a_name_in_use():
    with pytest.raises(InvalidSchema, match="the name 'id' is already in use"):
        update().rename_column("data", "id").apply()
    with pytest.raises(InvalidSchema, match=r"the name 'st\.b' is already in use"):
        update().rename_column("st.a", "b").apply()


def test_rename_onto_a_dropped_name():
    for change in (
        update().drop_column("id").rename_column("data", "id"),
        update().rename_column("data", "id").drop_column("id"),
    ):
        assert [(f.id, f.name) for f in change.apply().fields[:1]] == [(2, "id")]


def test_names_are_swapped():
    changed = update(simple("a", "b")).rename_column("a", "b").rename_column("b", "a").apply()
    assert [(f.id, f.name) for f in changed] == [(1, "b"), (2, "a")]


def test_names_are_rotated():
    change = update(simple("a", "b", "c"))
    changed = change.rename_column("a", "b").rename_column("b", "c").rename_column("c", "a").apply()
    assert [(f.id, f.name) for f in changed] == [(1, "b"), (2, "c"), (3, "a")]


def test_names_of_structs_are_swapped_and_paths_follow():
    def struct(field_id):
        return StructType((Field(field_id, "x", t.INT),))

    start = Schema((Field(1, "p", struct(2)), Field(3, "q", struct(4))))
    change = update(start).rename_column("p", "q")
    change.rename_column("q.x", "y")  # the one that was q from the start
    changed = change.rename_column("q", "p").apply()
    assert {i: e.name for i, e in changed.by_id.items()} == {1: "q", 2: "q.x", 3: "p", 4: "p.y"}


def test_rename_to_what_cannot_be_a_name():
    with pytest.raises(InvalidSchema, match="must have a name"):
        update().rename_column("data", "")
    with pytest.raises(InvalidSchema, match="'_file' is the name of a metadata column"):
        update().rename_column("data", "_file")
    assert update().rename_column("data", "a.b").apply().field("a.b").id == 2


# move --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place", "order"),
    [
        ("c", {"first": True}, "cabd"),
        ("a", {"first": True}, "abcd"),
        ("a", {"after": "c"}, "bcad"),
        ("a", {"after": "d"}, "bcda"),
        ("d", {"before": "b"}, "adbc"),
        ("b", {"before": "a"}, "bacd"),
        ("b", {"after": "a"}, "abcd"),
    ],
)
def test_move_first_before_after(name, place, order):
    assert "".join(names(update(simple(*"abcd")).move_column(name, **place).apply())) == order


def test_move_within_structs_lists_and_maps():
    changed = (
        update()
        .add_column("m.value.w", "int")
        .move_column("st.b", before="a")
        .move_column("points.y", before="points.x")
        .move_column("m.w", before="m.value.v")
        .apply()
    )
    assert [f.name for f in changed.field("st").type.fields] == ["b", "a"]
    assert [f.name for f in changed.field("points").type.element.fields] == ["y", "x"]
    assert [f.name for f in changed.field("m").type.value.fields] == ["w", "v"]


def test_move_next_to_an_added_column():
    change = update(simple("a", "b")).add_column("n", "int", first=True).move_column("b", before="n")
    assert names(change.apply()) == ["b", "n", "a"]


def test_fields_move_within_their_struct_only():
    """Spec: grouping fields into a nested struct is not allowed, nor moving them to the parent struct."""
    for name, reference in (("data", "st.a"), ("st.a", ("data",)), ("st.a", "points.x")):
        with pytest.raises(IncompatibleChange, match="another struct"):
            update().move_column(name, before=reference)
    with pytest.raises(IncompatibleChange, match=r"'st\.a' is not in the top level"):
        update().add_column("n", "int", after="st.a")


def test_move_without_or_with_two_places():
    for place in ({}, {"first": True, "before": "id"}, {"before": "id", "after": "id"}):
        with pytest.raises(InvalidInput, match="one of first, before and after"):
            update().move_column("data", **place)


def test_move_next_to_itself():
    with pytest.raises(InvalidSchema, match="cannot move 'data' next to itself"):
        update().move_column("data", after="data")


def test_move_prefers_the_sibling_of_that_name():
    start = Schema((Field(1, "a", t.INT), Field(2, "st", StructType((Field(3, "a", t.INT), Field(4, "b", t.INT))))))
    changed = update(start).move_column("st.b", before="a").apply()
    assert [f.name for f in changed.field("st").type.fields] == ["b", "a"]


# optional and required ---------------------------------------------------------------------------------------------


def test_make_optional():
    changed = (
        update().make_optional("id").make_optional("st.a").make_optional("m.v").make_optional("tags.element").apply()
    )
    assert not any(changed.find(i).required for i in (1, 4, 14, 16))


def test_require_needs_permission():
    with pytest.raises(IncompatibleChange, match="cannot require 'data': rows already written may have null there"):
        update().require("data")
    changed = update(allow_incompatible=True).require("data").require("points.element").apply()
    assert changed.find(2).required
    assert changed.find(7).required


def test_require_what_is_required():
    assert update().require("id").apply() is SCHEMA


def test_require_a_new_column_with_a_default():
    assert update(version=3).add_column("n", "int", default=1).require("n").apply().field("n").required
    with pytest.raises(IncompatibleChange, match="cannot require 'n'"):
        update(version=3).add_column("n", "int").require("n")


# promote -----------------------------------------------------------------------------------------------------------


def test_promote_at_any_depth():
    changed = (
        update()
        .promote("id", "long")
        .promote("st.b", t.DOUBLE)
        .promote("tags.element", "long")
        .promote("m.value.v", "long")
        .promote("amount", "decimal(18,2)")
        .apply()
    )
    assert [str(changed.find(i).type) for i in (1, 5, 16, 14, 17)] == [
        "long",
        "double",
        "long",
        "long",
        "decimal(18, 2)",
    ]
    assert changed.find(1).doc == "key"
    assert changed.find(16).required


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("points.x", "int", "values may not fit the narrower type"),
        ("data", "binary", "no such promotion"),
        ("amount", "decimal(9,3)", "the scale of a decimal never changes"),
        ("amount", "decimal(8,2)", "the precision of a decimal can only grow"),
        ("day", "timestamp", "needs format version 3"),
        ("day", "timestamptz", "a date has no time zone"),
        ("st", "int", "primitive"),
        ("m.key.k", "long", "map keys"),
    ],
)
def test_promotions_that_are_not_allowed(name, target, why):
    with pytest.raises(IncompatibleChange, match=why):
        update().promote(name, target)


def test_primitives_do_not_become_structs():
    for name in ("id", "tags.element"):
        with pytest.raises(IncompatibleChange, match="primitive"):
            update(version=3).promote(name, StructType((Field(0, "x", t.INT),)))


def test_promote_a_date_in_v3_with_its_defaults():
    start = Schema((Field(1, "day", t.DATE, initial_default=1, write_default=2),))
    field = update(start, version=3).promote("day", "timestamp").apply().field("day")
    assert (field.type, field.initial_default, field.write_default) == (t.TIMESTAMP, 86_400_000_000, 172_800_000_000)
    far = Schema((Field(1, "day", t.DATE, initial_default=10**6),))
    with pytest.raises(InvalidValue, match="out of the range of timestamp_ns"):
        update(far, version=3).promote("day", "timestamp_ns")


def test_promote_unknown_to_any_type_in_v3():
    start = Schema((Field(1, "u", t.UNKNOWN), Field(2, "l", ListType(3, t.UNKNOWN))))
    struct = StructType((Field(0, "x", t.INT), Field(1, "y", ListType(0, t.INT))))
    change = update(start, version=3).promote("u", struct).promote("l.element", "string").add_column("u.z", "int")
    assert {e.name: i for i, e in change.apply().by_id.items()} == {
        "u": 1, "u.x": 4, "u.y": 5, "u.y.element": 6, "u.z": 7, "l": 2, "l.element": 3,
    }  # fmt: skip
    assert change.last_column_id == 7


def test_promotion_looks_at_all_partition_specs():
    old = PartitionSpec((PartitionField((18,), 1000, "day_bucket", Bucket(4)),), 0)
    new = PartitionSpec((PartitionField((18,), 1001, "day_day", DAY),), 1)
    with pytest.raises(IncompatibleChange, match=r"partition field with transform bucket\[4\]"):
        update(version=3, partition_specs=[old, new], current_spec=new).promote("day", "timestamp")
    update(version=3, partition_specs=[new], current_spec=new).promote("day", "timestamp").apply()
    ids = PartitionSpec((PartitionField((1,), 1000, "id_bucket", Bucket(4)),))
    update(partition_specs=[ids]).promote("id", "long").apply()


def test_promotion_looks_at_the_sort_order():
    start = Schema((Field(1, "u", t.UNKNOWN),))
    order = SortOrder((SortField((1,), IDENTITY),), 1)
    update(start, version=3, sort_order=order).promote("u", "int").apply()
    with pytest.raises(IncompatibleChange, match="the table's sort order uses identity of it"):
        update(start, version=3, sort_order=order).promote("u", "variant")


# map keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        lambda c: c.add_column("m.key.n", "int"),
        lambda c: c.drop_column("m.key.k"),
        lambda c: c.drop_column("m.key"),
        lambda c: c.rename_column("m.key.k", "n"),
        lambda c: c.rename_column("m.key", "n"),
        lambda c: c.promote("m.key.k", "long"),
        lambda c: c.set_doc("m.key.k", "d"),
        lambda c: c.set_default("m.key.k", 1),
        lambda c: c.require("m.key.k"),
        lambda c: c.make_optional("m.key"),
        lambda c: c.move_column("m.key.k", first=True),
    ],
)
def test_map_keys_are_frozen(step):
    with pytest.raises(IncompatibleChange, match="map keys"):
        step(update(version=3, allow_incompatible=True))


# docs and identifiers ----------------------------------------------------------------------------------------------


def test_set_doc():
    changed = update().set_doc("id", None).set_doc("st.a", "inside").apply()
    assert changed.find(1).doc is None
    assert changed.find(4).doc == "inside"


IDENTIFIED = Schema(
    (
        Field(1, "id", t.INT, required=True),
        Field(2, "st", StructType((Field(3, "x", t.INT, required=True),)), required=True),
        Field(4, "other", t.INT, required=True),
    ),
    identifier_field_ids=(1, 3),
)


def test_set_identifier_fields():
    change = update(allow_incompatible=True).require("st").set_identifier_fields("st.a", "id", "st.a")
    assert change.apply().identifier_field_ids == (4, 1)
    assert update(IDENTIFIED).set_identifier_fields().apply().identifier_field_ids == ()
    assert update(IDENTIFIED).set_identifier_fields(("st", "x")).apply().identifier_field_ids == (3,)


def test_identifiers_may_be_columns_added_before():
    change = update(allow_incompatible=True).add_column("n", "int", required=True).set_identifier_fields("n")
    assert change.apply().identifier_field_ids == (19,)


def test_identifiers_must_keep_the_rules():
    for name in ("data", "st.a", "st.b", "points.x", "st"):
        with pytest.raises(InvalidSchema, match="cannot be an identifier field"):
            update().set_identifier_fields(name).apply()
    with pytest.raises(NoSuchColumn):
        update().set_identifier_fields("nope")


def test_identifiers_follow_renames():
    changed = update(IDENTIFIED).rename_column("id", "key").rename_column("st", "s").apply()
    assert changed.identifier_names == ("key", "s.x")


def test_an_identifier_is_not_dropped():
    for name in ("id", "st.x", "st"):
        with pytest.raises(
            IncompatibleChange, match=r"which is an identifier field or contains one .*set_identifier_fields"
        ):
            update(IDENTIFIED).drop_column(name).apply()


def test_an_identifier_is_dropped_when_it_is_none_any_more():
    for change in (
        update(IDENTIFIED).drop_column("id").set_identifier_fields("st.x"),
        update(IDENTIFIED).set_identifier_fields("st.x").drop_column("id"),
    ):
        assert change.apply().identifier_field_ids == (3,)


def test_an_identifier_stays_required():
    with pytest.raises(InvalidSchema, match="it is optional"):
        update(IDENTIFIED).make_optional("id").apply()
    with pytest.raises(InvalidSchema, match="nested in the optional struct 'st'"):
        update(IDENTIFIED).make_optional("st").apply()


# defaults of lists and maps, when what is inside changes -----------------------------------------------------------

DAYS = Schema((Field(1, "days", ListType(2, t.DATE), initial_default=[1], write_default=[2]),))
ITEMS = StructType((Field(3, "a", t.DATE), Field(4, "b", t.INT)))
ITEMS_DEFAULT = [{"a": 1, "b": 2}]
LIST = Schema((Field(1, "l", ListType(2, ITEMS), initial_default=ITEMS_DEFAULT, write_default=ITEMS_DEFAULT),))


def test_the_default_of_a_list_is_promoted_with_its_element():
    (days,) = update(DAYS, 3).promote("days.element", "timestamp").apply()
    assert (days.initial_default, days.write_default) == ([86_400_000_000], [2 * 86_400_000_000])


def test_the_default_of_a_list_of_structs_follows_the_changes_of_its_fields():
    (column,) = update(LIST, 3).rename_column("l.a", "day").promote("l.day", "timestamp").drop_column("l.b").apply()
    assert column.initial_default == column.write_default == [{"day": 86_400_000_000}]


def test_a_default_set_after_a_change_inside_is_one_of_the_changed_type():
    change = update(LIST, 3).rename_column("l.a", "day").promote("l.day", "timestamp")
    (column,) = change.set_default("l", [{"day": "1970-01-03T00:00:00"}]).rename_column("l.b", "count").apply()
    assert column.initial_default == [{"day": 86_400_000_000, "count": 2}]
    assert column.write_default == [{"day": 2 * 86_400_000_000}]


# large schemas -----------------------------------------------------------------------------------------------------


def test_many_changes_of_a_wide_schema_are_quick():
    wide = simple(*(f"column_{n}" for n in range(5_000)))
    change = update(wide)
    started = time.process_time()
    for n in range(500):
        change.rename_column(f"column_{n}", f"renamed_{n}").set_doc(f"renamed_{n}", "d")
        change.drop_column(f"column_{n + 500}").add_column(f"added_{n}", "int").promote(f"column_{n + 1000}", "long")
    changed = change.apply()
    assert time.process_time() - started < 5  # finding names anew for every step takes minutes
    assert len(changed) == 5_000
    assert names(changed)[:2] == ["renamed_0", "renamed_1"]
    assert names(changed)[-1] == "added_499"


# what no table can hold --------------------------------------------------------------------------------------------


def test_a_name_that_cannot_be_stored_is_refused():
    with pytest.raises(InvalidSchema, match="half of a surrogate pair"):
        update().add_column("\ud800", "int")
    with pytest.raises(InvalidSchema, match="half of a surrogate pair"):
        update().rename_column("id", "a\udfff").apply()


def test_a_type_must_be_a_type_or_its_text():
    with pytest.raises(InvalidType, match="<class 'int'> is not a type"):
        update().add_column("n", int)
    with pytest.raises(InvalidType, match="3 is not a type"):
        update().promote("id", 3)


def test_a_type_that_nests_too_deep_is_refused():
    deep = t.INT
    for _ in range(5_000):
        deep = ListType(0, deep)
    with pytest.raises(InvalidSchema, match="nest deeper than 100 levels"):
        update().add_column("deep", deep)
    with pytest.raises(InvalidSchema, match="nest deeper than 100 levels"):
        update(Schema((Field(1, "u", t.UNKNOWN),)), 3).promote("u", deep)
