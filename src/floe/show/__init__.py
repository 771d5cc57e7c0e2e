"""Printing for people: aligned tables, rows of any width, times, progress; and rows for other programs."""
