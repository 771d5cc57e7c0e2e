"""What others committed since a change read the table, and whether the two conflict."""
