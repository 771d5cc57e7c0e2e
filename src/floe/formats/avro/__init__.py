"""Avro data files and delete files, as Arrow batches."""
