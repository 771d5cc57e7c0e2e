"""The anomalies of other engines, by name: each is refused, or committed rightly, and found again without its rule."""

from __future__ import annotations

import pytest

from floe.commit.change import Isolation
from floe.commit.conflicts import rules as conflicts
from floe.commit.conflicts.rules import RULES
from floe.errors import ConflictingChange
from helpers.conflict_bench import Bench, Matrix, Pair
from helpers.conflict_table import OVERLAPS, Broken, scan
from helpers.row_model import KINDS

SERIALIZABLE, SNAPSHOT = Isolation


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    assert {rule.name for rule in RULES} >= set(names)
    monkeypatch.setattr(conflicts, "RULES", tuple(rule for rule in RULES if rule.name not in names))


def pair(table: str, first: str, second: str, overlap: str, isolation: Isolation = SNAPSHOT) -> Pair:
    return Pair(table, first, second, overlap, isolation)


@pytest.mark.parametrize("table", ["v2", "v3", "v3 from v2"])
@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("order", [("MoR update", "MoR delete"), ("MoR delete", "MoR update")])
def test_seed_001_the_lost_delete(table: str, isolation: Isolation, order: tuple[str, str]) -> None:
    """A merge-on-read DELETE and an UPDATE of the same row: whichever is second would be lost."""
    outcome = Matrix([table]).outcome(pair(table, *order, "same row", isolation))
    assert outcome.rule in ("row moved meanwhile", "row changed by both")
    assert not outcome.right


def test_seed_001_without_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: the model finds the row that survives its own deletion, as in the published schedule."""
    without(monkeypatch, "row moved meanwhile")
    outcome = Matrix(["v2"]).outcome(pair("v2", "MoR update", "MoR delete", "same row"))
    assert outcome.rule is None
    assert not outcome.right
    assert "r0+one" in outcome.problem


@pytest.mark.parametrize("table", ["v3", "v3 from v2"])
@pytest.mark.parametrize("order", [("rewrite deletes", "MoR delete"), ("MoR delete", "rewrite deletes")])
def test_n4_two_deletion_vectors(table: str, order: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewriting position deletes against a DELETE: each adds a vector for the same file."""
    bench = Bench(table)
    one, two = (bench.plan(KINDS[kind], 0, tag) for kind, tag in zip(order, ("one", "two"), strict=True))
    state = bench.commit(bench.start, one.footprint.writes, one.label)
    with pytest.raises(ConflictingChange, match="merge the deletion vectors") as caught:
        bench.check(state, two, SNAPSHOT, can_merge=False)
    assert caught.value.context["rule"] == "second deletion vector"
    assert Matrix([table]).outcome(pair(table, *order, "same row")).right, "merged, both commit"
    without(monkeypatch, "second deletion vector")
    writes = bench.check(state, two, SNAPSHOT, can_merge=False)
    after, _, _ = bench.applied(state.files, writes, 9_999, 9)
    with pytest.raises(Broken, match="two deletion vectors"):
        scan(after.values(), bench.contents)


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("second", ["overwrite by filter", "replace partitions"])
def test_a1_insert_overwrite_from_the_same_table_loses_no_append(second: str, isolation: Isolation) -> None:
    outcome = Matrix(["v2"]).outcome(pair("v2", "append", second, "same partition", isolation))
    assert outcome.rule == "added rows would be lost"
    assert not outcome.right


def test_a1_a_blind_overwrite_is_what_it_says() -> None:
    for second in ("blind overwrite", "blind replace partitions", "delete by filter"):
        outcome = Matrix(["v2"]).outcome(pair("v2", "append", second, "same partition", SERIALIZABLE))
        assert (outcome.rule, outcome.right) == (None, True)


@pytest.mark.parametrize("table", ["v2", "v3"])
@pytest.mark.parametrize("deletion", ["MoR delete", "MoR update", "CoW delete", "drop file", "delete by filter"])
def test_2308_compaction_does_not_bring_rows_back(table: str, deletion: str) -> None:
    outcome = Matrix([table]).outcome(pair(table, deletion, "compaction", "same row"))
    assert outcome.rule in ("copied row was deleted", "file is gone")
    assert not outcome.right


def test_10312_equality_deletes_go_on_applying_to_compacted_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come between planning and commit: with the old sequence number both stand, with a new one they conflict."""
    matrix = Matrix(["v2"])
    kept = matrix.outcome(pair("v2", "delete by value", "compaction", "same row"))
    assert (kept.rule, kept.right) == (None, True)
    lost = matrix.outcome(pair("v2", "delete by value", "compaction, new sequence number", "same row"))
    assert (lost.rule, lost.right) == ("copied row was deleted by value", False)


@pytest.mark.parametrize("table", ["v2", "v3"])
def test_4996_compaction_is_not_starved(table: str) -> None:
    """Streams of appends and upserts go on while a compaction is at work, and so do changes of other files."""
    matrix = Matrix([table])
    for first in ("append", "insert select", "upsert", "delete by value"):
        for overlap_ in OVERLAPS:
            outcome = matrix.outcome(pair(table, first, "compaction", overlap_))
            assert (outcome.rule, outcome.right) == (None, True), (first, overlap_)
    for first in ("MoR delete", "MoR update", "CoW update", "drop file", "compaction"):
        assert matrix.outcome(pair(table, first, "compaction", "same partition")).rule is None


@pytest.mark.parametrize("table", ["v1", "v2", "v3"])
def test_trino_18393_a_fully_deleted_file_against_compaction(table: str) -> None:
    """A DELETE of all rows of a file removes the file; a compaction has moved the rows elsewhere."""
    outcome = Matrix([table]).outcome(pair(table, "compaction, new sequence number", "drop file", "same row"))
    assert (outcome.rule, outcome.right) == ("file is gone", False)


@pytest.mark.parametrize("table", ["v2", "v3"])
@pytest.mark.parametrize("isolation", Isolation)
def test_deletes_of_a_file_do_not_disturb_each_other(table: str, isolation: Isolation) -> None:
    """DELETE × DELETE: in v3 Java refuses the second; here the vectors are merged."""
    matrix = Matrix([table])
    for overlap_ in OVERLAPS:
        outcome = matrix.outcome(pair(table, "MoR delete", "MoR delete", overlap_, isolation))
        assert (outcome.rule, outcome.right) == (None, True)
        assert outcome.merged is (table == "v3" and overlap_ in ("same row", "same file"))


@pytest.mark.parametrize("table", ["v2", "v3"])
def test_updates_of_different_rows_of_a_file_do_not_disturb_each_other(table: str) -> None:
    for isolation in Isolation:
        outcome = Matrix([table]).outcome(pair(table, "MoR update", "MoR update", "same file", isolation))
        assert (outcome.rule, outcome.right) == (None, True)


@pytest.mark.parametrize("isolation", Isolation)
def test_write_skew(isolation: Isolation) -> None:
    """A3: each deletes its row because the other's is there. Only who wants to be alone is protected from it."""
    outcome = Matrix(["v2"]).outcome(
        pair("v2", "MoR delete if partner", "MoR delete if partner", "disjoint", isolation)
    )
    assert outcome.rule == ("rows disappeared by position" if isolation is SERIALIZABLE else None)


def test_an_upsert_against_a_delete_is_no_lost_update() -> None:
    """It is blind: that the DELETE came first explains what is left."""
    outcome = Matrix(["v2"]).outcome(pair("v2", "upsert", "MoR delete", "same row"))
    assert (outcome.rule, outcome.right) == (None, True)
