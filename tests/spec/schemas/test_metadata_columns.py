"""The reserved field ids and what they are for (spec: Reserved Field IDs; Position Delete Files)."""

import pytest

from floe.errors import InvalidSchema
from floe.spec import types as t
from floe.spec.schemas import metadata_columns as mc
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID, Schema
from floe.spec.types import Field, StructType

PARTITION = StructType((Field(1000, "day", t.DATE), Field(1001, "bucket", t.INT)))


RESERVED = {
    2147483646: "_file",
    2147483645: "_pos",
    2147483644: "_deleted",
    2147483643: "_spec_id",
    2147483642: "_partition",
    2147483546: "file_path",
    2147483545: "pos",
    2147483544: "row",
    2147483543: "_change_type",
    2147483542: "_change_ordinal",
    2147483541: "_commit_snapshot_id",
    2147483540: "_row_id",
    2147483539: "_last_updated_sequence_number",
}
READER_COLUMNS = [name for name in RESERVED.values() if name.startswith("_")]


def test_ids_above_max_value_minus_200_are_for_metadata_columns():
    assert MAX_TABLE_FIELD_ID == 2**31 - 1 - 200
    assert all(MAX_TABLE_FIELD_ID < i < 2**31 for i in RESERVED)


def test_file_is_2147483646():
    assert (mc.FILE.id, mc.FILE.name, mc.FILE.type) == (2147483646, "_file", t.STRING)


def test_pos_is_2147483645():
    assert (mc.POS.id, mc.POS.name, mc.POS.type) == (2147483645, "_pos", t.LONG)


def test_deleted_is_2147483644():
    assert (mc.DELETED.id, mc.DELETED.name, mc.DELETED.type) == (2147483644, "_deleted", t.BOOLEAN)


def test_spec_id_is_2147483643():
    assert (mc.SPEC_ID.id, mc.SPEC_ID.name, mc.SPEC_ID.type) == (2147483643, "_spec_id", t.INT)


def test_partition_is_2147483642_and_made_from_the_tables_partition_type():
    column = mc.partition_column(PARTITION)
    assert (column.id, column.name, column.type) == (2147483642, "_partition", PARTITION)
    assert column.optional
    assert mc.metadata_column("_partition", partition_type=PARTITION) == column
    with pytest.raises(InvalidSchema, match="depends on the table's partition specs"):
        mc.metadata_column("_partition")


def test_file_path_is_2147483546():
    assert (mc.DELETE_FILE_PATH.id, mc.DELETE_FILE_PATH.name, mc.DELETE_FILE_PATH.type) == (
        2147483546, "file_path", t.STRING,
    )  # fmt: skip


def test_pos_of_delete_files_is_2147483545():
    assert (mc.DELETE_POS.id, mc.DELETE_POS.name, mc.DELETE_POS.type) == (2147483545, "pos", t.LONG)


def test_row_of_delete_files_is_2147483544_and_required():
    row = mc.delete_row(StructType((Field(1, "a", t.INT),)))
    assert (row.id, row.name, row.required) == (2147483544, "row", True)
    assert row.type == StructType((Field(1, "a", t.INT),))


def test_change_type_is_2147483543():
    assert (mc.CHANGE_TYPE.id, mc.CHANGE_TYPE.name, mc.CHANGE_TYPE.type) == (2147483543, "_change_type", t.STRING)


def test_change_ordinal_is_2147483542():
    assert (mc.CHANGE_ORDINAL.id, mc.CHANGE_ORDINAL.name, mc.CHANGE_ORDINAL.type) == (
        2147483542, "_change_ordinal", t.INT,
    )  # fmt: skip


def test_commit_snapshot_id_is_2147483541():
    assert (mc.COMMIT_SNAPSHOT_ID.id, mc.COMMIT_SNAPSHOT_ID.name, mc.COMMIT_SNAPSHOT_ID.type) == (
        2147483541, "_commit_snapshot_id", t.LONG,
    )  # fmt: skip


def test_row_id_is_2147483540():
    assert (mc.ROW_ID.id, mc.ROW_ID.name, mc.ROW_ID.type) == (2147483540, "_row_id", t.LONG)
    assert mc.ROW_ID.optional


def test_last_updated_sequence_number_is_2147483539():
    column = mc.LAST_UPDATED_SEQUENCE_NUMBER
    assert (column.id, column.name, column.type) == (2147483539, "_last_updated_sequence_number", t.LONG)
    assert column.optional


def test_every_reserved_id_has_its_name():
    columns = [mc.metadata_column(name, partition_type=PARTITION) for name in READER_COLUMNS]
    columns += [mc.DELETE_FILE_PATH, mc.DELETE_POS, mc.delete_row(StructType())]
    assert {column.id: column.name for column in columns} == RESERVED


@pytest.mark.parametrize("name", READER_COLUMNS)
def test_metadata_columns_are_known_by_name_and_id(name):
    column = mc.metadata_column(name, partition_type=PARTITION)
    assert column.name == name
    assert mc.is_metadata_column(name)
    assert mc.is_metadata_column(column.id)


@pytest.mark.parametrize("column", ["file_path", "pos", "row", "id", "_x", "", 2147483546, 2147483545, 2147483544, 1])
def test_other_columns_are_not_metadata_columns(column):
    """A table may well have a column named `pos`; the columns of delete files are stored, not made by readers."""
    assert not mc.is_metadata_column(column)


def test_metadata_column_of_another_name_is_none():
    assert mc.metadata_column("id") is None
    assert mc.metadata_column("pos") is None


def test_position_delete_schema_without_rows():
    schema = mc.position_delete_schema()
    assert [(f.id, f.name, f.required) for f in schema] == [(2147483546, "file_path", True), (2147483545, "pos", True)]


def test_position_delete_schema_with_rows():
    row = StructType((Field(1, "id", t.LONG, required=True), Field(4, "st", StructType((Field(5, "x", t.INT),)))))
    schema = mc.position_delete_schema(row)
    assert schema.field("row.st.x").id == 5
    assert schema.field("row").required


def test_row_lineage_columns_come_last_and_once():
    schema = Schema((Field(1, "a", t.INT, required=True),), 4, (1,))
    lineage = mc.with_row_lineage(schema)
    assert [f.id for f in lineage] == [1, 2147483540, 2147483539]
    assert (lineage.schema_id, lineage.identifier_field_ids) == (4, (1,))
    assert mc.with_row_lineage(lineage) == lineage
