"""Schemas and how they change; how old files are read by field id or by name."""
