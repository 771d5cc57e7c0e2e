"""Catalogs by name: from `floe.toml` and the environment.

```toml
default = "prod"

[catalog.prod]
uri = "postgresql://me@db.example.com/lake"
password = "env:LAKE_PASSWORD"
warehouse = "s3://bucket/wh"
"s3.region" = "eu-west-1"

[catalog.scratch]
uri = "warehouse"                      # relative paths count from the folder of this file
```

Read are the `floe.toml` of the working folder or the nearest folder above it that has one, and
`~/.config/floe/floe.toml` (`$XDG_CONFIG_HOME`); a catalog that both describe is the first one's. `FLOE_CONFIG` names
one file to read instead. The environment goes before both, key by key: `FLOE_CATALOG__PROD__URI` is `uri` of `prod`,
`FLOE_CATALOG__PROD__S3__ACCESS_KEY_ID` is `s3.access-key-id`. A value `env:NAME` is that of the variable NAME.

Nothing is read until a catalog is asked for by name, and references are followed only for that one. Errors tell the
file and the key, and no values.

Passwords, tokens and keys among a catalog's options: held apart, and never printed.

A `Secret` shows as `***` wherever it is printed, and gives its value only to who asks for it. Options are secret when
their name says so, or when they came from an `env:` reference; the password in a URI is one too.

>>> options = {"uri": "postgresql://me:hunter2@host/db", "s3.secret-access-key": "abc", "warehouse": "s3://b/wh"}
>>> shown_options(options)
"uri='postgresql://me:***@host/db', s3.secret-access-key=***, warehouse='s3://b/wh'"
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from floe.errors import InvalidSettings, NoSuchCatalog, NoSuchFile
from floe.storage.local import LocalStorage
from floe.storage.protocol import Storage

# Passwords, tokens and keys among a catalog's options: held apart, and never printed.


class Secret:
    """A value that is not to be seen: printing, formatting and pickling do not give it away.

    >>> password = Secret("hunter2")
    >>> password, f"{password}", str([password])
    (***, '***', '[***]')
    >>> password.reveal()
    'hunter2'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for whoever has to send it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not pickled")


_SECRET_WORDS = re.compile(
    r"password|passwd|secret|token|credential|signature|(?:^|[._-])(?:key|sas|pwd)(?:$|[._-])", re.I
)
_PUBLIC_WORDS = re.compile(r"(?:^|[._-])(?:key[._-]id|access[._-]key[._-]id|token[._-]uri)$|no[._-]auth", re.I)
_USER_PART = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*://[^/@:]*):.*@(?=[^@]*$)", re.DOTALL)
_QUERY_SECRET = re.compile(r"([?&](?:password|sslpassword|token|sig|secret)[^=&]*=)[^&]*", re.I)


def is_secret_name(name: str) -> bool:
    """Whether an option of that name holds something that must not be seen.

    >>> [name for name in ("uri", "password", "s3.secret-access-key", "s3.region") if is_secret_name(name)]
    ['password', 's3.secret-access-key']
    """
    return bool(_SECRET_WORDS.search(name)) and not _PUBLIC_WORDS.search(name)


def hide_password(uri: str) -> str:
    """A URI without the password in it.

    >>> hide_password("postgresql://me:p@ss:w0rd@host/db?sslmode=require&password=x")
    'postgresql://me:***@host/db?sslmode=require&password=***'
    """
    return _QUERY_SECRET.sub(r"\1***", _USER_PART.sub(r"\1:***@", uri))


def shown_options(options: Mapping[str, Any]) -> str:
    """Options as text, secrets hidden."""
    return ", ".join(f"{name}={_shown(name, value)}" for name, value in options.items())


