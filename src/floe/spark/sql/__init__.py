"""The statements of Iceberg that Spark's parser does not know."""
