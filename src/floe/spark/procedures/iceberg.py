"""The procedures of Iceberg that Floe has, with Iceberg's names, parameters and output columns.

- branches and snapshots: `rollback_to_snapshot`, `rollback_to_timestamp`, `set_current_snapshot`,
  `cherrypick_snapshot`, `publish_changes`, `fast_forward`, `ancestors_of`
- changes: `create_changelog_view`
- tables: `register_table`, `compute_table_stats`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from floe.catalog.identifiers import format_identifier, parse_namespace
from floe.commit.operations.refs import RollbackToTime
from floe.errors import InvalidInput
from floe.spark.bridge.values import STRING_ARRAY, STRING_MAP
from floe.spark.catalog.analyze import compute_statistics
from floe.spark.names import CHANGES, AsOf
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure, register, required_text
from floe.spark.read.changes import RANGE_OPTIONS, change_range, net_changes, pair_updates
from floe.spark.settings import END_SNAPSHOT_ID, START_SNAPSHOT_ID
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import MAIN_BRANCH
from floe.sql.printer import name_text
from floe.table.table import Table

_TABLE: Final = Parameter("table", "string", comment="the table, as 'db.t'")
_MOVED: Final = (Column("previous_snapshot_id", "long"), Column("current_snapshot_id", "long", nullable=False))
_PICKED: Final = (
    Column("source_snapshot_id", "long", nullable=False),
    Column("current_snapshot_id", "long", nullable=False),
)


def _current(table: Table) -> int | None:
    return table.metadata.current_snapshot_id


@register
class RollbackToSnapshot(Procedure):
    """`rollback_to_snapshot`: set the main branch to an ancestor of its head."""

    name = "rollback_to_snapshot"
    description = "rolls the table back to a snapshot in its history"
    parameters = (_TABLE, Parameter("snapshot_id", "long"))
    output = _MOVED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Roll back, and return the previous and the current snapshot id."""
        table = context.table(arguments["table"])
        before = _current(table)
        table.rollback(arguments["snapshot_id"])
        return [(before, _current(table))]


@register
class RollbackToTimestamp(Procedure):
    """`rollback_to_timestamp`: set the main branch to its newest ancestor before a time."""

    name = "rollback_to_timestamp"
    description = "rolls the table back to the newest snapshot that is older than a timestamp"
    parameters = (_TABLE, Parameter("timestamp", "timestamp"))
    output = _MOVED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Roll back, and return the previous and the current snapshot id."""
        table = context.table(arguments["table"])
        before = _current(table)
        millis = -(-arguments["timestamp"] // 1000)  # snapshots of the same millisecond may be older
        table.commit_target.commit([RollbackToTime(millis, branch=MAIN_BRANCH, expected=before)])
        return [(before, _current(table))]


@register
class SetCurrentSnapshot(Procedure):
    """`set_current_snapshot`: set the main branch to any snapshot of the table."""

    name = "set_current_snapshot"
    description = "makes any snapshot of the table the current one, also one that is not in its history"
    parameters = (_TABLE, Parameter("snapshot_id", "long", "NULL"), Parameter("ref", "string", "NULL"))
    output = _MOVED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Set the snapshot, and return the previous and the current snapshot id."""
        snapshot_id, ref = arguments["snapshot_id"], arguments["ref"]
        if (snapshot_id is None) == (ref is None):
            raise InvalidInput("either snapshot_id or ref selects the snapshot, not both")
        table = context.table(arguments["table"])
        before = _current(table)
        table.set_current(ref if snapshot_id is None else snapshot_id)
        return [(before, _current(table))]


