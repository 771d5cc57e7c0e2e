"""Spark's connector interfaces as Python classes, with all of their methods and Java's default implementations.

| module | interfaces |
|---|---|
| `catalog` | catalogs of tables, views, namespaces, functions and procedures |
| `read` | tables, scans and statistics, streams |
| `write` | writes, row-level operations, commands |

A Java proxy forwards calls of default methods to Python too, so they are implemented here. A test compares every class
with the interface of the running Spark. Overloaded methods of Java are one method here, with variable arguments.
"""
