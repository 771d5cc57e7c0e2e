r"""Columns both ways: Spark's schemas, as the JSON that Spark itself writes, and Floe's.

| Iceberg | Spark |
|---|---|
| `timestamptz`, `timestamp` | `TIMESTAMP`, `TIMESTAMP_NTZ` |
| `uuid` | `STRING` |
| `fixed`, `binary` | `BINARY` |
| `int` | `INT`; `TINYINT` and `SMALLINT` are made `int` |
| `string` | `STRING`; `CHAR` and `VARCHAR` are made `string` |
| `unknown` | `VOID` |
| `time`, `timestamp_ns`, `timestamptz_ns` | `STRING` of one width, to be read only (`2023-11-14 22:13:20.123456789`) |
| `geometry`, `geography` | `BINARY` (well-known binary), to be read only |

Values as SQL that Spark reads: the defaults of columns.

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
from floe.spec.expressions.printing import literal_to_text
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

# Values as SQL that Spark reads: the defaults of columns.

_SUFFIXES: Final = {"long": "L", "double": "D", "float": "F"}


def spark_literal(type_: Type, value: Any) -> str:
    r"""A value of a column's type as SQL.

    >>> from floe.spec.types import BINARY, DOUBLE, LONG
    >>> spark_literal(LONG, 7), spark_literal(BINARY, b"\x01"), spark_literal(DOUBLE, float("inf"))
    ('7L', "X'01'", "CAST('Infinity' AS DOUBLE)")
    """
    kind = type_.kind
    if isinstance(type_, DecimalType):
        return f"CAST({value:f} AS DECIMAL({type_.precision},{type_.scale}))"
    if kind in ("float", "double") and not math.isfinite(value):
        return f"CAST('{_named(value)}' AS {kind.upper()})"
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
            return quoted(str(value))
        case "date" | "timestamp" | "timestamptz":
            return literal_to_text(value, type_)
        case _:
            return "NULL"


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def quoted(text: str) -> str:
    """A text in quotation marks."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


SparkType: TypeAlias = Any
"""A Spark type as JSON: the name of a simple one, or an object."""

SparkField: TypeAlias = dict[str, Any]

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
SHOWN_AS_TEXT: Final = frozenset({"time", "timestamp_ns", "timestamptz_ns"})
"""The types whose values Spark has as texts: all of one width, so that they order as the values do."""

ONLY_READ: Final = frozenset({"time", "timestamp_ns", "timestamptz_ns", "geometry", "geography"})
"""The types that Spark lacks: their values can be shown in another type, but not be written."""

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
_TEXT: Final = re.compile(r"(?:char|varchar)\(\d+\)|string collate UTF8_BINARY")


# to Spark ---------------------------------------------------------------------------------------------------------


def spark_schema(fields: Iterable[Field]) -> SparkType:
    """The columns as a Spark schema, with comments and defaults.

    >>> spark_schema([Field(1, "id", LONG, required=True, doc="the key")])["fields"]
    [{'name': 'id', 'type': 'long', 'nullable': False, 'metadata': {'comment': 'the key'}}]
    """
    return {"type": "struct", "fields": [spark_field(field) for field in fields]}


def spark_field(field: Field) -> SparkField:
    """A column of Spark."""
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
    """The type as Spark's.

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
            found = _TO_SPARK.get(type_.kind)
            if found is None:
                raise UnsupportedFeature(
                    f"Spark has no type for {type_}", hint="read the table with scan(), without Spark", column=column
                )
            return found


# from Spark -------------------------------------------------------------------------------------------------------


def table_schema(schema: SparkType) -> Schema:
    """The columns of a new table, with ids counted from 1; defaults are not in it.

    >>> print(table_schema({"type": "struct", "fields": [{"name": "a", "type": "short", "nullable": True}]}))
    table {
      1: a: optional int
    }
    """
    fresh, _ = assign_fresh_ids(Schema(_fields(schema, _Counter())))
    return fresh


def floe_type(spark: SparkType) -> Type:
    """The type that a Spark type means; the ids within it mean nothing yet."""
    return _type(spark, _Counter())


class _Counter:
    """Ids that mean nothing but differ."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> int:
        self._last += 1
        return self._last


def _fields(schema: SparkType, new_id: _Counter) -> tuple[Field, ...]:
    return tuple(
        Field(
            new_id(),
            field["name"],
            _type(field["type"], new_id, field["name"]),
            required=not field["nullable"],
            doc=field.get("metadata", {}).get(COMMENT),
        )
        for field in schema["fields"]
    )


def _type(spark: SparkType, new_id: _Counter, column: str | None = None) -> Type:
    if isinstance(spark, str):
        found = _FROM_SPARK.get(spark)
        if found is not None:
            return found
        if decimal := _DECIMAL.fullmatch(spark):
            return DecimalType(int(decimal[1]), int(decimal[2]))
        if _TEXT.fullmatch(spark):
            return STRING
        raise InvalidType(f"Iceberg has no type for Spark's {spark.upper()}", column=column)
    match spark["type"]:
        case "struct":
            return StructType(_fields(spark, new_id))
        case "array":
            return ListType(
                new_id(), _type(spark["elementType"], new_id, column), element_required=not spark["containsNull"]
            )
        case "map":
            return MapType(
                new_id(),
                _type(spark["keyType"], new_id, column),
                new_id(),
                _type(spark["valueType"], new_id, column),
                value_required=not spark["valueContainsNull"],
            )
        case other:
            raise InvalidType(f"Iceberg has no type for Spark's {other}", column=column)
