"""Compares DELETE, UPDATE and MERGE of 1% of the rows on Spark with Java Iceberg, for all format versions and modes.

    .venv/bin/python benchmarks/bench_spark_dml.py [--rows 500000] [--rounds 3] [--only MERGE,v3]

Measured as in `bench_spark.py`. The changed rows are in all files, so copy-on-write rewrites all of them.
"""

from bench_spark import main

from spark import dml_workloads

if __name__ == "__main__":
    main(dml_workloads, rows=500_000, rounds=3)
