"""A branch of a table, and a stage for changes that no reader sees yet: the same methods, other commit targets."""

from __future__ import annotations

from floe.commit.target import BranchTarget, CommitTarget, StageTarget
from floe.spec.metadata.snapshots import Snapshot
from floe.table.writer import Writer


class Branch(Writer):
    """A branch to write to: its readers see the changes at once, readers of `main` when `main` is fast-forwarded.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> lake.create_table("db.t", "id bigint").branch("audit").snapshot
    Traceback (most recent call last):
    floe.errors.NoSuchRef: the table has no branch or tag named 'audit'; the table has no snapshots yet
    """

    def __init__(self, target: CommitTarget, name: str, *, create: bool = False) -> None:
        super().__init__(BranchTarget(target, name, create=create))
        self._name = name

    @property
    def name(self) -> str:
        """The branch's name."""
        return self._name

    @property
    def snapshot(self) -> Snapshot:
        """The branch's newest snapshot."""
        return self.metadata.snapshot_of_ref(self._name)

    def __repr__(self) -> str:
        ref = self.metadata.refs.get(self._name)
        return f"<Branch {self._name!r}: {'does not exist yet' if ref is None else f'snapshot {ref.snapshot_id}'}>"


class Stage(Writer):
    """Changes that are committed under a WAP id, and that no reader sees until `Table.publish` publishes them."""

    def __init__(self, target: CommitTarget, wap_id: str) -> None:
        super().__init__(StageTarget(target, wap_id))
        self._wap_id = wap_id

    def __repr__(self) -> str:
        return f"<Stage {self._wap_id!r}>"
