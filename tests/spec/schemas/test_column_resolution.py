"""Where the values of a file's columns come from (spec: Column Projection; Default values)."""

from urllib.parse import unquote

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import CorruptFile
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import PartitionField
from floe.spec.partitioning.transforms import DAY, IDENTITY, VOID, Bucket
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas import metadata_columns as mc
from floe.spec.schemas.column_projection import (
    ConstantColumn,
    FromFile,
    FromReader,
    identity_values,
    project,
    resolve_columns,
    select,
)
from floe.spec.schemas.name_mapping import (
    FileField,
    MappedField,
    NameMapping,
    mapping_from_schema,
    parse_name_mapping,
    without_ids,
)
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import DecimalType, Field, FixedType, GeometryType, ListType, MapType, StructType
from helpers.arrow_rows import canonical, read_rows
from helpers.corpus import expected, read_metadata
from helpers.schema_strategies import schemas


def leaf(name, type_, field_id=None):
    return FileField(name, type_.kind, type_, field_id)


def struct(name, *children, field_id=None):
    return FileField(name, "struct", None, field_id, children)


def resolve(*fields, file=(), **options):
    return resolve_columns(Schema(fields), file, **options)


def resolve_one(field, *file, **options):
    (source,) = resolve(field, file=file, **options)
    return source


# by id -------------------------------------------------------------------------------------------------------------


def test_columns_are_selected_by_id_whatever_their_name_and_order():
    """The spec's example: written as 1: a int, 2: b string, 3: c double; read as 3: measurement, 2: name, 4: a."""
    file = [leaf("a", t.INT, 1), leaf("b", t.STRING, 2), leaf("c", t.DOUBLE, 3)]
    measurement, name, a = (Field(3, "measurement", t.DOUBLE), Field(2, "name", t.STRING), Field(4, "a", t.INT))
    assert resolve(measurement, name, a, file=file) == (
        FromFile(measurement, file[2], 2),
        FromFile(name, file[1], 1),
        ConstantColumn(a, None, "null"),
    )


def test_two_columns_of_one_id():
    with pytest.raises(CorruptFile, match="two columns of the file have the field id 1"):
        resolve(Field(1, "a", t.INT), file=[leaf("a", t.INT, 1), leaf("b", t.INT, 1)])


def test_columns_without_id_in_a_file_with_ids_are_not_read():
    file = [leaf("a", t.INT), leaf("b", t.INT, 2)]
    mapping = NameMapping((MappedField(("a",), 1),))
    assert resolve_one(Field(1, "a", t.INT), *file, name_mapping=mapping).reason == "null"


# the order of resolution for missing ids ---------------------------------------------------------------------------

A = Field(1, "a", t.STRING, initial_default="default")
MAPPING = NameMapping((MappedField(("old_a",), 1),))
OLD_A = leaf("old_a", t.STRING)


def test_missing_id_1_the_identity_partition_value_comes_first():
    source = resolve_one(A, OLD_A, name_mapping=MAPPING, partition_values={1: "partition"})
    assert source == ConstantColumn(A, "partition", "partition value")


def test_missing_id_2_the_name_mapping_comes_second():
    source = resolve_one(A, OLD_A, name_mapping=MAPPING)
    assert isinstance(source, FromFile)
    assert source.column.name == "old_a"


def test_missing_id_3_the_initial_default_comes_third():
    assert resolve_one(A, leaf("other", t.STRING), name_mapping=MAPPING) == ConstantColumn(
        A, "default", "initial default"
    )
    assert resolve_one(A, OLD_A) == ConstantColumn(A, "default", "initial default")


def test_missing_id_4_null_comes_last():
    plain = Field(1, "a", t.STRING)
    assert resolve_one(plain) == ConstantColumn(plain, None, "null")


def test_a_required_field_with_none_of_these_is_an_error():
    with pytest.raises(CorruptFile, match=r"no column for the required field 'a': .*no initial-default"):
        resolve_one(Field(1, "a", t.STRING, required=True))
    nested = Field(2, "st", StructType((Field(1, "a", t.STRING, required=True),)))
    with pytest.raises(CorruptFile, match=r"required field 'st\.a'"):
        resolve_one(nested, struct("st", leaf("x", t.INT, 9), field_id=2))


