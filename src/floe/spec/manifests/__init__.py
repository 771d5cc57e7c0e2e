"""Data files, delete files, entries and manifests as values; the scope of deletes; row lineage."""
