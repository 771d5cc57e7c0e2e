"""A rule of ours in Spark's optimizer: filters go below the joins that take deleted rows out of a read.

Spark's own rule for it, which runs before such a read is put in its place, would also move what may fail, such as a
division, and a query would fail for rows that are deleted. So only comparisons of columns go below, and filters that
come at run time, which must reach the read. It is right for any join that only takes rows of its left side out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from floe.spark.bridge.compiling import made_of_source

if TYPE_CHECKING:
    from floe.spark.bridge.jvm import Jvm

__all__ = ["filters_below_joins"]

_RULE: Final = "floe.FiltersBelowJoins"
_SOURCE: Final = """
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
    return jvm.once(_RULE, lambda: made_of_source(jvm, _SOURCE, _RULE, []))
