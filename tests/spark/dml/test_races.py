"""Every ordered pair of statements once, racing on Spark: the second has read before the first commits.

The first is run by another session while the second is about to commit. What is committed is judged by a model that
knows rows and nothing of Floe (`helpers.row_model`), as for the embedded engine, which runs all combinations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from itertools import count, product

import pytest
from pyspark.errors import PySparkException

from floe import Lake
from floe.commit.change import Change
from floe.commit.target import TableTarget
from floe.errors import ConflictingChange
from floe.spec.metadata.snapshots import Snapshot
from helpers import row_model
from helpers.row_model import Aim
from helpers.run_totals import report_totals
from helpers.spark import Spark
from helpers.statement_pairs import (
    COW,
    DISTANCES,
    FILES,
    KINDS,
    MOR,
    START,
    STATEMENTS,
    Pair,
    compact,
    promised,
    rows_of,
    stored,
)

_numbers = count(1)

SQL = {
    "append": "INSERT INTO {t} VALUES ({key}, {part}, '{tag}:appended')",
    "DELETE": "DELETE FROM {t} WHERE key = {key}",
    "UPDATE": "UPDATE {t} SET value = value || '+{tag}' WHERE key = {key}",
    "MERGE": "MERGE INTO {t} t USING (SELECT CAST({key} AS BIGINT) AS key, {part} AS part, '{tag}:merged' AS value) s "
    "ON t.key = s.key AND t.key = {key} "
    "WHEN MATCHED THEN UPDATE SET value = t.value || '+{tag}' WHEN NOT MATCHED THEN INSERT *",
    "overwrite": "INSERT OVERWRITE {t} PARTITION (part = {part}) SELECT 600, '{tag}:fresh'",
}


def sample() -> list[Pair]:
    """Every ordered pair once, over distances, modes, isolations and versions in turn; the closest ones most often."""
    found = []
    kinds = list(product((MOR, COW), ("serializable", "snapshot"), (2, 3)))
    distances = ["same row", "same file", "same row", "same partition", "same row", "apart"]
    for number, (first, second) in enumerate(product(STATEMENTS, STATEMENTS)):
        mode, isolation, version = kinds[(number * 3 + number // 6) % len(kinds)]
        found.append(Pair(first, second, distances[(number + number // 6) % len(distances)], mode, isolation, version))
    return found


class Races:
    """Tables to race on, all begun from one that was written once for each kind."""

    def __init__(self, session: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.lake = session, session.lake("sq")
        self.begun: dict[tuple[str, str, int], str] = {}
        self.name = f"races{next(_numbers)}"
        self.count = 0
        session(f"CREATE NAMESPACE sq.{self.name}")
        self.meanwhile: Callable[[], None] | None = None
        commit = TableTarget.commit

        def racing(target: TableTarget, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
            run, self.meanwhile = self.meanwhile, None
            if run is not None:
                other = threading.Thread(target=run)
                other.start()
                other.join()
            return commit(target, changes, files)

        monkeypatch.setattr(TableTarget, "commit", racing)

    def new(self, pair: Pair) -> str:
        kind = (pair.mode, pair.isolation, pair.version)
        if kind not in self.begun:
            self.begun[kind] = begin(self.lake, f"{self.name}.begun{len(self.begun)}", pair)
        self.count += 1
        self.lake.register_table(f"{self.name}.t{self.count}", self.begun[kind])
        return f"{self.name}.t{self.count}"

    def run(self, statement: str, name: str, aim: Aim, spark: Spark) -> None:
        if statement == "compaction":
            compact(self.lake.table(name), aim)
        else:
            spark(SQL[statement].format(t=f"sq.{name}", key=aim.row.key, part=aim.row.part, tag=aim.tag))

    def race(self, pair: Pair) -> str | None:
        """Run the pair; what was said if the second was refused. What is committed is checked."""
        name = self.new(pair)
        first_aim, second_aim = pair.aims()
        other = Spark(self.session.session.newSession())  # type: ignore[arg-type]
        self.meanwhile = lambda: self.run(pair.first, name, first_aim, other)
        refused = None
        try:
            self.run(pair.second, name, second_aim, self.session)
        except (PySparkException, ConflictingChange) as error:
            refused = str(error)
        final = rows_of(self.lake.table(name))
        assert self.meanwhile is None, "the second statement never came to commit"
        first, second = (KINDS[pair.first], first_aim), (KINDS[pair.second], second_aim)
        if refused is not None:
            between = first[0].effect(START, first_aim).on(START)
            assert row_model.same(final, between), f"{pair}: refused, and changed something: {refused}"
            head = self.lake.table(name).current_snapshot
            assert head is not None
            assert str(head.snapshot_id) in refused, f"{pair}: {refused} does not name {head.snapshot_id}"
            return refused
        judge = row_model.serializable if pair.isolation == "serializable" else row_model.snapshot_isolated
        assert judge(START, first, second, final), f"{pair}: {sorted(row[1:] for row in final.values())}"
        return None


def begin(lake: Lake, name: str, pair: Pair) -> str:
    kinds = ("delete", "update", "merge")
    properties = {f"write.{kind}.mode": pair.mode for kind in kinds}
    properties |= {f"write.{kind}.isolation-level": pair.isolation for kind in kinds}
    columns = "key bigint, part int, value string"
    table = lake.create_table(name, columns, partition_by=["part"], format_version=pair.version, properties=properties)
    for keys in FILES:
        table.append([stored(START[key]) for key in keys])
    return table.metadata_location


@pytest.fixture
def races(session: Spark, monkeypatch: pytest.MonkeyPatch) -> Races:
    return Races(session, monkeypatch)


@pytest.mark.slow
def test_every_pair_once(races: Races, request: pytest.FixtureRequest) -> None:
    pairs = sample()
    assert {(pair.first, pair.second) for pair in pairs} == set(product(STATEMENTS, STATEMENTS))
    assert {pair.distance for pair in pairs} == set(DISTANCES)
    refused = {pair: told for pair in pairs if (told := races.race(pair)) is not None}
    broken = [pair for pair in refused if promised(pair)]
    assert not broken, [(pair, refused[pair]) for pair in broken[:3]]
    report_totals(request, spark_statement_pairs_raced=len(pairs), spark_statement_pairs_refused=len(refused))


@pytest.mark.parametrize(("mode", "isolation", "version"), [(MOR, "snapshot", 2), (COW, "serializable", 3)])
def test_the_lost_delete(races: Races, mode: str, isolation: str, version: int) -> None:
    """An UPDATE moves jack's row to another file; a DELETE that has seen the old one must not pass by it."""
    refused = races.race(Pair("UPDATE", "DELETE", "same row", mode, isolation, version))
    assert refused is not None
    if mode == MOR:
        assert "moved" in refused


@pytest.mark.parametrize("statement", ["append", "MERGE"])
def test_a_table_made_anew_meanwhile_is_not_changed(races: Races, statement: str) -> None:
    """The statement was analyzed for a table that is gone; that another has its name by now is none of its business."""
    pair = Pair("append", statement, "same row", MOR, "serializable", 2)
    name, (_, aim) = races.new(pair), pair.aims()
    old = races.lake.table(name)

    def made_anew() -> None:
        races.lake.drop_table(name)
        begin(races.lake, name, pair)

    races.meanwhile = made_anew
    with pytest.raises(PySparkException, match=rf"uuid {old.uuid}.*load the table again"):
        races.run(statement, name, aim, races.session)
    assert races.meanwhile is None
    new = races.lake.table(name)
    assert new.uuid != old.uuid
    assert row_model.same(rows_of(new), START)
