"""Floe: Apache Iceberg tables in Python, with Spark through PySpark and no JAR.

Everything is reachable from here; what a program does not use is not imported.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> floe.Table.__module__, lake.create_table("db.orders", "order_id bigint not null").name
('floe.table.table', 'db.orders')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floe import errors, spec
    from floe.arrow.values.given import lit
    from floe.commit.operations.snapshot_summary import commit_properties
    from floe.spark.session import attach
    from floe.spark.starting import spark
    from floe.spec.expressions.dsl import col
    from floe.spec.schemas.schema import Schema
    from floe.table.connecting import connect, open
    from floe.table.lake import Lake
    from floe.table.table import Table

__version__ = "0.1.0"

__all__ = [
    "Lake",
    "Schema",
    "Table",
    "__version__",
    "attach",
    "col",
    "commit_properties",
    "connect",
    "errors",
    "lit",
    "open",
    "spark",
    "spec",
]

_HOMES = {
    "Lake": "floe.table.lake",
    "Schema": "floe.spec.schemas.schema",
    "Table": "floe.table.table",
    "attach": "floe.spark.session",
    "col": "floe.spec.expressions.dsl",
    "commit_properties": "floe.commit.operations.snapshot_summary",
    "connect": "floe.table.connecting",
    "errors": "floe.errors",
    "lit": "floe.arrow.values.given",
    "open": "floe.table.connecting",
    "spark": "floe.spark.starting",
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
