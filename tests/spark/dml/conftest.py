"""Tables of their own for tests of statements."""

import pytest

from helpers.spark import Spark
from helpers.spark_statements import Make, Meanwhile


@pytest.fixture(scope="module")
def make(session: Spark) -> Make:
    session("CREATE NAMESPACE IF NOT EXISTS lake.changes")
    return Make(session)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)
