"""Changes of a table, and how they are committed.

| module | what it has |
|---|---|
| `change` | what a change is: the protocols, and what it read and writes |
| `target` | `CommitTarget`: what changes are committed to (a table, a branch, a stage, a transaction) |
| `operations` | one module for each kind of change: append, overwrite, row delta, rewrite, schema evolution, refs, expiry, … |
| `manifests` | how operations write the manifests of a snapshot |
| `conflicts` | whether a change conflicts with what others committed since: one table of rules |
| `loop` | the commit loop: load, apply the changes, swap the pointer, retry |
| `pointer` | the pointer to a table's current metadata: what a catalog implements |
| `outcomes`, `retry` | what became of a commit; how often it is attempted |
| `cleanup`, `reachability` | deleting files of failed attempts; which files a table's metadata reaches |
| `roots` | which folders the files of a table may be in |
"""  # noqa: E501 (a table)
