"""Name mappings (spec: Column Projection; Appendix C, Name Mapping Serialization)."""

import contextlib
import json

import pytest
from hypothesis import given, settings, strategies as st
from pyiceberg.table.name_mapping import create_mapping_from_schema

from floe.errors import CorruptFile, InvalidMetadata, InvalidSchema
from floe.spec import types as t
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.name_mapping import (
    FileField,
    MappedField,
    NameMapping,
    apply_mapping,
    format_name_mapping,
    has_ids,
    mapping_from_json,
    mapping_from_schema,
    mapping_to_json,
    parse_name_mapping,
    update_mapping,
    without_ids,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType
from helpers.corpus import expected, read_metadata, table_names
from helpers.schema_strategies import schemas, to_pyiceberg

EXAMPLE = """[ { "field-id": 1, "names": ["id", "record_id"] },
   { "field-id": 2, "names": ["data"] },
   { "field-id": 3, "names": ["location"], "fields": [
       { "field-id": 4, "names": ["latitude", "lat"] },
       { "field-id": 5, "names": ["longitude", "long"] }
     ] } ]"""


def leaf(name, field_id=None):
    return FileField(name, "int", t.INT, field_id)


def struct(name, *children, field_id=None):
    return FileField(name, "struct", id=field_id, children=children)


def refused(value):
    with pytest.raises(InvalidMetadata) as caught:
        mapping_from_json(value)
    return caught.value


# JSON --------------------------------------------------------------------------------------------------------------


def test_the_example_of_the_spec():
    mapping = parse_name_mapping(EXAMPLE)
    assert mapping == NameMapping(
        (
            MappedField(("id", "record_id"), 1),
            MappedField(("data",), 2),
            MappedField(("location",), 3, (MappedField(("latitude", "lat"), 4), MappedField(("longitude", "long"), 5))),
        )
    )
    assert mapping_to_json(mapping) == json.loads(EXAMPLE)
    assert parse_name_mapping(format_name_mapping(mapping)) == mapping


def test_names_is_a_list_of_zero_or_more_strings():
    """Fields which exist only in the Iceberg schema may have no names; Java also takes a missing list for that."""
    assert mapping_from_json([{"field-id": 1, "names": []}]).fields[0].names == ()
    assert mapping_from_json([{"field-id": 1}]).fields[0].names == ()
    assert mapping_from_json([{"names": ["a", "b", "a"]}]).fields[0].names == ("a", "b")


def test_field_id_may_be_missing():
    """Fields that exist in imported files but not in the schema."""
    mapping = mapping_from_json([{"names": ["a"]}, {"names": ["b"], "field-id": None}])
    assert [m.field_id for m in mapping.fields] == [None, None]
    assert mapping_to_json(mapping) == [{"names": ["a"]}, {"names": ["b"]}]


def test_fields_are_mappings_of_children():
    mapping = mapping_from_json([{"field-id": 1, "names": ["a"], "fields": [{"field-id": 2, "names": ["b"]}]}])
    assert mapping.fields[0].fields == (MappedField(("b",), 2),)


def test_unknown_keys_are_kept():
    value = [{"field-id": 1, "names": ["a"], "fields": [{"names": ["b"], "x": [1]}], "y": None}]
    assert mapping_to_json(mapping_from_json(value)) == value


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        (None, "$", "must be a list of field mappings"),
        ({}, "$", "must be a list of field mappings"),
        ([3], "$[0]", "must be an object"),
        ([{"names": "a"}], "$[0].names", "must be a list of strings"),
        ([{"names": None}], "$[0].names", "must be a list of strings"),
        ([{"names": ["a", 3]}], "$[0].names", "must be a list of strings"),
        ([{"names": []}, {"names": [], "field-id": "1"}], "$[1].field-id", "must be a 32-bit integer"),
        ([{"names": [], "field-id": True}], "$[0].field-id", "must be a 32-bit integer"),
        ([{"names": [], "field-id": 2**31}], "$[0].field-id", "must be a 32-bit integer"),
        ([{"names": [], "fields": 3}], "$[0].fields", "must be a list"),
        ([{"names": [], "fields": [{"names": 1}]}], "$[0].fields[0].names", "must be a list of strings"),
    ],
)
def test_wrong_kinds_are_named_with_their_place(value, path, words):
    error = refused(value)
    assert error.path == path
    assert words in error.message


