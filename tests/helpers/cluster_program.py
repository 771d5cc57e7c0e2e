"""What is tried on a cluster: a program of its own, as a session is for a whole process. It prints JSON.

python -m helpers.cluster_program MASTER WAREHOUSE PART…
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import functions as F

import floe
from floe.spark.executors import ExecutorFunction
from floe.spark.session import FloeSession
from helpers.cluster_faults import Faulty
from helpers.spark import CONF

ROWS = 4000
TOTAL = [[ROWS, sum(range(ROWS))]]


class Tried:
    """A session on a cluster, and what it does."""

    def __init__(self, master: str, warehouse: Path) -> None:
        self.warehouse = warehouse
        where: Any = str(warehouse / "lake")
        if "FLOE_TEST_S3" in os.environ:
            where = json.loads(os.environ["FLOE_TEST_S3"])
        self.spark: FloeSession = floe.spark(
            {"lake": where},
            ship="FLOE_TEST_SHIP" in os.environ,
            conf={
                **CONF,
                "spark.master": master,
                "spark.executor.memory": "1g",
                "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
                "spark.sql.warehouse.dir": str(warehouse / "hive"),
                "spark.log.level": "OFF",
                "spark.speculation": True,  # it begins only when a task takes much longer than the others
                "spark.speculation.interval": "100ms",
                "spark.speculation.multiplier": 3,
                "spark.speculation.quantile": 0.5,
            },
        )
        self.sql("CREATE NAMESPACE lake.db")

    def sql(self, statement: str) -> list[list[Any]]:
        return [list(row) for row in self.spark.sql(statement).collect()]

    def total(self, table: str) -> list[list[Any]]:
        return self.sql(f"SELECT count(*), sum(id) FROM {table} WHERE id >= 0")

    def plan(self, statement: str) -> str:
        return str(self.sql(f"EXPLAIN {statement}")[0][0])

    def files(self, name: str) -> tuple[set[str], set[str]]:
        """The data files of a table, and those that are in its folder."""
        known = {row[0].rpartition("/")[2] for row in self.sql(f"SELECT file_path FROM lake.db.{name}.files")}
        return known, {path.name for path in (self.warehouse / "lake" / "db" / name / "data").rglob("*.parquet")}

    def result(self, part: str) -> dict[str, Any]:
        """What a part gives, or why it gives nothing."""
        try:
            found: dict[str, Any] = getattr(self, part)()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return found

    # parts -------------------------------------------------------------------------------------------------------

    def core(self) -> dict[str, Any]:
        """Made, read by either reader, added to, overwritten."""
        self.sql(
            "CREATE TABLE lake.db.t PARTITIONED BY (bucket(4, id)) AS "
            f"SELECT id, CAST(id % 7 AS STRING) AS s FROM range(0, {ROWS}, 1, 4)"
        )
        found: dict[str, Any] = {"made": self.total("lake.db.t"), "native": self.plan("SELECT * FROM lake.db.t")}
        self.sql("CREATE TABLE lake.db.o (id BIGINT, s STRING) TBLPROPERTIES ('write.format.default' = 'orc')")
        self.sql("INSERT INTO lake.db.o SELECT * FROM lake.db.t")
        found |= {"other format": self.total("lake.db.o"), "arrow": self.plan("SELECT * FROM lake.db.o")}
        found["joined"] = self.sql("SELECT count(*) FROM lake.db.t JOIN lake.db.o USING (id, s)")
        found["files"] = self.sql("SELECT count(*), sum(record_count) FROM lake.db.t.files")
        return found

    def dynamic(self) -> dict[str, Any]:
        """Partitions replaced by tasks that Spark runs itself."""
        self.sql(f"CREATE TABLE lake.db.d PARTITIONED BY (p) AS SELECT id, id % 4 AS p FROM range(0, {ROWS}, 1, 4)")
        rows = self.spark.range(ROWS).where("id % 4 = 1").select("id", (F.col("id") % 4).alias("p"))
        rows.writeTo("lake.db.d").overwritePartitions()
        return {"rows": self.total("lake.db.d"), "files": len(self.files("d")[0]) if self.is_local else None}

    @property
    def is_local(self) -> bool:
        return "FLOE_TEST_S3" not in os.environ

    def changed(self) -> dict[str, Any]:
        """DELETE, UPDATE and MERGE, both ways."""
        found: dict[str, Any] = {}
        for mode in ("copy-on-write", "merge-on-read"):
            name = f"lake.db.changed_{mode[:4]}"
            modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
            self.sql(f"CREATE TABLE {name} (id BIGINT, n BIGINT) TBLPROPERTIES ({modes})")
            self.sql(f"INSERT INTO {name} SELECT id, 0 FROM range(0, {ROWS}, 1, 4)")
            self.sql(f"DELETE FROM {name} WHERE id % 2 = 1")
            self.sql(f"UPDATE {name} SET n = 1 WHERE id % 4 = 0")
            self.sql(
                f"MERGE INTO {name} t USING (SELECT id FROM range(0, {ROWS}, 1, 2) WHERE id < 100) s ON t.id = s.id "
                "WHEN MATCHED AND n = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 2 "
                "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 3)"
            )
            found[mode] = self.sql(f"SELECT n, count(*), sum(id) FROM {name} GROUP BY n ORDER BY n")
        return found

    def counted(self) -> dict[str, Any]:
        """Different values counted, of more files than the driver merges the sketches of by itself."""
        table = self.spark.lakes["lake"].create_table(
            "db.counted", "id bigint, n bigint", properties={"read.split.open-file-cost": str(2**27)}
        )
        for begin in range(0, ROWS, ROWS // 20):
            table.append([{"id": id_, "n": id_ % 7} for id_ in range(begin, begin + ROWS // 20)])
        self.sql("ANALYZE TABLE lake.db.counted COMPUTE STATISTICS FOR ALL COLUMNS")
        (file,) = table.refresh().metadata.statistics
        return {"counts": [blob.properties["ndv"] for blob in file.blob_metadata]}

    def streamed(self) -> dict[str, Any]:
        """From a table to another, in two runs."""
        self.sql(f"CREATE TABLE lake.db.from AS SELECT id FROM range(0, {ROWS}, 1, 4)")
        self.sql("CREATE TABLE lake.db.to (id BIGINT)")
        counts = []
        for _ in range(2):
            rows = self.spark.readStream.table("lake.db.from")
            writer = rows.writeStream.option("checkpointLocation", str(self.warehouse / "checkpoint"))
            writer.trigger(availableNow=True).toTable("lake.db.to").awaitTermination()
            counts.append(self.total("lake.db.to"))
            self.sql("INSERT INTO lake.db.from VALUES (0)")
        return {"counts": counts}

    def failing(self) -> dict[str, Any]:
        """Tasks that fail the first time, in the middle of their rows."""

        @F.udf("bigint")
        def once(value: int) -> int:
            context: Any = TaskContext.get()
            if context.attemptNumber() == 0 and value % 1000 == 999:
                raise RuntimeError("on purpose")
            return value

        rows = self.spark.range(0, ROWS, 1, 4).select(once("id").alias("id"))
        rows.writeTo("lake.db.failing").create()
        known, there = self.files("failing")
        return {"rows": self.total("lake.db.failing"), "left": len(there - known)}

    def lost(self, how: str) -> dict[str, Any]:
        """A task whose files are written, and which is lost before it could tell."""
        folder = self.warehouse / how
        folder.mkdir()
        self.sql(f"CREATE TABLE lake.db.{how} (id BIGINT)")
        begin, opened = ExecutorFunction.__init__, str(folder)
        ExecutorFunction.__init__ = lambda self, work: begin(self, Faulty(work, how, opened))  # type: ignore[method-assign]
        try:
            self.sql(f"INSERT INTO lake.db.{how} SELECT id FROM range(0, {ROWS}, 1, 4)")
        finally:
            ExecutorFunction.__init__ = begin  # type: ignore[method-assign]
        known, there = self.files(how)
        seen = sorted(path.name for path in folder.iterdir())
        return {
            "rows": self.total(f"lake.db.{how}"),
            "seen": seen,
            "left": len(there - known),
            "lost": len(known - there),
        }

    def worker_dies(self) -> dict[str, Any]:
        return self.lost("worker_dies")

    def executor_dies(self) -> dict[str, Any]:
        return self.lost("executor_dies")

    def is_overtaken(self) -> dict[str, Any]:
        return self.lost("is_overtaken")


def main(master: str, warehouse: str, *parts: str) -> None:
    tried = Tried(master, Path(warehouse))
    try:
        found = {part: tried.result(part) for part in parts}
    finally:
        tried.spark.stop()
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