def test_a_required_field_may_come_from_each_of_these():
    required = Field(1, "a", t.STRING, required=True)
    assert resolve_one(required, partition_values={1: "p"}).value == "p"
    assert isinstance(resolve_one(required, OLD_A, name_mapping=MAPPING), FromFile)
    assert resolve_one(Field(1, "a", t.STRING, required=True, initial_default="d")).value == "d"


def test_partition_values_count_only_when_the_id_is_missing_in_the_file():
    """What the file stores is the truth: all columns are written, those partitioned by identity too."""
    stored = leaf("a", t.STRING, 1)
    assert resolve_one(A, stored, partition_values={1: "partition"}) == FromFile(A, stored, 0)


def test_a_null_partition_value_is_a_value():
    assert resolve_one(A, partition_values={1: None}) == ConstantColumn(A, None, "partition value")
    with pytest.raises(CorruptFile, match="only null for the required field 'a'"):
        resolve_one(Field(1, "a", t.STRING, required=True), partition_values={1: None})


def test_partition_values_reach_into_structs():
    field = Field(2, "st", StructType((Field(1, "a", t.STRING), Field(3, "b", t.INT))))
    source = resolve_one(field, struct("st", leaf("b", t.INT, 3), field_id=2), partition_values={1: "p"})
    assert [type(c) for c in source.children] == [ConstantColumn, FromFile]
    assert source.children[0].value == "p"


def test_identity_values_of_a_partition():
    fields = [
        PartitionField((1,), 1000, "a", IDENTITY),
        PartitionField((2,), 1001, "b_day", DAY),
        PartitionField((3,), 1002, "c_bucket", Bucket(4)),
        PartitionField((4,), 1003, "d", IDENTITY),
        PartitionField((5,), 1004, "e", VOID),
    ]
    assert identity_values(fields, ("x", 17486, 3, None, None)) == {1: "x", 4: None}


def test_name_mapping_is_used_only_for_files_without_ids():
    mapping = NameMapping((MappedField(("a",), 1), MappedField(("b",), 2)))
    bare = [leaf("a", t.STRING), leaf("b", t.STRING)]
    assert all(isinstance(s, FromFile) for s in resolve(A, Field(2, "b", t.STRING), file=bare, name_mapping=mapping))
    with_ids = [leaf("a", t.STRING), leaf("b", t.STRING, 7)]
    assert not any(
        isinstance(s, FromFile) for s in resolve(A, Field(2, "b", t.STRING), file=with_ids, name_mapping=mapping)
    )


# structs and their defaults ----------------------------------------------------------------------------------------


def point(default):
    children = tuple(Field(n, name, t.INT, initial_default=0) for n, name in ((2, "x"), (3, "y")))
    return Field(1, "point", StructType(children), initial_default=default)


def test_point_default_null_and_missing_gives_null():
    assert resolve_one(point(None)) == ConstantColumn(point(None), None, "null")


def test_point_default_null_and_x_present_gives_y_its_default():
    source = resolve_one(point(None), struct("point", leaf("x", t.INT, 2), field_id=1))
    assert isinstance(source.children[0], FromFile)
    assert source.children[1].value == 0


def test_point_default_empty_and_missing_gives_both_defaults():
    assert resolve_one(point({})).value == {"x": 0, "y": 0}


def test_point_default_empty_and_y_present_gives_x_its_default():
    source = resolve_one(point({}), struct("point", leaf("y", t.INT, 3), field_id=1))
    assert source.children[0].value == 0
    assert isinstance(source.children[1], FromFile)


def test_a_struct_is_still_read_when_none_of_its_fields_are_in_the_file():
    """Whether it is null is for the file to say."""
    source = resolve_one(point({}), struct("point", leaf("z", t.INT, 9), field_id=1))
    assert isinstance(source, FromFile)
    assert [c.value for c in source.children] == [0, 0]


def test_a_part_of_a_defaulted_struct_keeps_its_default():
    schema = select(Schema((point({}),)), ["point.y"])
    assert resolve_columns(schema, [])[0].value == {"y": 0}


# lists and maps ----------------------------------------------------------------------------------------------------


