"""A table whose metadata lists many files that do not exist: planning does not open them."""

from pathlib import Path

import floe
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.types import LONG

DAYS = 400


def make(warehouse: Path, count: int) -> None:
    """The table `lake.db.many` in a warehouse, partitioned by day, with bounds of one column that grow."""
    lake = floe.connect(str(warehouse), durable=False)
    lake.create_namespace("db", if_not_exists=True)
    table = lake.create_table("db.many", "id long, at timestamptz, text string", partition_by=["day(at)"])
    files = [
        DataFile(
            FileContent.DATA,
            f"{table.location}/data/{number:06}.parquet",
            "parquet",
            (18262 + number % DAYS,),
            1000,
            4_000_000,
            value_counts={1: 1000, 2: 1000, 3: 1000},
            null_value_counts={1: 0, 2: 0, 3: 0},
            lower_bounds={1: encode(LONG, number * 1000)},
            upper_bounds={1: encode(LONG, number * 1000 + 999)},
            spec_id=table.spec.spec_id,
        )
        for number in range(count)
    ]
    for start in range(0, count, 5000):
        table.append_files(files[start : start + 5000], fast=True)
    lake.close()
