"""Parquet files read by Spark's own vectorised reader, by field id; and when that is exact.

The reader's columns need not have the names of the query's columns. A column keeps its name if no file can have
another column of that name (then Spark can also prune row groups by it); otherwise it gets a name that no file has.

Values that are the same in all rows of a file (`_file`, `_spec_id`, partition values, deleted rows) go to the reader
with the file, as constants. Other metadata columns are computed from these above the reader.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from floe.formats.parquet.reader import verifies_page_checksums
from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.parquet_readers import READS_RENAMED_FIELDS, Kind, parquet_factory
from floe.spark.schemas import EXISTS_DEFAULT, ONLY_READ, SparkField, spark_field, spark_literal, spark_type
from floe.spark.settings import PARQUET_READER
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    PARTITION_ID,
    POS,
    ROW_ID,
    SPEC_ID,
    is_metadata_column,
)
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.types import BINARY, INT, LONG, DecimalType, Field, ListType, MapType, StructType, Type

# What is the same in all rows of a file, and goes to Spark's reader with the file.

BITS: Final = Field(-1, "_deleted_rows", BINARY, required=True)
"""A bit for each row of the file, set where it is deleted; empty for a file without deletes."""

FIRST_ROW_ID: Final = Field(-2, "_first_row_id", LONG, required=True)
SEQUENCE_NUMBER: Final = Field(-3, "_sequence_number", LONG, required=True)
SCOPE: Final = Field(-4, "_scope", INT, required=True)
"""A number that the partition of a file has in one read: deletes apply to files with the same (`PlannedFiles`)."""

_KINDS: Final[Mapping[int, Kind]] = {
    FILE.id: "text",
    SPEC_ID.id: "int",
    BITS.id: "bytes",
    FIRST_ROW_ID.id: "long",
    SEQUENCE_NUMBER.id: "long",
    SCOPE.id: "int",
}
_COLUMNS: Final = {
    FILE.id: "file_path",
    SPEC_ID.id: "spec_id",
    FIRST_ROW_ID.id: "first_row_id",
    SEQUENCE_NUMBER.id: "sequence_number",
    SCOPE.id: "scope",
}
"""The columns of a plan's table that constants are."""

_KINDS_OF_PARTITIONS: Final[Mapping[str, Kind]] = {
    "int": "int",
    "date": "int",
    "boolean": "int",
    "float": "int",
    "long": "long",
    "timestamp": "long",
    "timestamptz": "long",
    "double": "long",
    "string": "text",
    "uuid": "text",
    "binary": "bytes",
    "fixed": "bytes",
}
_BELOW: Final = -10
"""Constants for fields of `_partition` have the ids from here downwards."""

_CARRIED_AS: Final[Mapping[str, Type]] = {"boolean": INT, "float": INT, "double": LONG}
_LONGEST_DECIMAL: Final = 18


def constant_kind(field: Field) -> Kind | None:
    """How a column is carried; None for one that is no constant of a file."""
    if field.id >= 0:
        return _KINDS.get(field.id)
    return _KINDS.get(field.id) or _KINDS_OF_PARTITIONS.get(field.type.kind)


def partition_constant(field: Field) -> Field | None:
    """The constant that carries a field of `_partition`; None for types that cannot be carried."""
    type_ = field.type
    if isinstance(type_, DecimalType):
        carried: Type = LONG
        if type_.precision > _LONGEST_DECIMAL:
            return None
    elif type_.kind in _KINDS_OF_PARTITIONS:
        carried = _CARRIED_AS.get(type_.kind, type_)
    else:
        return None
    return replace(field, id=_BELOW - field.id, name=f"_partition_{field.id}", type=carried, required=False, doc=None)


def constant_column(files: pa.Table, field: Field, bits: Mapping[str, bytes] | None = None) -> pa.Array:
    """What each file of a plan's table has in a constant; `bits` are the rows that are deleted of some."""
    if field.id == BITS.id:
        known = bits or {}
        return pa.array([known.get(path, b"") for path in files["file_path"].to_pylist()], pa.large_binary())
    if field.id in _COLUMNS:
        return files[_COLUMNS[field.id]].combine_chunks()
    return _partition_values(files["partition"], _BELOW - field.id)


