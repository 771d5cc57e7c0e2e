"""The pages docs/add-a-*.md: the module and the entry point that each shows, installed as `pip install` would do it."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.plugins import install_plugin

DOCS = Path(__file__).parents[2] / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def module_of(page: str) -> tuple[str, str]:
    """The name and the source of the module that a page shows: the block of code that begins with its file name."""
    match = re.search(r"^```python\n(# (\w+)\.py\n.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert match is not None, f"{page} shows no module"
    return match[2], match[1]


def install_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the module of a page, with the entry point that the page shows."""
    module, source = module_of(page)
    match = re.search(r'\[project\.entry-points\."([\w.]+)"\]\n(\w+) = "(\w+:\w+)"', (DOCS / page).read_text())
    assert match is not None, f"{page} shows no entry point"
    group, name, reference = match.groups()
    assert reference.startswith(f"{module}:")
    install_plugin(folder, monkeypatch, group, name, reference, source)


def run_page(page: str, **names: Any) -> None:
    """Run the examples of a page in the current folder, and compare what they print."""
    failed, tried = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=FLAGS, globs=names)
    assert tried >= 4
    assert not failed
