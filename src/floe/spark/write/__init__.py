"""Writes: rows of a data frame to files in Python workers, files to the table in one commit."""
