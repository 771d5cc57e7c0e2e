"""Floe plans one scan, as columns or with the tasks of all files, and prints how long that took."""

import json
import resource
import sys
import time
from pathlib import Path

from floe.plan.scan import ScanOptions, plan_scan
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import TRUE, and_
from floe.spec.metadata.table_metadata_json import parse
from floe.storage.local import LocalStorage

path, predicates, objects = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3] == "tasks"
metadata = parse(Path(path).read_bytes())
tests = [col(name) >= value if op == ">=" else col(name) < value for name, op, value in predicates or ()]
where = and_(*tests) if tests else TRUE
start, cpu = time.perf_counter(), time.process_time()
plan = plan_scan(metadata, LocalStorage(), snapshot=metadata.current_snapshot, options=ScanOptions(where=where))
files = sum(1 for _ in plan.tasks()) if objects else len(plan)
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": [seconds], "cpu": [cpu], "files": files, "peak": peak}))
