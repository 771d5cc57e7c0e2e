"""`floe history`: the snapshots of a table, when each became current, and which are ancestors of the current one.

The snapshot log records what was current on `main`, and when. A snapshot that appears in it again, or that is an
ancestor of the one before, is a rollback. Snapshots that are not in the log, those of other branches and staged ones,
are listed at the time of their commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from floe.cli.arguments import (
    CatalogArguments,
    CatalogOption,
    CatalogOptions,
    Debug,
    Json,
    TableName,
    catalog_options,
    load_table,
    suggest,
)
from floe.cli.ls import summary_count
from floe.errors import NoSuchRef
from floe.show.terminal import Column, Output, stdout
from floe.show.times import ago, iso_text, local_text
from floe.spec.metadata.ancestry import ancestors, is_ancestor_of
from floe.spec.metadata.snapshots import (
    ADDED_EQUALITY_DELETES,
    ADDED_POSITION_DELETES,
    ADDED_RECORDS,
    DELETED_RECORDS,
    MAIN_BRANCH,
    REMOVED_POSITION_DELETES,
    TOTAL_RECORDS,
    Snapshot,
)
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.history import history_of

EXAMPLES = """
floe history warehouse/db/orders
floe history lake.db.orders -n 20
floe history lake.db.orders --ref audit --json
"""

_NARROW: Final = 110


def history(
    table: TableName,
    ref: Annotated[
        str | None,
        typer.Option("--ref", metavar="NAME", help="Only the history of this branch or tag.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the newest N.", show_default=False)
    ] = None,
    catalog: CatalogOption = None,
    option: CatalogOptions = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the snapshots of a table, newest first.

    Branches, tags and rollbacks are marked. Times are local; JSON has them in UTC.
    """
    out = stdout()
    loaded = load_table(table, CatalogArguments(catalog, catalog_options(option)))
    events = list(events_of(loaded.state.metadata, ref))[:limit]
    if json:
        out.json([_document(event) for event in events])
    elif not events:
        out.line(f"{loaded.name} has no snapshot yet")
    else:
        _print(out, events, loaded.pointer.environment.clock.now_ms())


@dataclass(frozen=True)
class Event:
    """A snapshot was committed, or became current."""

    timestamp_ms: int
    snapshot_id: int
    snapshot: Snapshot | None
    """The snapshot; None if it has expired."""

    kind: str
    """The operation of a new snapshot, `rollback` where an old one became current again, or `expired`."""

    refs: tuple[str, ...] = ()
    """The branches and tags that refer to the snapshot; only with its newest event."""

    in_current: bool = True
    """Whether it is an ancestor of the current snapshot, or of the chosen branch or tag."""

    @property
    def added(self) -> int | None:
        """The rows that it added."""
        return None if self.snapshot is None else summary_count(self.snapshot.summary, ADDED_RECORDS)

    @property
    def removed(self) -> int | None:
        """The rows that it removed with files and by position deletes; None if there are equality deletes, too."""
        if self.snapshot is None or summary_count(self.snapshot.summary, ADDED_EQUALITY_DELETES):
            return None
        summary = self.snapshot.summary
        by_position = (summary_count(summary, ADDED_POSITION_DELETES) or 0) - (
            summary_count(summary, REMOVED_POSITION_DELETES) or 0
        )
        return (summary_count(summary, DELETED_RECORDS) or 0) + max(by_position, 0)


def events_of(metadata: TableMetadata, ref: str | None = None) -> Iterator[Event]:
    """The events of a table, or of a branch or tag, newest first."""
    labels: dict[int, list[str]] = {}
    for name, target in sorted(metadata.refs.items(), key=lambda item: (item[0] != MAIN_BRANCH, item[0])):
        labels.setdefault(target.snapshot_id, []).append(name if target.is_branch else f"tag {name}")
    unsorted = _events_of_ref(metadata, ref) if ref is not None else _events_of_table(metadata)
    in_order = sorted(unsorted, key=_sort_key)
    for event in reversed(in_order):  # of equal times, the last one first
        refs = tuple(labels.pop(event.snapshot_id, ()))
        yield Event(event.timestamp_ms, event.snapshot_id, event.snapshot, event.kind, refs, event.in_current)


