"""Branches and tags: names for snapshots, with how long to keep them (spec: Snapshot References)."""

from __future__ import annotations

from typing import Literal

from floe.spec.metadata.records import Int32, Int64, Record

__all__ = ["MAIN_BRANCH", "SnapshotRef"]

MAIN_BRANCH = "main"
"""The branch that readers see unless told otherwise; it never expires."""


class SnapshotRef(Record, frozen=True, kw_only=True):
    """What a branch or tag points at.

    >>> SnapshotRef(snapshot_id=7, type="branch", min_snapshots_to_keep=5).is_branch
    True
    """

    snapshot_id: Int64
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: Int32 | None = None
    """Branches only: how many snapshots to keep, however old; the table's property decides when None."""

    max_snapshot_age_ms: Int64 | None = None
    """Branches only: how old a snapshot may become before it expires."""

    max_ref_age_ms: Int64 | None = None
    """How old the snapshot may become before the reference itself goes; `main` ignores it."""

    @property
    def is_branch(self) -> bool:
        """Whether commits can move the reference."""
        return self.type == "branch"

    @property
    def is_tag(self) -> bool:
        """Whether the reference is a label that stays where it is."""
        return self.type == "tag"
