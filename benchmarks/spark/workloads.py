"""The workloads of `bench_spark`: the same statements for Floe and for Java; some also have one for plain Parquet."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCAN = "SELECT sum(quantity), sum(price), sum(discount), max(shipped), min(mode), max(note) FROM {t}"
FILTERED = SCAN + " WHERE shipped >= DATE'2021-03-01' AND shipped < DATE'2021-06-01' AND quantity > 10"
TWO = "SELECT sum(order_id), max(quantity) FROM {t}"
COUNT = "SELECT count(*) FROM {t}"
MONTHS = "PARTITIONED BY (months(shipped))"


@dataclass(frozen=True)
class Scale:
    """The sizes of the workloads: rows of the inputs, and number of small appends."""

    rows: int
    appends: int


@dataclass(frozen=True)
class Workload:
    """A workload: `run` is measured, `before` prepares each run."""

    name: str
    run: Callable[[Any, Path, Scale], None]
    before: Callable[[Any, Path, Scale], None] | None = None
    parquet: Callable[[Any, Path, Scale], None] | None = None
    table: str | None = None
    """The table whose files are counted."""


def _sql(text: str) -> Callable[[Any, Path, Scale], None]:
    def run(spark: Any, folder: Path, scale: Scale) -> None:
        spark.sql(text.format(point=scale.rows * 5 // 8 + 321)).collect()

    return run


def _drop(table: str) -> Callable[[Any, Path, Scale], None]:
    return _sql(f"DROP TABLE IF EXISTS lake.db.{table} PURGE")


def _ctas(name: str, clause: str, by: str | None) -> Workload:
    table = name.replace(" ", "_")

    def plain(spark: Any, folder: Path, scale: Scale) -> None:
        rows = spark.table("lines")
        target = str(folder / "parquet" / table)
        if by is None:
            rows.write.mode("overwrite").parquet(target)
        else:
            rows.selectExpr("*", by).write.mode("overwrite").partitionBy("part").parquet(target)

    return Workload(
        f"CTAS, {name}",
        _sql(f"CREATE TABLE lake.db.ctas_{table} USING iceberg {clause} AS SELECT * FROM lines"),
        _drop(f"ctas_{table}"),
        plain,
        f"ctas_{table}",
    )


def _insert(name: str, clause: str, by: str | None) -> Workload:
    table = f"insert_{name.replace(' ', '_')}"

    def before(spark: Any, folder: Path, scale: Scale) -> None:
        _drop(table)(spark, folder, scale)
        spark.sql(f"CREATE TABLE lake.db.{table} USING iceberg {clause} AS SELECT * FROM more LIMIT 0")

    def plain(spark: Any, folder: Path, scale: Scale) -> None:
        target = str(folder / "parquet" / table)
        if by is None:
            spark.table("more").write.mode("append").parquet(target)
        else:
            spark.table("more").selectExpr("*", by).write.mode("append").partitionBy("part").parquet(target)

    return Workload(f"INSERT, {name}", _sql(f"INSERT INTO lake.db.{table} SELECT * FROM more"), before, plain, table)


def _scan(name: str, text: str, table: str = "ctas_unpartitioned") -> Workload:
    return Workload(
        f"scan, {name}",
        _sql(text.replace("{t}", f"lake.db.{table}")),
        parquet=_sql(text.replace("{t}", f"of_{table}")),
    )


def _plan(name: str, where: str) -> Workload:
    def run(spark: Any, folder: Path, scale: Scale) -> None:
        rows = spark.sql(f"SELECT id, text FROM lake.db.many {where}")
        assert rows._jdf.queryExecution().toRdd().getNumPartitions() > 0

    return Workload(f"plan 20,000 files, {name}", run)


def _small_appends() -> Workload:
    def before(spark: Any, folder: Path, scale: Scale) -> None:
        _drop("tiny")(spark, folder, scale)
        spark.sql("CREATE TABLE lake.db.tiny (id BIGINT, text STRING) USING iceberg")

    def run(spark: Any, folder: Path, scale: Scale) -> None:
        for number in range(scale.appends):
            spark.sql(f"INSERT INTO lake.db.tiny VALUES ({number}, 'a'), ({number}, 'b')")

    def plain(spark: Any, folder: Path, scale: Scale) -> None:
        for number in range(scale.appends):
            rows = spark.sql(f"SELECT * FROM VALUES ({number}, 'a'), ({number}, 'b') AS t(id, text)")
            rows.write.mode("append").parquet(str(folder / "parquet" / "tiny"))

    return Workload("tiny appends", run, before, plain, "tiny")


def _ctas_sorted() -> Workload:
    text = "(SELECT /*+ REPARTITION_BY_RANGE(24, id) */ * FROM lines) SORT BY id"
    return Workload(
        "CTAS, 24 sorted files",
        _sql(f"CREATE TABLE lake.db.ctas_sorted USING iceberg AS SELECT * FROM {text}"),
        _drop("ctas_sorted"),
        table="ctas_sorted",
    )


WORKLOADS = [
    _ctas("unpartitioned", "", None),
    _ctas("by month", MONTHS, "date_trunc('MM', shipped) AS part"),
    _ctas_sorted(),
    _insert("unpartitioned", "", None),
    _insert("by month", MONTHS, "date_trunc('MM', shipped) AS part"),
    _scan("six columns", SCAN),
    _scan("filter on partitions", FILTERED, "ctas_by_month"),
    _scan("filter on values", FILTERED),
    _scan("two columns", TWO),
    _scan("count", COUNT),
    _scan("point lookup, sorted", "SELECT * FROM {t} WHERE id = {point}", "ctas_sorted"),
    _plan("no filter", ""),
    _plan("three days", "WHERE at >= TIMESTAMP'2020-03-01' AND at < TIMESTAMP'2020-03-04'"),
    _small_appends(),
]
"""In execution order: later workloads read tables of earlier ones."""
