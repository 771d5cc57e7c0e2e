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

Two files are read: the `floe.toml` of the working folder or the nearest folder above it that has one, and
`~/.config/floe/floe.toml` (`$XDG_CONFIG_HOME`); a catalog that is in both is taken from the first. `FLOE_CONFIG` names
one file to read instead. The environment overrides both, key by key: `FLOE_CATALOG__PROD__URI` is `uri` of `prod`,
`FLOE_CATALOG__PROD__S3__ACCESS_KEY_ID` is `s3.access-key-id`. A value `env:NAME` is that of the variable NAME.

Nothing is read until a catalog is opened by name, and references are resolved only for that one. Errors name the file
and the key, and never values.

Passwords, tokens and keys are held as `Secret`, which is printed as `***`; only `reveal` returns the value. Options are
secret by their name, or when they came from an `env:` reference; the password in a URI is secret too.

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

# secrets ----------------------------------------------------------------------------------------------------------


class Secret:
    """A value that is never shown: printing and formatting give `***`, and it cannot be pickled.

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
        """The value itself, for the code that sends it."""
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
    """Whether the value of an option of that name is secret.

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
    """The options as text, secrets masked."""
    return ", ".join(f"{name}={_for_display(name, value)}" for name, value in options.items())


def reveal(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with plain values of secrets, for the code that opens the catalog.

    >>> reveal({"password": Secret("hunter2"), "warehouse": "wh"})
    {'password': 'hunter2', 'warehouse': 'wh'}
    """
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


def _for_display(name: str, value: Any) -> str:
    if isinstance(value, Secret) or is_secret_name(name):
        return "***"
    return repr(hide_password(value)) if isinstance(value, str) else repr(value)


# settings ---------------------------------------------------------------------------------------------------------

FILE_NAME = "floe.toml"
_MAX_BYTES = 1024 * 1024
_ENV_PREFIX = "FLOE_CATALOG__"
_ENV_REFERENCE = "env:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RELATIVE_SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)([^/:].*)", re.DOTALL)
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """A catalog as the settings describe it: its name, URI and options.

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
    """A catalog before its references are resolved: the options in a file, and those of the environment."""

    file_options: Mapping[str, Any]
    file: str | None
    environment_options: Mapping[str, Any]


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
        chosen = self.default if name is None else name
        if chosen is None and len(self.names) == 1:
            (chosen,) = self.names
        if chosen is None:
            raise NoSuchCatalog("no catalog was named, and there is no default one", hint=self._hint())
        if chosen not in self.names:
            raise NoSuchCatalog(f"no catalog is named {chosen!r}", hint=self._hint())
        return _settings(chosen, self.descriptions[chosen], self.environ)

    def _hint(self) -> str:
        if self.names:
            return f"the settings have {', '.join(self.names)}"
        reason = f"{', '.join(self.files)} has none" if self.files else f"there is no {FILE_NAME} here or above"
        return f"{reason}; write [catalog.<name>] with a uri into {FILE_NAME}, or set {_ENV_PREFIX}<NAME>__URI"


def load_settings(
    *, environ: Mapping[str, str] | None = None, folder: str | None = None, storage: Storage | None = None
) -> Settings:
    """The settings for a folder (default: the working folder) and an environment (default: the process's).

    >>> settings = load_settings(environ={"FLOE_CATALOG__PROD__URI": "s3://bucket/wh"}, folder="/nowhere")
    >>> settings.catalog("prod")
    CatalogSettings('prod', uri='s3://bucket/wh')
    """
    environ = os.environ if environ is None else environ
    storage = LocalStorage() if storage is None else storage
    config_file = environ.get("FLOE_CONFIG")
    paths = (
        [os.path.abspath(config_file)]
        if config_file
        else _settings_files(storage, environ, os.path.abspath(folder or os.curdir))
    )
    in_files: dict[str, tuple[Mapping[str, Any], str | None]] = {}
    default: str | None = None
    files: list[str] = []
    for path in paths:
        document = _read(storage, path, must_exist=bool(config_file))
        if document is not None:
            files.append(path)
            default = default or _default(document, path)
            for name, options in _tables(document, path):
                in_files.setdefault(name, (options, path))
    in_environment: dict[str, dict[str, Any]] = {}
    for name, key, value in _from_environment(environ):
        in_environment.setdefault(_catalog_of_variable(name, in_files), {})[key] = value
    descriptions = {}
    for name in {**in_files, **in_environment}:
        options, file = in_files.get(name, ({}, None))
        descriptions[name] = _Description(options, file, in_environment.get(name, {}))
    return Settings(tuple(sorted(descriptions)), default, tuple(files), MappingProxyType(descriptions), environ)


def _settings_files(storage: Storage, environ: Mapping[str, str], folder: str) -> Iterator[str]:
    """The paths of settings files, those of higher precedence first."""
    while True:
        path = os.path.join(folder, FILE_NAME)
        if storage.exists(path):
            yield path
            break
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    home = environ.get("XDG_CONFIG_HOME") or (os.path.join(environ["HOME"], ".config") if environ.get("HOME") else None)
    if home:
        yield os.path.join(home, "floe", FILE_NAME)


def _read(storage: Storage, path: str, *, must_exist: bool) -> dict[str, Any] | None:
    try:
        content = storage.read(path, max_bytes=_MAX_BYTES)
    except NoSuchFile:
        if must_exist:
            raise InvalidSettings("FLOE_CONFIG names a file that does not exist", file=path) from None
        return None
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise InvalidSettings("the settings file is not UTF-8", file=path) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"the settings file is not TOML: {error}", file=path) from None


