"""Streams: what is appended to a table as a stream of batches, and streams written to a table, each batch once."""
