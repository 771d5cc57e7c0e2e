"""One append to a table of 100,000 files, beside PyIceberg's; and how it grows with the table.

    .venv/bin/python benchmarks/bench_appends.py [--files 100000] [--rounds 5]

The table is the same for both: v2, 10 columns with all metrics, partitioned by a number, in manifests of 8 MB, on local
disk. Measured is the CPU time of this process from the files' descriptions to the new manifest list and metadata file;
what others do (the disk) is not in it. Rounds of both are taken in turn, and the best of each counts. Files that are
given by path are looked for in all manifests; the first append reads them, and later ones know what is in them.
"""

import argparse
import shutil
import tempfile
import time
import uuid
from pathlib import Path

from pyiceberg.manifest import DataFile as PyDataFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import StaticTable
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import Record

from floe.commit.change import Attempt
from floe.commit.operations.append import FastAppend, MergeAppend
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.apply import apply
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.partitioning.building import build_spec
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
    """The table, made by Floe itself; 10,000 files in each commit."""
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
    """From the metadata file to the next one."""
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


def pyiceberg_append(path: str, operation: str, number: int) -> float:
    file = data_file(str(Path(path).parent.parent), number)
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
    began = time.process_time()
    table = StaticTable.from_metadata(path)
    producer = getattr(table.transaction().update_snapshot(), operation)()
    producer.append_data_file(new)
    updates, _ = producer._commit()
    result = update_table_metadata(table.metadata, updates)
    with table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}.metadata.json").create() as out:
        out.write(result.model_dump_json().encode())
    return time.process_time() - began


PAIRS = {"fast append": (FastAppend, "fast_append"), "append with merging": (MergeAppend, "merge_append")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
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
                best = {who: min(some) * 1000 for who, some in times.items()}
                ratio = best["py"] / best["floe"]
                print(f"{files:>10,} {name:>20} {best['floe']:>9.1f} {best['py']:>13.1f} {ratio:>6.1f}x")
            storage = LocalStorage()
            named = [
                floe_append(path, FastAppend, files + 1_000 + number, fresh=False, storage=storage) * 1000
                for number in range(options.rounds + 1)
            ]
            print(f"{files:>10,} {'given by path':>20} {min(named[1:]):>9.1f}   (the first one {named[0]:.1f})")
        print(f"goal: an append to {options.files:,} files takes less than {GOAL_MS} ms of CPU")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
