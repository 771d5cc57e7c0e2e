"""Compares sizes and speed of data files with Java Iceberg, for the same rows and default properties.

Java writes and reads through Spark, with one thread, from and to memory; Floe writes and reads Arrow batches through
the same builders that its engine uses. Where Java is not installed, Floe alone is measured. Sizes do not depend on the
machine; of times, the best of some rounds counts.

    python benchmarks/bench_formats.py [--rows 1000000] [--rounds 3] [--no-java] [--columns]
"""

import argparse
import json
import math
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from data_files.data_sets import DATA_SETS, data_set

from floe.formats.columns.arrow_types import schema_from_arrow
from floe.formats.registry import default_registry
from floe.spec.schemas.schema import Schema
from floe.storage.local import LocalStorage

FORMATS = ("parquet", "orc", "avro")
GOAL = 1.1
"""The maximum ratio to the sizes of Java's files."""

ROOT = Path(__file__).parent
INTEROP_PYTHON = ROOT.parent / ".venv-interop" / "bin" / "python"
BATCH_ROWS = 131_072


def table_schema(table: pa.Table) -> Schema:
    """The schema of a new table with these columns."""
    return schema_from_arrow(table.schema)


def floe_figures(table: pa.Table, file_format: str, folder: Path, rounds: int) -> dict[str, Any]:
    formats, storage, schema = default_registry(), LocalStorage(), table_schema(table)
    location = str(folder / f"floe.{file_format}")
    writing, reading = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        builder = formats.write_data(file_format, "arrow", storage, location).schema(schema).overwrite()
        with builder.build() as file:
            for batch in table.to_batches(BATCH_ROWS):
                file.write(batch)
        described = file.close()
        writing.append(time.perf_counter() - start)
        start = time.perf_counter()
        found = sum(batch.num_rows for batch in formats.read(file_format, "arrow", storage, location).project(schema))
        reading.append(time.perf_counter() - start)
        assert found == table.num_rows
    return {"size": described.file_size_in_bytes, "write": min(writing), "read": min(reading), "files": [location]}


def java_figures(folder: Path, rounds: int) -> dict[str, Any]:
    if not INTEROP_PYTHON.exists():
        return {}
    command = [str(INTEROP_PYTHON), "-m", "data_files.run_java", str(folder), str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def column_sizes(path: str) -> dict[str, int]:
    """The size of each leaf column of a Parquet file."""
    metadata = pq.read_metadata(path.removeprefix("file:"))
    sizes: dict[str, int] = {}
    for number in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(number).column(place)
            sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_compressed_size
    return sizes


def report(found: dict[str, dict[str, Any]], theirs: dict[str, Any], columns: bool) -> None:
    head = f"{'data set':<14}{'format':<9}{'Floe MB':>9}{'Java MB':>9}{'ratio':>7}{'write s':>9}{'Java':>7}"
    print(f"{head}{'read s':>8}{'Java':>7}")
    ratios: dict[str, list[float]] = {file_format: [] for file_format in FORMATS}
    for key, ours in found.items():
        name, file_format = key.split("/")
        java = theirs.get(key)
        line = f"{name:<14}{file_format:<9}{ours['size'] / 1e6:9.2f}"
        if java is None:
            print(f"{line}{'':>16}{ours['write']:9.2f}{'':>7}{ours['read']:8.2f}")
            continue
        ratio = ours["size"] / java["size"]
        ratios[file_format].append(ratio)
        line += f"{java['size'] / 1e6:9.2f}{ratio:7.2f}{ours['write']:9.2f}{java['write']:7.2f}"
        print(f"{line}{ours['read']:8.2f}{java['read']:7.2f}{'' if ratio <= GOAL else '  larger than wanted'}")
        if columns and file_format == "parquet":
            mine, other = column_sizes(ours["files"][0]), column_sizes(java["files"][0])
            for path in mine:
                print(f"    {path:<30}{mine[path] / 1e6:9.3f}{other.get(path, 0) / 1e6:9.3f}")
    for file_format, several in ratios.items():
        if several:
            mean = math.exp(sum(map(math.log, several)) / len(several))
            print(f"{file_format}: {mean:.2f} times Java's size on average, {max(several):.2f} at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--columns", action="store_true", help="also the sizes of the columns of Parquet files")
    parser.add_argument("--sets", nargs="*", default=list(DATA_SETS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="floe-formats-"))
    try:
        found = {}
        for name in options.sets:
            table = data_set(name, options.rows)
            pq.write_table(table, folder / f"{name}.parquet")
            own = folder / "floe" / name
            own.mkdir(parents=True)
            for file_format in FORMATS:
                found[f"{name}/{file_format}"] = floe_figures(table, file_format, own, options.rounds)
        report(found, {} if options.no_java else java_figures(folder, options.rounds), options.columns)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
