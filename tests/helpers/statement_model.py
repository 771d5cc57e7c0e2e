"""A table as a list of plain rows, and what SQL statements do to it: written from SQL's rules, without Arrow or Floe.

Every row has a `uid`, which no statement changes, so that it can be told whether a row that moved is still the same
one. Conditions and values come in two forms, as text for Floe and as functions of a row for the model; null is None,
and a comparison with it is None too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Truth = bool | None


@dataclass(frozen=True)
class Sql:
    """A value or condition: its text, and what it is for a row of the table and one of the source."""

    text: str
    of: Callable[[Row, Row], Any] = field(compare=False)

    def __repr__(self) -> str:
        return self.text


def both(one: Truth, other: Truth) -> Truth:
    """AND with three values."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def opposite(one: Truth) -> Truth:
    """NOT with three values."""
    return None if one is None else not one


def either(one: Truth, other: Truth) -> Truth:
    """OR with three values."""
    return opposite(both(opposite(one), opposite(other)))


@dataclass(frozen=True)
class When:
    """A clause of MERGE: `matched`, `new` (not matched) or `lonely` (not matched by source)."""

    kind: str
    then: str
    values: Mapping[str, Sql] | None = None
    condition: Sql | None = None

    def applies(self, target: Row, source: Row) -> bool:
        return self.condition is None or self.condition.of(target, source) is True


class MatchedTwice(Exception):
    """A row of the table would be changed by two rows of the source."""


@dataclass
class ModelTable:
    """Rows, the columns that they have, and what new rows have where nothing is given."""

    columns: list[str]
    defaults: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)
    """The uids of the rows that the last statement changed or added."""

    def append(self, rows: Sequence[Row]) -> None:
        new = [self._completed(row) for row in rows]
        self.rows += new
        self.changed = {row["uid"] for row in new}

    def _completed(self, row: Row) -> Row:
        return {name: row.get(name, self.defaults.get(name)) for name in self.columns}

    def delete(self, where: Sql) -> int:
        before = len(self.rows)
        self.rows = [row for row in self.rows if where.of(row, {}) is not True]
        self.changed = set()
        return before - len(self.rows)

    def update(self, values: Mapping[str, Sql], where: Sql | None) -> int:
        self.changed = set()
        for place, row in enumerate(self.rows):
            if where is None or where.of(row, {}) is True:
                self.rows[place] = assigned(row, values, {})
                self.changed.add(row["uid"])
        return len(self.changed)

    def upsert(self, source: Sequence[Row], on: Sequence[str]) -> tuple[int, int]:
        updated, inserted = 0, []
        self.changed = set()
        found: set[int] = set()
        for place, row in enumerate(self.rows):
            for number, new in enumerate(source):
                if all(row[key] == new[key] for key in on):
                    found.add(number)
                    after = row | {name: value for name, value in new.items() if name != "uid"}
                    if after != row:
                        self.rows[place] = after
                        self.changed.add(row["uid"])
                        updated += 1
        for number, new in enumerate(source):
            if number not in found:
                inserted.append(self._completed(new))
        self.rows += inserted
        self.changed |= {row["uid"] for row in inserted}
        return updated, len(inserted)

    def merge(self, source: Sequence[Row], on: Sql, clauses: Sequence[When]) -> tuple[int, int, int]:
        """How many rows were deleted, updated and inserted; raises and changes nothing if a row is changed twice."""
        kept: list[Row] = []
        changed: set[int] = set()
        seen: set[int] = set()
        deleted = 0
        for row in self.rows:
            matches = [number for number, new in enumerate(source) if on.of(row, new) is True]
            seen |= set(matches)
            kind = "matched" if matches else "lonely"
            own = [clause for clause in clauses if clause.kind == kind]
            chosen = [
                (clause, new)
                for new in ([source[number] for number in matches] or [{}])
                if (clause := next((one for one in own if one.applies(row, new)), None)) is not None
            ]
            if not chosen:
                kept.append(row)
            elif all(clause.then == "delete" for clause, _ in chosen):
                deleted += 1
            elif len(chosen) > 1:
                raise MatchedTwice
            else:
                clause, new = chosen[0]
                values = _all_of(self.columns, new) if clause.values is None else clause.values
                kept.append(assigned(row, values, new))
                changed.add(row["uid"])
        inserted: list[Row] = []
        for number, new in enumerate(source):
            if number in seen:
                continue
            for clause in clauses:
                if clause.kind == "new" and clause.applies({}, new):
                    values = _all_of(self.columns, new) if clause.values is None else clause.values
                    inserted.append(assigned(self._completed({}), values, new))
                    break
        self.rows = kept + inserted
        self.changed = changed | {row["uid"] for row in inserted}
        return deleted, len(changed), len(inserted)


def _all_of(columns: Sequence[str], source: Row) -> dict[str, Sql]:
    return {name: Sql(f"s.{name}", lambda t, s, name=name: s[name]) for name in columns if name in source}


def assigned(row: Row, values: Mapping[str, Sql], source: Row) -> Row:
    """The row with some columns set; all values are those of the row as it was."""
    after = dict(row)
    for name, value in values.items():
        found = value.of(row, source)
        first, _, inner = name.partition(".")
        if inner:
            after[first] = {**(row[first] or {"a": None, "b": None}), inner: found}
        else:
            after[first] = found
    return after
