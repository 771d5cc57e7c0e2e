"""The SQL catalog: SQLite and PostgreSQL, in tables that Java's JdbcCatalog and PyIceberg's SqlCatalog share.

| module | what it has |
|---|---|
| `database` | the URIs of databases; `Database`: reads, transactions and the connection pool |
| `sqlite`, `postgres` | the two databases |
| `records` | the catalog's tables in the database, and their rows: tables, views and namespaces |
| `store` | `SqlStore`: database, rows and file storage together; changes with a definite outcome |
| `pointer` | `SqlPointer`: commits by one UPDATE, of several tables in one transaction |
| `views` | views as rows and metadata files |
| `catalog` | `SqlCatalog` and its options |
"""
