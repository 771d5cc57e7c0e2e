"""`format("iceberg")` in sessions with lakes: the tables of their catalogs by name, and others by path.

They are the very tables of the catalogs, so that reads, writes and streams of them are those of `spark.table` and
`df.writeTo`. `load("lake.db.t")`, `load("db.t")` in the current catalog, `load("warehouse/db/t")`, and
`load("warehouse/db/t#snapshots")` for a metadata table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floe.catalog.identifiers import parse_namespace
from floe.errors import InvalidInput, NoSuchTable
from floe.plan.metadata_tables.tables import NAMES
from floe.spark.bridge.jvm import Jvm
from floe.spark.catalog.catalog import SparkCatalog
from floe.spark.datasource import table_of
from floe.spark.names import CHANGES, Selected
from floe.spark.tables.table import metadata_or_data_table

__all__ = ["found_table"]


def found_table(jvm: Jvm, catalogs: Mapping[str, SparkCatalog], options: Mapping[str, str]) -> Any:
    """The table that the options of a read or write say."""
    where = options.get("path")
    if where is None:
        raise InvalidInput('which table? write load("lake.db.t") or load("warehouse/db/t")')
    if "catalog" not in options and "/" not in where and (named := _named(jvm, catalogs, where)) is not None:
        catalog, name = named
        found = catalog.find_table(name)
        if found is None:
            raise NoSuchTable("there is no such table", table=where)
        return found
    path, _, kind = where.partition("#")
    if kind and kind.lower() not in (*NAMES, CHANGES):
        raise InvalidInput(f"there is no metadata table {kind!r}", hint=f"there are {', '.join((*NAMES, CHANGES))}")
    table = table_of({**options, "path": path})
    name = (path, kind) if kind else (path,)
    return metadata_or_data_table(jvm, name, table, Selected((path,), metadata_table=kind.lower() or None))


def _named(jvm: Jvm, catalogs: Mapping[str, SparkCatalog], where: str) -> tuple[SparkCatalog, tuple[str, ...]] | None:
    """The catalog of a name, and what it is called there; None if it is in none of the session's."""
    parts = tuple(parse_namespace(where))
    if len(parts) > 1 and parts[0] in catalogs:
        return catalogs[parts[0]], parts[1:]
    manager = jvm.active_session().sessionState().catalogManager()
    current = catalogs.get(manager.currentCatalog().name())
    if current is None:
        return None
    return current, (*(jvm.read_strings(manager.currentNamespace()) if len(parts) == 1 else ()), *parts)
