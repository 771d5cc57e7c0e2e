"""What other libraries call things, for who comes from them: errors that say what to type here.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.load_table("db.orders")
Traceback (most recent call last):
AttributeError: a Lake has no 'load_table'; what PyIceberg calls so is lake.table("db.orders")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from floe.errors import InvalidInput

__all__ = ["LAKE_NAMES", "SCAN_ARGUMENTS", "SCAN_NAMES", "TABLE_NAMES", "knowing_other_names", "no_such_name"]

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_COMPACTION: Final = "not there yet; t.rewrite_manifests() rewrites manifests alone"
_DUCKDB: Final = "to_arrow(), which DuckDB queries by its name: duckdb.sql('SELECT * FROM rows')"
_ORPHANS: Final = "not there yet; t.expire(older_than='7d').apply() expires snapshots and deletes their files"

LAKE_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "load_table": ("PyIceberg", 'lake.table("db.orders")'),
    "list_tables": ("PyIceberg", 'lake.tables("db")'),
    "list_namespaces": ("PyIceberg", "lake.namespaces()"),
    "list_views": ("PyIceberg", 'lake.views("db")'),
    "load_namespace_properties": ("PyIceberg", 'lake.namespace_properties("db")'),
    "update_namespace_properties": ("PyIceberg", 'lake.update_namespace("db", {"owner": "me"})'),
    "create_table_if_not_exists": ("PyIceberg", 'lake.create_table("db.t", columns, if_not_exists=True)'),
    "create_namespace_if_not_exists": ("PyIceberg", 'lake.create_namespace("db", if_not_exists=True)'),
    "load_view": ("PyIceberg", 'lake.view("db.v")'),
    "sql": ("a Spark session", 'floe.spark(lake="./warehouse").sql("SELECT …")'),
}
TABLE_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "update_schema": ("PyIceberg", 't.evolve().add_column("note", "string").commit()'),
    "manage_snapshots": ("PyIceberg", 't.create_tag("v1"), t.create_branch("audit") and others of the table itself'),
    "maintenance": ("PyIceberg", "t.expire(older_than='7d').apply()"),
    "expire_snapshots": ("Iceberg", "t.expire(older_than='7d').apply()"),
    "to_arrow": ("delta-rs", "t.scan().to_arrow()"),
    "to_arrow_batch_reader": ("PyIceberg", "t.scan().to_batches()"),
    "to_pyarrow_table": ("delta-rs", "t.scan().to_arrow()"),
    "to_pyarrow_dataset": ("delta-rs", "t.scan().to_batches()"),
    "to_pandas": ("delta-rs", "t.scan().to_pandas()"),
    "to_polars": ("PyIceberg", "t.scan().to_polars()"),
    "to_duckdb": ("PyIceberg", f"rows = t.scan().{_DUCKDB}"),
    "dynamic_partition_overwrite": ("PyIceberg", "t.overwrite_partitions(rows)"),
    "remove_orphan_files": ("Iceberg", _ORPHANS),
    "delete_orphan_files": ("Iceberg", _ORPHANS),
    "vacuum": ("delta-rs", _ORPHANS),
    "optimize": ("delta-rs", _COMPACTION),
    "compact": ("delta-rs", _COMPACTION),
    "rewrite_data_files": ("Iceberg", _COMPACTION),
    "restore": ("delta-rs", "t.rollback(snapshot_id)"),
    "rollback_to_snapshot": ("Iceberg", "t.rollback(snapshot_id)"),
    "set_current_snapshot": ("Iceberg", "t.set_current(snapshot_id)"),
    "load_as_version": ("delta-rs", "t.scan(snapshot=…), or t.scan(as_of='2024-05-17')"),
    "version": ("delta-rs", "t.current_snapshot"),
    "files": ("delta-rs", "t.inspect.files()"),
    "current_schema": ("others", "t.schema"),
    "snapshot_by_id": ("PyIceberg", "t.snapshot(snapshot_id)"),
    "snapshot_by_name": ("PyIceberg", "t.refs[name]"),
    "sync": ("others", "t.refresh()"),
    "count": ("others", "t.scan().count()"),
    "head": ("others", "t.scan().head()"),
}
SCAN_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "to_arrow_batch_reader": ("PyIceberg", "to_batches()"),
    "to_duckdb": ("PyIceberg", f"rows = scan.{_DUCKDB}"),
    "to_ray": ("PyIceberg", "to_arrow(), for ray.data.from_arrow"),
    "to_pylist": ("Arrow", "to_rows(), or to_arrow().to_pylist()"),
    "to_dicts": ("Polars", "to_rows()"),
    "plan_files": ("PyIceberg", "plan(), or files()"),
    "filter": ("PyIceberg", 't.scan(where="amount > 10")'),
    "select": ("PyIceberg", 't.scan(["id", "amount"])'),
    "use_ref": ("PyIceberg", 't.scan(ref="audit")'),
    "collect": ("Spark", "to_rows(), or to_arrow()"),
    "show": ("Spark", "head()"),
}
SCAN_ARGUMENTS: Final[Mapping[str, str]] = {
    "row_filter": 'where="amount > 10"',
    "filter": 'where="amount > 10"',
    "filters": 'where="amount > 10"',
    "selected_fields": 'columns=["id", "amount"]',
    "select": 'columns=["id", "amount"]',
    "snapshot_id": "snapshot=…",
    "branch": 'ref="audit"',
    "tag": 'ref="v1"',
    "timestamp": 'as_of="2024-05-17"',
    "limit": "no argument: scan(…).limit(10)",
    "options": "none: nothing is to be set",
}


def no_such_name(owner: object, name: str, names: Mapping[str, tuple[str, str]]) -> NoReturn:
    """Raise what Python raises for a name that is not there, and tell the one that is meant."""
    article = type(owner).__name__
    if name in names and not name.startswith("_"):
        library, here = names[name]
        raise AttributeError(f"a {article} has no {name!r}; what {library} calls so is {here}", name=name, obj=owner)
    near = [] if name.startswith("_") else get_close_matches(name, [n for n in dir(type(owner)) if n[0] != "_"], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"a {article} has no {name!r}{hint}", name=name, obj=owner)


def knowing_other_names(
    names: Mapping[str, str],
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """For a method whose arguments others call otherwise: an error that says how they are called here."""

    def knowing(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def call(self: S, /, *positional: P.args, **given: P.kwargs) -> R:
            if not names.keys().isdisjoint(given):
                wrong: Any = next(name for name in given if name in names)
                raise InvalidInput(f"{method.__name__}() has no argument {wrong!r}", hint=f"here it is {names[wrong]}")
            return method(self, *positional, **given)

        return call

    return knowing
