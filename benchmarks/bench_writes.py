"""Rows written beside PyIceberg: many rows into many partitions, and many small appends.

    .venv/bin/python benchmarks/bench_writes.py [--rows 5000000] [--partitions 100] [--appends 200] [--rounds 3]

Both write the same Arrow tables to tables of the same schema, format version 2, with a SQLite catalog and files on the
local disk. PyIceberg does not flush files to the disk, so Floe is told not to either (`durable=False`); what it does
by default, with a power failure in mind, is measured beside it. Rounds are taken in turn, and the best of each counts:
by the clock, and by the CPU time of the process, which others on the machine do not change.
"""

import argparse
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
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
    """Rows of the usual types, their partitions in no order."""
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
    """A table of Floe, whose files are left to the system to bring to the disk."""

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
    """A table of Floe as it is by default: every file is on the disk before it counts."""

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


def measured(
    make: type[Floe] | type[PyIceberg], work: Callable[[Floe | PyIceberg], None], schema: pa.Schema, partitioned: bool
) -> tuple[float, float, list[int]]:
    """Seconds by the clock and of CPU, and what was written: rows, files, bytes."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{uuid.uuid4().hex[:8]}-"))
    try:
        table = make(folder, schema, partitioned=partitioned)
        clock, cpu = time.perf_counter(), time.process_time()
        work(table)
        clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
        files = table.close()
        counted = sum(pq.read_metadata(file).num_rows for file in files)
        return clock, cpu, [counted, len(files), sum(Path(file).stat().st_size for file in files)]
    finally:
        shutil.rmtree(folder)


def compare(
    what: str, work: Callable[[Floe | PyIceberg], None], schema: pa.Schema, rounds: int, goal: float, partitioned: bool
) -> None:
    best: dict[str, tuple[float, float, list[int]]] = {}
    for _ in range(rounds):
        for make in (Floe, FlushedFloe, PyIceberg):
            clock, cpu, found = measured(make, work, schema, partitioned)
            before = best.get(make.name, (clock, cpu, found))
            best[make.name] = (min(clock, before[0]), min(cpu, before[1]), found)
    assert best["Floe"][2][0] == best["PyIceberg"][2][0], "not the same rows"
    print(what)
    for name, (clock, cpu, (counted, files, size)) in best.items():
        print(
            f"  {name:<14} {clock:8.2f} s  {cpu:8.2f} s CPU  {counted:>9,} rows  {files:>4} files  {size / 1e6:.1f} MB"
        )
    ours, theirs = best["Floe"], best["PyIceberg"]
    ratio = theirs[0] / ours[0]
    print(f"  {ratio:.1f} times as fast by the clock, {theirs[1] / ours[1]:.1f} times by CPU; the goal is {goal:.0f}")
    print(f"  {'reached' if ratio >= goal else 'NOT reached'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    data = rows(given.rows, given.partitions)
    compare(
        f"append of {given.rows:,} rows into {given.partitions} partitions",
        lambda table: table.append(data),
        data.schema,
        given.rounds,
        ROWS_GOAL,
        partitioned=True,
    )
    tiny = data.slice(0, TINY_ROWS)

    def many(table: Floe | PyIceberg) -> None:
        for _ in range(given.appends):
            table.append(tiny)

    compare(
        f"{given.appends} appends of {TINY_ROWS} rows", many, data.schema, given.rounds, APPENDS_GOAL, partitioned=False
    )


if __name__ == "__main__":
    main()
