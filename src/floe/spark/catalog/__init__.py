"""A lake as a catalog of Spark: namespaces, tables, views, functions.

| module | what it has |
|---|---|
| `catalog` | `SparkCatalog`: namespaces and tables, and ALTER TABLE |
| `definitions` | table definitions: CREATE TABLE, and the properties and transforms that Spark shows |
| `table` | `SparkTable`: a table at one state; staged tables; the choice of a table by its name |
| `metadata_table` | metadata tables such as `lake.db.t.files` |
| `views` | view definitions, and the catalog's methods for views |
| `functions` | the functions of `lake.system`: partition transforms as SQL functions |
| `analyze` | ANALYZE TABLE |
"""
