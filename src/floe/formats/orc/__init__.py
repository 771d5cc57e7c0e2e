"""ORC files as Arrow batches.

In reading order:

- `tail`: the postscript and footer of a file, its types and compressed chunks.
- `streams`: the streams of a stripe, run-length encodings, and the checks that protect ORC's reader.
- `reader`: files to batches: stripes pruned by splits and statistics.
- `writer`: batches to files, with the attributes and metadata that pyarrow does not write.
- `timestamps`: timestamps out of pyarrow's range when read, and before 1970 when written.
"""
