"""What can be done to a table: one module for each operation."""
