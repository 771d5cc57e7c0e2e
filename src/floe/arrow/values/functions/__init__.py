"""The functions and operators of SQL values: one table, put together from a module for each subject."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from floe.arrow.values.compiled import Known
from floe.arrow.values.functions.arithmetic import FUNCTIONS as ARITHMETIC
from floe.arrow.values.functions.comparisons import (
    CONDITIONALS as CHOOSING,
    DISTINCT as DIFFERING,
    FUNCTIONS as COMPARING,
)
from floe.arrow.values.functions.datetimes import FUNCTIONS as MOMENTS
from floe.arrow.values.functions.nested import FUNCTIONS as STRUCTURES
from floe.arrow.values.functions.strings import FUNCTIONS as TEXTS

__all__ = ["FUNCTIONS"]

FUNCTIONS: Mapping[str, Known] = MappingProxyType(
    {**ARITHMETIC, **COMPARING, **CHOOSING, **TEXTS, **MOMENTS, **STRUCTURES, **DIFFERING}
)
"""All functions by name, in lower case; operators go by their signs."""
