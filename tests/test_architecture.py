"""The arrows of docs/architecture.md: who may import whom, and who may touch the outside world."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parent.parent / "src" / "floe"

# Each package may import those before it in this order; packages of one row do not import each other.
ROWS = [
    {"spec"},
    {"sql"},
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
SHARED = {"errors", "exports", "plugins"}  # errors, lazy re-exports and entry points serve everybody
RANK = {package: rank for rank, row in enumerate(ROWS) for package in row}

MODULES = sorted(SRC.rglob("*.py"))


def package_of(path: Path) -> str:
    parts = path.relative_to(SRC).parts
    return parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    return ".".join(("floe", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree, the module first."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of a file; relative ones are refused."""
    for node in nodes(path):
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


def test_every_package_has_its_rank() -> None:
    assert {package_of(path) for path in MODULES} <= RANK.keys() | FREE | SHARED | {"__init__"}


def test_imports_follow_the_arrows() -> None:
    # the front door opens onto everything, lazily (test_front_door.py)
    inner = [path for path in MODULES if package_of(path) not in ("__init__", *SHARED)]
    assert not [
        f"{dotted(path)}, line {line}: {module}"
        for path in inner
        for line, module in imports(path)
        if broken_arrows(package_of(path), module)
    ]


def test_shared_modules_import_nothing_of_floe_but_errors() -> None:
    shared = [path for path in MODULES if package_of(path) in SHARED]
    used = {(package_of(path), module) for path in shared for _, module in imports(path) if module.startswith("floe")}
    assert used <= {("plugins", "floe.errors")}


def test_a_wrong_arrow_is_noticed() -> None:
    assert broken_arrows("spec", "floe.storage.local")
    assert broken_arrows("plan", "floe.commit")
    assert broken_arrows("spec", "floe.nowhere")
    assert not broken_arrows("plan", "floe.spec.types")
    assert not broken_arrows("plan", "floe.errors")


ONLY_IN = {
    "pyspark": ("floe.spark",),
    "py4j": ("floe.spark.bridge",),
    "sqlglot": ("floe.sql",),
    "msgspec": ("floe.spec", "floe.catalog", "floe.cli"),
}
NEVER_IN_SPEC = {"pyarrow", "pyspark", "pandas", "polars", "fsspec", "obstore", "sqlite3", "socket", "requests"}


def test_outside_libraries_stay_where_they_belong() -> None:
    assert not [
        f"{dotted(path)}, line {line}: {module}"
        for path in MODULES
        for line, module in imports(path)
        if not dotted(path).startswith(ONLY_IN.get(module.split(".")[0], "floe"))
    ]


def test_the_spec_is_pure() -> None:
    assert not [
        f"{dotted(path)}, line {line}: {module}"
        for path in MODULES
        if package_of(path) == "spec"
        for line, module in imports(path)
        if module.split(".")[0] in NEVER_IN_SPEC
    ]


FILE_CALLS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "unlink", "mkdir", "urlopen", "rename"}


def called(node: ast.Call) -> str | None:
    """The name of what is called, without the object that it belongs to."""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)


def test_only_storage_opens_files() -> None:
    assert not [
        f"{dotted(path)}, line {node.lineno}: {called(node)}() belongs to storage/"
        for path in MODULES
        if package_of(path) not in ("storage", "testing", "cli")
        for node in nodes(path)
        if isinstance(node, ast.Call) and called(node) in FILE_CALLS
    ]


def test_imports_stand_at_the_top() -> None:
    """An import hidden in a function usually dodges a cycle that the design should not have."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert not [
        f"{dotted(path)}, line {inner.lineno}: {function.name} imports"
        for path in MODULES
        for function in nodes(path)
        if isinstance(function, functions)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def test_every_module_says_what_it_is_for() -> None:
    modules = {dotted(path): nodes(path)[0] for path in MODULES}
    assert not [
        name
        for name, tree in modules.items()
        if isinstance(tree, ast.Module) and tree.body and not ast.get_docstring(tree)
    ]
