"""The table format itself, versions 1 to 3: values and pure functions, no I/O.

| subject | modules |
|---|---|
| types and schemas | `types`, `values`, `schema`, `schema_json`, `metadata_columns` |
| reading by field id | `column_projection`, `name_mapping` |
| schema evolution | `evolution`, `union_by_name`, `promotion` |
| partitioning and sorting | `transforms`, `partitioning`, `partition_evolution`, `partition_paths`, `sorting` |
| filters | `expressions` |
| encodings | `codecs` |
| files as values | `manifests`, `row_lineage` |
| table metadata | `metadata` |
| views | `views` |
"""
