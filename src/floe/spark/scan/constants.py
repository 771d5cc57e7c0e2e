"""What is the same in all rows of a file, and goes to Spark's reader with the file.

Beside `_file` and `_spec_id` these are columns that no query names: others are made of them above the reader.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from floe.spark.bridge.partitioned_files import Kind
from floe.spec.schemas.metadata_columns import FILE, SPEC_ID
from floe.spec.types import BINARY, INT, LONG, DecimalType, Field, Type

__all__ = [
    "BITS",
    "FIRST_ROW_ID",
    "SCOPE",
    "SEQUENCE_NUMBER",
    "constant_column",
    "constant_kind",
    "partition_constant",
]

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
