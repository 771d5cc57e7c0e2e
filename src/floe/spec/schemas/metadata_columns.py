"""The columns that are not a table's own: reserved ids, their names and types (spec: Reserved Field IDs).

Most are made by the reader (`_file`, `_pos`, …); the row-lineage columns may also be stored in data files; `file_path`,
`pos` and `row` are the columns of position delete files.

>>> ROW_ID.id, ROW_ID.name
(2147483540, '_row_id')
>>> is_metadata_column("_file"), is_metadata_column("file_path")
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from floe.errors import InvalidSchema
from floe.spec.schemas.schema import Schema
from floe.spec.types import BOOLEAN, INT, LONG, STRING, Field, StructType

__all__ = [
    "CHANGE_ORDINAL",
    "CHANGE_TYPE",
    "COMMIT_SNAPSHOT_ID",
    "DELETED",
    "DELETE_FILE_PATH",
    "DELETE_POS",
    "DELETE_ROW_ID",
    "FILE",
    "LAST_UPDATED_SEQUENCE_NUMBER",
    "PARTITION_ID",
    "PARTITION_NAME",
    "POS",
    "RESERVED_NAMES",
    "ROW_ID",
    "SPEC_ID",
    "check_column_name",
    "delete_row",
    "is_metadata_column",
    "metadata_column",
    "partition_column",
    "position_delete_schema",
    "with_row_lineage",
]

FILE = Field(2147483646, "_file", STRING, required=True, doc="path of the file that stores the row")
POS = Field(2147483645, "_pos", LONG, required=True, doc="position of the row in its file, from 0")
DELETED = Field(2147483644, "_deleted", BOOLEAN, required=True, doc="whether the row has been deleted")
SPEC_ID = Field(2147483643, "_spec_id", INT, required=True, doc="id of the partition spec of the row's file")

PARTITION_ID, PARTITION_NAME = 2147483642, "_partition"
"""The partition of the row; its type depends on the table, see `partition_column`."""

DELETE_FILE_PATH = Field(2147483546, "file_path", STRING, required=True, doc="path of the file with the deleted row")
DELETE_POS = Field(2147483545, "pos", LONG, required=True, doc="position of the deleted row, from 0")

DELETE_ROW_ID = 2147483544
"""The deleted row itself; its type is a part of the table's schema, see `delete_row`."""

CHANGE_TYPE = Field(
    2147483543, "_change_type", STRING, required=True, doc="INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER"
)
CHANGE_ORDINAL = Field(2147483542, "_change_ordinal", INT, doc="place of the change among all changes")
COMMIT_SNAPSHOT_ID = Field(2147483541, "_commit_snapshot_id", LONG, doc="id of the snapshot that made the change")
ROW_ID = Field(2147483540, "_row_id", LONG, doc="id of the row, for its whole life")
LAST_UPDATED_SEQUENCE_NUMBER = Field(
    2147483539, "_last_updated_sequence_number", LONG, doc="sequence number of the commit that last changed the row"
)

_MADE_BY_READER = (
    FILE, POS, DELETED, SPEC_ID, CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER,
)  # fmt: skip
_BY_NAME = {column.name: column for column in _MADE_BY_READER}
_IDS = frozenset({PARTITION_ID, *(column.id for column in _MADE_BY_READER)})

RESERVED_NAMES: Mapping[int, str] = MappingProxyType(
    {
        **{column.id: column.name for column in (*_MADE_BY_READER, DELETE_FILE_PATH, DELETE_POS)},
        PARTITION_ID: PARTITION_NAME,
        DELETE_ROW_ID: "row",
    }
)
"""The name of every reserved id that has a meaning."""


def is_metadata_column(column: str | int) -> bool:
    """Whether a name or a field id is that of a column that readers make.

    The columns of position delete files are not among them: those are stored, and a table may well have a column
    named `pos`.
    """
    if isinstance(column, int):
        return column in _IDS
    return column == PARTITION_NAME or column in _BY_NAME


def check_column_name(name: str, *, top_level: bool) -> None:
    """Raise unless a new column may have that name: it has one, and hides no metadata column.

    >>> check_column_name("_file", top_level=True)
    Traceback (most recent call last):
    floe.errors.InvalidSchema: '_file' is the name of a metadata column (column: _file); choose another name
    """
    if not name:
        raise InvalidSchema("a column must have a name")
    if top_level and is_metadata_column(name):
        raise InvalidSchema(f"{name!r} is the name of a metadata column", hint="choose another name", column=name)


def metadata_column(name: str, *, partition_type: StructType | None = None) -> Field | None:
    """The metadata column of that name, or None; `_partition` needs the type of the table's partitions.

    >>> print(metadata_column("_pos"))
    2147483645: _pos: required long (position of the row in its file, from 0)
    """
    if name != PARTITION_NAME:
        return _BY_NAME.get(name)
    if partition_type is None:
        raise InvalidSchema("the type of `_partition` depends on the table's partition specs", column=PARTITION_NAME)
    return partition_column(partition_type)


def partition_column(partition_type: StructType) -> Field:
    """The `_partition` column of a table; the type holds the fields of all its partition specs.

    >>> partition_column(StructType((Field(1000, "day", INT),))).id
    2147483642
    """
    return Field(PARTITION_ID, PARTITION_NAME, partition_type, doc="partition that the row belongs to")


def delete_row(row: StructType) -> Field:
    """The `row` column of a position delete file: any part of the table's schema, under the table's field ids.

    It is required: either all entries of a delete file hold the row, or the column is left out.
    """
    return Field(DELETE_ROW_ID, "row", row, required=True, doc="the deleted row")


def position_delete_schema(row: StructType | None = None) -> Schema:
    """The schema of a position delete file (spec: Position Delete Files), with the deleted rows if their type is given.

    >>> [field.name for field in position_delete_schema()]
    ['file_path', 'pos']
    """
    columns = (DELETE_FILE_PATH, DELETE_POS)
    return Schema(columns if row is None else (*columns, delete_row(row)))


def with_row_lineage(schema: Schema) -> Schema:
    """The schema with the two columns of row lineage at its end, as data files may store them.

    >>> [field.name for field in with_row_lineage(Schema((Field(1, "a", INT),)))]
    ['a', '_row_id', '_last_updated_sequence_number']
    """
    added = [c for c in (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER) if c.id not in schema.by_id]
    return Schema((*schema.fields, *added), schema.schema_id, schema.identifier_field_ids, schema.extra)
