"""What changes are committed to: a table, one of its branches, a stage, or a transaction.

A `CommitTarget` is all that a writer has to know of its destination: the metadata to write for, the snapshot that was
read, the options of new snapshots, and `commit`. The methods of `Table`, `Branch`, `Stage` and `Transaction` use it,
and so do the engines: `Writer(target).append(rows)` and Spark's writers end in `target.commit`.

| target | `commit` | new snapshots |
|---|---|---|
| `TableTarget` | publishes at once | on `main`, or on the branch that `write.wap.branch` names |
| `BranchTarget` | as the target that it wraps | on its branch |
| `StageTarget` | as the target that it wraps | on no branch; the summary has a `wap.id` (write, audit, publish) |
| `floe.table.transaction.PendingTarget` | keeps the changes for the commit of the transaction | on `main` |

A `ChangeBuilder` is a change that is put together call by call. A table waits for its `commit`; a transaction takes it
as it is when the transaction ends.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from floe.commit.change import BranchChange, Change, Isolation
from floe.commit.loop import commit
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.outcomes import CommitStatus, Committed, delete_uncommitted
from floe.commit.pointer import Pointer, TableState, load_existing
from floe.errors import CommitStateUnknown, FloeError, InvalidInput
from floe.spec.metadata.snapshots import MAIN_BRANCH, WAP_ID, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata, check_same_table
from floe.spec.properties import WAP_BRANCH
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

T = TypeVar("T")


class CommitTarget(ABC):
    """Something that changes of a table can be committed to."""

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The table's metadata as the next change finds it: in a transaction, with the changes before it."""

    @property
    @abstractmethod
    def published(self) -> TableMetadata:
        """The table's metadata as it was last read or committed, without pending changes."""

    @property
    @abstractmethod
    def environment(self) -> Environment:
        """The clock, the source of ids and random numbers, and sleep."""

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """The storage of the table's files."""

    @property
    def branch(self) -> str:
        """The branch that new snapshots are committed to.

        With the property `write.wap.branch` it is that one in place of `main`; its first snapshot creates it.
        """
        return WAP_BRANCH.read(self.metadata.properties) or MAIN_BRANCH

    @property
    def head(self) -> Snapshot | None:
        """The newest published snapshot of the branch; a branch that does not exist yet starts at `main`."""
        metadata = self.published
        ref = metadata.refs.get(self.branch)
        return metadata.current_snapshot if ref is None else metadata.snapshot(ref.snapshot_id)

    @property
    def rows_pending(self) -> bool:
        """Whether rows were changed that cannot be read yet, because their transaction is not committed."""
        return False

    def options(
        self, summary: Mapping[str, str] | None = None, isolation: Isolation | str = Isolation.SERIALIZABLE
    ) -> SnapshotOptions:
        """The options of a change that makes a snapshot here; `summary` adds properties to the snapshot's summary."""
        return SnapshotOptions(
            branch=self.branch,
            create_branch=self.branch != MAIN_BRANCH,
            isolation=_isolation(isolation),
            written_with=self.metadata.current_schema_id,
            summary=dict(summary or {}),
        )

    @abstractmethod
    def commit(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        """Make changes, all in one commit; returns the last snapshot that they made, if it exists by now.

        `files` are the locations of data files and delete files that were written for the changes. They are deleted if
        the commit fails for certain, and kept if there is any doubt.
        """

    @abstractmethod
    def refresh(self) -> None:
        """Read the newest state of the table; in a transaction, which has one state, nothing happens."""

    @abstractmethod
    def start(self, builder: ChangeBuilder) -> None:
        """Take note of a builder that has just been created."""

    @abstractmethod
    def finish(self, builder: ChangeBuilder) -> None:
        """Take the change of a builder whose `commit` was called."""


class TableTarget(CommitTarget):
    """A table: every commit is published at once, on the newest state, which `state` is afterwards."""

    def __init__(self, pointer: Pointer, state: TableState) -> None:
        self.pointer = pointer
        self.state = state

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata as it was last read or committed."""
        return self.state.metadata

    @property
    def published(self) -> TableMetadata:
        """The same: nothing is pending."""
        return self.state.metadata

    @property
    def environment(self) -> Environment:
        """The environment of the table's catalog."""
        return self.pointer.environment

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.pointer.storage

    def refresh(self) -> None:
        """Read what others committed; `NoSuchTable` if the table is gone, or another one has its name."""
        state = load_existing(self.pointer)
        check_same_table(self.metadata.table_uuid, state.metadata.table_uuid, self.pointer.name)
        self.state = state

    def publish(self, changes: Sequence[Change]) -> Committed:
        """Commit changes, and keep the state that the table has then."""
        committed = commit(self.pointer, changes, table_uuid=self.metadata.table_uuid)
        self.state = committed
        return committed

    def commit(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        """Publish the changes at once; returns the last snapshot that they created."""
        table_uuid = self.metadata.table_uuid
        try:
            committed = self.publish(changes)
        except CommitStateUnknown:
            raise
        except FloeError:
            delete_uncommitted(self.pointer, changes, files, table_uuid=table_uuid)
            raise
        change = next((change for change in reversed(changes) if isinstance(change, BranchChange)), None)
        if change is None or committed.status is CommitStatus.UNCHANGED:
            return None
        snapshots, ref = committed.metadata.snapshots_by_id, committed.metadata.refs.get(change.branch or "")
        if change.snapshot_id not in snapshots and ref is not None:
            return snapshots.get(ref.snapshot_id)  # a cherry-pick that only moved the branch makes no snapshot
        return snapshots.get(change.snapshot_id)

    def start(self, builder: ChangeBuilder) -> None:
        """Nothing: the builder's own `commit` makes the change."""

    def finish(self, builder: ChangeBuilder) -> None:
        """Commit the builder's change."""
        if (change := builder.change()) is not None:
            self.commit([change])


class _WrappedTarget(CommitTarget):
    """Commits through another target, but elsewhere than to its branch."""

    def __init__(self, target: CommitTarget, branch: str) -> None:
        self._target = target
        self._branch = branch

    @property
    def branch(self) -> str:
        """The branch that was chosen; `write.wap.branch` does not apply to it."""
        return self._branch

    @property
    def metadata(self) -> TableMetadata:
        """The metadata of the table."""
        return self._target.metadata

    @property
    def published(self) -> TableMetadata:
        """The published metadata of the table."""
        return self._target.published

    @property
    def environment(self) -> Environment:
        """The environment of the table's catalog."""
        return self._target.environment

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._target.storage

    @property
    def rows_pending(self) -> bool:
        """Whether the wrapped target has rows pending, on whatever branch."""
        return self._target.rows_pending

    def commit(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        """Commit changes through the wrapped target."""
        return self._target.commit(changes, files)

    def refresh(self) -> None:
        """Refresh the wrapped target."""
        self._target.refresh()

    def start(self, builder: ChangeBuilder) -> None:
        """Pass the builder on."""
        self._target.start(builder)

    def finish(self, builder: ChangeBuilder) -> None:
        """Pass the builder on."""
        self._target.finish(builder)


class BranchTarget(_WrappedTarget):
    """A branch; with `create` its first snapshot creates it."""

    def __init__(self, target: CommitTarget, branch: str, *, create: bool = False) -> None:
        super().__init__(target, branch)
        self._create = create

    def options(
        self, summary: Mapping[str, str] | None = None, isolation: Isolation | str = Isolation.SERIALIZABLE
    ) -> SnapshotOptions:
        """The options of a snapshot on the branch."""
        options = super().options(summary, isolation)
        options["create_branch"] = self._create
        return options


class StageTarget(_WrappedTarget):
    """A stage: snapshots get a WAP id, and no branch points to them until they are published."""

    def __init__(self, target: CommitTarget, wap_id: str) -> None:
        super().__init__(target, MAIN_BRANCH)
        self._wap_id = wap_id

    def options(
        self, summary: Mapping[str, str] | None = None, isolation: Isolation | str = Isolation.SERIALIZABLE
    ) -> SnapshotOptions:
        """The options of a staged snapshot."""
        options = super().options({**(summary or {}), WAP_ID: self._wap_id}, isolation)
        options["staged"] = True
        return options


def _isolation(isolation: Isolation | str) -> Isolation:
    if isinstance(isolation, Isolation):
        return isolation
    try:
        return Isolation(isolation.lower())
    except (ValueError, AttributeError):
        raise InvalidInput(
            f"no isolation level is named {isolation!r:.80}", hint="use serializable or snapshot"
        ) from None


class Committer:
    """The base of objects with methods that change a table: the changes are committed to `commit_target`."""

    def __init__(self, target: CommitTarget) -> None:
        self._target = target

    @property
    def commit_target(self) -> CommitTarget:
        """What the changes that are made here are committed to; engines commit through it."""
        return self._target

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata; in a transaction, with the changes so far, but for those of rows."""
        return self.commit_target.metadata

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.commit_target.storage

    @property
    def environment(self) -> Environment:
        """The clock, the source of ids and random numbers, and sleep."""
        return self.commit_target.environment


# builders ---------------------------------------------------------------------------------------------------------


class ChangeBuilder(ABC):
    """A change that is put together call by call, then committed; or used in a `with` block, which commits at its end.

    In a transaction there is nothing to commit: the transaction does it.
    """

    def __init__(self, target: CommitTarget) -> None:
        self._target = target
        self._open = True
        self._failed = False
        self._steps = 0
        target.start(self)

    @abstractmethod
    def change(self) -> Change | None:
        """The change that the calls so far make; None if they change nothing."""

    def commit(self) -> None:
        """Commit the change. This can be done once."""
        self._check_open()
        self._open = False
        self._target.finish(self)

    def close(self) -> None:
        """Accept no more calls."""
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether more calls are accepted."""
        return self._open

    @property
    def failed(self) -> bool:
        """Whether a call failed, so that the change cannot be committed."""
        return self._failed

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._open = False
        elif self._open:
            self.commit()

    def __del__(self) -> None:
        if getattr(self, "_open", False) and self._steps:
            warn_of_uncommitted_changes(f"this {type(self).__name__}")

    def __repr__(self) -> str:
        collected = f"{self._steps} change{'' if self._steps == 1 else 's'}, not committed yet"
        return f"<{type(self).__name__}: {collected if self._open else 'closed'}>"

    def _step(self, action: Callable[[], T]) -> T:
        """Run one call; if it fails the builder is closed, so that half of a change is never committed."""
        self._check_open()
        try:
            result = action()
        except Exception:
            self._open, self._failed = False, True
            raise
        self._steps += 1
        return result

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidInput(
                f"this {type(self).__name__} accepts no more changes: it was committed, a call failed, or its "
                "transaction has other changes after it",
                hint="start a new one",
            )


def warn_of_uncommitted_changes(owner: str) -> None:
    """Warn that changes are dropped without having been committed, which is hardly ever intended."""
    warnings.warn(f"the changes of {owner} were never committed: call commit(), or use `with`", stacklevel=3)
