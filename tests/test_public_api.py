"""docs/public-api.md lists exactly what the public packages offer, and no other module promises anything."""

import ast
import importlib
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def page_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("public_api", ROOT / "scripts" / "public_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = page_script()


def typed_names(module: ModuleType) -> set[str]:
    """The names that type checkers see: those imported under TYPE_CHECKING."""
    tree = ast.parse(inspect.getsource(module))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def test_the_page_is_up_to_date() -> None:
    assert SCRIPT.PAGE.read_text() == SCRIPT.page(), "run scripts/public_api.py"


@pytest.mark.parametrize("package", SCRIPT.PUBLIC)
def test_every_public_name_is_there_documented_and_typed(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert [name for name in module.__all__ if not SCRIPT.first_line(module, name)] == []
    if package not in ("floe.errors", "floe.spark.procedures"):  # the others import lazily
        assert typed_names(module) == {*module.__all__} - {"__version__"}


def test_the_public_api_is_small() -> None:
    assert sum(len(importlib.import_module(package).__all__) for package in SCRIPT.PUBLIC) <= 260


def test_internal_modules_promise_nothing() -> None:
    modules = [path for path in (ROOT / "src").rglob("*.py") if path.name != "__init__.py"]
    promising = [path.relative_to(ROOT / "src") for path in modules if "\n__all__ = [" in path.read_text()]
    assert promising == [Path("floe/errors.py")]
