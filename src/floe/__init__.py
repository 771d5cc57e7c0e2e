"""Floe: Apache Iceberg tables in Python, with Spark through PySpark and no JAR.

Everything is reachable from here; what a program does not use is not imported.

>>> import floe
>>> floe.Schema.__module__
'floe.spec.schemas.schema'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floe import errors, spec
    from floe.spec.expressions.dsl import col
    from floe.spec.schemas.schema import Schema

__version__ = "0.1.0"

__all__ = ["Schema", "__version__", "col", "errors", "spec"]

_HOMES = {
    "Schema": "floe.spec.schemas.schema",
    "col": "floe.spec.expressions.dsl",
    "errors": "floe.errors",
    "spec": "floe.spec",
}
"""Where each public name lives; a home that ends in the name itself is the module."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'floe' has no attribute {name!r}")
    module = import_module(home)
    value = module if home == f"floe.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
