"""`create_changelog_view`: a temporary view of what was changed in a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from floe.catalog.identifiers import format_identifier, parse_namespace
from floe.errors import InvalidInput
from floe.spark.bridge.values import ARRAY_OF_TEXTS, MAP_OF_TEXTS
from floe.spark.changes.net import net_of_all, with_updates
from floe.spark.changes.ranges import OPTIONS, change_range
from floe.spark.names import CHANGES, AsOf
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure
from floe.table.column_text import name_text
from floe.table.table import Table

__all__ = ["CreateChangelogView"]


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
    ends = {} if found.after is None else {"start-snapshot-id": str(found.after)}
    if found.until is not None:
        ends["end-snapshot-id"] = str(found.until)
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
