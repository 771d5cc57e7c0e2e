"""Rules that Floe adds to Spark's optimizer.

A rule must be a Java class, not a proxy, so each is compiled when a session starts (`instantiate_source`). They run at
the end of the optimizer, for every query, whether it is SQL or a DataFrame:

| rule | what it does |
|---|---|
| `PlanRule` | lets Floe's scans, writes, tables and catalogs rewrite their nodes of a plan |
| `FiltersBelowJoins` | moves filters below the joins that remove deleted rows from a scan |
| `FunctionRule` | replaces calls of Floe's functions by the Spark expressions that compute them |

`PlanRule` calls Python only for nodes whose scan, write, table or catalog is a Python object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql import Column, SparkSession

from floe.spark.bridge.jvm import Jvm, instantiate_source
from floe.spark.bridge.proxies import BiFunction, proxy_of
from floe.spark.settings import ANSI


def add_rules(jvm: Jvm, java_session: Any, name: str, rules: Callable[[], Sequence[Any]]) -> None:
    """Append rules to the optimizer of a session, unless it has a rule of that name already."""
    methods = java_session.experimental()
    with jvm.lock:
        present = jvm.read_seq(methods.extraOptimizations())
        if not any(rule.ruleName() == name for rule in present):
            methods.__getattr__("extraOptimizations_$eq")(jvm.seq([*present, *rules()]))


# Nodes of Floe in a plan ----------------------------------------------------------------------------------------------

_PLAN_RULE: Final = "floe.PlanRule"
_PUSH_DOWN: Final = "org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin"
_PLAN_RULE_SOURCE: Final = """
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
    // a DELETE that Spark does not rewrite deletes whole files, without a scan
    if (plan instanceof DeleteFromTable || plan instanceof DeleteFromTableWithFilters) return plan;
    return ((QueryPlan) plan).transformUpWithSubqueries(new FloeNodes(rewrite));
  }

  public static class FloeNodes extends scala.runtime.AbstractPartialFunction {
    private final BiFunction rewrite;

    public FloeNodes(BiFunction rewrite) { this.rewrite = rewrite; }

    public boolean isDefinedAt(Object node) {
      Object owner = owner(node);
      return owner != null && java.lang.reflect.Proxy.isProxyClass(owner.getClass());
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
      if (node instanceof WriteToDataSourceV2) return streamingWrite(((WriteToDataSourceV2) node).batchWrite());
      return null;
    }

    private static Object table(LogicalPlan child) {
      return child instanceof ResolvedTable ? ((ResolvedTable) child).table() : null;
    }

    private static Object catalog(LogicalPlan child) {
      return child instanceof ResolvedNamespace ? ((ResolvedNamespace) child).catalog() : null;
    }

    private static Object streamingWrite(Object write) {
      return write instanceof MicroBatchWrite ? ((MicroBatchWrite) write).writeSupport() : null;
    }

    private static Object value(scala.Option option) { return option.isDefined() ? option.get() : null; }
  }
}
"""


class Rewritable:
    """A scan, write, table or catalog that can rewrite its nodes of a plan."""

    def rewrite(self, node: Any) -> Any:
        """The node itself, or a plan that replaces it and has the same output.

        Spark applies the rule until the plan does not change, so the result must not be rewritten again.
        """
        return node


class FloeNodes(BiFunction):
    """Lets the owner of a node, if it is an object of Floe, rewrite the node; `PlanRule` calls it."""

    def apply(self, node: Any, owner: Any) -> Any:
        """The node as its scan, write, table or catalog rewrites it."""
        proxy = proxy_of(owner)
        return proxy.rewrite(node) if isinstance(proxy, Rewritable) else node


def install_plan_rule(jvm: Jvm, java_session: Any) -> None:
    """Add `PlanRule` to the optimizer of a session, unless it is there.

    Two rules follow it, one of Spark's and `FiltersBelowJoins`: where a scan has become a union or a join, they push
    the filters above it, also runtime filters, down to all of its parts.
    """
    add_rules(
        jvm, java_session, _PLAN_RULE, lambda: [_plan_rule(jvm), jvm.module(_PUSH_DOWN), filters_below_joins(jvm)]
    )


def _plan_rule(jvm: Jvm) -> Any:
    """The rule `PlanRule`, which all sessions of a JVM share."""
    return jvm.once(_PLAN_RULE, lambda: instantiate_source(jvm, _PLAN_RULE_SOURCE, _PLAN_RULE, [FloeNodes(jvm)]))


# Filters below joins --------------------------------------------------------------------------------------------------

# Spark's own rule runs before such a join is in the plan, and would also move what may fail, such as a division: a
# query would fail because of deleted rows. So only comparisons of columns are moved, and runtime filters, which must
# reach the scan. This is right for any join that only removes rows of its left side.
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

  public TreeNode apply(TreeNode plan) { return ((QueryPlan) plan).transformUpWithSubqueries(new PushDown()); }

  public static class PushDown extends scala.runtime.AbstractPartialFunction {
    public PushDown() {}

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof Filter) || !(((Filter) node).child() instanceof Join)) return false;
      Object joinType = ((Join) ((Filter) node).child()).joinType();
      return joinType == LeftAnti$.MODULE$ || joinType instanceof ExistenceJoin;
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
      LogicalPlan newJoin = new Join(left, join.right(), join.joinType(), join.condition(), join.hint());
      return above.isEmpty() ? newJoin : new Filter(all(above), newJoin);
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

    private static boolean neverFails(Expression e) {
      if (e instanceof DynamicPruning) return true;
      boolean safe = e instanceof Attribute || e instanceof Literal || e instanceof BinaryComparison
          || e instanceof And || e instanceof Or || e instanceof Not || e instanceof IsNull
          || e instanceof IsNotNull || e instanceof IsNaN || e instanceof In || e instanceof InSet
          || e instanceof StringPredicate || e instanceof GetStructField;
      scala.collection.Iterator children = e.children().iterator();
      while (safe && children.hasNext()) safe = neverFails((Expression) children.next());
      return safe;
    }

    private static Expression all(ArrayList conditions) {
      Expression conjunction = (Expression) conditions.get(0);
      for (int i = 1; i < conditions.size(); i++)
        conjunction = new And(conjunction, (Expression) conditions.get(i));
      return conjunction;
    }
  }
}
"""


