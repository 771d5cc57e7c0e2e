"""Compares reading and writing manifests with PyIceberg, on the same bytes and the same files, in one run.

Decoding 20,000 entries with the metrics of 20 columns: as planning needs them (partition values, paths, and the bounds
and counts of two columns), as columns of everything but the maps, as objects without metrics, and with all metrics.
PyIceberg reads the same file into its entries, with the maps left undecoded. Then 10,000 entries are written, and all
are rewritten by splicing. All cases take turns in a shuffled order; the best of each counts.

    python benchmarks/bench_manifests.py [entries]
"""

import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyiceberg import types as pt
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile as PyIcebergFile,
    DataFileContent,
    FileFormat,
    ManifestContent as PyIcebergContent,
    ManifestEntry as PyIcebergEntry,
    ManifestEntryStatus,
    ManifestFile as PyIcebergManifest,
    write_manifest as pyiceberg_write,
)
from pyiceberg.partitioning import PartitionField as PyIcebergField, PartitionSpec as PyIcebergSpec
from pyiceberg.schema import Schema as PyIcebergSchema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.typedef import Record

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_reader import read_manifest
from floe.avro.manifest_writer import CopiedEntries, splice_manifests, write_manifest
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry, ManifestFile
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, LONG, STRING, TIMESTAMP, Field

ROUNDS = 5
SNAPSHOT = 6807436400916514125
COLUMNS = 20
FIELDS = [
    Field(1, "id", LONG, required=True),
    Field(2, "ts", TIMESTAMP),
    *(Field(n, f"c{n}", (LONG, STRING, DOUBLE)[n % 3]) for n in range(3, COLUMNS + 1)),
]
SCHEMA = Schema(tuple(FIELDS))
SPEC = PartitionSpec((PartitionField((2,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "id_bucket", Bucket(16))))
PYICEBERG_TYPES = {
    "long": pt.LongType(),
    "string": pt.StringType(),
    "double": pt.DoubleType(),
    "timestamp": pt.TimestampType(),
}
PYICEBERG_SCHEMA = PyIcebergSchema(
    *(pt.NestedField(f.id, f.name, PYICEBERG_TYPES[f.type.kind], required=f.required) for f in FIELDS)
)
PYICEBERG_SPEC = PyIcebergSpec(
    PyIcebergField(2, 1000, DayTransform(), "ts_day"), PyIcebergField(1, 1001, BucketTransform(16), "id_bucket")
)


def bound(field: Field, rng: random.Random) -> bytes:
    if field.type.kind == "string":
        return rng.choice(["alpha", "beta", "gamma", "delta"]).encode() + b"-%06d" % rng.randrange(10**6)
    if field.type.kind == "double":
        return struct.pack("<d", rng.random() * 1000)
    return rng.randrange(10**12).to_bytes(8, "little")


def make_entries(count: int) -> list[ManifestEntry]:
    rng = random.Random(7)
    doubles = [f.id for f in FIELDS if f.type.kind == "double"]
    entries = []
    for n in range(count):
        rows = rng.randrange(50_000, 200_000)
        file = DataFile(
            FileContent.DATA,
            f"s3://bucket/warehouse/db/events/data/ts_day=2024-01-{n % 28 + 1:02}/id_bucket={n % 16}/"
            f"{n:05}-{rng.randrange(10**9)}-{rng.getrandbits(64):016x}-00001.parquet",
            "parquet",
            (19_000 + n % 400, n % 16),
            rows,
            rng.randrange(10**7, 5 * 10**8),
            {f.id: rng.randrange(10_000, 5_000_000) for f in FIELDS},
            {f.id: rows for f in FIELDS},
            {f.id: rng.randrange(100) if not f.required else 0 for f in FIELDS},
            dict.fromkeys(doubles, 0),
            {f.id: bound(f, rng) for f in FIELDS},
            {f.id: bound(f, rng) for f in FIELDS},
            split_offsets=(4, 134_217_732),
            sort_order_id=0,
        )
        entries.append(ManifestEntry(EntryStatus.ADDED, SNAPSHOT, None, None, file))
    return entries


def as_pyiceberg(entry: ManifestEntry) -> PyIcebergEntry:
    file = entry.data_file
    data_file = PyIcebergFile.from_args(
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
        sort_order_id=file.sort_order_id,
    )
    return PyIcebergEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=entry.snapshot_id,
        sequence_number=None,
        file_sequence_number=None,
        data_file=data_file,
    )


