"""What a user holds: a catalog, a table, a transaction, its history, and what it shows of itself."""
