"""Floe on Spark: catalogs, scans and writes that are Spark's own interfaces, implemented in Python.

`floe.spark` is also what one calls to get a session, and whoever imports a part of this package makes the name mean the
package. So the package can be called as well.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What `floe.spark.session.spark` gives."""
        return import_module("floe.spark.session").spark(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
