"""Avro data files and delete files as Arrow batches.

In reading order:

- `reader`: files to batches: the header, the blocks of a split, and their rows.
- `column_decoders`: row by row decoders of columns.
- `block_parallel_decoder`: a vectorized decoder for flat rows of many blocks.
- `writer`: batches to files.
"""
