"""Changes that an engine makes to a table, a branch, a stage or a transaction: what `append` and the like do inside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from floe.commit.change import Change
from floe.commit.footprint import Isolation
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.spec.metadata.snapshots import Snapshot
from floe.table.actions import Actions
from floe.table.file_actions import FileActions

__all__ = ["branch_of", "change_options", "make_changes"]


def make_changes(actions: Actions, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
    """Make changes as one, now or when a transaction ends; the snapshot that they made, if they have made one by now.

    `files` are the locations of what was written for them: it is deleted if it is certain that the changes were not
    made, and stays if there is any doubt.
    """
    return actions._do_all(changes, files)


def change_options(
    actions: FileActions,
    summary: Mapping[str, str] | None = None,
    isolation: Isolation | str = Isolation.SERIALIZABLE,
) -> SnapshotOptions:
    """What a change of rows has to know of the place where it is made: the branch, the stage, the schema."""
    return actions._options(summary, isolation)


def branch_of(actions: FileActions) -> str:
    """The branch that new snapshots go to."""
    return actions._target
