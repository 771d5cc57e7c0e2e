"""The tables of the planning benchmark: many files with metrics of 20 columns, partitioned by day and bucket."""

import multiprocessing
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from floe.avro.manifest_lists import write_manifest_list
from floe.avro.manifest_writer import write_manifest
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    summarize_manifest,
)
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import serialize
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, LONG, STRING, TIMESTAMP, Field

DAYS, BUCKETS = 400, 16
FIRST_DAY = 19_000
DAY_MICROS = 86_400_000_000
COLUMNS = 20
SNAPSHOT = 6807436400916514125

SCHEMA = Schema(
    (
        Field(1, "id", LONG, required=True),
        Field(2, "ts", TIMESTAMP),
        *(Field(n, f"c{n}", (LONG, STRING, DOUBLE)[n % 3]) for n in range(3, COLUMNS + 1)),
    )
)
SPEC = PartitionSpec(
    (PartitionField((2,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "id_bucket", Bucket(BUCKETS)))
)
KINDS = [field.type.kind for field in SCHEMA.fields]


def filters(files: int) -> dict[str, Any]:
    """The filters: none, 1 % of the partitions, and 1 % of the files by the bounds of a column."""
    begin = (FIRST_DAY + 100) * DAY_MICROS + DAY_MICROS // 2
    first = files // 2 * 1000
    return {
        "none": None,
        "partition": [("ts", ">=", iso(begin)), ("ts", "<", iso(begin + 3 * DAY_MICROS))],
        "metrics": [("c3", ">=", first), ("c3", "<", first + files // 100 * 1000)],
    }


def iso(micros: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000", time.gmtime(micros // 1_000_000))


def entries(numbers: list[int]) -> Iterator[ManifestEntry]:
    """Entries of files: partitions at random, one column of narrow bounds, the others wide."""

    def bound(kind: str) -> bytes:
        if kind == "string":
            return rng.choice((b"alpha", b"beta", b"gamma", b"delta")) + b"-%06d" % rng.randrange(10**6)
        if kind == "double":
            return struct.pack("<d", rng.random() * 1000)
        return rng.randrange(10**12).to_bytes(8, "little")

    rng = random.Random(numbers[0])
    ids = range(1, COLUMNS + 1)
    doubles = [i for i, kind in zip(ids, KINDS, strict=True) if kind == "double"]
    for n in numbers:
        day, bucket, rows = FIRST_DAY + rng.randrange(DAYS), rng.randrange(BUCKETS), rng.randrange(50_000, 200_000)
        lower, upper = ({i: bound(kind) for i, kind in zip(ids, KINDS, strict=True)} for _ in range(2))
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


def write_one(work: tuple[str, int, list[int]]) -> ManifestFile:
    """One manifest, and what its list says of it."""
    folder, number, files = work
    listed = list(entries(files))
    data = write_manifest(listed, SCHEMA, SPEC, format_version=2)
    path = f"{folder}/metadata/m{number}.avro"
    Path(path).write_bytes(data)
    summary = summarize_manifest(listed, SPEC.partition_type(SCHEMA))
    return summary.manifest_file(
        path, len(data), spec_id=0, content=ManifestContent.DATA, snapshot_id=SNAPSHOT, sequence_number=1
    )


def write_table(folder: Path, files: int, per_manifest: int) -> str:
    """A table of so many files; the path of its metadata."""
    path = folder / "metadata" / "v1.metadata.json"
    if path.exists():
        return str(path)
    (folder / "metadata").mkdir(parents=True)
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
        schemas=(SCHEMA,),
        partition_specs=(SPEC,),
        last_partition_id=1001,
        current_snapshot_id=SNAPSHOT,
        snapshots=(snapshot,),
        refs={"main": SnapshotRef(snapshot_id=SNAPSHOT, type="branch")},
    )
    path.write_bytes(serialize(metadata))
    return str(path)