def _default(document: Mapping[str, Any], path: str) -> str | None:
    default = document.get("default")
    if default is not None and not isinstance(default, str):
        raise InvalidSettings("the default must be the name of a catalog", file=path, key="default")
    return default


def _tables(document: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if unknown := sorted(set(document) - {"default", "catalog"}):
        raise InvalidSettings("unknown key", file=path, key=unknown[0], hint="catalogs are tables [catalog.<name>]")
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
    """Options with dotted names: `s3.region = "x"` without quotes is a nested TOML table, and means the same."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict) and name != "prefixes":
            nested = _flattened(value, path, f"{key}.{name}")
            flat |= {f"{name}.{inner}": inner_value for inner, inner_value in nested.items()}
        elif isinstance(value, str | int | float | bool | list | dict):
            flat[name] = value
        else:
            raise InvalidSettings(
                f"an option must be text or a number, found {type(value).__name__}", file=path, key=f"{key}.{name}"
            )
    return flat


def _resolved(options: Mapping[str, Any], environ: Mapping[str, str], path: str, catalog: str) -> dict[str, Any]:
    """The options with `env:` references resolved, secrets wrapped, and relative paths made absolute."""
    resolved: dict[str, Any] = {}
    for name, value in options.items():
        where = {"file": path, "key": f"catalog.{catalog}.{name}"}
        if isinstance(value, str) and value.startswith(_ENV_REFERENCE):
            variable = value.removeprefix(_ENV_REFERENCE)
            if variable not in environ:
                raise InvalidSettings(
                    f"the environment has no variable {variable}", hint="set it, or write the value", **where
                )
            text = environ[variable]
            resolved[name] = text if name in ("uri", "warehouse") else Secret(text)
        elif isinstance(value, str) and is_secret_name(name):
            resolved[name] = Secret(value)
        elif name in ("uri", "warehouse"):
            if not isinstance(value, str):
                raise InvalidSettings("must be text", **where)
            resolved[name] = _absolute(value, os.path.dirname(path))
        else:
            resolved[name] = value
    return resolved


def _absolute(location: str, folder: str) -> str:
    """A location of a settings file; relative paths are relative to its folder."""
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


def _catalog_of_variable(name: str, catalogs: Mapping[str, Any]) -> str:
    """The catalog that a variable is for: names in variables are upper case, and have _ for -."""
    return next((catalog for catalog in catalogs if catalog.lower().replace("-", "_") == name), name)


def _settings(name: str, description: _Description, environ: Mapping[str, str]) -> CatalogSettings:
    options = _resolved(description.file_options, environ, description.file or "", name)
    options |= description.environment_options
    uri = options.pop("uri", None)
    if not uri:
        raise InvalidSettings(
            f"catalog {name} has no uri",
            file=description.file,
            key=f"catalog.{name}.uri",
            hint='write uri = "warehouse", "sqlite:///lake.db" or another',
        )
    return CatalogSettings(name, uri, MappingProxyType(options))
