"""A branch of a table, or a place to stage changes that no reader sees yet: writing and reading there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from floe.commit.change import Change
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.environment import Environment
from floe.storage.protocol import Storage
from floe.table.actions import Actions, Builder
from floe.table.row_changes import RowChanges

__all__ = ["Branch", "Stage"]


class _Elsewhere(RowChanges):
    """Changes that another one makes, but elsewhere than on `main`."""

    _named_branch = True

    def __init__(self, actions: Actions, branch: str) -> None:
        self._actions = actions
        self._branch = branch

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self._actions.metadata

    @property
    def environment(self) -> Environment:
        """Time, ids and chance."""
        return self._actions.environment

    @property
    def _published(self) -> TableMetadata:
        return self._actions._published

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._actions.storage

    def _do_all(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        return self._actions._do_all(changes, files)

    def _reload(self) -> None:
        self._actions._reload()

    @property
    def _rows_pending(self) -> bool:
        return self._actions._rows_pending

    def _begin(self, builder: Builder) -> None:
        self._actions._begin(builder)

    def _finish(self, builder: Builder) -> None:
        self._actions._finish(builder)


class Branch(_Elsewhere):
    """A branch: what is written here is seen by those who read the branch, and by others once `main` follows it.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> lake.create_table("db.t", "id bigint").branch("audit").snapshot
    Traceback (most recent call last):
    floe.errors.NoSuchRef: the table has no branch or tag named 'audit'; the table has no snapshots yet
    """

    def __init__(self, actions: Actions, name: str, *, create: bool = False) -> None:
        super().__init__(actions, name)
        self._create_branch = create

    @property
    def name(self) -> str:
        """The branch's name."""
        return self._branch

    @property
    def snapshot(self) -> Snapshot:
        """The branch's newest snapshot."""
        return self.metadata.snapshot_of_ref(self._branch)

    def __repr__(self) -> str:
        ref = self.metadata.refs.get(self._branch)
        return f"<Branch {self._branch!r}: {'not there yet' if ref is None else f'snapshot {ref.snapshot_id}'}>"


class Stage(_Elsewhere):
    """Changes that are committed under a WAP id, and seen by nobody until they are published."""

    def __init__(self, actions: Actions, wap_id: str) -> None:
        super().__init__(actions, actions._branch)
        self._wap_id = wap_id

    def __repr__(self) -> str:
        return f"<Stage {self._wap_id!r}>"
