"""Writes the inputs, and for each side the small table that `first_row` reads.

.venv-interop/bin/python -m spark.make_inputs FOLDER ROWS
"""

import sys
from pathlib import Path

import floe
from spark import inputs
from spark.serve import answer
from spark.sessions import start

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    spark = start("java", folder)
    inputs.make(spark, folder / "inputs", int(sys.argv[2]))
    spark.sql(f"CREATE TABLE lake.db.ten USING iceberg AS SELECT * FROM parquet.`{folder}/inputs/ten`")
    spark.stop()
    lake = floe.connect(str(folder / "floe"), durable=False)
    lake.create_namespace("db")
    lake.create_table("db.ten", "id long, text string").append(
        [{"id": number, "text": f"row {number}"} for number in range(10)]
    )
    lake.close()
    answer({})
