"""Opening a catalog by a URI, a path or a name of the settings, or the pointer of one table by its path.

The scheme of the URI chooses the kind of catalog:

| URI | catalog |
|---|---|
| `sqlite:///…`, `postgresql://…` | `floe.catalog.sql` |
| `memory:` | `floe.catalog.memory` |
| registered with `register`, or by a package in the entry points `floe.catalogs` | that one |
| every other location: a path, `s3://…`, `gs://…`, `abfs://…` | `floe.catalog.file_system` |

`floe.table.lake` wraps them in a `Lake` or a `Table`. Only the module of the catalog that is opened is imported, and
nothing that only rows or commits need, so that a command like `floe ls` starts fast.

The storage of a catalog or table is configured by these options:

| option | meaning |
|---|---|
| `prefixes` | `{"/old/root/": "/new/root/"}`: files recorded below one folder are read below another (a moved or copied table, or Trino's `local:///`) |
| `roots` | the only folders that may be read or written; `"*"` for all. By default the warehouse, and the folders that each table is allowed (`floe.commit.roots`) |
| `max_read_bytes` | the most that one read takes into memory (1 GiB) |
| `storage` | a storage object, instead of all this |
| all others | those of the store: `s3.region`, `s3.endpoint`, … or `durable=False` for local disk |

Only the stores of the warehouse and of the roots are opened: a table in a bucket cannot cause a read of local files.
"""  # noqa: E501 (a table)

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.file_system.folder_table import pointer_at
from floe.catalog.protocol import Catalog
from floe.catalog.settings import hide_password, load_settings, reveal, shown_options
from floe.commit.pointer import Pointer
from floe.commit.roots import table_folder
from floe.errors import InvalidInput, InvalidSettings, NoSuchCatalog
from floe.plugins import PluginRegistry
from floe.storage.environment import Environment
from floe.storage.locations import LOCATION_SCHEMES, parse
from floe.storage.protocol import Storage
from floe.storage.schemes import STORAGE_OPTIONS, configure_storage

_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_CATALOG_OPTIONS: Final = ("name", "warehouse", "environment")
_SHOWN: Final = 5
_NO_CATALOG: Final = frozenset({"http", "https", "thrift", "glue", "jdbc", "mysql", "hive", "rest"})


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """What a user asked for: the argument of the function that opens a catalog."""

    uri: str
    options: Mapping[str, Any] = field(repr=False)
    """Options other than `name` and `environment`, with the values of secrets."""

    environment: Environment = field(repr=False)
    """The clock and ids that the catalog is to use."""

    name: str | None = None
    """The option `name`; None if it was not given."""

    alias: str | None = None
    """The name by which the caller refers to the catalog, such as that of a Spark catalog."""

    settings_name: str | None = None
    """The name in the settings, if the catalog was opened by it."""

    @property
    def shown_name(self) -> str | None:
        """The name of the catalog object: the option, or else the alias."""
        return self.name or self.alias


CatalogOpener: TypeAlias = Callable[[CatalogRequest], Catalog]
"""Opens a catalog."""

_OPENERS: Final[PluginRegistry[CatalogOpener]] = PluginRegistry(
    "floe.catalogs",
    {
        **dict.fromkeys(("hdfs", *LOCATION_SCHEMES), "floe.catalog.registry:_open_file_system"),
        "sqlite": "floe.catalog.registry:_open_sql",
        "postgresql": "floe.catalog.registry:_open_sql",
        "postgres": "floe.catalog.registry:_open_sql",
        "memory": "floe.catalog.registry:_open_memory",
    },
)


def register(scheme: str, opener: CatalogOpener, *, replace: bool = False) -> None:
    """Have `opener(request)` open the catalogs of all URIs `scheme:…`; `request` is a `CatalogRequest`.

    A package does the same, without a call, by an entry point in the group `floe.catalogs`. A scheme that is built in
    or registered already is an error, unless `replace` is set.

    >>> memory = import_module("floe.catalog.memory")
    >>> register("doctest", lambda request: memory.MemoryCatalog(request.shown_name or "doctest"))
    >>> open_catalog("doctest://host/lake", {})[0]
    MemoryCatalog('doctest', 0 tables)
    """
    _OPENERS.register(scheme, opener, replace=replace)


