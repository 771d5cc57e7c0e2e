"""Metadata columns: columns with reserved field ids, their names and types (spec: Reserved Field IDs).

Most are produced by the reader (`_file`, `_pos`, …); data files may also store the row-lineage columns; `file_path`,
`pos` and `row` are the columns of position delete files.

>>> ROW_ID.id, ROW_ID.name
(2147483540, '_row_id')
>>> is_metadata_column("_file"), is_metadata_column("file_path")
(True, False)
"""

from __future__ import annotations

from floe.errors import InvalidSchema
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, INT, LONG, STRING, Field, StructType

FILE = Field(2147483646, "_file", STRING, required=True, doc="path of the file that stores the row")
POS = Field(2147483645, "_pos", LONG, required=True, doc="position of the row in its file, from 0")
DELETED = Field(2147483644, "_deleted", BOOLEAN, required=True, doc="whether the row has been deleted")
SPEC_ID = Field(2147483643, "_spec_id", INT, required=True, doc="id of the partition spec of the row's file")

PARTITION_ID, PARTITION_NAME = 2147483642, "_partition"
"""The partition of the row; its type depends on the table, see `partition_column`."""

DELETE_FILE_PATH = Field(2147483546, "file_path", STRING, required=True, doc="path of the file with the deleted row")
DELETE_POS = Field(2147483545, "pos", LONG, required=True, doc="position of the deleted row, from 0")

DELETE_ROW_ID = 2147483544
"""The deleted row itself; its type is a projection of the table's schema, see `delete_row`."""

CHANGE_TYPE = Field(
    2147483543, "_change_type", STRING, required=True, doc="INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER"
)
CHANGE_ORDINAL = Field(2147483542, "_change_ordinal", INT, doc="position of the change among all changes")
COMMIT_SNAPSHOT_ID = Field(2147483541, "_commit_snapshot_id", LONG, doc="id of the snapshot that made the change")
ROW_ID = Field(2147483540, "_row_id", LONG, doc="id of the row, for its whole life")
LAST_UPDATED_SEQUENCE_NUMBER = Field(
    2147483539, "_last_updated_sequence_number", LONG, doc="sequence number of the commit that last changed the row"
)

_READER_COLUMNS = (
    FILE, POS, DELETED, SPEC_ID, CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER,
)  # fmt: skip
_BY_NAME = {column.name: column for column in _READER_COLUMNS}
_IDS = frozenset({PARTITION_ID, *(column.id for column in _READER_COLUMNS)})


def is_metadata_column(column: str | int) -> bool:
    """Whether a name or field id is that of a column that readers produce.

    The columns of position delete files are not: they are stored, and a table may have a column named `pos`.
    """
    if isinstance(column, int):
        return column in _IDS
    return column == PARTITION_NAME or column in _BY_NAME


def check_column_name(name: str, *, top_level: bool) -> None:
    """Raise if a new column cannot have that name: it is empty, or would hide a metadata column.

    >>> check_column_name("_file", top_level=True)
    Traceback (most recent call last):
    floe.errors.InvalidSchema: '_file' is the name of a metadata column (column: _file); choose another name
    """
    if not name:
        raise InvalidSchema("a column must have a name")
    if top_level and is_metadata_column(name):
        raise InvalidSchema(f"{name!r} is the name of a metadata column", hint="choose another name", column=name)


def metadata_column(name: str, *, partition_type: StructType | None = None) -> Field | None:
    """Return the metadata column of a name, or None; `_partition` needs the table's partition type.

    >>> print(metadata_column("_pos"))
    2147483645: _pos: required long (position of the row in its file, from 0)
    """
    if name != PARTITION_NAME:
        return _BY_NAME.get(name)
    if partition_type is None:
        raise InvalidSchema("the type of `_partition` depends on the table's partition specs", column=PARTITION_NAME)
    return partition_column(partition_type)


def partition_column(partition_type: StructType) -> Field:
    """Return the `_partition` column of a table; the type has the fields of all its partition specs.

    >>> partition_column(StructType((Field(1000, "day", INT),))).id
    2147483642
    """
    return Field(PARTITION_ID, PARTITION_NAME, partition_type, doc="partition that the row belongs to")


def delete_row(row: StructType) -> Field:
    """Return the `row` column of a position delete file: a projection of the table's schema, with its field ids.

    It is required: either all entries of a delete file have the row, or the column is omitted.
    """
    return Field(DELETE_ROW_ID, "row", row, required=True, doc="the deleted row")


def position_delete_schema(row: StructType | None = None) -> Schema:
    """Return the schema of a position delete file (spec: Position Delete Files), with `row` if its type is passed.

    >>> [field.name for field in position_delete_schema()]
    ['file_path', 'pos']
    """
    columns = (DELETE_FILE_PATH, DELETE_POS)
    return Schema(columns if row is None else (*columns, delete_row(row)))


def with_row_lineage(schema: Schema) -> Schema:
    """Return the schema with the two row-lineage columns appended, as data files may store them.

    >>> [field.name for field in with_row_lineage(Schema((Field(1, "a", INT),)))]
    ['a', '_row_id', '_last_updated_sequence_number']
    """
    added = [c for c in (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER) if c.id not in schema.by_id]
    return Schema((*schema.fields, *added), schema.schema_id, schema.identifier_field_ids, schema.extra)
