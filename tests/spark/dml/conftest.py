"""Tables of their own for tests of statements."""

from collections.abc import Iterator

import pytest

from helpers.dml_cases import SOURCE, TYPES
from helpers.dml_layouts import Tables
from helpers.spark import Spark
from helpers.spark_statements import Make, Meanwhile


@pytest.fixture(scope="module")
def make(session: Spark) -> Make:
    session("CREATE NAMESPACE IF NOT EXISTS lake.changes")
    return Make(session)


@pytest.fixture(scope="module")
def tables(session: Spark, request: pytest.FixtureRequest) -> Iterator[Tables]:
    namespace = request.module.__name__.rpartition(".")[2]
    session(f"CREATE NAMESPACE IF NOT EXISTS sq.{namespace}")
    session.session.createDataFrame(SOURCE, TYPES).createOrReplaceTempView("source_rows")
    yield Tables(session, namespace)
    session.session.catalog.dropTempView("source_rows")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)
