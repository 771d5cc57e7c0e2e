"""The arguments and options that commands share, and the tables, catalogs and namespaces that they name.

| on the command line | meaning |
|---|---|
| `warehouse/db/orders`, `./orders`, `s3://bucket/wh/db/orders`, `….metadata.json` | a table's folder or metadata file |
| `lake.db.orders` | table `db.orders` of the catalog that floe.toml calls `lake` |
| `db.orders` with `--catalog`, or with a default catalog in floe.toml | a table of that catalog |

The error for a name that does not exist suggests similar names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Final, TypeAlias

import typer

from floe.catalog.identifiers import Identifier, Namespace, format_identifier, parse_identifier, parse_namespace
from floe.catalog.protocol import Capability, Catalog
from floe.catalog.registry import open_catalog, open_pointer
from floe.catalog.settings import Settings, hide_password, load_settings
from floe.catalog.sql.database import is_sql_uri
from floe.commit.pointer import Pointer, TableState
from floe.errors import FloeError, InvalidName, NoSuchCatalog, NoSuchNamespace, NoSuchTable
from floe.storage.environment import Environment
from floe.storage.locations import parse

# Options --------------------------------------------------------------------------------------------------------------


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.ensure_object(dict)["debug"] = True
    return value


def _complete_table(incomplete: str) -> list[str]:
    return complete_table(incomplete)  # which is defined below


TableName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table: warehouse/db/orders (a folder, or a metadata file), lake.db.orders (lake is a catalog of"
        " floe.toml), or db.orders with --catalog or a default catalog.",
        autocompletion=_complete_table,
        show_default=False,
    ),
]
CatalogOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        "-c",
        metavar="URI",
        help="The catalog: a folder, sqlite:///lake.db, postgresql://host/db, or a name from floe.toml.",
        show_default=False,
    ),
]
CatalogOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-O",
        metavar="KEY=VALUE",
        help="An option of the catalog or its storage, such as warehouse=s3://bucket/wh, s3.region=eu-west-1, or "
        "prefixes=/old=/new for a table that was moved. Repeat it for more.",
        show_default=False,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug, expose_value=True)
]
SnapshotId: TypeAlias = Annotated[
    int | None, typer.Option("--snapshot", metavar="ID", help="Read this snapshot.", show_default=False)
]
Ref: TypeAlias = Annotated[
    str | None, typer.Option("--ref", metavar="NAME", help="Read this branch or tag.", show_default=False)
]
AsOf: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Read the table as of this time: 2024-05-17, 2024-05-17T10:00:00Z, or an age such as 7d. The default time"
        " zone is UTC.",
        show_default=False,
    ),
]
Columns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "-C",
        metavar="A,B",
        help="Read only these columns, in this order; write a.b for a nested field.",
        show_default=False,
    ),
]
Records: TypeAlias = Annotated[bool, typer.Option("--records", "-r", help="Print one line for each column of a row.")]
Wide: TypeAlias = Annotated[bool, typer.Option("--wide", "-w", help="Print complete lines; cut nothing.")]


def key_values(option: str, texts: list[str] | None) -> dict[str, str]:
    """Parse the values of an option that are written as KEY=VALUE.

    >>> key_values("--option", ["warehouse=wh", "s3.region=eu=1"])
    {'warehouse': 'wh', 's3.region': 'eu=1'}
    """
    pairs = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"expected KEY=VALUE, found {text!r}", param_hint=option)
        pairs[key.strip()] = value
    return pairs


def catalog_options(texts: list[str] | None) -> dict[str, Any]:
    """Parse the options of a catalog and its storage into the types that `floe.connect` takes.

    >>> catalog_options(["warehouse=wh", "prefixes=/old=/new", "durable=false"])
    {'warehouse': 'wh', 'durable': False, 'prefixes': {'/old': '/new'}}
    """
    options: dict[str, Any] = {}
    for key, value in key_values(
        "--option", [text for text in texts or () if not text.startswith("prefixes=")]
    ).items():
        if key == "max_read_bytes" and value.isdigit():
            options[key] = int(value)
        elif key == "roots":
            options[key] = value.split(",")
        elif key == "durable":
            options[key] = value.lower() != "false"
        else:
            options[key] = value
    prefixes = [text.removeprefix("prefixes=") for text in texts or () if text.startswith("prefixes=")]
    if prefixes:
        options["prefixes"] = key_values("--option prefixes", prefixes)
    return options


def split_names(texts: list[str] | None) -> list[str]:
    """Names of columns that are separated by commas, or given one by one.

    >>> split_names(["a, b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for text in texts or () for name in text.split(",") if name.strip()]


# Names of tables and catalogs -----------------------------------------------------------------------------------------

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_MAX_NAMES: Final = 12


@dataclass(frozen=True)
class CatalogArguments:
    """The catalog that `--catalog` names, if any, and its options."""

    uri: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedTable:
    """A table that exists: its pointer, its state and its name."""

    pointer: Pointer
    state: TableState
    name: str


@dataclass(frozen=True)
class CatalogEntry:
    """A name in a catalog, whether a table or view of that name exists or not."""

    catalog: Catalog
    environment: Environment
    identifier: Identifier

    @property
    def text(self) -> str:
        """The name with dots."""
        return format_identifier(self.identifier)


@dataclass(frozen=True)
class CatalogScope:
    """A catalog, or a namespace of one."""

    catalog: Catalog
    environment: Environment
    namespace: Namespace = ()


def load_table(name: str, arguments: CatalogArguments) -> LoadedTable:
    """The table that a name or path means."""
    if arguments.uri is None and _is_path(name):
        return _load_path(name, arguments)
    entry = _find_in_catalog(name, arguments)
    if entry is None:
        return _load_path(name, arguments)
    pointer = entry.catalog.pointer(entry.identifier)
    state = pointer.load()
    if state is None:
        if arguments.uri is None and os.path.isdir(name):
            return _load_path(name, arguments)
        raise missing_table(entry)
    return LoadedTable(pointer, state, entry.text)


def find_entry(name: str, arguments: CatalogArguments) -> CatalogEntry:
    """The name in a catalog that a text means; the table need not exist.

    Of a path, the last part is the table, the one before its namespace, and the rest the warehouse.
    """
    if arguments.uri is None and _is_path(name):
        folder, _, table = parse(os.path.expanduser(name)).text.rstrip("/").rpartition("/")
        warehouse, _, namespace = folder.rpartition("/")
        if not (warehouse and namespace and table) or name.endswith(".json"):
            raise InvalidName(
                f"{name!r} is not a path for a table", hint="write warehouse/namespace/table, or use --catalog"
            )
        return CatalogEntry(*open_catalog(warehouse, arguments.options), (namespace, table))
    entry = _find_in_catalog(name, arguments)
    if entry is None:
        raise _no_catalog(name)
    return entry


def find_scope(name: str | None, arguments: CatalogArguments) -> CatalogScope:
    """The catalog or namespace that a text means; without one, the default catalog."""
    options = arguments.options
    if arguments.uri is not None:
        return CatalogScope(*open_catalog(arguments.uri, options), parse_namespace(name or ""))
    if name is None:
        try:
            return CatalogScope(*open_catalog(None, options))
        except NoSuchCatalog as error:
            error.hint = f"name a folder or a catalog, as in `floe ls warehouse`; {error.hint}"
            raise
    if is_sql_uri(name):
        return CatalogScope(*open_catalog(name, options))
    if _is_path(name):
        return _scope_of_folder(name, options)
    settings = load_settings()
    first, *nested = parse_namespace(name)
    if first in settings.names:
        return CatalogScope(*open_catalog(first, options), tuple(nested))
    if nested or not os.path.isdir(name):
        default = _default_catalog(settings)
        if default is not None:
            scope = CatalogScope(*open_catalog(default, options), (first, *nested))
            if scope.catalog.namespace_exists(scope.namespace):
                return scope
        if not os.path.isdir(name):
            raise _no_catalog(name)
    return _scope_of_folder(os.path.join(os.curdir, name), options)


def _scope_of_folder(path: str, options: Mapping[str, Any]) -> CatalogScope:
    """The warehouse in a folder; or the namespace, if the folder itself contains tables."""
    warehouse = CatalogScope(*open_catalog(path, options))
    parent, _, name = parse(os.path.expanduser(path)).text.rstrip("/").rpartition("/")
    if not name or not parent or warehouse.catalog.namespaces(()):
        return warehouse
    scope = CatalogScope(*open_catalog(parent, options), (name,))
    return scope if scope.catalog.namespace_exists((name,)) and scope.catalog.tables((name,)) else warehouse


def _default_catalog(settings: Settings) -> str | None:
    return settings.default or (settings.names[0] if len(settings.names) == 1 else None)


def missing_table(entry: CatalogEntry) -> FloeError:
    """The error for a table that a catalog does not have."""
    catalog, identifier = entry.catalog, entry.identifier
    namespace = identifier[:-1]
    if not catalog.namespace_exists(namespace):
        return missing_namespace(catalog, namespace)
    if Capability.VIEWS in catalog.capabilities and catalog.view_exists(identifier):
        return NoSuchTable(f"{entry.text} is a view, not a table", hint="floe show describes it", catalog=catalog.name)
    tables = [format_identifier(table) for table in catalog.tables(namespace)]
    return NoSuchTable(
        f"there is no table {entry.text}",
        hint=suggest(entry.text, tables, "the namespace contains"),
        catalog=catalog.name,
    )


def missing_namespace(catalog: Catalog, namespace: Namespace) -> FloeError:
    """The error for a namespace that a catalog does not have."""
    name = format_identifier(namespace)
    namespaces = [format_identifier(namespace) for namespace in catalog.namespaces(())]
    return NoSuchNamespace(
        f"there is no namespace {name}", hint=suggest(name, namespaces, "there are"), catalog=catalog.name
    )


def suggest(name: str, names: Sequence[str], intro: str) -> str:
    """A hint with the names that are similar to one that does not exist, or with all that do.

    >>> suggest("db.ordrs", ["db.orders", "db.items"], "the namespace contains")
    'did you mean db.orders?'
    >>> suggest("x", ["db.orders", "db.items"], "the namespace contains")
    'the namespace contains db.orders, db.items'
    """
    similar = get_close_matches(name, names, n=3, cutoff=0.75)
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    return f"{intro} {_first_names(names) or 'none'}"


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def _find_in_catalog(name: str, arguments: CatalogArguments) -> CatalogEntry | None:
    """The name in the catalog that it names, or in the chosen or default one; None if there is no catalog at all."""
    if arguments.uri is not None:
        return CatalogEntry(*open_catalog(arguments.uri, arguments.options), parse_identifier(name))
    settings = load_settings()
    parts = parse_namespace(name)
    if parts[0] in settings.names and len(parts) > 1:
        return CatalogEntry(*open_catalog(parts[0], arguments.options), parse_identifier(parts[1:]))
    default = _default_catalog(settings)
    if default is not None and len(parts) > 1 and not get_close_matches(parts[0], settings.names, n=1, cutoff=0.75):
        return CatalogEntry(*open_catalog(default, arguments.options), parse_identifier(parts))
    if os.path.isdir(name):
        return None
    raise _no_catalog(name)


def _no_catalog(name: str) -> FloeError:
    first = parse_namespace(name)[0]
    names = load_settings().names
    if names:
        return NoSuchCatalog(
            f"there is no table {name!r}: no catalog is named {first!r}",
            hint=suggest(first, names, "floe.toml has"),
        )
    return NoSuchCatalog(
        f"there is no table {name!r}: there is no folder of that name, and no catalog {first!r}",
        hint="give a path as warehouse/db/orders, name the catalog with --catalog, or describe it in floe.toml",
    )


def _load_path(name: str, arguments: CatalogArguments) -> LoadedTable:
    path = os.path.expanduser(name)
    if is_sql_uri(name):
        raise InvalidName(
            f"{hide_password(name)!r} is a catalog, not a table",
            hint=f"name the table, and the catalog with --catalog {hide_password(name)}",
        )
    try:
        pointer = open_pointer(path, arguments.options)
    except NoSuchTable as error:
        raise NoSuchTable(f"there is no table at {name}", hint=_suggest_path(path) or error.hint) from None
    state = pointer.load()
    if state is None:
        raise NoSuchTable(f"there is no table at {name}")
    return LoadedTable(pointer, state, pointer.name)


def _suggest_path(path: str) -> str | None:
    """A hint with the tables in a folder that is none, or beside it; for local folders only, as others are slow."""
    if _SCHEME.match(path):
        return None
    parent, _, name = path.rstrip("/").rpartition("/")
    if children := _table_folders(path):
        return f"the folder contains {_first_names(children)}"
    siblings = _table_folders(parent or os.curdir)
    similar = get_close_matches(name, siblings, n=1)
    if similar:
        return f"did you mean {os.path.join(parent, similar[0])}?"
    return f"tables beside it are {_first_names(siblings)}" if siblings else None


def _table_folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if os.path.isdir(os.path.join(entry.path, "metadata")))
    except OSError:
        return []


def _is_path(name: str) -> bool:
    return "/" in name or name in (".", "..") or name.startswith("~") or bool(_SCHEME.match(name))


# Shell completion -----------------------------------------------------------------------------------------------------


def complete_table(incomplete: str) -> list[str]:
    """The folders, catalogs and tables that start with a text; empty if they cannot be listed.

    >>> complete_table("no-such-catalog.db")
    []
    """
    try:
        return sorted({*_matching_folders(incomplete), *_matching_tables(incomplete)})
    except (FloeError, OSError):
        return []


def _matching_folders(incomplete: str) -> Iterator[str]:
    folder, _, start = incomplete.rpartition("/")
    with os.scandir(folder or ("/" if incomplete.startswith("/") else os.curdir)) as entries:
        for entry in entries:
            if entry.name.startswith(start) and not entry.name.startswith(".") and entry.is_dir():
                path = f"{folder}/{entry.name}" if "/" in incomplete else entry.name
                is_table = os.path.isdir(os.path.join(entry.path, "metadata"))
                yield path if is_table else f"{path}/"


def _matching_tables(incomplete: str) -> Iterator[str]:
    settings = load_settings()
    first, dot, _ = incomplete.partition(".")
    if not dot:
        yield from (f"{name}." for name in settings.names if name.startswith(first))
    elif first in settings.names:
        scope = CatalogScope(*open_catalog(first, {}))
        names = (f"{first}.{format_identifier(table)}" for table in all_tables(scope))
        yield from (name for name in names if name.startswith(incomplete))


def all_tables(scope: CatalogScope) -> Iterator[Identifier]:
    """The tables of a catalog or namespace, at any depth."""
    pending = [scope.namespace] if scope.namespace else list(scope.catalog.namespaces(()))
    while pending:
        namespace = pending.pop(0)
        pending += scope.catalog.namespaces(namespace)
        yield from scope.catalog.tables(namespace)
