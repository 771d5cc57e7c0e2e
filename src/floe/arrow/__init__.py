"""The embedded engine: transforms and filters over Arrow data."""
