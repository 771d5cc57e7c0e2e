"""Every pair of concurrent operations, judged by Floe and by a model that knows rows and nothing of Floe's rules.

What Floe lets through must be right, always. What it refuses needlessly is counted and may not grow; pairs that are
declared compatible must go through. Each rule is switched off in turn, and then a wrong table must be committed.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from floe.commit.change import Isolation
from floe.commit.conflicts import rules as conflicts
from floe.commit.conflicts.rules import RULES, Verdict
from floe.errors import ConflictingChange
from helpers.conflict_bench import Matrix, Outcome, Pair
from helpers.conflict_scenarios import SCENARIOS
from helpers.conflict_table import OVERLAPS, TABLES, scan
from helpers.row_model import KINDS, same

CORE = (
    "append",
    "MoR delete",
    "MoR update",
    "CoW update",
    "overwrite by filter",
    "blind overwrite",
    "replace partitions",
    "delete by filter",
    "compaction",
    "rewrite deletes",
    "rewrite manifests",
    "upsert",
)
SERIALIZABLE, SNAPSHOT = Isolation
BLIND = [kind.name for kind in KINDS.values() if kind.blind]
ADDS_ONLY = ["append", "insert select"]
BY_VALUE = ["upsert", "delete by value"]
DELETES = ["MoR delete", "MoR delete if partner"]
UPDATES = ["MoR update", "MoR move"]
ROW_WISE = ["MoR delete", "MoR update", "MoR move", "CoW update", "CoW delete", "drop file"]
REWRITES = ["compaction", "compaction, new sequence number", "rewrite deletes", "convert deletes", "rewrite manifests"]
REGIONS = ["overwrite by filter", "replace partitions"]
MOVES = ["MoR move", "CoW move of a file"]


def compatible(pair: Pair) -> bool:
    """The pairs that users can rely on to commit both: the promise behind docs/isolation.md."""
    _, first, second, overlap, isolation = pair
    apart = overlap == "disjoint"
    other_file = overlap in ("same partition", "disjoint")
    other_row = overlap != "same row"
    fine = first in [*DELETES, *UPDATES] and second in ["MoR delete", "MoR update", "MoR move"]
    return (
        second in BLIND
        or first == "rewrite manifests"
        or (apart and second in [*ROW_WISE, *REWRITES, *REGIONS] and first not in MOVES)
        or (first in DELETES and second == "MoR delete")
        or (fine and other_row and not (first == "MoR move" and apart))
        or (second == "compaction" and first in [*ADDS_ONLY, *BY_VALUE])
        or (second in REWRITES and first in ADDS_ONLY)
        or (first in REWRITES and second in ROW_WISE and other_file)
        or (isolation is SNAPSHOT and second == "insert select")
        or (isolation is SNAPSHOT and first in ADDS_ONLY and second in [*ROW_WISE, "MoR merge"])
    )


def _tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}")


# the core: quick enough for every run -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def core() -> list[Outcome]:
    matrix = Matrix(("v2", "v3"), CORE)
    return [matrix.outcome(pair) for pair in matrix.pairs()]


def test_nothing_wrong_is_committed(core: list[Outcome]) -> None:
    wrong = [f"{one.pair}: {one.problem}" for one in core if one.rule is None and not one.right]
    assert not wrong, wrong[:10]
    assert len(core) == 12 * 12 * 4 * 2 * 2


def test_compatible_pairs_commit(core: list[Outcome]) -> None:
    promised = [one for one in core if compatible(one.pair)]
    refused = [f"{one.pair}: {one.rule}" for one in promised if one.rule is not None]
    assert not refused, refused[:10]
    assert len(promised) > len(core) / 2


def test_a_model_that_can_say_no(core: list[Outcome]) -> None:
    """Of what Floe refuses, most would have been wrong: the model is no yes-man."""
    refused = [one for one in core if one.rule is not None]
    assert sum(not one.right for one in refused) > 0.7 * len(refused)


# everything -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return Matrix(TABLES)


@pytest.fixture(scope="module")
def everything(matrix: Matrix) -> list[Outcome]:
    return [matrix.outcome(pair) for pair in matrix.pairs()]


@pytest.mark.slow
def test_nothing_wrong_is_committed_at_all(everything: list[Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [f"{one.pair}: {one.problem}" for one in everything if one.rule is None and not one.right]
    committed = sum(one.rule is None for one in everything)
    refused = len(everything) - committed
    _tell(capsys, f"{len(everything)} pairs: {committed} commit, {refused} conflict, {len(wrong)} wrong")
    assert not wrong, wrong[:10]
    assert len(everything) > 18_000


@pytest.mark.slow
def test_compatible_pairs_commit_everywhere(everything: list[Outcome]) -> None:
    refused = [f"{one.pair}: {one.rule}" for one in everything if compatible(one.pair) and one.rule is not None]
    assert not refused, refused[:10]


@pytest.mark.slow
def test_needless_conflicts(everything: list[Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    """What is refused though it would have been right; the number may fall, not rise."""
    needless = [one for one in everything if one.rule is not None and one.right]
    share = len(needless) / len(everything)
    _tell(capsys, f"{len(needless)} needless conflicts of {len(everything)} pairs ({share:.1%})")
    for rule, count in Counter(one.rule for one in needless).most_common(5):
        _tell(capsys, f"  {count:5} {rule}")
    assert len(needless) <= 1346


@pytest.mark.slow
def test_three_writers(matrix: Matrix) -> None:
    """Three operations that read the same state: what commits is as if they had run one after the other."""
    chance, targets, tried, committed = random.Random(4), list(OVERLAPS.values()), 0, 0
    for table, bench in matrix.benches.items():
        kinds = bench.kinds()
        for _ in range(150):
            one, two, three = (
                bench.plan(chance.choice(kinds), chance.choice(targets), tag) for tag in ("a", "bb", "ccc")
            )
            state, expected = bench.start, bench.rows
            for plan in (one, two, three):
                tried += 1
                try:
                    writes = bench.check(state, plan, SERIALIZABLE)
                except ConflictingChange:
                    continue
                committed += 1
                number = state.metadata.next_sequence_number
                _, _, missing = bench.applied(state.files, writes, 9_999, number, clears=plan.clears)
                assert not missing, (table, one.kind, two.kind, three.kind)
                state = bench.commit(state, writes, plan.label, clears=plan.clears)
                expected = plan.kind.effect(expected, plan.aim).on(expected)
                found = scan(state.files.values(), bench.contents)
                assert same(found, expected), (table, one.kind, two.kind, three.kind)
    assert tried == 4 * 150 * 3
    assert committed > tried / 2


# labels -----------------------------------------------------------------------------------------------------------

LABELS = ("append", "delete", "overwrite", "replace")


@pytest.mark.parametrize("table", ["v2", "v3"])
def test_labels_do_not_matter(table: str) -> None:
    """A snapshot is judged by its files, whatever it calls itself.

    Only a rewrite is believed to be one: a snapshot that says `replace`, and does not add more rows than it removes.
    """
    matrix = Matrix([table])
    firsts = ["append", "MoR delete", "MoR update", "upsert", "delete by value"]
    seconds = ["MoR delete", "MoR update", "MoR merge", "CoW update", "compaction", "insert select", *REGIONS]
    for first, second, isolation in product(firsts, seconds, Isolation):
        pair = Pair(table, first, second, "same row", isolation)
        honest = matrix.outcome(pair)
        for label in LABELS:
            told = matrix.outcome(pair, label)
            assert (told.rule, told.merged) == (honest.rule, honest.merged), (pair, label)


# mutants ----------------------------------------------------------------------------------------------------------


def _without(rule: conflicts.Rule) -> tuple[conflicts.Rule, ...]:
    return tuple(one for one in RULES if one is not rule)


def _killers(rule: conflicts.Rule, outcomes: list[Outcome]) -> list[Outcome]:
    """Pairs on which the rule may be all that stands between the table and a wrong commit."""
    if Verdict.MERGE in (rule.serializable, rule.snapshot):
        return [one for one in outcomes if one.merged]
    return [one for one in outcomes if one.rule == rule.name and not one.right]


@pytest.mark.slow
def test_every_rule_is_needed(
    matrix: Matrix,
    everything: list[Outcome],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    survivors = []
    for rule in RULES:
        monkeypatch.setattr(conflicts, "RULES", _without(rule))
        by_pairs = any(not again.right and again.rule is None for again in _again(matrix, _killers(rule, everything)))
        scenario: Callable[[], str] | None = SCENARIOS.get(rule.name)
        if not by_pairs and not (scenario is not None and scenario()):
            survivors.append(rule.name)
    _tell(capsys, f"{len(RULES) - len(survivors)} of {len(RULES)} rules are missed when they are switched off")
    assert not survivors


def _again(matrix: Matrix, outcomes: list[Outcome]) -> Iterator[Outcome]:
    return (matrix.outcome(one.pair) for one in outcomes)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_scenarios_are_conflicts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConflictingChange) as caught:
        SCENARIOS[name]()
    assert caught.value.context["rule"] == name
    monkeypatch.setattr(conflicts, "RULES", tuple(rule for rule in RULES if rule.name != name))
    assert SCENARIOS[name](), "without its rule, a wrong table is committed"
