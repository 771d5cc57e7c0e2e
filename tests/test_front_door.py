"""`import floe`: quick, light, and everything promised is there."""

import json
import subprocess
import sys

import floe


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_light() -> None:
    loaded = set(json.loads(run("import floe, json, sys; print(json.dumps(sorted(sys.modules)))")))
    heavy = {"pyspark", "pandas", "numpy", "pyarrow", "sqlglot", "msgspec"}
    assert not heavy & loaded


def test_import_takes_less_than_150_ms() -> None:
    code = "import time; start = time.perf_counter(); import floe; print(time.perf_counter() - start)"
    assert min(float(run(code)) for _ in range(3)) < 0.150


def test_every_public_name_is_there() -> None:
    for name in floe.__all__:
        assert getattr(floe, name) is not None


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(floe, "no_such_name")


def test_the_spec_needs_neither_arrow_nor_sqlglot_nor_numpy_to_read_metadata() -> None:
    code = "import floe.spec.metadata.table_metadata_json, json, sys; print(json.dumps(sorted(sys.modules)))"
    assert not {"pyarrow", "pandas", "sqlglot", "numpy"} & set(json.loads(run(code)))
