"""`floe ls`: the namespaces, tables and views of a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer

from floe.catalog.identifiers import Identifier, Namespace, format_identifier
from floe.catalog.protocol import Capability, Catalog
from floe.catalog.settings import hide_password, load_settings
from floe.cli.arguments import (
    CatalogArguments,
    CatalogOption,
    CatalogOptions,
    CatalogScope,
    Debug,
    Json,
    catalog_options,
    find_scope,
    load_table,
    missing_namespace,
)
from floe.errors import FloeError, InvalidInput, NoSuchCatalog
from floe.show.terminal import Column, Output, stdout
from floe.show.times import ago, iso_text, local_text
from floe.spec.metadata.snapshots import TOTAL_DATA_FILES, TOTAL_DELETE_FILES, TOTAL_FILES_SIZE, TOTAL_RECORDS
from floe.storage.concurrency import map_concurrently
from floe.table.human_values import size_text

EXAMPLES = """
floe ls warehouse                  everything in a folder
floe ls --long lake.db             the tables of a namespace, with their sizes
floe ls sqlite:///lake.db --json   for programs
"""

_CONCURRENCY: Final = 8


def ls(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CATALOG",
            help="A warehouse folder, sqlite:///lake.db, postgresql://host/db, a catalog of floe.toml, or a namespace "
            "of one (lake.db). Default: the default catalog.",
            show_default=False,
        ),
    ] = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Show rows, files, size and last change of each table.")
    ] = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the namespaces, tables and views of a catalog."""
    out, arguments = stdout(), CatalogArguments(catalog, catalog_options(option))
    try:
        scope = find_scope(name, arguments)
    except NoSuchCatalog:
        if name is not None or catalog is not None or not load_settings().names:
            raise
        _print_catalogs(out, as_json=json)
        return
    entries = list(_entries(scope))
    may_be_table = not entries or any(entry.name == "metadata" for entry in entries)
    if may_be_table and name is not None and catalog is None and _is_table(name, arguments):
        raise InvalidInput(f"{name} is a table, not a catalog or namespace", hint=f"floe show {name} describes it")
    if long:
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            loaded = map_concurrently(
                lambda entry: _with_details(scope, entry), entries, limit=_CONCURRENCY, executor=pool
            )
            entries = list(loaded)
    if json:
        out.json([_document(entry, long=long) for entry in entries])
    elif not entries:
        out.line(f"{_scope_name(scope)} is empty")
    elif long:
        _print_long(out, entries, scope.environment.clock.now_ms())
    else:
        out.grid([Column("name"), Column("kind", style="dim")], [[entry.name, entry.kind] for entry in entries])
    if any(entry.error for entry in entries):
        raise FloeError("not all tables can be read", hint="floe doctor TABLE reports what is wrong with a table")


@dataclass(frozen=True)
class Entry:
    """A namespace, table or view of a catalog, with details from its metadata if they were read."""

    name: str
    kind: str
    identifier: Identifier
    format_version: int | None = None
    rows: int | None = None
    data_files: int | None = None
    delete_files: int | None = None
    bytes: int | None = None
    updated_ms: int | None = None
    error: str | None = None


def _is_table(name: str, arguments: CatalogArguments) -> bool:
    try:
        load_table(name, arguments)
    except FloeError:
        return False
    return True


def summary_count(summary: Mapping[str, str] | None, key: str) -> int | None:
    """A count of a snapshot's summary; None if it is missing or not a number, as any engine may have written it.

    >>> (
    ...     summary_count({"total-records": "12"}, "total-records"),
    ...     summary_count({"total-records": "many"}, "total-records"),
    ... )
    (12, None)
    """
    text = (summary or {}).get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _entries(scope: CatalogScope) -> Iterator[Entry]:
    """The contents of a catalog or namespace, each namespace followed by its own contents."""
    catalog = scope.catalog
    if scope.namespace:
        if not catalog.namespace_exists(scope.namespace):
            raise missing_namespace(catalog, scope.namespace)
        yield from _tables_and_views(catalog, scope.namespace)
    yield from _namespaces(catalog, scope.namespace)


