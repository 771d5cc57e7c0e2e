"""Floe on Spark beside Java Iceberg on the same Spark, and beside plain Parquet: scans, writes, planning, starting.

    .venv/bin/python benchmarks/bench_spark.py [--rows 1000000] [--appends 20] [--rounds 3] [--only scan,CTAS]

Each side has a process of its own (`.venv-interop`, Spark 4.1), and they take turns workload by workload and round by
round, after one round that does not count. CPU seconds are those of the whole process tree: driver, JVM and Python
workers. Plain Parquet reads the files that Floe wrote, and writes without bringing rows together. Nobody flushes files
to the disk. A ratio above 1 is where Floe is behind.
"""

import argparse
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

from spark.processes import HEAD, PYTHON, Figures, Process, first_row, line
from spark.sessions import JAR
from spark.workloads import Workload

from spark import many_files, workloads

SIDES = ("floe", "java", "parquet")
FILES = 20_000


def main(module: ModuleType = workloads, *, rows: int = 1_000_000, rounds: int = 3) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--appends", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", default="", help="parts of the names of workloads, with commas")
    given = parser.parse_args()
    if not PYTHON.exists() or not JAR.exists():
        print("not measured: Java Iceberg on Spark 4.1 is brought by `make interop`")
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        run(folder, module, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, module: ModuleType, given: argparse.Namespace) -> None:
    wanted = [text for text in given.only.split(",") if text]
    with Process("spark.make_inputs", str(folder), str(given.rows)) as process:
        process.answer()
    planned = module is workloads
    for side in ("floe", "java") if planned else ():
        many_files.make(folder / side, FILES)
    print(f"{given.rows:,} rows, {given.appends} tiny appends, {given.rounds} rounds\n{HEAD}", flush=True)
    with ExitStack() as stack:
        arguments = (str(folder), module.__name__, str(given.rows), str(given.appends))
        sides = {side: stack.enter_context(Process("spark.serve", side, *arguments)) for side in SIDES}
        for process in sides.values():
            process.answer()
        for workload in module.WORKLOADS:
            if not wanted or any(text in workload.name for text in wanted):
                found = measured(sides, workload, given.rounds)
                print(line(workload.name, found), flush=True)
            elif workload.table is not None and workload.table.startswith("ctas"):
                measured(sides, workload, 0)  # others read what it makes
    if planned and (not wanted or any(text in "session start" for text in wanted)):
        found = {side: Figures() for side in SIDES}
        for _ in range(given.rounds):
            for side in SIDES:
                found[side].add(first_row(side, folder))
        print(line("session start to first row", found), flush=True)


def measured(sides: dict[str, Process], workload: Workload, rounds: int) -> dict[str, Figures]:
    found = {side: Figures() for side in SIDES if side != "parquet" or workload.parquet is not None}
    for number in range(rounds + 1):
        for side, figures in found.items():
            told = sides[side].ask(do="run", name=workload.name)
            if number:  # the first round is for warming up
                figures.add(told)
    if workload.table is not None:
        for side in ("floe", "java"):
            told = sides[side].ask(do="files", table=workload.table)
            found[side].files, found[side].size = len(told["files"]), told["bytes"]
            if side == "floe" and workload.table.startswith("ctas"):
                sides["parquet"].ask(do="view", name=f"of_{workload.table}", files=told["files"])
    return found


if __name__ == "__main__":
    main()
