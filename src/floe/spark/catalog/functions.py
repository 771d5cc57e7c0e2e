"""The functions of a catalog: `lake.system.bucket(16, id)` and the other transforms, and the version of Floe."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from pyspark.sql import Column, functions as F

from floe.errors import UnsupportedFeature
from floe.spark.bridge.exceptions import JavaError
from floe.spark.bridge.interfaces.catalog import FunctionCatalog, UnboundFunction
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import murmur3_of_bytes, murmur3_of_long, truncated_decimal, unscaled_bytes
from floe.spark.bridge.rules import argument_name, expression_function
from floe.spark.schemas import floe_type
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR, Bucket, Transform, Truncate
from floe.spec.types import DecimalType, Type

SYSTEM: Final = "system"
"""The namespace of the functions."""

_TIME_TRANSFORMS: Final[Mapping[str, Transform]] = {"years": YEAR, "months": MONTH, "days": DAY, "hours": HOUR}
_PARAMETRIC_TRANSFORMS: Final = {"bucket": Bucket, "truncate": Truncate}
"""Transforms with a number as first argument."""

_VERSIONS: Final = ("floe_version", "iceberg_version")
_NAMES: Final = (*_PARAMETRIC_TRANSFORMS, *_TIME_TRANSFORMS, *_VERSIONS)
_INTEGER_TYPES: Final = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT"}
_SQL_NAMES: Final = {
    "int": "INT", "long": "BIGINT", "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP",
    "string": "STRING", "binary": "BINARY",
}  # fmt: skip
_UTC_DATE: Final = "date_from_unix_date(CAST(({m} - pmod({m}, 86400000000)) DIV 86400000000 AS INT))"


class LakeFunctions(FunctionCatalog):
    """The methods of a catalog for functions."""

    def listFunctions(self, namespace: Any) -> Any:
        """List the functions of a namespace; all are in `system`."""
        is_system = self.jvm.read_strings(namespace) == (SYSTEM,)
        return self.jvm.identifiers([(SYSTEM, name) for name in _NAMES] if is_system else [])

    def loadFunction(self, identifier: Any) -> Any:
        """Load a function; raises Spark's error if there is none."""
        name = self._function_name(identifier)
        if name is None:
            raise JavaError("", self.jvm.sql("catalyst.analysis.NoSuchFunctionException")(identifier))
        return TransformFunction(self.jvm, name)

    def functionExists(self, identifier: Any) -> bool:
        """Whether a function exists."""
        return self._function_name(identifier) is not None

    def _function_name(self, identifier: Any) -> str | None:
        *namespace, name = self.jvm.read_identifier(identifier)
        return name.lower() if namespace in ([], [SYSTEM]) and name.lower() in _NAMES else None


