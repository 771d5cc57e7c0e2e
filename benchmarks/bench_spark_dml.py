"""DELETE, UPDATE and MERGE of 1% of the rows on Spark, by Floe and by Java Iceberg, in every way of writing.

    .venv/bin/python benchmarks/bench_spark_dml.py [--rows 500000] [--rounds 3] [--only MERGE,v3]

Measured as in `bench_spark.py`. The rows that change are spread over all files, so that copy-on-write writes all
of them anew.
"""

from bench_spark import main

from spark import dml_workloads

if __name__ == "__main__":
    main(dml_workloads, rows=500_000, rounds=3)
