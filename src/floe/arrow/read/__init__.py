"""Reads of plans: files are read in parallel and in order, with their deletes applied, in bounded memory.

- `streams`: a plan as a stream of record batches; row counts; column sketches
- `row_condition`: the filter of a scan, as far as it is evaluated on rows
- `task_reader`: the live rows of one file task
- `deletes`: the position deletes and equality deletes of a data file
- `extra_columns`: columns that deletes need and the scan does not select
- `changelog`: the changed rows of a range of snapshots
- `parallel`: threads that read several tasks ahead of the consumer
"""