def test_elements_keys_and_values_at_any_depth():
    inner = StructType((Field(4, "x", t.LONG), Field(5, "new", t.INT, initial_default=7)))
    field = Field(1, "m", MapType(2, t.STRING, 3, ListType(6, inner)))
    element = struct("element", leaf("x", t.INT, 4), field_id=6)
    value = FileField("value", "list", None, 3, (element,))
    file = FileField("m", "map", None, 1, (leaf("key", t.STRING, 2), value))
    source = resolve_one(field, file)
    key, items = source.children
    assert isinstance(key, FromFile)
    (row,) = items.children
    assert row.position == 0
    assert row.children[0].conversion == "promote"
    assert row.children[1] == ConstantColumn(inner.fields[1], 7, "initial default")


def test_elements_are_found_by_place_when_they_have_no_id():
    source = resolve_one(Field(1, "l", ListType(2, t.INT)), FileField("l", "list", None, 1, (leaf("item", t.INT),)))
    assert isinstance(source.children[0], FromFile)


def test_an_element_of_another_id_is_corrupt():
    with pytest.raises(CorruptFile, match=r"'l\.element' has id 9 in the file, 2 in the table"):
        resolve_one(Field(1, "l", ListType(2, t.INT)), FileField("l", "list", None, 1, (leaf("element", t.INT, 9),)))


# types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [(t.INT, t.LONG), (t.FLOAT, t.DOUBLE), (DecimalType(9, 2), DecimalType(18, 2)), (t.DATE, t.TIMESTAMP)],
    ids=str,
)
def test_promotion_is_noted(stored, wanted):
    source = resolve_one(Field(1, "a", wanted), leaf("a", stored, 1))
    assert source.conversion == "promote"
    assert source.column.stored == stored
    assert str(source) == f"a: column 0 of the file (a), promoted from {stored}"


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (t.BINARY, t.STRING), (t.STRING, t.BINARY), (FixedType(16), t.UUID), (t.UUID, FixedType(16)),
        (t.BINARY, GeometryType()), (t.TIMESTAMP, t.TIMESTAMPTZ), (t.TIMESTAMPTZ, t.TIMESTAMP),
    ],
    ids=str,
)  # fmt: skip
def test_columns_stored_under_a_plainer_type_are_reinterpreted(stored, wanted):
    source = resolve_one(Field(1, "a", wanted), leaf("a", stored, 1))
    assert source.conversion == "reinterpret"
    assert "stored as" in str(source)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (t.LONG, t.INT), (t.STRING, t.INT), (t.DATE, t.TIMESTAMPTZ), (DecimalType(9, 2), DecimalType(9, 3)),
        (FixedType(8), FixedType(16)), (FixedType(8), t.UUID), (t.LONG, t.TIMESTAMP), (t.TIMESTAMP, t.TIMESTAMP_NS),
    ],
    ids=str,
)  # fmt: skip
def test_columns_of_another_type_are_corrupt(stored, wanted):
    with pytest.raises(CorruptFile, match="cannot be read as"):
        resolve_one(Field(1, "a", wanted), leaf("a", stored, 1))


def test_primitives_structs_lists_and_maps_are_not_read_as_each_other():
    types = [t.INT, t.VARIANT, StructType((Field(5, "x", t.INT),)), ListType(5, t.INT), MapType(5, t.INT, 6, t.INT)]
    for stored in types:
        for wanted in types:
            if stored != wanted:
                with pytest.raises(CorruptFile, match="cannot be read as"):
                    resolve_one(Field(1, "a", wanted), FileField.of(Field(1, "a", stored)))


def test_unknown_is_never_read():
    for stored in (leaf("a", t.INT, 1), leaf("a", t.UNKNOWN, 1), struct("a", field_id=1)):
        assert resolve_one(Field(1, "a", t.UNKNOWN), stored).value is None
    assert resolve_one(Field(1, "a", t.UNKNOWN), partition_values={1: 5}).value is None
    source = resolve_one(Field(1, "l", ListType(2, t.UNKNOWN)), FileField("l", "list", None, 1, (leaf("e", t.INT, 2),)))
    assert source.children[0].value is None


