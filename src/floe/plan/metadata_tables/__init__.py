"""Metadata tables: snapshots, manifests, files, partitions, deletes, … of a table as rows of Arrow.

`tables` has the table of all of them; each of the others makes a group of them.
"""

from __future__ import annotations

from floe.plan.metadata_tables.tables import NAMES, TIME_TRAVEL, metadata_table, schema_of

__all__ = ["NAMES", "TIME_TRAVEL", "metadata_table", "schema_of"]
