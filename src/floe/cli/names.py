"""From what a person types to the table, the catalog or the namespace that it means.

| typed | means |
|---|---|
| `warehouse/db/orders`, `./orders`, `s3://bucket/wh/db/orders`, `….metadata.json` | a table's folder or metadata file |
| `lake.db.orders` | table `db.orders` of the catalog that the settings call `lake` |
| `db.orders` with `--catalog`, or where the settings have a default catalog | a table of that catalog |

A name that leads nowhere is told with the ones that it may have been meant to be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from floe.catalog.identifiers import Identifier, Namespace, format_identifier, parse_identifier, parse_namespace
from floe.catalog.protocol import Capability, Catalog
from floe.catalog.sql.uri import is_sql_uri
from floe.commit.pointer import Pointer, TableState
from floe.errors import FloeError, InvalidName, NoSuchCatalog, NoSuchNamespace, NoSuchTable
from floe.storage.environment import Environment
from floe.storage.locations import parse
from floe.table.catalogs import open_catalog, open_pointer
from floe.table.secrets import hide_password
from floe.table.settings import load_settings

__all__ = ["FoundTable", "NameIn", "Place", "Where", "find_name", "find_place", "find_table", "near"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SHOWN: Final = 12


@dataclass(frozen=True)
class Where:
    """Where names are looked up: the catalog that was named, if one was, and the options that were given for it."""

    catalog: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundTable:
    """A table that is there: its pointer and its state, and its place in a catalog if it was found in one."""

    pointer: Pointer
    state: TableState
    name: str


@dataclass(frozen=True)
class NameIn:
    """A name in a catalog, whether something of that name is there or not."""

    catalog: Catalog
    environment: Environment
    identifier: Identifier

    @property
    def text(self) -> str:
        """The name as people write it."""
        return format_identifier(self.identifier)


@dataclass(frozen=True)
class Place:
    """A catalog, or a namespace of one."""

    catalog: Catalog
    environment: Environment
    namespace: Namespace = ()


def find_table(name: str, where: Where) -> FoundTable:
    """The table that a name or path means."""
    if where.catalog is None and _is_path(name):
        return _at_path(name, where)
    found = _in_catalog(name, where)
    if found is None:
        return _at_path(name, where)
    pointer = found.catalog.pointer(found.identifier)
    state = pointer.load()
    if state is None:
        if where.catalog is None and _is_folder(name):
            return _at_path(name, where)
        raise missing_table(found)
    return FoundTable(pointer, state, found.text)


def find_name(name: str, where: Where) -> NameIn:
    """The name in a catalog that a text means, for who makes a table of that name.

    A path names the table by its last part, the namespace by the one before, and the warehouse by the rest.
    """
    if where.catalog is None and _is_path(name):
        folder, _, table = parse(os.path.expanduser(name)).text.rstrip("/").rpartition("/")
        warehouse, _, namespace = folder.rpartition("/")
        if not (warehouse and namespace and table) or name.endswith(".json"):
            raise InvalidName(
                f"{name!r} is no path that a table can have", hint="write warehouse/namespace/table, or --catalog"
            )
        return NameIn(*open_catalog(warehouse, where.options), (namespace, table))
    found = _in_catalog(name, where)
    if found is None:
        raise _no_catalog(name)
    return found


def find_place(place: str | None, where: Where) -> Place:
    """The catalog or namespace that a text means; without one, the default catalog."""
    if where.catalog is not None:
        return _place(open_catalog(where.catalog, where.options), parse_namespace(place or ""))
    if place is None:
        try:
            return _place(open_catalog(None, where.options), ())
        except NoSuchCatalog as error:
            error.hint = f"name a folder or a catalog, as in `floe ls warehouse`; {error.hint}"
            raise
    if is_sql_uri(place):
        return _place(open_catalog(place, where.options), ())
    if _is_path(place):
        return _at_folder(place, where)
    settings = load_settings()
    first, *rest = parse_namespace(place)
    if first in settings.names:
        return _place(open_catalog(first, where.options), tuple(rest))
    if rest or not _is_folder(place):
        default = settings.default or (settings.names[0] if len(settings.names) == 1 else None)
        if default is not None:
            opened = _place(open_catalog(default, where.options), (first, *rest))
            if opened.catalog.namespace_exists(opened.namespace):
                return opened
        if not _is_folder(place):
            raise _no_catalog(place)
    return _at_folder(os.path.join(os.curdir, place), where)


def _at_folder(path: str, where: Where) -> Place:
    """The warehouse in a folder; or the namespace, if the folder holds tables itself."""
    opened = _place(open_catalog(path, where.options), ())
    above, _, name = parse(os.path.expanduser(path)).text.rstrip("/").rpartition("/")
    if not name or not above or opened.catalog.namespaces(()):
        return opened
    around = _place(open_catalog(above, where.options), (name,))
    return around if around.catalog.namespace_exists((name,)) and around.catalog.tables((name,)) else opened


def missing_table(found: NameIn) -> FloeError:
    """What to say when a catalog has no such table."""
    catalog, identifier = found.catalog, found.identifier
    namespace = identifier[:-1]
    if not catalog.namespace_exists(namespace):
        return missing_namespace(catalog, namespace)
    if Capability.VIEWS in catalog.capabilities and catalog.view_exists(identifier):
        return NoSuchTable(
            f"{found.text} is a view, not a table", hint="floe show tells what it is", catalog=catalog.name
        )
    there = [format_identifier(each) for each in catalog.tables(namespace)]
    return NoSuchTable(
        f"there is no table {found.text}", hint=near(found.text, there, "the namespace has"), catalog=catalog.name
    )


def missing_namespace(catalog: Catalog, namespace: Namespace) -> FloeError:
    """What to say when a catalog has no such namespace."""
    name = format_identifier(namespace)
    there = [format_identifier(each) for each in catalog.namespaces(())]
    return NoSuchNamespace(f"there is no namespace {name}", hint=near(name, there, "there are"), catalog=catalog.name)


def near(name: str, there: Sequence[str], have: str) -> str:
    """What may have been meant, or what there is.

    >>> near("db.ordrs", ["db.orders", "db.items"], "the namespace has")
    'did you mean db.orders?'
    >>> near("x", ["db.orders", "db.items"], "the namespace has")
    'the namespace has db.orders, db.items'
    """
    close = get_close_matches(name, there, n=3, cutoff=0.75)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"{have} {_some(there) or 'none'}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _in_catalog(name: str, where: Where) -> NameIn | None:
    """The name in the catalog that it names, or in the chosen or default one; None if there is no catalog at all."""
    if where.catalog is not None:
        return NameIn(*open_catalog(where.catalog, where.options), parse_identifier(name))
    settings = load_settings()
    parts = parse_namespace(name)
    if parts[0] in settings.names and len(parts) > 1:
        return NameIn(*open_catalog(parts[0], where.options), parse_identifier(parts[1:]))
    default = settings.default or (settings.names[0] if len(settings.names) == 1 else None)
    if default is not None and len(parts) > 1 and not get_close_matches(parts[0], settings.names, n=1, cutoff=0.75):
        return NameIn(*open_catalog(default, where.options), parse_identifier(parts))
    if _is_folder(name):
        return None
    raise _no_catalog(name)


def _no_catalog(name: str) -> FloeError:
    first = parse_namespace(name)[0]
    names = load_settings().names
    if names:
        return NoSuchCatalog(
            f"{name!r} names no table that can be found: no catalog is named {first!r}",
            hint=near(first, names, "the settings have"),
        )
    return NoSuchCatalog(
        f"{name!r} names no table that can be found: there is no folder of that name, and no catalog {first!r}",
        hint="give a path as warehouse/db/orders, the catalog with --catalog, or name it in floe.toml",
    )


def _at_path(name: str, where: Where) -> FoundTable:
    path = os.path.expanduser(name)
    if is_sql_uri(name):
        raise InvalidName(
            f"{hide_password(name)!r} is a catalog, not a table",
            hint=f"name the table, and the catalog with --catalog {hide_password(name)}",
        )
    try:
        pointer = open_pointer(path, where.options)
    except NoSuchTable as error:
        raise NoSuchTable(f"there is no table at {name}", hint=_near_path(path) or error.hint) from None
    state = pointer.load()
    if state is None:
        raise NoSuchTable(f"there is no table at {name}")
    return FoundTable(pointer, state, pointer.name)


def _near_path(path: str) -> str | None:
    """The tables beside a folder that has none, or in it; local folders only, for others are slow to look through."""
    if _SCHEME.match(path):
        return None
    above, _, name = path.rstrip("/").rpartition("/")
    if inside := _table_folders(path):
        return f"the folder has {_some(inside)}"
    beside = _table_folders(above or os.curdir)
    close = get_close_matches(name, beside, n=1)
    if close:
        return f"did you mean {os.path.join(above, close[0])}?"
    return f"beside it there are {_some(beside)}" if beside else None


def _table_folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if os.path.isdir(os.path.join(entry.path, "metadata")))
    except OSError:
        return []


def _place(opened: tuple[Catalog, Environment], namespace: Iterable[str]) -> Place:
    return Place(*opened, tuple(namespace))


def _is_path(name: str) -> bool:
    return "/" in name or name in (".", "..") or name.startswith("~") or bool(_SCHEME.match(name))


def _is_folder(name: str) -> bool:
    return os.path.isdir(name)
