"""Spark's interfaces as Python classes, with all of their methods: those that have a default in Java have it here.

A Java proxy forwards calls of default methods to Python too. A test compares every class with the interface of the
Spark that runs. Overloaded methods of Java are one method here, which takes what comes.
"""
