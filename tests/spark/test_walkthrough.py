"""docs/walkthrough.md names the modules that Spark's statements go through, and no statement enters too many files."""

import pytest

from helpers.call_trace import CallTrace
from helpers.spark import Spark
from helpers.walkthrough import check, spark_traces


@pytest.fixture(scope="module")
def traces(session: Spark) -> dict[str, CallTrace]:
    session("DROP NAMESPACE IF EXISTS lake.walkthrough CASCADE")
    return spark_traces(session, "lake.walkthrough")


@pytest.mark.parametrize("call", ["select", "insert", "merge"])
def test_the_page_names_the_modules(call: str, traces: dict[str, CallTrace]) -> None:
    check(call, traces[call])
