"""Compares parsing and writing of metadata with many snapshots with PyIceberg.

The runs are interleaved and the best of each counts, so that a busy machine slows both sides alike.

    python benchmarks/bench_metadata.py [snapshots …]
"""

import gc
import gzip
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyiceberg.table.metadata import TableMetadataUtil

from floe.spec.json_records import EncodedList
from floe.spec.metadata.table_metadata_json import parse, serialize

ROUNDS = 9
START_MS = 1_700_000_000_000
LOCATION = "s3://warehouse/db/events"
COLUMNS = ["id", "at", "who", "what", "amount", "country", "device", "session", "score", "note"]

SUMMARY = {
    "operation": "append",
    "spark.app.id": "local-1794783527640",
    "added-data-files": "12",
    "added-records": "48211",
    "added-files-size": "10485760",
    "changed-partition-count": "3",
    "total-records": "{records}",
    "total-files-size": "{bytes}",
    "total-data-files": "{files}",
    "total-delete-files": "0",
    "total-position-deletes": "0",
    "total-equality-deletes": "0",
    "manifests-created": "1",
    "manifests-kept": "37",
    "manifests-replaced": "0",
    "engine-version": "4.0.1",
    "app-id": "application_1700000000000_0042",
    "engine-name": "spark",
    "iceberg-version": "Apache Iceberg 1.11.0 (commit 6976e020b894f6a6777704df2b8c4458cb291ae9)",
}


def document(snapshots: int) -> dict[str, Any]:
    """A table of Spark whose snapshots were never expired."""
    fields = [{"id": n, "name": name, "required": False, "type": "string"} for n, name in enumerate(COLUMNS, 1)]
    ids = [(7_919_000_000_000_007 * (n + 1)) & (2**63 - 1) for n in range(snapshots)]
    times = [START_MS + 60_000 * n for n in range(snapshots)]
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": LOCATION,
        "last-sequence-number": snapshots,
        "last-updated-ms": times[-1],
        "last-column-id": len(fields),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"write.parquet.compression-codec": "zstd", "owner": "ana"},
        "current-snapshot-id": ids[-1],
        "refs": {"main": {"snapshot-id": ids[-1], "type": "branch"}},
        "snapshots": [
            {
                "sequence-number": n + 1,
                "snapshot-id": ids[n],
                **({"parent-snapshot-id": ids[n - 1]} if n else {}),
                "timestamp-ms": times[n],
                "summary": {
                    key: value.format(records=48211 * n, bytes=10485760 * n, files=12 * n)
                    for key, value in SUMMARY.items()
                },
                "manifest-list": f"{LOCATION}/metadata/snap-{ids[n]}-1-3f6bb05c-73d7-46ff-ae36-3d139948d040.avro",
                "schema-id": 0,
            }
            for n in range(snapshots)
        ],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [{"timestamp-ms": t, "snapshot-id": i} for t, i in zip(times, ids, strict=True)],
        "metadata-log": [],
    }


def best(work: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The best time of each in milliseconds; they take turns."""
    times: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, run in work.items():
            gc.collect()
            started = time.perf_counter()
            result = run()
            elapsed = (time.perf_counter() - started) * 1000
            del result
            times[name] = min(elapsed, times.get(name, elapsed))
    return times


def report(snapshots: int) -> None:
    plain = document(snapshots)
    data = json.dumps(plain, separators=(",", ":")).encode()
    with_unknown_keys = json.dumps(
        plain | {"snapshots": [s | {"x-later": 1} for s in plain["snapshots"]]}, separators=(",", ":")
    ).encode()
    packed = gzip.compress(data, 6)
    text = data.decode()
    theirs_text = TableMetadataUtil.parse_raw(text).model_dump_json().encode()
    ours, theirs = parse(data), TableMetadataUtil.parse_raw(text)
    assert serialize(ours) == data
    assert ours.current_snapshot_id == theirs.current_snapshot_id

    def parse_with_summaries() -> None:
        for snapshot in parse(data).snapshots:
            _ = snapshot.summary

    def write_anew() -> bytes:
        return serialize(replace(ours, snapshots_json=EncodedList(), snapshot_log_json=EncodedList()))

    times = best(
        {
            "PyIceberg parse": lambda: TableMetadataUtil.parse_raw(text),
            "Floe parse": lambda: parse(data),
            "Floe parse, and decode all summaries": parse_with_summaries,
            "Floe parse, as PyIceberg wrote it": lambda: parse(theirs_text),
            "Floe parse, unknown keys in every snapshot": lambda: parse(with_unknown_keys),
            "Floe parse, gzip": lambda: parse(packed),
            "PyIceberg write": lambda: theirs.model_dump_json().encode(),
            "Floe write, as in a commit": lambda: serialize(ours),
            "Floe write, everything encoded anew": write_anew,
        }
    )
    print(f"{snapshots} snapshots, {len(data) / 1e6:.1f} MB")
    for name, value in times.items():
        peer = times["PyIceberg write" if "write" in name else "PyIceberg parse"]
        print(f"  {name:<44} {value:9.2f} ms   {peer / value:6.1f} x PyIceberg")


if __name__ == "__main__":
    for count in [int(argument) for argument in sys.argv[1:]] or [100, 1_000, 10_000]:
        report(count)
