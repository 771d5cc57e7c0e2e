"""What Spark counted while it carried out a MERGE, for versions that tell it only to writers of their own.

Up to 4.1 every write is told. Later only those are that Spark plans for statements, and ours are put in their place;
the numbers are still those of the node that decides what becomes of each row.
"""

from __future__ import annotations

from typing import Final

from floe.spark.bridge.compiling import made_of_source
from floe.spark.bridge.jvm import Jvm

__all__ = ["merge_metrics"]

_EXECUTION: Final = "spark.sql.execution.id"
_NAME: Final = "floe.MergeMetrics"
_SOURCE: Final = """
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
    execution = jvm.context.getLocalProperty(_EXECUTION)
    if execution is None:
        return {}
    return {name: int(count) for name, count in made_of_source(jvm, _SOURCE, _NAME, []).apply(execution).items()}
