"""Applying updates of what a table holds: snapshots, branches and tags, statistics; and the log of current snapshots.

Each function changes a draft as one update says, or raises why it cannot.
"""

from __future__ import annotations

from typing import Any

from floe.errors import CommitConflict, InvalidUpdate
from floe.spec.metadata._draft import Draft
from floe.spec.metadata.checks import CLOCK_SKEW_MS
from floe.spec.metadata.logs import SnapshotLogEntry
from floe.spec.metadata.refs import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.snapshots import OPERATION, Snapshot
from floe.spec.metadata.updates import (
    AddSnapshot,
    RemovePartitionStatistics,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
)

__all__ = [
    "add_snapshot",
    "remove_partition_statistics",
    "remove_ref",
    "remove_snapshots",
    "remove_statistics",
    "set_partition_statistics",
    "set_ref",
    "set_statistics",
    "updated_snapshot_log",
]

_MAX_LONG = 2**63 - 1

# snapshots --------------------------------------------------------------------------------------------------------


def add_snapshot(draft: Draft, update: AddSnapshot) -> None:
    """A snapshot comes after all others: its sequence number, and in v3 its row ids, follow theirs.

    One that was made for an earlier state of the table is a conflict, not a mistake: made again it can succeed.
    """
    metadata, snapshot = draft.metadata, update.snapshot
    if not (metadata.schemas and metadata.partition_specs and metadata.sort_orders):
        raise InvalidUpdate("a snapshot cannot be added before the table has a schema, partition spec and sort order")
    _check_snapshot_id(draft, snapshot)
    _check_required_fields(snapshot, metadata.format_version)
    if snapshot.schema_id is not None and snapshot.schema_id not in metadata.schemas_by_id:
        raise InvalidUpdate(
            f"snapshot {snapshot.snapshot_id} was written with schema {snapshot.schema_id}, unknown here"
        )

    last = metadata.last_sequence_number
    # A snapshot without parent has nothing before it, and so nothing to come after (as in Java).
    if metadata.format_version > 1 and snapshot.sequence_number <= last and snapshot.parent_snapshot_id is not None:
        raise CommitConflict(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, "
            f"but the table is at {last} already",
            hint=f"make the snapshot again, with number {last + 1}",
            snapshot=snapshot.snapshot_id,
        )
    draft.change(
        last_sequence_number=max(last, snapshot.sequence_number),
        next_row_id=_next_row_id(snapshot, metadata.next_row_id),
    )
    draft.parent_ids.add(snapshot.parent_snapshot_id)
    draft.snapshots[snapshot.snapshot_id] = snapshot
    draft.added_snapshots.add(snapshot.snapshot_id)


def _check_snapshot_id(draft: Draft, snapshot: Snapshot) -> None:
    snapshot_id = snapshot.snapshot_id
    if snapshot_id < 0:
        raise InvalidUpdate(f"a snapshot id must be positive, found {snapshot_id}")
    if snapshot_id in draft.snapshots:
        raise InvalidUpdate(f"the table has a snapshot {snapshot_id} already", hint="choose another id")
    # An expired snapshot's id lives on in its children; used again, it would join them to a history that is not theirs.
    if snapshot_id == snapshot.parent_snapshot_id or snapshot_id in draft.parent_ids:
        raise InvalidUpdate(f"{snapshot_id} is the id of a snapshot's parent", hint="choose another id")
    if snapshot_id in draft.removed_snapshots:
        raise InvalidUpdate(f"snapshot {snapshot_id} is removed by the same updates", hint="choose another id")


def _check_required_fields(snapshot: Snapshot, format_version: int) -> None:
    """Spec, Snapshots: what each format version requires, and what came only with a later one."""
    problem = None
    if format_version < 2:
        if snapshot.sequence_number != 0:
            problem = f"sequence number {snapshot.sequence_number}, but format version 1 has none"
        elif snapshot.manifest_list is None and snapshot.manifests is None:
            problem = "neither a manifest list nor manifests"
    elif snapshot.sequence_number < 0:
        problem = f"the negative sequence number {snapshot.sequence_number}"
    elif snapshot.manifest_list is None:
        problem = f"no manifest list, which format version {format_version} requires"
    elif not snapshot.summary or OPERATION not in snapshot.summary:
        problem = f"no operation in its summary, which format version {format_version} requires"
    if problem is None and snapshot.manifest_list is not None and snapshot.manifests is not None:
        problem = "both a manifest list and manifests"
    if problem is None and format_version < 3:
        held = [name for name in ("first_row_id", "added_rows", "key_id") if getattr(snapshot, name) is not None]
        if held:
            problem = f"{held[0].replace('_', '-')}, which came with format version 3"
    if problem is not None:
        raise InvalidUpdate(f"snapshot {snapshot.snapshot_id} has {problem}", snapshot=snapshot.snapshot_id)


def _next_row_id(snapshot: Snapshot, next_row_id: int | None) -> int | None:
    """Spec, Snapshot Row IDs: a snapshot takes ids from the table's next one on, on whatever branch it is."""
    if next_row_id is None:
        return None
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        missing = "first-row-id" if snapshot.first_row_id is None else "added-rows"
        raise InvalidUpdate(
            f"snapshot {snapshot.snapshot_id} has no {missing}, "
            "which format version 3 requires even if no row is added",
            snapshot=snapshot.snapshot_id,
        )
    if snapshot.first_row_id < next_row_id:
        raise CommitConflict(
            f"snapshot {snapshot.snapshot_id} has first-row-id {snapshot.first_row_id}, "
            f"but the table's next row id is {next_row_id} already",
            hint="make the snapshot again, with the table's next row id",
            snapshot=snapshot.snapshot_id,
        )
    if snapshot.added_rows < 0 or snapshot.first_row_id + snapshot.added_rows > _MAX_LONG:
        raise InvalidUpdate(f"snapshot {snapshot.snapshot_id} cannot have added {snapshot.added_rows} rows")
    return snapshot.first_row_id + snapshot.added_rows


