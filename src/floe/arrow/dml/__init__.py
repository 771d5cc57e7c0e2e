"""DELETE, UPDATE, MERGE and upsert on Arrow: statements read rows, and return changes for `floe.commit`.

- `base`: the state of the table that a statement reads, and what it returns
- `statements`: DELETE and UPDATE; files that a filter matches
- `merge`: MERGE and upsert
- `merge_join`: the source of a MERGE, its keys and the ON condition
- `assignments`: the values of updated and inserted columns
- `row_output`: the files and deletes that a statement writes, by copy-on-write or merge-on-read
"""
