"""Scan planning: the files that a scan reads, with their deletes and residuals; changelogs; metadata tables.

| module | what it has |
|---|---|
| `scan` | `plan_scan`, `plan_appends` and the steps that they share |
| `snapshot_selection` | the snapshot of a scan, and ranges of snapshots |
| `manifests` | reading of manifests, several at once |
| `file_selection` | pruning of manifests and data files by a filter; residuals |
| `delete_files`, `delete_index` | the delete files of a scan, and which of them apply to each data file |
| `scan_plan`, `tasks` | the plan and its report; its tasks and splits |
| `changelog` | the rows that snapshots inserted and deleted |
| `counts` | aggregates that metadata can answer |
| `arrow_columns` | columns of manifest entries as Arrow arrays |
| `metadata_tables` | `snapshots`, `files`, `partitions`, … as rows |
"""
