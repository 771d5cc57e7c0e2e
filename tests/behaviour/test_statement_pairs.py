"""Every ordered pair of statements that race on one table: the second has read before the first commits.

What is committed has to be what some serial order gives, or under snapshot isolation what first-committer-wins on rows
allows, as a model judges that knows rows and nothing of Floe (`helpers.row_model`). What is refused changes nothing,
and names the commit that came first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest

import floe
from floe import Lake, Table
from floe.commit.change import Change
from floe.commit.pointer import Pointer, TableState
from floe.errors import ConflictingChange
from floe.spec.metadata.snapshots import Snapshot
from helpers import row_model
from helpers.row_model import Aim
from helpers.run_totals import report_totals
from helpers.statement_pairs import (
    COW,
    FILES,
    KINDS,
    MOR,
    START,
    STATEMENTS,
    Pair,
    compact,
    pairs,
    promised,
    rows_of,
    stored,
)

# the statements -----------------------------------------------------------------------------------------------------


def append(table: Table, aim: Aim) -> None:
    table.append([{"key": aim.row.key, "part": aim.row.part, "value": f"{aim.tag}:appended"}])


def delete(table: Table, aim: Aim) -> None:
    table.delete(f"key = {aim.row.key}")


def update(table: Table, aim: Aim) -> None:
    table.update({"value": f"value || '+{aim.tag}'"}, where=f"key = {aim.row.key}")


def merge(table: Table, aim: Aim) -> None:
    source = [{"key": aim.row.key, "part": aim.row.part, "value": f"{aim.tag}:merged"}]
    merging = table.merge(source, on="t.key = s.key").when_matched_update({"value": f"t.value || '+{aim.tag}'"})
    merging.when_not_matched_insert_all().execute()


def overwrite(table: Table, aim: Aim) -> None:
    new = [{"key": 600, "part": aim.row.part, "value": f"{aim.tag}:fresh"}]
    table.overwrite(new, where=f"part = {aim.row.part}")


RUN: dict[str, Callable[[Table, Aim], None]] = {
    "append": append,
    "DELETE": delete,
    "UPDATE": update,
    "MERGE": merge,
    "overwrite": overwrite,
    "compaction": compact,
}


# the race -----------------------------------------------------------------------------------------------------------


class Racing(Table):
    """A table object that lets somebody else commit just before its own commit."""

    meanwhile: Callable[[], None] | None = None

    def __init__(self, pointer: Pointer, state: TableState) -> None:
        super().__init__(pointer, state)
        commit = self.commit_target.commit

        def racing(changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
            run, self.meanwhile = self.meanwhile, None
            if run is not None:
                run()
            return commit(changes, files)

        self.commit_target.commit = racing  # type: ignore[method-assign]


class Tables:
    """Tables to race on, all begun from one that was written once for each kind."""

    def __init__(self) -> None:
        self.lake: Lake = floe.connect("memory:")
        self.lake.create_namespace("db")
        self.begun: dict[tuple[str, str, int], str] = {}
        self.count = 0

    def new(self, pair: Pair) -> str:
        kind = (pair.mode, pair.isolation, pair.version)
        if kind not in self.begun:
            self.begun[kind] = self._begin(*kind)
        self.count += 1
        name = f"db.race{self.count}"
        self.lake.register_table(name, self.begun[kind])
        return name

    def _begin(self, mode: str, isolation: str, version: int) -> str:
        kinds = ("delete", "update", "merge")
        properties = {f"write.{kind}.mode": mode for kind in kinds}
        properties |= {f"write.{kind}.isolation-level": isolation for kind in kinds}
        name = f"db.begun{len(self.begun)}"
        columns = "key bigint, part int, value string"
        table = self.lake.create_table(
            name, columns, partition_by=["part"], format_version=version, properties=properties
        )
        for keys in FILES:
            table.append([START[key]._asdict() | {"id": None} for key in keys] and [stored(START[key]) for key in keys])
        return table.metadata_location

    def race(self, pair: Pair) -> ConflictingChange | None:
        """Run the pair; the conflict, if the second was refused. What is committed is checked."""
        name = self.new(pair)
        first_aim, second_aim = pair.aims()
        theirs = self.lake.table(name)
        mine = Racing(theirs.commit_target.pointer, theirs.commit_target.state)
        mine.meanwhile = lambda: RUN[pair.first](theirs, first_aim)
        first, second = (KINDS[pair.first], first_aim), (KINDS[pair.second], second_aim)
        refused = None
        try:
            RUN[pair.second](mine, second_aim)
        except ConflictingChange as error:
            refused = error
        final = rows_of(self.lake.table(name))
        assert mine.meanwhile is None, "the second statement never came to commit"
        if refused is not None:
            between = first[0].effect(START, first_aim).on(START)
            assert row_model.same(final, between), f"{pair}: refused, and changed something"
            other = theirs.current_snapshot
            assert other is not None
            assert str(other.snapshot_id) in str(refused), f"{pair}: {refused} does not name {other.snapshot_id}"
            return refused
        judge = row_model.serializable if pair.isolation == "serializable" else row_model.snapshot_isolated
        assert judge(START, first, second, final), f"{pair}: {sorted(row[1:] for row in final.values())}"
        return None


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables()


def _try(tables: Tables, some: Sequence[Pair], request: pytest.FixtureRequest) -> None:
    refused = {pair: found for pair in some if (found := tables.race(pair)) is not None}
    broken = [f"{pair}: {found}" for pair, found in refused.items() if promised(pair)]
    assert not broken, broken[:5]
    report_totals(request, statement_pairs_raced=len(some), statement_pairs_refused=len(refused))


SOME = [pair for number, pair in enumerate(pairs()) if number % 11 == 0]


def test_pairs_of_statements(tables: Tables, request: pytest.FixtureRequest) -> None:
    _try(tables, SOME, request)


@pytest.mark.slow
@pytest.mark.parametrize("first", STATEMENTS)
def test_all_pairs_of_statements(tables: Tables, first: str, request: pytest.FixtureRequest) -> None:
    own = [pair for pair in pairs() if pair.first == first]
    assert len(own) == 6 * 4 * 2 * 2 * 2
    _try(tables, own, request)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
@pytest.mark.parametrize("mode", [COW, MOR])
def test_the_lost_delete(tables: Tables, mode: str, isolation: str, version: int) -> None:
    """An UPDATE moves jack's row to another file; a DELETE that has seen the old one must not pass by it.

    The anomaly of the formal model of Iceberg's version 2: the DELETE succeeds, and the row is still there.
    """
    refused = tables.race(Pair("UPDATE", "DELETE", "same row", mode, isolation, version))
    assert refused is not None
    if mode == MOR:
        assert "moved" in str(refused)
