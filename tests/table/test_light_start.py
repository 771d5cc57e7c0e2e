"""Libraries that only some need are loaded when they are needed, so that everything else starts quickly."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import floe
lake = floe.connect("memory:")
lake.create_namespace("db")
lake.create_table("db.t", "id bigint").scan().explain()
print(*(name for name in {names} if name in sys.modules))
"""


@pytest.mark.parametrize("names", [("pandas", "polars", "duckdb", "pyspark")])
def test_tables_load_no_library_that_they_do_not_need(names: tuple[str, ...]) -> None:
    # pyarrow loads pandas, if there is one, with the first array that is made of Python values: so no module makes any
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(names=names)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
