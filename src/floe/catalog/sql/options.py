"""The options of a SQL catalog, in Floe's spelling and in those of Java's JdbcCatalog and PyIceberg's SqlCatalog.

| option | meaning |
|---|---|
| `catalog_name` | the name under which the rows stand; default: the `name` that is given, or else the only one there |
| `schema_version` | `v0` or `v1`: the tables to make, and with `v1` to change an older database to it |
| `init_catalog_tables` | `false`: never make the tables |
| `user`, `password` | for PostgreSQL, if they are not in the URI |
| `timeout` | seconds after which a statement or a wait ends (30) |
| `busy_timeout` | for SQLite: seconds to wait for other writers (30) |
| `pool_size` | for PostgreSQL: how many connections are used at once (4) |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from floe.catalog.sql.database import Database
from floe.catalog.sql.postgres import PostgresDatabase
from floe.catalog.sql.sql_schema import SchemaVersion
from floe.catalog.sql.sqlite import SqliteDatabase
from floe.catalog.sql.uri import SqliteUri, parse_sql_uri
from floe.errors import InvalidSettings

__all__ = ["SQL_OPTIONS", "database_of", "has_tables_made", "schema_version", "shown_options"]

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "catalog_name": ("catalog_name",),
    "schema_version": ("schema_version", "jdbc.schema-version"),
    "init_catalog_tables": ("init_catalog_tables", "jdbc.init-catalog-tables"),
    "user": ("user", "jdbc.user"),
    "password": ("password", "jdbc.password"),
    "timeout": ("timeout",),
    "busy_timeout": ("busy_timeout",),
    "pool_size": ("pool_size", "clients"),
}
SQL_OPTIONS: Final = frozenset(spelling for spellings in _SPELLINGS.values() for spelling in spellings)
"""Every option, in every spelling."""

_PUBLIC: Final = SQL_OPTIONS - {"password", "jdbc.password"}
_DEFAULT_SECONDS: Final = 30.0
_DEFAULT_POOL: Final = 4
_LONGEST_SECONDS: Final = 86_400.0


def database_of(uri: str, options: Mapping[str, str]) -> Database:
    """The database that a URI and options name; it is not connected to yet.

    >>> database_of("sqlite:///lake.db", {"busy_timeout": "soon"})
    Traceback (most recent call last):
    floe.errors.InvalidSettings: busy_timeout must be a number of seconds from 0 to 86400, found 'soon'
    """
    unknown = sorted(set(options) - SQL_OPTIONS)
    if unknown:
        raise InvalidSettings(f"a SQL catalog has no option {', '.join(unknown)}")
    parsed = parse_sql_uri(uri)
    if isinstance(parsed, SqliteUri):
        asked = _option(options, "busy_timeout") or parsed.busy_timeout
        return SqliteDatabase(parsed.path, busy_timeout=_seconds("busy_timeout", asked, _DEFAULT_SECONDS))
    given = {name: value for name in ("user", "password") if (value := _option(options, name)) is not None}
    return PostgresDatabase(
        {**parsed.parameters, **given},
        description=str(parsed),
        timeout=_seconds("timeout", _option(options, "timeout"), _DEFAULT_SECONDS),
        pool_size=_pool_size(_option(options, "pool_size")),
    )


def schema_version(options: Mapping[str, str]) -> SchemaVersion | None:
    """The version of the catalog's tables that is asked for, if one is.

    >>> schema_version({"jdbc.schema-version": "V1"})
    <SchemaVersion.V1: 'v1'>
    """
    asked = _option(options, "schema_version")
    return None if asked is None else SchemaVersion.parse(asked)


def has_tables_made(options: Mapping[str, str]) -> bool:
    """Whether missing tables are made.

    >>> has_tables_made({}), has_tables_made({"jdbc.init-catalog-tables": "false"})
    (True, False)
    """
    asked = (_option(options, "init_catalog_tables") or "true").lower()
    if asked not in ("true", "false"):
        raise InvalidSettings(f"init_catalog_tables must be true or false, found {asked!r}")
    return asked == "true"


def shown_options(uri: str, options: Mapping[str, str], warehouse: str | None) -> dict[str, str]:
    """The options as they may be printed: only those known not to be secret have their values.

    >>> shown_options("postgresql://me:pass@host/db", {"password": "x", "timeout": "5"}, None)
    {'uri': 'postgresql://me@host/db', 'password': '***', 'timeout': '5'}
    """
    shown = {"uri": str(parse_sql_uri(uri))}
    if warehouse is not None:
        shown["warehouse"] = re.sub(r"//[^/]*@", "//", warehouse)
    return {**shown, **{name: value if name in _PUBLIC else "***" for name, value in options.items()}}


def _option(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option, in whichever spelling it is given."""
    for spelling in _SPELLINGS[name]:
        if options.get(spelling) is not None:
            return str(options[spelling])
    return None


def _seconds(name: str, asked: str | None, default: float) -> float:
    if asked is None:
        return default
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", asked) or float(asked) > _LONGEST_SECONDS:
        raise InvalidSettings(f"{name} must be a number of seconds from 0 to {_LONGEST_SECONDS:g}, found {asked!r}")
    return float(asked)


def _pool_size(asked: str | None) -> int:
    if asked is None:
        return _DEFAULT_POOL
    if not re.fullmatch(r"\d{1,3}", asked) or int(asked) == 0:
        raise InvalidSettings(f"pool_size must be a number from 1 to 999, found {asked!r}")
    return int(asked)
