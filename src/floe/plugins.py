"""Plugins of other packages, found by name at run time, and optional libraries.

Catalogs and storages are chosen by the scheme of a URI. Each kind has one `PluginRegistry`, which has three sources:

| source | defined by | imported |
|---|---|---|
| `register` | a call in a program | by the program |
| built-in | a dictionary from names to `"module:attribute"` | on first use |
| entry points | the `pyproject.toml` of an installed package | on first use |

```toml
[project.entry-points."floe.catalogs"]
toy = "toy_catalog:open_toy"
```
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from floe.errors import InvalidInput, InvalidSettings, UnsupportedFeature

T = TypeVar("T")


class PluginRegistry(Generic[T]):
    """Implementations of one kind by name; `group` is the group of their entry points.

    >>> registry = PluginRegistry("floe.examples", {"path": "os.path:join"})
    >>> registry.find("PATH")("a", "b")
    'a/b'
    >>> registry.register("max", max)
    >>> registry.find("max")([1, 2]), registry.find("min"), registry.names()
    (2, None, ['max', 'path'])
    """

    def __init__(self, group: str, built_in: Mapping[str, str]) -> None:
        self._group = group
        self._built_in = dict(built_in)
        self._loaded: dict[str, T] = {}

    def register(self, name: str, implementation: T, *, replace: bool = False) -> None:
        """Add an implementation; a name that is taken is an error unless `replace` is set."""
        name = name.lower()
        if not replace and (name in self._built_in or name in self._loaded):
            raise InvalidInput(
                f"{name!r} is registered already", hint="pass replace=True to use another implementation"
            )
        self._loaded[name] = implementation

    def find(self, name: str) -> T | None:
        """The implementation of a name, which is not case-sensitive; None if there is none."""
        name = name.lower()
        if name not in self._loaded:
            implementation = self._load(name)
            if implementation is None:
                return None
            self._loaded[name] = implementation
        return self._loaded[name]

    def names(self) -> list[str]:
        """All names: registered, built-in, or from entry points."""
        return sorted({*self._loaded, *self._built_in, *(point.name.lower() for point in entry_points(self._group))})

    def _load(self, name: str) -> T | None:
        reference = self._built_in.get(name)
        if reference is None:
            return load_entry_point(self._group, name)  # type: ignore[no-any-return]
        module, _, attribute = reference.partition(":")
        return getattr(import_module(module), attribute)  # type: ignore[no-any-return]


def load_entry_point(group: str, name: str) -> Any:
    """Load the entry point of a name in a group; None if no installed package has one.

    Raises `InvalidSettings` if several packages have different ones, or if the import fails.

    >>> load_entry_point("floe.catalogs", "no-such-scheme") is None
    True
    """
    offers = {point.value: point for point in entry_points(group) if point.name.lower() == name}
    if not offers:
        return None
    if len(offers) > 1:
        raise InvalidSettings(
            f"several installed packages have an entry point {name!r} in {group}",
            hint="uninstall all but one",
            entry_points=", ".join(sorted(offers)),
        )
    reference, point = offers.popitem()
    try:
        return point.load()
    except Exception as error:
        raise InvalidSettings(
            f"the entry point {name!r} in {group} cannot be imported: {error}",
            hint="reinstall or update the package that provides it",
            entry_point=reference,
        ) from error


def entry_points(group: str) -> Any:
    """The entry points of a group, of all installed packages."""
    # importlib.metadata takes longer to import than all of floe; only names that are not built in need it.
    return import_module("importlib.metadata").entry_points(group=group)


def load_library(name: str, *, needed_by: str, install: str) -> Any:
    """Import an optional library; raises `UnsupportedFeature` with the command to install it if it is missing.

    >>> load_library("no_such_library", needed_by="xy://", install="floe[xy]")
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: xy:// needs no_such_library; pip install 'floe[xy]'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        if error.name != library:
            raise  # the library is installed, but one of its dependencies is not
    raise UnsupportedFeature(f"{needed_by} needs {library}", hint=f"pip install '{install}'")