def _partition_values(partitions: pa.ChunkedArray, field_id: int) -> pa.Array:
    """The values of one partition field, as they are carried."""
    key = str(field_id).encode()
    place = next(n for n, field in enumerate(partitions.type) if field.metadata[b"PARQUET:field_id"] == key)
    is_uuid = partitions.type.field(place).metadata.get(b"ICEBERG:type") == b"uuid"
    values = pa.chunked_array([_numbers(chunk.field(place)) for chunk in partitions.chunks]).combine_chunks()
    if is_uuid:
        return pa.array([None if one is None else str(uuid.UUID(bytes=one)) for one in values.to_pylist()], pa.string())
    return values


def _numbers(array: pa.Array) -> pa.Array:
    """Dates, times and the like as the numbers that stand for them."""
    type_ = array.type
    if pa.types.is_date32(type_) or pa.types.is_float32(type_):
        return array.view(pa.int32())
    if pa.types.is_timestamp(type_) or pa.types.is_float64(type_):
        return array.view(pa.int64())
    if pa.types.is_boolean(type_):
        return array.cast(pa.int32())
    if pa.types.is_decimal(type_):
        return pa.array(
            [None if one is None else int(one.scaleb(type_.scale)) for one in array.to_pylist()], pa.int64()
        )
    return array


FIELD_ID: Final = "parquet.field.id"
ROW_INDEX: Final = "_tmp_metadata_row_index"
"""The column that Spark's reader fills with the place of the row in its file."""

_MADE: Final = frozenset({DELETED.id, ROW_ID.id, LAST_UPDATED_SEQUENCE_NUMBER.id})
"""The columns that can always be made above the reader."""

_NOT_EXACT: Final = frozenset({"uuid", "variant", "unknown"}) | ONLY_READ
_PACKAGE: Final = "org.apache.spark.sql.execution.datasources."
_VERIFY_CHECKSUMS: Final = "parquet.page.verify-checksum.enabled"


# whether it is exact ----------------------------------------------------------------------------------------------


def why_not_native(plan: ScanPlan, wanted: Schema, formats: Iterable[str]) -> str | None:
    """Why the files of a plan cannot be read exactly by Spark's reader; None if they can."""
    if other := sorted(set(formats) - {"parquet"}):
        return f"{' and '.join(other)} files"
    if plan.has_deletes:
        return "row-level deletes"
    return why_not_columns(plan.metadata, wanted)


def why_not_columns(metadata: TableMetadata, wanted: Schema, *, above: bool = False) -> str | None:
    """Why columns cannot be read exactly by Spark's reader; `above` it, some can be made of what it reads."""
    if NAME_MAPPING.is_set(metadata.properties):
        return "files without field ids"
    for field in wanted.fields:
        if is_metadata_column(field.id):
            if constant_kind(field) is None and field.id != POS.id and not (above and _can_be_made(field)):
                return f"the column {field.name}"
        elif field.initial_default is not None and field.type.is_nested:
            return f"the default of {field.name}"
    for entry in walk_fields(wanted.fields):
        field = entry.field
        if is_metadata_column((*entry.ancestors, field)[0].id):
            continue
        if field.type.kind in _NOT_EXACT:
            return f"the type of {entry.name}"
        if entry.ancestors and field.initial_default is not None:
            return f"the default of {entry.name}"
        for schema in metadata.schemas:
            before = schema.find(field.id)
            if before is None:
                continue
            if not _same_or_widened(before.type, field.type):
                return f"{entry.name}, which was {before.type}"
            if entry.ancestors and before.name != field.name and not READS_RENAMED_FIELDS:
                return f"{entry.name}, which was called {before.name}"
            if isinstance(field.type, StructType) and not _shares_a_leaf(before.type, field.type):
                return f"{entry.name}, of which old files have nothing that is asked for"
    return None


def _can_be_made(field: Field) -> bool:
    if field.id != PARTITION_ID:
        return field.id in _MADE
    return all(one.type.kind == "unknown" or partition_constant(one) is not None for one in field.type.fields)


def _same_or_widened(old: Type, new: Type) -> bool:
    """Whether Spark's reader knows how to read the old type as the new one."""
    if old.is_nested or new.is_nested:
        return old.kind == new.kind
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return old == new or (old.kind, new.kind) in {("int", "long"), ("float", "double")}


