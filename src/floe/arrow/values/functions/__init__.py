"""The functions and operators of SQL values: one table, put together from a module for each subject."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from floe.arrow.values.functions.arithmetic import FUNCTIONS as ARITHMETIC
from floe.arrow.values.functions.arity import Known
from floe.arrow.values.functions.choosing import FUNCTIONS as CHOOSING
from floe.arrow.values.functions.comparing import FUNCTIONS as COMPARING
from floe.arrow.values.functions.differing import FUNCTIONS as DIFFERING
from floe.arrow.values.functions.moments import FUNCTIONS as MOMENTS
from floe.arrow.values.functions.structures import FUNCTIONS as STRUCTURES
from floe.arrow.values.functions.texts import FUNCTIONS as TEXTS

__all__ = ["FUNCTIONS"]

FUNCTIONS: Mapping[str, Known] = MappingProxyType(
    {**ARITHMETIC, **COMPARING, **CHOOSING, **TEXTS, **MOMENTS, **STRUCTURES, **DIFFERING}
)
"""All functions by name, in lower case; operators go by their signs."""
