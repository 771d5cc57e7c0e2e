"""Schemas: lookup by id and name, identifier fields, what each format version allows, fresh ids."""

import copy
import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from pyiceberg.schema import assign_fresh_schema_ids

from floe.errors import InvalidSchema, NoSuchColumn
from floe.spec import types as t
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID, MAX_TYPE_DEPTH, Schema, assign_fresh_ids, assign_fresh_type_ids
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.types import Field, GeographyType, GeometryType, ListType, MapType, StructType
from helpers.corpus import metadata_files, read_metadata, table_names
from helpers.schema_strategies import LEAVES_V3, schemas, to_pyiceberg

POINT = StructType((Field(11, "x", t.DOUBLE), Field(12, "y", t.DOUBLE)))
SCHEMA = Schema(
    (
        Field(1, "id", t.LONG, required=True),
        Field(2, "who", StructType((Field(3, "Name", t.STRING, required=True), Field(4, "age", t.INT)))),
        Field(5, "tags", ListType(6, t.STRING)),
        Field(7, "places", MapType(8, t.STRING, 9, ListType(10, POINT))),
        Field(13, "spots", ListType(14, StructType((Field(15, "x", t.INT),)), element_required=True)),
        Field(16, "zones", MapType(17, StructType((Field(18, "k", t.INT),)), 19, StructType((Field(20, "v", t.INT),)))),
    ),
    schema_id=3,
)


# lookup by id ------------------------------------------------------------------------------------------------------


def test_lookup_by_id_at_any_depth():
    assert SCHEMA.find(1).name == "id"
    assert SCHEMA.find(12).name == "y"
    assert SCHEMA.find(6) == Field(6, "element", t.STRING)
    assert SCHEMA.find(8) == Field(8, "key", t.STRING, required=True)
    assert SCHEMA.find(99) is None


def test_by_id_has_parents_before_children():
    assert list(SCHEMA.by_id) == list(range(1, 21))
    for entry in SCHEMA.by_id.values():
        assert all(list(SCHEMA.by_id).index(a.id) < list(SCHEMA.by_id).index(entry.field.id) for a in entry.ancestors)


def test_entry_tells_where_a_field_stands():
    entry = SCHEMA.entry(12)
    assert entry.path == ("places", "value", "element", "y")
    assert [a.id for a in entry.ancestors] == [7, 9, 10]
    assert [holder.kind for holder in entry.ancestor_types] == ["struct", "map", "list", "struct"]
    assert entry.in_collection
    assert not SCHEMA.entry(3).in_collection


def test_nullable_looks_at_the_structs_around():
    assert not SCHEMA.entry(1).nullable
    assert SCHEMA.entry(3).field.required
    assert SCHEMA.entry(3).nullable


def test_name_of_and_parent_id():
    assert SCHEMA.name_of(11) == "places.value.element.x"
    assert SCHEMA.parent_id(11) == 10
    assert SCHEMA.parent_id(10) == 9
    assert SCHEMA.parent_id(1) is None


def test_an_id_that_is_not_there():
    with pytest.raises(NoSuchColumn, match="no field with id 99"):
        SCHEMA.entry(99)
    with pytest.raises(NoSuchColumn, match="schema: 3"):
        SCHEMA.name_of(99)


def test_highest_field_id():
    assert SCHEMA.highest_field_id == 20
    assert Schema(()).highest_field_id == 0


# lookup by name ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field_id"),
    [
        ("id", 1), ("who", 2), ("who.Name", 3), ("tags.element", 6), ("places.key", 8), ("places.value", 9),
        ("places.value.element", 10), ("places.value.element.x", 11), ("spots.element.x", 15), ("zones.key.k", 18),
        ("zones.value.v", 20),
    ],
)  # fmt: skip
def test_lookup_by_full_dotted_name(name, field_id):
    assert SCHEMA.field(name).id == field_id
    assert SCHEMA.field(tuple(name.split("."))).id == field_id


@pytest.mark.parametrize(
    ("name", "field_id"),
    [("spots.x", 15), ("zones.v", 20), ("places.value.x", 11)],
)
def test_short_names_skip_element_and_value_before_a_struct(name, field_id):
    assert SCHEMA.field(name).id == field_id


@pytest.mark.parametrize("name", ["zones.k", "places.x", "places.element.x", "tags.elements", "who.name", "", "spots."])
def test_short_names_skip_nothing_else(name):
    """A key is never skipped, nor an element or value that is no struct."""
    assert not SCHEMA.has(name)
    with pytest.raises(NoSuchColumn):
        SCHEMA.field(name)


