"""Which files come next in a stream: snapshot by snapshot along a branch, those that appends added.

A stream that is not told from when on it reads begins with the oldest snapshot that the table still has. Where that one
has a history which has expired, the stream begins with all rows of it, so that none is missing.

Snapshots that only rewrite files have nothing new. Those that delete or overwrite rows cannot be told as appended rows;
they are an error, unless the stream is told to pass over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from floe.errors import FloeError, NoSuchSnapshot, UnsupportedFeature
from floe.plan.incremental import plan_appends
from floe.plan.ranges import snapshots_in_range
from floe.plan.scan import plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spark.streaming.offsets import BEGINNING, StreamOffset
from floe.spark.streaming.options import StreamOptions
from floe.spec.metadata.history import ancestors
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.values.civil_time import millis_text
from floe.storage.protocol import Storage

__all__ = ["Part", "StreamSteps"]

_REMEMBERED = 32


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of a plan, by their places."""

    plan: ScanPlan
    begin: int
    end: int

    def files(self) -> pa.Table:
        """The files, as `ScanPlan.files_to_arrow` has them."""
        return self.plan.files_to_arrow().slice(self.begin, self.end - self.begin)

    def tasks(self) -> Iterator[FileTask]:
        """The files as tasks."""
        return islice(self.plan.tasks(), self.begin, self.end)


@dataclass
class StreamSteps:
    """The snapshots of a table as a stream; files are listed in the order of their manifests, so places stay."""

    storage: Storage
    schema: Schema
    options: StreamOptions
    _plans: dict[StreamOffset, ScanPlan] = field(default_factory=dict)

    def advanced(
        self,
        metadata: TableMetadata,
        start: StreamOffset,
        head: int | None,
        *,
        max_files: int | None = None,
        max_rows: int | None = None,
    ) -> StreamOffset:
        """How far a batch from an offset goes, up to a snapshot: at least one file, if there is a new one."""
        files = rows = 0
        reached = start
        for snapshot, begin, all_files in self._snapshots(metadata, start, head):
            if not all_files and not self._counts(snapshot):
                reached = StreamOffset(snapshot.snapshot_id, 0)
                continue
            plan = self._plan(metadata, snapshot, all_files)
            if max_files is None and max_rows is None:
                reached = StreamOffset(snapshot.snapshot_id, len(plan), all_files)
                continue
            for place, count in enumerate(plan.files_to_arrow()["record_count"].to_pylist()[begin:], begin):
                full = (max_files is not None and files + 1 > max_files) or (
                    max_rows is not None and rows + count > max_rows
                )
                if full and files:
                    return reached
                files, rows = files + 1, rows + max(0, count)
                reached = StreamOffset(snapshot.snapshot_id, place + 1, all_files)
            if not len(plan):
                reached = StreamOffset(snapshot.snapshot_id, 0, all_files)
        return reached

    def parts(self, metadata: TableMetadata, start: StreamOffset, end: StreamOffset) -> Iterator[Part]:
        """The files from one offset to another."""
        if end in (start, BEGINNING):
            return
        for snapshot, begin, all_files in self._snapshots(metadata, start, end.snapshot_id):
            is_last = snapshot.snapshot_id == end.snapshot_id
            if is_last and all_files != end.all_files:
                raise NoSuchSnapshot(
                    "the stream began with snapshots that have expired since, so its first batch cannot be read again",
                    hint="start the query with a new checkpoint",
                )
            if not all_files and not self._counts(snapshot):
                continue
            plan = self._plan(metadata, snapshot, all_files)
            stop = min(end.position, len(plan)) if is_last else len(plan)
            if begin < stop:
                yield Part(plan, begin, stop)

    def _snapshots(
        self, metadata: TableMetadata, start: StreamOffset, head: int | None
    ) -> Iterator[tuple[Snapshot, int, bool]]:
        """From an offset on: each snapshot, how many of its files have been read, and whether all of them count."""
        for known in (start.snapshot_id if start != BEGINNING else None, head):
            if known is not None and known not in metadata.snapshots_by_id:
                raise _lost(metadata, known)
        if head is None:
            return
        begin = self._beginning(metadata, head) if start == BEGINNING else start
        if begin is None:
            return
        try:
            history = snapshots_in_range(metadata, first=begin.snapshot_id, until=head)
        except FloeError:
            raise _lost(metadata, begin.snapshot_id) from None
        for snapshot in history:
            is_first = snapshot.snapshot_id == begin.snapshot_id
            yield snapshot, begin.position if is_first else 0, is_first and begin.all_files

    def _beginning(self, metadata: TableMetadata, head: int) -> StreamOffset | None:
        """Where a stream begins that has read nothing; None if there is nothing new enough."""
        history = list(ancestors(metadata, head))
        since = self.options.from_ms
        oldest = history[-1]
        if since is None:
            return StreamOffset(oldest.snapshot_id, 0, oldest.parent_snapshot_id is not None)
        if oldest.timestamp_ms > since and oldest.parent_snapshot_id is not None:
            raise NoSuchSnapshot(
                f"what was appended since {millis_text(since)} is not known: history is known only down to snapshot "
                f"{oldest.snapshot_id} of {millis_text(oldest.timestamp_ms)}, what came before has expired",
                hint="begin later, or leave out stream-from-timestamp to read all rows first",
            )
        later = [snapshot for snapshot in history if snapshot.timestamp_ms >= since]
        return StreamOffset(later[-1].snapshot_id, 0) if later else None

    def _counts(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot appends rows; raises if it does something else that must not be passed over."""
        operation = snapshot.operation or "append"
        if operation in ("append", "replace"):
            return operation == "append"
        skip = {"delete": self.options.skip_deletes, "overwrite": self.options.skip_overwrites}
        if skip.get(operation):
            return False
        raise UnsupportedFeature(
            f"snapshot {snapshot.snapshot_id} is of the operation {operation}, and a stream reads what is appended",
            hint=f"set the option streaming-skip-{operation}-snapshots to true to pass over it, or read the changes of "
            "the table, which tell of deleted rows too",
        )

    def _plan(self, metadata: TableMetadata, snapshot: Snapshot, all_files: bool) -> ScanPlan:
        key = StreamOffset(snapshot.snapshot_id, 0, all_files)
        found = self._plans.get(key)
        if found is None:
            if all_files:
                found = plan_scan(metadata, self.storage, snapshot=snapshot, schema=self.schema)
            else:
                one = snapshot.snapshot_id
                found = plan_appends(metadata, self.storage, first=one, until=one, schema=self.schema)
            if len(self._plans) >= _REMEMBERED:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = found
        return found


def _lost(metadata: TableMetadata, snapshot_id: int) -> NoSuchSnapshot:
    return NoSuchSnapshot(
        f"the stream has come to snapshot {snapshot_id}, which is not in the history of the table with uuid "
        f"{metadata.table_uuid}, so what was appended after it is not known",
        hint="the snapshot expired, was rolled back, or is one of a table that was dropped since: start the query with "
        "a new checkpoint",
    )
