"""The functions and operators of SQL values, in one table.

- `arithmetic`: numbers
- `comparisons`: comparisons, logic, patterns, and conditional functions
- `strings`: text and bytes
- `datetimes`: dates and timestamps
- `nested`: structs, lists and maps
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from floe.arrow.values.compiled import Function
from floe.arrow.values.functions.arithmetic import FUNCTIONS as ARITHMETIC
from floe.arrow.values.functions.comparisons import (
    CONDITIONALS,
    DISTINCT,
    FUNCTIONS as COMPARISONS,
)
from floe.arrow.values.functions.datetimes import FUNCTIONS as DATETIMES
from floe.arrow.values.functions.nested import FUNCTIONS as NESTED
from floe.arrow.values.functions.strings import FUNCTIONS as STRINGS

__all__ = ["FUNCTIONS"]

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {**ARITHMETIC, **COMPARISONS, **CONDITIONALS, **STRINGS, **DATETIMES, **NESTED, **DISTINCT}
)
"""All functions by lower-case name, and all operators by sign."""
