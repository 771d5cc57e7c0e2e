"""PyIceberg plans one scan, and prints how long that took."""

import json
import resource
import sys
import time
from typing import Any

from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThan
from pyiceberg.table import StaticTable

path, predicates = sys.argv[1], json.loads(sys.argv[2])
table = StaticTable.from_metadata(path)
tests: list[Any] = [
    (GreaterThanOrEqual if op == ">=" else LessThan)(name, value) for name, op, value in predicates or ()
]
where: Any = And(*tests) if tests else AlwaysTrue()
start, cpu = time.perf_counter(), time.process_time()
files = len(list(table.scan(row_filter=where).plan_files()))
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": [seconds], "cpu": [cpu], "files": files, "peak": peak}))