@register
class CherrypickSnapshot(Procedure):
    """`cherrypick_snapshot`: apply the changes of a snapshot to the head of the main branch."""

    name = "cherrypick_snapshot"
    description = "applies the changes of a snapshot to the current state"
    parameters = (_TABLE, Parameter("snapshot_id", "long"))
    output = _PICKED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Cherry-pick, and return the id of the snapshot and the new current id."""
        table = context.table(arguments["table"])
        table.cherry_pick(arguments["snapshot_id"])
        return [(arguments["snapshot_id"], _current(table))]


@register
class PublishChanges(Procedure):
    """`publish_changes`: publish the snapshot that was staged under a WAP id."""

    name = "publish_changes"
    description = "publishes the snapshot that was staged under a WAP id"
    parameters = (_TABLE, Parameter("wap_id", "string"))
    output = _PICKED

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Publish, and return the id of the staged snapshot and the new current id."""
        table = context.table(arguments["table"])
        wap_id = required_text("wap_id", arguments["wap_id"])
        staged = [
            snapshot.snapshot_id for snapshot in table.snapshots if (snapshot.summary or {}).get("wap.id") == wap_id
        ]
        table.publish(wap_id)
        return [(staged[0], _current(table))]


@register
class FastForward(Procedure):
    """`fast_forward`: move a branch to the head of another that is its descendant."""

    name = "fast_forward"
    description = "moves a branch ahead to another one that has all of its commits"
    parameters = (_TABLE, Parameter("branch", "string"), Parameter("to", "string"))
    output = (
        Column("branch_updated", "string", nullable=False),
        Column("previous_ref", "long"),
        Column("updated_ref", "long", nullable=False),
    )

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Move the branch, or create it if there is none; returns its previous and its new snapshot id."""
        table = context.table(arguments["table"])
        branch, to = (required_text(name, arguments[name]) for name in ("branch", "to"))
        before = table.refs.get(branch)
        if before is None:
            table.create_branch(branch, snapshot=to)
        else:
            table.fast_forward(branch, to)
        return [(branch, None if before is None else before.snapshot_id, table.refs[branch].snapshot_id)]


@register
class AncestorsOf(Procedure):
    """`ancestors_of`: list a snapshot and its ancestors."""

    name = "ancestors_of"
    description = "lists a snapshot and its ancestors, the newest first"
    parameters = (_TABLE, Parameter("snapshot_id", "long", "NULL"))
    output = (Column("snapshot_id", "long", nullable=False), Column("timestamp", "long"))

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Return ids and timestamps of the snapshots, the newest first."""
        table = context.table(arguments["table"])
        start = arguments["snapshot_id"]
        history = ancestors(table.metadata, _current(table) if start is None else start)
        return [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in history]


