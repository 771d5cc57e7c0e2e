"""The functions of a catalog: `lake.system.bucket(16, id)` and the other transforms, and the version of Floe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from floe.errors import UnsupportedFeature
from floe.spark.bridge.exceptions import JavaError
from floe.spark.bridge.function_rule import Expressible, argument
from floe.spark.bridge.interfaces.functions import FunctionCatalog, ScalarFunction, UnboundFunction
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import murmur3_of_bytes
from floe.spark.columns import floe_type
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR, Bucket, Transform, Truncate
from floe.spec.types import DecimalType, Type

__all__ = ["LakeFunctions"]

SYSTEM: Final = "system"
_TIMES: Final[Mapping[str, Transform]] = {"years": YEAR, "months": MONTH, "days": DAY, "hours": HOUR}
_WITH_NUMBER: Final = {"bucket": Bucket, "truncate": Truncate}
_VERSIONS: Final = ("floe_version", "iceberg_version")
_NAMES: Final = (*_WITH_NUMBER, *_TIMES, *_VERSIONS)
_WHOLE: Final = ("byte", "short", "integer")
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
            return VersionFunction(self.jvm, self._name)
        numbers, values = (given[:1], given[1:]) if self._name in _WITH_NUMBER else ([], given)
        self._check(len(values) == 1, "give it " + ("a number and a value" if numbers else "one value"))
        self._check(not numbers or numbers[0] in _WHOLE, "its first argument is an INT")
        type_ = floe_type(values[0])
        transform = _TIMES.get(self._name) or _WITH_NUMBER[self._name](1)
        known = isinstance(type_, DecimalType) and self._name == "truncate"
        self._check(transform.can_transform(type_) and (known or type_.kind in _SQL_NAMES), f"it takes no {type_}")
        return BoundTransformFunction(self.jvm, self._name, type_)

    def _check(self, is_right: bool, message: str) -> None:
        if not is_right:
            raise UnsupportedFeature(f"{self._name} cannot be used so: {message}")


class VersionFunction(ScalarFunction, Expressible):
    """The version of Floe."""

    def __init__(self, jvm: Jvm, name: str) -> None:
        super().__init__(jvm)
        self._name = name

    def key(self) -> Any:
        """Functions of a name are the same."""
        return self._name

    def name(self) -> str:
        """Its name."""
        return self._name

    def canonicalName(self) -> str:
        """Its name."""
        return self._name

    def inputTypes(self) -> Any:
        """None."""
        return self.jvm.array("org.apache.spark.sql.types.DataType", [])

    def resultType(self) -> Any:
        """A text."""
        return self.jvm.data_type("string")

    def argument_types(self) -> Sequence[str]:
        """None."""
        return ()

    def expressed(self) -> Column:
        """The version."""
        return F.lit(version("floe"))

    def produceResult(self, row: Any) -> Any:
        """The version."""
        return self.jvm.named("org.apache.spark.unsafe.types.UTF8String").fromString(version("floe"))


class BoundTransformFunction(ScalarFunction, Expressible):
    """A transform of values of a type."""

    def __init__(self, jvm: Jvm, name: str, type_: Type) -> None:
        super().__init__(jvm)
        self._name, self._type = name, type_
        self._has_number = name in _WITH_NUMBER

    def key(self) -> Any:
        """Functions of a name and a type are the same."""
        return (self._name, str(self._type))

    def name(self) -> str:
        """Its name."""
        return self._name

    def canonicalName(self) -> str:
        """As Java's catalog names it."""
        return f"iceberg.{self._name}({self._sql_type.lower()})"

    @property
    def _sql_type(self) -> str:
        return _SQL_NAMES.get(self._type.kind) or str(self._type)

    def argument_types(self) -> Sequence[str]:
        """A number for some, and the value."""
        return ("INT", self._sql_type) if self._has_number else (self._sql_type,)

    def inputTypes(self) -> Any:
        """The same, as Spark's."""
        types = [self.jvm.sql("types.DataType").fromDDL(type_) for type_ in self.argument_types()]
        return self.jvm.array("org.apache.spark.sql.types.DataType", types)

    def resultType(self) -> Any:
        """A number, a date, or the type of the value."""
        sql = {"truncate": self._sql_type, "days": "DATE"}.get(self._name, "INT")
        return self.jvm.sql("types.DataType").fromDDL(sql)

    def expressed(self) -> Column:
        """The transform in SQL."""
        value = argument(1 if self._has_number else 0)
        if self._name == "bucket":
            if self._type.kind in ("string", "binary"):
                hashed = murmur3_of_bytes(self.jvm, F.col(value))
            else:
                plain = {"int": f"CAST({value} AS BIGINT)", "date": f"CAST(unix_date({value}) AS BIGINT)"}
                hashed = F.expr(f"hash(-1693959553, {plain.get(self._type.kind, value)})")
            numbered = F.pmod(hashed.bitwiseAND(F.lit(2**31 - 1)), F.col(argument(0)))
            return F.when(F.col(value).isNotNull(), numbered)
        if self._name == "truncate":
            return F.expr(self._truncated(value, argument(0)))
        return F.expr(self._time(value))

    def _truncated(self, value: str, width: str) -> str:
        match self._type:
            case DecimalType(scale=scale):
                step = f"CAST({width} AS DECIMAL(38, 0)) / CAST({10**scale} AS DECIMAL(38, 0))"
                return f"CAST({value} - pmod({value}, CAST({step} AS {self._type})) AS {self._type})"
            case _ if self._type.kind in ("int", "long"):
                return f"{value} - pmod({value}, CAST({width} AS {self._sql_type}))"
            case _:
                return f"substring({value}, 1, {width})"

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

    def produceResult(self, row: Any) -> Any:
        """What the transform gives, on the driver: Spark computes it of constants as of columns."""
        values = [self._given(row, place) for place in range(len(self.argument_types()))]
        if values[-1] is None or values[0] is None:
            return None
        made = _WITH_NUMBER[self._name](values[0]) if self._has_number else _TIMES[self._name]
        return self._taken(made.apply(self._type, values[-1]))

    def _given(self, row: Any, place: int) -> Any:
        if row.isNullAt(place):
            return None
        if self._has_number and place == 0:
            return row.getInt(place)
        match self._type:
            case DecimalType(precision=precision, scale=scale):
                return row.getDecimal(place, precision, scale).toJavaBigDecimal()
            case _ if self._type.kind == "string":
                return row.getUTF8String(place).toString()
            case _ if self._type.kind == "binary":
                return bytes(row.getBinary(place))
            case _ if self._type.kind in ("int", "date"):
                return row.getInt(place)
            case _:
                return row.getLong(place)

    def _taken(self, result: Any) -> Any:
        """A result as Spark keeps it inside."""
        match self._type if self._name == "truncate" else None:
            case DecimalType():
                return self.jvm.sql("types.Decimal").apply(self.jvm.named("java.math.BigDecimal")(str(result)))
            case kind if kind is not None and kind.kind == "string":
                return self.jvm.named("org.apache.spark.unsafe.types.UTF8String").fromString(result)
            case kind if kind is not None and kind.kind == "long" and abs(result) < 2**31:
                # a number that is not large goes to the JVM as an INT
                raise UnsupportedFeature("a BIGINT constant cannot be truncated", hint="cast it to INT")
            case _:
                return result
