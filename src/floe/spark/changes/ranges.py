"""Of which snapshots the changes are read.

| option | |
|---|---|
| `start-snapshot-id`, `start-timestamp` (milliseconds) | what came after; by default all that is known |
| `end-snapshot-id`, `end-timestamp` (milliseconds) | up to and with; by default up to now |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floe.errors import InvalidInput, NoSuchSnapshot
from floe.plan.snapshots import choose_snapshot
from floe.spark.names import AsOf
from floe.spec.metadata.history import ancestors
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.values.civil_time import millis_text

__all__ = ["OPTIONS", "ChangeRange", "change_range"]

OPTIONS = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """After one snapshot, if there is one, up to and with another; None as the end is an empty range."""

    after: int | None
    until: int | None


def change_range(metadata: TableMetadata, as_of: AsOf, options: Mapping[str, str]) -> ChangeRange:
    """The range that options say, in the history of a state of the table."""
    numbers = {name: _number(name, options[name]) for name in OPTIONS if name in options}
    for end in ("start", "end"):
        if f"{end}-snapshot-id" in numbers and f"{end}-timestamp" in numbers:
            raise InvalidInput(f"the {end} of the changes is said twice, by {end}-snapshot-id and {end}-timestamp")
    begin, stop = numbers.get("start-timestamp"), numbers.get("end-timestamp")
    if begin is not None and stop is not None and begin > stop:
        raise InvalidInput(f"the changes end before they start: start-timestamp {begin}, end-timestamp {stop}")
    head = choose_snapshot(metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms)
    newest = None if head is None else head.snapshot_id
    until = numbers.get("end-snapshot-id", newest if stop is None else _newest(metadata, newest, stop))
    after = numbers.get("start-snapshot-id", None if begin is None else _newest(metadata, newest, begin))
    return ChangeRange(after, until)


def _newest(metadata: TableMetadata, head: int | None, millis: int) -> int | None:
    """The newest snapshot of a history that is not newer than a time; None if the history begins after it."""
    oldest = None
    for one in ancestors(metadata, head):
        if one.timestamp_ms <= millis:
            return one.snapshot_id
        oldest = one
    if oldest is not None and oldest.parent_snapshot_id is not None:
        raise NoSuchSnapshot(
            f"what the table was at {millis_text(millis)} is not known: its history is known only down to snapshot "
            f"{oldest.snapshot_id} of {millis_text(oldest.timestamp_ms)}, what came before has expired",
            hint="begin later, or leave out the start to read all changes that are known",
        )
    return None


def _number(name: str, text: str) -> int:
    if not text.strip().isdigit():
        raise InvalidInput(f"{name} is a number, found {text!r}")
    return int(text)
