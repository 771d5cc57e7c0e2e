"""The commands in the documentation run: those of docs/guide-cli.md with their output, and those of other pages."""

import doctest
import glob
import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.cli.main import COMMANDS
from helpers.cli_lakes import Floe

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "guide-cli.md").read_text()
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
    if page.name not in ("public-api.md", "CHANGELOG.md")
]
SESSIONS = re.findall(r"^```console\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
FILES = {
    "orders.csv": "order_id,customer,amount,ts\n1,ada,12.50,2024-05-17 10:00:00\n2,bob,7.25,2024-05-17 11:30:00\n"
    "3,,99.00,2024-05-18 09:15:00\n",
    "more.jsonl": '{"order_id": 4, "customer": "cyd", "amount": 3.5, "ts": "2024-05-19T08:00:00"}\n'
    '{"order_id": 5, "amount": 30, "ts": "2024-05-19T09:00:00"}\n',
    "bad.csv": "order_id,discount\n9,0.1\n",
    "fixed.csv": "order_id,customer\n2,bobby\n",
}


def steps() -> list[tuple[str, str]]:
    """The commands of all sessions, with the output of each."""
    commands: list[tuple[str, str]] = []
    for session in SESSIONS:
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
            commands.append((command, output))
    return commands


def normalize(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text).replace("…", "...")


def test_sessions_print_their_output(run: Floe) -> None:
    for name, text in FILES.items():
        Path(name).write_text(text)
    checker = doctest.OutputChecker()
    for command, expected in steps():
        words, _, filter_ = command.partition(" | jq -c .")
        tool, *arguments = shlex.split(words)
        if tool == "cat":
            output = Path(arguments[0]).read_text()
        else:
            done = run(*arguments)
            output = done.out + done.err
            assert "defect" not in output, output
            if filter_:
                output = json.dumps(done.json[filter_], separators=(",", ":")) + "\n"
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert checker.check_output(normalize(expected), normalize(output), flags), f"$ {command}\n{output}"


def command_lines(page: Path) -> list[str]:
    """The lines that call `floe` in the code blocks of a page, with any prompt or variables before it."""
    blocks = re.findall(r"^ *```[^\n`]*\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if re.match(r"(?:[$%>] *)?(?:\w+=\S+ +)*floe +[\w-]", line)]


def test_the_sessions_of_the_guide_have_all_its_lines() -> None:
    lines = [f"$ {command}" for command, _ in steps() if command.startswith("floe ")]
    assert lines == [line for line in command_lines(ROOT / "docs" / "guide-cli.md") if line.startswith("$")]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "guide-cli.md"], ids=lambda page: page.name)
def test_lines_of_other_pages_run(run: Floe, page: Path) -> None:
    lines = command_lines(page)
    assert lines or page.name != "README.md"
    orders = pa.table({"order_id": [1, 2], "customer": ["ada", "bob"], "ts": pa.array([0, 1], pa.timestamp("us"))})
    for name in ("orders-1.parquet", "orders-2.parquet"):
        pq.write_table(orders, name)
    for line in lines:
        words = shlex.split(line.removeprefix("$").strip(), comments=True)[1:]
        expanded = [argument for word in words for argument in (sorted(glob.glob(word)) if "*" in word else [word])]
        done = run(*expanded)
        assert done.code == 0, f"{page.name}: {line}\n{done.out}{done.err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_within_sentences_exist(page: Path) -> None:
    for name in re.findall(r"`floe ([a-z][\w-]*)[^`]*`", page.read_text()):
        assert name in COMMANDS, f"{page.name}: floe {name}"


def test_every_command_is_documented() -> None:
    for command in COMMANDS:
        assert f"floe {command}" in GUIDE, command


@pytest.mark.parametrize(
    "command",
    [
        ("ls", "-l", "warehouse"),
        ("show", "warehouse/db/orders"),
        ("history", "warehouse/db/orders"),
        ("scan", "warehouse/db/orders", "--explain"),
        ("scan", "warehouse/db/orders", "--count"),
        ("load", "orders.csv", "warehouse/db/orders"),
        ("doctor", "warehouse/db/orders"),
        ("demo",),
    ],
    ids=lambda command: " ".join(command[:1]),
)
def test_the_tables_document_every_key(run: Floe, command: tuple[str, ...]) -> None:
    Path("orders.csv").write_text(FILES["orders.csv"])
    run("load", "orders.csv", "warehouse/db/orders", "--create", "--yes")
    document = run(*command, "--json").json
    documented = set(re.findall(r"`(\w+)`", GUIDE))
    keys = {key for item in (document if isinstance(document, list) else [document]) for key in item}
    assert keys <= documented