def reveal(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the secrets in the clear, for whoever opens the catalog.

    >>> reveal({"password": Secret("hunter2"), "warehouse": "wh"})
    {'password': 'hunter2', 'warehouse': 'wh'}
    """
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


def _shown(name: str, value: Any) -> str:
    if isinstance(value, Secret) or is_secret_name(name):
        return "***"
    return repr(hide_password(value)) if isinstance(value, str) else repr(value)


FILE_NAME = "floe.toml"
_MAX_BYTES = 1024 * 1024
_ENV_PREFIX = "FLOE_CATALOG__"
_ENV_REFERENCE = "env:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RELATIVE_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)([^/:].*)", re.DOTALL)
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A catalog as the settings describe it: its URI, its options, and where each was found.

    >>> CatalogSettings("prod", "postgresql://me:hunter2@host/db", {"password": Secret("x")})
    CatalogSettings('prod', uri='postgresql://me:***@host/db', password=***)
    """

    name: str
    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = ", ".join(filter(None, [f"uri={hide_password(self.uri)!r}", shown_options(self.options)]))
        return f"CatalogSettings({self.name!r}, {shown})"


@dataclass(frozen=True, slots=True)
class _Description:
    """A catalog as it was written down: options as they are in a file, and those that the environment sets."""

    written: Mapping[str, Any]
    file: str | None
    environment: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """All named catalogs, and the files that they were read from."""

    names: tuple[str, ...] = ()
    default: str | None = None
    files: tuple[str, ...] = ()
    descriptions: Mapping[str, _Description] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def catalog(self, name: str | None = None) -> CatalogSettings:
        """The catalog of that name; without a name the default one, or the only one.

        >>> Settings().catalog("prod")
        Traceback (most recent call last):
        floe.errors.NoSuchCatalog: no catalog is named 'prod'; there is no floe.toml here or above; ...
        """
        wanted = self.default if name is None else name
        if wanted is None and len(self.names) == 1:
            (wanted,) = self.names
        if wanted is None:
            raise NoSuchCatalog("no catalog was named, and there is no default one", hint=self._advice())
        if wanted not in self.names:
            raise NoSuchCatalog(f"no catalog is named {wanted!r}", hint=self._advice())
        return _settings(wanted, self.descriptions[wanted], self.environ)

    def _advice(self) -> str:
        if self.names:
            return f"the settings have {', '.join(self.names)}"
        read = f"{', '.join(self.files)} has none" if self.files else f"there is no {FILE_NAME} here or above"
        return f"{read}; write [catalog.<name>] with a uri into {FILE_NAME}, or set {_ENV_PREFIX}<NAME>__URI"


def load_settings(
    *, environ: Mapping[str, str] | None = None, folder: str | None = None, storage: Storage | None = None
) -> Settings:
    """The settings that hold in a folder (default: the working folder) under an environment (default: the process's).

    >>> settings = load_settings(environ={"FLOE_CATALOG__PROD__URI": "s3://bucket/wh"}, folder="/nowhere")
    >>> settings.catalog("prod")
    CatalogSettings('prod', uri='s3://bucket/wh')
    """
    environ = os.environ if environ is None else environ
    storage = LocalStorage() if storage is None else storage
    chosen = environ.get("FLOE_CONFIG")
    paths = [os.path.abspath(chosen)] if chosen else _places(storage, environ, os.path.abspath(folder or os.curdir))
    written: dict[str, tuple[Mapping[str, Any], str | None]] = {}
    default: str | None = None
    files: list[str] = []
    for path in paths:
        document = _read(storage, path, must_exist=bool(chosen))
        if document is not None:
            files.append(path)
            default = default or _default(document, path)
            for name, options in _tables(document, path):
                written.setdefault(name, (options, path))
    set_here: dict[str, dict[str, Any]] = {}
    for name, key, value in _from_environment(environ):
        set_here.setdefault(_matching(name, written), {})[key] = value
    descriptions = {}
    for name in {**written, **set_here}:
        options, file = written.get(name, ({}, None))
        descriptions[name] = _Description(options, file, set_here.get(name, {}))
    return Settings(tuple(sorted(descriptions)), default, tuple(files), MappingProxyType(descriptions), environ)


def _places(storage: Storage, environ: Mapping[str, str], folder: str) -> Iterator[str]:
    """Where settings files may be, the ones that count more first."""
    while True:
        path = os.path.join(folder, FILE_NAME)
        if storage.exists(path):
            yield path
            break
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    home = environ.get("XDG_CONFIG_HOME") or (os.path.join(environ["HOME"], ".config") if environ.get("HOME") else None)
    if home:
        yield os.path.join(home, "floe", FILE_NAME)


def _read(storage: Storage, path: str, *, must_exist: bool) -> dict[str, Any] | None:
    try:
        content = storage.read(path, max_bytes=_MAX_BYTES)
    except NoSuchFile:
        if must_exist:
            raise InvalidSettings("FLOE_CONFIG names a file that is not there", file=path) from None
        return None
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise InvalidSettings("the settings file is not UTF-8", file=path) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"the settings file is no TOML: {error}", file=path) from None


