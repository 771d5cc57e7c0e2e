"""Write docs/public-api.md: every public module with its `__all__`, each name with the first line of its docstring."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import floe

PAGE = Path(__file__).parent.parent / "docs" / "public-api.md"
HEAD = """# Public API

What each module offers: its `__all__`. This page is written by `scripts/public_api.py`, and a test fails when it is
out of date. Modules that start with an underscore, and names that are not listed, may change without notice.
"""


def public_modules() -> list[ModuleType]:
    """Every module of Floe that has an `__all__`, by name."""
    names = [
        info.name
        for info in pkgutil.walk_packages(floe.__path__, "floe.")
        if not any(part.startswith("_") for part in info.name.split("."))
    ]
    modules = [importlib.import_module(name) for name in ["floe", *sorted(names)]]
    return [module for module in modules if hasattr(module, "__all__")]


def first_line(module: ModuleType, name: str) -> str:
    """The first line of what a name says about itself; constants say their value's type."""
    thing = getattr(module, name)
    if inspect.ismodule(thing) or inspect.isclass(thing) or callable(thing):
        return (inspect.getdoc(thing) or "").split("\n")[0]
    return f"constant, {type(thing).__name__}"


def page() -> str:
    """The text of the page."""
    out = [HEAD]
    for module in public_modules():
        out.append(f"\n## {module.__name__}\n\n{(inspect.getdoc(module) or '').splitlines()[0]}\n")
        out.extend(f"- `{name}`: {first_line(module, name)}" for name in module.__all__)
        out.append("")
    return "\n".join(line.rstrip() for line in out).replace("\n\n\n", "\n\n")


if __name__ == "__main__":
    PAGE.write_text(page())
