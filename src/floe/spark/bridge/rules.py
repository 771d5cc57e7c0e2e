"""A rule of ours in Spark's optimizer: parts of a plan that are Floe's can be put in another way.

Rules are classes, which a Python object cannot stand for; so one is compiled when a session starts, by the compiler
that Spark has for its generated code. It runs at the end of the optimizer, for every query however it was made, and
calls Python for the nodes whose scan, write, table or catalog is a Python object: never for queries of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from floe.spark.bridge.compiling import made_of_source
from floe.spark.bridge.filters_below_joins import filters_below_joins
from floe.spark.bridge.interfaces.java_functions import BiFunction
from floe.spark.bridge.proxies import proxy_of

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

__all__ = ["Rewritable", "add_rules", "install_rule"]

_RULE: Final = "floe.PlanRule"
_PUSH_DOWN: Final = "org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin"
_SOURCE: Final = """
package floe;

import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;

public class PlanRule extends org.apache.spark.sql.catalyst.rules.Rule {
  private final BiFunction rewrite;

  public PlanRule(BiFunction rewrite) { this.rewrite = rewrite; }

  public TreeNode apply(TreeNode plan) {
    if (plan instanceof DeleteFromTable || plan instanceof DeleteFromTableWithFilters) return plan;  // nothing is read
    return ((QueryPlan) plan).transformUpWithSubqueries(new OwnNodes(rewrite));
  }

  public static class OwnNodes extends scala.runtime.AbstractPartialFunction {
    private final BiFunction rewrite;

    public OwnNodes(BiFunction rewrite) { this.rewrite = rewrite; }

    public boolean isDefinedAt(Object node) {
      Object found = owner(node);
      return found != null && java.lang.reflect.Proxy.isProxyClass(found.getClass());
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? rewrite.apply(node, owner(node)) : otherwise.apply(node);
    }

    private static Object owner(Object node) {
      if (node instanceof DataSourceV2ScanRelation) return ((DataSourceV2ScanRelation) node).scan();
      if (node instanceof WriteDelta) return value(((WriteDelta) node).write());
      if (node instanceof ReplaceData) return value(((ReplaceData) node).write());
      if (node instanceof AppendData) return value(((AppendData) node).write());
      if (node instanceof OverwriteByExpression) return value(((OverwriteByExpression) node).write());
      if (node instanceof OverwritePartitionsDynamic) return value(((OverwritePartitionsDynamic) node).write());
      if (node instanceof StreamingDataSourceV2ScanRelation)
        return ((StreamingDataSourceV2ScanRelation) node).stream();
      if (node instanceof AnalyzeTable) return table(((AnalyzeTable) node).child());
      if (node instanceof AnalyzeColumn) return table(((AnalyzeColumn) node).child());
      if (node instanceof AnalyzeTables) return catalog(((AnalyzeTables) node).child());
      if (node instanceof WriteToDataSourceV2) return ofStream(((WriteToDataSourceV2) node).batchWrite());
      return null;
    }

    private static Object table(LogicalPlan found) {
      return found instanceof ResolvedTable ? ((ResolvedTable) found).table() : null;
    }

    private static Object catalog(LogicalPlan found) {
      return found instanceof ResolvedNamespace ? ((ResolvedNamespace) found).catalog() : null;
    }

    private static Object ofStream(Object found) {
      return found instanceof MicroBatchWrite ? ((MicroBatchWrite) found).writeSupport() : null;
    }

    private static Object value(scala.Option found) { return found.isDefined() ? found.get() : null; }
  }
}
"""


class Rewritable:
    """A scan, a write, a table or a catalog of which something may be planned in another way than Spark would."""

    def rewritten(self, node: Any) -> Any:
        """The node, or a plan in its place with the same output (of a command, that of what it gives).

        It is asked until nothing changes, so what comes of a rewriting is not rewritten again.
        """
        return node


class OwnNodes(BiFunction):
    """Rewrites the nodes whose scan, write, table or catalog is ours."""

    def apply(self, node: Any, owner: Any) -> Any:
        """Ask the owner of a node."""
        found = proxy_of(owner)
        return found.rewritten(node) if isinstance(found, Rewritable) else node


def install_rule(jvm: Jvm, java_session: Any) -> None:
    """Put the rule into a session's optimizer, unless it is there.

    Behind it go a rule of Spark's own and one of ours, so that filters above a read (those that come at run time too)
    reach all parts of it where it has become a union or a join.
    """
    add_rules(jvm, java_session, _RULE, lambda: [_rule(jvm), jvm.module(_PUSH_DOWN), filters_below_joins(jvm)])


def add_rules(jvm: Jvm, java_session: Any, name: str, rules: Callable[[], Sequence[Any]]) -> None:
    """Put rules at the end of a session's optimizer, unless one of that name is there."""
    methods = java_session.experimental()
    with jvm.lock:
        known = jvm.read_seq(methods.extraOptimizations())
        if not any(rule.ruleName() == name for rule in known):
            methods.__getattr__("extraOptimizations_$eq")(jvm.seq([*known, *rules()]))


def _rule(jvm: Jvm) -> Any:
    """The rule: one for all sessions of a JVM."""
    return jvm.once(_RULE, lambda: made_of_source(jvm, _SOURCE, _RULE, [OwnNodes(jvm)]))
