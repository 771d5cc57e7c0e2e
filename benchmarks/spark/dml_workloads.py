"""DELETE, UPDATE and MERGE of one row in a hundred, and scans of the results; the same statements for Floe and Java.

Each format version and mode has its own table, which is rolled back to its first snapshot before each run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark.workloads import SCAN, Scale, Workload

WAYS = [(version, mode) for version in (2, 3) for mode in ("copy-on-write", "merge-on-read")]
CHANGES = """
    CREATE OR REPLACE TEMPORARY VIEW changes AS
    SELECT * FROM lines WHERE id % 200 = 13 UNION ALL SELECT * FROM more WHERE id % 25 = 3"""
STATEMENTS = {
    "DELETE": "DELETE FROM {t} WHERE id % 100 = 7",
    "UPDATE": "UPDATE {t} SET quantity = quantity + 1, note = 'changed' WHERE id % 100 = 7",
    "MERGE": "MERGE INTO {t} t USING changes s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET t.quantity = s.quantity + 1 WHEN NOT MATCHED THEN INSERT *",
}


def _reset_table(spark: Any, name: str, version: int, mode: str) -> None:
    """Create the table, or roll it back to its first snapshot."""
    table = f"lake.db.{name}"
    if not spark.catalog.tableExists(table):
        modes = ", ".join(f"'write.{operation}.mode' = '{mode}'" for operation in ("delete", "update", "merge"))
        spark.sql(
            f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ('format-version' = '{version}', {modes}) "
            "AS SELECT * FROM lines"
        )
        return
    snapshots = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect()
    if len(snapshots) > 1:
        first = snapshots[0][0]
        spark.sql(f"CALL lake.system.rollback_to_snapshot(table => 'db.{name}', snapshot_id => {first})").collect()


def _dml_workloads(version: int, mode: str, operation: str) -> list[Workload]:
    name = f"dml_{version}_{mode.replace('-', '_')}"
    table, text = f"lake.db.{name}", STATEMENTS[operation].replace("{t}", f"lake.db.{name}")

    def before(spark: Any, folder: Path, scale: Scale) -> None:
        spark.sql(CHANGES)
        _reset_table(spark, name, version, mode)

    def run(spark: Any, folder: Path, scale: Scale) -> None:
        spark.sql(text).collect()

    workloads = [Workload(f"{operation}, v{version}, {mode}", run, before, table=name)]
    if mode == "merge-on-read" and operation == "DELETE":
        workloads.append(Workload(f"scan after it, v{version}", _scan(table)))
    return workloads


def _scan(table: str) -> Callable[[Any, Path, Scale], None]:
    def run(spark: Any, folder: Path, scale: Scale) -> None:
        spark.sql(SCAN.format(t=table)).collect()

    return run


def _scan_without_deletes() -> list[Workload]:
    def before(spark: Any, folder: Path, scale: Scale) -> None:
        _reset_table(spark, "whole", 2, "copy-on-write")

    return [Workload("scan without deletes", _scan("lake.db.whole"), before)]


WORKLOADS = [
    *_scan_without_deletes(),
    *(workload for way in WAYS for operation in STATEMENTS for workload in _dml_workloads(*way, operation)),
]
