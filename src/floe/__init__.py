"""Floe: Apache Iceberg tables in Python, with Spark through PySpark and no JAR.

All public names can be imported from here. Modules are imported when one of their names is first used.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> floe.Table.__module__, lake.create_table("db.orders", "order_id bigint not null").name
('floe.table.table', 'db.orders')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe.exports import lazy_exports

if TYPE_CHECKING:
    from floe import errors as errors, spec as spec
    from floe.arrow.values.user_values import lit as lit
    from floe.commit.operations.snapshot_change import commit_properties as commit_properties
    from floe.spark.session import attach as attach, spark as spark
    from floe.spec.expressions.dsl import col as col
    from floe.spec.schemas.schema import Schema as Schema
    from floe.table.lake import Lake as Lake, connect as connect, open as open
    from floe.table.table import Table as Table

__version__ = "0.1.0"

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "floe.arrow.values.user_values": "lit",
        "floe.commit.operations.snapshot_change": "commit_properties",
        "floe.errors": "errors",
        "floe.spark.session": "attach spark",
        "floe.spec": "spec",
        "floe.spec.expressions.dsl": "col",
        "floe.spec.schemas.schema": "Schema",
        "floe.table.lake": "Lake connect open",
        "floe.table.table": "Table",
    },
)
__all__ += ["__version__"]