def _sort_key(event: Event) -> tuple[int, bool, int]:
    """The time, and for snapshots of one transaction, which have the same time, the sequence number."""
    is_old = event.snapshot is None or event.kind == "rollback"
    return event.timestamp_ms, is_old, 0 if event.snapshot is None or is_old else event.snapshot.sequence_number


def _events_of_ref(metadata: TableMetadata, ref: str) -> Iterator[Event]:
    if ref not in metadata.refs:
        raise NoSuchRef(f"the table has no branch or tag {ref!r}", hint=suggest(ref, sorted(metadata.refs), "it has"))
    # Ancestors come from new to old; the sort is stable, so equal times must come in the order of their commits.
    for snapshot in reversed(list(ancestors(metadata, metadata.refs[ref].snapshot_id))):
        yield Event(snapshot.timestamp_ms, snapshot.snapshot_id, snapshot, _operation(snapshot))


def _events_of_table(metadata: TableMetadata) -> Iterator[Event]:
    logged: set[int] = set()
    previous: int | None = None
    for entry in history_of(metadata):
        is_rollback = entry.snapshot_id in logged or (
            previous in metadata.snapshots_by_id and is_ancestor_of(metadata, entry.snapshot_id, previous)
        )
        kind = "expired" if entry.snapshot is None else "rollback" if is_rollback else _operation(entry.snapshot)
        yield Event(entry.timestamp_ms, entry.snapshot_id, entry.snapshot, kind, in_current=entry.is_current_ancestor)
        logged.add(entry.snapshot_id)
        previous = entry.snapshot_id
    current = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in logged:
            in_current = snapshot.snapshot_id in current
            yield Event(
                snapshot.timestamp_ms, snapshot.snapshot_id, snapshot, _operation(snapshot), in_current=in_current
            )


def _operation(snapshot: Snapshot) -> str:
    return snapshot.operation or "unknown"


def _print(out: Output, events: Sequence[Event], now_ms: int) -> None:
    columns = [
        Column("snapshot", right=True, style="yellow", may_be_cut=False),
        Column("time", may_be_cut=False),
        Column("", style="dim", may_be_cut=False),
        Column("operation", may_be_cut=False),
        Column("added", right=True, style="green", may_be_cut=False),
        Column("removed", right=True, style="red", may_be_cut=False),
        Column("rows", right=True, may_be_cut=False),
        Column("main", may_be_cut=False),
        Column("refs", style="cyan"),
    ]
    all_current = all(event.in_current for event in events)
    rows = []
    for event in events:
        is_new = event.kind != "rollback"
        total = None if event.snapshot is None else summary_count(event.snapshot.summary, TOTAL_RECORDS)
        rows.append(
            [
                str(event.snapshot_id),
                local_text(event.timestamp_ms),
                ago(event.timestamp_ms, now_ms=now_ms),
                event.kind,
                f"+{event.added:,}" if is_new and event.added else "",
                _removed(event) if is_new else "",
                "" if total is None else f"{total:,}",
                "" if all_current else "yes" if event.in_current else "no",
                ", ".join(event.refs),
            ]
        )
    visible = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    if out.width is not None and out.width < _NARROW:
        visible.remove(1)  # the age is shorter than the time
    out.grid([columns[n] for n in visible], [[row[n] for n in visible] for row in rows])


def _removed(event: Event) -> str:
    if event.removed is None:
        return "" if event.snapshot is None else "some"
    return f"-{event.removed:,}" if event.removed else ""


def _document(event: Event) -> dict[str, Any]:
    snapshot = event.snapshot
    summary = None if snapshot is None else snapshot.summary
    return {
        "snapshot_id": event.snapshot_id,
        "parent_id": None if snapshot is None else snapshot.parent_snapshot_id,
        "time": iso_text(event.timestamp_ms),
        "operation": event.kind,
        "rows_added": event.added,
        "rows_removed": event.removed,
        "rows": summary_count(summary, TOTAL_RECORDS),
        "refs": [name.removeprefix("tag ") for name in event.refs],
        "in_current": event.in_current,
        "expired": snapshot is None,
        "summary": dict(summary or {}),
    }
