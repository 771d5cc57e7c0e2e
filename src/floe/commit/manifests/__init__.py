"""How a change writes the manifests of its snapshot.

| module | what it has |
|---|---|
| `manifest_files` | the manifests of one change, named and written once; the `Workspace` of an attempt |
| `added_files` | the files that a change adds: checked, and written to new manifests |
| `manifest_filter` | removing files: manifests rewritten with entries marked as deleted |
| `manifest_merge` | small manifests merged into larger ones |
| `file_sets` | sets of files and partitions, searched in the columns of manifests |
"""