def test_a_name_is_used_once_in_each_level():
    error = refused([{"field-id": 1, "names": ["a", "b"]}, {"field-id": 2, "names": ["c", "b"]}])
    assert error.path == "$[1].names"
    assert "the name 'b' is used twice" in error.message
    mapping_from_json([{"names": ["a"], "fields": [{"names": ["a"]}]}])
    with pytest.raises(InvalidSchema, match=r"uses the name 'st\.a' twice"):
        NameMapping((MappedField(("st",), 1, (MappedField(("a",), 2), MappedField(("a",), 3))),))


def test_an_id_is_used_once_in_all():
    error = refused([{"field-id": 1, "names": ["a"]}, {"names": ["b"], "fields": [{"field-id": 1, "names": ["c"]}]}])
    assert error.path == "$[1].fields[0].field-id"
    with pytest.raises(InvalidSchema, match="uses the field id 1 twice"):
        NameMapping((MappedField(("a",), 1), MappedField(("b",), 1)))


def test_hostile_texts():
    for text in ("", "{", "[" * 200_000, '[{"names":' * 100_000, "nul", "\x00", '{"a": 1e999}'):
        with pytest.raises(InvalidMetadata):
            parse_name_mapping(text)
    with pytest.raises(InvalidMetadata, match="more than 16777216 characters"):
        parse_name_mapping(" " * (16 * 2**20 + 1))


def test_mappings_that_nest_too_deep():
    value = []
    for _ in range(50_000):
        value = [{"names": ["a"], "fields": value}]
    assert "nest deeper than 100 levels" in refused(value).message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["names", "field-id", "fields"]), inner)
        ),
    )
)
def test_any_json_is_a_mapping_or_refused(value):
    with contextlib.suppress(InvalidMetadata):
        mapping_from_json(value)


IMPORTED = table_names("imp_")


@pytest.mark.parametrize("name", IMPORTED)
def test_mappings_of_the_corpus_round_trip(corpus_dir, name):
    metadata = read_metadata(corpus_dir / name / expected(corpus_dir, name)["metadata"])
    text = metadata["properties"][NAME_MAPPING.name]
    mapping = parse_name_mapping(text)
    assert mapping_to_json(mapping) == json.loads(text)


# made from a schema ------------------------------------------------------------------------------------------------

NESTED = Schema(
    (
        Field(1, "id", t.INT),
        Field(2, "st", StructType((Field(3, "x", t.INT), Field(4, "a.b", t.INT)))),
        Field(5, "l", ListType(6, StructType((Field(7, "y", t.INT),)))),
        Field(8, "m", MapType(9, t.STRING, 10, t.INT)),
        Field(11, "v", t.VARIANT),
    )
)


def test_mapping_of_a_schema_has_element_key_and_value():
    assert mapping_to_json(mapping_from_schema(NESTED)) == [
        {"field-id": 1, "names": ["id"]},
        {
            "field-id": 2,
            "names": ["st"],
            "fields": [{"field-id": 3, "names": ["x"]}, {"field-id": 4, "names": ["a.b"]}],
        },
        {
            "field-id": 5,
            "names": ["l"],
            "fields": [{"field-id": 6, "names": ["element"], "fields": [{"field-id": 7, "names": ["y"]}]}],
        },
        {
            "field-id": 8,
            "names": ["m"],
            "fields": [{"field-id": 9, "names": ["key"]}, {"field-id": 10, "names": ["value"]}],
        },
        {"field-id": 11, "names": ["v"]},
    ]


