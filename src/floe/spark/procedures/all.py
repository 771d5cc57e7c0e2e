"""All procedures, by their names."""

from __future__ import annotations

from typing import Final

from floe.spark.procedures.changelog import CreateChangelogView
from floe.spark.procedures.history import (
    AncestorsOf,
    CherrypickSnapshot,
    FastForward,
    PublishChanges,
    RollbackToSnapshot,
    RollbackToTimestamp,
    SetCurrentSnapshot,
)
from floe.spark.procedures.procedure import Procedure
from floe.spark.procedures.registering import RegisterTable
from floe.spark.procedures.statistics import ComputeTableStats

__all__ = ["INSTEAD", "PROCEDURES"]

_ALL: Final[tuple[type[Procedure], ...]] = (
    AncestorsOf,
    CherrypickSnapshot,
    ComputeTableStats,
    CreateChangelogView,
    FastForward,
    PublishChanges,
    RegisterTable,
    RollbackToSnapshot,
    RollbackToTimestamp,
    SetCurrentSnapshot,
)

PROCEDURES: Final[dict[str, type[Procedure]]] = {kind.name: kind for kind in _ALL}

INSTEAD: Final = {
    "expire_snapshots": "in Python, {table}.expire(older_than='7d').apply() does it",
    "rewrite_manifests": "in Python, {table}.rewrite_manifests() does it",
    "add_files": "in Python, {table}.add_files(['folder']) does it",
    "rewrite_data_files": "there is no compaction yet; INSERT OVERWRITE t SELECT * FROM t writes all rows anew, and in"
    " Python {table}.rewrite_files(…) takes files that somebody else wrote",
    "rewrite_position_delete_files": "there is no compaction yet; INSERT OVERWRITE t SELECT * FROM t writes all rows"
    " anew, without deletes",
    "remove_orphan_files": "`floe doctor --full` names files that no snapshot has, and deletes none of them",
    "snapshot": "create a table of the same columns, and in Python {table}.add_files(['folder']) takes the files",
    "migrate": "create a table of the same columns, and in Python {table}.add_files(['folder']) takes the files",
    "compute_partition_stats": "SELECT * FROM db.t.partitions counts rows and files of partitions",
    "rewrite_table_path": 'floe.connect(…, prefixes={{"/old/root": "/new/root"}}) opens tables that were moved',
}
"""What to do in place of Iceberg's procedures that are not there yet."""
