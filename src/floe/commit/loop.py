"""The commit loop: load the table, apply the changes, swap the pointer; retry if another commit came first.

Every attempt starts from the newest state, so that no commit of others is overwritten:

| event | consequence |
|---|---|
| another commit came first (`CommitConflict`, `RequirementFailed`) | a wait, and the next attempt |
| a file of the loaded state is missing, and others have committed (and expired it) | the same |
| the change conflicts with others (`ConflictingChange`), or any other error | unused files are deleted, the error is raised |
| the answer to a swap is lost (`OutcomeUnknown`) | the pointer settles it; if it cannot, the commit is searched by its key; if that fails, `CommitStateUnknown` |
| the commit is found in the table, at the start of an attempt | success; nothing is repeated, no branch is moved |
| the process is interrupted, or runs out of memory | nothing is deleted |

With several tables, all of them are published together in one swap, or none.
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from floe.commit.change import Attempt, Change, CreatingChange, ReplacingChange, WritingChange
from floe.commit.outcomes import (
    CommitStatus,
    Committed,
    clean_failed,
    clean_published,
    clean_replaced,
    discard_absent,
    find_commit,
    format_commit_keys,
    is_published,
    resolve_outcome,
    unknown_state_error,
)
from floe.commit.pointer import Outcome, Pointer, Proposal, SharedSwap, TableState
from floe.commit.retry import RetryPolicy, combine_policies, retry_policy
from floe.commit.roots import allow_changed
from floe.errors import (
    CommitConflict,
    CommitFailed,
    CommitStateUnknown,
    FloeError,
    InvalidInput,
    NoSuchFile,
    NoSuchTable,
    OutcomeUnknown,
    TableAlreadyExists,
    UnsupportedFeature,
)
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.requirements import requirements_for
from floe.spec.metadata.table_metadata import TableMetadata, check_same_table
from floe.spec.metadata.updates import AddSnapshot, TableUpdate


class TableChanges(NamedTuple):
    """The changes of one table; with `table_uuid`, another table of the same name is an error."""

    pointer: Pointer
    changes: Sequence[Change]
    table_uuid: str | None = None


def commit(pointer: Pointer, changes: Sequence[Change], *, table_uuid: str | None = None) -> Committed:
    """Commit changes of a table, all in one commit; returns the table's state after it.

    The first change of a new table must be one that creates it. Called again with the same change objects after an
    error or interruption, nothing is applied twice: a commit that succeeded is found by its key.
    """
    (committed,) = commit_all([TableChanges(pointer, changes, table_uuid)])
    return committed


def commit_all(
    tables: Sequence[TableChanges | tuple[Pointer, Sequence[Change]]], shared: SharedSwap | None = None
) -> list[Committed]:
    """Commit changes of several tables, all or none; returns their states in the same order.

    `shared` is the catalog's swap of several tables; without it only one table is allowed.
    """
    tasks = [TableChanges(*table) for table in tables]
    if len(tasks) > 1 and shared is None:
        raise UnsupportedFeature(
            "this catalog cannot publish changes of several tables at once",
            hint="commit them one by one, or use a catalog that can, such as a SQL database",
            tables=", ".join(task.pointer.name for task in tasks),
        )
    names = [task.pointer.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput("a table is named twice in one commit", hint="give all its changes at once", table=name)
    return _CommitRun(tasks, shared).run() if tasks else []


@dataclass(eq=False, slots=True)
class _NewState:
    """The new metadata of one table in an attempt, and the updates that lead to it."""

    metadata: TableMetadata
    updates: tuple[TableUpdate, ...]
    replaces: bool


class _CommitRun:
    """One call of `commit_all`, with its attempts."""

    def __init__(self, tables: Sequence[TableChanges], shared: SharedSwap | None) -> None:
        self.tables, self.shared = tables, shared
        self.environment = tables[0].pointer.environment
        self.started_ms = self.environment.clock.now_ms()
        self.attempts = 0
        self.states: list[TableState | None] = []
        self.initial_snapshots: list[frozenset[int]] = []  # of each table, before the first attempt
        self.unpublished: list[Proposal] = []  # of the last attempt, unless a swap has succeeded
        self.uuids = [table.table_uuid for table in tables]

    def run(self) -> list[Committed]:
        while True:
            self.attempts += 1
            try:
                outcome = self._attempt()
            except CommitStateUnknown:
                raise  # no file may be deleted
            except FloeError as error:
                outcome = error
            if isinstance(outcome, list):
                return outcome
            if not _is_retryable(outcome):
                return self._give_up(outcome)
            if not self._policy().wait(
                self.attempts, self._elapsed_ms(), self.environment.random, self.environment.sleep
            ):
                return self._give_up(outcome, exhausted=True)

    # one attempt --------------------------------------------------------------------------------------------------

    def _attempt(self) -> list[Committed] | FloeError:
        """The tables' states after the commit, or the error of the swap; errors before the swap are raised."""
        try:
            states = self._load()
            if (committed := self._find_published(states)) is not None:
                return committed
            self._discard_unpublished(states)
            try:
                proposals = self._proposals(states)
            except NoSuchFile as error:
                if not self._has_moved(states):
                    raise
                return CommitConflict(f"a file of the loaded state is missing: {error.message}", **error.context)
        except OutcomeUnknown as error:
            # Only the swap publishes, and it was not sent: unknown is only whether some unreferenced file was written.
            return CommitFailed(
                f"the change was not published: a file of it could not be written, {error.message}",
                hint="repeat the change",
                **{"table": self._names(), **error.context},
            )
        if not proposals:
            return self._finish(states, [], CommitStatus.UNCHANGED)
        return self._publish(states, proposals)

    def _load(self) -> list[TableState | None]:
        states = [table.pointer.load() for table in self.tables]
        for index, (table, state) in enumerate(zip(self.tables, states, strict=True)):
            self.uuids[index] = _check_uuid(table, state, self.uuids[index])
        self.states = states
        if not self.initial_snapshots:
            self.initial_snapshots = [
                frozenset(() if state is None else state.metadata.snapshots_by_id) for state in states
            ]
        return states

    def _find_published(self, states: Sequence[TableState | None]) -> list[Committed] | None:
        """The outcome of an earlier attempt, or of an earlier call, that was published after all."""
        for table, state in zip(self.tables, states, strict=True):
            status = None if state is None else find_commit(state.metadata, table.changes)
            if status is not None:
                return self._finish(states, [], status)
        by_pointer = {id(table.pointer): state for table, state in zip(self.tables, states, strict=True)}
        if self.unpublished and all(
            is_published(proposal, by_pointer[id(proposal.pointer)]) for proposal in self.unpublished
        ):
            return self._finish(states, [], CommitStatus.FOUND)
        return None

    def _discard_unpublished(self, states: Sequence[TableState | None]) -> None:
        by_pointer = {id(table.pointer): state for table, state in zip(self.tables, states, strict=True)}
        unpublished, self.unpublished = self.unpublished, []
        discard_absent(unpublished, lambda proposal: by_pointer[id(proposal.pointer)])

    def _has_moved(self, states: Sequence[TableState | None]) -> bool:
        """Whether others have committed since these states were loaded, so that files of them may be deleted."""
        now = [table.pointer.load() for table in self.tables]
        return any(
            old is not None and new is not None and old.location != new.location
            for old, new in zip(states, now, strict=True)
        )

    def _proposals(self, states: Sequence[TableState | None]) -> list[Proposal]:
        new_states = [self._apply(table, state) for table, state in zip(self.tables, states, strict=True)]
        proposals = []
        for table, state, new in zip(self.tables, states, new_states, strict=True):
            if new is None:
                continue
            before = None if state is None else state.metadata
            requirements = requirements_for(new.updates, before, replacing=new.replaces)
            allow_changed(table.pointer.storage, before, new.metadata, lasting=True)
            try:
                proposal = table.pointer.propose(state, new.metadata, updates=new.updates, requirements=requirements)
            except TableAlreadyExists as error:
                raise self._creation_conflict(error) from error
            proposals.append(replace(proposal, pointer=table.pointer))  # a pointer may be wrapped in another
            self.unpublished = list(proposals)  # here, so that this one is discarded if the next table fails
        return proposals

    def _apply(self, table: TableChanges, state: TableState | None) -> _NewState | None:
        """Apply the changes of a table to its state, one after the other; None if they change nothing."""
        start = None if state is None else state.metadata
        location = None if state is None else state.location
        now_ms = _time_of_commit(self.environment.clock.now_ms(), start)
        new_uuid = str(self.environment.ids.uuid()) if start is not None and start.table_uuid is None else None
        metadata, updates, steps, replaces = start, list[TableUpdate](), 0, False
        for change in table.changes:
            new = self._updates_of(change, table, metadata, start, now_ms)
            replaces = replaces or (isinstance(change, ReplacingChange) and change.replaces)
            if not new:
                continue
            steps += 1
            updates += new
            now_ms = max([now_ms, *(u.snapshot.timestamp_ms for u in new if isinstance(u, AddSnapshot))])
            metadata = apply(metadata, new, now_ms=now_ms, metadata_location=location, new_uuid=new_uuid)
        if steps > 1:  # all updates again, at once, so that each log gets one entry
            metadata = apply(start, updates, now_ms=now_ms, metadata_location=location, new_uuid=new_uuid)
        if metadata is None or metadata is start:
            return None
        return _NewState(metadata, tuple(updates), replaces)

    def _updates_of(
        self,
        change: Change,
        table: TableChanges,
        metadata: TableMetadata | None,
        start: TableMetadata | None,
        now_ms: int,
    ) -> Sequence[TableUpdate]:
        pointer = table.pointer
        if metadata is None:
            if not isinstance(change, CreatingChange):
                raise NoSuchTable("there is no such table", hint="it may have been dropped", table=pointer.name)
            return change.creation()
        attempt = Attempt(pointer.name, metadata, start, pointer.storage, pointer.environment, self.attempts, now_ms)
        try:
            return change.updates(attempt)
        except FloeError as error:
            error.with_context(table=pointer.name)
            raise

    # the swap -----------------------------------------------------------------------------------------------------

    def _publish(
        self, states: Sequence[TableState | None], proposals: Sequence[Proposal]
    ) -> list[Committed] | FloeError:
        try:
            outcome = self._send(proposals)
        except TableAlreadyExists as error:
            return self._creation_conflict(error)
        except FloeError as error:
            return error
        except BaseException as error:
            error.add_note(
                f"The change of {self._names()} may have been published or not: the swap was interrupted. No file was "
                f"deleted. Look for {format_commit_keys(self._changes()) or proposals[0].location} in the table."
            )
            raise
        if outcome is Outcome.UNKNOWN:
            return self._search_commit(proposals)
        if outcome is Outcome.ABSENT:
            return CommitConflict("the change did not reach the table", table=self._names())
        self.unpublished = []
        return self._finish(states, proposals, CommitStatus.PUBLISHED)

    def _send(self, proposals: Sequence[Proposal]) -> Outcome:
        try:
            self._swap(proposals)
        except OutcomeUnknown:
            return resolve_outcome(proposals, self._settle, self.environment)
        return Outcome.PUBLISHED

    def _creation_conflict(self, error: TableAlreadyExists) -> FloeError:
        """The error for a table that another commit created first: retryable if the table can be loaded by now."""
        try:
            absent = any(table.pointer.load() is None for table in self.tables)
        except FloeError:
            absent = True
        return error if absent else CommitConflict(error.message, **error.context)

    def _swap(self, proposals: Sequence[Proposal]) -> None:
        if len(proposals) == 1:
            proposals[0].pointer.swap(proposals[0])
        else:
            assert self.shared is not None
            self.shared.swap_all(proposals)

    def _settle(self, proposals: Sequence[Proposal]) -> Outcome:
        if len(proposals) == 1:
            return proposals[0].pointer.settle(proposals[0])
        assert self.shared is not None
        return self.shared.settle_all(proposals)

    def _search_commit(self, proposals: Sequence[Proposal]) -> list[Committed]:
        """Search the commit by its key if the pointer cannot settle the swap.

        Raises `CommitStateUnknown` if it is not found: that proves nothing, because the swap may still arrive.
        """
        try:
            committed = self._find_published(self._load())
        except FloeError:
            committed = None
        if committed is None:
            raise unknown_state_error(proposals, self._changes())
        return committed

    # the end ------------------------------------------------------------------------------------------------------

    def _finish(
        self, states: Sequence[TableState | None], proposals: Sequence[Proposal], status: CommitStatus
    ) -> list[Committed]:
        """Clean up after a commit, and return its outcome; an error of the cleanup does not change the outcome."""
        by_pointer = {id(proposal.pointer): proposal for proposal in proposals}
        results = []
        for table, state in zip(self.tables, states, strict=True):
            proposal = by_pointer.get(id(table.pointer))
            after = state if proposal is None else proposal.state
            if after is None:
                raise NoSuchTable("there is no such table", table=table.pointer.name)
            unchanged = proposal is None and status is CommitStatus.PUBLISHED  # only other tables were changed
            table_status = CommitStatus.UNCHANGED if unchanged else status
            results.append(Committed(after.metadata, after.location, table_status, self.attempts))
        try:
            for proposal in proposals:
                _finish_proposal(proposal)
            return [
                self._clean_up(table, committed, by_pointer.get(id(table.pointer)))
                for table, committed in zip(self.tables, results, strict=True)
            ]
        except Exception:  # out of memory, for example: the commit has succeeded all the same
            return results
        except BaseException as error:
            error.add_note(f"The change of {self._names()} had been published; only clean-up was interrupted.")
            raise

    def _clean_up(self, table: TableChanges, committed: Committed, proposal: Proposal | None) -> Committed:
        if committed.status is CommitStatus.UNCHANGED:
            if any(isinstance(change, WritingChange) and change.written() for change in table.changes):
                fresh = table.pointer.load()
                _check_uuid(table, fresh, committed.metadata.table_uuid)
                self._clean_failed(table, fresh)  # files of earlier attempts
            return committed
        uncertain = committed.status is not CommitStatus.PUBLISHED
        notes = clean_published(table.pointer, table.changes, committed, uncertain=uncertain)
        if proposal is not None:
            notes += clean_replaced(proposal)
        return replace(committed, notes=(*committed.notes, *notes)) if notes else committed

    def _give_up(self, error: FloeError, *, exhausted: bool = False) -> list[Committed]:
        """Search the commit once more; if it is not in the table, delete unused files and raise the error."""
        states: Sequence[TableState | None] | None = None
        if exhausted or self.unpublished or any(isinstance(change, WritingChange) for change in self._changes()):
            try:
                states = self._load()
            except FloeError:
                states = None  # the state is unknown, or another table has the name now: nothing is deleted
        if states is not None:
            if (committed := self._find_published(states)) is not None:
                return committed
            self._discard_unpublished(states)
            for table, state in zip(self.tables, states, strict=True):
                if state is not None or _creates(table):
                    self._clean_failed(table, state)
        if exhausted:
            raise self._exhausted_error(states) from error
        raise error

    def _clean_failed(self, table: TableChanges, fresh: TableState | None) -> None:
        older = self.initial_snapshots[self.tables.index(table)]
        clean_failed(table.pointer, table.changes, fresh, older=older)

    def _exhausted_error(self, states: Sequence[TableState | None] | None) -> CommitConflict:
        snapshots = [state.metadata.snapshots[-1] for state in states or () if state and state.metadata.snapshots]
        last = max(snapshots, key=lambda snapshot: snapshot.timestamp_ms, default=None)
        winner = None if last is None else f"snapshot {last.snapshot_id} ({last.operation or 'unknown operation'})"
        return CommitConflict(
            f"the change was not published: others committed first in each of {self.attempts} attempts within "
            f"{self._elapsed_ms() / 1000:.1f} s",
            hint="retry when fewer writers commit at the same time, or raise the table's commit.retry.num-retries",
            table=self._names(),
            last=winner,
        )

    # helpers ------------------------------------------------------------------------------------------------------

    def _policy(self) -> RetryPolicy:
        return combine_policies(retry_policy(state.metadata.properties) for state in self.states if state is not None)

    def _elapsed_ms(self) -> int:
        return self.environment.clock.now_ms() - self.started_ms

    def _names(self) -> str:
        return ", ".join(table.pointer.name for table in self.tables)

    def _changes(self) -> list[Change]:
        return [change for table in self.tables for change in table.changes]


def _is_retryable(error: FloeError) -> bool:
    return isinstance(error, CommitConflict) and error.retryable


def _creates(table: TableChanges) -> bool:
    return bool(table.changes) and isinstance(table.changes[0], CreatingChange)


def _check_uuid(table: TableChanges, state: TableState | None, uuid: str | None) -> str | None:
    """The uuid of a table; raises if another table has its name now."""
    if state is None:
        return uuid
    check_same_table(uuid, state.metadata.table_uuid, table.pointer.name)
    return state.metadata.table_uuid


def _time_of_commit(clock_ms: int, start: TableMetadata | None) -> int:
    """The current time, but not before the last timestamp of the table: the clocks of writers differ."""
    if start is None:
        return clock_ms
    last = start.snapshot_log[-1].timestamp_ms if start.snapshot_log else 0
    return max(clock_ms, start.last_updated_ms, last)


def _finish_proposal(proposal: Proposal) -> None:
    try:
        proposal.pointer.finish(proposal)
    except Exception:  # it must not raise; if it does, the commit has succeeded all the same
        return
