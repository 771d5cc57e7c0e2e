"""Expiring a table's old snapshots: looked at first, then done."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from floe.commit.operations.expire import Expired, ExpirePlan, apply_expire, plan_expire
from floe.commit.outcomes import Committed
from floe.commit.pointer import Pointer
from floe.errors import InvalidInput
from floe.spec.metadata.uuids import is_same_uuid

__all__ = ["Expiration"]


class Expiration:
    """What would expire, and doing it: `t.expire(older_than="7d").plan()`, then `.apply()`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint")
    >>> print(t.expire(older_than="7d").plan())
    db.t: nothing expires; all 0 snapshots are kept
    """

    def __init__(
        self,
        pointer: Pointer,
        seen: Callable[[Committed], None],
        *,
        table_uuid: str | None,
        older_than_ms: int | None,
        retain_last: int | None,
        snapshots: Iterable[int],
        clean_metadata: bool,
    ) -> None:
        self._pointer = pointer
        self._seen = seen
        self._table_uuid = table_uuid
        self._older_than_ms = older_than_ms
        self._retain_last = retain_last
        self._snapshots = tuple(snapshots)
        self._clean_metadata = clean_metadata

    def __repr__(self) -> str:
        return f"<Expiration of {self._pointer.name}; plan() shows it, apply() does it>"

    def plan(self) -> ExpirePlan:
        """What would expire now; nothing is changed, and printing it tells all."""
        return plan_expire(
            self._pointer,
            table_uuid=self._table_uuid,
            older_than_ms=self._older_than_ms,
            retain_last=self._retain_last,
            snapshot_ids=self._snapshots,
            clean_metadata=self._clean_metadata,
        )

    def apply(self, plan: ExpirePlan | None = None, *, delete_files: bool = True) -> Expired:
        """Expire what a plan says, or what expires now, and delete the files that nothing needs any more.

        Never more than was planned: what somebody needs meanwhile stays. `delete_files=False` leaves all files.
        """
        plan = self.plan() if plan is None else plan
        if not is_same_uuid(self._table_uuid, plan.table_uuid):
            raise InvalidInput(
                f"the plan is of another table: of {plan.table}, with uuid {plan.table_uuid}, while this is the table "
                f"with uuid {self._table_uuid}",
                hint="make a plan of this table",
                table=self._pointer.name,
            )
        done = apply_expire(self._pointer, plan, delete_files=delete_files)
        self._seen(done.state)
        return done
