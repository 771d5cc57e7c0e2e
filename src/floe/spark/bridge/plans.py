"""Parts of Catalyst's plans and expressions, made here: what a rewriting puts in the place of a node.

Expressions are calls of static methods where Spark's own expressions differ between its versions: these are in
generated code what they are in Java.

Nodes of Spark's plans that do something: writes, made anew or with another table, and commands of ours.

The reads that a plan rests on, found in one call.

What Spark counted while it carried out a MERGE, for versions that tell it only to writers of their own.

Up to 4.1 every write is told. Later only those are that Spark plans for statements, and ours are put in their place;
the numbers are still those of the node that decides what becomes of each row.
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
"""What Spark's hash of this number leaves as seed makes the hash of what follows that of the spec, whose seed is 0."""


class Expressions:
    """Makes Catalyst expressions."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm

    def create(self, name: str, *arguments: Any) -> Any:
        """An expression of a class."""
        return self._jvm.named(_EXPRESSIONS + name)(*arguments)

    def literal(self, sql: str) -> Any:
        """A literal of SQL, such as `7`, `7L` or `true`."""
        parser = "org.apache.spark.sql.catalyst.parser.CatalystSqlParser"
        return self._jvm.once(f"literal {sql}", lambda: self._jvm.module(parser).parseExpression(sql))

    def text(self, value: str) -> Any:
        """A text."""
        return self._jvm.module(_EXPRESSIONS + "Literal").create(value, self._jvm.data_type("string"))

    def null(self, data_type: Any) -> Any:
        """Null of a type."""
        return self._jvm.module(_EXPRESSIONS + "Literal").create(None, data_type)

    def call(self, class_name: str, method: str, data_type: Any, *arguments: Any, nullable: bool = False) -> Any:
        """What a static method gives, which is null where an argument is; `nullable` says that one may be."""
        jvm = self._jvm
        type_ = data_type
        if isinstance(data_type, str):
            type_ = jvm.once(f"type {data_type}", lambda: jvm.data_type(data_type))
        kind = jvm.once(f"class {class_name}", lambda: jvm.reflected(class_name))
        return self.create(
            "objects.StaticInvoke", kind, type_, method, jvm.seq(arguments), jvm.seq([]), True, nullable, True, jvm.none
        )

    def method(self, target: Any, method: str, data_type: Any, *arguments: Any) -> Any:
        """What a method of a value gives, which is null where the value or an argument is."""
        jvm = self._jvm
        return self.create(
            "objects.Invoke", target, method, data_type, jvm.seq(arguments), jvm.seq([]), True, False, True
        )

    def object_type(self, class_name: str) -> Any:
        """The type of values that are objects of a class, between one method and the next."""
        return self._jvm.sql("types.ObjectType")(self._jvm.reflected(class_name))

    def alias(self, expression: Any, attribute: Any) -> Any:
        """An expression under the name and the id of an attribute."""
        jvm = self._jvm
        nothing = jvm.seq([])
        return self.create("Alias", expression, attribute.name(), attribute.exprId(), nothing, jvm.none, nothing)

    def struct(self, parts: Mapping[str, Any]) -> Any:
        """A struct of named expressions."""
        children = [one for name, part in parts.items() for one in (self.text(name), part)]
        return self.create("CreateNamedStruct", self._jvm.seq(children))

    def field(self, struct: Any, place: int) -> Any:
        """A field of a struct; null where the struct is."""
        return self.create("GetStructField", struct, place, self._jvm.none)

    def all_of(self, first: Any, *others: Any) -> Any:
        """That all conditions hold."""
        return functools.reduce(lambda one, other: self.create("And", one, other), others, first)

    def any_of(self, first: Any, *others: Any) -> Any:
        """That one of the conditions holds."""
        return functools.reduce(lambda one, other: self.create("Or", one, other), others, first)


class Plans:
    """Makes Catalyst plans."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm

    def attributes(self, schema: Any) -> list[Any]:
        """New attributes for the columns of a schema's JSON."""
        utils = self._jvm.module("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        return self._jvm.read_seq(utils.toAttributes(self._jvm.data_type(schema)))

    def output(self, plan: Any) -> list[Any]:
        """The attributes of a plan."""
        return self._jvm.read_seq(plan.output())

    def scan_relation(self, node: Any, scan: Any, output: Sequence[Any]) -> Any:
        """The same relation with another scan."""
        return self.copied(node, {1: scan, 2: self._jvm.seq(output)})

    def local(self, attributes: Any) -> Any:
        """A relation with these columns, a Scala sequence, and no rows."""
        jvm = self._jvm
        return jvm.named(_PLANS + "LocalRelation")(attributes, jvm.seq([]), False, jvm.none)

    def project(self, columns: Iterable[Any], child: Any) -> Any:
        """Some columns of a plan."""
        return self._jvm.named(_PLANS + "Project")(self._jvm.seq(columns), child)

    def filter(self, condition: Any, child: Any) -> Any:
        """The rows of a plan that pass."""
        return self._jvm.named(_PLANS + "Filter")(condition, child)

    def union(self, *plans: Any) -> Any:
        """The rows of all; the columns are those of the first."""
        return plans[0] if len(plans) == 1 else self._jvm.named(_PLANS + "Union")(self._jvm.seq(plans), False, False)

    def anti_join(self, left: Any, right: Any, condition: Any) -> Any:
        """The rows of a plan for which no row of another passes."""
        return self._join(left, right, self._jvm.module(_JOINS + "LeftAnti"), condition)

    def existence_join(self, left: Any, right: Any, condition: Any, exists: Any) -> Any:
        """The rows of a plan, and in an attribute whether a row of another passes."""
        return self._join(left, right, self._jvm.named(_JOINS + "ExistenceJoin")(exists), condition)

    def _join(self, left: Any, right: Any, how: Any, condition: Any) -> Any:
        hint = self._jvm.module(_PLANS + "JoinHint").NONE()
        return self._jvm.named(_PLANS + "Join")(left, right, how, self._jvm.some(condition), hint)

    def join_in_place(self, join: Any, left: Any) -> Any:
        """The same join with another left side, of which no row goes to several tasks."""
        jvm = self._jvm
        how = jvm.module(_PLANS + "NO_BROADCAST_AND_REPLICATION")
        hint = jvm.named(_PLANS + "JoinHint")(jvm.some(jvm.named(_PLANS + "HintInfo")(jvm.some(how))), jvm.none)
        return self.copied(join, {0: left, 4: hint})

    def greatest(self, groups: Sequence[Any], value: Any, greatest: Any, child: Any) -> Any:
        """The groups of a plan's rows, each with the greatest of some values as another attribute."""
        jvm, expressions = self._jvm, Expressions(self._jvm)
        found = expressions.create("aggregate.Max", value).toAggregateExpression()
        columns = jvm.seq([*groups, expressions.alias(found, greatest)])
        return jvm.named(_PLANS + "Aggregate")(jvm.seq(groups), columns, child, jvm.none)

    def copied(self, node: Any, changes: Mapping[int, Any]) -> Any:
        """A node with some of its parts changed; versions of Spark differ in how many there are."""
        parts = [changes.get(place, None) for place in range(node.productArity())]
        arguments = [part if part is not None else node.productElement(place) for place, part in enumerate(parts)]
        return self._jvm.named(node.getClass().getName())(*arguments)


def murmur3_of_long(column: Column) -> Column:
    """The spec's hash of 64 bits: a BIGINT, or a timestamp, which is one inside Spark."""
    return F.hash(F.lit(_SEED_0_OF_THE_SPEC), column)


def murmur3_of_bytes(jvm: Jvm, column: Column) -> Column:
    """The spec's hash of bytes, computed by Spark's own code (`hash` does something else with the last bytes)."""
    data = column.cast("binary")
    parts = (data, F.lit(16).cast("bigint"), F.octet_length(data), F.lit(0))
    hasher = "org.apache.spark.unsafe.hash.Murmur3_x86_32"
    arguments = [jvm.expression(part) for part in parts]
    return jvm.column(Expressions(jvm).call(hasher, "hashUnsafeBytes2", "integer", *arguments))


def unscaled_bytes(jvm: Jvm, decimal: Column) -> Column:
    """The digits of a decimal as the spec hashes them: the fewest bytes of a whole number, the highest first."""
    expressions = Expressions(jvm)
    exact = _exact_decimal(expressions, jvm.expression(decimal))
    digits = expressions.method(exact, "unscaledValue", expressions.object_type("java.math.BigInteger"))
    return jvm.column(expressions.method(digits, "toByteArray", jvm.data_type("binary")))


def truncated_decimal(jvm: Jvm, decimal: Column, width: Column, precision: int, scale: int) -> Column:
    """A decimal of a type less what its last digits are above a multiple of a width, a BIGINT.

    Spark's own arithmetic rounds decimals with many digits.
    """
    expressions = Expressions(jvm)
    kind = expressions.object_type("java.math.BigDecimal")
    exact = _exact_decimal(expressions, jvm.expression(decimal))
    places = expressions.literal(str(scale))
    step = expressions.call("java.math.BigDecimal", "valueOf", kind, jvm.expression(width), places)
    rest = expressions.method(exact, "remainder", kind, step)
    above = expressions.method(expressions.method(rest, "add", kind, step), "remainder", kind, step)
    lower = expressions.method(exact, "subtract", kind, above)
    type_ = jvm.data_type(f"decimal({precision},{scale})")
    made = expressions.call("org.apache.spark.sql.types.Decimal", "apply", type_, lower)
    gives_null = jvm.setting(ANSI).lower() != "true"
    return jvm.column(expressions.create("CheckOverflow", made, type_, gives_null))


def _exact_decimal(expressions: Expressions, decimal: Any) -> Any:
    return expressions.method(decimal, "toJavaBigDecimal", expressions.object_type("java.math.BigDecimal"))


# Nodes of Spark's plans that do something: writes, made anew or with another table, and commands of ours.

_APPEND: Final = "org.apache.spark.sql.catalyst.plans.logical.AppendData"
_ARGUMENTS_WITH_EVOLUTION: Final = 7
_EXTERNAL: Final = "org.apache.spark.sql.execution.command.ExternalCommandExecutor"


def append_data(jvm: Jvm, relation: Any, query: Any, write: Proxy) -> Any:
    """A command that has a write take the rows of a query, as Spark's optimizer leaves it."""
    (constructor,) = jvm.reflected(_APPEND).getConstructors()
    evolution = [False] if constructor.getParameterCount() == _ARGUMENTS_WITH_EVOLUTION else []
    options = jvm.scala_map({})
    return jvm.named(_APPEND)(relation, query, options, False, *evolution, jvm.some(write), jvm.none)


def with_table(jvm: Jvm, relation: Any, table: Proxy) -> Any:
    """A relation with another table in it."""
    others = [relation.productElement(place) for place in range(1, relation.productArity())]
    return relation.copy(table, *others)


def python_command(jvm: Jvm, runner: ExternalCommandRunner, text: str) -> Any:
    """A command that Python runs, when and only when it is executed; EXPLAIN shows the text."""
    return jvm.named(_EXTERNAL)(runner, text, jvm.scala_map({}))


# The reads that a plan rests on, found in one call.

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


def floe_relations(jvm: Jvm, plan: Any) -> list[Proxy]:
    """Our tables in an analyzed plan and its subqueries, or our scans in an optimized one.

    Those that only help to leave out files are not among them.
    """
    found = instantiate_source(jvm, _SOURCE, _NAME, []).apply(plan)
    proxies = [proxy_of(one) for one in found]
    return [proxy for proxy in proxies if proxy is not None]


# What Spark counted while it carried out a MERGE, for versions that tell it only to writers of their own.

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
    HashMap found = new HashMap();
    QueryExecution running = SQLExecution$.MODULE$.getQueryExecution(Long.parseLong((String) execution));
    if (running != null) visit(running.executedPlan(), found);
    return found;
  }

  private static void visit(SparkPlan plan, HashMap found) {
    if (plan.getClass().getSimpleName().equals("MergeRowsExec")) {
      scala.collection.Iterator metrics = ((scala.collection.Iterable) plan.metrics()).iterator();
      while (metrics.hasNext()) {
        scala.Tuple2 metric = (scala.Tuple2) metrics.next();
        found.put(metric._1(), ((AccumulatorV2) metric._2()).value());
      }
    }
    if (plan instanceof AdaptiveSparkPlanExec) visit(((AdaptiveSparkPlanExec) plan).executedPlan(), found);
    if (plan instanceof QueryStageExec) visit(((QueryStageExec) plan).plan(), found);
    scala.collection.Iterator children = ((scala.collection.Iterable) ((TreeNode) plan).children()).iterator();
    while (children.hasNext()) visit((SparkPlan) children.next(), found);
  }
}
"""


def merge_metrics(jvm: Jvm) -> dict[str, int]:
    """The metrics of the MERGE that this thread carries out, by Spark's names; none if it is planned otherwise."""
    execution = jvm.context.getLocalProperty(EXECUTION_ID)
    if execution is None:
        return {}
    return {
        name: int(count)
        for name, count in instantiate_source(jvm, _MERGE_METRICS_SOURCE, _MERGE_METRICS, []).apply(execution).items()
    }
