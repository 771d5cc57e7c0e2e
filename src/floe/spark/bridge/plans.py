"""Catalyst expressions and logical plans: building them, and reading what Spark has planned.

- `Expressions` and `Plans` build what a rewrite (`floe.spark.bridge.rules`) puts in the place of a node. Where Spark's
  own expressions differ between its versions, a call of a static Java method is used instead.
- `append_data`, `replace_table` and `python_command` build or change commands.
- `floe_relations` finds Floe's tables or scans in a plan, in one call of the JVM.
- `merge_metrics` reads what Spark counted during a MERGE.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, functions as F

from floe.spark.bridge.interfaces.write import ExternalCommandRunner
from floe.spark.bridge.jvm import Jvm, instantiate_source
from floe.spark.bridge.proxies import Proxy, proxy_of
from floe.spark.settings import ANSI, EXECUTION_ID

_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
_JOINS: Final = "org.apache.spark.sql.catalyst.plans."
_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical."
_SEED_0_OF_THE_SPEC: Final = -1693959553
"""The number whose hash in Spark, with its seed 42, is 0: the seed of the spec's hash for the column that follows."""


class Expressions:
    """Builds Catalyst expressions."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm

    def create(self, name: str, *arguments: Any) -> Any:
        """An expression of a class in Catalyst's package of expressions."""
        return self._jvm.java_class(_EXPRESSIONS + name)(*arguments)

    def literal(self, sql: str) -> Any:
        """The literal of a SQL text, such as `7`, `7L` or `true`."""
        parser = "org.apache.spark.sql.catalyst.parser.CatalystSqlParser"
        return self._jvm.once(f"literal {sql}", lambda: self._jvm.module(parser).parseExpression(sql))

    def text(self, value: str) -> Any:
        """A literal of the type string."""
        return self._jvm.module(_EXPRESSIONS + "Literal").create(value, self._jvm.data_type("string"))

    def null(self, data_type: Any) -> Any:
        """A null literal of a `DataType`."""
        return self._jvm.module(_EXPRESSIONS + "Literal").create(None, data_type)

    def call(self, class_name: str, method: str, data_type: Any, *arguments: Any, nullable: bool = False) -> Any:
        """A call of a static Java method; null where an argument is null. `nullable` says that an argument may be."""
        jvm = self._jvm
        type_ = data_type
        if isinstance(data_type, str):
            type_ = jvm.once(f"type {data_type}", lambda: jvm.data_type(data_type))
        java_class = jvm.once(f"class {class_name}", lambda: jvm.class_object(class_name))
        values, no_types = jvm.seq(arguments), jvm.seq([])
        return self.create(
            "objects.StaticInvoke", java_class, type_, method, values, no_types, True, nullable, True, jvm.none
        )

    def method(self, target: Any, method: str, data_type: Any, *arguments: Any) -> Any:
        """A call of a method of a Java object; null where the object or an argument is null."""
        jvm = self._jvm
        return self.create(
            "objects.Invoke", target, method, data_type, jvm.seq(arguments), jvm.seq([]), True, False, True
        )

    def object_type(self, class_name: str) -> Any:
        """The type of values that are Java objects of a class: results on which another method is called."""
        return self._jvm.sql("types.ObjectType")(self._jvm.class_object(class_name))

    def alias(self, expression: Any, attribute: Any) -> Any:
        """An alias of an expression with the name and the expression id of an attribute."""
        jvm = self._jvm
        empty = jvm.seq([])
        return self.create("Alias", expression, attribute.name(), attribute.exprId(), empty, jvm.none, empty)

    def struct(self, fields: Mapping[str, Any]) -> Any:
        """A struct of named expressions."""
        children = [child for name, value in fields.items() for child in (self.text(name), value)]
        return self.create("CreateNamedStruct", self._jvm.seq(children))

    def field(self, struct: Any, index: int) -> Any:
        """A field of a struct; null where the struct is null."""
        return self.create("GetStructField", struct, index, self._jvm.none)

    def all_of(self, *conditions: Any) -> Any:
        """The conjunction (AND) of at least one condition."""
        return functools.reduce(lambda left, right: self.create("And", left, right), conditions)

    def any_of(self, *conditions: Any) -> Any:
        """The disjunction (OR) of at least one condition."""
        return functools.reduce(lambda left, right: self.create("Or", left, right), conditions)


