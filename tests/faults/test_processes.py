"""Sixteen processes that commit to one table and are killed at random: nothing acknowledged is lost or doubled.

Each process appends, deletes rows, rewrites files, changes properties and columns, tags and expires, and keeps a
journal. At the end a naive reader looks for every append and every delete, walks through all metadata files from the
newest to the first, and PyIceberg reads the same rows. `FLOE_SOAK=20 pytest tests/faults/test_processes.py` does
twenty times the work.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from helpers.fault_files import COLUMNS
from helpers.invariants import NaiveTable, check_table
from helpers.postgres import postgres_database
from helpers.run_totals import report_totals
from helpers.soak_worker import PROPERTIES, TABLE, connect

PROCESSES = 16
SOAK = int(os.environ.get("FLOE_SOAK", "1"))
ACKNOWLEDGED = 120 * SOAK
KILLED = 24 * SOAK


@pytest.fixture(params=["files", "postgres"])
def uri(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "files":
        yield "files"
    else:
        with postgres_database() as uri:
            yield uri


class Crew:
    """The processes, killed and started again."""

    def __init__(self, uri: str, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.running: dict[int, tuple[int, int]] = {}  # process id by place and generation
        self.generations: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.killed = 0
        tests = Path(__file__).parent.parent
        self._starter = subprocess.Popen(
            [sys.executable, "-m", "helpers.soak_worker", uri, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tests,
            text=True,
            bufsize=1,
        )

    def start(self, number: int) -> None:
        assert self._starter.stdin is not None
        self._starter.stdin.write(f"{number} {self.generations[number]}\n")
        self._starter.stdin.flush()
        self.generations[number] += 1

    def kill(self, pid: int) -> int:
        number, _ = self.running.pop(pid)
        os.kill(pid, signal.SIGKILL)
        self.killed += 1
        return number

    def run(self) -> None:
        """Until there was enough work and there were enough kills."""
        for number in range(PROCESSES):
            self.start(number)
        assert self._starter.stdout is not None
        for line in self._starter.stdout:
            words = line.split()
            if len(words) == 3:
                pid, number, generation = map(int, words)
                self.running[pid] = (number, generation)
                continue
            assert words[1] != "ended", self.broken()
            self.outcomes[words[1]] += 1
            if self.chance.random() < KILLED / ACKNOWLEDGED and self.running:
                self.start(self.kill(self.chance.choice(list(self.running))))
            if self.outcomes["ack"] >= ACKNOWLEDGED and self.killed >= KILLED:
                return
        raise AssertionError(f"all processes ended: {self.broken()}")

    def stop(self) -> None:
        """Kills all, and waits until the last is gone: then nobody holds the other end of the pipe any more."""
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.close()
        for pid in list(self.running):
            self.kill(pid)
        for line in self._starter.stdout:
            words = line.split()
            if len(words) == 3:
                os.kill(int(words[0]), signal.SIGKILL)
        self._starter.stdout.close()
        self._starter.wait(60)

    def broken(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("broken-*.txt"))


def test_killed_processes_lose_nothing(uri: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    version = 2 if uri == "files" else 3
    with connect(uri, str(tmp_path)) as lake:
        lake.create_namespace("db")
        lake.create_table(TABLE, COLUMNS, partition_by=["day"], format_version=version, properties=PROPERTIES)
    crew = Crew(uri, tmp_path, random.Random(11))
    try:
        crew.run()
    finally:
        crew.stop()
    assert not crew.broken()
    journal = Journal.read(tmp_path)
    assert not [outcome for outcome in journal.outcomes if outcome.startswith("broken")]
    with connect(uri, str(tmp_path)) as lake:
        location = lake.table(TABLE).metadata_location
    table = check_table(read_local, location, with_log=False)
    commits = check_history(location)
    rows = check_rows(table, journal)
    check_pyiceberg(location, rows)
    with connect(uri, str(tmp_path)) as lake:  # and work goes on, with no repair
        lake.table(TABLE).set_properties({"done": 1})
    kind = "files" if uri == "files" else "PostgreSQL"
    numbers = {
        f"commits tried by {PROCESSES} processes, {kind}": journal.tried,
        f"commits acknowledged, {kind}": journal.outcomes["ack"],
        f"commits in the table's history, {kind}": commits,
        f"processes killed, {kind}": crew.killed,
    }
    report_totals(request, **numbers)
    assert journal.outcomes["ack"] >= ACKNOWLEDGED


@dataclass
class Journal:
    """What all processes meant to do, and what they heard of it: by what it was and its name."""

    intents: set[tuple[str, str]]
    ends: dict[tuple[str, str], str]
    tried: int
    outcomes: Counter[str]

    @staticmethod
    def read(folder: Path) -> "Journal":
        intents: set[tuple[str, str]] = set()
        ends: dict[tuple[str, str], str] = {}
        tried, outcomes = 0, Counter[str]()
        for path in folder.glob("journal-*.txt"):
            who = path.stem
            for line in path.read_text().splitlines():
                word, what, name = line.split(" ")
                key = (what, name if what in ("append", "delete") else f"{who}/{name}")
                if word == "intent":
                    intents.add(key)
                    tried += 1
                else:
                    ends[key] = word
                    outcomes[word] += 1
        return Journal(intents, ends, tried, outcomes)

    def named(self, what: str, *ends: str) -> set[int]:
        """The ids of what ended so; `open` is what never came to an end that anybody could know."""
        return {
            int(name) for kind, name in self.intents if kind == what and self._end((kind, name)).split("-")[0] in ends
        }

    def _end(self, key: tuple[str, str]) -> str:
        end = self.ends.get(key, "open")
        return "open" if end == "unknown" else end


def read_local(location: str) -> bytes:
    return Path(location.removeprefix("file:")).read_bytes()


def check_rows(table: NaiveTable, journal: Journal) -> Counter[int]:
    """Every acknowledged append is in the table once, none that failed is, others at most once; deletes alike."""
    current = table.by_id[table.metadata["current-snapshot-id"]]
    rows = table.rows(current)
    assert max(rows.values()) == 1, f"doubled: {rows.most_common(3)}"
    done, undone = journal.named("append", "ack"), journal.named("append", "failed")
    gone, kept = journal.named("delete", "ack"), journal.named("delete", "failed")
    doubtful = journal.named("append", "open")
    assert not [first for first in done if first not in rows], "an acknowledged append is lost"
    assert not [first for first in undone if first in rows], "an append that failed is there"
    assert not gone & set(rows), "an acknowledged delete is lost"
    assert not [id_ for id_ in kept if id_ not in rows], "a delete that failed was done"
    for first in {*done, *doubtful}:
        whole = first in rows
        second = first + 1 in rows
        assert second == whole or first + 1 in {*gone, *journal.named("delete", "open")}, "half of an append is there"
    assert {id_ & ~1 for id_ in rows} <= {*done, *doubtful}, "rows that nobody appended"
    return rows


def check_history(location: str) -> int:
    """All metadata files from the newest to the first: each was made from the one before it; numbers go up."""
    chain: list[dict[str, Any]] = []
    place: str | None = location
    while place is not None:
        chain.append(json.loads(read_local(place)))
        log = chain[-1].get("metadata-log") or [{}]
        place = log[-1].get("metadata-file")
    chain.reverse()
    seen: set[int] = set()
    keys: Counter[str] = Counter()
    last = 0
    for before, after in zip([None, *chain], chain, strict=False):
        new = [one for one in after.get("snapshots") or () if one["snapshot-id"] not in seen]
        assert len(new) <= 1, "one commit made several snapshots"
        for snapshot in new:
            assert snapshot["sequence-number"] > last, "numbers must go up"
            last = snapshot["sequence-number"]
            seen.add(snapshot["snapshot-id"])
            keys[snapshot["summary"]["commit-id"]] += 1
            assert before is not None
            head = before.get("current-snapshot-id")
            assert snapshot.get("parent-snapshot-id") == (None if head == -1 else head), "the chain is not linear"
            assert after["current-snapshot-id"] == snapshot["snapshot-id"]
        if not new and before is not None:
            assert after.get("current-snapshot-id") == before.get("current-snapshot-id"), "main was moved"
        assert after["last-sequence-number"] == last
    assert max(keys.values()) == 1, "a commit was made twice"
    return len(chain) - 1


def check_pyiceberg(location: str, rows: Counter[int]) -> None:
    """PyIceberg reads the same rows."""
    table = StaticTable.from_metadata(location)
    assert sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()) == sorted(rows)
