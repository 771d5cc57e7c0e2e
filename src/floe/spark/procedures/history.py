"""Procedures that move branches along a table's history, and that tell of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from floe.commit.operations.rollback import RollbackToTime
from floe.errors import InvalidInput
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure, required_text
from floe.spec.metadata.history import ancestors
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.table.committing import make_changes
from floe.table.table import Table

__all__ = [
    "AncestorsOf",
    "CherrypickSnapshot",
    "FastForward",
    "PublishChanges",
    "RollbackToSnapshot",
    "RollbackToTimestamp",
    "SetCurrentSnapshot",
]

TABLE: Final = Parameter("table", "string", comment="the table, as 'db.t'")
_MOVED: Final = (Column("previous_snapshot_id", "long"), Column("current_snapshot_id", "long", nullable=False))
_PICKED: Final = (
    Column("source_snapshot_id", "long", nullable=False),
    Column("current_snapshot_id", "long", nullable=False),
)


def _current(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


class RollbackToSnapshot(Procedure):
    """`rollback_to_snapshot`."""

    name = "rollback_to_snapshot"
    description = "goes back to a snapshot in the table's history"
    parameters = (TABLE, Parameter("snapshot_id", "long"))
    output = _MOVED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Go back."""
        table = context.table(arguments["table"])
        before = _current(table)
        table.rollback(arguments["snapshot_id"])
        return [(before, _current(table))]


class RollbackToTimestamp(Procedure):
    """`rollback_to_timestamp`."""

    name = "rollback_to_timestamp"
    description = "goes back to the newest snapshot that is older than a time"
    parameters = (TABLE, Parameter("timestamp", "timestamp"))
    output = _MOVED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Go back."""
        table = context.table(arguments["table"])
        before = _current(table)
        millis = -(-arguments["timestamp"] // 1000)  # snapshots of the same millisecond may be older
        make_changes(table, [RollbackToTime(millis, branch=MAIN_BRANCH, seen=before)])
        return [(before, _current(table))]


class SetCurrentSnapshot(Procedure):
    """`set_current_snapshot`."""

    name = "set_current_snapshot"
    description = "makes any snapshot of the table the current one, in its history or not"
    parameters = (TABLE, Parameter("snapshot_id", "long", "NULL"), Parameter("ref", "string", "NULL"))
    output = _MOVED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Set it."""
        snapshot_id, ref = arguments["snapshot_id"], arguments["ref"]
        if (snapshot_id is None) == (ref is None):
            raise InvalidInput("either snapshot_id or ref says which snapshot, not both")
        table = context.table(arguments["table"])
        before = _current(table)
        table.set_current(ref if snapshot_id is None else snapshot_id)
        return [(before, _current(table))]


class CherrypickSnapshot(Procedure):
    """`cherrypick_snapshot`."""

    name = "cherrypick_snapshot"
    description = "makes the changes of a snapshot again, upon the current state"
    parameters = (TABLE, Parameter("snapshot_id", "long"))
    output = _PICKED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Pick it."""
        table = context.table(arguments["table"])
        table.cherry_pick(arguments["snapshot_id"])
        return [(arguments["snapshot_id"], _current(table))]


class PublishChanges(Procedure):
    """`publish_changes`."""

    name = "publish_changes"
    description = "publishes what was staged under a WAP id"
    parameters = (TABLE, Parameter("wap_id", "string"))
    output = _PICKED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Publish it."""
        table = context.table(arguments["table"])
        wap_id = required_text("wap_id", arguments["wap_id"])
        staged = [one.snapshot_id for one in table.snapshots if (one.summary or {}).get("wap.id") == wap_id]
        table.publish(wap_id)
        return [(staged[0], _current(table))]


class FastForward(Procedure):
    """`fast_forward`."""

    name = "fast_forward"
    description = "moves a branch ahead to another one that has all of its commits"
    parameters = (TABLE, Parameter("branch", "string"), Parameter("to", "string"))
    output = (
        Column("branch_updated", "string", nullable=False),
        Column("previous_ref", "long"),
        Column("updated_ref", "long", nullable=False),
    )

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Move it."""
        table = context.table(arguments["table"])
        branch, to = (required_text(name, arguments[name]) for name in ("branch", "to"))
        before = table.refs.get(branch)
        if before is None:
            table.create_branch(branch, snapshot=to)
        else:
            table.fast_forward(branch, to)
        return [(branch, None if before is None else before.snapshot_id, table.refs[branch].snapshot_id)]


class AncestorsOf(Procedure):
    """`ancestors_of`."""

    name = "ancestors_of"
    description = "tells the snapshots that led to one, the newest first"
    parameters = (TABLE, Parameter("snapshot_id", "long", "NULL"))
    output = (Column("snapshot_id", "long", nullable=False), Column("timestamp", "long"))

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Tell them."""
        table = context.table(arguments["table"])
        start = arguments["snapshot_id"]
        found = ancestors(table.metadata, _current(table) if start is None else start)
        return [(one.snapshot_id, one.timestamp_ms) for one in found]
