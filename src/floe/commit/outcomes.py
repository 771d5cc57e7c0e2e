"""The outcome of a commit: how it is found in a table, and how a swap whose answer was lost is resolved.

The answer of a swap is not reliable. A commit that was answered with a conflict, or not at all, may have been
published, and others may have built on it. So before anything is retried or deleted, the table is loaded and the commit
is searched in it:

| found | outcome |
|---|---|
| its snapshot, in the history of its branch | published; the branch stays where it is, with what others added since |
| its snapshot, but not in the history of the branch | published, and rolled back since: reported, not repeated |
| its snapshot id as the parent of another snapshot | published, and expired since |
| the uuid of the table that it creates | published |
| its metadata file in the metadata log | published |
| none of these, and the swap has ended | not published |
| none of these, and the swap may still arrive | unknown: nothing is deleted, nothing is sent again |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from floe.commit.change import COMMIT_ID, BranchChange, Change, CreatingChange, KeyedChange
from floe.commit.pointer import Outcome, Proposal, TableState
from floe.commit.retry import combine_policies, retry_policy
from floe.errors import CommitStateUnknown, FloeError
from floe.spec.metadata.ancestry import is_ancestor_of, unknown_before
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.spec.metadata.snapshots import MAIN_BRANCH
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import COMMIT_STATUS_CHECK
from floe.storage.environment import Environment
from floe.storage.locations import same_file


class CommitStatus(Enum):
    """How a commit ended."""

    PUBLISHED = "published"
    """This call published the changes."""

    FOUND = "found"
    """An earlier attempt had published them, though its answer was lost or said otherwise."""

    ROLLED_BACK = "rolled back"
    """They were published before, and have been rolled back since; they were not applied again."""

    UNCHANGED = "unchanged"
    """The changes had no effect."""


@dataclass(frozen=True, eq=False, slots=True)
class Committed(TableState):
    """The table's state after a commit, and how the commit ended."""

    status: CommitStatus = CommitStatus.PUBLISHED
    attempts: int = 1
    notes: tuple[str, ...] = ()
    """Messages for users, such as cleanup that failed; the commit has succeeded all the same."""


# Search of a commit -----------------------------------------------------------------------------------------------


def find_commit(metadata: TableMetadata, changes: Iterable[Change]) -> CommitStatus | None:
    """The status of a commit in a table's metadata; None if it is not there.

    It is enough to find one of the changes, because all are published together or none.
    """
    statuses = [status for change in changes if (status := _find_change(metadata, change)) is not None]
    if CommitStatus.ROLLED_BACK in statuses:
        return CommitStatus.ROLLED_BACK
    return statuses[0] if statuses else None


def _find_change(metadata: TableMetadata, change: Change) -> CommitStatus | None:
    if isinstance(change, CreatingChange) and (metadata.table_uuid or "").lower() == change.table_uuid.lower():
        return CommitStatus.FOUND
    if not isinstance(change, KeyedChange) or not change.commit_id:
        return None  # it has no key before its first attempt
    snapshot = metadata.snapshots_by_id.get(change.snapshot_id)
    if snapshot is None:
        # An expired snapshot is still the parent of others.
        is_parent = any(other.parent_snapshot_id == change.snapshot_id for other in metadata.snapshots)
        return CommitStatus.FOUND if is_parent else None
    if (snapshot.summary or {}).get(COMMIT_ID) != change.commit_id:
        return None  # a snapshot of another commit with the same id
    return CommitStatus.FOUND if _is_in_history(metadata, change) else CommitStatus.ROLLED_BACK


def _is_in_history(metadata: TableMetadata, change: KeyedChange) -> bool:
    """Whether the snapshot of a change is in the history of its branch, or may be in a part that has expired."""
    branch = change.branch if isinstance(change, BranchChange) else MAIN_BRANCH
    if branch is None:
        return True  # staged: on no branch
    ref = metadata.refs.get(branch)
    if ref is None:
        return False
    return (
        is_ancestor_of(metadata, change.snapshot_id, ref.snapshot_id)
        or unknown_before(metadata, ref.snapshot_id, change.snapshot_id) is not None
    )


def names_metadata_file(state: TableState, location: str) -> bool:
    """Whether a metadata file is the current one of a table, or in its metadata log."""
    locations = (state.location, *(entry.metadata_file for entry in state.metadata.metadata_log))
    return any(same_file(logged, location) for logged in locations)


def is_published(proposal: Proposal, state: TableState | None) -> bool:
    """Whether a proposal that was answered with a conflict was published all the same, given the table's state now.

    A file name with a uuid can only be that of this proposal. One without it, as in file-system tables, may be that of
    another commit which came first, so the pointer compares the content of the file.
    """
    if state is None or not names_metadata_file(state, proposal.location):
        return False
    name = parse_metadata_file_name(proposal.location)
    if name is not None and name.uuid is not None:
        return True
    try:
        return proposal.pointer.settle(proposal) is Outcome.PUBLISHED
    except FloeError:
        return False


# Lost answers -----------------------------------------------------------------------------------------------------


def resolve_outcome(
    proposals: Sequence[Proposal], settle: Callable[[Sequence[Proposal]], Outcome], environment: Environment
) -> Outcome:
    """The outcome of a swap whose answer was lost, with the retries of the tables' `commit.status-check.*`."""
    policy = combine_policies(retry_policy(proposal.metadata.properties, COMMIT_STATUS_CHECK) for proposal in proposals)
    started_ms = environment.clock.now_ms()
    attempts = 0
    while True:
        attempts += 1
        try:
            outcome = settle(proposals)
        except FloeError:
            outcome = Outcome.UNKNOWN
        if outcome is not Outcome.UNKNOWN:
            return outcome
        elapsed_ms = environment.clock.now_ms() - started_ms
        if not policy.wait(attempts, elapsed_ms, environment.random, environment.sleep):
            return outcome


# Error messages ---------------------------------------------------------------------------------------------------


def format_commit_keys(changes: Iterable[Change]) -> str:
    """The keys of changes, for messages."""
    keys = [_key_text(change) for change in changes]
    return ", ".join(key for key in keys if key)


def _key_text(change: Change) -> str:
    if isinstance(change, KeyedChange) and change.commit_id:
        return f"snapshot {change.snapshot_id} with {COMMIT_ID} {change.commit_id}"
    return f"table uuid {change.table_uuid}" if isinstance(change, CreatingChange) else ""


def unknown_state_error(proposals: Sequence[Proposal], changes: Iterable[Change]) -> CommitStateUnknown:
    """The error for a commit with an unknown outcome, which says what to look for in the table."""
    tables = ", ".join(proposal.pointer.name for proposal in proposals)
    files = ", ".join(proposal.location for proposal in proposals)
    keys = format_commit_keys(changes)
    look_for = f"{keys}, or the metadata file" if keys else "the metadata file"
    return CommitStateUnknown(
        "the change may have been published or not: the answer was lost, and the table could not tell; no file was "
        "deleted",
        hint=f"when the table can be read again look for {look_for}; if it is there the change is committed, and if "
        "the table has newer commits without it, the change can be repeated",
        table=tables,
        commit=keys or None,
        metadata=files,
    )