def filters_below_joins(jvm: Jvm) -> Any:
    """The rule `FiltersBelowJoins`, which all sessions of a JVM share."""
    return jvm.once(
        _FILTERS_BELOW_JOINS, lambda: instantiate_source(jvm, _FILTERS_BELOW_JOINS_SOURCE, _FILTERS_BELOW_JOINS, [])
    )


# Functions ------------------------------------------------------------------------------------------------------------

# A function of a catalog is an object of the Java class `ExpressionFunction`, which holds its expression. Spark calls
# the object only to fold constants; other calls are replaced at the end of the optimizer, because executors do not
# have the class.
FUNCTION_RULE: Final = "floe.FunctionRule"
_FUNCTION_RULE_SOURCE: Final = """
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
    return ((QueryPlan) plan).transformUpWithSubqueries(new NodesWithCalls());
  }

  public ScalarFunction function(String name, String canonicalName, DataType[] types, Expression body) {
    Expression bound = (Expression) body.transformUp(new ParametersToReferences(types));
    return new ExpressionFunction(name, canonicalName, types, bound);
  }

  public static class ExpressionFunction implements ScalarFunction {
    private final String name;
    private final String canonicalName;
    private final DataType[] types;
    public final Expression body;

    public ExpressionFunction(String name, String canonicalName, DataType[] types, Expression body) {
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
      return other instanceof ExpressionFunction && canonicalName.equals(((ExpressionFunction) other).canonicalName);
    }
  }

  public static class NodesWithCalls extends scala.runtime.AbstractPartialFunction {
    private final CallsToBodies calls = new CallsToBodies();

    public boolean isDefinedAt(Object node) {
      scala.collection.Iterator expressions = ((QueryPlan) node).expressions().iterator();
      while (expressions.hasNext())
        if (((Expression) expressions.next()).find(new IsCall()).isDefined()) return true;
      return false;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ((QueryPlan) node).transformExpressionsUp(calls) : otherwise.apply(node);
    }
  }

  public static class IsCall extends scala.runtime.AbstractFunction1 {
    public Object apply(Object expression) { return Boolean.valueOf(isCall(expression)); }
  }

  public static boolean isCall(Object expression) {
    return expression instanceof ApplyFunctionExpression
        && ((ApplyFunctionExpression) expression).function() instanceof ExpressionFunction;
  }

  public static class CallsToBodies extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object expression) { return isCall(expression); }

    public Object applyOrElse(Object expression, scala.Function1 otherwise) {
      if (!isCall(expression)) return otherwise.apply(expression);
      ApplyFunctionExpression call = (ApplyFunctionExpression) expression;
      return ((ExpressionFunction) call.function()).body.transformUp(new ReferencesToArguments(call.children()));
    }
  }

  public static class ParametersToReferences extends scala.runtime.AbstractPartialFunction {
    private final DataType[] types;

    public ParametersToReferences(DataType[] types) { this.types = types; }

    public boolean isDefinedAt(Object expression) {
      return expression instanceof AttributeReference
          && ((AttributeReference) expression).name().startsWith(ARGUMENT);
    }

    public Object applyOrElse(Object expression, scala.Function1 otherwise) {
      if (!isDefinedAt(expression)) return otherwise.apply(expression);
      int index = Integer.parseInt(((AttributeReference) expression).name().substring(ARGUMENT.length()));
      return new BoundReference(index, types[index], true);
    }
  }

  public static final String ARGUMENT = "floe_argument_";

  public static class ReferencesToArguments extends scala.runtime.AbstractPartialFunction {
    private final scala.collection.immutable.Seq arguments;

    public ReferencesToArguments(scala.collection.immutable.Seq arguments) { this.arguments = arguments; }

    public boolean isDefinedAt(Object expression) { return expression instanceof BoundReference; }

    public Object applyOrElse(Object expression, scala.Function1 otherwise) {
      if (!isDefinedAt(expression)) return otherwise.apply(expression);
      return arguments.apply(((BoundReference) expression).ordinal());
    }
  }
}
"""


