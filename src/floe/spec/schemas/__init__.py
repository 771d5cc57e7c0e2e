"""Schemas, how they change, and how data files are read with them.

Modules, in reading order:

| module | subject |
|---|---|
| `schema` | `Schema`: columns by id, name and path; new field ids |
| `schema_json` | schemas and types as JSON |
| `metadata_columns` | `_file`, `_pos`, row lineage and other columns with reserved ids |
| `promotion` | which type may become which, and what happens to values |
| `schema_evolution` | `SchemaUpdate`: add, drop, rename, move, promote columns |
| `union_by_name` | the changes that add the columns of another schema |
| `name_mapping` | the columns of data files, and field ids for files that have none |
| `column_projection` | choosing columns, and where a data file has their values |
"""
