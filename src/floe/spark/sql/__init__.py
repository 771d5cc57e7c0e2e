"""Statements that Spark's parser does not know: partition fields, write order, identifier fields, branches and tags."""
