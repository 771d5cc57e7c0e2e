"""SQL text: parsers of filters, values, columns and statements, and the text of schemas and terms.

In reading order:

- `tokens`: a text as tokens, with errors that point into the text
- `literals`: the names of types; numbers, strings, dates and timestamps
- `filters`: filters such as `a > 1 AND b IN ('x')`, as expressions
- `values`: expressions that compute values
- `columns`: column definitions, as in CREATE TABLE
- `statements`: statements that Spark's own grammar does not have
- `printer`: the text of names, types, columns, partition terms and sort terms
"""
