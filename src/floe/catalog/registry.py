"""From a URI, a path or a name of the settings to the catalog, or to the pointer of one table.

`floe.table.lake` makes a `Lake` or a `Table` of them. Here nothing is imported that only rows or commits need,
and only the kind of catalog that is opened, so that who looks at names and metadata alone, as `floe ls` does, starts at
once.

The storage of a lake or a table, put together from what a user says: where, with which keys, moved from where.

| option | meaning |
|---|---|
| `prefixes` | `{"/old/root/": "/new/root/"}`: files recorded below one folder are found below another (a moved or copied table, or Trino's `local:///`) |
| `roots` | folders that may be touched, and no others; `"*"` for all. By default the warehouse, and what is vouched for of each table (`floe.commit.roots`) |
| `max_read_bytes` | the most that one read takes into memory (1 GiB) |
| `storage` | a storage of your own, in place of all this |
| others | those of the store: `s3.region`, `s3.endpoint`, … or `durable=False` for local disk |

Only the stores of the warehouse and of the roots are opened: a table in a bucket cannot make anybody read local files.
"""  # noqa: E501 (a table)

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, cast

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.file_system.folder_table import pointer_at
from floe.catalog.protocol import Catalog
from floe.catalog.settings import hide_password, load_settings, reveal, shown_options
from floe.catalog.sql.uri import is_sql_uri
from floe.commit.pointer import Pointer
from floe.commit.roots import table_folder
from floe.errors import InvalidInput, InvalidSettings, NoSuchCatalog
from floe.storage.environment import Environment
from floe.storage.locations import LOCATION_SCHEMES, parse
from floe.storage.protocol import Storage
from floe.storage.schemes import STORAGE_OPTIONS, configure_storage

_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_CATALOG_OPTIONS: Final = ("name", "warehouse", "environment")
_SCHEMES: Final = ("sqlite", "postgresql", "postgres", "memory", "hdfs", *LOCATION_SCHEMES)
_SHOWN: Final = 5
_NO_CATALOG: Final = frozenset({"http", "https", "thrift", "glue", "jdbc", "mysql", "hive", "rest"})


def open_catalog(
    uri: str | os.PathLike[str] | None, options: Mapping[str, Any], *, called: str | None = None
) -> tuple[Catalog, Environment]:
    """The catalog at a path or URI, or of a name in the settings, and the environment that it works in.

    Without a URI it is the default one of the settings. `floe.connect` says what the options are. `called` is how it is
    called here, unless the options name it; it is not what it is called in a database.

    >>> open_catalog("memory:", {"name": "scratch"})[0].name
    'scratch'
    """
    if uri is None:
        return _named(None, options, called)
    text = os.fspath(uri)
    if not isinstance(text, str) or not text:
        raise InvalidSettings(f"a catalog is named by text, found {text!r:.80}")
    if isinstance(uri, str) and _PLAIN_WORD.fullmatch(text):
        settings = load_settings()
        if text in settings.names:
            return _named(text, options, called)
        if not os.path.isdir(text):
            raise _no_catalog(text, settings.names)
    return _catalog(text, options, called=called)


def _no_catalog(word: str, names: Iterable[str]) -> NoSuchCatalog:
    """A word that is no name, nor a folder that is there: nobody wants an empty catalog for a mistake."""
    known = list(names)
    near = [f"{one!r}" for one in get_close_matches(word, known, n=3, cutoff=0.6)]
    has = f"the settings have {', '.join(map(repr, known[:_SHOWN]))}" if known else "there are no settings (floe.toml)"
    told = f"did you mean {' or '.join(near)}? " if near else f"{has}; "
    return NoSuchCatalog(
        f"no catalog is named {word!r}, and there is no folder of that name",
        hint=f"{told}for a new warehouse in this folder, write './{word}'",
    )


def open_pointer(path: str | os.PathLike[str], options: Mapping[str, Any]) -> Pointer:
    """The pointer to the table in a folder, or of one metadata file; `floe.open` says what the options are.

    >>> open_pointer("memory:nothing/here", {})
    Traceback (most recent call last):
    floe.errors.NoSuchTable: ...
    """
    given = reveal(options)
    environment = _environment(given)
    location = parse(os.fspath(path)).text
    return pointer_at(location, _storage(location, given, usual=[_opened_folder(location)]), environment)


def _opened_folder(location: str) -> str:
    """The folder of the table that is opened by its path: the one that is named, or that of the metadata file."""
    return table_folder(location if location.endswith((".json", ".gz")) else f"{location.rstrip('/')}/")


