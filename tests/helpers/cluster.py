"""Clusters for tests: programs that run on one, and a standalone one of a master and two workers."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

TESTS = Path(__file__).parents[1]
PROGRAM_SECONDS = 900


def run_on(master: str, folder: Path, *parts: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What the parts of `helpers.cluster_program` give on a cluster."""
    return run_program("helpers.cluster_program", folder, master, str(folder), *parts, env=env)


def run_program(module: str, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What a program, a module of its own process, gives as the JSON of its last line."""
    command = [sys.executable, "-m", module, *arguments]
    run = subprocess.run(
        command,
        env={**_environment(), **(env or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_SECONDS,
    )
    if run.returncode:
        raise AssertionError(f"the program failed:\n{run.stderr[-6000:]}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def _environment() -> dict[str, str]:
    """What a program and its executors have: the tests, the source, and this Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONWARNINGS": "ignore",
    }


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master with two workers of one core each, from the programs that PySpark brings; gives the master's URL."""
    with _started(folder, "master", "org.apache.spark.deploy.master.Master", "--port", "0") as log:
        url = _found(log, r"(spark://\S+:\d+)")
        worker = ("org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "1g", url)
        with _started(folder, "worker1", *worker) as one, _started(folder, "worker2", *worker) as two:
            for log in (one, two):
                _found(log, "Successfully registered with master")
            yield url


@contextmanager
def _started(folder: Path, name: str, kind: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    work = folder / name
    work.mkdir()
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    process = subprocess.Popen(
        [str(program), kind, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
        env={**_environment(), "SPARK_WORKER_DIR": str(work), "SPARK_DAEMON_MEMORY": "256m"},
        cwd=work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # executors are in the same group, and end with it
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _found(process: "subprocess.Popen[str]", pattern: str) -> str:
    """What a pattern finds in what a process says."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if match := re.search(pattern, line):
            return match[match.lastindex or 0]
    raise AssertionError(f"it ended without saying {pattern}:\n{''.join(said)}")
