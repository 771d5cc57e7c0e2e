"""Manifests and manifest lists as Avro files: read into columns, written from entries, rewritten without decoding."""
