"""`floe doctor`: the problems of an installation, a catalog or a table, with advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

import floe
from floe import cli
from floe.cli.arguments import (
    CatalogArguments,
    CatalogOption,
    CatalogOptions,
    CatalogScope,
    Debug,
    Json,
    all_tables,
    catalog_options,
    find_scope,
    load_table,
)
from floe.errors import FloeError, NotFound
from floe.show.terminal import Output, stdout
from floe.table.human_values import many

if TYPE_CHECKING:  # `floe doctor --help` does not need the checks
    from floe.cli.checks import Finding

EXAMPLES = """
floe doctor                               the installation, the settings, the catalogs
floe doctor warehouse/db/orders           the health of a table
floe doctor lake.db.orders --full         with every file of every snapshot
floe doctor --catalog sqlite:///lake.db   whether a catalog answers, and its tables can be read
"""

_STYLES: Final = {"ok": "green", "note": "cyan", "warning": "yellow bold", "error": "red bold"}


def doctor(
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE or CATALOG", help="What to check.", show_default=False)
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Check the files of all snapshots, and look for orphan files.")
    ] = False,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the installation, a catalog or a table.

    Without a name the installation and the settings are checked. Nothing is changed. The exit code is 1 if there is an
    error.
    """
    out = stdout()
    if name is None and catalog is None:
        checks = cli.checks.check_installation()
    else:
        checks = _checks_of(name, CatalogArguments(catalog, catalog_options(option)), full=full)
    findings = []
    for finding in checks:
        findings.append(finding)
        if not json:
            out.lines(_lines(out, finding))
    has_error = any(finding.level == "error" for finding in findings)
    if json:
        out.json({"healthy": not has_error, "findings": [finding.document() for finding in findings]})
    else:
        out.line(_verdict(findings))
    if has_error:
        raise typer.Exit(1)


def _checks_of(name: str | None, arguments: CatalogArguments, *, full: bool) -> Iterator[Finding]:
    """The checks of a table; or of a catalog or namespace, if no table has that name."""
    if name is None:
        yield from cli.checks.check_catalog(find_scope(None, arguments))
        return
    try:
        loaded = load_table(name, arguments)
    except NotFound:
        scope = _non_empty_scope(name, arguments)
        if scope is None:
            raise
        yield from cli.checks.check_catalog(scope)
        return
    yield from cli.checks.check_table(floe.Table(loaded.pointer, loaded.state), full=full)


def _non_empty_scope(name: str, arguments: CatalogArguments) -> CatalogScope | None:
    """The catalog or namespace of a name, if it contains anything; an empty folder is not a catalog."""
    try:
        scope = find_scope(name, arguments)
        is_empty = not scope.catalog.namespaces(scope.namespace) and next(all_tables(scope), None) is None
    except FloeError:
        return None
    return None if is_empty else scope


def _lines(out: Output, finding: Finding) -> Iterator[str]:
    level, about = f"{finding.level:<7}", f"{finding.about:<14}"
    indent = " " * (len(level) + len(about) + 4)
    first, *continued = _wrap_text(finding.text, len(indent), out.width)
    yield f"{out.paint(level, _STYLES[finding.level])}  {out.paint(about, 'bold')}  {first}"
    yield from (indent + line for line in continued)
    if finding.advice:
        for line in _wrap_text(f"→ {finding.advice}", len(indent), out.width):
            yield indent + out.paint(line, "dim")


def _wrap_text(text: str, indent: int, width: int | None) -> list[str]:
    if width is None:
        return [text]
    return wrap(text, max(width - indent, 30), break_long_words=False, break_on_hyphens=False) or [""]


def _verdict(findings: Iterable[Finding]) -> str:
    levels = [finding.level for finding in findings]
    parts = [many(levels.count(level), level) for level in ("error", "warning") if level in levels]
    return ", ".join(parts) if parts else "no problems found"
