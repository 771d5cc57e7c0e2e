"""What commands do. Each module is loaded when it is asked for, so that `floe --help` loads none of them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from floe.cli.work import completion as completion
    from floe.cli.work import demonstration as demonstration
    from floe.cli.work import diagnosis as diagnosis
    from floe.cli.work import listing as listing
    from floe.cli.work import loading as loading
    from floe.cli.work import reading as reading
    from floe.cli.work import showing as showing
    from floe.cli.work import snapshots as snapshots

_MODULES = ("completion", "demonstration", "diagnosis", "listing", "loading", "reading", "showing", "snapshots")


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"floe.cli.work.{name}")
