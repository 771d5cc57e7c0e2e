"""The changes that can be made to a table, one kind in each module.

| module | changes |
|---|---|
| `snapshot_change` | the base of all that make a snapshot: its id, manifest list, summary and branch |
| `file_change` | the base of those that add and remove files |
| `append`, `overwrite`, `row_delta` | add files; replace or remove files; add rows and deletes together |
| `rewrite` | replace files or manifests by others with the same rows |
| `cherry_pick` | apply the changes of a snapshot to a branch; publish a staged one |
| `snapshot_summary` | the summary of a snapshot, and properties that callers add to it |
| `create`, `evolution`, `metadata_changes` | create and replace tables; schema, spec and sort order; properties, location, version, statistics |
| `refs`, `rollback`, `expire` | branches and tags; going back in history; expiring snapshots |
"""  # noqa: E501 (a table)
