"""Write docs/public-api.md: the names of the public packages, each with the first line of its docstring."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parent.parent / "docs" / "public-api.md"
PUBLIC = (
    "floe",
    "floe.errors",
    "floe.spec",
    "floe.catalog",
    "floe.storage",
    "floe.formats",
    "floe.spark.procedures",
    "floe.testing",
)
HEAD = """# Public API

These packages, and the names that they list, are public: they change only with a release that says so. Everything else
is internal and may move. This page is written by `scripts/public_api.py`; a test fails when it is out of date.
"""


def first_line(module: ModuleType, name: str) -> str:
    """The first line of a name's docstring; a constant has its type instead."""
    value = getattr(module, name)
    if inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value):
        return (inspect.getdoc(value) or "").split("\n")[0]
    return f"constant: `{value!r}`" if len(repr(value)) < 60 else f"constant of type `{type(value).__name__}`"


def page() -> str:
    """The text of the page."""
    out = [HEAD]
    for name in PUBLIC:
        module = importlib.import_module(name)
        out.append(f"\n## {name}\n\n{(inspect.getdoc(module) or '').splitlines()[0]}\n")
        out.extend(f"- `{entry}`: {first_line(module, entry)}" for entry in sorted(module.__all__))
        out.append("")
    return "\n".join(line.rstrip() for line in out).replace("\n\n\n", "\n\n")


if __name__ == "__main__":
    PAGE.write_text(page())
