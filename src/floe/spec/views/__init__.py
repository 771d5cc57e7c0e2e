"""Views: stored queries that engines share, and how they change (view spec, format version 1).

Modules, in reading order:

| module | subject |
|---|---|
| `view_metadata` | views and their versions as values, and their JSON |
| `view_updates` | updates and requirements of views, and the function that applies them |
"""
