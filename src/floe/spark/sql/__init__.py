"""SQL statements that Spark does not have, or has for its own catalog only.

| module | what it has |
|---|---|
| `statements` | which statements Floe runs itself; `ALTER TABLE` as Iceberg extends it, `CREATE TABLE … LIKE …` |
| `hints` | what to write instead of a statement of Delta Lake, or of a name with the wrong catalog |

The text is parsed by `floe.sql.statements`.
"""
