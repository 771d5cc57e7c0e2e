"""Libraries that only some storages need: loaded when one is opened, with a hint how to install what is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from floe.errors import UnsupportedFeature

__all__ = ["load_library"]


def load_library(name: str, *, needed_by: str, install: str) -> Any:
    """The library's module, or an error that says how to get it.

    >>> load_library("no_such_library", needed_by="xy://", install="floe[xy]")
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: xy:// needs no_such_library; pip install 'floe[xy]'
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        if error.name != library:
            raise  # the library is there, and something that it needs is not
    raise UnsupportedFeature(f"{needed_by} needs {library}", hint=f"pip install '{install}'")
