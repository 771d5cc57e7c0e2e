"""A Spark session for each side: Floe, Java Iceberg, and plain Parquet; all with a catalog `lake` but the last."""

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import floe

JAR = (
    Path.home()
    / ".m2/repository/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.11.0"
    / "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
)
SIDES = ("floe", "java", "parquet")


def settings(folder: Path) -> dict[str, str]:
    """The Spark settings of all sides."""
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": os.environ.get("FLOE_BENCH_MEMORY", "3g"),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "hive"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.parquet.compression.codec": "zstd",
    }


def start(side: str, folder: Path) -> Any:
    """The session of a side; its lake is in `folder/side`. No side flushes files to disk."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if side == "floe":
        lake = {"uri": str(folder / side), "durable": os.environ.get("FLOE_BENCH_DURABLE") == "1"}
        session: Any = floe.spark({"lake": lake}, conf=settings(folder))
    else:
        builder = SparkSession.builder
        for name, value in (settings(folder) | (_java(folder / side) if side == "java" else {})).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _java(warehouse: Path) -> dict[str, str]:
    return {
        "spark.driver.extraClassPath": str(JAR),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }
