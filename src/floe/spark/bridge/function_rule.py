"""Functions of ours in plans: expressions of Spark's own take their place before a query runs.

A function is an object of a small class that is compiled here, made of the expression that stands for it. Spark asks
the object itself where it computes something of constants, in the JVM's own types; what is left is replaced at the end
of the optimizer, as an executor does not have the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql import Column, SparkSession

from floe.spark.bridge.jvm import Jvm, made_of_source
from floe.spark.bridge.rules import add_rules
from floe.spark.settings import ANSI

FUNCTION_RULE: Final = "floe.FunctionRule"
_SOURCE: Final = """
package floe;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;

public class FunctionRule extends org.apache.spark.sql.catalyst.rules.Rule {
  public FunctionRule() {}

  public TreeNode apply(TreeNode plan) {
    return ((QueryPlan) plan).transformUpWithSubqueries(new Nodes());
  }

  public ScalarFunction function(String name, String canonicalName, DataType[] types, Expression body) {
    return new Expressed(name, canonicalName, types, (Expression) body.transformUp(new Places(types)));
  }

  public static class Expressed implements ScalarFunction {
    private final String name;
    private final String canonicalName;
    private final DataType[] types;
    public final Expression body;

    public Expressed(String name, String canonicalName, DataType[] types, Expression body) {
      this.name = name;
      this.canonicalName = canonicalName;
      this.types = types;
      this.body = body;
    }

    public String name() { return name; }
    public String canonicalName() { return canonicalName; }
    public DataType[] inputTypes() { return types; }
    public DataType resultType() { return body.dataType(); }
    public boolean isResultNullable() { return body.nullable(); }
    public boolean isDeterministic() { return true; }
    public Object produceResult(InternalRow row) { return body.eval(row); }
    public int hashCode() { return canonicalName.hashCode(); }
    public String toString() { return canonicalName; }

    public boolean equals(Object other) {
      return other instanceof Expressed && canonicalName.equals(((Expressed) other).canonicalName);
    }
  }

  public static class Nodes extends scala.runtime.AbstractPartialFunction {
    private final Calls calls = new Calls();

    public boolean isDefinedAt(Object node) {
      scala.collection.Iterator all = ((QueryPlan) node).expressions().iterator();
      while (all.hasNext()) if (((Expression) all.next()).find(new Found()).isDefined()) return true;
      return false;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ((QueryPlan) node).transformExpressionsUp(calls) : otherwise.apply(node);
    }
  }

  public static class Found extends scala.runtime.AbstractFunction1 {
    public Object apply(Object found) { return Boolean.valueOf(isCall(found)); }
  }

  public static boolean isCall(Object found) {
    return found instanceof ApplyFunctionExpression
        && ((ApplyFunctionExpression) found).function() instanceof Expressed;
  }

  public static class Calls extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object found) { return isCall(found); }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      if (!isCall(found)) return otherwise.apply(found);
      ApplyFunctionExpression call = (ApplyFunctionExpression) found;
      return ((Expressed) call.function()).body.transformUp(new Arguments(call.children()));
    }
  }

  public static class Places extends scala.runtime.AbstractPartialFunction {
    private final DataType[] types;

    public Places(DataType[] types) { this.types = types; }

    public boolean isDefinedAt(Object found) {
      return found instanceof AttributeReference && ((AttributeReference) found).name().startsWith(ARGUMENT);
    }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      if (!isDefinedAt(found)) return otherwise.apply(found);
      int place = Integer.parseInt(((AttributeReference) found).name().substring(ARGUMENT.length()));
      return new BoundReference(place, types[place], true);
    }
  }

  public static final String ARGUMENT = "floe_argument_";

  public static class Arguments extends scala.runtime.AbstractPartialFunction {
    private final scala.collection.immutable.Seq values;

    public Arguments(scala.collection.immutable.Seq values) { this.values = values; }

    public boolean isDefinedAt(Object found) { return found instanceof BoundReference; }

    public Object applyOrElse(Object found, scala.Function1 otherwise) {
      return isDefinedAt(found) ? values.apply(((BoundReference) found).ordinal()) : otherwise.apply(found);
    }
  }
}
"""


def argument(place: int) -> str:
    """The name that an argument has in the expression of a function."""
    return f"floe_argument_{place}"


def expressed_function(
    jvm: Jvm, name: str, canonical_name: str, types: Sequence[str], express: Callable[[], Column]
) -> Any:
    """A `ScalarFunction` that does what an expression does with the columns `argument(0)`, … of these SQL types.

    Functions of a canonical name are the same. The expression is made once for each answer to overflows that a
    session may want.
    """
    ansi = jvm.setting(ANSI)
    key = f"function {canonical_name}, ANSI {ansi}"
    return jvm.once(key, lambda: _made(jvm, name, canonical_name, types, express))


def _made(jvm: Jvm, name: str, canonical_name: str, types: Sequence[str], express: Callable[[], Column]) -> Any:
    spark = SparkSession(jvm.context, jvm.active_session())
    base = ", ".join(f"CAST(NULL AS {type_}) AS {argument(place)}" for place, type_ in enumerate(types))
    frame: Any = spark.sql(f"SELECT {base or '1 AS nothing'}").select(express().alias("result"))
    plan = frame._jdf.queryExecution().analyzed()
    finished = jvm.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(plan)
    body = finished.projectList().apply(0).child()
    of_arguments = [jvm.sql("types.DataType").fromDDL(type_) for type_ in types]
    spark_types = jvm.array("org.apache.spark.sql.types.DataType", of_arguments)
    return function_rule(jvm).function(name, canonical_name, spark_types, body)


def function_rule(jvm: Jvm) -> Any:
    """The rule: one for all sessions of a JVM."""
    return jvm.once(FUNCTION_RULE, lambda: made_of_source(jvm, _SOURCE, FUNCTION_RULE, []))


def install_function_rule(jvm: Jvm, java_session: Any) -> None:
    """Put the rule into a session's optimizer, unless it is there."""
    add_rules(jvm, java_session, FUNCTION_RULE, lambda: [function_rule(jvm)])
