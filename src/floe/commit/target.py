"""The base of everything that changes a table: at once, on a branch, or together with others in a transaction.

`Table`, `Branch` and `Transaction` offer the same methods, which come from the classes built on this one; they differ
in what they do with a change. A builder is a change that is put together call by call: a table waits for its `commit`,
a transaction takes it as it is when the transaction ends.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Self, TypeVar

from floe.commit.change import Change
from floe.errors import InvalidInput
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

__all__ = ["Actions", "Builder", "warn_of_lost_changes"]

T = TypeVar("T")


class Actions(ABC):
    """Somewhere changes can be made to a table."""

    _branch: str = MAIN_BRANCH
    """The branch that new snapshots go to."""

    @property
    @abstractmethod
    def metadata(self) -> TableMetadata:
        """The table's metadata as changes find it."""

    @property
    @abstractmethod
    def _published(self) -> TableMetadata:
        """The table's metadata as it was last seen published, without changes that are still to be made."""

    @property
    @abstractmethod
    def environment(self) -> Environment:
        """Time, ids and chance."""

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """The storage of the table's files."""

    def _do(self, change: Change) -> Snapshot | None:
        """Make a change, now or when the transaction ends; the snapshot that it made, if it has made one by now."""
        return self._do_all([change])

    @abstractmethod
    def _do_all(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        """Make several changes as one; the snapshot is that of the last one that makes any.

        `files` are data files and delete files that were written for them: they are deleted if it is certain that the
        changes were not made, and stay if there is any doubt.
        """

    @abstractmethod
    def _reload(self) -> None:
        """Look at the table as it is now; in a transaction it stays as it was."""

    @property
    @abstractmethod
    def _rows_pending(self) -> bool:
        """Whether rows were changed that cannot be read yet: in this transaction, before its commit."""

    @abstractmethod
    def _begin(self, builder: Builder) -> None:
        """Take note of a builder that has just been begun."""

    @abstractmethod
    def _finish(self, builder: Builder) -> None:
        """Take a builder that is complete."""


class Builder(ABC):
    """A change that is put together call by call, then committed; or used in a `with` block, which commits at its end.

    In a transaction there is nothing to commit: the transaction does it.
    """

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        self._open = True
        self._failed = False
        self._steps = 0
        actions._begin(self)

    @abstractmethod
    def change(self) -> Change | None:
        """The change as it has been put together so far; None if there is nothing to do."""

    def commit(self) -> None:
        """Make the change. It can be done once."""
        self._check_open()
        self._open = False
        self._actions._finish(self)

    def close(self) -> None:
        """Take no more calls."""
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether more can be added."""
        return self._open

    @property
    def failed(self) -> bool:
        """Whether a call failed, so that nothing of it can be made."""
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
            warn_of_lost_changes(f"this {type(self).__name__}")

    def __repr__(self) -> str:
        collected = f"{self._steps} change{'' if self._steps == 1 else 's'}, not committed yet"
        return f"<{type(self).__name__}: {collected if self._open else 'closed'}>"

    def _step(self, action: Callable[[], T]) -> T:
        """One call; if it fails nothing of the whole is made, so that half of it is never committed by accident."""
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
                f"this {type(self).__name__} takes no more changes: it was committed, failed, or others came after it",
                hint="begin a new one",
            )


def warn_of_lost_changes(whose: str) -> None:
    """Tell that changes are forgotten without having been committed, which is hardly what was meant."""
    warnings.warn(f"the changes of {whose} were never committed: call commit(), or use `with`", stacklevel=3)
