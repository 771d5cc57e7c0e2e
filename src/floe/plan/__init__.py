"""Scans: which files hold the rows that are asked for, and the tables that show a table's own metadata."""
