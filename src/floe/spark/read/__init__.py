"""Reads: what is pushed down, which files are read, and who reads them."""
