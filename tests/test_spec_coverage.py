"""docs/spec-coverage.md: every line of the format has a test, and every test named there exists."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "spec-coverage.md"

SECTIONS = [
    "Format versions",
    "Types",
    "Schemas",
    "Default values",
    "Schema evolution",
    "Column projection and name mapping",
    "Reserved field ids",
    "Partition transforms",
    "Partition specs and their evolution",
    "Sort orders",
    "Filters and scan planning",
    "Manifests",
    "Manifest lists",
    "Snapshots and refs",
    "Table metadata",
    "Commits, updates and requirements",
    "Row-level deletes",
    "Row lineage",
    "Avro, Parquet and ORC",
    "Single values",
    "Puffin, statistics and encryption",
    "Views",
    "Version 4, and where Java differs",
]


def rows() -> list[tuple[str, str, str]]:
    """(section, what the format says, proof) of every line of the page's tables."""
    found, section = [], ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
        elif line.startswith("|") and not re.match(r"\|\s*(-|What the format says)", line):
            rule, proof = (cell.strip() for cell in line.strip().strip("|").split("|"))
            found.append((section, rule, proof))
    return found


@functools.cache
def names_in(file: str) -> set[str]:
    """The names of the test functions and methods of a file."""
    tree = ast.parse((ROOT / file).read_text())
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return names


def test_every_section_of_the_format_is_listed() -> None:
    assert list(dict.fromkeys(section for section, _, _ in rows())) == SECTIONS


def test_no_rule_is_listed_twice() -> None:
    rules = [(section, rule) for section, rule, _ in rows()]
    assert len(rules) == len(set(rules))


def missing_proof(proof: str) -> str | None:
    """What is wrong with the last cell of a line: it names tests that exist, or says why there is none."""
    if proof.startswith(("needs I/O: ", "not adopted: ")):
        return None if len(proof.split(": ", 1)[1]) > 10 else "say why"
    tests = re.findall(r"`([^`]+)`", proof)
    if not tests:
        return "neither a test nor a reason"
    for test in tests:
        file, _, name = test.partition("::")
        if not (ROOT / "tests" / file).exists():
            return f"no file tests/{file}"
        if name not in names_in(f"tests/{file}"):
            return f"tests/{file} has no {name}"
    return None


def test_every_rule_has_its_test() -> None:
    problems = {(section, rule): missing_proof(proof) for section, rule, proof in rows()}
    assert not {rule: problem for rule, problem in problems.items() if problem}


def test_a_missing_test_is_noticed() -> None:
    assert missing_proof("needs I/O: no")
    assert missing_proof("somewhere")
    assert missing_proof("`nowhere.py::test_it`")
    assert missing_proof("`test_spec_coverage.py::test_nothing`")
    assert missing_proof("`test_spec_coverage.py::test_no_rule_is_listed_twice`") is None
