"""Hints in errors: what Floe calls a method or argument of another library, and what to do about a missing file.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.load_table("db.orders")
Traceback (most recent call last):
AttributeError: a Lake has no attribute 'load_table'; the equivalent of PyIceberg's is lake.table("db.orders")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from floe.commit.pointer import TableState
from floe.errors import InvalidInput, NoSuchFile, PathNotAllowed
from floe.storage.locations import is_below

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_COMPACTION: Final = "not supported yet; t.rewrite_manifests() rewrites manifests only"
_DUCKDB: Final = "to_arrow(), which DuckDB queries by its name: duckdb.sql('SELECT * FROM rows')"
_ORPHANS: Final = "not supported yet; t.expire(older_than='7d').apply() expires snapshots and deletes their files"

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
    "manage_snapshots": (
        "PyIceberg",
        't.create_tag("v1"), t.create_branch("audit") and the other methods of the table',
    ),
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
    "options": "not needed: scans have no options",
}


def raise_no_attribute(owner: object, name: str, names: Mapping[str, tuple[str, str]]) -> NoReturn:
    """Raise `AttributeError` for an unknown attribute, with the equivalent or a similar one that exists."""
    kind = type(owner).__name__
    if name in names and not name.startswith("_"):
        library, equivalent = names[name]
        raise AttributeError(
            f"a {kind} has no attribute {name!r}; the equivalent of {library}'s is {equivalent}", name=name, obj=owner
        )
    public = [] if name.startswith("_") else [attribute for attribute in dir(type(owner)) if attribute[0] != "_"]
    similar = get_close_matches(name, public, n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    raise AttributeError(f"a {kind} has no attribute {name!r}{hint}", name=name, obj=owner)


def suggest_arguments(
    names: Mapping[str, str],
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """A decorator for a method whose arguments have other names in other libraries: the error says the name here."""

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            if not names.keys().isdisjoint(kwargs):
                unknown: Any = next(name for name in kwargs if name in names)
                raise InvalidInput(
                    f"{method.__name__}() has no argument {unknown!r}", hint=f"here it is {names[unknown]}"
                )
            return method(self, *args, **kwargs)

        return call

    return decorate


# missing files ----------------------------------------------------------------------------------------------------


@contextmanager
def explain_missing_files(state: TableState, table: str) -> Iterator[None]:
    """Add the table's name, and the likely cause, to errors of missing files inside: moved, expired or dropped.

    >>> from floe.commit.pointer import TableState
    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> moved = TableState(lake.create_table("db.t", "id bigint").metadata, "/new/t/metadata/v1.metadata.json")
    >>> with explain_missing_files(moved, "db.t"):
    ...     raise NoSuchFile("no such file")
    Traceback (most recent call last):
    floe.errors.NoSuchFile: no such file (table: db.t); the table was moved: open it with
    prefixes={'memory:warehouse/db/t': '/new/t'}
    """
    try:
        yield
    except NoSuchFile as error:
        error.hint = error.hint or _missing_file_hint(state)
        error.with_context(table=table)
        raise
    except PathNotAllowed as error:
        location = str(error.context.get("location", ""))
        if error.hint and (moved := _moved_hint(state)) and is_below(location, state.metadata.location):
            error.hint = f"{moved}; {error.hint}"
        error.with_context(table=table)
        raise


def _missing_file_hint(state: TableState) -> str:
    return _moved_hint(state) or (
        "the snapshot may have expired, or the table may have been dropped, since it was loaded: refresh() it"
    )


def _moved_hint(state: TableState) -> str | None:
    """The hint for a table whose metadata file is not below the location that the metadata records."""
    folder, separator, _ = state.location.rpartition("/metadata/")
    recorded = state.metadata.location
    if not separator or is_below(state.location, recorded):
        return None
    return f"the table was moved: open it with prefixes={{{recorded!r}: {folder!r}}}"
