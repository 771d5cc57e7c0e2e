"""The embedded engine: reads and writes the rows of tables as Arrow data, in one process.

- `read`: plans as streams of record batches, with deletes applied
- `input_data`: the data that users pass, as record batches
- `schema_alignment`: record batches aligned with the schema of a table
- `writer`: record batches written to data files
- `file_import`: existing files as data files of a table
- `dml`: DELETE, UPDATE, MERGE and upsert
- `values`: SQL values on record batches
"""
