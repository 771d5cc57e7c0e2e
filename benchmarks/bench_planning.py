"""Compares scan planning of large tables with PyIceberg and, if it is installed, Java Iceberg.

The tables have 20 columns with all metrics, are partitioned by day and bucket, and have manifests of about 8 MB (12,500
files) or 60 kB (100 files). Every measurement has its own process, in shuffled order, and the best of each case counts;
imports and the reading of metadata.json are excluded. Floe is measured with an object for the task of each file
(`tasks`), and without (`columns`), which is what a columnar engine needs. Java is measured warm: the best of several
plans in one process. CPU seconds are more reliable than wall-clock seconds on a busy machine.

    python benchmarks/bench_planning.py [--files 100000] [--rounds 2] [--no-java]
    python benchmarks/bench_planning.py --files 1000000      # some minutes, and 9 GB of memory for PyIceberg
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from planning.tables import filters, write_table

FILES_PER_MANIFEST = 12_500
SMALL_MANIFESTS = 1_000
JAVA_ROUNDS = 10

ROOT = Path(__file__).parent
ICEBERG_JAR = (
    Path.home()
    / ".m2/repository/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.11.0"
    / "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
)
SPARK_JARS = sorted(ROOT.parent.glob(".venv-interop/lib/python3*/site-packages/pyspark/jars"))


OURS = "Floe, columns"
COMMANDS = {
    OURS: ("planning.run_floe", "columns"),
    "Floe, tasks": ("planning.run_floe", "tasks"),
    "PyIceberg": ("planning.run_pyiceberg",),
}


def java_filter(predicates: Any) -> str:
    if not predicates:
        return "true"
    words = {">=": "gt-eq", "<": "lt"}
    tests = [{"type": words[op], "term": name, "value": value} for name, op, value in predicates]
    return json.dumps({"type": "and", "left": tests[0], "right": tests[1]})


def java_class_path(target: Path) -> str | None:
    """Compile the Java planner and return its class path; None if Java or its JARs are not installed."""
    if not (shutil.which("javac") and ICEBERG_JAR.exists() and SPARK_JARS):
        return None
    class_path = f"{ICEBERG_JAR}{os.pathsep}{SPARK_JARS[0]}/*"
    source = ROOT / "java" / "PlanningBenchmark.java"
    subprocess.run(["javac", "-nowarn", "-Xlint:none", "-d", target, "-cp", class_path, source], check=True)
    return f"{target}{os.pathsep}{class_path}"


def run(planner: str, path: str, predicates: Any, class_path: str | None) -> dict[str, Any]:
    """Run a planner in its own process."""
    if planner in COMMANDS:
        module, *options = COMMANDS[planner]
        command = [sys.executable, "-m", module, path, json.dumps(predicates), *options]
    else:
        assert class_path is not None
        arguments = [path, java_filter(predicates), str(JAVA_ROUNDS)]
        command = ["java", "-Xmx8g", "-cp", class_path, "PlanningBenchmark", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    measurement: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measurement


# the report -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--no-pyiceberg", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the tables; existing tables are used again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        tables = {"8 MB manifests": write_table(folder / "large", options.files, FILES_PER_MANIFEST)}
        if options.files <= 100_000:
            small = max(options.files // SMALL_MANIFESTS, 1)
            tables[f"{SMALL_MANIFESTS} manifests"] = write_table(folder / "small", options.files, small)
        class_path = None if options.no_java else java_class_path(Path(scratch) / "classes")
        planners = [name for name in COMMANDS if name != "PyIceberg" or not options.no_pyiceberg]
        planners += [] if class_path is None else ["Java, warm"]
        cases = [(p, t, f) for p in planners for t in tables for f in filters(options.files)]
        results: dict[Any, list[dict[str, Any]]] = {case: [] for case in cases}
        for number in range(options.rounds):
            random.Random(number).shuffle(cases)
            for planner, table, name in cases:
                slow = planner == "PyIceberg" and options.files > 100_000
                if slow and number:
                    continue
                predicates = filters(options.files)[name]
                results[planner, table, name].append(run(planner, tables[table], predicates, class_path))
    report(options.files, tables, planners, results)


def report(files: int, tables: Any, planners: list[str], results: dict[Any, list[dict[str, Any]]]) -> None:
    for table in tables:
        print(f"\n{files:,} files in {table}")
        print(f"  {'filter':<10}{'files':>9}  {'planner':<14}{'seconds':>9}{'x':>7}{'CPU s':>9}{'x':>7}{'peak MB':>9}")
        for name in filters(files):
            runs = {planner: results[planner, table, name] for planner in planners}
            counts = {measurement["files"] for measurements in runs.values() for measurement in measurements}
            assert len(counts) == 1, f"the planners do not agree: {counts}"
            best = {
                planner: [
                    min(value for measurement in measurements for value in measurement[metric])
                    for metric in ("seconds", "cpu")
                ]
                for planner, measurements in runs.items()
            }
            for planner in planners:
                ratios = [mine / ours for mine, ours in zip(best[planner], best[OURS], strict=True)]
                peak = max(measurement.get("peak", 0) for measurement in runs[planner])
                cells = "".join(f"{b:>9.3f}{r:>6.1f}x" for b, r in zip(best[planner], ratios, strict=True))
                print(f"  {name:<10}{max(counts):>9}  {planner:<14}{cells}{f'{peak:.0f}' if peak else '':>9}")


if __name__ == "__main__":
    main()
