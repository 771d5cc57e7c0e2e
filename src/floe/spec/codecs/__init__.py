"""Encodings of values, types and blobs in files.

Modules, in reading order:

| module | subject |
|---|---|
| `single_value` | single values and bounds as bytes |
| `single_value_json`, `wkt` | single values as JSON; geometries as text |
| `avro_schemas` | types to Avro schemas and back |
| `manifest_schemas` | the schemas of manifests, manifest lists and partition statistics |
| `parquet_types`, `orc_types` | how types are stored in Parquet and ORC |
| `puffin` | Puffin files |
| `deletion_vectors` | deletion vectors as Puffin blobs |
| `theta_sketches` | theta sketches of distinct values (needs NumPy) |
"""
