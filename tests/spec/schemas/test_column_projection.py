"""Parts of a schema by name and id (spec: Column Projection)."""

import pytest
from hypothesis import given, settings, strategies as st
from pyiceberg.schema import prune_columns

from floe.errors import InvalidSchema, NoSuchColumn
from floe.spec import types as t
from floe.spec.schemas.column_projection import project, select
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import Field, ListType, MapType, StructType
from helpers.corpus import expected, read_metadata, table_names
from helpers.schema_strategies import schemas, to_pyiceberg

INNER = StructType((Field(14, "x", t.DOUBLE), Field(15, "y", t.DOUBLE)))
SCHEMA = Schema(
    (
        Field(1, "id", t.LONG, required=True),
        Field(2, "st", StructType((Field(3, "a", t.INT), Field(4, "b", t.STRING), Field(5, "in", INNER)))),
        Field(6, "l", ListType(7, StructType((Field(8, "p", t.INT), Field(9, "q", t.INT))), element_required=True)),
        Field(
            10,
            "m",
            MapType(
                11,
                StructType((Field(12, "k", t.INT), Field(13, "k2", t.INT))),
                16,
                StructType((Field(17, "v", t.INT), Field(18, "w", t.INT))),
            ),
        ),
        Field(19, "note", t.STRING),
    ),
    schema_id=2,
    identifier_field_ids=(1,),
)


def shape(schema):
    """The names and ids of a schema, nested."""
    return [_shape(field) for field in schema.fields]


def _shape(field):
    return (field.id, field.name, *([[_shape(c) for c in field.type.fields]] if field.type.is_nested else []))


# by name -----------------------------------------------------------------------------------------------------------


def test_columns_stay_in_the_tables_order():
    assert [f.name for f in select(SCHEMA, ["note", "id"])] == ["id", "note"]


def test_a_nested_name_keeps_the_struct_with_that_child_only():
    assert shape(select(SCHEMA, ["st.a"])) == [(2, "st", [(3, "a")])]
    assert shape(select(SCHEMA, ["st.in.y", "st.a"])) == [(2, "st", [(3, "a"), (5, "in", [(15, "y")])])]


def test_a_struct_list_or_map_is_selected_whole():
    for name in ("st", "l", "m"):
        assert select(SCHEMA, [name]).fields == (SCHEMA.field(name),)
    assert select(SCHEMA, ["st.in"]).field("st.in") == SCHEMA.field("st.in")


def test_the_whole_wins_over_a_part():
    assert select(SCHEMA, ["st.a", "st"]).fields == (SCHEMA.field("st"),)


def test_a_field_of_a_lists_elements():
    part = select(SCHEMA, ["l.element.q"])
    assert shape(part) == [(6, "l", [(7, "element", [(9, "q")])])]
    assert part.field("l").type.element_required
    assert select(SCHEMA, ["l.q"]) == part
    assert select(SCHEMA, ["l.element"]).fields == (SCHEMA.field("l"),)


def test_a_field_of_a_maps_values_keeps_the_keys_whole():
    assert shape(select(SCHEMA, ["m.value.w"])) == [
        (10, "m", [(11, "key", [(12, "k"), (13, "k2")]), (16, "value", [(18, "w")])])
    ]


@pytest.mark.parametrize("name", ["m.key", "m.key.k", "m.value"])
def test_keys_are_not_cut_down_and_come_with_their_values(name):
    assert select(SCHEMA, [name]).fields == (SCHEMA.field("m"),)


def test_all_columns():
    assert select(SCHEMA, ["*"]) == SCHEMA
    assert [f.name for f in select(SCHEMA, ["*", "_pos"])][-2:] == ["note", "_pos"]
    star = Schema((Field(1, "*", t.INT), Field(2, "b", t.INT)))
    assert [f.name for f in select(star, ["*"])] == ["*"]


def test_no_columns():
    assert select(SCHEMA, []).fields == ()


def test_case():
    assert select(SCHEMA, ["ST.A"], case_sensitive=False) == select(SCHEMA, ["st.a"])
    with pytest.raises(NoSuchColumn, match=r"no column is named 'ST\.A'"):
        select(SCHEMA, ["ST.A"])


def test_paths():
    schema = Schema((Field(1, "a.b", t.INT), Field(2, "a", StructType((Field(3, "b", t.INT), Field(4, "c", t.INT))))))
    assert shape(select(schema, [("a", "b")])) == [(2, "a", [(3, "b")])]
    assert shape(select(schema, [("a.b",)])) == [(1, "a.b")]
    with pytest.raises(NoSuchColumn, match="may mean"):
        select(schema, ["a.b"])


def test_metadata_columns_come_last_in_the_order_asked_for():
    part = select(SCHEMA, ["_row_id", "note", "_file", "id"])
    assert [f.name for f in part] == ["id", "note", "_row_id", "_file"]
    assert part.field("_file").id == 2147483646


