"""Manifests and manifest lists as Avro files.

Entries are read into columns and written from objects; a rewrite copies the bytes of entries without decoding them.

| module | content |
|---|---|
| `container` | Avro container files: header, blocks, codecs |
| `schemas` | Avro schemas as trees of nodes |
| `records` | reading, skipping and writing values one at a time |
| `manifest_lists` | reading and writing manifest lists |
| `manifest_layout` | the fields of manifest entries in the Avro schema of any writer |
| `vector_decoder`, `vector_encoder` | decoding and encoding the same field of many entries with NumPy |
| `entry_scanner` | the offsets of all values of the entries of a manifest |
| `stored_columns` | the values of scanned entries, as stored |
| `manifest_columns` | the values of entries, with inheritance; objects of entries |
| `manifest_reader` | reading manifests, and the manifests of a snapshot |
| `manifest_writer` | writing manifests, and rewriting them |
"""
