"""Executors that lack Floe: told in a sentence, or Floe is sent along."""

import sys
from pathlib import Path

import pytest

from helpers.cluster import run_on
from helpers.cluster_program import ROWS, TOTAL

WITHOUT_FLOE = """
import os, sys
sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "floe"))]
"""


@pytest.fixture
def without_floe(tmp_path: Path) -> dict[str, str]:
    """What makes executors use a Python that does not have Floe."""
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT_FLOE)
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/without:$PYTHONPATH exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return {"PYSPARK_PYTHON": str(program)}


@pytest.mark.slow
def test_what_is_missing_is_told(without_floe: dict[str, str], tmp_path: Path) -> None:
    for found in run_on("local[2]", tmp_path, "core", "counted", env=without_floe).values():
        told = "an executor, has no package floe; send it along: floe.spark(…, ship=True), or pip install"
        assert told in found["error"]


@pytest.mark.slow
def test_floe_is_sent_along(without_floe: dict[str, str], tmp_path: Path) -> None:
    env = {**without_floe, "FLOE_TEST_SHIP": "yes"}
    found = run_on("local-cluster[2,1,1024]", tmp_path, "core", "dynamic", "counted", env=env)
    assert found["counted"] == {"counts": [str(ROWS), "7"]}
    assert found["core"]["made"] == found["core"]["other format"] == found["dynamic"]["rows"] == TOTAL
