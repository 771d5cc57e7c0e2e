"""Planning scans of large tables, beside PyIceberg and, where they are installed, beside Java Iceberg's planner.

The tables have 20 columns with all metrics, are partitioned by day and bucket, and their manifests have about 8 MB
(12,500 files), or 60 kB (100 files). Every figure comes from a process of its own, in shuffled order, and the best of
each counts; imports and the reading of metadata.json are not counted. Floe is timed with the tasks of all files as
objects (`tasks`), and without (`columns`), which is what an engine that takes columns needs. Java is timed warm: the
best of several plans in one process.

    python benchmarks/bench_planning.py [--files 100000] [--rounds 3] [--no-java]
    python benchmarks/bench_planning.py --files 1000000      # some minutes, and 9 GB of memory for PyIceberg
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILES_PER_MANIFEST = 12_500
SMALL_MANIFESTS = 1_000
DAYS, BUCKETS = 400, 16
FIRST_DAY = 19_000
DAY_MICROS = 86_400_000_000
COLUMNS = 20
SNAPSHOT = 6807436400916514125
JAVA_ROUNDS = 12

ROOT = Path(__file__).parent
ICEBERG_JAR = (
    Path.home()
    / ".m2/repository/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.11.0"
    / "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
)
SPARK_JARS = sorted(ROOT.parent.glob(".venv-interop/lib/python3*/site-packages/pyspark/jars"))


def filters(files: int) -> dict[str, Any]:
    """What is asked: everything, 1 % of the partitions, and 1 % of the files by the bounds of a column."""
    begin = (FIRST_DAY + 100) * DAY_MICROS + DAY_MICROS // 2
    first = files // 2 * 1000
    return {
        "none": None,
        "partition": [("ts", ">=", begin), ("ts", "<", begin + 3 * DAY_MICROS)],
        "metrics": [("c3", ">=", first), ("c3", "<", first + files // 100 * 1000)],
    }


# the tables -------------------------------------------------------------------------------------------------------


def entries(numbers: list[int], kinds: list[str]) -> Iterator[Any]:
    """Entries of files: partitions at random, one column of narrow bounds, the others wide."""
    from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry

    def bound(kind: str) -> bytes:
        if kind == "string":
            return rng.choice((b"alpha", b"beta", b"gamma", b"delta")) + b"-%06d" % rng.randrange(10**6)
        if kind == "double":
            return struct.pack("<d", rng.random() * 1000)
        return rng.randrange(10**12).to_bytes(8, "little")

    rng = random.Random(numbers[0])
    ids = range(1, len(kinds) + 1)
    doubles = [i for i, kind in zip(ids, kinds, strict=True) if kind == "double"]
    for n in numbers:
        day, bucket, rows = FIRST_DAY + rng.randrange(DAYS), rng.randrange(BUCKETS), rng.randrange(50_000, 200_000)
        lower, upper = ({i: bound(kind) for i, kind in zip(ids, kinds, strict=True)} for _ in range(2))
        lower[2], upper[2] = (((day * DAY_MICROS) + part).to_bytes(8, "little") for part in (7, DAY_MICROS - 9))
        lower[3], upper[3] = ((n * 1000 + part).to_bytes(8, "little") for part in (0, 999))
        file = DataFile(
            FileContent.DATA,
            f"s3://bucket/warehouse/db/events/data/ts_day={day}/id_bucket={bucket}/"
            f"{n:05}-{rng.randrange(10**9)}-{rng.getrandbits(64):016x}-00001.parquet",
            "parquet",
            (day, bucket),
            rows,
            rng.randrange(10**7, 5 * 10**8),
            {i: rng.randrange(10_000, 5_000_000) for i in ids},
            dict.fromkeys(ids, rows),
            {i: rng.randrange(100) if i > 1 else 0 for i in ids},
            dict.fromkeys(doubles, 0),
            lower,
            upper,
            split_offsets=(4, 134_217_732),
            sort_order_id=0,
        )
        yield ManifestEntry(EntryStatus.ADDED, SNAPSHOT, None, None, file)


def table_parts() -> tuple[Any, Any]:
    from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
    from floe.spec.partitioning.transforms import DAY, Bucket
    from floe.spec.schemas.schema import Schema
    from floe.spec.types import DOUBLE, LONG, STRING, TIMESTAMP, Field

    fields = [
        Field(1, "id", LONG, required=True),
        Field(2, "ts", TIMESTAMP),
        *(Field(n, f"c{n}", (LONG, STRING, DOUBLE)[n % 3]) for n in range(3, COLUMNS + 1)),
    ]
    day, bucket = PartitionField((2,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "id_bucket", Bucket(BUCKETS))
    return Schema(tuple(fields)), PartitionSpec((day, bucket))


def write_one(work: tuple[str, int, list[int]]) -> Any:
    """One manifest, and what its list says of it."""
    from floe.avro.manifest_writing import write_manifest
    from floe.spec.manifests.entries import ManifestContent
    from floe.spec.manifests.summary import summarize_manifest

    folder, number, files = work
    schema, spec = table_parts()
    listed = list(entries(files, [field.type.kind for field in schema.fields]))
    data = write_manifest(listed, schema, spec, format_version=2)
    path = f"{folder}/metadata/m{number}.avro"
    Path(path).write_bytes(data)
    summary = summarize_manifest(listed, spec.partition_type(schema))
    return summary.manifest_file(
        path, len(data), spec_id=0, content=ManifestContent.DATA, snapshot_id=SNAPSHOT, sequence_number=1
    )


def write_table(folder: Path, files: int, per_manifest: int) -> str:
    """A table of so many files; the path of its metadata."""
    from floe.avro.manifest_lists import write_manifest_list
    from floe.spec.metadata.refs import SnapshotRef
    from floe.spec.metadata.snapshots import Snapshot
    from floe.spec.metadata.table_metadata import TableMetadata
    from floe.spec.metadata.table_metadata_json import serialize

    (folder / "metadata").mkdir(parents=True)
    schema, spec = table_parts()
    numbers = list(range(files))
    random.Random(1).shuffle(numbers)
    work = [(str(folder), n, numbers[n * per_manifest : (n + 1) * per_manifest]) for n in range(files // per_manifest)]
    with multiprocessing.Pool(2) as pool:
        manifests = pool.map(write_one, work, chunksize=max(1, len(work) // 20))
    listed = folder / "metadata" / "snap-1.avro"
    listed.write_bytes(
        write_manifest_list(
            manifests, format_version=2, snapshot_id=SNAPSHOT, parent_snapshot_id=None, sequence_number=1
        )
    )
    snapshot = Snapshot(
        sequence_number=1,
        snapshot_id=SNAPSHOT,
        timestamp_ms=1_700_000_000_000,
        summary={"operation": "append"},
        manifest_list=str(listed),
        schema_id=0,
    )
    metadata = TableMetadata(
        format_version=2,
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location=str(folder),
        last_sequence_number=1,
        last_updated_ms=1_700_000_000_000,
        last_column_id=COLUMNS,
        schemas=(schema,),
        partition_specs=(spec,),
        last_partition_id=1001,
        current_snapshot_id=SNAPSHOT,
        snapshots=(snapshot,),
        refs={"main": SnapshotRef(snapshot_id=SNAPSHOT, type="branch")},
    )
    path = folder / "metadata" / "v1.metadata.json"
    path.write_bytes(serialize(metadata))
    return str(path)


# the planners, each in a process of its own -----------------------------------------------------------------------


def run_floe(path: str, wanted: Any, *, objects: bool) -> tuple[float, int]:
    from floe.plan.scan import plan_scan
    from floe.spec.expressions.dsl import col
    from floe.spec.expressions.nodes import TRUE, and_
    from floe.spec.metadata.table_metadata_json import parse
    from floe.storage.local import LocalStorage

    metadata = parse(Path(path).read_bytes())
    tests = [
        col(name) >= literal if op == ">=" else col(name) < literal
        for name, op, value in wanted or ()
        for literal in [iso(value) if name == "ts" else value]
    ]
    start = time.perf_counter()
    plan = plan_scan(
        metadata, LocalStorage(), snapshot=metadata.current_snapshot, where=and_(*tests) if tests else TRUE
    )
    found = sum(1 for _ in plan.tasks()) if objects else len(plan)
    return time.perf_counter() - start, found


def run_pyiceberg(path: str, wanted: Any) -> tuple[float, int]:
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThan
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(path)
    tests: list[Any] = [
        (GreaterThanOrEqual if op == ">=" else LessThan)(name, iso(value) if name == "ts" else value)
        for name, op, value in wanted or ()
    ]
    where: Any = And(*tests) if tests else AlwaysTrue()
    start = time.perf_counter()
    found = list(table.scan(row_filter=where).plan_files())
    return time.perf_counter() - start, len(found)


def run_here(planner: str, path: str, wanted: Any) -> dict[str, Any]:
    seconds, files = (
        run_pyiceberg(path, wanted)
        if planner == "PyIceberg"
        else run_floe(path, wanted, objects=planner == "Floe, tasks")
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": [seconds], "files": files, "peak": peak}


def java_filter(wanted: Any) -> str:
    if not wanted:
        return "true"
    words = {">=": "gt-eq", "<": "lt"}
    tests = [
        {"type": words[op], "term": name, "value": iso(value) if name == "ts" else value} for name, op, value in wanted
    ]
    return json.dumps({"type": "and", "left": tests[0], "right": tests[1]})


def iso(micros: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000", time.gmtime(micros // 1_000_000))


def java_class_path(target: Path) -> str | None:
    """The class path of the Java planner, compiled; None where Java or its jars are not installed."""
    if not (shutil.which("javac") and ICEBERG_JAR.exists() and SPARK_JARS):
        return None
    class_path = f"{ICEBERG_JAR}{os.pathsep}{SPARK_JARS[0]}/*"
    source = ROOT / "java" / "PlanningBenchmark.java"
    subprocess.run(["javac", "-nowarn", "-Xlint:none", "-d", target, "-cp", class_path, source], check=True)
    return f"{target}{os.pathsep}{class_path}"


def run(planner: str, path: str, wanted: Any, class_path: str | None) -> dict[str, Any]:
    if planner.startswith("Java"):
        assert class_path is not None
        arguments = [path, java_filter(wanted), str(JAVA_ROUNDS)]
        command = ["java", "-Xmx8g", "-cp", class_path, "PlanningBenchmark", *arguments]
    else:
        command = [sys.executable, __file__, "--run", planner, path, json.dumps(wanted)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# the report -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--no-pyiceberg", action="store_true")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        planner, path, wanted = options.run
        print(json.dumps(run_here(planner, path, json.loads(wanted))))
        return

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tables = {"8 MB manifests": write_table(folder / "large", options.files, FILES_PER_MANIFEST)}
        if options.files <= 100_000:
            small = max(options.files // SMALL_MANIFESTS, 1)
            tables[f"{SMALL_MANIFESTS} manifests"] = write_table(folder / "small", options.files, small)
        class_path = None if options.no_java else java_class_path(folder / "classes")
        planners = ["Floe, columns", "Floe, tasks"]
        planners += [] if options.no_pyiceberg else ["PyIceberg"]
        planners += [] if class_path is None else ["Java, warm"]
        cases = [(p, t, f) for p in planners for t in tables for f in filters(options.files)]
        results: dict[Any, list[dict[str, Any]]] = {case: [] for case in cases}
        for number in range(options.rounds):
            random.Random(number).shuffle(cases)
            for planner, table, name in cases:
                slow = planner == "PyIceberg" and options.files > 100_000
                if slow and number:
                    continue
                wanted = filters(options.files)[name]
                results[planner, table, name].append(run(planner, tables[table], wanted, class_path))
    report(options.files, tables, planners, results)


def report(files: int, tables: Any, planners: list[str], results: dict[Any, list[dict[str, Any]]]) -> None:
    for table in tables:
        print(f"\n{files:,} files in {table}")
        print(f"  {'filter':<10} {'files':>8}  " + "  ".join(f"{planner:>24}" for planner in planners))
        for name in filters(files):
            found = {planner: results[planner, table, name] for planner in planners}
            counts = {one["files"] for runs in found.values() for one in runs}
            assert len(counts) == 1, f"the planners do not agree: {counts}"
            best = {planner: min(s for one in runs for s in one["seconds"]) for planner, runs in found.items()}
            peaks = {planner: max(one.get("peak", 0) for one in runs) for planner, runs in found.items()}
            ours = best["Floe, columns"]
            cells = []
            for planner in planners:
                ratio = "" if planner == "Floe, columns" else f" = {best[planner] / ours:.1f}x"
                peak = f" {peaks[planner]:.0f} MB" if peaks[planner] else ""
                cells.append(f"{best[planner]:.3f} s{ratio}{peak}")
            print(f"  {name:<10} {counts.pop():>8}  " + "  ".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
