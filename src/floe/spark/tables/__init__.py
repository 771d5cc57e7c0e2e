"""Tables as Spark sees them: the data, the metadata tables, and tables that are being made."""
