"""Metadata tables: snapshots, manifests, files, partitions, deletes, … of a table as Arrow tables.

| module | what it has |
|---|---|
| `tables` | the list of all metadata tables, and those that need only table metadata |
| `schemas` | their columns; `MetadataSource`, from which rows are read |
| `filters` | filters on rows and on manifests |
| `entries`, `flat_maps` | `files`, `entries` and others that show manifest entries; metrics maps as columns |
| `manifests`, `partitions`, `position_deletes` | the tables of these names |
"""

from __future__ import annotations

from floe.plan.metadata_tables.tables import NAMES, TIME_TRAVEL, metadata_table, schema_of

__all__ = ["NAMES", "TIME_TRAVEL", "metadata_table", "schema_of"]