def test_partition_column_needs_the_partition_type():
    partition = StructType((Field(1000, "day", t.DATE),))
    assert select(SCHEMA, ["_partition"], partition_type=partition).fields[0].type == partition
    with pytest.raises(InvalidSchema, match="depends on the table's partition specs"):
        select(SCHEMA, ["_partition"])


def test_a_tables_own_column_goes_before_a_metadata_column():
    schema = Schema((Field(1, "_pos", t.STRING),))
    assert select(schema, ["_pos"]) == schema


def test_a_missing_name_is_an_error():
    with pytest.raises(NoSuchColumn, match="no column is named 'nope'"):
        select(SCHEMA, ["id", "nope"])


def test_everything_about_a_chosen_field_stays():
    child = Field(2, "x", t.INT, True, "doc", 1, 2, {"k": "v"})
    struct = Field(1, "st", StructType((child, Field(3, "y", t.INT)), {"s": 1}), False, "d", {}, {}, {"e": 1})
    (part,) = select(Schema((struct,)), ["st.x"]).fields
    assert part.type.fields == (child,)
    assert (part.doc, part.initial_default, part.write_default, part.extra) == ("d", {}, {}, {"e": 1})
    assert part.type.extra == {"s": 1}


def test_identifier_fields_stay_if_all_of_them_do():
    two = Schema(tuple(Field(n, f"c{n}", t.INT, required=True) for n in (1, 2, 3)), 4, (1, 2))
    assert select(two, ["c1", "c2"]).identifier_field_ids == (1, 2)
    assert select(two, ["c1", "c3"]).identifier_field_ids == ()
    assert select(two, ["c1"]).schema_id == 4


@pytest.mark.parametrize("name", table_names(without=("invalid_", "odd_", "view_")))
def test_selections_of_the_corpus(corpus_dir, name):
    """The columns that Java gave for the columns asked for, in every case on the table's current schema."""
    answers = expected(corpus_dir, name)
    metadata = read_metadata(corpus_dir / name / answers["metadata"])
    schema = next(
        schema_from_json(s)
        for s in metadata.get("schemas") or [metadata["schema"]]
        if s.get("schema-id", 0) == metadata.get("current-schema-id", 0)
    )
    for case in answers["cases"]:
        query = case["query"]
        if (
            "columns" in query
            and "schema" in case
            and not {"snapshot_id", "ref", "timestamp_ms", "metadata_table"} & set(query)
        ):
            part = select(schema, query["columns"])
            assert shape(part) == shape(schema_from_json(answers["schemas"][case["schema"]])), query


# by id -------------------------------------------------------------------------------------------------------------


def test_project_by_ids():
    assert shape(project(SCHEMA, {1, 3, 8})) == [
        (1, "id"),
        (2, "st", [(3, "a")]),
        (6, "l", [(7, "element", [(8, "p")])]),
    ]
    assert project(SCHEMA, {2}).fields == (SCHEMA.field("st"),)
    assert project(SCHEMA, {999}).fields == ()


@settings(max_examples=50)
@given(st.data())
def test_project_keeps_ids_names_types_and_order(data):
    schema = data.draw(schemas())
    ids = data.draw(st.sets(st.sampled_from(sorted(schema.by_id))))
    part = project(schema, ids)
    assert ids <= set(part.by_id)
    assert list(part.by_id) == [i for i in schema.by_id if i in part.by_id]
    for i, entry in part.by_id.items():
        assert entry.path == schema.by_id[i].path
        assert (entry.field.required, entry.field.type.kind) == (
            schema.by_id[i].field.required, schema.by_id[i].field.type.kind,
        )  # fmt: skip
    assert project(part, ids) == part
    assert project(schema, set(schema.by_id)) == schema


@settings(max_examples=50)
@given(st.data())
def test_pyiceberg_projects_alike(data):
    """Where only struct fields are chosen: PyIceberg gives up on a map of which a part of the key alone is chosen."""
    schema = data.draw(schemas())
    candidates = [i for i, e in schema.by_id.items() if all(h.kind != "map" for h in e.ancestor_types)]
    ids = data.draw(st.sets(st.sampled_from(candidates)))
    theirs = prune_columns(to_pyiceberg(schema), ids, select_full_types=True)
    assert shape(schema_from_json(theirs.model_dump(by_alias=True, mode="json"))) == shape(project(schema, ids))


def test_one_name_alone_may_be_given_as_it_is():
    assert shape(select(SCHEMA, "id")) == shape(select(SCHEMA, ["id"]))
    with pytest.raises(NoSuchColumn, match="no column is named 'ab'"):
        select(Schema((Field(1, "a", t.INT), Field(2, "b", t.INT))), "ab")


def test_metadata_columns_without_regard_to_case():
    assert [field.name for field in select(SCHEMA, ["_FILE", "_Pos"], case_sensitive=False)] == ["_file", "_pos"]
    with pytest.raises(NoSuchColumn):
        select(SCHEMA, ["_FILE"])
