"""Any two kinds of operations on the small table: one committed, one checked, and what the model says of the outcome.

The first operation is always aimed at the first row of `A`; the second at the same row, at another row of the file, of
the partition, or of the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from floe.commit.change import Attempt, Isolation, Writes
from floe.commit.conflicts.change_index import merge_vectors
from floe.commit.conflicts.rules import check
from floe.errors import ConflictingChange
from helpers.conflict_plans import Plan, Planner
from helpers.conflict_table import FILES, OVERLAPS, ROOT, ROWS, TABLES, Broken, State, TableBench, scan
from helpers.row_model import KINDS, Aim, Kind, serializable, snapshot_isolated


class Bench(TableBench):
    """One of `TABLES`, and everything that can be done to it."""

    def plan(self, kind: Kind, target: int, tag: str) -> Plan:
        """An operation that has read the table as it was at the start."""
        row = ROWS[target]
        name = next(name for name, ids in FILES.items() if target in ids)
        aim = Aim(row, tag, FILES[name], partner=8 if row.part == 0 else 0)
        return Planner(self, kind, aim, name).plan()

    def check(self, state: State, plan: Plan, isolation: Isolation, *, can_merge: bool = True) -> Writes:
        """What the operation may write on top of that state; ConflictingChange if it may not be committed."""
        attempt = Attempt("t", state.metadata, state.metadata, self.storage, self.environment)
        footprint = replace(plan.footprint, isolation=isolation)
        merges = check(attempt, footprint, "main", cache=state.cache, can_merge=can_merge)
        if not merges:
            return footprint.writes
        return merge_vectors(footprint.writes, merges, self.storage, f"{ROOT}/data/merged-{self._next()}.puffin")


# pairs ------------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two operations that read the same state of a table; the first is committed, the second wants to be."""

    table: str
    first: str
    second: str
    overlap: str
    isolation: Isolation

    def __str__(self) -> str:
        return f"{self.table}: {self.first}, then {self.second} ({self.overlap}, {self.isolation.value})"


class Outcome(NamedTuple):
    """What Floe says about a pair, and what the model says of the table if the second were committed."""

    pair: Pair
    rule: str | None
    """The rule that keeps the second from being committed."""

    merged: bool
    """Whether deletion vectors had to be merged."""

    right: bool
    problem: str


class Matrix:
    """All pairs of some kinds of operations; what can be used again is made once."""

    def __init__(self, tables: Iterable[str] = TABLES, kinds: Iterable[str] | None = None) -> None:
        self.benches = {table: Bench(table) for table in tables}
        self.kinds = set(KINDS if kinds is None else kinds)
        self._states: dict[tuple[str, str, str | None], tuple[Plan, State]] = {}
        self._plans: dict[tuple[str, str, str], Plan] = {}

    def pairs(self) -> Iterable[Pair]:
        for table, bench in self.benches.items():
            names = [kind.name for kind in bench.kinds() if kind.name in self.kinds]
            for first in names:
                for second in names:
                    for overlap in OVERLAPS:
                        for isolation in Isolation:
                            yield Pair(table, first, second, overlap, isolation)

    def first(self, pair: Pair, label: str | None = None) -> tuple[Plan, State]:
        """The first operation of a pair, and the table after it; its snapshot may be labelled as one likes."""
        key = pair.table, pair.first, label
        if key not in self._states:
            bench = self.benches[pair.table]
            plan = bench.plan(KINDS[pair.first], 0, "one")
            state = bench.commit(bench.start, plan.footprint.writes, label or plan.label, clears=plan.clears)
            self._states[key] = plan, state
        return self._states[key]

    def second(self, pair: Pair) -> Plan:
        """The second operation of a pair."""
        key = pair.table, pair.second, pair.overlap
        if key not in self._plans:
            self._plans[key] = self.benches[pair.table].plan(KINDS[pair.second], OVERLAPS[pair.overlap], "two")
        return self._plans[key]

    def outcome(self, pair: Pair, label: str | None = None) -> Outcome:
        """What Floe and the model say about a pair."""
        bench, (one, state), two = self.benches[pair.table], self.first(pair, label), self.second(pair)
        writes, rule = two.footprint.writes, None
        try:
            writes = bench.check(state, two, pair.isolation)
        except ConflictingChange as error:
            rule = str(error.context["rule"])
        problem = self.problem(bench, state, one, two, writes, pair.isolation)
        return Outcome(pair, rule, writes is not two.footprint.writes, not problem, problem)

    def problem(self, bench: Bench, state: State, one: Plan, two: Plan, writes: Writes, isolation: Isolation) -> str:
        """What is wrong with the table if the second operation is committed; nothing if all is well."""
        number = state.metadata.next_sequence_number
        after, _, missing = bench.applied(state.files, writes, 9_999, number, clears=two.clears)
        if missing:
            return f"removes {missing[0][0]}, which is not there"
        try:
            final = scan(after.values(), bench.contents)
        except Broken as broken:
            return str(broken)
        explains = serializable if isolation is Isolation.SERIALIZABLE else snapshot_isolated
        if explains(bench.rows, (one.kind, one.aim), (two.kind, two.aim), final):
            return ""
        return f"the table has {sorted(row[1:] for row in final.values())}"
