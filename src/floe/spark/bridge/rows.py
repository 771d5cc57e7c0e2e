"""Rows as Spark keeps them inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from floe.spark.bridge.jvm import Jvm

__all__ = ["internal_rows"]


def internal_rows(jvm: Jvm, names: Sequence[str], rows: Sequence[Mapping[str, str | None]]) -> Any:
    """An `InternalRow[]` of texts: Spark makes them all in one go."""
    spark = SparkSession(jvm.context, jvm.active_session())
    kind = "ARRAY<STRUCT<" + ", ".join(f"c{place}: STRING" for place in range(len(names))) + ">>"
    text = json.dumps([{f"c{place}": row[name] for place, name in enumerate(names)} for row in rows])
    made: Any = spark.range(1).select(F.inline(F.from_json(F.lit(text), kind)))
    return made._jdf.queryExecution().executedPlan().executeCollect()
