"""Functions of ours in plans: expressions of Spark's own take their place before a query runs.

A Python object cannot go to executors. So a rule at the end of the optimizer asks each function of ours for an
expression that does the same; it is made once for each function and types of arguments, of SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import Column, SparkSession

from floe.spark.bridge.compiling import made_of_source
from floe.spark.bridge.interfaces.java_functions import UnaryOperator
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.proxies import proxy_of
from floe.spark.bridge.rules import add_rules

__all__ = ["Expressible", "argument", "install_function_rule"]

FUNCTION_RULE: Final = "floe.FunctionRule"
_SOURCE: Final = """
package floe;

import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

public class FunctionRule extends org.apache.spark.sql.catalyst.rules.Rule {
  private final UnaryOperator rewrite;

  public FunctionRule(UnaryOperator rewrite) { this.rewrite = rewrite; }

  public TreeNode apply(TreeNode plan) {
    return ((QueryPlan) plan).transformUpWithSubqueries(new Nodes(new Calls(rewrite)));
  }

  public Expression replaced(
      Expression template, scala.collection.immutable.Seq names, scala.collection.immutable.Seq values) {
    return (Expression) template.transformUp(new Arguments(names, values));
  }

  public static class Nodes extends scala.runtime.AbstractPartialFunction {
    private final Calls calls;

    public Nodes(Calls calls) { this.calls = calls; }

    public boolean isDefinedAt(Object node) {
      scala.collection.Iterator all = ((QueryPlan) node).expressions().iterator();
      while (all.hasNext()) if (((Expression) all.next()).find(new Found(calls)).isDefined()) return true;
      return false;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ((QueryPlan) node).transformExpressionsUp(calls) : otherwise.apply(node);
    }
  }

  public static class Found extends scala.runtime.AbstractFunction1 {
    private final Calls calls;

    public Found(Calls calls) { this.calls = calls; }

    public Object apply(Object expression) { return Boolean.valueOf(calls.isDefinedAt(expression)); }
  }

  public static class Calls extends scala.runtime.AbstractPartialFunction {
    private final UnaryOperator rewrite;

    public Calls(UnaryOperator rewrite) { this.rewrite = rewrite; }

    public boolean isDefinedAt(Object found) {
      return found instanceof ApplyFunctionExpression
          && java.lang.reflect.Proxy.isProxyClass(((ApplyFunctionExpression) found).function().getClass());
    }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      return isDefinedAt(found) ? rewrite.apply(found) : otherwise.apply(found);
    }
  }

  public static class Arguments extends scala.runtime.AbstractPartialFunction {
    private final scala.collection.immutable.Seq names;
    private final scala.collection.immutable.Seq values;

    public Arguments(scala.collection.immutable.Seq names, scala.collection.immutable.Seq values) {
      this.names = names;
      this.values = values;
    }

    public boolean isDefinedAt(Object found) {
      return found instanceof AttributeReference && names.contains(((AttributeReference) found).name());
    }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      if (!isDefinedAt(found)) return otherwise.apply(found);
      return values.apply(names.indexOf(((AttributeReference) found).name()));
    }
  }
}
"""


class Expressible:
    """A function that Spark's own expressions can stand for."""

    def key(self) -> Any:
        """What is the same for functions that do the same."""
        raise NotImplementedError

    def argument_types(self) -> Sequence[str]:
        """The types of the arguments, in SQL."""
        raise NotImplementedError

    def expressed(self) -> Column:
        """What the function does with the columns `argument(0)`, …."""
        raise NotImplementedError


def argument(place: int) -> str:
    """The name that an argument has in the expression of a function."""
    return f"floe_argument_{place}"


class OwnCalls(UnaryOperator):
    """Gives the expressions that stand for calls of our functions."""

    def apply(self, call: Any) -> Any:
        """The expression for a call."""
        function = proxy_of(call.function())
        if not isinstance(function, Expressible):
            return call
        names = [argument(place) for place in range(len(function.argument_types()))]
        template = _template(self.jvm, function, names)
        return function_rule(self.jvm).replaced(template, self.jvm.seq(names), call.children())


def function_rule(jvm: Jvm) -> Any:
    """The rule: one for all sessions of a JVM."""
    return jvm.once(FUNCTION_RULE, lambda: made_of_source(jvm, _SOURCE, FUNCTION_RULE, [OwnCalls(jvm)]))


def install_function_rule(jvm: Jvm, java_session: Any) -> None:
    """Put the rule into a session's optimizer, unless it is there."""
    add_rules(jvm, java_session, FUNCTION_RULE, lambda: [function_rule(jvm)])


def _template(jvm: Jvm, function: Expressible, names: Sequence[str]) -> Any:
    """The expression of a function, with columns for its arguments."""
    return jvm.once(("expression of", function.key()), lambda: _made_template(jvm, function, names))


def _made_template(jvm: Jvm, function: Expressible, names: Sequence[str]) -> Any:
    spark = SparkSession(jvm.context, jvm.active_session())
    types = zip(names, function.argument_types(), strict=True)
    base = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in types) or "1 AS nothing"
    frame: Any = spark.sql(f"SELECT {base}").select(function.expressed().alias("result"))
    plan = frame._jdf.queryExecution().analyzed()
    finished = jvm.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(plan)
    return finished.projectList().apply(0).child()
