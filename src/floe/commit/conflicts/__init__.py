"""Whether a change conflicts with what others committed since it read the table.

| module | what it has |
|---|---|
| `rules` | the table of rules, and `check`, which applies it |
| `concurrent_commits` | what others committed, read from their manifests |
| `change_index` | what this change read and writes, indexed for the comparison; merging of deletion vectors |
| `overlaps` | the files in which this change and another touch the same rows |
| `position_overlaps` | whether two changes delete the same positions, or rows that a filter matches |
"""
