"""A rule of ours in Spark's optimizer: parts of a plan that are Floe's can be put in another way.

Rules are classes, which a Python object cannot stand for; so one is compiled when a session starts, by the compiler
that Spark has for its generated code. It runs at the end of the optimizer, for every query however it was made, and
calls Python for the nodes whose scan, write, table or catalog is a Python object: never for queries of others.

A rule of ours in Spark's optimizer: filters go below the joins that take deleted rows out of a read.

Spark's own rule for it, which runs before such a read is put in its place, would also move what may fail, such as a
division, and a query would fail for rows that are deleted. So only comparisons of columns go below, and filters that
come at run time, which must reach the read. It is right for any join that only takes rows of its left side out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from floe.spark.bridge.jvm import made_of_source
from floe.spark.bridge.proxies import BiFunction, proxy_of

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm


# A rule of ours in Spark's optimizer: filters go below the joins that take deleted rows out of a read.

_FILTERS_BELOW_JOINS: Final = "floe.FiltersBelowJoins"
_FILTERS_BELOW_JOINS_SOURCE: Final = """
package floe;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

public class FiltersBelowJoins extends org.apache.spark.sql.catalyst.rules.Rule {
  public FiltersBelowJoins() {}

  public TreeNode apply(TreeNode plan) { return ((QueryPlan) plan).transformUpWithSubqueries(new Moved()); }

  public static class Moved extends scala.runtime.AbstractPartialFunction {
    public Moved() {}

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof Filter) || !(((Filter) node).child() instanceof Join)) return false;
      Object how = ((Join) ((Filter) node).child()).joinType();
      return how == LeftAnti$.MODULE$ || how instanceof ExistenceJoin;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Filter filter = (Filter) node;
      Join join = (Join) filter.child();
      ArrayList below = new ArrayList();
      ArrayList above = new ArrayList();
      split(filter.condition(), join.left(), below, above);
      if (below.isEmpty()) return node;
      LogicalPlan left = new Filter(all(below), join.left());
      LogicalPlan made = new Join(left, join.right(), join.joinType(), join.condition(), join.hint());
      return above.isEmpty() ? made : new Filter(all(above), made);
    }

    private static void split(Expression condition, LogicalPlan left, ArrayList below, ArrayList above) {
      if (condition instanceof And) {
        split(((And) condition).left(), left, below, above);
        split(((And) condition).right(), left, below, above);
      } else if (condition.references().subsetOf(left.outputSet()) && neverFails(condition)) {
        below.add(condition);
      } else {
        above.add(condition);
      }
    }

    private static boolean neverFails(Expression found) {
      if (found instanceof DynamicPruning) return true;
      boolean known = found instanceof Attribute || found instanceof Literal || found instanceof BinaryComparison
          || found instanceof And || found instanceof Or || found instanceof Not || found instanceof IsNull
          || found instanceof IsNotNull || found instanceof IsNaN || found instanceof In || found instanceof InSet
          || found instanceof StringPredicate || found instanceof GetStructField;
      scala.collection.Iterator children = found.children().iterator();
      while (known && children.hasNext()) known = neverFails((Expression) children.next());
      return known;
    }

    private static Expression all(ArrayList conditions) {
      Expression found = (Expression) conditions.get(0);
      for (int place = 1; place < conditions.size(); place++)
        found = new And(found, (Expression) conditions.get(place));
      return found;
    }
  }
}
"""


def filters_below_joins(jvm: Jvm) -> Any:
    """The rule: one for all sessions of a JVM."""
    return jvm.once(
        _FILTERS_BELOW_JOINS, lambda: made_of_source(jvm, _FILTERS_BELOW_JOINS_SOURCE, _FILTERS_BELOW_JOINS, [])
    )


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