def test_what_was_unknown_reads_as_null_under_its_new_type():
    for type_ in (t.INT, StructType((Field(2, "x", t.INT),))):
        assert resolve_one(Field(1, "a", type_), leaf("a", t.UNKNOWN, 1)) == ConstantColumn(
            Field(1, "a", type_), None, "null"
        )
        assert resolve_one(Field(1, "a", type_)).value is None


# metadata columns --------------------------------------------------------------------------------------------------


def test_metadata_columns_are_made_by_the_reader():
    assert resolve_one(mc.FILE) == FromReader(mc.FILE)
    assert str(resolve_one(mc.POS)) == "_pos: produced by the reader"


def test_row_lineage_columns_may_be_stored():
    stored = leaf("_row_id", t.LONG, mc.ROW_ID.id)
    source = resolve_one(mc.ROW_ID, stored)
    assert source == FromReader(mc.ROW_ID, FromFile(mc.ROW_ID, stored, 0))
    assert str(source) == "_row_id: produced by the reader where the file has null"


def test_the_columns_of_position_delete_files_are_stored():
    schema = mc.position_delete_schema()
    file = [FileField.of(f) for f in schema]
    assert all(isinstance(source, FromFile) for source in resolve_columns(schema, file))
    with pytest.raises(CorruptFile, match="required field 'pos'"):
        resolve_columns(schema, file[:1])


# in general --------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.data())
def test_a_file_written_with_a_schema_has_all_of_every_part_of_it(data):
    schema = data.draw(schemas())
    ids = data.draw(st.sets(st.sampled_from(sorted(schema.by_id))))
    part = project(schema, ids)
    columns = tuple(map(FileField.of, schema.fields))
    sources = resolve_columns(part, columns)

    def check(field, source, siblings):
        assert isinstance(source, FromFile)
        assert source.conversion is None
        assert siblings[source.position] == source.column
        assert source.column.id == field.id
        for child, inner in zip(field.type.fields, source.children, strict=True):
            check(child, inner, source.column.children)

    for field, source in zip(part.fields, sources, strict=True):
        check(field, source, columns)
    by_name = resolve_columns(part, without_ids(columns), name_mapping=mapping_from_schema(schema))
    assert by_name == sources


# against the corpus: rows that come out right ----------------------------------------------------------------------

APPENDED = [
    "evo_schema", "evo_nested", "evo_swap", "evo_readd", "evo_widen", "evo_defaults", "evo_defaults_nested", "evo_misc",
    "imp_name_mapping", "imp_add_files", "imp_add_files_part", "imp_migrate", "imp_snapshot", "imp_int96",
]  # fmt: skip
"""Tables in Parquet to which rows were only ever added, so that all files are live."""


@pytest.mark.parametrize("name", APPENDED)
def test_rows_of_the_corpus_come_out_right(corpus_dir, name):
    """Reads every file by what `resolve_columns` says, and compares with Java's rows (or what the spec wants)."""
    answers = expected(corpus_dir, name)
    metadata = read_metadata(corpus_dir / name / answers["metadata"])
    schema = next(schema_from_json(s) for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    mapping = metadata["properties"].get(NAME_MAPPING.name)
    mapping = None if mapping is None else parse_name_mapping(mapping)
    partition_fields = metadata["partition-specs"][0]["fields"]
    checked = 0
    for case in answers["cases"]:
        if not set(case["query"]) <= {"columns"} or any(c.startswith("_") for c in case["query"].get("columns", ())):
            continue
        part = select(schema, case["query"].get("columns", ["*"]))
        rows = []
        for path in (corpus_dir / name).rglob("*.parquet"):
            values = hive_values(path, partition_fields, schema)
            rows += read_rows(path, part, name_mapping=mapping, partition_values=values)
        assert canonical(part, rows) == case["rows"], case["query"]
        checked += 1
    assert checked


def hive_values(path, partition_fields, schema):
    """The identity partition values that a Hive path holds, by source id."""
    found = {}
    for field in partition_fields:
        assert field["transform"] == "identity"
        step = next(part for part in path.parts if part.startswith(field["name"] + "="))
        text = unquote(step.partition("=")[2])
        value = int(text) if schema.find(field["source-id"]).type == t.INT else text
        found[field["source-id"]] = None if text == "__HIVE_DEFAULT_PARTITION__" else value
    return found
