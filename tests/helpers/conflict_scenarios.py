"""Conflicts that no pair of operations on one state shows: they need three writers, an evolved table, or a mishap.

Each scenario lets the last writer's change be checked: `ConflictingChange` if Floe refuses it. If not, it is committed,
and the scenario says what is wrong with the table then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from floe.commit.change import Footprint, Isolation, Reads, Writes
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.updates import LAST_ADDED, AddPartitionSpec, SetDefaultSpec
from floe.spec.partitioning.partition_spec import PartitionSpec
from helpers.conflict_bench import Bench
from helpers.conflict_plans import Plan
from helpers.conflict_table import State, path_of, place, scan
from helpers.row_model import KINDS

SNAPSHOT = Isolation.SNAPSHOT


def _rows(bench: Bench, state: State, writes: Writes, plan: Plan) -> set[int]:
    number = state.metadata.next_sequence_number
    after, _, _ = bench.applied(state.files, writes, 9_999, number, clears=plan.clears)
    return {row.key for row in scan(after.values(), bench.contents).values()}


def converted_deletes() -> str:
    """A compaction leaves an equality delete in force that came later; meanwhile it is turned into positions."""
    bench = Bench("v2")
    compaction = bench.plan(KINDS["compaction"], 0, "one")
    deletion = bench.plan(KINDS["delete by value"], 0, "two")
    deleted = bench.commit(bench.start, deletion.footprint.writes, "delete")
    positions = bench.contents.position_deletes("converted", 0, {path_of("A"): [0]}, named=True)
    writes = Writes(
        added=(positions,),
        removed=deletion.footprint.writes.added,
        referenced=frozenset({path_of("A")}),
        same_rows=True,
    )
    conversion = replace(deletion, footprint=Footprint(Reads(deleted.head), writes))
    compacted = bench.commit(deleted, bench.check(deleted, compaction, SNAPSHOT), "replace")
    found = _rows(bench, compacted, bench.check(compacted, conversion, SNAPSHOT), conversion)
    return "the deleted row 0 is back" if 0 in found else ""


def out_of_reach() -> str:
    """A rewrite moves rows to another partition spec, where equality deletes of the old one do not reach them."""
    bench = Bench("v2")
    state = bench.start
    evolved = [AddPartitionSpec(PartitionSpec(())), SetDefaultSpec(LAST_ADDED)]
    state = State(apply(state.metadata, evolved, now_ms=20_000), state.files)
    rewrite = bench.plan(KINDS["compaction"], 0, "one")
    moved = tuple(replace(file, spec_id=1, partition=()) for file in rewrite.footprint.writes.added)
    rewritten = bench.commit(state, replace(rewrite.footprint.writes, added=moved), "replace")
    deletion = bench.plan(KINDS["delete by value"], 0, "two")
    careful = replace(deletion, footprint=replace(deletion.footprint, reads=Reads(bench.start.head)))
    found = _rows(bench, rewritten, bench.check(rewritten, careful, SNAPSHOT), careful)
    return "row 0 was deleted, and is there" if 0 in found else ""


def added_twice() -> str:
    """Two writers add the same file."""
    bench = Bench("v2")
    plan = bench.plan(KINDS["insert select"], 0, "one")
    state = bench.commit(bench.start, plan.footprint.writes, "append")
    writes = bench.check(state, plan, SNAPSHOT)
    return "a file is in the table twice" if any(place(file) in state.files for file in writes.added) else ""


SCENARIOS: dict[str, Callable[[], str]] = {
    "rows of converted deletes are in another file now": converted_deletes,
    "rows out of reach of equality deletes": out_of_reach,
    "file added twice": added_twice,
}
"""By the rule that refuses them."""
