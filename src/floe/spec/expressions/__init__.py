"""Filters: typed or parsed, bound to a schema, rewritten, printed, evaluated on rows."""
