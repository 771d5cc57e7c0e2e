"""The sessions of docs/guide-cli.md run, and print what they say; and its tables tell of every key and command."""

import doctest
import json
import re
import shlex
from pathlib import Path

import pytest

from floe.cli.main import COMMANDS
from helpers.cli_lakes import Floe

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "guide-cli.md").read_text()
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
    """The commands of all sessions, with what each prints."""
    found: list[tuple[str, str]] = []
    for session in SESSIONS:
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
            found.append((command, printed))
    return found


def normal(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text).replace("…", "...")


def test_sessions_print_what_they_say(run: Floe) -> None:
    for name, text in FILES.items():
        Path(name).write_text(text)
    checker = doctest.OutputChecker()
    for command, expected in steps():
        words, _, filter_ = command.partition(" | jq -c .")
        tool, *arguments = shlex.split(words)
        if tool == "cat":
            found = Path(arguments[0]).read_text()
        else:
            done = run(*arguments)
            found = done.out + done.err
            assert "defect" not in found, found
            if filter_:
                found = json.dumps(done.json[filter_], separators=(",", ":")) + "\n"
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert checker.check_output(normal(expected), normal(found), flags), f"$ {command}\n{found}"


def test_every_command_is_told_of() -> None:
    for _, command in COMMANDS:
        assert f"floe {command.__name__}" in GUIDE, command.__name__


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
def test_the_tables_tell_every_key(run: Floe, command: tuple[str, ...]) -> None:
    Path("orders.csv").write_text(FILES["orders.csv"])
    run("load", "orders.csv", "warehouse/db/orders", "--create", "--yes")
    document = run(*command, "--json").json
    told = set(re.findall(r"`(\w+)`", GUIDE))
    keys = {key for one in (document if isinstance(document, list) else [document]) for key in one}
    assert keys <= told
