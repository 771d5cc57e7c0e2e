"""Tables whose files were damaged, read by other processes: none is ended by a signal, and none hangs.

Arrow's readers are C++, and some of what they do with a file that contradicts itself cannot be caught in Python. So the
reads happen in processes of their own (`helpers.mutated_scans`). Each gives rows, or an error of ours that names the
file.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.mutated_scans import FOOTERS, KINDS

TESTS = Path(__file__).parent.parent


def outcomes(*kinds: str, seed: int, count: int) -> dict[str, list[str]]:
    """What came of each way in which files were damaged.

    Fails if one of them ended the process, or if what came is neither rows nor an error of ours that names the file.
    """
    command = [sys.executable, "-m", "helpers.mutated_scans", ",".join(kinds), str(seed), "0", str(count)]
    run = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"ended with {run.returncode} at {lines[-1:]}: {run.stderr[-1000:]}"
    found = dict(zip(lines[::2], lines[1::2], strict=True))
    assert not {what: told for what, told in found.items() if any(":" in one for one in told)}
    return found


def test_footers_that_contradict_themselves() -> None:
    found = outcomes("parquet-footers", seed=0, count=0)
    assert len(found) == len(FOOTERS)
    assert {one for told in found.values() for one in told} == {"right", "CorruptFile"}


def test_damaged_files() -> None:
    found = outcomes(*KINDS, seed=1, count=10)
    assert len(found) == len(KINDS) * 10
    assert {what.split()[0] for what, told in found.items() if "CorruptFile" in told} == set(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_files_damaged_in_many_ways(kind: str) -> None:
    found = outcomes(kind, seed=2, count=150)
    assert len(found) == 150
