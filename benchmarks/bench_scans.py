"""Compares scans of 10 million rows, 1% of them deleted, with PyIceberg and plain pyarrow; measures memory of a stream.

    .venv/bin/python benchmarks/bench_scans.py [--rows 10000000] [--files 10] [--rounds 5] [--stream-gb 2]

The table is the same for all: format version 2, seven columns, Parquet with zstd on local disk, a position delete file
for each data file. pyarrow reads the same data files without deletes, which is the lower limit. All take turns, and the
best round of each counts: wall-clock time and CPU time of the process. For the stream, `to_batches` reads a table of
the given size in its own process, whose peak memory is printed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

import floe
from floe import Table
from floe.formats.registry import default_registry
from floe.spec.manifests.entries import DataFile

Reader = tuple[Callable[[], int], int]
GOAL_PYICEBERG, GOAL_PYARROW, GOAL_MB = 3.0, 1.25, 500
COLUMNS = "id bigint, ts timestamp, price double, amount decimal(12,2), city string, note string, flag boolean"
WIDE = "id bigint, a double, b double, c bigint, d bigint, note string"


def orders(first: int, count: int) -> pa.RecordBatch:
    """Typical rows: numbers, timestamps, a few cities, short strings."""
    rng = np.random.default_rng(first)
    cities = pa.array([f"city number {n}" for n in range(200)])
    notes = pa.array([f"note {n} of some length {n * 7919 % 1000}" for n in range(50_000)])
    return pa.record_batch(
        {
            "id": pa.array(np.arange(first, first + count)),
            "ts": pa.array(1_700_000_000_000_000 + rng.integers(0, 10**12, count)).cast(pa.timestamp("us")),
            "price": pa.array(rng.random(count)),
            "amount": pa.array(rng.integers(0, 10**6, count, np.int32)).cast(pa.decimal128(12, 2)),
            "city": cities.take(pa.array(rng.integers(0, 200, count))),
            "note": notes.take(pa.array(rng.integers(0, 50_000, count))),
            "flag": pa.array(rng.random(count) < 0.5),
        }
    )


def wide(first: int, count: int) -> pa.RecordBatch:
    """Rows that do not compress well, for large files with few rows."""
    rng = np.random.default_rng(first)
    texts = pa.array([rng.bytes(24).hex() for _ in range(5000)])
    return pa.record_batch(
        {
            "id": pa.array(np.arange(first, first + count)),
            "a": pa.array(rng.random(count)),
            "b": pa.array(rng.random(count)),
            "c": pa.array(rng.integers(0, 2**62, count)),
            "d": pa.array(rng.integers(0, 2**62, count)),
            "note": texts.take(pa.array(rng.integers(0, 5000, count))),
        }
    )


def write_data(table: Table, name: str, batches: Iterable[pa.RecordBatch]) -> DataFile:
    builder = default_registry().write_data("parquet", "arrow", table.storage, f"{table.location}/data/{name}.parquet")
    with builder.schema(table.schema).properties(table.properties).partition(table.spec).build() as file:
        for batch in batches:
            file.write(batch)
    return file.close()


def write_deletes(table: Table, name: str, target: DataFile, positions: np.ndarray) -> DataFile:
    path = f"{table.location}/data/{name}-deletes.parquet"
    builder = default_registry().write_position_deletes("parquet", "arrow", table.storage, path)
    with builder.partition(table.spec).build() as file:
        paths = pa.repeat(target.file_path, len(positions))
        file.write(pa.record_batch({"file_path": paths, "pos": pa.array(positions)}))
    return file.close()


def build(folder: Path, rows: int, files: int) -> Table:
    lake = floe.connect(str(folder))
    lake.create_namespace("db")
    table = lake.create_table("db.orders", COLUMNS, format_version=2)
    each, rng = rows // files, np.random.default_rng(7)
    data, deletes = [], []
    for n in range(files):
        data.append(
            write_data(table, f"part-{n:03}", [orders(n * each + at, 100_000) for at in range(0, each, 100_000)])
        )
        deleted_positions = np.sort(rng.choice(each, each // 100, replace=False))
        deletes.append(write_deletes(table, f"part-{n:03}", data[-1], deleted_positions))
    table.append_files(data)
    table.row_delta(deletes=deletes)
    return table


def measure(read: Callable[[], int], rows: int) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    row_count = read()
    assert row_count == rows, (row_count, rows)
    return time.perf_counter() - began, time.process_time() - cpu


CHOICES: dict[str, list[str] | None] = {
    "all seven columns": None,
    "four columns": ["id", "ts", "price", "city"],
    "two numbers": ["id", "price"],
}


def compare(table: Table, rounds: int) -> None:
    metadata, files = table.metadata_location, table.scan().files()
    total = sum(pq.read_metadata(file).num_rows for file in files)
    size = sum(os.path.getsize(file) for file in files)
    print(f"{total:,} rows in {len(files)} files of {size / 2**20:,.0f} MB in all, 1% deleted")
    for title, columns in CHOICES.items():
        show(title, best_of(readers(metadata, files, columns, total), rounds), total)


def readers(metadata: str, files: list[str], columns: list[str] | None, total: int) -> dict[str, Reader]:
    """The functions that read the columns, each with the expected number of rows."""
    left = total - total // 100
    chosen = ("*",) if columns is None else tuple(columns)
    return {
        "floe": (lambda: floe.open(metadata).scan(columns).to_arrow().num_rows, left),
        "floe, a stream": (lambda: sum(b.num_rows for b in floe.open(metadata).scan(columns).to_batches()), left),
        "pyarrow": (lambda: pq.read_table(files, columns=columns).num_rows, total),
        "pyiceberg": (
            lambda: StaticTable.from_metadata(metadata).scan(selected_fields=chosen).to_arrow().num_rows,
            left,
        ),
    }


def best_of(readers: dict[str, Reader], rounds: int) -> dict[str, tuple[float, float]]:
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, (read, rows) in readers.items():
            wall, cpu = measure(read, rows)
            previous = best.get(name, (wall, cpu))
            best[name] = (min(wall, previous[0]), min(cpu, previous[1]))
    return best


def show(title: str, best: dict[str, tuple[float, float]], total: int) -> None:
    print(f"\n{title:<20} {'wall s':>8} {'CPU s':>8}  {'rows/s':>12}")
    for name, (wall, cpu) in best.items():
        print(f"  {name:<18} {wall:>8.2f} {cpu:>8.2f}  {total / wall:>12,.0f}")
    for kind, index in (("wall", 0), ("CPU", 1)):
        ours = best["floe"][index]
        peer, least = best["pyiceberg"][index] / ours, ours / best["pyarrow"][index]
        print(
            f"  {kind}: {peer:.2f} times as fast as PyIceberg (goal {GOAL_PYICEBERG:g}), "
            f"{least:.2f} of pyarrow's time (goal {GOAL_PYARROW:g})"
        )


# memory ---------------------------------------------------------------------------------------------------------------


def build_stream(folder: Path, gigabytes: float) -> Table:
    lake = floe.connect(str(folder))
    lake.create_namespace("db")
    table = lake.create_table("db.wide", WIDE, format_version=2)
    size, number, files = 0.0, 0, []
    while size < gigabytes * 2**30:  # files of the usual size: row groups of 128 MB, about two of them in each
        batches = (wide(number * 100_000_000 + at, 100_000) for at in range(0, 6_000_000, 100_000))
        files.append(write_data(table, f"part-{number:03}", batches))
        size += files[-1].file_size_in_bytes
        number += 1
    table.append_files(files)
    return table


def highest_memory() -> float:
    """The peak memory of this process in MB; `getrusage` would include that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def stream(metadata: str) -> None:
    """Read all batches and print the peak memory of this process."""
    table = floe.open(metadata)
    before = highest_memory()
    began = time.perf_counter()
    rows = bytes_ = 0
    for batch in table.scan().to_batches():
        rows += batch.num_rows
        bytes_ += batch.nbytes
    peak = highest_memory()
    seconds = time.perf_counter() - began
    size = sum(task.length for task in table.scan().plan().tasks())
    print(f"{rows:,} rows, {size / 2**30:.2f} GB in files, {bytes_ / 2**30:.2f} GB in memory, {seconds:.1f} s")
    print(f"peak memory {peak:,.0f} MB, of which {before:,.0f} MB before reading (goal {GOAL_MB} MB)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stream-gb", type=float, default=2.0)
    parser.add_argument("--stream", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="a folder for the tables, which is kept")
    options = parser.parse_args()
    if options.stream:
        stream(options.stream)
        return
    folder = Path(options.folder or tempfile.mkdtemp(prefix="floe-bench-"))
    try:
        if options.rows:
            warehouse = folder / "scan"
            exists = (warehouse / "db/orders").exists()
            compare(
                floe.open(warehouse / "db/orders") if exists else build(warehouse, options.rows, options.files),
                options.rounds,
            )
        if options.stream_gb:
            warehouse = folder / "stream"
            exists = (warehouse / "db/wide").exists()
            table = floe.open(warehouse / "db/wide") if exists else build_stream(warehouse, options.stream_gb)
            print(flush=True)
            subprocess.run([sys.executable, __file__, "--stream", table.metadata_location], check=True)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
