"""Starts a session and reads the first row of a table; prints the CPU seconds.

.venv-interop/bin/python -m spark.first_row SIDE FOLDER
"""

import os
import sys
from pathlib import Path

from spark.serve import answer, cpu_seconds
from spark.sessions import start

if __name__ == "__main__":
    side, folder = sys.argv[1], Path(sys.argv[2])
    table = f"parquet.`{folder}/inputs/ten`" if side == "parquet" else "lake.db.ten"
    spark = start(side, folder)
    assert len(spark.sql(f"SELECT * FROM {table} LIMIT 1").collect()) == 1
    answer({"cpu": cpu_seconds()})
    sys.stdout.flush()
    sys.stdin.readline()  # until the clock is stopped
    spark.stop()
    os._exit(0)