@settings(max_examples=40)
@given(schemas())
def test_pyiceberg_makes_the_same_mapping_of_a_schema(schema):
    theirs = json.loads(create_mapping_from_schema(to_pyiceberg(schema)).model_dump_json())
    assert mapping_from_json(theirs) == mapping_from_schema(schema)


def test_find_by_path_and_id():
    mapping = mapping_from_schema(NESTED)
    assert mapping.find("l", "element", "y").field_id == 7
    assert mapping.find("st", "a.b").field_id == 4
    assert mapping.find("st", "a", "b") is None
    assert mapping.find("nope") is None
    assert mapping.by_id[9].names == ("key",)


# applied to the columns of a file ----------------------------------------------------------------------------------


def test_a_dot_in_a_name_is_literal():
    """`a.b` refers to a field named so, not to child b of a."""
    mapping = NameMapping((MappedField(("a.b",), 1),))
    found = apply_mapping([leaf("a.b"), struct("a", leaf("b"))], mapping)
    assert [f.id for f in found] == [1, None]
    assert found[1].children[0].id is None


def test_each_child_field_has_a_mapping_of_its_own():
    mapping = NameMapping((MappedField(("st",), 1, (MappedField(("x",), 2),)), MappedField(("y",), 3)))
    (found,) = apply_mapping([struct("st", leaf("x"), leaf("y"))], mapping)
    assert (found.id, [c.id for c in found.children]) == (1, [2, None])


def test_several_names_lead_to_one_id():
    mapping = parse_name_mapping(EXAMPLE)
    for name in ("id", "record_id"):
        assert apply_mapping([leaf(name)], mapping)[0].id == 1


def test_a_field_without_id_stays_without_and_its_children_may_have_one():
    mapping = NameMapping((MappedField(("st",), None, (MappedField(("x",), 2),)),))
    (found,) = apply_mapping([struct("st", leaf("x"))], mapping)
    assert (found.id, found.children[0].id) == (None, 2)


def test_list_element_is_mapped_whatever_the_file_calls_it():
    mapping = mapping_from_schema(NESTED)
    for name in ("element", "item", "array"):
        file = FileField("l", "list", children=(struct(name, leaf("y")),))
        (found,) = apply_mapping([file], mapping)
        assert (found.id, found.children[0].id, found.children[0].children[0].id) == (5, 6, 7)


def test_map_key_and_value_are_mapped_whatever_the_file_calls_them():
    mapping = mapping_from_schema(NESTED)
    for names in (("key", "value"), ("k", "v"), ("value", "key")):
        file = FileField("m", "map", children=tuple(map(leaf, names)))
        (found,) = apply_mapping([file], mapping)
        assert [c.id for c in found.children] == [9, 10]


def test_columns_without_a_mapping_have_no_id_at_any_depth():
    file = struct("other", FileField("l", "list", children=(leaf("element"),)))
    assert not has_ids(apply_mapping([file], mapping_from_schema(NESTED)))


@settings(max_examples=40)
@given(schemas())
def test_the_mapping_of_a_schema_restores_the_ids_of_its_files(schema):
    with_ids = tuple(map(FileField.of, schema.fields))
    bare = without_ids(with_ids)
    assert not has_ids(bare)
    assert apply_mapping(bare, mapping_from_schema(schema)) == with_ids


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileField("l", "list"),
        lambda: FileField("l", "list", children=(leaf("a"), leaf("b"))),
        lambda: FileField("m", "map", children=(leaf("a"),)),
        lambda: FileField("i", "int", t.INT, children=(leaf("a"),)),
        lambda: FileField("i", "int"),
        lambda: FileField("s", "struct", t.INT),
    ],
)
def test_columns_of_impossible_shape(make):
    with pytest.raises(CorruptFile):
        make()


# kept up to date ---------------------------------------------------------------------------------------------------


def updated(before, after, mapping=None):
    return update_mapping(mapping or mapping_from_schema(before), before, after)


def schema(*fields):
    return Schema(tuple(Field(i, name, type_) for i, name, type_ in fields))


