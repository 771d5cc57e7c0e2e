"""Filters: expressions over the columns of a schema.

Modules, in reading order:

| module | subject |
|---|---|
| `nodes` | the tree of a filter, unbound and bound |
| `dsl` | filters in Python: `col("amount") > 10` |
| `literals` | literals converted to the type of a column |
| `binder` | `bind`: an unbound filter to a bound one |
| `simplification` | filters rewritten without changing which rows pass |
| `row_evaluation` | bound filters evaluated on rows |
| `expression_text` | filters as SQL, and as text without values |
| `expression_json` | filters as JSON, as REST catalogs exchange them |

SQL text is parsed by `floe.sql.filters`.
"""
