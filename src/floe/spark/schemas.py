r"""Conversion of schemas and types between Spark and Iceberg; Spark's are the JSON that Spark itself writes.

| Iceberg | Spark |
|---|---|
| `timestamptz`, `timestamp` | `TIMESTAMP`, `TIMESTAMP_NTZ` |
| `uuid` | `STRING` |
| `fixed`, `binary` | `BINARY` |
| `int` | `INT`; `TINYINT` and `SMALLINT` become `int` |
| `string` | `STRING`; `CHAR` and `VARCHAR` become `string` |
| `unknown` | `VOID` |
| `time`, `timestamp_ns`, `timestamptz_ns` | `STRING` of one width, read-only (`2023-11-14 22:13:20.123456789`) |
| `geometry`, `geography` | `BINARY` (well-known binary), read-only |

Defaults of columns are SQL text in Spark's schemas:

>>> from floe.spec.types import DATE, STRING
>>> spark_literal(DATE, 17486), spark_literal(STRING, "it's")
("DATE '2017-11-16'", "'it\\'s'")
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from floe.errors import InvalidType, UnsupportedFeature
from floe.spec.expressions.expression_text import literal_to_text
from floe.spec.schemas.schema import Schema, assign_fresh_ids
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARIANT,
    DecimalType,
    Field,
    ListType,
    MapType,
    StructType,
    Type,
)

# Literals -------------------------------------------------------------------------------------------------------------

_SUFFIXES: Final = {"long": "L", "double": "D", "float": "F"}


def spark_literal(type_: Type, value: Any) -> str:
    r"""A value of a column's type as a literal in Spark's SQL; NULL for types without literals.

    >>> from floe.spec.types import BINARY, DOUBLE, LONG
    >>> spark_literal(LONG, 7), spark_literal(BINARY, b"\x01"), spark_literal(DOUBLE, float("inf"))
    ('7L', "X'01'", "CAST('Infinity' AS DOUBLE)")
    """
    kind = type_.kind
    if isinstance(type_, DecimalType):
        return f"CAST({value:f} AS DECIMAL({type_.precision},{type_.scale}))"
    if kind in ("float", "double") and not math.isfinite(value):
        return f"CAST('{_special_float_name(value)}' AS {kind.upper()})"
    match kind:
        case "boolean":
            return str(value).lower()
        case "int":
            return str(value)
        case "long":
            return f"{value}L"
        case "float" | "double":
            return f"CAST({value!r} AS {kind.upper()})" if "e" in repr(value) else f"{value!r}{_SUFFIXES[kind]}"
        case "binary" | "fixed":
            return f"X'{bytes(value).hex().upper()}'"
        case "string" | "uuid":
            return string_literal(str(value))
        case "date" | "timestamp" | "timestamptz":
            return literal_to_text(value, type_)
        case _:
            return "NULL"


def _special_float_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def string_literal(text: str) -> str:
    """A string as a literal in Spark's SQL, with quotes and escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


# Tables of types ------------------------------------------------------------------------------------------------------

SparkType: TypeAlias = Any
"""A Spark type as JSON: a name for a simple type, an object for a nested one."""

SparkField: TypeAlias = dict[str, Any]
"""A field of a Spark schema as JSON: `name`, `type`, `nullable` and `metadata`."""

CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"
COMMENT: Final = "comment"

_TO_SPARK: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "fixed": "binary",
    "binary": "binary",
    "unknown": "void",
    "variant": "variant",
    "time": "string",
    "timestamp_ns": "string",
    "timestamptz_ns": "string",
    "geometry": "binary",
    "geography": "binary",
}
STRING_TYPES: Final = frozenset({"time", "timestamp_ns", "timestamptz_ns"})
"""The types whose values are strings in Spark: all of one width, so that Spark orders them correctly."""

READ_ONLY_TYPES: Final = frozenset({"time", "timestamp_ns", "timestamptz_ns", "geometry", "geography"})
"""The types that Spark does not have: their values are read in another type, and cannot be written."""

