"""The SQL suite: statements with the rows that they must give, over both catalogs and every format version.

Each file runs in a namespace of its own. By default those run, once each, whose subject no other test here has as its
own, with one pairing of catalog and version or the other in turn; the slow tier runs all of them with all pairings.
"""

from pathlib import Path

import pytest

from floe.spark.session import FloeSession
from helpers.spark import Spark
from helpers.sql_files import Runner, read_cases

FILES = sorted((Path(__file__).parent / "sql").glob("*.sql"))
PAIRINGS = [("lake", 1), ("lake", 2), ("lake", 3), ("sq", 1), ("sq", 2), ("sq", 3)]
USUAL = [("lake", 2), ("sq", 3)]
FIRST = ("create", "functions", "history", "namespaces", "partitions", "views")


def runs() -> list[object]:
    found = []
    for number, path in enumerate(FILES):
        for catalog, version in PAIRINGS:
            usual = path.stem in FIRST and (catalog, version) == USUAL[number % 2]
            marks = () if usual else (pytest.mark.slow,)
            found.append(pytest.param(path, catalog, version, marks=marks, id=f"{path.stem}-{catalog}-v{version}"))
    return found


@pytest.mark.parametrize(("path", "catalog", "version"), runs())
def test_statements(session: Spark, path: Path, catalog: str, version: int) -> None:
    namespace = f"suite_{path.stem}_{version}"
    spark = session.session.newSession()  # without the temporary views and settings of others
    assert isinstance(spark, FloeSession)
    spark.conf.set(f"spark.sql.catalog.{catalog}.table-default.format-version", str(version))
    spark.sql(f"CREATE NAMESPACE {catalog}.{namespace}")
    spark.sql(f"USE {catalog}.{namespace}")
    runner = Runner(spark, {catalog, f"v{version}"}, {"catalog": catalog, "ns": namespace, "v": str(version)})
    problems = runner.run(path)
    assert not problems, "\n" + "\n".join(problems)


def test_there_are_as_many_as_we_say() -> None:
    assert sum(len(read_cases(path)) for path in FILES) >= 300
