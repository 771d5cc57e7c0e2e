"""Scans of tables by Spark: what is pushed down, which files are read, and by which reader.

| module | contents |
|---|---|
| `scan_source` | `ScanSource`: a table at one snapshot; read options, pushed predicates, planned files, projection |
| `builder` | Spark's scan builder: columns, predicates, limits and aggregates that Spark pushes down |
| `filters` | Spark's predicates as Iceberg filters |
| `filter_operands` | columns and functions of columns in predicates, and the filters for comparisons of them |
| `scan` | `TableScan`: Spark's scan, with its statistics and runtime filters |
| `statistics` | row counts, sizes and column statistics for Spark's optimizer |
| `native_reader` | reads by Spark's Parquet reader: when they are exact, its columns, the splits of files |
| `arrow_reader` | reads by the Arrow reader in Python workers, for what Spark's reader cannot read |
| `rewrite` | the plan that replaces a scan which Spark's reader cannot read alone |
| `part_scans` | the scans inside that plan: of data files by either reader, and of equality delete files |
| `deletes` | position deletes as bitmaps, and equality deletes as groups to join with |
| `changes` | the changelog of a table as a table: `lake.db.t.changes` |
"""
