r"""Values as SQL that Spark reads: the defaults of columns.

>>> from floe.spec.types import DATE, STRING
>>> spark_literal(DATE, 17486), spark_literal(STRING, "it's")
("DATE '2017-11-16'", "'it\\'s'")
"""

from __future__ import annotations

import math
from typing import Any, Final

from floe.spec.expressions.printing import literal_to_text
from floe.spec.types import DecimalType, Type

__all__ = ["quoted", "spark_literal"]

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
