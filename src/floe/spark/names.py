"""What the parts of a table's name can say in SQL: the table, a metadata table of it, a state in its past.

| name | what it is |
|---|---|
| `db.t` | the table |
| `db.t.snapshots`, `db.t.changes` | a metadata table, and what was changed |
| `db.t.branch_audit`, `db.t.tag_eoy` | the table at a branch or tag |
| `db.t.snapshot_id_123`, `db.t.at_timestamp_1700000000000` | the table at a snapshot, or at a time in milliseconds |
| `db.t.branch_audit.files` | a metadata table there |

A table that really has such a name comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from floe.errors import InvalidInput
from floe.plan.metadata_tables.tables import NAMES

CHANGES: Final = "changes"
"""The table of the changes of a table."""

_SELECTOR: Final = re.compile(r"(branch|tag|snapshot_id|at_timestamp)_(.+)", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+")
_KINDS: Final = frozenset({*NAMES, CHANGES})


@dataclass(frozen=True, slots=True)
class AsOf:
    """Which state of a table is meant: at most one of these."""

    snapshot_id: int | None = None
    ref: str | None = None
    timestamp_ms: int | None = None

    @property
    def is_now(self) -> bool:
        """Whether it is the current one."""
        return self == NOW

    def __str__(self) -> str:
        if self.snapshot_id is not None:
            return f"snapshot {self.snapshot_id}"
        if self.ref is not None:
            return f"ref {self.ref}"
        return "now" if self.timestamp_ms is None else f"time {self.timestamp_ms}"


NOW: Final = AsOf()


@dataclass(frozen=True, slots=True)
class Selected:
    """A table, which state of it, and which metadata table of it if one is meant."""

    table: tuple[str, ...]
    as_of: AsOf = NOW
    branch: str | None = None
    """The branch that the name says, to write to."""

    metadata_table: str | None = None


def name_candidates(name: Sequence[str]) -> Iterator[Selected]:
    """What a name can mean, the most likely first.

    >>> [(r.table, r.metadata_table, str(r.as_of)) for r in name_candidates(("db", "t", "branch_x", "files"))][1:]
    [(('db', 't', 'branch_x'), 'files', 'now'), (('db', 't'), 'files', 'ref x')]
    """
    name = tuple(name)
    yield Selected(name)
    if len(name) < 3:
        return
    *front, last = name
    if last.lower() in _KINDS:
        yield Selected(tuple(front), metadata_table=last.lower())
        if (selected := _selected(front)) is not None:
            yield replace(selected, metadata_table=last.lower())
    elif (selected := _selected(name)) is not None:
        yield selected


def _selected(name: Sequence[str]) -> Selected | None:
    *table, last = name
    match = _SELECTOR.fullmatch(last)
    if match is None or len(table) < 2:
        return None
    what, value = match[1].lower(), match[2]
    if what == "branch":
        return Selected(tuple(table), AsOf(ref=value), branch=value)
    if what == "tag":
        return Selected(tuple(table), AsOf(ref=value))
    if not _DIGITS.fullmatch(value):
        return None
    state = AsOf(snapshot_id=int(value)) if what == "snapshot_id" else AsOf(timestamp_ms=int(value))
    return Selected(tuple(table), state)


def version_as_of(version: str) -> AsOf:
    """What `VERSION AS OF` means: a number is a snapshot, everything else a branch or tag.

    >>> version_as_of("17"), version_as_of("eoy").ref
    (AsOf(snapshot_id=17, ref=None, timestamp_ms=None), 'eoy')
    """
    if not version:
        raise InvalidInput("a version is the id of a snapshot, or the name of a branch or tag")
    return AsOf(snapshot_id=int(version)) if _DIGITS.fullmatch(version) else AsOf(ref=version)
