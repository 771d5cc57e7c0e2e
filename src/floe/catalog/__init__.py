"""Where the pointer to a table's current metadata lives: a file system, a SQL database, or memory."""
