"""SQL values on Arrow batches: the assignments and conditions of UPDATE and MERGE, in Spark's dialect.

SQL text (`"amount * 2"`), a column (`col("amount")`), a filter or a Python value is compiled against the columns of
the statement, and then evaluated on batches. The semantics are those of Spark with ANSI rules: an overflow, a division
by zero and an invalid cast are errors, logic is three-valued, and NaN equals itself.

- `user_values`: values as users write them, as expression trees
- `compiler`: names and types of a tree are resolved to a compiled value
- `compiled`: compiled values, and the declaration of functions
- `functions`: the operators and functions
- `casts`: type coercion and casts
- `filters`: filters that conditions imply, for planning
"""
