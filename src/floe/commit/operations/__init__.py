"""The changes that can be committed to a table.

| module | changes |
|---|---|
| `snapshot_change` | the base of all that create a snapshot: its id, manifest list, summary and branch |
| `file_change` | the base of those that add and remove files |
| `data_changes` | appends, overwrites, removal of files, row deltas |
| `rewrite` | replace files or manifests by others with the same rows |
| `cherry_pick` | apply the changes of a snapshot to a branch; publish a staged one |
| `create`, `evolution` | create and replace tables; change schema, partition spec and sort order |
| `metadata_changes` | properties, location, format version, statistics |
| `refs` | branches and tags, fast-forward, rollback |
| `expire` | expire snapshots, and delete the files that only they refer to |
"""
