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

__all__ = ["PROCEDURES"]

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