def read_for_plan(data: bytes, manifest: ManifestFile) -> Any:
    columns = read_manifest(data, manifest, metrics=(2, 3))
    bounds = columns.stats((2, 3))
    return columns.live, columns.sequence_number, columns.partitions, bounds, columns.file_path, columns.record_count


def all_columns(data: bytes, manifest: ManifestFile) -> Any:
    columns = read_manifest(data, manifest)
    names = [n for n, v in vars(ManifestColumns).items() if hasattr(v, "attrname") or n == "partitions"]
    return [getattr(columns, name) for name in names]


def pyiceberg_read(path: Path, length: int) -> Any:
    manifest = PyIcebergManifest.from_args(
        manifest_path=f"file:{path}",
        manifest_length=length,
        partition_spec_id=0,
        content=PyIcebergContent.DATA,
        sequence_number=5,
        min_sequence_number=5,
        added_snapshot_id=SNAPSHOT,
    )
    return manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=True)


def pyiceberg_write_all(path: Path, entries: list[PyIcebergEntry]) -> Any:
    output = PyArrowFileIO().new_output(f"file:{path}")
    with pyiceberg_write(2, PYICEBERG_SPEC, PYICEBERG_SCHEMA, output, SNAPSHOT, "deflate") as writer:
        for entry in entries:
            writer.add_entry(entry)


def splice(columns: ManifestColumns) -> bytes:
    rows = np.arange(len(columns))
    copied = CopiedEntries(columns, rows, np.full(len(rows), EntryStatus.EXISTING))
    return splice_manifests([copied], SCHEMA, SPEC, format_version=2)


def best_of(cases: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(cases, float("inf"))
    order = list(cases)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            begin = time.perf_counter()
            cases[name]()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    entries = make_entries(count)
    half = entries[: count // 2]
    theirs = [as_pyiceberg(entry) for entry in half]
    with tempfile.TemporaryDirectory() as folder:
        # level 6 and blocks of 64 kB: as Java writes manifests
        data = write_manifest(entries, SCHEMA, SPEC, format_version=2, level=6)
        path, out = Path(folder) / "m.avro", Path(folder) / "out.avro"
        path.write_bytes(data)
        manifest = ManifestFile(str(path), len(data), 0, sequence_number=5, added_snapshot_id=SNAPSHOT)
        read = best_of(
            {
                "PyIceberg, entries": lambda: pyiceberg_read(path, len(data)),
                "Floe, what a filtered plan needs": lambda: read_for_plan(path.read_bytes(), manifest),
                "Floe, all columns without maps": lambda: all_columns(path.read_bytes(), manifest),
                "Floe, entries without metrics": lambda: read_manifest(path.read_bytes(), manifest).entries(
                    metrics=False
                ),
                "Floe, entries with all metrics": lambda: read_manifest(path.read_bytes(), manifest).entries(),
            },
            ROUNDS,
        )
        columns = read_manifest(data, manifest)
        write = best_of(
            {
                "PyIceberg, write": lambda: pyiceberg_write_all(out, theirs),
                "Floe, write (deflate)": lambda: write_manifest(half, SCHEMA, SPEC, format_version=2),
                "Floe, write (zstandard)": lambda: write_manifest(
                    half, SCHEMA, SPEC, format_version=2, codec="zstandard"
                ),
            },
            3,
        )
        splice_times = best_of({"Floe, splice": lambda: splice(columns)}, 3)
        mine, other = len(write_manifest(half, SCHEMA, SPEC, format_version=2)), out.stat().st_size
        assert len(pyiceberg_read(path, len(data))) == count == len(columns)
    print(f"reading {count} entries ({len(data) / 1e6:.1f} MB)")
    report(read, "PyIceberg, entries", count)
    print(f"writing {len(half)} entries ({mine / 1e6:.1f} MB; PyIceberg {other / 1e6:.1f} MB)")
    report(write, "PyIceberg, write", len(half))
    print(f"rewriting {count} entries as existing: {splice_times['Floe, splice'] * 1e3:.0f} ms")


def report(best: dict[str, float], base: str, count: int) -> None:
    for name, seconds in best.items():
        print(f"  {name:36} {seconds * 1e3:8.1f} ms {seconds / count * 1e6:7.2f} µs/entry {best[base] / seconds:6.1f}x")


if __name__ == "__main__":
    main()
