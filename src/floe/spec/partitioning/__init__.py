"""Transforms, partition specs and their evolution."""
