"""One side of a benchmark: a process with a Spark session that runs workloads on request, and measures them.

    .venv-interop/bin/python -m spark.serve SIDE FOLDER WORKLOADS ROWS APPENDS

WORKLOADS is the module of the workloads. Each line of the input is JSON: `{"name": …, "do": "run" | "files"}`.
"""

import gc
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from spark.sessions import start
from spark.workloads import Scale


def cpu_seconds() -> float:
    """CPU seconds of this process and its children: the JVM, and its Python workers."""
    total = 0.0
    driver = psutil.Process()
    for process in [driver, *driver.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def serve(side: str, folder: Path, module: str, scale: Scale) -> None:
    workloads = {workload.name: workload for workload in importlib.import_module(module).WORKLOADS}
    spark = start(side, folder)
    for name in ("lines", "more"):
        spark.read.parquet(str(folder / "inputs" / name)).createOrReplaceTempView(name)
    if side != "parquet":
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "files":
            answer(files(spark, request["table"]))
        elif request["do"] == "view":
            spark.read.parquet(*request["files"]).createOrReplaceTempView(request["name"])
            answer({})
        else:
            workload = workloads[request["name"]]
            answer(measure(spark, workload, workload.parquet if side == "parquet" else workload.run, folder, scale))
    spark.stop()


def measure(spark: Any, workload: Any, run: Any, folder: Path, scale: Scale) -> dict[str, Any]:
    if workload.before is not None and run is workload.run:
        workload.before(spark, folder, scale)
    gc.collect()
    spark._jvm.System.gc()
    cpu, clock = cpu_seconds(), time.perf_counter()
    run(spark, folder, scale)
    clock = time.perf_counter() - clock
    return {"clock": clock, "cpu": cpu_seconds() - cpu}


def files(spark: Any, table: str) -> dict[str, Any]:
    rows = spark.sql(f"SELECT file_path, file_size_in_bytes FROM lake.db.{table}.files").collect()
    return {"files": [row[0] for row in rows], "bytes": sum(row[1] for row in rows)}


def answer(response: dict[str, Any]) -> None:
    print("ANSWER " + json.dumps(response), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Scale(int(sys.argv[4]), int(sys.argv[5])))
