"""What a user works with: lakes, tables, scans and transactions.

| module | what it has |
|---|---|
| `lake` | `Lake`: namespaces, tables and views of a catalog by name; `floe.connect` and `floe.open` |
| `table` | `Table`: a table, and its branches |
| `writer` | the methods that change rows, of tables and transactions; `Branch` and `Stage` |
| `row_writes` | how rows become files and commits; how DELETE, UPDATE, upsert and MERGE run, the `Merge` builder |
| `evolution` | the methods that change schema, partition spec, sort order, properties, … |
| `refs` | the methods for branches, tags, rollback and cherry-pick |
| `transaction` | `Transaction`: the same methods, committed together |
| `scan` | reading rows: scans, and the changelog between two snapshots |
| `inspect`, `history` | metadata tables, and the history of `main` |
| `maintenance` | expiring snapshots, statistics of columns |
| `view` | `View`: a stored query |
| `display`, `human_values`, `hints` | cards for `repr` and notebooks; timestamps, durations and sizes as text; hints in errors |

All changes are committed through `floe.commit.target.CommitTarget`.
"""  # noqa: E501 (a table)
