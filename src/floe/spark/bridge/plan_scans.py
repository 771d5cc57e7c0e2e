"""The reads that a plan rests on, found in one call."""

from __future__ import annotations

from typing import Any, Final

from floe.spark.bridge.compiling import made_of_source
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.proxies import Proxy, proxy_of

__all__ = ["own_parts"]

_NAME: Final = "floe.PlanScans"
_SOURCE: Final = """
package floe;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

public class PlanScans implements java.util.function.Function {
  public PlanScans() {}

  public Object apply(Object plan) {
    ArrayList found = new ArrayList();
    visit((QueryPlan) plan, found);
    return found;
  }

  private static void visit(QueryPlan plan, ArrayList found) {
    if (plan instanceof DataSourceV2ScanRelation) found.add(((DataSourceV2ScanRelation) plan).scan());
    if (plan instanceof DataSourceV2Relation) found.add(((DataSourceV2Relation) plan).table());
    scala.collection.Iterator expressions = plan.expressions().iterator();
    while (expressions.hasNext()) look((TreeNode) expressions.next(), found);
    scala.collection.Iterator children = ((TreeNode) plan).children().iterator();
    while (children.hasNext()) visit((QueryPlan) children.next(), found);
  }

  private static void look(TreeNode expression, ArrayList found) {
    if (expression instanceof DynamicPruning) return;
    if (expression instanceof PlanExpression) visit((QueryPlan) ((PlanExpression) expression).plan(), found);
    scala.collection.Iterator children = expression.children().iterator();
    while (children.hasNext()) look((TreeNode) children.next(), found);
  }
}
"""


def own_parts(jvm: Jvm, plan: Any) -> list[Proxy]:
    """Our tables in an analyzed plan and its subqueries, or our scans in an optimized one.

    Those that only help to leave out files are not among them.
    """
    found = made_of_source(jvm, _SOURCE, _NAME, []).apply(plan)
    proxies = [proxy_of(one) for one in found]
    return [proxy for proxy in proxies if proxy is not None]
