"""`floe history`: the snapshots of a table, when each was made current, and which of them still count.

The snapshot log tells what was current on `main`, and when. A snapshot that comes up in it again, or that is an
ancestor of the one before, is a rollback. Snapshots that the log does not have are those of other branches, and those
that were staged; they stand where they were made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from floe.cli.naming import Where, find_table, near
from floe.cli.output import Output, results
from floe.cli.work.listing import summary_count
from floe.errors import NoSuchRef
from floe.show.grid import Column
from floe.show.times import ago, iso_text, local_text
from floe.spec.metadata.history import ancestors, is_ancestor_of
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.summaries import (
    ADDED_EQUALITY_DELETES,
    ADDED_POSITION_DELETES,
    ADDED_RECORDS,
    DELETED_RECORDS,
    REMOVED_POSITION_DELETES,
    TOTAL_RECORDS,
)
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.history import history_of

__all__ = ["Event", "events_of", "show_history"]

_NARROW: Final = 110


@dataclass(frozen=True)
class Event:
    """Something that happened: a snapshot was made or came to be what readers see."""

    timestamp_ms: int
    snapshot_id: int
    snapshot: Snapshot | None
    """The snapshot; None if it has expired."""

    what: str
    """The operation of a new snapshot, `rollback` where an old one became current again, `expired`."""

    refs: tuple[str, ...] = ()
    """The branches and tags that are at this snapshot now; only with its newest event."""

    in_current: bool = True
    """Whether what readers of main, or of the chosen branch, see now is built on it."""

    @property
    def added(self) -> int | None:
        """The rows that came with it."""
        return None if self.snapshot is None else summary_count(self.snapshot.summary, ADDED_RECORDS)

    @property
    def removed(self) -> int | None:
        """The rows that it removed with their files, and by position deletes; None if equality deletes did, too."""
        if self.snapshot is None or summary_count(self.snapshot.summary, ADDED_EQUALITY_DELETES):
            return None
        summary = self.snapshot.summary
        by_position = (summary_count(summary, ADDED_POSITION_DELETES) or 0) - (
            summary_count(summary, REMOVED_POSITION_DELETES) or 0
        )
        return (summary_count(summary, DELETED_RECORDS) or 0) + max(by_position, 0)


def show_history(
    name: str,
    catalog: str | None,
    options: Mapping[str, Any],
    *,
    ref: str | None = None,
    limit: int | None = None,
    as_json: bool = False,
) -> None:
    """Print what happened to a table."""
    out = results()
    found = find_table(name, Where(catalog, options))
    metadata = found.state.metadata
    events = list(events_of(metadata, ref))[:limit]
    if as_json:
        out.json([_document(event) for event in events])
    elif not events:
        out.line(f"{found.name} has no snapshot yet")
    else:
        _print(out, events, found.pointer.environment.clock.now_ms())


def events_of(metadata: TableMetadata, ref: str | None = None) -> Iterator[Event]:
    """What happened, newest first: to the whole table, or what led to a branch or tag."""
    labels: dict[int, list[str]] = {}
    for name, target in sorted(metadata.refs.items(), key=lambda item: (item[0] != MAIN_BRANCH, item[0])):
        labels.setdefault(target.snapshot_id, []).append(name if target.is_branch else f"tag {name}")
    happened = _of_ref(metadata, ref) if ref is not None else _of_table(metadata)
    in_order = sorted(happened, key=_moment)
    for event in reversed(in_order):  # of equal times, the last one first
        refs = tuple(labels.pop(event.snapshot_id, ()))
        yield Event(event.timestamp_ms, event.snapshot_id, event.snapshot, event.what, refs, event.in_current)


def _moment(event: Event) -> tuple[int, bool, int]:
    """When it happened; the snapshots of one transaction have one time, and numbers (a rollback makes no snapshot)."""
    made_none = event.snapshot is None or event.what == "rollback"
    return event.timestamp_ms, made_none, 0 if event.snapshot is None or made_none else event.snapshot.sequence_number


def _of_ref(metadata: TableMetadata, ref: str) -> Iterator[Event]:
    if ref not in metadata.refs:
        raise NoSuchRef(f"the table has no branch or tag {ref!r}", hint=near(ref, sorted(metadata.refs), "it has"))
    # The walk is from new to old; the sorting is stable, so equal times must come in the order they were made.
    for snapshot in reversed(list(ancestors(metadata, metadata.refs[ref].snapshot_id))):
        yield Event(snapshot.timestamp_ms, snapshot.snapshot_id, snapshot, _operation(snapshot))


def _of_table(metadata: TableMetadata) -> Iterator[Event]:
    seen: set[int] = set()
    before: int | None = None
    for entry in history_of(metadata):
        again = entry.snapshot_id in seen or (
            before in metadata.snapshots_by_id and is_ancestor_of(metadata, entry.snapshot_id, before)
        )
        what = "expired" if entry.snapshot is None else "rollback" if again else _operation(entry.snapshot)
        yield Event(entry.timestamp_ms, entry.snapshot_id, entry.snapshot, what, in_current=entry.is_current_ancestor)
        seen.add(entry.snapshot_id)
        before = entry.snapshot_id
    current = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in seen:
            in_current = snapshot.snapshot_id in current
            yield Event(
                snapshot.timestamp_ms, snapshot.snapshot_id, snapshot, _operation(snapshot), in_current=in_current
            )


def _operation(snapshot: Snapshot) -> str:
    return snapshot.operation or "made"


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
        is_new = event.what != "rollback"
        total = None if event.snapshot is None else summary_count(event.snapshot.summary, TOTAL_RECORDS)
        rows.append(
            [
                str(event.snapshot_id),
                local_text(event.timestamp_ms),
                ago(event.timestamp_ms, now_ms=now_ms),
                event.what,
                f"+{event.added:,}" if is_new and event.added else "",
                _removed(event) if is_new else "",
                "" if total is None else f"{total:,}",
                "" if all_current else "yes" if event.in_current else "no",
                ", ".join(event.refs),
            ]
        )
    shown = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    if out.width is not None and out.width < _NARROW:
        shown.remove(1)  # how long ago it was takes less room than when it was
    out.grid([columns[n] for n in shown], [[row[n] for n in shown] for row in rows])


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
        "operation": event.what,
        "rows_added": event.added,
        "rows_removed": event.removed,
        "rows": summary_count(summary, TOTAL_RECORDS),
        "refs": [name.removeprefix("tag ") for name in event.refs],
        "in_current": event.in_current,
        "expired": snapshot is None,
        "summary": dict(summary or {}),
    }