def open_catalog(
    uri: str | os.PathLike[str] | None, options: Mapping[str, Any], *, alias: str | None = None
) -> tuple[Catalog, Environment]:
    """The catalog at a path or URI, or of a name in the settings, and its environment.

    Without a URI it is the default one of the settings. `floe.connect` describes the options. `alias` is the name of
    the catalog object, unless the options name it; it is not the name in a database.

    >>> open_catalog("memory:", {"name": "scratch"})[0].name
    'scratch'
    """
    if uri is None:
        return _open_named(None, options, alias)
    text = os.fspath(uri)
    if not isinstance(text, str) or not text:
        raise InvalidSettings(f"the URI of a catalog must be text, found {text!r:.80}")
    if isinstance(uri, str) and _PLAIN_WORD.fullmatch(text):
        settings = load_settings()
        if text in settings.names:
            return _open_named(text, options, alias)
        if not os.path.isdir(text):
            raise _no_catalog(text, settings.names)
    return _open(text, options, alias=alias)


def _no_catalog(word: str, names: Iterable[str]) -> NoSuchCatalog:
    """The error for a word that is neither a name nor an existing folder, and so no new warehouse by mistake."""
    configured = list(names)
    near = [repr(name) for name in get_close_matches(word, configured, n=3, cutoff=0.6)]
    examples = ", ".join(map(repr, configured[:_SHOWN]))
    listed = f"the settings have {examples}" if configured else "there are no settings (floe.toml)"
    suggestion = f"did you mean {' or '.join(near)}? " if near else f"{listed}; "
    return NoSuchCatalog(
        f"no catalog is named {word!r}, and there is no folder of that name",
        hint=f"{suggestion}for a new warehouse in this folder, write './{word}'",
    )


def open_pointer(path: str | os.PathLike[str], options: Mapping[str, Any]) -> Pointer:
    """The pointer to the table in a folder, or of one metadata file; `floe.open` describes the options.

    >>> open_pointer("memory:nothing/here", {})
    Traceback (most recent call last):
    floe.errors.NoSuchTable: ...
    """
    values = reveal(options)
    environment = _take_environment(values)
    location = parse(os.fspath(path)).text
    storage = _configure_storage(location, values, default_roots=[_opened_folder(location)])
    return pointer_at(location, storage, environment)


def _opened_folder(location: str) -> str:
    """The folder of a table that is opened by its path, or by one of its metadata files."""
    return table_folder(location if location.endswith((".json", ".gz")) else f"{location.rstrip('/')}/")


def _open_named(name: str | None, options: Mapping[str, Any], alias: str | None) -> tuple[Catalog, Environment]:
    settings = load_settings().catalog(name)
    values = {**settings.options, **options}
    return _open(settings.uri, values, alias=alias or settings.name, settings_name=settings.name)


def _open(
    uri: str, options: Mapping[str, Any], *, alias: str | None = None, settings_name: str | None = None
) -> tuple[Catalog, Environment]:
    """The catalog of a URI, and its environment."""
    values = reveal(options)
    environment = _take_environment(values)
    name = values.pop("name", None)
    if name is not None and not isinstance(name, str):
        raise InvalidSettings(f"a catalog's name must be text, found {name!r:.80}")
    scheme = (match[1].lower() if (match := _SCHEME.match(uri)) else "file").partition("+")[0]
    request = CatalogRequest(uri, values, environment, name, alias, settings_name)
    opener = _OPENERS.find(scheme) or _opener_of_unknown(scheme, uri)
    return opener(request), environment


