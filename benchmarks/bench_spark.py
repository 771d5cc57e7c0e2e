"""Compares Floe on Spark with Java Iceberg on the same Spark, and with plain Parquet: scans, writes, planning, startup.

    .venv/bin/python benchmarks/bench_spark.py [--rows 1000000] [--appends 20] [--rounds 3] [--only scan,CTAS]

Each side has its own process (`.venv-interop`, Spark 4.1). They take turns, workload by workload and round by round,
after a warm-up round. CPU seconds are those of the whole process tree: driver, JVM and Python workers. Plain Parquet
reads the files that Floe wrote, and writes without repartitioning rows. No side flushes files to disk. A ratio above 1
means that Floe is slower.
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
    parser.add_argument("--only", default="", help="parts of the names of workloads, separated by commas")
    options = parser.parse_args()
    if not PYTHON.exists() or not JAR.exists():
        print("not measured: `make interop` installs Java Iceberg for Spark 4.1")
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        run(folder, module, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, module: ModuleType, options: argparse.Namespace) -> None:
    patterns = [text for text in options.only.split(",") if text]
    with Process("spark.make_inputs", str(folder), str(options.rows)) as process:
        process.answer()
    planned = module is workloads
    for side in ("floe", "java") if planned else ():
        many_files.make(folder / side, FILES)
    print(f"{options.rows:,} rows, {options.appends} tiny appends, {options.rounds} rounds\n{HEAD}", flush=True)
    with ExitStack() as stack:
        arguments = (str(folder), module.__name__, str(options.rows), str(options.appends))
        sides = {side: stack.enter_context(Process("spark.serve", side, *arguments)) for side in SIDES}
        for process in sides.values():
            process.answer()
        for workload in module.WORKLOADS:
            if not patterns or any(text in workload.name for text in patterns):
                figures = measure(sides, workload, options.rounds)
                print(line(workload.name, figures), flush=True)
            elif workload.table is not None and workload.table.startswith("ctas"):
                measure(sides, workload, 0)  # later workloads read its table
    if planned and (not patterns or any(text in "session start" for text in patterns)):
        figures = {side: Figures() for side in SIDES}
        for _ in range(options.rounds):
            for side in SIDES:
                figures[side].add(first_row(side, folder))
        print(line("session start to first row", figures), flush=True)


def measure(sides: dict[str, Process], workload: Workload, rounds: int) -> dict[str, Figures]:
    figures_by_side = {side: Figures() for side in SIDES if side != "parquet" or workload.parquet is not None}
    for number in range(rounds + 1):
        for side, figures in figures_by_side.items():
            response = sides[side].ask(do="run", name=workload.name)
            if number:  # the first round is a warm-up
                figures.add(response)
    if workload.table is not None:
        for side in ("floe", "java"):
            response = sides[side].ask(do="files", table=workload.table)
            figures_by_side[side].files, figures_by_side[side].size = len(response["files"]), response["bytes"]
            if side == "floe" and workload.table.startswith("ctas"):
                sides["parquet"].ask(do="view", name=f"of_{workload.table}", files=response["files"])
    return figures_by_side


if __name__ == "__main__":
    main()