def remove_snapshots(draft: Draft, update: RemoveSnapshots) -> None:
    """With them go the refs that point at them and their statistics; the log is cut when all updates are applied."""
    gone = draft.snapshots.keys() & set(update.snapshot_ids)
    if not gone:
        return
    metadata = draft.metadata
    draft.removed_snapshots |= gone
    draft.added_snapshots -= gone
    for snapshot_id in gone:
        del draft.snapshots[snapshot_id]
    draft.change(
        statistics=tuple(s for s in metadata.statistics if s.snapshot_id not in gone),
        partition_statistics=tuple(s for s in metadata.partition_statistics if s.snapshot_id not in gone),
    )
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in gone:
            remove_ref(draft, RemoveSnapshotRef(name))


# branches and tags ------------------------------------------------------------------------------------------------


def set_ref(draft: Draft, update: SetSnapshotRef) -> None:
    """The snapshot must be there; `main` is a branch, and where it points is the current snapshot."""
    name, ref = update.name, update.ref
    _check_ref(name, ref)
    if ref.snapshot_id not in draft.snapshots:
        raise InvalidUpdate(f"{ref.type} {name!r} cannot be set to snapshot {ref.snapshot_id}: the table has none such")
    draft.change(refs={**draft.metadata.refs, name: ref})
    if name == MAIN_BRANCH:
        draft.change(current_snapshot_id=ref.snapshot_id)


def _check_ref(name: str, ref: SnapshotRef) -> None:
    """Spec, Snapshot References."""
    if not name:
        raise InvalidUpdate("a branch or tag must have a name")
    if name == MAIN_BRANCH and not ref.is_branch:
        raise InvalidUpdate(f"{MAIN_BRANCH} must be a branch, not a {ref.type}")
    for attribute in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"):
        value, key = getattr(ref, attribute), attribute.replace("_", "-")
        if value is None:
            continue
        if ref.is_tag and attribute != "max_ref_age_ms":
            raise InvalidUpdate(f"tag {name!r} cannot have {key}: that is for branches", hint="use max-ref-age-ms")
        if value <= 0:
            raise InvalidUpdate(f"{key} of {ref.type} {name!r} must be positive, found {value}")


def remove_ref(draft: Draft, update: RemoveSnapshotRef) -> None:
    """A ref that is not there is no matter; without `main` there is no current snapshot."""
    draft.change(refs={name: ref for name, ref in draft.metadata.refs.items() if name != update.name})
    if update.name == MAIN_BRANCH:
        draft.change(current_snapshot_id=None)


# statistics -------------------------------------------------------------------------------------------------------


def set_statistics(draft: Draft, update: SetStatistics) -> None:
    """One file for each snapshot: a new one takes the place of the old."""
    _replace_statistics(draft, "statistics", update.statistics)


def set_partition_statistics(draft: Draft, update: SetPartitionStatistics) -> None:
    """One file for each snapshot: a new one takes the place of the old."""
    _replace_statistics(draft, "partition_statistics", update.partition_statistics)


def remove_statistics(draft: Draft, update: RemoveStatistics) -> None:
    """Statistics that are not there are no matter."""
    kept = tuple(s for s in draft.metadata.statistics if s.snapshot_id != update.snapshot_id)
    draft.change(statistics=kept)


def remove_partition_statistics(draft: Draft, update: RemovePartitionStatistics) -> None:
    """Statistics that are not there are no matter."""
    kept = tuple(s for s in draft.metadata.partition_statistics if s.snapshot_id != update.snapshot_id)
    draft.change(partition_statistics=kept)


def _replace_statistics(draft: Draft, attribute: str, file: Any) -> None:
    if file.snapshot_id not in draft.snapshots:
        raise InvalidUpdate(
            f"there cannot be statistics of snapshot {file.snapshot_id}: the table has none such",
            hint="it may have expired meanwhile",
        )
    others = tuple(s for s in getattr(draft.metadata, attribute) if s.snapshot_id != file.snapshot_id)
    draft.change(**{attribute: (*others, file)})


# the log ----------------------------------------------------------------------------------------------------------


def updated_snapshot_log(draft: Draft) -> tuple[SnapshotLogEntry, ...]:
    """The snapshot log when all updates are applied.

    The current snapshot changes at most once, when the metadata is published, so that snapshots which were current
    only between two updates are not logged. The entry has the time of the snapshot if it was just made, and the time
    of the change if the table went (back) to one that it had. Where snapshots were removed the log begins after the
    last entry of such a one: with a gap in it, it would name wrong snapshots for times in between.
    """
    metadata, base = draft.metadata, draft.base
    log = metadata.snapshot_log
    if draft.removed_snapshots:
        gaps = [n for n, entry in enumerate(log) if entry.snapshot_id not in draft.snapshots]
        log = log[gaps[-1] + 1 :] if gaps else log
    current = metadata.current_snapshot_id
    if current is None or (base is not None and base.current_snapshot_id == current):
        return log
    just_made = current in draft.added_snapshots
    when = draft.snapshots[current].timestamp_ms if just_made else draft.now_ms
    if log and when < log[-1].timestamp_ms - CLOCK_SKEW_MS:
        raise InvalidUpdate(
            f"the current snapshot cannot change at {when} ms: it changed at {log[-1].timestamp_ms} ms last",
            hint="the clock of this machine, or of the one that wrote before, is wrong",
        )
    return (*log, SnapshotLogEntry(timestamp_ms=when, snapshot_id=current))
