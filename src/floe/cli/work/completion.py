"""The names that a shell completes: folders, catalogs of the settings, and their tables."""

from __future__ import annotations

import os
from collections.abc import Iterator

from floe.catalog.identifiers import format_identifier
from floe.catalog.protocol import Catalog
from floe.errors import FloeError
from floe.table.catalogs import open_catalog
from floe.table.settings import load_settings

__all__ = ["names"]


def names(incomplete: str) -> list[str]:
    """What a half-typed table may become; nothing, rather than an error, where that cannot be told.

    >>> names("no-such-catalog.db")
    []
    """
    try:
        return sorted({*_folders(incomplete), *_tables(incomplete)})
    except (FloeError, OSError):
        return []


def _folders(incomplete: str) -> Iterator[str]:
    folder, _, start = incomplete.rpartition("/")
    with os.scandir(folder or ("/" if incomplete.startswith("/") else os.curdir)) as entries:
        for entry in entries:
            if entry.name.startswith(start) and not entry.name.startswith(".") and entry.is_dir():
                found = f"{folder}/{entry.name}" if "/" in incomplete else entry.name
                is_table = os.path.isdir(os.path.join(entry.path, "metadata"))
                yield found if is_table else f"{found}/"


def _tables(incomplete: str) -> Iterator[str]:
    settings = load_settings()
    first, dot, _ = incomplete.partition(".")
    if not dot:
        yield from (f"{name}." for name in settings.names if name.startswith(first))
    elif first in settings.names:
        catalog, _ = open_catalog(first, {})
        yield from (name for name in _all_tables(first, catalog) if name.startswith(incomplete))


def _all_tables(prefix: str, catalog: Catalog) -> Iterator[str]:
    waiting = list(catalog.namespaces(()))
    while waiting:
        namespace = waiting.pop()
        waiting += catalog.namespaces(namespace)
        yield from (f"{prefix}.{format_identifier(table)}" for table in catalog.tables(namespace))
