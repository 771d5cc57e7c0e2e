"""Compares pruning of files by metrics: columns of many files, file by file, and PyIceberg on the same metrics.

All three judge the same files in the same run, interleaved, and must agree; the best of each counts. The columns are as
the planner decodes them from manifests, so that making them is not part of the time.

    python benchmarks/bench_columnar_filters.py [files]
"""

import random
import sys
import time
from collections.abc import Callable
from typing import Any

from pyiceberg import types as pt
from pyiceberg.expressions.parser import parse as pyiceberg_filter
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.manifest import DataFile as PyIcebergFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema as PyIcebergSchema

from floe.spec.codecs.single_value import encode
from floe.spec.expressions.binder import bind
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.pruning import metrics_evaluation
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, LONG, STRING, TIMESTAMP, Field
from floe.sql.filters import parse_filter

ROUNDS = 5
DAY = 86_400_000_000
SCHEMA = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP), Field(3, "name", STRING), Field(4, "x", DOUBLE)))
PYICEBERG_SCHEMA = PyIcebergSchema(
    pt.NestedField(1, "id", pt.LongType(), required=False),
    pt.NestedField(2, "ts", pt.TimestampType(), required=False),
    pt.NestedField(3, "name", pt.StringType(), required=False),
    pt.NestedField(4, "x", pt.DoubleType(), required=False),
)
SOME_NAMES = ", ".join(f"'customer-{n * 9973 % 1_000_000:06}'" for n in range(100))
FILTERS = {
    "range of a long": "id >= 500000000 and id < 510000000",
    "range of a timestamp": "ts >= '1970-02-10T00:00:00' and ts < '1970-02-12T00:00:00'",
    "text equal to": "name = 'customer-500000'",
    "text, a prefix": "name like 'customer-55%'",
    "one of 100 texts": f"name in ({SOME_NAMES})",
    "four columns": "(id < 10000000 or x > 990.0) and ts >= '1970-01-20T00:00:00' and name <> 'customer-000001'",
}


def make_files(count: int) -> list[DataFile]:
    """Files of 1000 rows with random bounds."""
    rng = random.Random(7)
    files = []
    for n in range(count):
        low_id, low_name, low_x = rng.randrange(10**9), rng.randrange(10**6 - 50), rng.random() * 990
        low = (low_id, rng.randrange(100) * DAY, f"customer-{low_name:06}", low_x)
        high = (low_id + 10_000, low[1] + DAY - 1, f"customer-{low_name + 40:06}", low_x + 5)
        bounds = [{f.id: encode(f.type, v) for f, v in zip(SCHEMA.fields, side, strict=True)} for side in (low, high)]
        files.append(
            DataFile(
                FileContent.DATA,
                f"data/{n}.parquet",
                "parquet",
                (),
                1000,
                1 << 20,
                value_counts=dict.fromkeys(range(1, 5), 1000),
                null_value_counts=dict.fromkeys(range(1, 5), 0),
                nan_value_counts={4: 0},
                lower_bounds=bounds[0],
                upper_bounds=bounds[1],
            )
        )
    return files


def for_pyiceberg(file: DataFile) -> PyIcebergFile:
    return PyIcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=None,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
    )


def timed(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    files = make_files(count)
    theirs = [for_pyiceberg(file) for file in files]
    print(f"{count} files, milliseconds, best of {ROUNDS}")
    print(f"{'':22}{'kept':>8}{'Floe':>10}{'PyIceberg':>11}{'ratio':>8}")
    for name, text in FILTERS.items():
        bound = bind(parse_filter(text), SCHEMA)
        stats = metrics_evaluation.gather_stats(files, bound)
        evaluator = _InclusiveMetricsEvaluator(PYICEBERG_SCHEMA, pyiceberg_filter(text))
        times = []
        for _ in range(ROUNDS):
            by_columns, first = timed(lambda f, s: metrics_evaluation.files_might_match(f, s).tolist(), bound, stats)
            by_peer, second = timed(lambda ask, all_: [ask(file) for file in all_], evaluator.eval, theirs)
            assert first == second, name
            times.append((by_columns, by_peer))
        columns, peer = (min(of_one) * 1000 for of_one in zip(*times, strict=True))
        print(f"{name:22}{sum(first):>8}{columns:>10.2f}{peer:>11.1f}{peer / columns:>7.0f}x")


if __name__ == "__main__":
    main()
