"""Work for executors, which says what an executor lacks.

What is pickled names its module, so that without `floe` there the work cannot even be opened, and Python says so in
words that tell nobody what to do. The few lines that open it therefore travel as code, not by name.
"""

from __future__ import annotations

import pickle
import platform
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from pyspark import cloudpickle

import floe

__all__ = ["Carried"]


class Carried:
    """A function that travels to executors, and is looked at there before it is called."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.__name__ = type(work).__name__  # which plans show

    def __call__(self, *given: Any) -> Any:
        """What the function gives."""
        return self._work(*given)

    def __reduce__(self) -> Any:
        return _opened, (pickle.dumps(self._work, protocol=pickle.HIGHEST_PROTOCOL), floe.__version__)


def _opened(pickled: bytes, version: str) -> Any:
    """The function; runs in an executor, where only Python itself is known to be."""

    def lacking(what: str, hint: str) -> Exception:
        kind: Any = type("InvalidSettings", (Exception,), {"__module__": "floe.errors"})  # which may be missing
        made: Exception = kind(f"{sys.executable} on {platform.node()}, an executor, {what}; {hint}")
        return made

    install = "pip install 'floe[spark]' there, or name another Python by PYSPARK_PYTHON"
    try:
        found = import_module("floe")
        if found.__version__ != version:
            raise lacking(
                f"has floe {found.__version__}, and the driver has {version}",
                "install the same there, or send it along: floe.spark(…, ship=True)",
            )
        return pickle.loads(pickled)
    except ModuleNotFoundError as error:
        if error.name == "floe":
            install = f"send it along: floe.spark(…, ship=True), or {install}"
        raise lacking(f"has no package {error.name}", install) from None


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
