"""The arrows of docs/architecture.md: who may import whom, and who may touch the outside world."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "floe"

# Each package may import those before it in this order; packages of one row do not import each other.
ROWS = [
    {"spec"},
    {"storage"},
    {"avro"},
    {"formats"},
    {"plan", "commit"},
    {"arrow", "catalog"},
    {"table"},
    {"spark", "maintain"},
    {"show"},
    {"cli"},
]
FREE = {"testing"}  # proves the others, so it may import them all
SHARED = {"errors"}  # the one tree of errors serves everybody
RANK = {package: rank for rank, row in enumerate(ROWS) for package in row}

MODULES = sorted(SRC.rglob("*.py"))


def package_of(path: Path) -> str:
    parts = path.relative_to(SRC).parts
    return parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    return ".".join(("floe", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of a file; relative ones are spelled out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            assert node.module
            yield node.lineno, node.module
            if node.module == "floe":
                yield from ((node.lineno, f"floe.{alias.name}") for alias in node.names)


def broken_arrows(package: str, module: str) -> bool:
    """Whether a file of `package` must not import `module`."""
    if not module.startswith("floe."):
        return False
    target = module.split(".")[1]
    if target == package or target in SHARED or package in FREE:
        return False
    return target not in RANK or RANK[target] >= RANK[package]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_follow_the_arrows(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        return  # the front door opens onto everything, lazily (test_front_door.py)
    if package in SHARED:
        assert [m for _, m in imports(path) if m.split(".")[0] == "floe"] == []
        return
    assert package in RANK or package in FREE, f"{package} has no place in the architecture"
    wrong = [f"line {line}: {module}" for line, module in imports(path) if broken_arrows(package, module)]
    assert not wrong


def test_a_wrong_arrow_is_noticed() -> None:
    assert broken_arrows("spec", "floe.storage.local")
    assert broken_arrows("plan", "floe.commit")
    assert broken_arrows("spec", "floe.nowhere")
    assert not broken_arrows("plan", "floe.spec.types")
    assert not broken_arrows("plan", "floe.errors")


ONLY_IN = {
    "pyspark": ("floe.spark",),
    "py4j": ("floe.spark.bridge",),
    "sqlglot": ("floe.spec.expressions.parser", "floe.arrow.values", "floe.spark", "floe.table", "floe.cli"),
    "msgspec": ("floe.spec", "floe.catalog", "floe.cli"),
}
NEVER_IN_SPEC = {"pyarrow", "pyspark", "pandas", "polars", "fsspec", "obstore", "sqlite3", "socket", "requests"}


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_outside_libraries_stay_where_they_belong(path: Path) -> None:
    name = dotted(path)
    for line, module in imports(path):
        library = module.split(".")[0]
        homes = ONLY_IN.get(library)
        if homes is not None:
            assert name.startswith(homes), f"line {line}: {library} belongs to {homes}"
        if name.startswith("floe.spec"):
            assert library not in NEVER_IN_SPEC, f"line {line}: the spec is pure, so no {library}"


FILE_CALLS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "mkdir", "urlopen", "rename"}


@pytest.mark.parametrize("path", [p for p in MODULES if package_of(p) not in ("storage", "testing", "cli")], ids=dotted)
def test_only_storage_opens_files(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
            assert called not in FILE_CALLS, f"line {node.lineno}: {called}() belongs to storage/"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_stand_at_the_top(path: Path) -> None:
    """An import hidden in a function usually dodges a cycle that the design should not have."""
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            hidden = [n.lineno for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not hidden, f"{function.name} imports at line {hidden}"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "no docstring"
