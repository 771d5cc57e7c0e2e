"""DELETE, UPDATE, MERGE and upsert on Arrow: rows read, decided upon, and made into a change for `floe.commit`.

Every statement goes the same way. `conditions` says what can be planned by, and `base` plans. What becomes of the rows
of each file is decided from the few columns that this takes (`deciding`, `merge`). Then either the files are written
anew without and with the changed rows (`copy_on_write`), or rows are deleted by position and changed ones added
(`merge_on_read`). The change says what it read and wrote, so that conflicts with others are found.
"""