def _shares_a_leaf(old: Type, new: Type) -> bool:
    """Whether a struct has a field now that it had before: otherwise Spark cannot tell null from empty."""
    ids = {entry.field.id for entry in walk_fields(old.fields)}
    return any(entry.field.id in ids for entry in walk_fields(new.fields) if not entry.field.type.is_nested)


# the reader's columns ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NativeColumns:
    """The columns that the reader makes: first those of the files, then those that are the same in all of a file."""

    data: tuple[Field, ...]
    constants: tuple[Field, ...]
    own_names: frozenset[int]
    """The ids of the columns that have their own names in all files."""

    all_stored: bool = False
    """Whether a file that lacks one of the columns is corrupt, where others have null or a default instead."""

    page_checksums: bool = True
    """Whether pages are compared with their checksums."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns, in the order in which they come."""
        return (*self.data, *self.constants)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Of each constant what it is."""
        return tuple(kind for field in self.constants if (kind := constant_kind(field)) is not None)

    def reader_schema(self) -> Any:
        """The columns of the files as Spark's reader is to read them."""
        return {"type": "struct", "fields": [self._reader_field(field) for field in self.data]}

    def constants_schema(self) -> Any:
        """The columns that are the same in all rows of a file."""
        return {"type": "struct", "fields": [spark_field(field) for field in self.constants]}

    def _reader_field(self, field: Field) -> SparkField:
        if field.id == POS.id:
            return {"name": ROW_INDEX, "type": "long", "nullable": True, "metadata": {}}
        name = field.name if field.id in self.own_names else f"floe-{field.id}"
        made = _with_ids(field, name, nullable=not self.all_stored)
        if field.initial_default is not None and not self.all_stored:
            made["metadata"][EXISTS_DEFAULT] = spark_literal(field.type, field.initial_default)
        return made


def native_columns(metadata: TableMetadata, wanted: Schema) -> NativeColumns:
    """How the wanted columns are read."""
    constants = tuple(field for field in wanted.fields if constant_kind(field) is not None)
    data = tuple(field for field in wanted.fields if constant_kind(field) is None)
    own = frozenset(_with_own_names(metadata, data))
    return NativeColumns(data, constants, own, page_checksums=verifies_page_checksums(metadata.properties))


def _with_own_names(metadata: TableMetadata, fields: Sequence[Field]) -> Iterator[int]:
    """The columns that were never called otherwise, and whose names no other column ever had."""
    names: dict[int, set[str]] = {}
    ids: dict[str, set[int]] = {}
    for schema in metadata.schemas:
        for field in schema.fields:
            names.setdefault(field.id, set()).add(field.name)
            ids.setdefault(field.name.lower(), set()).add(field.id)
    for field in fields:
        if is_metadata_column(field.id):
            continue
        if names.get(field.id, {field.name}) == {field.name} and ids.get(field.name.lower(), {field.id}) == {field.id}:
            yield field.id


def _with_ids(field: Field, name: str, *, nullable: bool = True) -> SparkField:
    return {
        "name": name,
        "type": _type_with_ids(field.type, nullable=nullable),
        "nullable": nullable,
        "metadata": {FIELD_ID: field.id},
    }


def _type_with_ids(type_: Type, *, nullable: bool = True) -> Any:
    match type_:
        case StructType():
            fields = [_with_ids(field, field.name, nullable=nullable) for field in type_.fields]
            return {"type": "struct", "fields": fields}
        case ListType():
            return {"type": "array", "elementType": _type_with_ids(type_.element), "containsNull": True}
        case MapType():
            return {
                "type": "map",
                "keyType": _type_with_ids(type_.key),
                "valueType": _type_with_ids(type_.value),
                "valueContainsNull": True,
            }
        case _:
            return spark_type(type_)


# the reader -------------------------------------------------------------------------------------------------------


def reader_factory(jvm: Jvm, columns: NativeColumns, predicates: Any = None, chosen: Sequence[int] = ()) -> Any:
    """What makes Spark's Parquet readers in executors; the chosen predicates are for leaving out row groups."""
    return parquet_factory(
        jvm,
        columns.reader_schema(),
        columns.constants_schema(),
        predicates,
        chosen,
        settings={**PARQUET_READER, _VERIFY_CHECKSUMS: str(columns.page_checksums).lower()},
        options={"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"},
    )