def _named(name: str | None, options: Mapping[str, Any], called: str | None) -> tuple[Catalog, Environment]:
    settings = load_settings().catalog(name)
    given = {**settings.options, **options}
    return _catalog(settings.uri, given, called=called or settings.name, recorded=settings.name)


def _catalog(
    uri: str, options: Mapping[str, Any], *, called: str | None = None, recorded: str | None = None
) -> tuple[Catalog, Environment]:
    """The catalog of a URI, and the environment that it works in; `recorded` is its name in a database."""
    given = reveal(options)
    environment = _environment(given)
    name = given.pop("name", None)
    if name is not None and not isinstance(name, str):
        raise InvalidSettings(f"a catalog's name must be text, found {name!r:.80}")
    scheme = (match[1].lower() if (match := _SCHEME.match(uri)) else "file").partition("+")[0]
    if is_sql_uri(uri):
        if recorded is not None and name is None:
            given.setdefault("catalog_name", recorded)
        return _sql(uri, name, called, given, environment), environment
    name = name or called
    near = [] if scheme in (*_SCHEMES, *_NO_CATALOG) else get_close_matches(scheme, _SCHEMES, n=1, cutoff=0.8)
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
    if scheme == "memory" and not parse(uri).path:
        return _memory(name, given, environment), environment
    return _file_system(uri, name, given, environment), environment


def _sql(uri: str, name: str | None, called: str | None, given: dict[str, Any], environment: Environment) -> Catalog:
    sql = import_module("floe.catalog.sql.catalog")
    known = import_module("floe.catalog.sql.catalog").SQL_OPTIONS
    warehouse = given.pop("warehouse", None)
    if warehouse is not None:
        warehouse = parse(os.fspath(warehouse)).text
    own = {key: given.pop(key) for key in list(given) if key in known}
    opened = sql.connect_sql(
        uri,
        name=name or called or sql.DEFAULT_NAME,
        finds_name=name is None,
        warehouse=warehouse,
        storage=_storage(warehouse or os.curdir, given, *known, usual=() if warehouse is None else [warehouse]),
        environment=environment,
        options={key: str(value) for key, value in own.items()},
    )
    return cast(Catalog, opened)


def _memory(name: str | None, given: dict[str, Any], environment: Environment) -> Catalog:
    warehouse = given.pop("warehouse", None)
    shown = {"uri": "memory:", **({} if warehouse is None else {"warehouse": str(warehouse)})}
    if warehouse is None:
        warehouse = "memory:warehouse"
        _only(given, *STORAGE_OPTIONS)
    storage = _storage(warehouse, given)
    opened = import_module("floe.catalog.memory").MemoryCatalog(
        name or "memory",
        storage=storage,
        environment=environment,
        warehouse=parse(warehouse).text,
        properties=shown,
    )
    return cast(Catalog, opened)


def _file_system(uri: str, name: str | None, given: dict[str, Any], environment: Environment) -> Catalog:
    warehouse = given.pop("warehouse", None)
    if warehouse is not None:
        raise InvalidSettings("a folder is its own warehouse", hint="leave out warehouse", uri=hide_password(uri))
    location = parse(os.path.expanduser(uri)).text
    storage = _storage(location, given)
    shown = {"warehouse": location, **({"options": shown_options(given)} if given else {})}
    usual = location.rstrip("/").rpartition("/")[2] or "warehouse"
    return FileSystemCatalog(location, name=name or usual, storage=storage, environment=environment, properties=shown)


def _storage(location: str, given: Mapping[str, Any], *others: str, usual: Iterable[str] | None = None) -> Storage:
    """The storage of a location; a mistyped option is told with the one that it may have been meant to be."""
    try:
        return configure_storage(location, given, default_roots=usual)
    except InvalidInput as error:
        error.hint = error.hint or _near(given, *others)
        raise


def _near(given: Iterable[str], *others: str) -> str | None:
    known = (*STORAGE_OPTIONS, *_CATALOG_OPTIONS, *others)
    found = [near for name in given if name not in known for near in get_close_matches(name, known, n=1)]
    return f"did you mean {', '.join(found)}?" if found else None


def _environment(given: dict[str, Any]) -> Environment:
    environment = given.pop("environment", None)
    if environment is None:
        return Environment()
    if not isinstance(environment, Environment):
        raise InvalidSettings(f"environment must be an Environment, found {type(environment).__name__}")
    return environment


def _only(given: Mapping[str, Any], *known: str) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise InvalidSettings(f"memory: has no option {', '.join(unknown)}", hint=_near(unknown))
