"""Compares an append to a table of 100,000 files with PyIceberg, for several numbers of files and snapshots.

    .venv/bin/python benchmarks/bench_appends.py [--files 100000] [--snapshots 5000] [--rounds 5]

The table is the same for both: format version 2, 10 columns with all metrics, partitioned by a number, manifests of
8 MB, on local disk. The CPU time of this process is measured, from the `DataFile` objects to the new manifest list and
metadata file. Both take turns, and the best round of each counts. Files that are passed by path are searched in all
manifests; the first append reads the manifests, later ones use a cache.

With many snapshots the append uses an SQLite catalog, one for each side. The table is loaded for each append, or loaded
once and appended to repeatedly.
"""

import argparse
import itertools
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile as PyDataFile, DataFileContent, FileFormat
from pyiceberg.table import StaticTable, Table as PyTable
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import Record

import floe
from floe.commit.change import Attempt
from floe.commit.operations.data_changes import FastAppend, MergeAppend
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.table_metadata import SnapshotLogEntry, TableMetadata
from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, Field
from floe.storage.environment import Environment
from floe.storage.local import LocalStorage

COLUMNS = 10
GOAL_MS = 100
SCHEMA = Schema(tuple(Field(n, f"c{n}", LONG) for n in range(1, COLUMNS + 1)))


def data_file(folder: str, number: int) -> DataFile:
    ids = range(1, COLUMNS + 1)
    counts = dict.fromkeys(ids, 1000)
    return DataFile(
        FileContent.DATA,
        f"{folder}/data/c1={number % 100}/{number:05}-{uuid.uuid5(uuid.NAMESPACE_URL, str(number))}.parquet",
        "parquet",
        (number % 100,),
        1000,
        10_000_000 + number,
        dict.fromkeys(ids, 50_000),
        counts,
        dict.fromkeys(ids, 3),
        {},
        {i: encode(LONG, number * 7919 * i % 2**40) for i in ids},
        {i: encode(LONG, number * 7919 * i % 2**40 + 2**30) for i in ids},
        split_offsets=(4, 5_000_000),
        sort_order_id=0,
    )


def attempt(metadata: TableMetadata, storage: LocalStorage, environment: Environment) -> Attempt:
    now = max(environment.clock.now_ms(), metadata.last_updated_ms)
    return Attempt("t", metadata, metadata, storage, environment, 1, now)


def build(folder: str, files: int) -> str:
    """Create the table with Floe, with 10,000 files in each commit."""
    storage, environment = LocalStorage(), Environment()
    metadata = new_table_metadata(
        SCHEMA,
        build_spec(SCHEMA, ["c1"]),
        location=folder,
        uuid=str(uuid.uuid4()),
        now_ms=environment.clock.now_ms(),
        format_version=2,
    )
    for begin in range(0, files, 10_000):
        change = MergeAppend([data_file(folder, n) for n in range(begin, min(begin + 10_000, files))], fresh=True)
        metadata = apply(
            metadata, change.updates(attempt(metadata, storage, environment)), now_ms=environment.clock.now_ms()
        )
    path = f"{folder}/metadata/v1.metadata.json"
    storage.write(path, serialize(metadata))
    return path


def floe_append(
    path: str, operation: type, number: int, *, fresh: bool = True, storage: LocalStorage | None = None
) -> float:
    """Append to the table of a metadata file, and write the next metadata file; returns the CPU seconds."""
    storage, environment = LocalStorage() if storage is None else storage, Environment()
    folder = str(Path(path).parent.parent)
    new = [data_file(folder, number)]
    began = time.process_time()
    metadata = parse(storage.read(path))
    change = operation(new, fresh=fresh)
    updates = change.updates(attempt(metadata, storage, environment))
    result = apply(metadata, updates, now_ms=environment.clock.now_ms())
    storage.write(f"{folder}/metadata/{uuid.uuid4()}.metadata.json", serialize(result))
    return time.process_time() - began


def pyiceberg_file(folder: str, number: int) -> PyDataFile:
    file = data_file(folder, number)
    new = PyDataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(*file.partition),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        split_offsets=list(file.split_offsets or ()),
        sort_order_id=0,
        spec_id=0,
    )
    new.spec_id = 0
    return new


def pyiceberg_append(path: str, operation: str, number: int) -> float:
    new = pyiceberg_file(str(Path(path).parent.parent), number)
    began = time.process_time()
    table = StaticTable.from_metadata(path)
    producer = getattr(table.transaction().update_snapshot(), operation)()
    producer.append_data_file(new)
    updates, _ = producer._commit()
    result = update_table_metadata(table.metadata, updates)
    with table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}.metadata.json").create() as out:
        out.write(result.model_dump_json().encode())
    return time.process_time() - began


