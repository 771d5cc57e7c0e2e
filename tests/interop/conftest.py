"""Java Iceberg as oracle: one JVM (a small local Spark) for all tests here, with the jar that Maven brings."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

GROUP, ARTIFACT, VERSION = "org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.11.0"


def iceberg_jar() -> Path:
    """The runtime jar in the local Maven repository, fetched when it is not there yet."""
    home = Path.home() / ".m2" / "repository" / Path(*GROUP.split(".")) / ARTIFACT / VERSION
    jar = home / f"{ARTIFACT}-{VERSION}.jar"
    if not jar.exists():
        coordinates = f"-Dartifact={GROUP}:{ARTIFACT}:{VERSION}"
        subprocess.run(["mvn", "-q", "dependency:get", coordinates, "-Dtransitive=false"], check=True)
    return jar


def compiled_bridge(target: Path, jar: Path) -> Path:
    """The class that asks Java Iceberg for its opinion, compiled against the jar."""
    source = Path(__file__).parent / "java" / "org" / "apache" / "iceberg" / "FloeOracle.java"
    subprocess.run(["javac", "-nowarn", "-Xlint:none", "-d", target, "-cp", jar, source], check=True)
    return target


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session with Java Iceberg; tables are read by their location with the `iceberg` format."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    jar = iceberg_jar()
    class_path = f"{jar}{os.pathsep}{compiled_bridge(tmp_path_factory.mktemp('bridge'), jar)}"
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("floe-interop")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.java", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.java.type", "hadoop")
        .config("spark.sql.catalog.java.cache-enabled", "false")
        .config("spark.sql.catalog.java.warehouse", str(scratch / "java"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def ask_java(spark: Any) -> Callable[..., Any]:
    """Java Iceberg's opinion: `ask_java("encode", …)` calls that method of java/org/apache/iceberg/FloeOracle.java."""
    bridge = spark._jvm.org.apache.iceberg.FloeOracle

    def ask(method: str, *arguments: Any) -> Any:
        return getattr(bridge, method)(*arguments)

    return ask
