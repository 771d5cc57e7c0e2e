"""The embedded engine: reads and writes the rows of tables as Arrow data, in one process."""
