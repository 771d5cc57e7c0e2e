"""The command as a process: how fast it starts, what pipes and terminals see, and how it ends when it is stopped."""

import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

import floe
from floe.cli.main import COMMANDS

FLOE = [sys.executable, "-m", "floe.cli.main"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 200,000 rows in a folder."""
    folder = tmp_path_factory.mktemp("lake") / "wh"
    lake = floe.connect(folder)
    lake.create_namespace("db")
    t = lake.create_table("db.t", "id bigint, word string")
    t.append(pa.table({"id": pa.array(range(200_000), pa.int64()), "word": ["some text"] * 200_000}))
    return folder / "db" / "t"


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*FLOE, *(str(argument) for argument in arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120, check=False
    )


def on_terminal(*arguments: object, columns: int = 80, **environment: str) -> str:
    """The output of a command on a terminal of that width, with its escape sequences."""
    ours, theirs = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "LINES")}
    with subprocess.Popen(
        [*FLOE, *(str(argument) for argument in arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**plain, "TERM": "xterm", "COLUMNS": str(columns), **environment},
    ) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                block = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            if not block:
                break
            output += block
        os.close(ours)
        process.wait(60)
    return output.decode().replace("\r\n", "\n")


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command loads."""
    code = (
        f"import json, sys; sys.argv = {['floe', *arguments]!r}\n"
        "from floe.cli.main import run\n"
        "run()\n"
        "sys.stderr.write(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def test_help_and_ls_load_neither_arrow_nor_numpy_nor_sqlglot(table: Path) -> None:
    heavy = {
        "pyarrow",
        "numpy",
        "pandas",
        "sqlglot",
        "pyspark",
        "rich.console",
        "floe.table.table",
        "floe.avro.manifest_reader",
    }
    assert not heavy & loaded_by("--help")
    assert not heavy & loaded_by("scan", "--help")
    assert not heavy & loaded_by("ls", str(table.parent.parent))
    assert not heavy & loaded_by("show", str(table))
    assert not heavy & loaded_by("history", str(table))
    assert "floe.catalog.protocol" not in loaded_by("--help")


def test_reading_does_not_load_pandas(table: Path) -> None:
    assert "pandas" not in loaded_by("head", str(table))


def test_arrow_reading_ahead_does_not_crash_the_exit() -> None:
    """A load that fails leaves Arrow's threads waiting for a block of a Python stream."""
    code = """
import sys, time
import pyarrow as pa
from pyarrow import json
from floe.cli.main import main

class Slow:
    closed = False
    blocks = 0

    def read(self, size=-1):
        self.blocks += 1
        if self.blocks > 3:
            time.sleep(0.2)
        return b'{"a": 1}\\n' * 100

    def close(self):
        pass

reader = json.open_json(pa.PythonFile(Slow(), mode="r"), json.ReadOptions(block_size=900))
reader.read_next_batch()
sys.argv = ["floe", "scan", "no/such/table"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no table at no/such/table")


def test_help_has_the_first_line_of_each_command() -> None:
    help_text = run("--help").stdout
    for command, line in COMMANDS.items():
        module = import_module(f"floe.cli.{command}")
        assert getattr(module, command).__doc__.splitlines()[0] == line
        assert re.search(rf"^  {command} +{re.escape(line)}$", help_text, re.MULTILINE)


def test_help_starts_at_once() -> None:
    """A third of a second of CPU at most, even on a slow machine; it is a tenth on an idle one."""

    def cpu() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu() for _ in range(3)) < 0.33


def test_piped_output_is_plain_and_complete(table: Path) -> None:
    done = run("head", table, "-n", 3, COLUMNS="10")
    assert done.stdout.splitlines() == ["id  word", " 0  some text", " 1  some text", " 2  some text"]
    assert "\x1b" not in run("show", table).stdout
    assert "\x1b[" in run("show", table, FORCE_COLOR="1").stdout


def test_a_terminal_has_colours_unless_there_is_no_color(table: Path) -> None:
    assert "\x1b[" in on_terminal("show", table)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[" not in on_terminal("show", table, **environment)


def test_lines_fit_the_terminal(table: Path, tmp_path: Path) -> None:
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    t = lake.create_table("db.t", "id int, a string, b string, at timestamptz")
    t.append([{"id": 1, "a": "x" * 100, "b": "y" * 30, "at": "2024-05-17T10:00:00Z"}])
    for columns in (80, 140):
        lines = on_terminal("head", tmp_path / "wh/db/t", columns=columns, NO_COLOR="1").splitlines()
        assert max(map(len, lines)) <= columns
        assert "2024-05-17 10:00:00Z" in lines[1]
        assert lines[-1] == "1 row"
    narrow = on_terminal("head", tmp_path / "wh/db/t", columns=40, NO_COLOR="1")
    assert narrow.startswith("── 1 ─"), "a record, for columns would be too narrow"
    assert re.sub(r"\s", "", narrow).count("x") == 100
    assert "x" * 100 in on_terminal("head", tmp_path / "wh/db/t", "--wide", columns=40, NO_COLOR="1")


def test_the_reader_of_the_output_may_close_it(table: Path) -> None:
    for options in ((), ("--format", "csv"), ("--format", "jsonl")):
        with subprocess.Popen(
            [*FLOE, "scan", str(table), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read()
            assert process.wait(60) == 141
            assert errors == b""


def test_ctrl_c_ends_with_130_and_loads_nothing(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "wh" / "db" / "t"
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    t = lake.create_table("db.t", "id bigint, word string")
    with subprocess.Popen(
        [*FLOE, "load", "-", str(target), "--format", "csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"id,word\n" + b"1,abc\n" * 2_000_000)  # returns when nearly all of it was read
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        errors = process.stderr.read()
        assert process.wait(60) == 130
    assert errors.decode() == "interrupted\n"
    assert t.refresh().snapshots == ()
    assert not [path for path in (target / "data").rglob("*") if path.is_file()]


def test_the_version() -> None:
    assert run("--version").stdout == f"floe {floe.__version__}\n"