class TransformFunction(UnboundFunction):
    """A function before Spark has bound it to the types of its arguments."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        super().__init__(jvm)
        self._name = name

    def name(self) -> str:
        """The name of the function."""
        return self._name

    def description(self) -> str:
        """The arguments and the result, as DESCRIBE FUNCTION shows them."""
        if self._name in _VERSIONS:
            return f"{self._name}(): the version of Floe"
        number = "number, " if self._name in _PARAMETRIC_TRANSFORMS else ""
        return f"{self._name}({number}value): the result of the partition transform of that name"

    def bind(self, arguments: Any) -> Any:
        """The function for arguments of the types in a `StructType`; raises if it does not take them."""
        types = [field["type"] for field in self.jvm.read_data_type(arguments)["fields"]]
        if self._name in _VERSIONS:
            self._check(not types, "it takes no arguments")
            return expression_function(
                self.jvm, self._name, f"iceberg.{self._name}", (), lambda: F.lit(version("floe"))
            )
        numbers, values = (types[:1], types[1:]) if self._name in _PARAMETRIC_TRANSFORMS else ([], types)
        self._check(len(values) == 1, "give it " + ("a number and a value" if numbers else "one value"))
        self._check(not numbers or numbers[0] in _INTEGER_TYPES, "its first argument is an INT")
        type_ = floe_type(values[0])
        transform = _TIME_TRANSFORMS.get(self._name) or _PARAMETRIC_TRANSFORMS[self._name](1)
        has_sql_type = isinstance(type_, DecimalType) or type_.kind in _SQL_NAMES
        self._check(has_sql_type and transform.can_transform(type_), f"it takes no {type_}")
        # truncate returns the type of its argument, also TINYINT and SMALLINT, which Iceberg does not have
        small = _INTEGER_TYPES.get(values[0]) if isinstance(values[0], str) and self._name == "truncate" else None
        return _Transform(self.jvm, self._name, type_, small or _sql_name(type_)).bind()

    def _check(self, valid: bool, message: str) -> None:
        if not valid:
            raise UnsupportedFeature(f"{self._name} cannot be used so: {message}")


class _Transform:
    """A transform of values of one type, as expressions of Spark."""

    def __init__(self, jvm: Jvm, name: str, type_: Type, sql_type: str) -> None:
        self._jvm, self._name, self._type, self._sql_type = jvm, name, type_, sql_type
        self._has_number = name in _PARAMETRIC_TRANSFORMS

    def bind(self) -> Any:
        """The bound function, with the canonical name that it has in Java Iceberg."""
        types = ("INT", self._sql_type) if self._has_number else (self._sql_type,)
        canonical_name = f"iceberg.{self._name}({self._sql_type.lower()})"
        return expression_function(self._jvm, self._name, canonical_name, types, self._expression)

    def _expression(self) -> Column:
        match self._name:
            case "bucket":
                return self._bucket(F.col(argument_name(1)), self._number("the number of buckets"))
            case "truncate":
                return self._truncate(F.col(argument_name(1)), self._number("the width"))
            case _:
                return F.expr(self._time(argument_name(0)))

    @staticmethod
    def _number(meaning: str) -> Column:
        """The first argument; the query fails if it is not positive."""
        number = F.col(argument_name(0))
        error = F.raise_error(F.concat(F.lit(f"{meaning} must be 1 to {2**31 - 1}, found "), number.cast("string")))
        return F.when(number > 0, number).when(number <= 0, error.cast("int"))

    def _bucket(self, value: Column, count: Column) -> Column:
        match self._type.kind:
            case "string" | "binary":
                hashed = murmur3_of_bytes(self._jvm, value)
            case "decimal":
                hashed = murmur3_of_bytes(self._jvm, unscaled_bytes(self._jvm, value))
            case kind:
                integers = {"int": value, "date": F.unix_date(value)}
                hashed = murmur3_of_long(integers[kind].cast("bigint") if kind in integers else value)
        return F.when(value.isNotNull(), F.pmod(hashed.bitwiseAND(F.lit(2**31 - 1)), count))

    def _truncate(self, value: Column, width: Column) -> Column:
        match self._type:
            case DecimalType(precision=precision, scale=scale):
                return truncated_decimal(self._jvm, value, width.cast("bigint"), precision, scale)
            case _ if self._type.kind in ("int", "long"):
                wide = value if self._type.kind == "long" else value.cast("int")
                return (wide - F.pmod(wide, width.cast(self._type.kind))).cast(self._sql_type)
            case _:
                return F.substring(value, F.lit(1), width)

    def _time(self, value: str) -> str:
        micros = f"unix_micros({value})"
        zoned = self._type.kind == "timestamptz"
        day = _UTC_DATE.format(m=micros) if zoned else f"CAST({value} AS DATE)"
        match self._name:
            case "years":
                return f"year({day}) - 1970"
            case "months":
                return f"(year({day}) - 1970) * 12 + month({day}) - 1"
            case "days":
                return day
            case _ if zoned:
                return f"CAST(({micros} - pmod({micros}, 3600000000)) DIV 3600000000 AS INT)"
            case _:
                return f"unix_date({day}) * 24 + hour({value})"


def _sql_name(type_: Type) -> str:
    return f"DECIMAL({type_.precision},{type_.scale})" if isinstance(type_, DecimalType) else _SQL_NAMES[type_.kind]