class Plans:
    """Builds nodes of Catalyst's logical plans."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm

    def attributes(self, schema: Any) -> list[Any]:
        """New attributes, with new expression ids, for the columns of a schema's JSON."""
        utils = self._jvm.module("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        return self._jvm.read_seq(utils.toAttributes(self._jvm.data_type(schema)))

    def output(self, plan: Any) -> list[Any]:
        """The output attributes of a plan."""
        return self._jvm.read_seq(plan.output())

    def scan_relation(self, node: Any, scan: Any, output: Sequence[Any]) -> Any:
        """A scan relation with another scan and output."""
        return self.copy_node(node, {1: scan, 2: self._jvm.seq(output)})

    def empty_relation(self, attributes: Any) -> Any:
        """A relation with some attributes, as a Scala `Seq`, and no rows."""
        jvm = self._jvm
        return jvm.java_class(_PLANS + "LocalRelation")(attributes, jvm.seq([]), False, jvm.none)

    def project(self, columns: Iterable[Any], child: Any) -> Any:
        """A projection of a plan to some columns."""
        return self._jvm.java_class(_PLANS + "Project")(self._jvm.seq(columns), child)

    def filter(self, condition: Any, child: Any) -> Any:
        """The rows of a plan that match a condition."""
        return self._jvm.java_class(_PLANS + "Filter")(condition, child)

    def union(self, *plans: Any) -> Any:
        """The rows of all plans (UNION ALL); the columns are those of the first."""
        return (
            plans[0] if len(plans) == 1 else self._jvm.java_class(_PLANS + "Union")(self._jvm.seq(plans), False, False)
        )

    def anti_join(self, left: Any, right: Any, condition: Any) -> Any:
        """The rows of the left plan that match no row of the right one."""
        return self._join(left, right, self._jvm.module(_JOINS + "LeftAnti"), condition)

    def existence_join(self, left: Any, right: Any, condition: Any, exists: Any) -> Any:
        """The rows of the left plan; the boolean attribute `exists` says whether a row of the right one matches."""
        return self._join(left, right, self._jvm.java_class(_JOINS + "ExistenceJoin")(exists), condition)

    def _join(self, left: Any, right: Any, join_type: Any, condition: Any) -> Any:
        hint = self._jvm.module(_PLANS + "JoinHint").NONE()
        return self._jvm.java_class(_PLANS + "Join")(left, right, join_type, self._jvm.some(condition), hint)

    def join_without_replication(self, join: Any, left: Any) -> Any:
        """A join with another left side, with a hint that no row of it may be sent to several tasks."""
        jvm = self._jvm
        strategy = jvm.module(_PLANS + "NO_BROADCAST_AND_REPLICATION")
        left_hint = jvm.java_class(_PLANS + "HintInfo")(jvm.some(strategy))
        hint = jvm.java_class(_PLANS + "JoinHint")(jvm.some(left_hint), jvm.none)
        return self.copy_node(join, {0: left, 4: hint})

    def aggregate_max(self, groups: Sequence[Any], value: Any, maximum: Any, child: Any) -> Any:
        """The rows of a plan grouped by some attributes, with the maximum of a value as the attribute `maximum`."""
        jvm, expressions = self._jvm, Expressions(self._jvm)
        aggregate = expressions.create("aggregate.Max", value).toAggregateExpression()
        columns = jvm.seq([*groups, expressions.alias(aggregate, maximum)])
        return jvm.java_class(_PLANS + "Aggregate")(jvm.seq(groups), columns, child, jvm.none)

    def copy_node(self, node: Any, changes: Mapping[int, Any]) -> Any:
        """A copy of a node with some constructor arguments changed, by their index.

        Versions of Spark differ in the number of arguments, so the others are taken from the node.
        """
        changed = [changes.get(index, None) for index in range(node.productArity())]
        arguments = [new if new is not None else node.productElement(index) for index, new in enumerate(changed)]
        return self._jvm.java_class(node.getClass().getName())(*arguments)


# Columns of transforms ------------------------------------------------------------------------------------------------


def murmur3_of_long(column: Column) -> Column:
    """The spec's hash of a BIGINT, or of a timestamp, which is a 64-bit number inside Spark."""
    return F.hash(F.lit(_SEED_0_OF_THE_SPEC), column)


def murmur3_of_bytes(jvm: Jvm, column: Column) -> Column:
    """The spec's hash of bytes, computed by Spark's code; its SQL function `hash` treats the last bytes differently."""
    data = column.cast("binary")
    byte_array_offset = F.lit(16).cast("bigint")
    seed = F.lit(0)
    hasher = "org.apache.spark.unsafe.hash.Murmur3_x86_32"
    arguments = [jvm.expression(value) for value in (data, byte_array_offset, F.octet_length(data), seed)]
    return jvm.column(Expressions(jvm).call(hasher, "hashUnsafeBytes2", "integer", *arguments))


def unscaled_bytes(jvm: Jvm, decimal: Column) -> Column:
    """The unscaled value of a decimal as the spec hashes it: two's complement, big-endian, in the fewest bytes."""
    expressions = Expressions(jvm)
    exact = _exact_decimal(expressions, jvm.expression(decimal))
    digits = expressions.method(exact, "unscaledValue", expressions.object_type("java.math.BigInteger"))
    return jvm.column(expressions.method(digits, "toByteArray", jvm.data_type("binary")))


def truncated_decimal(jvm: Jvm, decimal: Column, width: Column, precision: int, scale: int) -> Column:
    """The transform `truncate` of a decimal: the largest multiple of a width, in units of the last digit, up to it.

    It is computed with `BigDecimal`, because Spark's own arithmetic rounds decimals with many digits. The width is a
    BIGINT. A result outside of the type is an error, or null without ANSI mode.
    """
    expressions = Expressions(jvm)
    big_decimal = expressions.object_type("java.math.BigDecimal")
    exact = _exact_decimal(expressions, jvm.expression(decimal))
    scale_literal = expressions.literal(str(scale))
    step = expressions.call("java.math.BigDecimal", "valueOf", big_decimal, jvm.expression(width), scale_literal)
    # ((value % step) + step) % step, so that negative values are truncated downwards too
    remainder = expressions.method(exact, "remainder", big_decimal, step)
    positive = expressions.method(
        expressions.method(remainder, "add", big_decimal, step), "remainder", big_decimal, step
    )
    lower = expressions.method(exact, "subtract", big_decimal, positive)
    type_ = jvm.data_type(f"decimal({precision},{scale})")
    truncated = expressions.call("org.apache.spark.sql.types.Decimal", "apply", type_, lower)
    null_on_overflow = jvm.setting(ANSI).lower() != "true"
    return jvm.column(expressions.create("CheckOverflow", truncated, type_, null_on_overflow))


def _exact_decimal(expressions: Expressions, decimal: Any) -> Any:
    return expressions.method(decimal, "toJavaBigDecimal", expressions.object_type("java.math.BigDecimal"))


# Commands -------------------------------------------------------------------------------------------------------------

_APPEND: Final = "org.apache.spark.sql.catalyst.plans.logical.AppendData"
_ARGUMENTS_WITH_EVOLUTION: Final = 7
"""The number of arguments of `AppendData` in versions of Spark that have schema evolution."""

_EXTERNAL_COMMAND: Final = "org.apache.spark.sql.execution.command.ExternalCommandExecutor"


def append_data(jvm: Jvm, relation: Any, query: Any, write: Proxy) -> Any:
    """An `AppendData` command, as it is at the end of Spark's optimizer: a write that gets the rows of a query."""
    (constructor,) = jvm.class_object(_APPEND).getConstructors()
    evolution = [False] if constructor.getParameterCount() == _ARGUMENTS_WITH_EVOLUTION else []
    options = jvm.scala_map({})
    return jvm.java_class(_APPEND)(relation, query, options, False, *evolution, jvm.some(write), jvm.none)


def replace_table(jvm: Jvm, relation: Any, table: Proxy) -> Any:
    """A copy of a `DataSourceV2Relation` with another table."""
    other_arguments = [relation.productElement(index) for index in range(1, relation.productArity())]
    return relation.copy(table, *other_arguments)


def python_command(jvm: Jvm, runner: ExternalCommandRunner, text: str) -> Any:
    """A command that Python runs when it is executed, but not for EXPLAIN, which shows the text."""
    return jvm.java_class(_EXTERNAL_COMMAND)(runner, text, jvm.scala_map({}))


# Tables and scans in a plan -------------------------------------------------------------------------------------------

_PLAN_SCANS: Final = "floe.PlanScans"
_PLAN_SCANS_SOURCE: Final = """
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
    ArrayList relations = new ArrayList();
    visit((QueryPlan) plan, relations);
    return relations;
  }

  private static void visit(QueryPlan plan, ArrayList relations) {
    if (plan instanceof DataSourceV2ScanRelation) relations.add(((DataSourceV2ScanRelation) plan).scan());
    if (plan instanceof DataSourceV2Relation) relations.add(((DataSourceV2Relation) plan).table());
    scala.collection.Iterator expressions = plan.expressions().iterator();
    while (expressions.hasNext()) visitSubqueries((TreeNode) expressions.next(), relations);
    scala.collection.Iterator children = ((TreeNode) plan).children().iterator();
    while (children.hasNext()) visit((QueryPlan) children.next(), relations);
  }

  private static void visitSubqueries(TreeNode expression, ArrayList relations) {
    if (expression instanceof DynamicPruning) return;  // it only prunes files, and does not change the result
    if (expression instanceof PlanExpression) visit((QueryPlan) ((PlanExpression) expression).plan(), relations);
    scala.collection.Iterator children = expression.children().iterator();
    while (children.hasNext()) visitSubqueries((TreeNode) children.next(), relations);
  }
}
"""


def floe_relations(jvm: Jvm, plan: Any) -> list[Proxy]:
    """Floe's tables in an analyzed plan and its subqueries, or Floe's scans in an optimized one.

    Subqueries of dynamic pruning are left out: they only prune files.
    """
    relations = instantiate_source(jvm, _PLAN_SCANS_SOURCE, _PLAN_SCANS, []).apply(plan)
    proxies = [proxy_of(relation) for relation in relations]
    return [proxy for proxy in proxies if proxy is not None]


# Metrics of MERGE -----------------------------------------------------------------------------------------------------

# Up to 4.1 Spark passes the counts to every write of a MERGE; later only to writes that it has planned itself, and
# Floe plans its own. The counts are those of the node `MergeRowsExec`, so they are read from the running plan.
_MERGE_METRICS: Final = "floe.MergeMetrics"
_MERGE_METRICS_SOURCE: Final = """
package floe;

import java.util.HashMap;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.util.AccumulatorV2;

public class MergeMetrics implements java.util.function.Function {
  public MergeMetrics() {}

  public Object apply(Object execution) {
    HashMap counts = new HashMap();
    QueryExecution running = SQLExecution$.MODULE$.getQueryExecution(Long.parseLong((String) execution));
    if (running != null) visit(running.executedPlan(), counts);
    return counts;
  }

  private static void visit(SparkPlan plan, HashMap counts) {
    if (plan.getClass().getSimpleName().equals("MergeRowsExec")) {
      scala.collection.Iterator metrics = ((scala.collection.Iterable) plan.metrics()).iterator();
      while (metrics.hasNext()) {
        scala.Tuple2 metric = (scala.Tuple2) metrics.next();
        counts.put(metric._1(), ((AccumulatorV2) metric._2()).value());
      }
    }
    if (plan instanceof AdaptiveSparkPlanExec) visit(((AdaptiveSparkPlanExec) plan).executedPlan(), counts);
    if (plan instanceof QueryStageExec) visit(((QueryStageExec) plan).plan(), counts);
    scala.collection.Iterator children = ((scala.collection.Iterable) ((TreeNode) plan).children()).iterator();
    while (children.hasNext()) visit((SparkPlan) children.next(), counts);
  }
}
"""


def merge_metrics(jvm: Jvm) -> dict[str, int]:
    """The row counts of the MERGE that this thread runs, by Spark's names; empty if its plan has no such node."""
    execution = jvm.context.getLocalProperty(EXECUTION_ID)
    if execution is None:
        return {}
    counts = instantiate_source(jvm, _MERGE_METRICS_SOURCE, _MERGE_METRICS, []).apply(execution)
    return {name: int(count) for name, count in counts.items()}
