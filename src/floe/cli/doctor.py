"""`floe doctor`: is the installation sound, do catalogs answer, how is a table doing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any

import typer

from floe.catalog.identifiers import format_identifier
from floe.cli.naming import Place, Where, find_place, find_table
from floe.cli.output import Output, results
from floe.cli.work.findings import ERROR, OK, STYLES, WARNING, Finding
from floe.cli.work.health import check_table
from floe.cli.work.installation import check_catalogs, check_installation
from floe.errors import FloeError, NotFound
from floe.table.amounts import many
from floe.table.table import Table

__all__ = ["examine"]


def examine(
    name: str | None, catalog: str | None, options: Mapping[str, Any], *, full: bool = False, as_json: bool = False
) -> None:
    """Print what was found: about the installation, or about a table or a catalog; an error ends with exit code 1."""
    out = results()
    if name is None and catalog is None:
        found = _told(out, (*check_installation(), *check_catalogs()), as_json)
    else:
        found = _told(out, _named(name, Where(catalog, options), full), as_json)
    if as_json:
        out.json({"healthy": not any(f.level == ERROR for f in found), "findings": [f.document() for f in found]})
    else:
        out.line(_verdict(found))
    if any(finding.level == ERROR for finding in found):
        raise typer.Exit(1)


def _named(name: str | None, where: Where, full: bool) -> Iterator[Finding]:
    if name is None:
        yield from _catalog(find_place(None, where))
        return
    try:
        found = find_table(name, where)
    except NotFound:
        place = _place_of(name, where)
        if place is None:
            raise
        yield from _catalog(place)
        return
    yield from check_table(Table(found.pointer, found.state), full=full)


def _place_of(name: str, where: Where) -> Place | None:
    """The catalog or namespace of that name, if there is something in it; an empty folder is no catalog."""
    try:
        place = find_place(name, where)
        is_empty = not place.catalog.namespaces(place.namespace) and next(_tables(place), None) is None
    except FloeError:
        return None
    return None if is_empty else place


def _catalog(place: Place) -> Iterator[Finding]:
    """A catalog answers, and the metadata of its tables can be read."""
    namespaces = place.catalog.namespaces(place.namespace)
    yield Finding(OK, f"catalog {place.catalog.name}", f"answers: {many(len(namespaces), 'namespace')}")
    sound = 0
    for identifier in _tables(place):
        try:
            state = place.catalog.pointer(identifier).load()
        except FloeError as error:
            yield Finding(ERROR, f"table {format_identifier(identifier)}", str(error))
        else:
            sound += state is not None
    yield Finding(OK, "tables", f"the metadata of {many(sound, 'table')} can be read; name one to look closer")


def _tables(place: Place) -> Iterator[tuple[str, ...]]:
    waiting = [place.namespace] if place.namespace else list(place.catalog.namespaces(()))
    while waiting:
        namespace = waiting.pop(0)
        waiting += place.catalog.namespaces(namespace)
        yield from place.catalog.tables(namespace)


def _told(out: Output, findings: Iterable[Finding], as_json: bool) -> list[Finding]:
    """Print findings as they come."""
    told = []
    for finding in findings:
        told.append(finding)
        if not as_json:
            out.lines(_lines(out, finding))
    return told


def _lines(out: Output, finding: Finding) -> Iterator[str]:
    level, about = f"{finding.level:<7}", f"{finding.about:<14}"
    indent = " " * (len(level) + len(about) + 4)
    first, *more = _wrapped(finding.text, len(indent), out.width)
    yield f"{out.paint(level, STYLES[finding.level])}  {out.paint(about, 'bold')}  {first}"
    yield from (indent + line for line in more)
    if finding.advice:
        arrow, *lines = _wrapped(f"→ {finding.advice}", len(indent), out.width)
        yield from (indent + out.paint(line, "dim") for line in (arrow, *lines))


def _wrapped(text: str, indent: int, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return wrap(text, max(width - indent, 30), break_long_words=False, break_on_hyphens=False) or [""]


def _verdict(found: Iterable[Finding]) -> str:
    levels = [finding.level for finding in found]
    parts = [many(levels.count(level), level) for level in (ERROR, WARNING) if level in levels]
    return ", ".join(parts) if parts else "all well"
