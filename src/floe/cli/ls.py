"""`floe ls`: the namespaces, tables and views of a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from floe.catalog.identifiers import Identifier, Namespace, format_identifier
from floe.catalog.protocol import Capability, Catalog
from floe.cli.naming import Place, Where, find_place, find_table, missing_namespace
from floe.cli.output import Output, results
from floe.errors import FloeError, InvalidInput, NoSuchCatalog
from floe.show.grid import Column
from floe.show.times import ago, iso_text, local_text
from floe.spec.metadata.summaries import TOTAL_DATA_FILES, TOTAL_DELETE_FILES, TOTAL_FILES_SIZE, TOTAL_RECORDS
from floe.storage.concurrency import map_concurrently
from floe.table.amounts import size_text
from floe.table.secrets import hide_password
from floe.table.settings import load_settings

__all__ = ["Listed", "list_place", "summary_count"]

_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Listed:
    """Something that a catalog holds, with what its metadata says if that was read."""

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


def list_place(
    place: str | None, catalog: str | None, options: Mapping[str, Any], *, long: bool = False, as_json: bool = False
) -> None:
    """Print what a place holds."""
    out = results()
    try:
        found = find_place(place, Where(catalog, options))
    except NoSuchCatalog:
        if place is not None or catalog is not None or not load_settings().names:
            raise
        _print_catalogs(out, as_json)
        return
    listed = list(_below(found))
    looks_like_one = not listed or any(one.name == "metadata" for one in listed)
    if looks_like_one and place is not None and catalog is None and _is_table(place, options):
        raise InvalidInput(f"{place} is a table, and holds no others", hint=f"floe show {place} tells what it is")
    if long:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            listed = list(map_concurrently(lambda one: _detailed(found, one), listed, limit=_AT_ONCE, executor=pool))
    if as_json:
        out.json([_document(one, long=long) for one in listed])
    elif not listed:
        out.line(f"{_place_text(found)} is empty")
    elif long:
        _print_long(out, listed, found.environment.clock.now_ms())
    else:
        out.grid([Column("name"), Column("kind", style="dim")], [[one.name, one.kind] for one in listed])
    if any(one.error for one in listed):
        raise FloeError("not all tables can be read", hint="floe doctor tells what is wrong with a table")


def _is_table(place: str, options: Mapping[str, Any]) -> bool:
    try:
        find_table(place, Where(None, options))
    except FloeError:
        return False
    return True


def summary_count(summary: Mapping[str, str] | None, key: str) -> int | None:
    """A count of a snapshot's summary, which is text that any engine may have written.

    >>> (
    ...     summary_count({"total-records": "12"}, "total-records"),
    ...     summary_count({"total-records": "many"}, "total-records"),
    ... )
    (12, None)
    """
    text = (summary or {}).get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _below(place: Place) -> Iterator[Listed]:
    """The namespaces below a place, each followed by what it holds."""
    catalog = place.catalog
    if place.namespace:
        if not catalog.namespace_exists(place.namespace):
            raise missing_namespace(catalog, place.namespace)
        yield from _held(catalog, place.namespace)
    yield from _deeper(catalog, place.namespace)


def _deeper(catalog: Catalog, parent: Namespace) -> Iterator[Listed]:
    for namespace in catalog.namespaces(parent):
        yield Listed(format_identifier(namespace), "namespace", namespace)
        yield from _held(catalog, namespace)
        yield from _deeper(catalog, namespace)


def _held(catalog: Catalog, namespace: Namespace) -> Iterator[Listed]:
    kinds = dict.fromkeys(catalog.tables(namespace), "table")
    if Capability.VIEWS in catalog.capabilities:
        kinds |= dict.fromkeys(catalog.views(namespace), "view")
    yield from (Listed(format_identifier(found), kinds[found], found) for found in sorted(kinds))


def _detailed(place: Place, listed: Listed) -> Listed:
    if listed.kind != "table":
        return listed
    try:
        state = place.catalog.pointer(listed.identifier).load()
    except FloeError as error:
        return replace(listed, error=str(error))
    if state is None:
        return replace(listed, error="it was dropped meanwhile")
    snapshot = state.metadata.current_snapshot
    summary = None if snapshot is None else snapshot.summary
    return replace(
        listed,
        format_version=state.metadata.format_version,
        rows=0 if snapshot is None else summary_count(summary, TOTAL_RECORDS),
        data_files=0 if snapshot is None else summary_count(summary, TOTAL_DATA_FILES),
        delete_files=0 if snapshot is None else summary_count(summary, TOTAL_DELETE_FILES),
        bytes=0 if snapshot is None else summary_count(summary, TOTAL_FILES_SIZE),
        updated_ms=state.metadata.last_updated_ms,
    )


def _print_long(out: Output, listed: list[Listed], now_ms: int) -> None:
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
    for one in listed:
        if one.error is not None:
            rows.append([one.name, one.kind, "?", "?", "?", "cannot be read", one.error])
            continue
        deletes = f" + {one.delete_files:,}" if one.delete_files else ""
        rows.append(
            [
                one.name,
                one.kind,
                _number(one.rows),
                _number(one.data_files) + deletes,
                "" if one.bytes is None else size_text(one.bytes),
                "" if one.updated_ms is None else local_text(one.updated_ms),
                "" if one.updated_ms is None else ago(one.updated_ms, now_ms=now_ms),
            ]
        )
    out.grid(columns, rows)
    if any(one.delete_files for one in listed):
        note = "files: data + delete files; rows that delete files remove are counted"
        out.line(out.paint(note, "dim"))


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _document(listed: Listed, *, long: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"name": listed.name, "kind": listed.kind}
    if long and listed.kind == "table":
        document |= {
            "format_version": listed.format_version,
            "rows": listed.rows,
            "data_files": listed.data_files,
            "delete_files": listed.delete_files,
            "bytes": listed.bytes,
            "updated": None if listed.updated_ms is None else iso_text(listed.updated_ms),
            "error": listed.error,
        }
    return document


def _place_text(place: Place) -> str:
    return f"{place.catalog.name}.{format_identifier(place.namespace)}" if place.namespace else place.catalog.name


def _print_catalogs(out: Output, as_json: bool) -> None:
    """The catalogs that the settings name, where none is the default one."""
    settings = load_settings()
    found = []
    for name in settings.names:
        try:
            found.append((name, hide_password(settings.catalog(name).uri)))
        except FloeError as error:
            found.append((name, error.message))
    if as_json:
        out.json([{"name": name, "kind": "catalog", "uri": uri} for name, uri in found])
    else:
        out.grid([Column("name"), Column("kind", style="dim"), Column("uri")], [[n, "catalog", u] for n, u in found])
