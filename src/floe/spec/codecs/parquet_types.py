"""Parquet types of each type: physical type, logical annotation, length (spec: Appendix A, Parquet)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floe.spec.types import DecimalType, FixedType, GeographyType, GeometryType, Type
from floe.spec.values.exact_numbers import bytes_for_precision

INT32_MAX_DIGITS = 9
INT64_MAX_DIGITS = 18
UUID_LENGTH = 16
VARIANT_VERSION = 1
"""The version of the variant encoding that the format supports (spec: Semi-structured Types)."""


@dataclass(frozen=True, slots=True)
class LogicalAnnotation:
    """A logical type of Parquet and its parameters.

    >>> print(LogicalAnnotation("DECIMAL", precision=9, scale=2))
    DECIMAL(precision=9, scale=2)
    """

    name: str
    precision: int | None = None
    scale: int | None = None
    unit: str | None = None
    """`MICROS` or `NANOS`, of a time or timestamp."""

    adjusted_to_utc: bool | None = None
    crs: str | None = None
    algorithm: str | None = None
    version: int | None = None

    def __str__(self) -> str:
        fields = [(name, getattr(self, name)) for name in self.__slots__ if name != "name"]
        parameters = ", ".join(f"{name}={value}" for name, value in fields if value is not None)
        return f"{self.name}({parameters})" if parameters else self.name


@dataclass(frozen=True, slots=True)
class ParquetType:
    """The Parquet type of a type: `physical` is a physical type of Parquet, or `group` for nested types.

    The children of a variant have no field ids and are identified by name (`unnumbered_children`).
    """

    physical: str
    logical: LogicalAnnotation | None = None
    length: int | None = None
    """The bytes of a `fixed_len_byte_array`."""

    unnumbered_children: tuple[str, ...] = ()


_Annotation = LogicalAnnotation


def _timestamp(unit: str, adjusted_to_utc: bool) -> ParquetType:
    return ParquetType("int64", _Annotation("TIMESTAMP", unit=unit, adjusted_to_utc=adjusted_to_utc))


_PARQUET_TYPES: dict[str, ParquetType] = {
    "boolean": ParquetType("boolean"),
    "int": ParquetType("int32"),
    "long": ParquetType("int64"),
    "float": ParquetType("float"),
    "double": ParquetType("double"),
    "date": ParquetType("int32", _Annotation("DATE")),
    "time": ParquetType("int64", _Annotation("TIME", unit="MICROS", adjusted_to_utc=False)),
    "timestamp": _timestamp("MICROS", False),
    "timestamptz": _timestamp("MICROS", True),
    "timestamp_ns": _timestamp("NANOS", False),
    "timestamptz_ns": _timestamp("NANOS", True),
    "string": ParquetType("byte_array", _Annotation("STRING")),
    "uuid": ParquetType("fixed_len_byte_array", _Annotation("UUID"), UUID_LENGTH),
    "binary": ParquetType("byte_array"),
    "struct": ParquetType("group"),
    "list": ParquetType("group", _Annotation("LIST")),
    "map": ParquetType("group", _Annotation("MAP")),
    "variant": ParquetType(
        "group", _Annotation("VARIANT", version=VARIANT_VERSION), unnumbered_children=("metadata", "value")
    ),
}


def _decimal(type_: DecimalType) -> ParquetType:
    annotation = _Annotation("DECIMAL", precision=type_.precision, scale=type_.scale)
    if type_.precision <= INT32_MAX_DIGITS:
        return ParquetType("int32", annotation)
    if type_.precision <= INT64_MAX_DIGITS:
        return ParquetType("int64", annotation)
    return ParquetType("fixed_len_byte_array", annotation, bytes_for_precision(type_.precision))


def _fixed(type_: FixedType) -> ParquetType:
    return ParquetType("fixed_len_byte_array", None, type_.length)


def _geometry(type_: GeometryType) -> ParquetType:
    return ParquetType("byte_array", _Annotation("GEOMETRY", crs=type_.effective_crs))


def _geography(type_: GeographyType) -> ParquetType:
    annotation = _Annotation("GEOGRAPHY", crs=type_.effective_crs, algorithm=type_.effective_algorithm.upper())
    return ParquetType("byte_array", annotation)


_WITH_PARAMETERS: dict[str, Callable[[Any], ParquetType]] = {
    "decimal": _decimal,
    "fixed": _fixed,
    "geometry": _geometry,
    "geography": _geography,
}


def parquet_type(type_: Type) -> ParquetType | None:
    """Return the Parquet type of a type; None for `unknown`, which data files omit.

    >>> from floe.spec.types import UNKNOWN, DecimalType
    >>> stored = parquet_type(DecimalType(20, 2))
    >>> stored.physical, stored.length, str(stored.logical)
    ('fixed_len_byte_array', 9, 'DECIMAL(precision=20, scale=2)')
    >>> parquet_type(UNKNOWN) is None
    True
    """
    make = _WITH_PARAMETERS.get(type_.kind)
    return make(type_) if make is not None else _PARQUET_TYPES.get(type_.kind)