def test_short_names_are_for_dotted_names_not_for_paths():
    assert not SCHEMA.has(("spots", "x"))
    assert SCHEMA.has(("spots", "element", "x"))


def test_short_names_are_those_of_java():
    """In a list of lists of structs only the inner `element` may be left out: the outer one is no struct."""
    inner = ListType(3, StructType((Field(4, "x", t.INT),)))
    schema = Schema((Field(1, "l", ListType(2, inner)),))
    assert schema.field("l.element.x").id == 4
    assert not schema.has("l.x")


def test_a_full_name_goes_before_a_short_one():
    spots = Field(1, "l", ListType(2, StructType((Field(3, "x", t.INT),))))
    schema = Schema((spots, Field(4, "l.x", t.STRING)))
    assert schema.field("l.x").id == 4
    assert schema.field("l.element.x").id == 3


def test_case_matters_unless_told_otherwise():
    assert SCHEMA.has("who.Name")
    assert not SCHEMA.has("WHO.name")
    assert SCHEMA.field("WHO.name", case_sensitive=False).id == 3
    assert SCHEMA.field(("WHO", "NAME"), case_sensitive=False).id == 3
    assert SCHEMA.field("Spots.X", case_sensitive=False).id == 15


def test_names_that_differ_only_in_case_are_ambiguous_without_case():
    schema = Schema((Field(1, "a", t.INT), Field(2, "A", t.INT)))
    assert schema.field("A").id == 2
    assert not schema.has("A", case_sensitive=False)
    with pytest.raises(NoSuchColumn, match="may mean"):
        schema.field("A", case_sensitive=False)


def test_case_is_ignored_as_spark_and_java_do_by_lower_case():
    """Folding further, ß and ss would be the same name, and a table that Java can read could not be read."""
    schema = Schema((Field(1, "straße", t.INT), Field(2, "strasse", t.INT)))
    assert schema.field("STRASSE", case_sensitive=False).id == 2
    assert schema.field("STRAßE", case_sensitive=False).id == 1


def test_names_containing_dots():
    schema = Schema((Field(1, "a.b", t.INT), Field(2, "c", StructType((Field(3, "d.e", t.INT),)))))
    assert schema.field("a.b").id == 1
    assert schema.field(("a.b",)).id == 1
    assert schema.field("c.d.e").id == 3
    assert schema.field(("c", "d.e")).id == 3
    assert not schema.has(("c", "d", "e"))


def test_a_dotted_name_that_may_mean_two_fields_needs_a_path():
    schema = Schema((Field(1, "a.b", t.INT), Field(2, "a", StructType((Field(3, "b", t.INT),)))))
    with pytest.raises(NoSuchColumn, match="give the path as a tuple") as caught:
        schema.field("a.b")
    assert "('a.b',) and ('a', 'b')" in str(caught.value)
    assert schema.field(("a", "b")).id == 3
    assert schema.field(("a.b",)).id == 1


def test_a_missing_name_tells_which_there_are():
    with pytest.raises(NoSuchColumn) as caught:
        SCHEMA.field("nope")
    assert str(caught.value) == (
        "no column is named 'nope' (column: nope); columns are id, who, tags, places, spots, zones"
    )
    wide = Schema(tuple(Field(n, f"c{n}", t.INT) for n in range(1, 30)))
    with pytest.raises(NoSuchColumn, match=r"c12, …$"):
        wide.field("nope")
    with pytest.raises(NoSuchColumn, match=r"\(none\)"):
        Schema(()).field("nope")


@settings(max_examples=50)
@given(schemas())
def test_every_field_is_found_by_its_path_and_full_name(schema):
    for field_id, entry in schema.by_id.items():
        assert schema.resolve(entry.path).field.id == field_id
        assert schema.resolve(entry.name).field.id == field_id
        assert schema.resolve(entry.path, case_sensitive=False).field.id == field_id


@settings(max_examples=50)
@given(schemas(LEAVES_V3))
def test_pyiceberg_finds_the_same_fields(schema):
    theirs = to_pyiceberg(schema)
    for field_id, entry in schema.by_id.items():
        assert theirs.find_column_name(field_id) == entry.name
        assert theirs.find_field(entry.name).field_id == field_id
    for name, field_id in theirs._name_to_id.items():
        assert schema.field(name).id == field_id


# names and ids are unique ------------------------------------------------------------------------------------------


def test_two_columns_of_one_name():
    with pytest.raises(InvalidSchema, match="two fields of one struct are named 'a'"):
        Schema((Field(1, "a", t.INT), Field(2, "a", t.LONG)))


