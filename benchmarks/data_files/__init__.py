"""Data sets for `bench_formats.py`, and the programs that it measures."""