def argument_name(index: int) -> str:
    """The name of the column that stands for an argument in the expression of a function."""
    return f"floe_argument_{index}"


def expression_function(
    jvm: Jvm, name: str, canonical_name: str, types: Sequence[str], express: Callable[[], Column]
) -> Any:
    """A `ScalarFunction` whose body is an expression of the columns `argument_name(0)`, …, of these SQL types.

    Spark takes functions with the same canonical name for equal. The expression is built once for each setting of
    ANSI mode, on which the behaviour at overflows depends.
    """
    ansi = jvm.setting(ANSI)
    key = f"function {canonical_name}, ANSI {ansi}"
    return jvm.once(key, lambda: _make_function(jvm, name, canonical_name, types, express))


def _make_function(
    jvm: Jvm, name: str, canonical_name: str, types: Sequence[str], express: Callable[[], Column]
) -> Any:
    spark = SparkSession(jvm.context, jvm.active_session())
    arguments = ", ".join(f"CAST(NULL AS {type_}) AS {argument_name(index)}" for index, type_ in enumerate(types))
    frame: Any = spark.sql(f"SELECT {arguments or '1 AS nothing'}").select(express().alias("result"))
    plan = frame._jdf.queryExecution().analyzed()
    # functions that Spark replaces by others, such as `nvl`, cannot be evaluated before
    replaced = jvm.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(plan)
    body = replaced.projectList().apply(0).child()
    argument_types = [jvm.sql("types.DataType").fromDDL(type_) for type_ in types]
    java_types = jvm.array("org.apache.spark.sql.types.DataType", argument_types)
    return function_rule(jvm).function(name, canonical_name, java_types, body)


def function_rule(jvm: Jvm) -> Any:
    """The rule `FunctionRule`, which all sessions of a JVM share."""
    return jvm.once(FUNCTION_RULE, lambda: instantiate_source(jvm, _FUNCTION_RULE_SOURCE, FUNCTION_RULE, []))


def install_function_rule(jvm: Jvm, java_session: Any) -> None:
    """Add `FunctionRule` to the optimizer of a session, unless it is there."""
    add_rules(jvm, java_session, FUNCTION_RULE, lambda: [function_rule(jvm)])