def test_two_fields_of_one_id():
    nested = Field(2, "st", StructType((Field(1, "x", t.INT),)))
    with pytest.raises(InvalidSchema, match=r"field id 1 is used by both 'a' and 'st\.x'"):
        Schema((Field(1, "a", t.INT), nested))


@pytest.mark.parametrize("type_", [ListType(1, t.INT), MapType(1, t.INT, 3, t.INT), MapType(3, t.INT, 1, t.INT)])
def test_elements_keys_and_values_need_ids_of_their_own(type_):
    with pytest.raises(InvalidSchema, match="field id 1 is used by both"):
        Schema((Field(1, "a", type_),))


# identifier fields (spec: Identifier Field IDs) --------------------------------------------------------------------


def identified(field, *, nested_in=None, field_id=1):
    column = field if nested_in is None else nested_in(field)
    return Schema((column,), identifier_field_ids=(field_id,))


def test_identifier_fields_are_primitives():
    assert identified(Field(1, "a", t.LONG, required=True)).identifier_names == ("a",)
    for type_ in (StructType(), ListType(2, t.INT), MapType(2, t.INT, 3, t.INT), t.VARIANT):
        with pytest.raises(InvalidSchema, match=r"'a' cannot be an identifier field: .* not a primitive"):
            identified(Field(1, "a", type_, required=True))


def test_identifier_fields_may_be_nested_in_required_structs():
    inner = Field(1, "a", t.LONG, required=True)
    schema = identified(inner, nested_in=lambda f: Field(2, "st", StructType((f,)), required=True))
    assert schema.identifier_names == ("st.a",)


def test_identifier_fields_are_not_nested_in_maps():
    inner = Field(1, "a", t.LONG, required=True)
    for make in (
        lambda f: Field(2, "m", MapType(3, StructType((f,)), 4, t.INT), required=True),
        lambda f: Field(2, "m", MapType(3, t.INT, 4, StructType((f,)), value_required=True), required=True),
    ):
        with pytest.raises(InvalidSchema, match="nested in a list or map"):
            identified(inner, nested_in=make)
    with pytest.raises(InvalidSchema, match="nested in a list or map"):
        identified(Field(2, "m", MapType(1, t.INT, 4, t.INT), required=True))


def test_identifier_fields_are_not_nested_in_lists():
    inner = Field(1, "a", t.LONG, required=True)
    with pytest.raises(InvalidSchema, match="nested in a list or map"):
        identified(inner, nested_in=lambda f: Field(2, "l", ListType(3, StructType((f,)), True), required=True))


def test_float_cannot_identify():
    with pytest.raises(InvalidSchema, match="float values do not compare reliably"):
        identified(Field(1, "a", t.FLOAT, required=True))


def test_double_cannot_identify():
    with pytest.raises(InvalidSchema, match="double values do not compare reliably"):
        identified(Field(1, "a", t.DOUBLE, required=True))


def test_optional_fields_cannot_identify():
    with pytest.raises(InvalidSchema, match="it is optional"):
        identified(Field(1, "a", t.LONG))


def test_fields_nested_in_an_optional_struct_cannot_identify():
    inner = Field(1, "a", t.LONG, required=True)

    def outer(field):
        return Field(2, "o", StructType((Field(3, "i", StructType((field,)), required=True),)))

    with pytest.raises(InvalidSchema, match=r"'o\.i\.a' cannot be .* nested in the optional struct 'o'"):
        identified(inner, nested_in=outer)


def test_an_identifier_must_be_a_field():
    with pytest.raises(InvalidSchema, match="identifier field id 7 is not a field"):
        Schema((Field(1, "a", t.LONG, required=True),), identifier_field_ids=(7,))


def test_identifier_names_are_in_schema_order():
    fields = tuple(Field(n, name, t.LONG, required=True) for n, name in enumerate("abc", 1))
    assert Schema(fields, identifier_field_ids=(3, 1)).identifier_names == ("a", "c")


# what a table may have ---------------------------------------------------------------------------------------------


def test_ids_above_2147483447_are_reserved():
    Schema((Field(MAX_TABLE_FIELD_ID, "a", t.INT),)).check_for_table(1)
    assert MAX_TABLE_FIELD_ID == 2147483447
    with pytest.raises(InvalidSchema, match="2147483448 of 'a' is above 2147483447: reserved"):
        Schema((Field(2147483448, "a", t.INT),)).check_for_table(3)
    with pytest.raises(InvalidSchema, match=r"'a\.element'"):
        Schema((Field(1, "a", ListType(2147483646, t.INT)),)).check_for_table(3)


