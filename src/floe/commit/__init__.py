"""Changes of a table, and how they are committed.

| module | what it has |
|---|---|
| `change` | the protocols of changes; what a change read and writes |
| `loop` | the commit loop: load, apply the changes, swap the pointer, retry |
| `pointer` | the pointer to a table's current metadata: what a catalog implements |
| `outcomes`, `retry` | the outcome of a commit, and which of its files are deleted; how often it is attempted |
| `operations` | the kinds of changes: append, overwrite, row delta, rewrite, schema evolution, refs, expiry, … |
| `manifests` | how operations write the manifests of a snapshot |
| `conflicts` | whether a change conflicts with what others committed since: one table of rules |
| `target` | `CommitTarget`: what changes are committed to (a table, a branch, a stage, a transaction) |
| `reachability` | the files that a table's metadata reaches |
| `roots` | the folders in which a table's files may be |
"""
