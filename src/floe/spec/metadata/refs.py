"""Branches and tags: names for snapshots, with how long to keep them (spec: Snapshot References)."""

from __future__ import annotations

from typing import Literal

import msgspec

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

    def at(self, snapshot_id: int) -> SnapshotRef:
        """The same reference, with its retention, pointing at another snapshot.

        >>> SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=9).at(8)
        SnapshotRef(snapshot_id=8, type='tag', max_ref_age_ms=9)
        """
        return msgspec.structs.replace(self, snapshot_id=snapshot_id)

    def kept(
        self, *, min_snapshots_to_keep: int | None, max_snapshot_age_ms: int | None, max_ref_age_ms: int | None
    ) -> SnapshotRef:
        """The same reference with another retention.

        >>> ref = SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=9)
        >>> ref.kept(min_snapshots_to_keep=None, max_snapshot_age_ms=None, max_ref_age_ms=5).max_ref_age_ms
        5
        """
        return msgspec.structs.replace(
            self,
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )
