"""Rules that Floe adds to Spark's optimizer.

A rule must be a Java class, which a Python object cannot be; so each is compiled when a session starts, by the compiler
that Spark uses for generated code. They run at the end of the optimizer, for every query however it was made:

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
    """Put rules at the end of a session's optimizer, unless one of that name is there."""
    methods = java_session.experimental()
    with jvm.lock:
        known = jvm.read_seq(methods.extraOptimizations())
        if not any(rule.ruleName() == name for rule in known):
            methods.__getattr__("extraOptimizations_$eq")(jvm.seq([*known, *rules()]))


# nodes of Floe in a plan ----------------------------------------------------------------------------------------------

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
    if (plan instanceof DeleteFromTable || plan instanceof DeleteFromTableWithFilters) return plan;  // nothing is read
    return ((QueryPlan) plan).transformUpWithSubqueries(new FloeNodes(rewrite));
  }

  public static class FloeNodes extends scala.runtime.AbstractPartialFunction {
    private final BiFunction rewrite;

    public FloeNodes(BiFunction rewrite) { this.rewrite = rewrite; }

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


class FloeNodes(BiFunction):
    """Rewrites the nodes whose scan, write, table or catalog is ours."""

    def apply(self, node: Any, owner: Any) -> Any:
        """Ask the owner of a node."""
        found = proxy_of(owner)
        return found.rewritten(node) if isinstance(found, Rewritable) else node


def install_plan_rule(jvm: Jvm, java_session: Any) -> None:
    """Put the rule into a session's optimizer, unless it is there.

    Behind it go a rule of Spark's own and one of ours, so that filters above a read (those that come at run time too)
    reach all parts of it where it has become a union or a join.
    """
    add_rules(
        jvm, java_session, _PLAN_RULE, lambda: [_plan_rule(jvm), jvm.module(_PUSH_DOWN), filters_below_joins(jvm)]
    )


def _plan_rule(jvm: Jvm) -> Any:
    """The rule: one for all sessions of a JVM."""
    return jvm.once(_PLAN_RULE, lambda: instantiate_source(jvm, _PLAN_RULE_SOURCE, _PLAN_RULE, [FloeNodes(jvm)]))


# filters below joins --------------------------------------------------------------------------------------------------

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
        _FILTERS_BELOW_JOINS, lambda: instantiate_source(jvm, _FILTERS_BELOW_JOINS_SOURCE, _FILTERS_BELOW_JOINS, [])
    )


# functions ------------------------------------------------------------------------------------------------------------

# A function of a catalog is an object of a small Java class that holds its expression. Spark calls the object only
# to fold constants; other calls are replaced at the end of the optimizer, because executors do not have the class.
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


def expression_function(
    jvm: Jvm, name: str, canonical_name: str, types: Sequence[str], express: Callable[[], Column]
) -> Any:
    """A `ScalarFunction` that does what an expression does with the columns `argument(0)`, … of these SQL types.

    Functions of a canonical name are the same. The expression is made once for each answer to overflows that a
    session may want.
    """
    ansi = jvm.setting(ANSI)
    key = f"function {canonical_name}, ANSI {ansi}"
    return jvm.once(key, lambda: _make_function(jvm, name, canonical_name, types, express))


def _make_function(
    jvm: Jvm, name: str, canonical_name: str, types: Sequence[str], express: Callable[[], Column]
) -> Any:
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
    return jvm.once(FUNCTION_RULE, lambda: instantiate_source(jvm, _FUNCTION_RULE_SOURCE, FUNCTION_RULE, []))


def install_function_rule(jvm: Jvm, java_session: Any) -> None:
    """Put the rule into a session's optimizer, unless it is there."""
    add_rules(jvm, java_session, FUNCTION_RULE, lambda: [function_rule(jvm)])