def _opener_of_unknown(scheme: str, uri: str) -> CatalogOpener:
    """A scheme without a catalog is left to fsspec as a warehouse, unless it is a typing error or a known service."""
    schemes = _OPENERS.names()
    near = [] if scheme in _NO_CATALOG else get_close_matches(scheme, schemes, n=1, cutoff=0.8)
    if near:
        raise InvalidSettings(
            f"there is no catalog for {scheme}:",
            hint=f"did you mean {near[0]}{hide_password(uri)[len(scheme) :]}?",
            uri=hide_password(uri),
        )
    if scheme in _NO_CATALOG:
        raise InvalidSettings(
            f"there is no catalog for {scheme}:",
            hint="catalogs are a folder (a path, s3://, gs://, abfs://), sqlite:///…, postgresql://… and memory:",
            uri=hide_password(uri),
        )
    return _open_file_system


def _open_sql(request: CatalogRequest) -> Catalog:
    sql = import_module("floe.catalog.sql.catalog")
    values = dict(request.options)
    if request.settings_name is not None and request.name is None:
        values.setdefault("catalog_name", request.settings_name)
    warehouse = values.pop("warehouse", None)
    if warehouse is not None:
        warehouse = parse(os.fspath(warehouse)).text
    sql_options = {key: str(values.pop(key)) for key in list(values) if key in sql.SQL_OPTIONS}
    roots = () if warehouse is None else [warehouse]
    catalog = sql.connect_sql(
        request.uri,
        name=request.shown_name or sql.DEFAULT_NAME,
        finds_name=request.name is None,
        warehouse=warehouse,
        storage=_configure_storage(warehouse or os.curdir, values, *sql.SQL_OPTIONS, default_roots=roots),
        environment=request.environment,
        options=sql_options,
    )
    return cast(Catalog, catalog)


def _open_memory(request: CatalogRequest) -> Catalog:
    """The catalog in memory; with a path it is a file-system catalog in memory."""
    if parse(request.uri).path:
        return _open_file_system(request)
    values = dict(request.options)
    warehouse = values.pop("warehouse", None)
    shown = {"uri": "memory:", **({} if warehouse is None else {"warehouse": str(warehouse)})}
    if warehouse is None:
        warehouse = "memory:warehouse"
        _check_options(values, *STORAGE_OPTIONS)
    catalog = import_module("floe.catalog.memory").MemoryCatalog(
        request.shown_name or "memory",
        storage=_configure_storage(warehouse, values),
        environment=request.environment,
        warehouse=parse(warehouse).text,
        properties=shown,
    )
    return cast(Catalog, catalog)


def _open_file_system(request: CatalogRequest) -> Catalog:
    values = dict(request.options)
    if values.pop("warehouse", None) is not None:
        raise InvalidSettings(
            "a folder is its own warehouse", hint="leave out warehouse", uri=hide_password(request.uri)
        )
    location = parse(os.path.expanduser(request.uri)).text
    return FileSystemCatalog(
        location,
        name=request.shown_name or location.rstrip("/").rpartition("/")[2] or "warehouse",
        storage=_configure_storage(location, values),
        environment=request.environment,
        properties={"warehouse": location, **({"options": shown_options(values)} if values else {})},
    )


def _configure_storage(
    location: str, values: Mapping[str, Any], *option_names: str, default_roots: Iterable[str] | None = None
) -> Storage:
    """The storage of a location; for an unknown option the error suggests a similar one."""
    try:
        return configure_storage(location, values, default_roots=default_roots)
    except InvalidInput as error:
        error.hint = error.hint or _similar_options(values, *option_names)
        raise


def _similar_options(names: Iterable[str], *option_names: str) -> str | None:
    """A hint with the options that unknown names may stand for."""
    options = (*STORAGE_OPTIONS, *_CATALOG_OPTIONS, *option_names)
    similar = [near for name in names if name not in options for near in get_close_matches(name, options, n=1)]
    return f"did you mean {', '.join(similar)}?" if similar else None


def _take_environment(values: dict[str, Any]) -> Environment:
    environment = values.pop("environment", None)
    if environment is None:
        return Environment()
    if not isinstance(environment, Environment):
        raise InvalidSettings(f"environment must be an Environment, found {type(environment).__name__}")
    return environment


def _check_options(values: Mapping[str, Any], *option_names: str) -> None:
    if unknown := sorted(set(values) - set(option_names)):
        raise InvalidSettings(f"memory: has no option {', '.join(unknown)}", hint=_similar_options(unknown))
