"""Java Iceberg, through Spark, writes and reads data sets in the three formats; prints sizes and seconds as JSON.

    .venv-interop/bin/python -m data_files.run_java FOLDER ROUNDS

The folder has a Parquet file for each data set. Each is first taken into memory; then it is written as one file, with
Iceberg's default properties, and read to nowhere. The best of the rounds counts.
"""

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
JAR = (
    Path.home()
    / ".m2/repository/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.11.0"
    / "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"
)

os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.memory", "6g")
    .config("spark.driver.extraClassPath", str(JAR))
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.local.dir", str(folder / "spark"))
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.catalogImplementation", "in-memory")
    .config("spark.sql.catalog.java", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.java.type", "hadoop")
    .config("spark.sql.catalog.java.warehouse", str(folder / "java"))
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")

found = {}
for source in sorted(folder.glob("*.parquet")):
    frame = spark.read.parquet(str(source)).coalesce(1).cache()
    frame.count()
    for file_format in ("parquet", "orc", "avro"):
        writing, reading = [], []
        table = f"java.db.{source.stem.replace(' ', '_')}_{file_format}"
        for _ in range(rounds):
            start = time.perf_counter()
            frame.writeTo(table).tableProperty("write.format.default", file_format).createOrReplace()
            writing.append(time.perf_counter() - start)
        files = spark.table(f"{table}.files").select("file_path", "file_size_in_bytes", "record_count").collect()
        for _ in range(rounds):
            start = time.perf_counter()
            spark.table(table).write.format("noop").mode("overwrite").save()
            reading.append(time.perf_counter() - start)
        found[f"{source.stem}/{file_format}"] = {
            "size": sum(file.file_size_in_bytes for file in files),
            "files": [file.file_path for file in files],
            "write": min(writing),
            "read": min(reading),
        }
    frame.unpersist()
print(json.dumps(found))
