"""SQL values over Arrow batches: what an UPDATE sets, what a MERGE compares, inserts and asks, in Spark's dialect.

A text (`"amount * 2"`), a column (`col("amount")`), a filter or a plain Python value is compiled against the columns it
may name, into something that makes a column of each batch. The meaning is that of Spark with ANSI rules: an overflow,
a division by zero and a text that is no number are errors, logic has three values, NaN equals itself.
"""
