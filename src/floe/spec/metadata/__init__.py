"""Table metadata: snapshots, refs, updates and requirements, and the function that applies updates.

Modules, in reading order:

| module | subject |
|---|---|
| `snapshots` | snapshots, their summaries, branches and tags |
| `table_metadata` | `TableMetadata` and the records in it; UUIDs |
| `table_metadata_json` | metadata files: `parse` and `serialize` |
| `metadata_checks` | the rules between the parts of table metadata |
| `updates` | updates of table metadata, as values and JSON |
| `requirements` | what must be true of a table when updates are committed |
| `update_handlers` | one function for each kind of update; upgrades of the format version |
| `metadata_builder` | `apply`: updates to new metadata |
| `creation` | the metadata of new and replaced tables |
| `ancestry` | ancestors of snapshots |
| `retention` | which refs and snapshots expire |
| `file_names` | the names of metadata files |
"""
