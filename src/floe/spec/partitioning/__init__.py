"""Partitioning: transforms, partition specs and their evolution.

Modules, in reading order:

| module | subject |
|---|---|
| `transforms` | identity, bucket, truncate, year, month, day, hour, void: types, functions, text, JSON |
| `murmur3` | the hash of `bucket` |
| `columnar_transforms` | transforms and hashes of NumPy columns |
| `partition_spec` | partition specs, partition tuples, JSON |
| `transform_terms` | partition and sort terms as users write them: `bucket(16, id)` |
| `spec_evolution` | changes of the default partition spec |
| `partition_paths` | partitions as folders of a path |

Only `columnar_transforms` needs NumPy.
"""