@register
class CreateChangelogView(Procedure):
    """`create_changelog_view`: create a temporary view of the changes of a table."""

    name = "create_changelog_view"
    description = "creates a temporary view of the rows that were inserted, deleted and updated"
    parameters = (
        _TABLE,
        Parameter("changelog_view", "string", "NULL", "its name; by default that of the table and _changes"),
        Parameter("options", STRING_MAP, "NULL", f"which snapshots: {', '.join(RANGE_OPTIONS)}"),
        Parameter("compute_updates", "boolean", "NULL", "whether updates are found, by identifier columns"),
        Parameter("identifier_columns", STRING_ARRAY, "NULL", "by default the identifier fields of the table"),
        Parameter("net_changes", "boolean", "false", "whether changes that later changes undo are left out"),
    )
    output = (Column("changelog_view", "string", nullable=False),)

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Create the view, and return its name."""
        name = context.identifier(arguments["table"])
        table = context.lake.table(name)
        columns = arguments["identifier_columns"]
        updates = bool(columns) if arguments["compute_updates"] is None else arguments["compute_updates"]
        identifiers = _identifiers(table, columns) if updates else []
        if updates and arguments["net_changes"]:
            raise InvalidInput(
                "net changes have no updates", hint="leave out net_changes, or set compute_updates to false"
            )
        rows = _changes(context, name, table, arguments["options"] or {})
        if arguments["net_changes"]:
            rows = net_changes(rows)
        elif identifiers:
            rows = pair_updates(rows, identifiers)
        view = _view_name(arguments["changelog_view"], name)
        rows.createOrReplaceTempView(format_identifier(view))
        return [(format_identifier(view),)]


def _changes(context: Context, name: tuple[str, ...], table: Table, options: dict[str, str]) -> DataFrame:
    """Read the changes up to a snapshot that is fixed now, so that the view stays the same."""
    selection = {key.lower(): value for key, value in options.items() if value is not None}
    if unknown := sorted(set(selection) - set(RANGE_OPTIONS)):
        raise InvalidInput(f"there is no option {', '.join(unknown)}", hint=f"there are {', '.join(RANGE_OPTIONS)}")
    changes = change_range(table.metadata, AsOf(), selection)
    ends = {} if changes.after is None else {START_SNAPSHOT_ID.name: str(changes.after)}
    if changes.until is not None:
        ends[END_SNAPSHOT_ID.name] = str(changes.until)
    full = ".".join(map(name_text, (context.catalog, *name, CHANGES)))
    rows = context.session.read.options(**ends).table(full)
    return rows if changes.until is not None else rows.where("false")


def _identifiers(table: Table, columns: Sequence[str] | None) -> list[str]:
    schema = table.schema
    if not columns:
        names = [entry for entry in schema.identifier_names if entry]
        if not names:
            raise InvalidInput(
                "updates cannot be found without identifier columns",
                hint="name them with identifier_columns => array(…), or ALTER TABLE … SET IDENTIFIER FIELDS …",
                table=table.name,
            )
        return names
    return [schema.field(name, case_sensitive=False).name for name in columns]


def _view_name(name: str | None, table: tuple[str, ...]) -> tuple[str, ...]:
    if name is None:
        return (f"{table[-1]}_changes",)
    view = tuple(parse_namespace(name))
    if len(view) != 1:
        raise InvalidInput(f"a temporary view has a name without a namespace, found {name!r}")
    return view


@register
class RegisterTable(Procedure):
    """`register_table`: create a table from an existing metadata file."""

    name = "register_table"
    description = "creates a table from an existing metadata file"
    parameters = (
        Parameter("table", "string", comment="the name of the new table, as 'db.t'"),
        Parameter("metadata_file", "string", comment="the location of the metadata file"),
    )
    output = (
        Column("current_snapshot_id", "long"),
        Column("total_records_count", "long"),
        Column("total_data_files_count", "long"),
    )

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Register the table, and return its current snapshot id and its counts of rows and data files."""
        name = context.identifier(required_text("table", arguments["table"]))
        table = context.lake.register_table(name, required_text("metadata_file", arguments["metadata_file"]))
        current = table.current_snapshot
        if current is None:
            return [(None, None, None)]
        summary = current.summary or {}
        return [(current.snapshot_id, *(_number(summary.get(f"total-{unit}")) for unit in ("records", "data-files")))]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


@register
class ComputeTableStats(Procedure):
    """`compute_table_stats`: write a statistics file with sketches of the distinct values of columns."""

    name = "compute_table_stats"
    description = "estimates the number of distinct values of columns, and writes a statistics file"
    parameters = (
        _TABLE,
        Parameter("snapshot_id", "long", "NULL", "by default the current snapshot"),
        Parameter("columns", STRING_ARRAY, "NULL", "by default all columns of primitive types"),
    )
    output = (Column("statistics_file", "string"),)

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Write the file and return its location; no row if the table has no rows."""
        columns = arguments["columns"]
        if columns is not None and not (columns and all(columns)):
            raise InvalidInput(f"columns are names of columns, found {columns}", hint="leave it out for all columns")
        table = context.table(arguments["table"])
        statistics = compute_statistics(context.jvm, table, columns, snapshot=arguments["snapshot_id"])
        return [] if statistics is None else [(statistics.statistics_path,)]
