"""Manifests and manifest lists as values.

Modules, in reading order:

| module | subject |
|---|---|
| `entries` | data files, delete files, manifest entries, manifests, their summaries and first row ids |
| `manifest_checks` | what is valid when manifests are read or written |
| `delete_scope` | which deletes apply to which data file |
"""
