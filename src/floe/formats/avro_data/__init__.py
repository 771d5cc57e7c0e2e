"""Avro data files as Arrow record batches, both ways."""