_FROM_SPARK: Final[Mapping[str, Type]] = {
    "boolean": BOOLEAN,
    "byte": INT,
    "short": INT,
    "integer": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
    "string": STRING,
    "binary": BINARY,
    "void": UNKNOWN,
    "variant": VARIANT,
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_STRING_TYPE: Final = re.compile(r"(?:char|varchar)\(\d+\)|string collate UTF8_BINARY")


# to Spark ---------------------------------------------------------------------------------------------------------


def spark_schema(fields: Iterable[Field]) -> SparkType:
    """Convert columns to a Spark schema, with comments and defaults.

    >>> spark_schema([Field(1, "id", LONG, required=True, doc="the key")])["fields"]
    [{'name': 'id', 'type': 'long', 'nullable': False, 'metadata': {'comment': 'the key'}}]
    """
    return {"type": "struct", "fields": [spark_field(field) for field in fields]}


def spark_field(field: Field) -> SparkField:
    """Convert a column to a field of a Spark schema, with its comment and defaults."""
    metadata: dict[str, Any] = {}
    if field.doc is not None:
        metadata[COMMENT] = field.doc
    if field.write_default is not None and not field.type.is_nested:
        metadata[CURRENT_DEFAULT] = spark_literal(field.type, field.write_default)
    if field.initial_default is not None and not field.type.is_nested:
        metadata[EXISTS_DEFAULT] = spark_literal(field.type, field.initial_default)
    elif CURRENT_DEFAULT in metadata:
        metadata[EXISTS_DEFAULT] = "NULL"
    return {
        "name": field.name,
        "type": spark_type(field.type, field.name),
        "nullable": field.optional,
        "metadata": metadata,
    }


def spark_type(type_: Type, column: str | None = None) -> SparkType:
    """Convert a type to Spark's; raises `UnsupportedFeature` with the name of the column if Spark has none for it.

    >>> from floe.sql.columns import parse_column_type
    >>> spark_type(parse_column_type("list<decimal(9, 2)>"))
    {'type': 'array', 'elementType': 'decimal(9,2)', 'containsNull': True}
    """
    match type_:
        case StructType():
            return spark_schema(type_.fields)
        case ListType():
            element = spark_type(type_.element, column)
            return {"type": "array", "elementType": element, "containsNull": not type_.element_required}
        case MapType():
            return {
                "type": "map",
                "keyType": spark_type(type_.key, column),
                "valueType": spark_type(type_.value, column),
                "valueContainsNull": not type_.value_required,
            }
        case DecimalType():
            return f"decimal({type_.precision},{type_.scale})"
        case _:
            name = _TO_SPARK.get(type_.kind)
            if name is None:
                raise UnsupportedFeature(
                    f"Spark has no type for {type_}", hint="read the table with scan(), without Spark", column=column
                )
            return name


# from Spark -------------------------------------------------------------------------------------------------------


def table_schema(schema: SparkType) -> Schema:
    """Convert a Spark schema to that of a new table, with field ids from 1, without defaults.

    Raises `InvalidType` for types that Iceberg does not have.

    >>> print(table_schema({"type": "struct", "fields": [{"name": "a", "type": "short", "nullable": True}]}))
    table {
      1: a: optional int
    }
    """
    fresh, _ = assign_fresh_ids(Schema(_floe_fields(schema, _IdCounter())))
    return fresh


def floe_type(spark: SparkType) -> Type:
    """Convert a Spark type; the field ids of nested types are only placeholders."""
    return _floe_type(spark, _IdCounter())


class _IdCounter:
    """Counts placeholder field ids."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last += 1
        return self._last


def _floe_fields(schema: SparkType, new_id: _IdCounter) -> tuple[Field, ...]:
    return tuple(
        Field(
            new_id(),
            field["name"],
            _floe_type(field["type"], new_id, field["name"]),
            required=not field["nullable"],
            doc=field.get("metadata", {}).get(COMMENT),
        )
        for field in schema["fields"]
    )


def _floe_type(spark: SparkType, new_id: _IdCounter, column: str | None = None) -> Type:
    if isinstance(spark, str):
        simple_type = _FROM_SPARK.get(spark)
        if simple_type is not None:
            return simple_type
        if decimal := _DECIMAL.fullmatch(spark):
            return DecimalType(int(decimal[1]), int(decimal[2]))
        if _STRING_TYPE.fullmatch(spark):
            return STRING
        raise InvalidType(f"Iceberg has no type for Spark's {spark.upper()}", column=column)
    match spark["type"]:
        case "struct":
            return StructType(_floe_fields(spark, new_id))
        case "array":
            return ListType(
                new_id(), _floe_type(spark["elementType"], new_id, column), element_required=not spark["containsNull"]
            )
        case "map":
            return MapType(
                new_id(),
                _floe_type(spark["keyType"], new_id, column),
                new_id(),
                _floe_type(spark["valueType"], new_id, column),
                value_required=not spark["valueContainsNull"],
            )
        case other:
            raise InvalidType(f"Iceberg has no type for Spark's {other}", column=column)
