"""Parquet files as Arrow batches.

In reading order:

- `reader`: files to batches: row groups pruned by splits and statistics; metrics from the footer of existing files.
- `footer`: row groups and statistics in the footer of a file, and Thrift's compact protocol.
- `writer`: batches to files, with the logical types that pyarrow does not write.
- `writer_options`: table properties as options of the writer.
"""
