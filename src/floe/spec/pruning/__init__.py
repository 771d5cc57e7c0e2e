"""Pruning: which partitions, manifests and files a filter can skip.

Modules, in reading order:

| module | subject |
|---|---|
| `projection` | filters on rows projected to filters on partition values |
| `ranges` | keys of bounds and literals, and predicates on ranges of values |
| `var_bytes`, `key_columns` | NumPy columns of byte strings and of keys |
| `range_evaluation` | what counts and bounds prove about a predicate, for many files at once |
| `metrics_evaluation` | files by their metrics, manifests by their partition summaries |
| `column_evaluation` | filters on columns of values, such as the partitions of many files |

The last five need NumPy; the others do not.
"""
