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
from floe.spark.bridge.rules import argument, expression_function
from floe.spark.schemas import floe_type
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR, Bucket, Transform, Truncate
from floe.spec.types import DecimalType, Type

SYSTEM: Final = "system"
_TIMES: Final[Mapping[str, Transform]] = {"years": YEAR, "months": MONTH, "days": DAY, "hours": HOUR}
_WITH_NUMBER: Final = {"bucket": Bucket, "truncate": Truncate}
_VERSIONS: Final = ("floe_version", "iceberg_version")
_NAMES: Final = (*_WITH_NUMBER, *_TIMES, *_VERSIONS)
_WHOLE: Final = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT"}
_SQL_NAMES: Final = {
    "int": "INT", "long": "BIGINT", "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP",
    "string": "STRING", "binary": "BINARY",
}  # fmt: skip
_DAY_OF_UTC: Final = "date_from_unix_date(CAST(({m} - pmod({m}, 86400000000)) DIV 86400000000 AS INT))"


class LakeFunctions(FunctionCatalog):
    """The part of a catalog that has to do with functions."""

    def listFunctions(self, namespace: Any) -> Any:
        """The functions of a namespace: all are in `system`."""
        here = self.jvm.read_strings(namespace) == (SYSTEM,)
        return self.jvm.identifiers([(SYSTEM, name) for name in _NAMES] if here else [])

    def loadFunction(self, identifier: Any) -> Any:
        """A function."""
        name = self._function_name(identifier)
        if name is None:
            raise JavaError("", self.jvm.sql("catalyst.analysis.NoSuchFunctionException")(identifier))
        return TransformFunction(self.jvm, name)

    def functionExists(self, identifier: Any) -> bool:
        """Whether there is such a function."""
        return self._function_name(identifier) is not None

    def _function_name(self, identifier: Any) -> str | None:
        *namespace, name = self.jvm.read_identifier(identifier)
        return name.lower() if namespace in ([], [SYSTEM]) and name.lower() in _NAMES else None


class TransformFunction(UnboundFunction):
    """A function whose arguments are not known yet."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        super().__init__(jvm)
        self._name = name

    def name(self) -> str:
        """Its name."""
        return self._name

    def description(self) -> str:
        """What it takes."""
        if self._name in _VERSIONS:
            return f"{self._name}(): the version of Floe"
        number = "number, " if self._name in _WITH_NUMBER else ""
        return f"{self._name}({number}value): what the partition transform of that name gives"

    def bind(self, arguments: Any) -> Any:
        """The function for arguments of these types."""
        given = [field["type"] for field in self.jvm.read_data_type(arguments)["fields"]]
        if self._name in _VERSIONS:
            self._check(not given, "it takes no arguments")
            return expression_function(
                self.jvm, self._name, f"iceberg.{self._name}", (), lambda: F.lit(version("floe"))
            )
        numbers, values = (given[:1], given[1:]) if self._name in _WITH_NUMBER else ([], given)
        self._check(len(values) == 1, "give it " + ("a number and a value" if numbers else "one value"))
        self._check(not numbers or numbers[0] in _WHOLE, "its first argument is an INT")
        type_ = floe_type(values[0])
        transform = _TIMES.get(self._name) or _WITH_NUMBER[self._name](1)
        known = isinstance(type_, DecimalType) or type_.kind in _SQL_NAMES
        self._check(known and transform.can_transform(type_), f"it takes no {type_}")
        small = _WHOLE.get(values[0]) if isinstance(values[0], str) and self._name == "truncate" else None
        return _Transform(self.jvm, self._name, type_, small or _sql_name(type_)).bound()

    def _check(self, is_right: bool, message: str) -> None:
        if not is_right:
            raise UnsupportedFeature(f"{self._name} cannot be used so: {message}")


class _Transform:
    """A transform of values of a type, in Spark's own expressions."""

    def __init__(self, jvm: Jvm, name: str, type_: Type, sql_type: str) -> None:
        self._jvm, self._name, self._type, self._sql_type = jvm, name, type_, sql_type
        self._has_number = name in _WITH_NUMBER

    def bound(self) -> Any:
        """The function, under the name that Java's catalog has for it."""
        types = ("INT", self._sql_type) if self._has_number else (self._sql_type,)
        canonical_name = f"iceberg.{self._name}({self._sql_type.lower()})"
        return expression_function(self._jvm, self._name, canonical_name, types, self._expressed)

    def _expressed(self) -> Column:
        match self._name:
            case "bucket":
                return self._bucket(F.col(argument(1)), self._number("the number of buckets"))
            case "truncate":
                return self._truncated(F.col(argument(1)), self._number("the width"))
            case _:
                return F.expr(self._time(argument(0)))

    @staticmethod
    def _number(what: str) -> Column:
        """The first argument, which is refused if it is none that a transform can have."""
        number = F.col(argument(0))
        refused = F.raise_error(F.concat(F.lit(f"{what} must be 1 to {2**31 - 1}, found "), number.cast("string")))
        return F.when(number > 0, number).when(number <= 0, refused.cast("int"))

    def _bucket(self, value: Column, count: Column) -> Column:
        match self._type.kind:
            case "string" | "binary":
                hashed = murmur3_of_bytes(self._jvm, value)
            case "decimal":
                hashed = murmur3_of_bytes(self._jvm, unscaled_bytes(self._jvm, value))
            case kind:
                plain = {"int": value, "date": F.unix_date(value)}
                hashed = murmur3_of_long(plain[kind].cast("bigint") if kind in plain else value)
        return F.when(value.isNotNull(), F.pmod(hashed.bitwiseAND(F.lit(2**31 - 1)), count))

    def _truncated(self, value: Column, width: Column) -> Column:
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
        day = _DAY_OF_UTC.format(m=micros) if zoned else f"CAST({value} AS DATE)"
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
