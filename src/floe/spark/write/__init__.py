"""Writes: Python workers write the rows to files, and the driver commits the files in one change.

| module | what it has |
|---|---|
| `options` | `WriteOptions`: options of a write, settings of the session, properties of the table |
| `builder` | Spark's `WriteBuilder` and the writes of INSERT, INSERT OVERWRITE and CREATE TABLE … AS SELECT |
| `columns` | the columns of the rows matched with those of the table |
| `distribution` | repartitioning rows before a write |
| `insert` | writing a data frame, committing files, and what a write reads of its own table |
| `tasks` | the driver's side of the tasks: starting them, their results, deleting their files after an error |
| `worker` | the functions that workers run |
| `row_level` | a DELETE, UPDATE or MERGE, from its analysis to its commit |
| `row_level_plan` | the scan and the write of such a statement in Spark's plans |
| `retries` | running a statement again after a conflict |
"""