def _namespaces(catalog: Catalog, parent: Namespace) -> Iterator[Entry]:
    for namespace in catalog.namespaces(parent):
        yield Entry(format_identifier(namespace), "namespace", namespace)
        yield from _tables_and_views(catalog, namespace)
        yield from _namespaces(catalog, namespace)


def _tables_and_views(catalog: Catalog, namespace: Namespace) -> Iterator[Entry]:
    kinds = dict.fromkeys(catalog.tables(namespace), "table")
    if Capability.VIEWS in catalog.capabilities:
        kinds |= dict.fromkeys(catalog.views(namespace), "view")
    yield from (Entry(format_identifier(identifier), kinds[identifier], identifier) for identifier in sorted(kinds))


def _with_details(scope: CatalogScope, entry: Entry) -> Entry:
    if entry.kind != "table":
        return entry
    try:
        state = scope.catalog.pointer(entry.identifier).load()
    except FloeError as error:
        return replace(entry, error=str(error))
    if state is None:
        return replace(entry, error="it was dropped meanwhile")
    snapshot = state.metadata.current_snapshot
    summary = None if snapshot is None else snapshot.summary
    return replace(
        entry,
        format_version=state.metadata.format_version,
        rows=0 if snapshot is None else summary_count(summary, TOTAL_RECORDS),
        data_files=0 if snapshot is None else summary_count(summary, TOTAL_DATA_FILES),
        delete_files=0 if snapshot is None else summary_count(summary, TOTAL_DELETE_FILES),
        bytes=0 if snapshot is None else summary_count(summary, TOTAL_FILES_SIZE),
        updated_ms=state.metadata.last_updated_ms,
    )


def _print_long(out: Output, entries: list[Entry], now_ms: int) -> None:
    columns = [
        Column("name"),
        Column("kind", style="dim"),
        Column("rows", right=True),
        Column("files", right=True),
        Column("size", right=True),
        Column("last change", may_be_cut=False),
        Column("", style="dim"),
    ]
    rows = []
    for entry in entries:
        if entry.error is not None:
            rows.append([entry.name, entry.kind, "?", "?", "?", "cannot be read", entry.error])
            continue
        deletes = f" + {entry.delete_files:,}" if entry.delete_files else ""
        rows.append(
            [
                entry.name,
                entry.kind,
                _number(entry.rows),
                _number(entry.data_files) + deletes,
                "" if entry.bytes is None else size_text(entry.bytes),
                "" if entry.updated_ms is None else local_text(entry.updated_ms),
                "" if entry.updated_ms is None else ago(entry.updated_ms, now_ms=now_ms),
            ]
        )
    out.grid(columns, rows)
    if any(entry.delete_files for entry in entries):
        note = "files: data + delete files; rows include those that delete files remove"
        out.line(out.paint(note, "dim"))


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _document(entry: Entry, *, long: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"name": entry.name, "kind": entry.kind}
    if long and entry.kind == "table":
        document |= {
            "format_version": entry.format_version,
            "rows": entry.rows,
            "data_files": entry.data_files,
            "delete_files": entry.delete_files,
            "bytes": entry.bytes,
            "updated": None if entry.updated_ms is None else iso_text(entry.updated_ms),
            "error": entry.error,
        }
    return document


def _scope_name(scope: CatalogScope) -> str:
    return f"{scope.catalog.name}.{format_identifier(scope.namespace)}" if scope.namespace else scope.catalog.name


def _print_catalogs(out: Output, *, as_json: bool) -> None:
    """The catalogs of floe.toml, where none of them is the default."""
    settings = load_settings()
    catalogs = []
    for name in settings.names:
        try:
            catalogs.append((name, hide_password(settings.catalog(name).uri)))
        except FloeError as error:
            catalogs.append((name, error.message))
    if as_json:
        out.json([{"name": name, "kind": "catalog", "uri": uri} for name, uri in catalogs])
    else:
        columns = [Column("name"), Column("kind", style="dim"), Column("uri")]
        out.grid(columns, [[name, "catalog", uri] for name, uri in catalogs])
