"""docs/public-api.md lists exactly what each public module offers."""

import importlib
import pkgutil
import re
from pathlib import Path

import floe

PAGE = Path(__file__).parent.parent / "docs" / "public-api.md"


def documented() -> dict[str, list[str]]:
    modules: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            names = modules.setdefault(line[3:], [])
        elif match := re.match(r"- `([^`]+)`", line):
            names.append(match[1])
    return modules


def offered() -> dict[str, list[str]]:
    names = ["floe", *(info.name for info in pkgutil.walk_packages(floe.__path__, "floe."))]
    modules = {name: importlib.import_module(name) for name in names if "._" not in name}
    return {name: list(module.__all__) for name, module in modules.items() if hasattr(module, "__all__")}


def test_docs_list_what_modules_offer() -> None:
    assert documented() == offered(), "run scripts/public_api.py"


def test_all_names_exist_and_are_sorted() -> None:
    for module_name, names in offered().items():
        module = importlib.import_module(module_name)
        assert [n for n in names if not hasattr(module, n)] == [], module_name
        # ruff's order (RUF022): CONSTANTS, Classes, functions, each sorted
        assert len(set(names)) == len(names), module_name


def test_every_module_with_public_names_says_so() -> None:
    """A module without `__all__` is either empty or a package page."""
    for info in pkgutil.walk_packages(floe.__path__, "floe."):
        module = importlib.import_module(info.name)
        if not info.ispkg:
            assert hasattr(module, "__all__"), f"{info.name} has no __all__"
