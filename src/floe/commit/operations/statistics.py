"""Registering and forgetting statistics files.

Concurrency: compatible with every other commit. The statistics of a snapshot are facts about it that do not change,
so of two files for the same snapshot the later one counts. A snapshot that expired meanwhile has no statistics:
registering them is a `ConflictingChange`, forgetting them is done already.

A file that is replaced or forgotten is deleted when that is published, if nothing else can need it (see `cleanup`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.errors import ConflictingChange
from floe.spec.metadata.statistics import PartitionStatisticsFile, StatisticsFile
from floe.spec.metadata.updates import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
    TableUpdate,
)

__all__ = ["UpdateStatistics"]


@dataclass(frozen=True, slots=True)
class UpdateStatistics:
    """Registers statistics files, and forgets those of other snapshots.

    >>> UpdateStatistics(forget=[7]).forget
    (7,)
    """

    set: Sequence[StatisticsFile] = ()
    set_partition: Sequence[PartitionStatisticsFile] = ()
    forget: Sequence[int] = ()
    """Ids of snapshots whose statistics file is to be forgotten."""

    forget_partition: Sequence[int] = ()

    def __post_init__(self) -> None:
        for name in ("set", "set_partition", "forget", "forget_partition"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """What is not as it should be yet."""
        table = attempt.metadata
        paths = [(file.snapshot_id, file.statistics_path) for file in self.set]
        paths += [(file.snapshot_id, file.statistics_path) for file in self.set_partition]
        for snapshot_id, path in paths:
            if snapshot_id not in table.snapshots_by_id:
                raise ConflictingChange(
                    f"statistics of snapshot {snapshot_id} cannot be registered: the table has none such, it may have "
                    "expired meanwhile",
                    snapshot=snapshot_id,
                    file=path,
                )
        known = {file.snapshot_id for file in table.statistics}
        known_partition = {file.snapshot_id for file in table.partition_statistics}
        return (
            *(SetStatistics(file) for file in self.set if file not in table.statistics),
            *(SetPartitionStatistics(file) for file in self.set_partition if file not in table.partition_statistics),
            *(RemoveStatistics(snapshot) for snapshot in self.forget if snapshot in known),
            *(RemovePartitionStatistics(snapshot) for snapshot in self.forget_partition if snapshot in known_partition),
        )
