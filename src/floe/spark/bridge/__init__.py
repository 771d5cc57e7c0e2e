"""Everything that calls the JVM: the only package that imports py4j.

In reading order:

- `jvm`: the JVM of a session, values in both directions, compiled Java classes, the server for the JVM's calls
- `proxies`: Python objects that implement Java interfaces
- `interfaces`: Spark's connector interfaces as Python classes
- `exceptions`: Python errors as Spark's exceptions
- `values`: rows, metadata columns, predicates and aggregates
- `sessions`: catalogs in sessions, preparation of new sessions, the format `iceberg`
- `rules`: rules of Spark's optimizer that rewrite Floe's nodes of a plan
- `plans`: building Catalyst expressions and plans
- `parquet_readers`: Spark's own Parquet reader, and its input partitions
- `views`: views, and the statements on them
"""
