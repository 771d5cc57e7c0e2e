"""Snapshots, refs and table metadata; its updates and requirements, and the one function that applies them."""
