"""Compares appends with PyIceberg: many rows into many partitions, and many small appends.

    .venv/bin/python benchmarks/bench_writes.py [--rows 5000000] [--partitions 100] [--appends 200] [--rounds 3]

Both write the same Arrow tables to tables of the same schema, format version 2, with an SQLite catalog and files on
local disk. PyIceberg does not flush files to disk, so Floe does not either (`durable=False`); its default, which
survives a power failure, is measured too. Each round has its own process, and the best of each counts: wall-clock time,
and the CPU time of the process, which varies less on a shared machine.
"""

import argparse
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

import floe

ROWS_GOAL = 2.0
APPENDS_GOAL = 5.0
TINY_ROWS = 10


def rows(count: int, partitions: int) -> pa.Table:
    """Rows of common types, not ordered by partition."""
    numbers = np.random.default_rng(7)
    words = pa.array([f"customer {n:06}" for n in range(10_000)])
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "region": pa.array(numbers.integers(0, partitions, count).astype(np.int32)),
            "ts": pa.array(1_700_000_000_000_000 + np.arange(count) * 1000, pa.timestamp("us")),
            "customer": words.take(pa.array(numbers.integers(0, len(words), count))),
            "amount": pa.array(numbers.normal(100, 20, count).round(2)),
            "quantity": pa.array(numbers.integers(0, 1000, count)),
        }
    )


class Floe:
    """A table of Floe that does not flush files to disk."""

    name = "Floe"
    durable = False

    def __init__(self, folder: Path, schema: pa.Schema, *, partitioned: bool) -> None:
        uri, warehouse = f"sqlite:///{folder}/lake.db", f"{folder}/wh"
        self._lake = floe.connect(uri, warehouse=warehouse, durable=self.durable)
        self._lake.create_namespace("db")
        self._table = self._lake.create_table("db.t", schema, partition_by=["region"] if partitioned else [])

    def append(self, data: pa.Table) -> None:
        self._table.append(data)

    def close(self) -> list[str]:
        files = self._table.scan().files()
        self._lake.close()
        return files


class FlushedFloe(Floe):
    """A table of Floe with the default settings: files are flushed to disk before the commit."""

    name = "Floe, flushed"
    durable = True


class PyIceberg:
    """A table of PyIceberg."""

    name = "PyIceberg"

    def __init__(self, folder: Path, schema: pa.Schema, *, partitioned: bool) -> None:
        self._catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/wh")
        self._catalog.create_namespace("db")
        self._table = self._catalog.create_table("db.t", schema)
        if partitioned:
            with self._table.update_spec() as update:
                update.add_identity("region")

    def append(self, data: pa.Table) -> None:
        self._table.append(data)

    def close(self) -> list[str]:
        files = [task.file.file_path.removeprefix("file://") for task in self._table.scan().plan_files()]
        self._catalog.engine.dispose()
        return files


@dataclass(frozen=True)
class Job:
    """A benchmark: one append of many rows, or many appends of few rows."""

    rows: int
    partitions: int
    appends: int = 1
    partitioned: bool = False

    def run(self, make: type[Floe] | type[PyIceberg]) -> tuple[float, float, list[int]]:
        """Returns wall-clock and CPU seconds, and the numbers of rows, files and bytes written."""
        data = rows(self.rows, self.partitions)
        folder = Path(tempfile.mkdtemp(prefix="bench-writes-"))
        try:
            table = make(folder, data.schema, partitioned=self.partitioned)
            clock, cpu = time.perf_counter(), time.process_time()
            for _ in range(self.appends):
                table.append(data)
            clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            files = table.close()
            counted = sum(pq.read_metadata(file).num_rows for file in files)
            return clock, cpu, [counted, len(files), sum(Path(file).stat().st_size for file in files)]
        finally:
            shutil.rmtree(folder)


def compare(title: str, job: Job, rounds: int, goal: float) -> None:
    best: dict[str, tuple[float, float, list[int]]] = {}
    for _ in range(rounds):
        for make in (Floe, FlushedFloe, PyIceberg):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:  # a new process, so that nothing is warm
                clock, cpu, written = process.submit(job.run, make).result()
            before = best.get(make.name, (clock, cpu, written))
            best[make.name] = (min(clock, before[0]), min(cpu, before[1]), written)
    assert best["Floe"][2][0] == best["PyIceberg"][2][0], "not the same rows"
    print(title)
    for name, (clock, cpu, (counted, files, size)) in best.items():
        print(f"  {name:<14} {clock:7.2f} s {cpu:7.2f} s CPU {counted:>10,} rows {files:>4} files {size / 1e6:6.1f} MB")
    ours, theirs = best["Floe"], best["PyIceberg"]
    ratio = theirs[0] / ours[0]
    print(f"  {ratio:.1f} times as fast (wall clock), {theirs[1] / ours[1]:.1f} times (CPU); the goal is {goal:.0f}")
    print(f"  {'reached' if ratio >= goal else 'NOT reached'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    large = Job(options.rows, options.partitions, partitioned=True)
    compare(f"append of {options.rows:,} rows into {options.partitions} partitions", large, options.rounds, ROWS_GOAL)
    tiny = Job(TINY_ROWS, options.partitions, options.appends)
    compare(f"{options.appends} appends of {TINY_ROWS} rows", tiny, options.rounds, APPENDS_GOAL)


if __name__ == "__main__":
    main()
