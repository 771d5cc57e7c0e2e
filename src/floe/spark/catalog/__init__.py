"""A lake as a catalog of Spark: namespaces, tables, views."""