def _default(document: Mapping[str, Any], path: str) -> str | None:
    default = document.get("default")
    if default is not None and not isinstance(default, str):
        raise InvalidSettings("the default must be the name of a catalog", file=path, key="default")
    return default


def _tables(document: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if unknown := sorted(set(document) - {"default", "catalog"}):
        raise InvalidSettings(
            "a key that has no meaning here", file=path, key=unknown[0], hint="catalogs are tables [catalog.<name>]"
        )
    tables = document.get("catalog", {})
    for name, options in tables.items() if isinstance(tables, dict) else [("", None)]:
        key = f"catalog.{name}".rstrip(".")
        if not isinstance(options, dict):
            raise InvalidSettings(
                "a catalog is described by a table", file=path, key=key, hint="write [catalog.<name>]"
            )
        if not _NAME.fullmatch(name):
            raise InvalidSettings(
                "a catalog's name has letters, digits, _ and - only, and a letter first", file=path, key=key
            )
        yield name, _flattened(options, path, key)


def _flattened(options: Mapping[str, Any], path: str, key: str) -> dict[str, Any]:
    """Options with dotted names: `s3.region = "x"` without quotes is a table within the table, and means the same."""
    out: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict) and name != "prefixes":
            out |= {f"{name}.{rest}": v for rest, v in _flattened(value, path, f"{key}.{name}").items()}
        elif isinstance(value, str | int | float | bool | list | dict):
            out[name] = value
        else:
            raise InvalidSettings(
                f"an option must be text or a number, found {type(value).__name__}", file=path, key=f"{key}.{name}"
            )
    return out


def _resolved(options: Mapping[str, Any], environ: Mapping[str, str], path: str, catalog: str) -> dict[str, Any]:
    """The options with `env:` references followed, secrets wrapped, and relative paths made absolute."""
    out: dict[str, Any] = {}
    for name, value in options.items():
        where = {"file": path, "key": f"catalog.{catalog}.{name}"}
        if isinstance(value, str) and value.startswith(_ENV_REFERENCE):
            variable = value.removeprefix(_ENV_REFERENCE)
            if variable not in environ:
                raise InvalidSettings(
                    f"the environment has no variable {variable}", hint="set it, or write the value", **where
                )
            found = environ[variable]
            out[name] = found if name in ("uri", "warehouse") else Secret(found)
        elif isinstance(value, str) and is_secret_name(name):
            out[name] = Secret(value)
        elif name in ("uri", "warehouse"):
            if not isinstance(value, str):
                raise InvalidSettings("must be text", **where)
            out[name] = _from_folder(value, os.path.dirname(path))
        else:
            out[name] = value
    return out


def _from_folder(location: str, folder: str) -> str:
    if sqlite := _RELATIVE_SQLITE.fullmatch(location):
        return sqlite[1] + os.path.join(folder, sqlite[2])
    return location if _HAS_SCHEME.match(location) else os.path.join(folder, os.path.expanduser(location))


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """The catalog, the option and the value of each variable that sets one."""
    for variable, value in sorted(environ.items()):
        name, _, option = variable.removeprefix(_ENV_PREFIX).partition("__")
        if variable.startswith(_ENV_PREFIX) and name and option:
            key = option.lower()
            if "__" in key:  # Iceberg's properties have dots and dashes, plain options underscores
                key = key.replace("__", ".").replace("_", "-")
            yield name.lower(), key, Secret(value) if is_secret_name(key) else value


def _matching(name: str, known: Mapping[str, Any]) -> str:
    """The catalog that a variable means: names there are upper case, and have _ for -."""
    return next((each for each in known if each.lower().replace("-", "_") == name), name)


def _settings(name: str, description: _Description, environ: Mapping[str, str]) -> CatalogSettings:
    options = _resolved(description.written, environ, description.file or "", name) | dict(description.environment)
    uri = options.pop("uri", None)
    if not uri:
        raise InvalidSettings(
            f"catalog {name} has no uri",
            file=description.file,
            key=f"catalog.{name}.uri",
            hint='write uri = "warehouse", "sqlite:///lake.db" or another',
        )
    return CatalogSettings(name, uri, MappingProxyType(options))
