"""Procedures that move branches along a table's history, and that tell of it.

`create_changelog_view`: a temporary view of what was changed in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from floe.catalog.identifiers import format_identifier, parse_namespace
from floe.commit.operations.rollback import RollbackToTime
from floe.errors import InvalidInput
from floe.spark.bridge.values import ARRAY_OF_TEXTS, MAP_OF_TEXTS
from floe.spark.names import CHANGES, AsOf
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure, required_text
from floe.spark.read.changes import OPTIONS, change_range, net_of_all, with_updates
from floe.spark.settings import END_SNAPSHOT_ID, START_SNAPSHOT_ID
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import MAIN_BRANCH
from floe.sql.printing import name_text
from floe.table.table import Table

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
        table.commit_target.commit([RollbackToTime(millis, branch=MAIN_BRANCH, seen=before)])
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


# `create_changelog_view`: a temporary view of what was changed in a table.


class CreateChangelogView(Procedure):
    """`create_changelog_view`."""

    name = "create_changelog_view"
    description = "makes a temporary view of the rows that were inserted and deleted, and of updates"
    parameters = (
        Parameter("table", "string", comment="the table, as 'db.t'"),
        Parameter("changelog_view", "string", "NULL", "the view's name; by default that of the table and _changes"),
        Parameter("options", MAP_OF_TEXTS, "NULL", f"of which snapshots: {', '.join(OPTIONS)}"),
        Parameter("compute_updates", "boolean", "NULL", "whether updates are told, by identifier columns"),
        Parameter("identifier_columns", ARRAY_OF_TEXTS, "NULL", "by default those of the table"),
        Parameter("net_changes", "boolean", "false", "whether changes that later ones undo are left out"),
    )
    output = (Column("changelog_view", "string", nullable=False),)

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Make the view."""
        name = context.identifier(arguments["table"])
        table = context.lake.table(name)
        given = arguments["identifier_columns"]
        updates = bool(given) if arguments["compute_updates"] is None else arguments["compute_updates"]
        identifiers = _identifiers(table, given) if updates else []
        if updates and arguments["net_changes"]:
            raise InvalidInput(
                "net changes have no updates", hint="leave out net_changes, or set compute_updates to false"
            )
        rows = _changes(context, name, table, arguments["options"] or {})
        if arguments["net_changes"]:
            rows = net_of_all(rows)
        elif identifiers:
            rows = with_updates(rows, identifiers)
        view = _view_name(arguments["changelog_view"], name)
        rows.createOrReplaceTempView(format_identifier(view))
        return [(format_identifier(view),)]


def _changes(context: Context, name: tuple[str, ...], table: Table, options: dict[str, str]) -> DataFrame:
    """The changes, up to a snapshot that stays the same when the view is read."""
    known = {key.lower(): value for key, value in options.items() if value is not None}
    if unknown := sorted(set(known) - set(OPTIONS)):
        raise InvalidInput(f"there is no option {', '.join(unknown)}", hint=f"there are {', '.join(OPTIONS)}")
    found = change_range(table.metadata, AsOf(), known)
    ends = {} if found.after is None else {START_SNAPSHOT_ID.name: str(found.after)}
    if found.until is not None:
        ends[END_SNAPSHOT_ID.name] = str(found.until)
    full = ".".join(map(name_text, (context.catalog, *name, CHANGES)))
    rows = context.session.read.options(**ends).table(full)
    return rows if found.until is not None else rows.where("false")


def _identifiers(table: Table, given: Sequence[str] | None) -> list[str]:
    schema = table.schema
    if not given:
        names = [entry for entry in schema.identifier_names if entry]
        if not names:
            raise InvalidInput(
                "updates cannot be told without identifier columns",
                hint="name them with identifier_columns => array(…), or ALTER TABLE … SET IDENTIFIER FIELDS …",
                table=table.name,
            )
        return names
    return [schema.field(name, case_sensitive=False).name for name in given]


def _view_name(given: str | None, table: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return (f"{table[-1]}_changes",)
    view = tuple(parse_namespace(given))
    if len(view) != 1:
        raise InvalidInput(f"a temporary view has a name without a namespace, found {given!r}")
    return view
