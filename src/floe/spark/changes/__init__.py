"""What was changed in a table: `SELECT * FROM lake.db.t.changes`, read by tasks, and net of rows carried over."""
