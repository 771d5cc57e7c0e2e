"""What became of a commit: found by its key, settled after a lost answer, or said to be unknown.

No answer of a swap is trusted to be the last word. A commit that was answered with a conflict, with silence or not at
all (the process ended) may have been published all the same, and others may have built on it. So before anything is
tried again or deleted, the table is read and the commit is searched in it:

| found | outcome |
|---|---|
| its snapshot, in the history of its branch | published; the branch is left where it is, with what others added since |
| its snapshot, but not in the branch's history | published, and rolled back since: said so, not done again |
| its id as the parent of a snapshot | published, and expired since |
| the table's own uuid (creating a table) | published |
| its metadata file in the metadata log | published |
| none of these, and the swap is known to be over | not published |
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
    """How a commit came to its end."""

    PUBLISHED = "published"
    """By this call."""

    FOUND = "found"
    """An earlier attempt had published it, though its answer said otherwise or was lost."""

    ROLLED_BACK = "rolled back"
    """It was published before, and somebody took it out of the branch since; it was not done again."""

    UNCHANGED = "unchanged"
    """There was nothing to do."""


@dataclass(frozen=True, eq=False, slots=True)
class Committed(TableState):
    """The table's state after a commit, and how it came to it."""

    status: CommitStatus = CommitStatus.PUBLISHED
    attempts: int = 1
    notes: tuple[str, ...] = ()
    """What a person may want to know, such as clean-up that did not succeed. None of it makes the commit less done."""


# searching --------------------------------------------------------------------------------------------------------


def find_commit(metadata: TableMetadata, changes: Iterable[Change]) -> CommitStatus | None:
    """How a table shows that the changes were published together, or None if it does not.

    One key is enough, for changes are published all or none.
    """
    found = [landing for change in changes if (landing := _found(metadata, change)) is not None]
    if CommitStatus.ROLLED_BACK in found:
        return CommitStatus.ROLLED_BACK
    return found[0] if found else None


def _found(metadata: TableMetadata, change: Change) -> CommitStatus | None:
    if isinstance(change, CreatingChange) and (metadata.table_uuid or "").lower() == change.table_uuid.lower():
        return CommitStatus.FOUND
    if not isinstance(change, KeyedChange) or not change.commit_id:
        return None  # it has no key before its first attempt
    snapshot = metadata.snapshots_by_id.get(change.snapshot_id)
    if snapshot is None:
        # An expired snapshot lives on as the parent of those after it.
        heir = any(other.parent_snapshot_id == change.snapshot_id for other in metadata.snapshots)
        return CommitStatus.FOUND if heir else None
    if (snapshot.summary or {}).get(COMMIT_ID) != change.commit_id:
        return None  # somebody else's, with the same number: the table refuses a second one
    return CommitStatus.FOUND if _is_where_it_belongs(metadata, change) else CommitStatus.ROLLED_BACK


def _is_where_it_belongs(metadata: TableMetadata, change: KeyedChange) -> bool:
    branch = change.branch if isinstance(change, BranchChange) else MAIN_BRANCH
    if branch is None:
        return True  # staged: no branch has it
    ref = metadata.refs.get(branch)
    if ref is None:
        return False
    # where history has expired, nobody can say that it was rolled back
    return (
        is_ancestor_of(metadata, change.snapshot_id, ref.snapshot_id)
        or unknown_before(metadata, ref.snapshot_id, change.snapshot_id) is not None
    )


def names_metadata_file(state: TableState, location: str) -> bool:
    """Whether a table's state is held by a metadata file, or came after it by its log."""
    names = (state.location, *(entry.metadata_file for entry in state.metadata.metadata_log))
    return any(same_file(name, location) for name in names)


def is_published(proposal: Proposal, state: TableState | None) -> bool:
    """Whether a proposal that was answered with a conflict was published all the same, by what the table says now.

    A file name with a random part can only be this proposal's. One without it, as file-system tables have, may be the
    winner's of the race, so the pointer is asked, which looks into the file.
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


# settling ---------------------------------------------------------------------------------------------------------


def resolve_outcome(
    proposals: Sequence[Proposal], settle: Callable[[Sequence[Proposal]], Outcome], environment: Environment
) -> Outcome:
    """What became of a swap whose answer was lost, asked as often as the tables' `commit.status-check.*` say."""
    policy = combine_policies(retry_policy(proposal.metadata.properties, COMMIT_STATUS_CHECK) for proposal in proposals)
    began_ms = environment.clock.now_ms()
    asked = 0
    while True:
        asked += 1
        try:
            outcome = settle(proposals)
        except FloeError:
            outcome = Outcome.UNKNOWN
        if outcome is not Outcome.UNKNOWN:
            return outcome
        elapsed_ms = environment.clock.now_ms() - began_ms
        if not policy.wait(asked, elapsed_ms, environment.random, environment.sleep):
            return outcome


# telling ----------------------------------------------------------------------------------------------------------


def format_commit_keys(changes: Iterable[Change]) -> str:
    """The keys of changes, for people."""
    keys = [_key_text(change) for change in changes]
    return ", ".join(key for key in keys if key)


def _key_text(change: Change) -> str:
    if isinstance(change, KeyedChange) and change.commit_id:
        return f"snapshot {change.snapshot_id} with {COMMIT_ID} {change.commit_id}"
    return f"table uuid {change.table_uuid}" if isinstance(change, CreatingChange) else ""


def unknown_state_error(proposals: Sequence[Proposal], changes: Iterable[Change]) -> CommitStateUnknown:
    """The error that says what to look for."""
    tables = ", ".join(proposal.pointer.name for proposal in proposals)
    files = ", ".join(proposal.location for proposal in proposals)
    keys = format_commit_keys(changes)
    look_for = f"{keys}, or the metadata file" if keys else "the metadata file"
    return CommitStateUnknown(
        "the change may have been published or not: the answer was lost, and the table could not tell; no file was "
        "deleted",
        hint=f"when the table can be read again look for {look_for}; if it is there the change is done, and if the "
        "table moved on without it the change can be made again",
        table=tables,
        commit=keys or None,
        metadata=files,
    )