V3_TYPES = [t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS, t.UNKNOWN, t.VARIANT, GeometryType(), GeographyType()]


@pytest.mark.parametrize("type_", V3_TYPES, ids=str)
def test_types_of_v3_are_not_for_older_tables(type_):
    schema = Schema((Field(1, "a", ListType(2, type_)),))
    schema.check_for_table(3)
    for version in (1, 2):
        with pytest.raises(InvalidSchema, match=rf"'a\.element' needs format version 3; the table has {version}"):
            schema.check_for_table(version)


def test_unknown_type_must_be_optional():
    Schema((Field(1, "a", t.UNKNOWN),)).check_for_table(3)
    for field in (
        Field(1, "a", t.UNKNOWN, required=True),
        Field(1, "a", ListType(2, t.UNKNOWN, element_required=True)),
        Field(1, "a", MapType(2, t.UNKNOWN, 3, t.INT)),
    ):
        with pytest.raises(InvalidSchema, match="has type unknown and so must be optional"):
            Schema((field,)).check_for_table(3)


# values ------------------------------------------------------------------------------------------------------------


def test_schemas_are_values():
    again = Schema(SCHEMA.fields, 3)
    assert again == SCHEMA
    assert hash(again) == hash(SCHEMA)
    assert replace(SCHEMA, schema_id=4) != SCHEMA
    assert replace(SCHEMA, extra={"k": 1}) == SCHEMA
    assert list(SCHEMA) == list(SCHEMA.fields)
    assert len(SCHEMA) == 6
    assert SCHEMA.as_struct() == StructType(SCHEMA.fields)


def test_schemas_are_pickled_and_copied_with_their_indexes_made_anew():
    assert SCHEMA.field("who.Name").id == 3  # the indexes are there
    for again in (pickle.loads(pickle.dumps(SCHEMA)), copy.deepcopy(SCHEMA), copy.copy(SCHEMA)):
        assert again == SCHEMA
        assert again.field("who.Name").id == 3


def test_with_id():
    assert SCHEMA.with_id(3) is SCHEMA
    assert SCHEMA.with_id(4).schema_id == 4
    assert SCHEMA.with_id(4).fields == SCHEMA.fields


def test_same_columns_ignores_the_schema_id_but_no_doc_default_or_identifier():
    a = Field(1, "a", t.INT, required=True)
    schema = Schema((a,), 1, (1,))
    assert schema.same_columns(Schema((a,), 2, (1,)))
    assert not schema.same_columns(Schema((a,), 1))
    assert not schema.same_columns(Schema((replace(a, doc="d"),), 1, (1,)))
    assert not schema.same_columns(Schema((replace(a, write_default=3),), 1, (1,)))


def test_printing():
    schema = Schema((Field(1, "a", t.INT, required=True, doc="key"), Field(2, "b", ListType(3, t.INT))), 0, (1,))
    assert str(schema) == "table {\n  1: a: required int (key) (id)\n  2: b: optional list<int>\n}"


# fresh ids ---------------------------------------------------------------------------------------------------------


def test_fresh_ids_are_given_level_by_level_as_java_does():
    """Java's order: a struct's fields first, then what each of them holds; a map's key and value before their parts."""
    struct = StructType((Field(0, "x", t.INT), Field(1, "y", ListType(2, t.INT))))
    fields = (
        Field(50, "st", struct),
        Field(51, "m", MapType(52, StructType((Field(53, "k", t.INT),)), 54, StructType((Field(55, "v", t.INT),)))),
        Field(56, "z", t.INT),
    )
    fresh, following = assign_fresh_ids(Schema(fields))
    assert {entry.name: i for i, entry in fresh.by_id.items()} == {
        "st": 1, "m": 2, "z": 3, "st.x": 4, "st.y": 5, "st.y.element": 6,
        "m.key": 7, "m.value": 8, "m.key.k": 9, "m.value.v": 10,
    }  # fmt: skip
    assert following == 11


def test_fresh_ids_keep_everything_else():
    a = Field(7, "a", t.INT, required=True, doc="d", initial_default=1, write_default=2, extra={"k": 1})
    schema = Schema((a, Field(9, "l", ListType(10, t.INT, True, {"e": 1}))), 5, (7,), {"x": 1})
    fresh, _ = assign_fresh_ids(schema, next_id=20)
    assert fresh.fields == (replace(a, id=20), Field(21, "l", ListType(22, t.INT, True)))
    assert fresh.fields[1].type.extra == {"e": 1}
    assert (fresh.schema_id, fresh.identifier_field_ids, fresh.extra) == (5, (20,), {"x": 1})


