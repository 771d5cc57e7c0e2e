"""The commit loop: read the table, make the changes to it, swap; and again if somebody else was first.

Every attempt starts from the table as it is now, so that nobody's commit is overwritten. What is tried again and what
is final:

| what happens | what follows |
|---|---|
| another commit came first (`CommitConflict`, `RequirementFailed`) | a pause, and the next attempt |
| a file of the state that was read is gone, and others have committed since (and expired it) | the same |
| what others changed must not be built upon (`ConflictingChange`), or any other error | needless files are removed, the error is raised |
| the answer to a swap is lost (`OutcomeUnknown`) | the pointer settles it; if it cannot, the key is searched; if that fails, `CommitStateUnknown` |
| the changes are found in the table, at the start of any attempt | success; nothing is done again, no branch is moved |
| the process is interrupted, or runs out of memory | nothing is touched |

One table or several make no difference but for the swap: all of them are published together, or none.
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from floe.commit.change import Attempt, Change, CreatingChange, ReplacingChange, WritingChange
from floe.commit.cleanup import clean_failed, clean_published, clean_replaced, discard_absent
from floe.commit.outcomes import (
    CommitStatus,
    Committed,
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
    """What is to be done to one table.

    With `table_uuid`, the table must be the very one that the changes were made for, not another of its name.
    """

    pointer: Pointer
    changes: Sequence[Change]
    table_uuid: str | None = None


def commit(pointer: Pointer, changes: Sequence[Change], *, table_uuid: str | None = None) -> Committed:
    """Makes changes to a table, all in one commit, and gives the table's state after it.

    The first change of a new table is one that creates it. Called again with the same change objects after an error
    or interruption, it does nothing twice: what makes a snapshot is found by its key.
    """
    (done,) = commit_all([TableChanges(pointer, changes, table_uuid)])
    return done


def commit_all(
    works: Sequence[TableChanges | tuple[Pointer, Sequence[Change]]], shared: SharedSwap | None = None
) -> list[Committed]:
    """Makes changes to several tables, all or nothing, and gives their states in the same order.

    `shared` is the catalog's swap of several tables; without it there can be only one.
    """
    tasks = [TableChanges(*work) for work in works]
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
    return _Run(tasks, shared).run() if tasks else []


@dataclass(eq=False, slots=True)
class _Built:
    """What an attempt made of one table: its new metadata and the updates that say the same."""

    metadata: TableMetadata
    updates: tuple[TableUpdate, ...]
    replaces: bool


class _Run:
    """One call of `commit_all`: its attempts one after the other."""

    def __init__(self, works: Sequence[TableChanges], shared: SharedSwap | None) -> None:
        self.works, self.shared = works, shared
        self.environment = works[0].pointer.environment
        self.began_ms = self.environment.clock.now_ms()
        self.attempts = 0
        self.states: list[TableState | None] = []
        self.older: list[frozenset[int]] = []  # the snapshots that each table had when the work began
        self.refused: list[Proposal] = []  # made, and not published as far as anybody said
        self.uuids = [work.table_uuid for work in works]

    def run(self) -> list[Committed]:
        while True:
            self.attempts += 1
            try:
                result = self._attempt()
            except CommitStateUnknown:
                raise  # nothing may be touched
            except FloeError as error:
                result = error
            if isinstance(result, list):
                return result
            if not _is_retryable(result):
                return self._given_up(result)
            if not self._policy().wait(
                self.attempts, self._elapsed_ms(), self.environment.random, self.environment.sleep
            ):
                return self._given_up(result, exhausted=True)

    # one attempt --------------------------------------------------------------------------------------------------

    def _attempt(self) -> list[Committed] | FloeError:
        """The states that the tables are in when the work is done, or why it is not; errors of before are raised."""
        try:
            states = self._load()
            if (found := self._found(states)) is not None:
                return found
            self._discard_refused(states)
            try:
                proposals = self._proposals(states)
            except NoSuchFile as error:
                if not self._moved_on(states):
                    raise
                return CommitConflict(f"a file of the state that was read is gone: {error.message}", **error.context)
        except OutcomeUnknown as error:
            # Only the swap publishes, and it was not sent: what is unknown is the fate of a file that nobody names.
            return CommitFailed(
                f"the change was not published: a file of it could not be written, {error.message}",
                hint="do it again",
                **{"table": self._names(), **error.context},
            )
        if not proposals:
            return self._done(states, [], CommitStatus.UNCHANGED)
        return self._publish(states, proposals)

    def _load(self) -> list[TableState | None]:
        states = [work.pointer.load() for work in self.works]
        for place, (work, state) in enumerate(zip(self.works, states, strict=True)):
            self.uuids[place] = _same_table(work, state, self.uuids[place])
        self.states = states
        if not self.older:
            self.older = [frozenset(() if state is None else state.metadata.snapshots_by_id) for state in states]
        return states

    def _found(self, states: Sequence[TableState | None]) -> list[Committed] | None:
        """The outcome of an earlier attempt, or of an earlier call, that was published after all."""
        for work, state in zip(self.works, states, strict=True):
            status = None if state is None else find_commit(state.metadata, work.changes)
            if status is not None:
                return self._done(states, [], status)
        by_pointer = {id(work.pointer): state for work, state in zip(self.works, states, strict=True)}
        if self.refused and all(is_published(one, by_pointer[id(one.pointer)]) for one in self.refused):
            return self._done(states, [], CommitStatus.FOUND)
        return None

    def _discard_refused(self, states: Sequence[TableState | None]) -> None:
        by_pointer = {id(work.pointer): state for work, state in zip(self.works, states, strict=True)}
        refused, self.refused = self.refused, []
        discard_absent(refused, lambda proposal: by_pointer[id(proposal.pointer)])

    def _moved_on(self, states: Sequence[TableState | None]) -> bool:
        """Whether others have committed since these states were read, so that files of them may be gone."""
        now = [work.pointer.load() for work in self.works]
        return any(
            old is not None and new is not None and old.location != new.location
            for old, new in zip(states, now, strict=True)
        )

    def _proposals(self, states: Sequence[TableState | None]) -> list[Proposal]:
        built = [self._build(work, state) for work, state in zip(self.works, states, strict=True)]
        proposals = []
        for work, state, made in zip(self.works, states, built, strict=True):
            if made is None:
                continue
            requirements = requirements_for(
                made.updates, None if state is None else state.metadata, replacing=made.replaces
            )
            allow_changed(work.pointer.storage, None if state is None else state.metadata, made.metadata, lasting=True)
            try:
                proposal = work.pointer.propose(state, made.metadata, updates=made.updates, requirements=requirements)
            except TableAlreadyExists as error:
                raise self._taken(error) from error
            proposals.append(replace(proposal, pointer=work.pointer))  # a pointer may be wrapped in another
            self.refused = list(proposals)  # until a swap says otherwise: if the next one fails, this one goes too
        return proposals

    def _build(self, work: TableChanges, state: TableState | None) -> _Built | None:
        """The work's changes made to the state, one after the other; None if they change nothing."""
        start = None if state is None else state.metadata
        location = None if state is None else state.location
        now_ms = _time_of_commit(self.environment.clock.now_ms(), start)
        new_uuid = str(self.environment.ids.uuid()) if start is not None and start.table_uuid is None else None
        metadata, updates, steps, replaces = start, list[TableUpdate](), 0, False
        for change in work.changes:
            new = self._updates_of(change, work, metadata, start, now_ms)
            replaces = replaces or (isinstance(change, ReplacingChange) and change.replaces)
            if not new:
                continue
            steps += 1
            updates += new
            now_ms = max([now_ms, *(u.snapshot.timestamp_ms for u in new if isinstance(u, AddSnapshot))])
            metadata = apply(metadata, new, now_ms=now_ms, metadata_location=location, new_uuid=new_uuid)
        if steps > 1:  # as one: with one entry in each log
            metadata = apply(start, updates, now_ms=now_ms, metadata_location=location, new_uuid=new_uuid)
        if metadata is None or metadata is start:
            return None
        return _Built(metadata, tuple(updates), replaces)

    def _updates_of(
        self,
        change: Change,
        work: TableChanges,
        metadata: TableMetadata | None,
        start: TableMetadata | None,
        now_ms: int,
    ) -> Sequence[TableUpdate]:
        pointer = work.pointer
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
            outcome = self._sent(proposals)
        except TableAlreadyExists as error:
            return self._taken(error)
        except FloeError as error:
            return error
        except BaseException as error:
            error.add_note(
                f"The change of {self._names()} may have been published or not: the swap was interrupted. No file was "
                f"deleted. Look for {format_commit_keys(self._changes()) or proposals[0].location} in the table."
            )
            raise
        if outcome is Outcome.UNKNOWN:
            return self._found_after_silence(proposals)
        if outcome is Outcome.ABSENT:
            return CommitConflict("the change did not reach the table", table=self._names())
        self.refused = []
        return self._done(states, proposals, CommitStatus.PUBLISHED)

    def _sent(self, proposals: Sequence[Proposal]) -> Outcome:
        try:
            self._swap(proposals)
        except OutcomeUnknown:
            return resolve_outcome(proposals, self._settle, self.environment)
        return Outcome.PUBLISHED

    def _taken(self, error: TableAlreadyExists) -> FloeError:
        """A race for a new table that was lost: what the next attempt reads decides, if it can read a table."""
        try:
            absent = any(work.pointer.load() is None for work in self.works)
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

    def _found_after_silence(self, proposals: Sequence[Proposal]) -> list[Committed]:
        """The second line: the key in the table as it is now. Not finding it proves nothing: it may still arrive."""
        try:
            found = self._found(self._load())
        except FloeError:
            found = None
        if found is None:
            raise unknown_state_error(proposals, self._changes())
        return found

    # the end ------------------------------------------------------------------------------------------------------

    def _done(
        self, states: Sequence[TableState | None], proposals: Sequence[Proposal], status: CommitStatus
    ) -> list[Committed]:
        """The outcome; nothing that goes wrong from here on makes it less done."""
        by_pointer = {id(proposal.pointer): proposal for proposal in proposals}
        results = []
        for work, state in zip(self.works, states, strict=True):
            proposal = by_pointer.get(id(work.pointer))
            after = state if proposal is None else proposal.state
            if after is None:
                raise NoSuchTable("there is no such table", table=work.pointer.name)
            own = CommitStatus.UNCHANGED if proposal is None and status is CommitStatus.PUBLISHED else status
            results.append(Committed(after.metadata, after.location, own, self.attempts))
        try:
            for proposal in proposals:
                _finish(proposal)
            return [
                self._cleaned(work, done, by_pointer.get(id(work.pointer)))
                for work, done in zip(self.works, results, strict=True)
            ]
        except Exception:  # out of memory, say: there is nothing left to do but to tell the outcome
            return results
        except BaseException as error:
            error.add_note(f"The change of {self._names()} had been published; only clean-up was interrupted.")
            raise

    def _cleaned(self, work: TableChanges, done: Committed, proposal: Proposal | None) -> Committed:
        if done.status is CommitStatus.UNCHANGED:
            if any(isinstance(change, WritingChange) and change.written() for change in work.changes):
                fresh = work.pointer.load()
                _same_table(work, fresh, done.metadata.table_uuid)
                self._clean_failed(work, fresh)  # of attempts that came to nothing
            return done
        notes = clean_published(work.pointer, work.changes, done, doubtful=done.status is not CommitStatus.PUBLISHED)
        if proposal is not None:
            notes += clean_replaced(proposal)
        return replace(done, notes=(*done.notes, *notes)) if notes else done

    def _given_up(self, error: FloeError, *, exhausted: bool = False) -> list[Committed]:
        """Looks once more whether the changes are in the table, removes what is needless, and raises."""
        states: Sequence[TableState | None] | None = None
        if exhausted or self.refused or any(isinstance(change, WritingChange) for change in self._changes()):
            try:
                states = self._load()
            except FloeError:
                states = None  # nothing is known (another table of that name tells nothing), so nothing is deleted
        if states is not None:
            if (found := self._found(states)) is not None:
                return found
            self._discard_refused(states)
            for work, state in zip(self.works, states, strict=True):
                if state is not None or _creates(work):
                    self._clean_failed(work, state)
        if exhausted:
            raise self._exhausted(states) from error
        raise error

    def _clean_failed(self, work: TableChanges, fresh: TableState | None) -> None:
        clean_failed(work.pointer, work.changes, fresh, older=self.older[self.works.index(work)])

    def _exhausted(self, states: Sequence[TableState | None] | None) -> CommitConflict:
        snapshots = [state.metadata.snapshots[-1] for state in states or () if state and state.metadata.snapshots]
        last = max(snapshots, key=lambda snapshot: snapshot.timestamp_ms, default=None)
        winner = None if last is None else f"snapshot {last.snapshot_id} ({last.operation or 'unknown operation'})"
        return CommitConflict(
            f"the change was not published: others committed first in each of {self.attempts} attempts within "
            f"{self._elapsed_ms() / 1000:.1f} s",
            hint="do it again, when fewer commit at the same time; or raise the table's commit.retry.num-retries",
            table=self._names(),
            last=winner,
        )

    # small things -------------------------------------------------------------------------------------------------

    def _policy(self) -> RetryPolicy:
        return combine_policies(retry_policy(state.metadata.properties) for state in self.states if state is not None)

    def _elapsed_ms(self) -> int:
        return self.environment.clock.now_ms() - self.began_ms

    def _names(self) -> str:
        return ", ".join(work.pointer.name for work in self.works)

    def _changes(self) -> list[Change]:
        return [change for work in self.works for change in work.changes]


def _is_retryable(error: FloeError) -> bool:
    return isinstance(error, CommitConflict) and error.retryable


def _creates(work: TableChanges) -> bool:
    return bool(work.changes) and isinstance(work.changes[0], CreatingChange)


def _same_table(work: TableChanges, state: TableState | None, known: str | None) -> str | None:
    """The table's identity; another table that took its name meanwhile is none of the changes' business."""
    if state is None:
        return known
    check_same_table(known, state.metadata.table_uuid, work.pointer.name)
    return state.metadata.table_uuid


def _time_of_commit(clock_ms: int, start: TableMetadata | None) -> int:
    """Now, but never before what the table has seen: clocks differ."""
    if start is None:
        return clock_ms
    last = start.snapshot_log[-1].timestamp_ms if start.snapshot_log else 0
    return max(clock_ms, start.last_updated_ms, last)


def _finish(proposal: Proposal) -> None:
    try:
        proposal.pointer.finish(proposal)
    except Exception:  # it promised not to raise; the commit is done whatever it does
        return
