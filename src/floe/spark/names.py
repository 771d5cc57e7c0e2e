"""Names of tables in SQL, which may also choose a snapshot or a metadata table.

| name | meaning |
|---|---|
| `db.t` | the table |
| `db.t.snapshots`, `db.t.changes` | a metadata table, and the changelog |
| `db.t.branch_audit`, `db.t.tag_eoy` | the table at a branch or tag |
| `db.t.snapshot_id_123`, `db.t.at_timestamp_1700000000000` | the table at a snapshot, or at a time in milliseconds |
| `db.t.branch_audit.files` | a metadata table of a branch |

A table that has such a name itself takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from floe.errors import InvalidInput
from floe.plan.metadata_tables.tables import NAMES

CHANGES: Final = "changes"
"""The name of the changelog of a table."""

_SELECTOR: Final = re.compile(r"(branch|tag|snapshot_id|at_timestamp)_(.+)", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d+")
_KINDS: Final = frozenset({*NAMES, CHANGES})


@dataclass(frozen=True, slots=True)
class AsOf:
    """The choice of a snapshot: by id, by ref or by time; at most one of them, and none for the current snapshot."""

    snapshot_id: int | None = None
    ref: str | None = None
    timestamp_ms: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether the current snapshot is chosen."""
        return self == CURRENT

    def __str__(self) -> str:
        if self.snapshot_id is not None:
            return f"snapshot {self.snapshot_id}"
        if self.ref is not None:
            return f"ref {self.ref}"
        return "now" if self.timestamp_ms is None else f"time {self.timestamp_ms}"


CURRENT: Final = AsOf()


@dataclass(frozen=True, slots=True)
class TableSelector:
    """What a name refers to: a table, with a snapshot and perhaps a metadata table."""

    table: tuple[str, ...]
    as_of: AsOf = CURRENT
    branch: str | None = None
    """The branch in the name, which writes go to."""

    metadata_table: str | None = None
    """The metadata table in the name; None for the table itself."""


def name_candidates(name: Sequence[str]) -> Iterator[TableSelector]:
    """What a name may refer to, in the order in which a catalog tries it.

    >>> [(s.table, s.metadata_table, str(s.as_of)) for s in name_candidates(("db", "t", "branch_x", "files"))][1:]
    [(('db', 't', 'branch_x'), 'files', 'now'), (('db', 't'), 'files', 'ref x')]
    """
    name = tuple(name)
    yield TableSelector(name)
    if len(name) < 3:
        return
    *parent, last = name
    if last.lower() in _KINDS:
        yield TableSelector(tuple(parent), metadata_table=last.lower())
        if (selector := _parse_selector(parent)) is not None:
            yield replace(selector, metadata_table=last.lower())
    elif (selector := _parse_selector(name)) is not None:
        yield selector


def _parse_selector(name: Sequence[str]) -> TableSelector | None:
    *table, last = name
    match = _SELECTOR.fullmatch(last)
    if match is None or len(table) < 2:
        return None
    kind, value = match[1].lower(), match[2]
    if kind == "branch":
        return TableSelector(tuple(table), AsOf(ref=value), branch=value)
    if kind == "tag":
        return TableSelector(tuple(table), AsOf(ref=value))
    if not _DIGITS.fullmatch(value):
        return None
    state = AsOf(snapshot_id=int(value)) if kind == "snapshot_id" else AsOf(timestamp_ms=int(value))
    return TableSelector(tuple(table), state)


def version_as_of(version: str) -> AsOf:
    """The snapshot of `VERSION AS OF`: a number is a snapshot id, everything else a branch or tag.

    >>> version_as_of("17"), version_as_of("eoy").ref
    (AsOf(snapshot_id=17, ref=None, timestamp_ms=None), 'eoy')
    """
    if not version:
        raise InvalidInput("VERSION AS OF takes the id of a snapshot, or the name of a branch or tag")
    return AsOf(snapshot_id=int(version)) if _DIGITS.fullmatch(version) else AsOf(ref=version)
