"""The table format itself, versions 1 to 3: values and pure functions, no I/O.

| package | subject |
|---|---|
| `types`, `values` | the types, and the Python form of their values |
| `schemas` | schemas, their evolution, reading by field id, name mapping |
| `partitioning`, `sorting` | transforms, partition specs and their evolution, sort orders |
| `expressions` | filters: typed or parsed, bound to a schema, rewritten, printed, evaluated on rows |
| `pruning` | what a filter says about partitions, manifests and files, one or many at once |
| `manifests` | data files, delete files, entries and manifests as values; scope of deletes; row lineage |
| `metadata` | snapshots, refs, table metadata, its updates and requirements, retention |
| `views` | view metadata and its updates |
| `codecs` | single values, bounds, Avro schemas, Parquet and ORC types, Puffin, deletion vectors |
"""
