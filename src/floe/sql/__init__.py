"""SQL text, from text to values and back.

| module | what it has |
|---|---|
| `tokens` | a text as tokens, and errors that point into the text |
| `type_names`, `literals` | names of types; numbers, strings, dates and timestamps |
| `filters` | filters: `a > 1 AND b IN ('x')` as expressions |
| `values` | expressions that compute values |
| `columns` | column definitions, partition terms and sort terms |
| `statements` | statements that Spark's own grammar does not have |
| `printing` | the way back: names, terms and filters as SQL text |
"""