def test_a_renamed_field_keeps_its_old_name_too():
    mapping = updated(schema((1, "a", t.INT)), schema((1, "b", t.INT)))
    assert mapping == NameMapping((MappedField(("a", "b"), 1),))


def test_an_added_field_is_mapped_with_all_that_it_holds():
    before = schema((1, "a", t.INT))
    after = schema((1, "a", t.INT), (2, "l", ListType(3, StructType((Field(4, "x", t.INT),)))))
    assert updated(before, after) == mapping_from_schema(after)


def test_a_name_given_to_a_new_field_is_taken_from_the_old_one():
    """Dropped and added again: files imported later mean the new column."""
    mapping = updated(schema((1, "a", t.INT)), schema((2, "a", t.INT)))
    assert mapping == NameMapping((MappedField((), 1), MappedField(("a",), 2)))


def test_names_that_are_swapped():
    mapping = updated(schema((1, "a", t.INT), (2, "b", t.INT)), schema((1, "b", t.INT), (2, "a", t.INT)))
    assert mapping == NameMapping((MappedField(("b",), 1), MappedField(("a",), 2)))


def test_all_of_several_names_can_be_taken():
    """Java forgets all but the last of them."""
    start = NameMapping((MappedField(("a", "b"), 1),))
    mapping = updated(schema((1, "a", t.INT)), schema((2, "a", t.INT), (3, "b", t.INT)), start)
    assert mapping == NameMapping((MappedField((), 1), MappedField(("a",), 2), MappedField(("b",), 3)))


def test_changes_inside_structs_lists_and_maps():
    def of(first, second, third):
        return Schema(
            (
                Field(1, "st", StructType(first)),
                Field(2, "l", ListType(3, StructType(second))),
                Field(4, "m", MapType(5, t.STRING, 6, StructType(third))),
            )
        )

    before = of((Field(7, "x", t.INT),), (Field(8, "y", t.INT),), (Field(9, "z", t.INT),))
    after = of((Field(7, "x2", t.INT),), (Field(8, "y", t.INT), Field(10, "n", t.INT)), (Field(11, "z", t.INT),))
    mapping = updated(before, after)
    assert mapping.find("st", "x").field_id == 7
    assert mapping.find("st", "x2").field_id == 7
    assert mapping.find("l", "element", "n").field_id == 10
    assert mapping.find("m", "value", "z").field_id == 11
    assert mapping.by_id[9].names == ()


def test_fields_that_the_mapping_leaves_out_stay_out():
    before = schema((1, "a", t.INT), (2, "st", StructType((Field(3, "x", t.INT),))))
    after = schema((1, "b", t.INT), (2, "st", StructType((Field(3, "x", t.INT), Field(4, "y", t.INT)))))
    assert updated(before, after, NameMapping()) == NameMapping()


def test_other_changes_leave_the_mapping_alone():
    before = schema((1, "a", t.INT), (2, "b", t.INT))
    after = Schema((Field(2, "b", t.LONG, doc="d"), Field(1, "a", t.INT, required=True)))
    start = NameMapping((MappedField(("x", "y"), 1), MappedField((), 2), MappedField(("junk",))))
    assert updated(before, after, start) == start


def test_text_that_utf8_cannot_encode_is_no_mapping():
    with pytest.raises(InvalidMetadata, match="the name mapping is not JSON"):
        parse_name_mapping('[{"names": ["\ud800"]}]')


@pytest.mark.parametrize(
    ("json", "message"),
    [
        ({}, r"\$: must be a list of field mappings, found \{\}"),
        ([3], r"\$\[0\]: must be an object with `names`, `field-id` and `fields`, found 3"),
        ([{"names": "a"}], r"\$\[0\].names: must be a list of strings, found 'a'"),
        ([{"names": [], "field-id": "1"}], r"\$\[0\].field-id: must be a 32-bit integer, found '1'"),
    ],
)
def test_errors_tell_what_was_found(json, message):
    with pytest.raises(InvalidMetadata, match=message):
        mapping_from_json(json)
