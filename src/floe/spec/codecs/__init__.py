"""Encodings: single values, bounds, Avro schemas, Parquet and ORC types, Puffin, deletion vectors."""
