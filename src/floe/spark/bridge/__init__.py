"""Everything that touches py4j: the JVM, Python objects as Java interfaces, values and errors both ways."""
