"""ORC files as Arrow record batches, both ways."""
