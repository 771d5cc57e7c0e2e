"""The rule in Spark's optimizer: asked for our own nodes, in every query, and for no other."""

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
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    before = FloeNodes.apply

    def apply(self: FloeNodes, node: Any, owner: Any) -> Any:
        found.append(node.nodeName())
        return before(self, node, owner)

    monkeypatch.setattr(FloeNodes, "apply", apply)
    return found


def test_it_sees_each_scan_also_in_subqueries_and_no_other_node(session: Spark, asked: list[str]) -> None:
    session.session.sql("SELECT id FROM range(5)").collect()
    assert asked == []
    rows = session.session.sql("SELECT id FROM lake.rules.t WHERE id IN (SELECT id FROM lake.rules.u)").collect()
    assert sorted(row[0] for row in rows) == [0, 1, 2]
    assert len(asked) >= 2
    assert all("ScanRelation" in name or "RelationV2" in name for name in asked)


def test_a_scan_can_be_put_in_another_way(session: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the rule gives is what runs: here, no rows at all."""

    def nothing(self: TableScan, node: Any) -> Any:
        return self.jvm.sql("catalyst.plans.logical.LocalRelation")(
            node.output(), self.jvm.seq([]), False, self.jvm.none
        )

    monkeypatch.setattr(TableScan, "rewritten", nothing)
    assert session.session.table("lake.rules.t").collect() == []


def test_every_session_has_it_once(session: Spark) -> None:
    other = session.session.newSession()
    assert isinstance(other, FloeSession)
    for one in (session.session, other):
        rules = one._jsparkSession.experimental().extraOptimizations()
        names = [rules.apply(place).ruleName() for place in range(rules.size())]
        assert "floe.PlanRule" in names
        assert len(set(names)) == len(names)