# many snapshots ---------------------------------------------------------------------------------------------------


def with_snapshots(folder: str, count: int) -> tuple[floe.Lake, SqlCatalog]:
    """Create a table with many snapshots, in a catalog of each side; all have the files of the first one."""
    lake = floe.connect(f"sqlite:///{folder}/floe.db", warehouse=f"{folder}/warehouse", durable=False)
    lake.create_namespace("db")
    table = lake.create_table("db.made", SCHEMA, partition_by=["c1"])
    table.append_files([data_file(table.location, 0)])
    snapshot = table.snapshots[0]
    ids = [snapshot.snapshot_id - number for number in range(count)][::-1]
    begin = snapshot.timestamp_ms - 1000 * count
    history = tuple(
        msgspec.structs.replace(
            snapshot,
            snapshot_id=snapshot_id,
            parent_snapshot_id=ids[index - 1] if index else None,
            sequence_number=index + 1,
            timestamp_ms=begin + 1000 * index,
        )
        for index, snapshot_id in enumerate(ids)
    )
    log = tuple(SnapshotLogEntry(timestamp_ms=entry.timestamp_ms, snapshot_id=entry.snapshot_id) for entry in history)
    many = replace(table.metadata, snapshots=history, snapshot_log=log, last_sequence_number=count)
    location = f"{table.location}/metadata/00002-{uuid.uuid4()}.metadata.json"
    table.storage.write(location, serialize(many))
    catalog = SqlCatalog("theirs", uri=f"sqlite:///{folder}/theirs.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace("db")
    lake.register_table("db.t", location)
    catalog.register_table("db.t", location)
    return lake, catalog


def floe_commit(table: Callable[[], floe.Table], file: DataFile) -> float:
    began = time.process_time()
    table().append_files([file], fast=True)
    return time.process_time() - began


def pyiceberg_commit(table: Callable[[], PyTable], file: PyDataFile) -> float:
    began = time.process_time()
    with table().transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    return time.process_time() - began


def report_snapshots(folder: str, count: int, rounds: int) -> None:
    Path(folder).mkdir()
    lake, catalog = with_snapshots(folder, count)
    ours, theirs = lake.table("db.t"), catalog.load_table("db.t")
    pairs: dict[str, tuple[Callable[[], floe.Table], Callable[[], PyTable]]] = {
        "append again": (lambda: ours, lambda: theirs),
        "load and append": (lambda: lake.table("db.t"), lambda: catalog.load_table("db.t")),
    }
    numbers = itertools.count(1)
    for name, (floe_table, pyiceberg_table) in pairs.items():
        times = [
            (
                floe_commit(floe_table, data_file(ours.location, next(numbers))),
                pyiceberg_commit(pyiceberg_table, pyiceberg_file(ours.location, next(numbers))),
            )
            for _ in range(rounds)
        ]
        best = [min(column) * 1000 for column in zip(*times, strict=True)]
        print(f"{count:>10,} {name:>20} {best[0]:>9.1f} {best[1]:>13.1f} {best[1] / best[0]:>6.1f}x")
    lake.close()


PAIRS = {"fast append": (FastAppend, "fast_append"), "append with merging": (MergeAppend, "merge_append")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--snapshots", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="floe-bench-")
    try:
        print(f"{'table':>10} {'operation':>20} {'Floe ms':>9} {'PyIceberg ms':>13} {'ratio':>7}")
        for files in sorted({1_000, options.files}):
            path = build(f"{folder}/{files}", files)
            for name, (ours, theirs) in PAIRS.items():
                times: dict[str, list[float]] = {"floe": [], "py": []}
                for number in range(options.rounds):
                    times["floe"].append(floe_append(path, ours, files + 2 * number))
                    times["py"].append(pyiceberg_append(path, theirs, files + 2 * number + 1))
                best = {who: min(side_times) * 1000 for who, side_times in times.items()}
                ratio = best["py"] / best["floe"]
                print(f"{files:>10,} {name:>20} {best['floe']:>9.1f} {best['py']:>13.1f} {ratio:>6.1f}x")
            storage = LocalStorage()
            named = [
                floe_append(path, FastAppend, files + 1_000 + number, fresh=False, storage=storage) * 1000
                for number in range(options.rounds + 1)
            ]
            print(f"{files:>10,} {'passed by path':>20} {min(named[1:]):>9.1f}   (the first one {named[0]:.1f})")
        print(f"{'snapshots':>10} {'operation':>20} {'Floe ms':>9} {'PyIceberg ms':>13} {'ratio':>7}")
        for count in sorted({100, 1_000, options.snapshots}):
            report_snapshots(f"{folder}/{count}-snapshots", count, min(options.rounds, 3))
        print(f"goal: an append to {options.files:,} files takes less than {GOAL_MS} ms of CPU")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
