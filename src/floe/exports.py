"""Lazy re-exports: a package exports names of its modules, and imports a module when one of its names is first used.

This keeps `import floe` fast, and lists the public names of a package in one table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package; `homes` has the exported names of each module, as text.

    A module that lists its own name is exported itself.

    >>> names, resolve, _ = lazy_exports("floe", {"floe.errors": "errors FloeError"})
    >>> names, resolve("FloeError").__name__, resolve("errors").__name__
    (['FloeError', 'errors'], 'FloeError', 'floe.errors')
    >>> resolve("nothing")
    Traceback (most recent call last):
    AttributeError: module 'floe' has no attribute 'nothing'
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def resolve(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home)
        value = module if home == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)  # the next use does not call `resolve`
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return sorted(home_of), resolve, list_names
