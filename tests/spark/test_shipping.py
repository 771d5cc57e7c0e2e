"""What travels to executors: Floe's own code as an archive, and work that says what is missing there."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from floe.spark.executors import ExecutorFunction, pack_code

OPEN = """
import pickle, sys
sys.path[:] = [path for path in sys.path if not path.endswith("src")]
{before}
with open({file!r}, "rb") as file:
    work = pickle.load(file)
import floe
print(floe.__file__, work([1, 2, 3]))
"""


def opened(tmp_path: Path, before: str) -> str:
    """What a Python without Floe says when it opens some work."""
    file = tmp_path / "work"
    file.write_bytes(cloudpickle.dumps(ExecutorFunction(sum)))
    program = OPEN.format(before=before, file=str(file))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    return run.stdout + run.stderr


def test_work_is_opened_with_the_code_that_was_sent(tmp_path: Path) -> None:
    archive = pack_code(tmp_path / "floe.zip")
    output = opened(tmp_path, f"sys.path.insert(1, {str(archive)!r})")
    assert output == f"{archive}/floe/__init__.pyc 6\n"
    again = pack_code(tmp_path / "again.zip")
    assert again.read_bytes() == archive.read_bytes()


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("", "has no package floe; send it along: floe.spark(…, ship=True), or pip install 'floe[spark]' there"),
        (
            "import types; sys.modules['floe'] = types.ModuleType('floe'); sys.modules['floe'].__version__ = '0.0.1'",
            "has floe 0.0.1, and the driver has",
        ),
    ],
)
def test_what_an_executor_lacks_is_told_in_a_sentence(tmp_path: Path, before: str, message: str) -> None:
    last = opened(tmp_path, before).splitlines()[-1]
    assert last.startswith(f"floe.errors.InvalidSettings: {sys.executable} on ")
    assert message in last
