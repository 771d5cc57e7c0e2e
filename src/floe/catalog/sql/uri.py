"""The URIs of SQL catalogs, in Floe's spelling and those of other catalogs.

| URI | database |
|---|---|
| `sqlite:///lake.db`, `sqlite:////data/lake.db` | a file, by a relative or an absolute path (four slashes) |
| `sqlite://`, `sqlite:///:memory:` | memory, for one catalog object |
| `postgresql://user:password@host:5432/db?sslmode=require` | PostgreSQL; what follows `?` are libpq's parameters |

SQLAlchemy's drivers behind a `+` (`postgresql+psycopg2`, `sqlite+pysqlite`) are accepted, as in PyIceberg, and
ignored. User and password are percent-decoded; the path of a SQLite file is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from floe.errors import InvalidSettings

MEMORY: Final = ":memory:"
"""The path of an SQLite database that is in memory."""

_SCHEME = re.compile(r"(sqlite|postgres|postgresql)(?:\+(\w+))?:", re.I)
_DRIVERS: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset({"pysqlite"}),
    "postgresql": frozenset({"psycopg", "psycopg2", "psycopg2cffi", "pg8000"}),
}
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?")
_FORMS = "a SQL catalog is sqlite:///lake.db, or postgresql://user:password@host/database"


@dataclass(frozen=True, slots=True)
class SqliteUri:
    """A SQLite file by its path, or `:memory:`."""

    path: str
    busy_timeout: str | None = None
    """Seconds, as text of the URI."""

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@dataclass(frozen=True, slots=True)
class PostgresUri:
    """A PostgreSQL database by libpq's parameters; printed, it has no password."""

    parameters: Mapping[str, str] = field(repr=False)

    def __str__(self) -> str:
        """The user, hosts and database name only: other parameters may be secret."""
        user = self.parameters.get("user", "")
        hosts = self.parameters.get("host", "").split(",")
        ports = self.parameters.get("port", "").split(",")
        ports += [""] * (len(hosts) - len(ports))
        where = ",".join(
            (quote(host, safe="[]:./") if not host.startswith("/") else quote(host, safe="")) + (port and f":{port}")
            for host, port in zip(hosts, ports, strict=False)
        )
        return f"postgresql://{user and quote(user, safe='') + '@'}{where}/{quote(self.parameters.get('dbname', ''))}"


def is_sql_uri(text: str) -> bool:
    """Whether a text looks like the URI of a SQL catalog.

    >>> [is_sql_uri(text) for text in ("sqlite:///lake.db", "postgresql+psycopg://host/db", "s3://bucket/wh", "lake")]
    [True, True, False, False]
    """
    return _SCHEME.match(text) is not None


def parse_sql_uri(uri: str) -> SqliteUri | PostgresUri:
    """The database that a URI names.

    >>> print(parse_sql_uri("sqlite:///lake.db"), parse_sql_uri("sqlite:////data/lake.db"), parse_sql_uri("sqlite://"))
    sqlite:///lake.db sqlite:////data/lake.db sqlite:///:memory:
    >>> parsed = parse_sql_uri("postgresql+psycopg2://me:s%40cret@db.example/lake?sslmode=require")
    >>> print(parsed, parsed.parameters["password"], parsed.parameters["sslmode"])
    postgresql://me@db.example/lake s@cret require
    >>> parse_sql_uri("mysql://host/db")
    Traceback (most recent call last):
    floe.errors.InvalidSettings: there is no SQL catalog for 'mysql:'; ...
    """
    match = _SCHEME.match(uri)
    if match is None:
        # Only the scheme is shown: what follows may hold a password.
        scheme = re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", uri)
        raise InvalidSettings(f"there is no SQL catalog for {scheme[0] if scheme else 'this URI'!r}", hint=_FORMS)
    scheme_name = "sqlite" if match[1].lower() == "sqlite" else "postgresql"
    driver = (match[2] or "").lower()
    if driver and driver not in _DRIVERS[scheme_name]:
        raise InvalidSettings(f"there is no driver {driver!r} for {scheme_name}:", hint=_FORMS)
    rest = uri[match.end() :]
    if not rest.startswith("//"):
        raise InvalidSettings(f"{scheme_name}: must be followed by two slashes", hint=_FORMS)
    rest, _, query = rest[2:].partition("?")
    options = _options(query)
    return _parse_sqlite(rest, options) if scheme_name == "sqlite" else _parse_postgres(rest, options)


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in options:
            raise InvalidSettings(f"the URI sets {name} twice")
        options[name] = value
    return options


def _parse_sqlite(rest: str, options: dict[str, str]) -> SqliteUri:
    if rest and not rest.startswith("/"):
        raise InvalidSettings(
            "the SQLite URI names a host", hint="sqlite:///relative.db has three slashes, sqlite:////absolute.db four"
        )
    timeout = options.pop("timeout", None)
    if options:
        raise InvalidSettings(f"a SQLite URI has no option {', '.join(options)}", hint="it has timeout (seconds)")
    path = rest[1:]
    if "\0" in path:
        raise InvalidSettings("a SQLite path with a NUL character")
    return SqliteUri(path or MEMORY, timeout)


def _parse_postgres(rest: str, options: dict[str, str]) -> PostgresUri:
    authority, _, database = rest.partition("/")
    if "@" in database or any("@" in name for name in options):
        # Parsed further, a part of the password would be shown as the name of a host or database.
        raise InvalidSettings(
            "the PostgreSQL URI has an @ after its host",
            hint="write / ? @ in a password as %2F %3F %40, or use the option password",
        )
    credentials, _, hosts = authority.rpartition("@")
    user, has_password, password = credentials.partition(":")
    parameters = {"dbname": unquote(database), "user": unquote(user)}
    if has_password:
        parameters["password"] = unquote(password)
    names, ports = [], []
    for host in hosts.split(","):
        parts = _HOST.fullmatch(host)
        if parts is None:
            raise InvalidSettings("the host of the PostgreSQL URI cannot be read", hint=_FORMS)
        names.append(unquote(parts[1]).strip("[]"))
        ports.append(parts[2] or "")
    parameters["host"] = ",".join(names)
    parameters["port"] = ",".join(ports)
    present = {name: value for name, value in parameters.items() if value.strip(",")}
    return PostgresUri({**present, **options})
