"""The rule `PlanRule` in Spark's optimizer: it calls Python for Floe's nodes of every query, and for no others."""

from typing import Any

import pytest

from floe.spark.bridge.rules import FloeNodes
from floe.spark.read.scan import TableScan
from floe.spark.session import FloeSession
from helpers.spark import Spark


@pytest.fixture(scope="module", autouse=True)
def tables(session: Spark) -> None:
    session("CREATE NAMESPACE IF NOT EXISTS lake.rules")
    session("CREATE TABLE lake.rules.t AS SELECT id FROM range(10)")
    session("CREATE TABLE lake.rules.u AS SELECT id FROM range(3)")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nodes for which Python is called."""
    names: list[str] = []
    original = FloeNodes.apply

    def apply(self: FloeNodes, node: Any, owner: Any) -> Any:
        names.append(node.nodeName())
        return original(self, node, owner)

    monkeypatch.setattr(FloeNodes, "apply", apply)
    return names


def test_it_sees_each_scan_also_in_subqueries_and_no_other_node(session: Spark, nodes: list[str]) -> None:
    session.session.sql("SELECT id FROM range(5)").collect()
    assert nodes == []
    rows = session.session.sql("SELECT id FROM lake.rules.t WHERE id IN (SELECT id FROM lake.rules.u)").collect()
    assert sorted(row[0] for row in rows) == [0, 1, 2]
    assert len(nodes) >= 2
    assert all("ScanRelation" in name or "RelationV2" in name for name in nodes)


def test_a_scan_can_rewrite_its_node(session: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query runs the plan that the scan returns: here an empty relation."""

    def rewrite(self: TableScan, node: Any) -> Any:
        return self.jvm.sql("catalyst.plans.logical.LocalRelation")(
            node.output(), self.jvm.seq([]), False, self.jvm.none
        )

    monkeypatch.setattr(TableScan, "rewrite", rewrite)
    assert session.session.table("lake.rules.t").collect() == []


def test_every_session_has_it_once(session: Spark) -> None:
    other = session.session.newSession()
    assert isinstance(other, FloeSession)
    for spark in (session.session, other):
        rules = spark._jsparkSession.experimental().extraOptimizations()
        names = [rules.apply(index).ruleName() for index in range(rules.size())]
        assert "floe.PlanRule" in names
        assert len(set(names)) == len(names)