def test_fresh_ids_of_a_replaced_table_keep_those_of_equal_names():
    base = Schema((Field(1, "a", t.INT), Field(2, "st", StructType((Field(3, "x", t.INT), Field(4, "y", t.INT))))))
    new = Schema(
        (
            Field(1, "b", t.INT),
            Field(2, "st", StructType((Field(3, "z", t.INT), Field(4, "x", t.STRING)))),
            Field(5, "a", t.LONG, required=True),
        ),
        identifier_field_ids=(5,),
    )
    fresh, following = assign_fresh_ids(new, next_id=5, base=base)
    assert {entry.name: i for i, entry in fresh.by_id.items()} == {"b": 5, "st": 2, "st.z": 6, "st.x": 3, "a": 1}
    assert fresh.identifier_field_ids == (1,)
    assert following == 7


def test_fresh_ids_of_a_replaced_table_go_by_path_not_by_dotted_name():
    base = Schema((Field(1, "st", StructType((Field(2, "x", t.INT),))),))
    fresh, _ = assign_fresh_ids(Schema((Field(1, "st.x", t.INT),)), next_id=3, base=base)
    assert fresh.fields[0].id == 3


def test_fresh_type_ids():
    type_, following = assign_fresh_type_ids(
        StructType((Field(0, "a", t.INT), Field(1, "b", ListType(0, t.INT)))), next_id=5
    )
    assert type_ == StructType((Field(5, "a", t.INT), Field(6, "b", ListType(7, t.INT))))
    assert following == 8
    assert assign_fresh_type_ids(t.INT, next_id=5) == (t.INT, 5)


@pytest.mark.parametrize("name", table_names(without=("invalid_", "odd_", "view_")))
def test_java_gave_the_same_ids_when_it_made_the_corpus(corpus_dir, name):
    """The first schema of a table has its ids from Java's assignment, so assigning again must change nothing."""
    text = read_metadata(metadata_files(corpus_dir, name)[0])
    schema = schema_from_json((text.get("schemas") or [text["schema"]])[0])
    fresh, following = assign_fresh_ids(schema)
    assert fresh == schema
    assert following == schema.highest_field_id + 1


@settings(max_examples=50)
@given(schemas(LEAVES_V3))
def test_pyiceberg_gives_the_same_fresh_ids(schema):
    theirs = assign_fresh_schema_ids(to_pyiceberg(schema))
    ours, following = assign_fresh_ids(schema)
    assert to_pyiceberg(ours) == theirs
    assert following == theirs.highest_field_id + 1
    assert schema_from_json(theirs.model_dump(by_alias=True, mode="json")) == ours


# as people write them ----------------------------------------------------------------------------------------------


def test_fields_may_be_given_as_any_sequence():
    a, b = Field(1, "a", t.INT, required=True), Field(2, "b", t.INT)
    assert Schema([a, b], identifier_field_ids=[1]) == Schema((a, b), identifier_field_ids=(1,))
    assert hash(Schema([a, b], identifier_field_ids=[1])) == hash(Schema((a, b), identifier_field_ids=(1,)))
    assert Schema(field for field in (a, b)).field("b") is b


def test_a_schema_too_deep_to_be_read_again_is_refused():
    def nested(levels):
        type_ = t.INT
        for n in range(levels):
            type_ = ListType(n + 2, type_)
        return Schema((Field(1, "a", type_),))

    assert schema_from_json(schema_to_json(nested(MAX_TYPE_DEPTH))) == nested(MAX_TYPE_DEPTH)
    for levels in (MAX_TYPE_DEPTH + 1, 20_000):
        with pytest.raises(InvalidSchema, match=f"types nest deeper than {MAX_TYPE_DEPTH} levels"):
            nested(levels)


@pytest.mark.parametrize("column", [Field(1, "a\ud800", t.INT), Field(1, "a", t.INT, doc="\udfff")])
def test_names_and_docs_must_be_text_that_can_be_stored(column):
    with pytest.raises(InvalidSchema, match="half of a surrogate pair"):
        Schema((column,)).check_for_table(2)


def test_a_name_not_found_is_answered_with_those_like_it():
    schema = Schema(tuple(Field(n, f"column_{n}", t.INT) for n in range(1, 300)))
    with pytest.raises(NoSuchColumn, match="did you mean 'column_250'"):
        schema.field("colum_250")
    with pytest.raises(NoSuchColumn, match=r"did you mean 'who\.Name'"):
        SCHEMA.field("who.name")
    with pytest.raises(NoSuchColumn, match="columns are id, who, tags"):
        SCHEMA.field("qqqqqqqq")
