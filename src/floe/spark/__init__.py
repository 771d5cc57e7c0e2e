"""Floe on Spark: catalogs, scans and writes that are Spark's own interfaces, implemented in Python.

| module | what it has |
|---|---|
| `session` | `floe.spark` and `floe.attach`: sessions with lakes as catalogs |
| `settings`, `configured_catalogs` | all settings and options; catalogs that settings configure for Java Iceberg |
| `sql` | statements that Spark does not have |
| `catalog` | a lake as a catalog: namespaces, tables, views, functions |
| `procedures` | `CALL lake.system.…` |
| `names`, `schemas` | names of tables in SQL; Spark's types and schemas |
| `read` | scans |
| `write` | INSERT, DELETE, UPDATE, MERGE |
| `streaming` | tables as sources and sinks of streams |
| `data_source` | `spark.read.format("iceberg")`, also in sessions that Floe has not made |
| `executors` | what is sent to executors |
| `bridge` | everything that calls the JVM |

`floe.spark` is also the function that starts a session. Importing a module of this package makes the name `floe.spark`
refer to the package, so the package is callable and calls that function.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `floe.spark.session.spark`."""
        return import_module("floe.spark.session").spark(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
