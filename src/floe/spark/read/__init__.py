"""Reads of tables by Spark: what is pushed down, which files are read, and by which reader.

| module | what it has |
|---|---|
| `source` | `Source`: a table at one snapshot; the options of a read; pushed predicates; the planned files; projections |
| `builder` | the scan builder: columns, filters, limits and aggregates that Spark pushes down |
| `filters`, `filter_terms` | Spark's predicates as Iceberg filters, with the functions of columns that pruning knows |
| `scan` | `TableScan`: the scan as Spark sees it, with its description, statistics and runtime filters |
| `native` | the columns of Spark's own Parquet reader, and when that reader is exact |
| `splits` | files cut into splits at row groups, and their URLs for Hadoop |
| `worker` | the Arrow reader in Python workers, for what Spark's reader cannot read |
| `rewrite` | the plan that replaces a scan which Spark's reader cannot do alone: deletes, metadata columns, unions |
| `parts` | the scans inside that plan: files for Spark's reader, files for the Arrow reader, equality delete files |
| `position_deletes` | deleted positions as bitmaps that travel with the files and are tested in generated code |
| `equality_deletes` | scans of equality delete files, and the anti-joins with them |
| `statistics` | row counts, sizes and column statistics for Spark's optimizer |
| `changes` | the changelog of a table as a table: `lake.db.t.changes` |
"""  # noqa: E501 (a table)
