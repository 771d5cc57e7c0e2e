"""Spark's Python workers made quick: what they do over and over between tasks, though nothing has changed.

Before each task a worker has Python forget what it knows about the places of modules, and Python then reads the
directories of PySpark's archives again, once for each package in them; after each task all objects of all modules are
looked through for garbage. Together that takes 0.14 s of CPU for each task, more than most tasks of a small write.
"""

from __future__ import annotations

import gc
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from zipimport import zipimporter

__all__ = ["settle"]

_ARCHIVES = re.compile(r"[/\\](?:pyspark\.zip|py4j-[^/\\]+\.zip|spark-core_[^/\\]+\.jar)(?:[/\\]|$)")
"""The archives of PySpark itself, which do not change while it runs."""

_state = {"settled": False}


def settle() -> None:
    """Have this process do less between tasks; to be called by a worker when it has imported what it needs."""
    if _state["settled"]:
        return
    _state["settled"] = True
    for place, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and _ARCHIVES.search(place):
            sys.path_importer_cache[place] = _Lasting(finder)
    gc.collect()
    gc.freeze()  # modules are not garbage


class _Lasting:
    """Finds modules in an archive, and does not forget what is in it."""

    def __init__(self, finder: zipimporter) -> None:
        self._finder = finder

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is, as the import system asks."""
        return self._finder.find_spec(name, target)
