"""The catalog in a file system: folders are namespaces, and a table's versions are files."""
