"""Java Iceberg as oracle: one JVM (a small local Spark) for all tests of a process, with the jar that Maven brings."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.java_catalogs import JavaCatalogs
from helpers.java_files import JavaFiles

ICEBERG = ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.11.0")
DRIVERS = (("org.xerial", "sqlite-jdbc", "3.50.3.0"), ("org.postgresql", "postgresql", "42.7.7"))


def jar_of(group: str, artifact: str, version: str) -> Path:
    """A jar in the local Maven repository, fetched when it is not there yet."""
    home = Path.home() / ".m2" / "repository" / Path(*group.split(".")) / artifact / version
    jar = home / f"{artifact}-{version}.jar"
    if not jar.exists():
        coordinates = f"-Dartifact={group}:{artifact}:{version}"
        subprocess.run(["mvn", "-q", "dependency:get", coordinates, "-Dtransitive=false"], check=True)
    return jar


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fetch the jars once, before several processes ask Maven for the same files at the same time."""
    if not hasattr(session.config, "workerinput"):
        for coordinates in (ICEBERG, *DRIVERS):
            jar_of(*coordinates)


def compiled_bridge(target: Path, jar: Path) -> Path:
    """The classes that ask Java Iceberg for its opinion, compiled against the jar and Spark's Hadoop."""
    import pyspark

    sources = sorted((Path(__file__).parent / "java").rglob("*.java"))
    hadoop = next((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar"))
    class_path = f"{jar}{os.pathsep}{hadoop}"
    subprocess.run(
        ["javac", "-nowarn", "-Xlint:none", "-XDsuppressNotes", "-d", target, "-cp", class_path, *sources], check=True
    )
    return target


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session with Java Iceberg; tables are read by their location with the `iceberg` format."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    jar = jar_of(*ICEBERG)
    bridge = compiled_bridge(tmp_path_factory.mktemp("bridge"), jar)
    class_path = os.pathsep.join(str(path) for path in (jar, bridge, *(jar_of(*driver) for driver in DRIVERS)))
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


@pytest.fixture(scope="session")
def java_tables(spark: Any) -> Callable[..., Any]:
    """Java's catalogs and tables: `java_tables("rows", …)` calls java/org/apache/iceberg/data/FloeTables.java.

    Arguments that are no text become JSON, and what comes back is JSON.
    """
    bridge = spark._jvm.org.apache.iceberg.data.FloeTables

    def ask(method: str, *arguments: Any) -> Any:
        texts = [value if isinstance(value, str | bool) else json.dumps(value) for value in arguments]
        answer = getattr(bridge, method)(*texts)
        return json.loads(answer) if isinstance(answer, str) else answer

    return ask


@pytest.fixture(scope="session")
def java_catalogs(
    spark: Any, java_tables: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaCatalogs]:
    """Catalogs that are open in Floe, in Java and in Spark at the same time."""
    with JavaCatalogs(tmp_path_factory.mktemp("shared"), java_tables, spark) as catalogs:
        yield catalogs


@pytest.fixture(scope="session")
def java_files(spark: Any) -> JavaFiles:
    """Single data files as Java reads and writes them, by java/org/apache/iceberg/data/FloeDataFiles.java."""
    return JavaFiles(spark._jvm.org.apache.iceberg.data.FloeDataFiles)
