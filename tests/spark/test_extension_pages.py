"""The procedure of docs/add-a-spark-procedure.md runs; Spark's workers use the format of docs/add-a-file-format.md."""

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floe.formats import default_registry
from floe.spark.procedures.procedure import PROCEDURES
from helpers.extension_pages import install_page, module_of, run_page
from helpers.plugins import install_plugin
from helpers.spark import Spark


@pytest.fixture(scope="module")
def db(session: Spark) -> str:
    session("CREATE NAMESPACE lake.extensions")
    return "lake.extensions"


@pytest.fixture
def call_only_format() -> Iterator[str]:
    """The format under another name, registered by a call as a notebook does it: its module is `__main__`."""
    source = module_of("add-a-file-format.md")[1].replace('"feather"', '"feather_by_call"')
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "notebook", "exec"), namespace)
    default_registry().register(namespace["FeatherAsArrow"]())
    yield "feather_by_call"
    default_registry().unregister("feather_by_call", "arrow")


@pytest.fixture
def installed_format(session: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The format as an installed package with an entry point, on the driver and for the workers."""
    install_page("add-a-file-format.md", tmp_path, monkeypatch)
    package = shutil.make_archive(str(tmp_path / "floe_feather"), "zip", tmp_path / "site_floe_feather")
    session.session.sparkContext.addPyFile(package)
    yield "feather"
    default_registry().unregister("feather", "arrow")
    sys.path.remove(next(path for path in sys.path if path.endswith("floe_feather.zip")))


@pytest.mark.parametrize("file_format", ["call_only_format", "installed_format"])
def test_workers_use_the_format_of_the_page(
    file_format: str, session: Spark, db: str, request: pytest.FixtureRequest
) -> None:
    name = request.getfixturevalue(file_format)
    table = f"{db}.{name}"
    session(f"CREATE TABLE {table} (id BIGINT, v STRING) TBLPROPERTIES ('write.format.default' = '{name}')")
    session(f"INSERT INTO {table} SELECT id, concat('v', id) FROM range(1000)")
    session(f"DELETE FROM {table} WHERE id % 10 = 3")
    session(f"UPDATE {table} SET v = 'new' WHERE id = 4")
    assert session(f"SELECT DISTINCT file_format FROM {table}.files") == [(name.upper(),)]
    assert session.one(f"SELECT count(*) FROM {table} WHERE v LIKE 'v%'") == 899
    assert session(f"SELECT id, v FROM {table} WHERE id BETWEEN 2 AND 5 ORDER BY id") == [
        (2, "v2"),
        (4, "new"),
        (5, "v5"),
    ]
    assert session.lake().table(f"extensions.{name}").scan(where="id = 4").to_arrow().to_pylist() == [
        {"id": 4, "v": "new"}
    ]


def test_the_procedure_of_the_page(session: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db: str) -> None:
    module, source = module_of("add-a-spark-procedure.md")
    install_plugin(tmp_path, monkeypatch, "none", "none", module, source)
    session("CREATE NAMESPACE IF NOT EXISTS lake.db")
    session("CREATE TABLE lake.db.orders (id BIGINT)")
    for number in range(2):
        session(f"INSERT INTO lake.db.orders VALUES ({number})")
    try:
        run_page("add-a-spark-procedure.md", spark=session.session)
        assert importlib.import_module(module).CountFiles is PROCEDURES["count_files"]
    finally:
        PROCEDURES.pop("count_files", None)
        session("DROP TABLE lake.db.orders")
        session("DROP NAMESPACE lake.db")
