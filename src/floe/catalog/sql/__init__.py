"""The catalog in a SQL database: SQLite and PostgreSQL, in tables that Java Iceberg and PyIceberg share."""
