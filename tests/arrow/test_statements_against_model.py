"""Random statements and schema changes on random tables: after each, the table has the rows of a model of SQL.

In format version 3, every row keeps its id.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

import floe
from floe import Table
from floe.errors import InvalidInput
from helpers.run_totals import report_totals
from helpers.statement_model import MatchedTwice, ModelTable, Row, Sql, When, both, either, opposite

Draw = Callable[[st.SearchStrategy[Any]], Any]

# what tables can have ---------------------------------------------------------------------------------------------

STRINGS = st.sampled_from(["", "a", "b", "ab", "é"])
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "n": ("int", st.integers(-4, 4)),
    "m": ("bigint", st.integers(-(2**40), 2**40)),
    "x": ("double", st.sampled_from([0.0, 1.5, -2.25, 1e300])),
    "d": ("decimal(9, 2)", st.integers(-500, 500).map(lambda n: Decimal(n).scaleb(-2))),
    "s": ("string", STRINGS),
    "b": ("boolean", st.booleans()),
    "day": ("date", st.integers(0, 40).map(lambda n: dt.date(2024, 1, 1) + dt.timedelta(n))),
    "st": ("struct<a: int, b: string>", st.fixed_dictionaries({"a": st.none() | st.integers(0, 3), "b": STRINGS})),
    "ls": ("list<int>", st.lists(st.none() | st.integers(0, 3), max_size=2)),
}
KEYS = st.none() | st.integers(0, 5)
LAYOUTS = [(), ("p",), ("bucket(2, k)",), ("truncate(2, k)",), ("p", "bucket(2, k)")]


@dataclass
class World:
    """A table, the model of it, and what was seen of its rows so far."""

    table: Table
    model: ModelTable
    draw: Draw
    kinds: dict[str, st.SearchStrategy[Any]]
    layout: set[str]
    next_uid: int = 0
    row_ids: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    # rows and values ----------------------------------------------------------------------------------------------

    def row(self) -> Row:
        self.next_uid += 1
        row: Row = {"uid": self.next_uid, "k": self.draw(KEYS), "p": self.draw(st.integers(0, 2))}
        return row | {name: self.draw(st.none() | kind) for name, kind in self.kinds.items()}

    def rows(self, most: int) -> list[Row]:
        return [self.row() for _ in range(self.draw(st.integers(1, most)))]

    def atom(self, sides: str) -> Sql:
        """A test of one column of the table (`t`) or the source (`s`)."""
        side = self.draw(st.sampled_from(sides))
        names = ["k", "p", *(name for name in ("n", "s", "b") if name in self.kinds)]
        name = self.draw(st.sampled_from(names))
        column = f"{side}.{name}" if len(sides) > 1 or side == "s" else name

        def value(t: Row, s: Row) -> Any:
            return (t if side == "t" else s)[name]

        if self.draw(st.integers(0, 4)) == 0:
            return Sql(f"{column} is null", lambda t, s: value(t, s) is None)
        if name == "b":
            return Sql(column, value)
        if name == "s":
            text = self.draw(STRINGS)
            return Sql(f"{column} = '{text}'", lambda t, s: _compared(value(t, s), lambda v: v == text))
        number = self.draw(st.integers(-2, 5))
        shape = self.draw(st.sampled_from(["=", "<", ">=", "<>", "%", "in", "+"]))
        if shape == "%":
            return Sql(f"{column} % 2 = 1", lambda t, s: _compared(value(t, s), lambda v: v % 2 == 1 and v > 0))
        if shape == "+":
            return Sql(f"{column} + 1 > {number}", lambda t, s: _compared(value(t, s), lambda v: v + 1 > number))
        if shape == "in":
            return Sql(
                f"{column} in ({number}, {number + 2})",
                lambda t, s: _compared(value(t, s), lambda v: v in (number, number + 2)),
            )
        tests: dict[str, Callable[[Any], bool]] = {
            "=": lambda v: v == number,
            "<": lambda v: v < number,
            ">=": lambda v: v >= number,
            "<>": lambda v: v != number,
        }
        return Sql(f"{column} {shape} {number}", lambda t, s: _compared(value(t, s), tests[shape]))

    def condition(self, sides: str = "t") -> Sql:
        first = self.atom(sides)
        shape = self.draw(st.sampled_from(["one", "one", "and", "or", "not", "all"]))
        if shape == "all" and sides == "t":
            return Sql("true", lambda t, s: True)
        if shape == "not":
            return Sql(f"not ({first.text})", lambda t, s: opposite(first.of(t, s)))
        if shape in ("and", "or"):
            second = self.atom(sides)
            join = both if shape == "and" else either
            return Sql(f"({first.text}) {shape} ({second.text})", lambda t, s: join(first.of(t, s), second.of(t, s)))
        return first

    def value(self, name: str, sides: str) -> Sql:
        """Something that a column can be set to."""
        if self.draw(st.integers(0, 3)) == 0 and name != "p":
            return Sql("null", lambda t, s: None)
        if "s" in sides and self.draw(st.booleans()):
            return Sql(f"s.{name}", lambda t, s: s[name])
        if name in ("k", "p", "n", "m"):
            number = self.draw(st.integers(0, 3))
            if "t" in sides and self.draw(st.booleans()):
                column = f"t.{name}"
                return Sql(
                    f"(coalesce({column}, 0) + {number}) % 5",
                    lambda t, s: _remainder((t[name] or 0) + number, 5),
                )
            return Sql(str(number), lambda t, s: number)
        if name == "s":
            if "t" in sides and self.draw(st.booleans()):
                return Sql("t.s || 'x'", lambda t, s: None if t["s"] is None else f"{t['s'][:3]}x"[:4])
            return Sql("'new'", lambda t, s: "new")
        return Sql("null", lambda t, s: None)

    def values(self, sides: str) -> dict[str, Sql]:
        names = self.draw(st.lists(st.sampled_from(["k", "p", *self.kinds]), min_size=1, max_size=3, unique=True))
        chosen = {name: self.value(name, sides) for name in names}
        if "s" in chosen and chosen["s"].text == "t.s || 'x'":
            chosen["s"] = Sql("substring(t.s, 1, 3) || 'x'", chosen["s"].of)
        if "st" in self.kinds and "t" in sides and "st" not in chosen and self.draw(st.booleans()):
            chosen["st.a"] = Sql("t.p + 1", lambda t, s: t["p"] + 1)
        return chosen

    # steps --------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        steps = [self.append, self.delete, self.delete, self.update, self.update, self.merge, self.merge, self.upsert]
        step = self.draw(st.sampled_from([*steps, self.evolve]))
        step()
        self.done[step.__name__] += 1
        self.check()

    def append(self) -> None:
        rows = self.rows(5)
        self.table.append([dict(row) for row in rows])
        self.model.append(rows)

    def delete(self) -> None:
        where = self.condition()
        result = self.table.delete(where.text)
        assert result.deleted == self.model.delete(where), where

    def update(self) -> None:
        where = self.condition() if self.draw(st.booleans()) else None
        values = self.values("t")
        result = self.table.update({k: v.text for k, v in values.items()}, where=None if where is None else where.text)
        assert result.updated == self.model.update(values, where), (values, where)

    def upsert(self) -> None:
        """By a key that is unique in the data; a row that is there comes with its own uid."""
        rows = list({(row["k"], row["p"]): row for row in self.rows(4)}.values())
        there = [(row["k"], row["p"]) for row in self.model.rows]
        rows = [row for row in rows if there.count((row["k"], row["p"])) <= 1]
        uids = {(row["k"], row["p"]): row["uid"] for row in self.model.rows}
        rows = [row | {"uid": uids.get((row["k"], row["p"]), row["uid"])} for row in rows]
        if rows and self.draw(st.booleans()):  # some of them just as they are
            same = {(row["k"], row["p"]): row for row in self.model.rows}
            rows = [dict(same.get((row["k"], row["p"]), row)) for row in rows]
        if not rows:
            self.model.changed = set()
            return
        result = self.table.upsert([dict(row) for row in rows], on=["k", "p"])
        updated, inserted = self.model.upsert(rows, ["k", "p"])
        assert (result.updated, result.inserted) == (updated, inserted)
        assert result.unchanged == len(rows) - updated - inserted

    def clause(self, kind: str, then: str) -> When:
        sides = {"matched": "ts", "new": "s", "lonely": "t"}[kind]
        condition = self.condition(sides) if self.draw(st.booleans()) else None
        values: dict[str, Sql] | None = None
        if then == "insert":
            if self.draw(st.booleans()):
                values = {name: Sql(f"s.{name}", lambda t, s, name=name: s[name]) for name in ("uid", "p")}
                values |= self.values("s")
        elif then == "update":
            values = self.values("ts" if kind == "matched" else "t")
        return When(kind, then, values, condition)

    def merge(self) -> None:
        kinds = st.sampled_from(
            [
                ("matched", "update"),
                ("matched", "delete"),
                ("new", "insert"),
                ("lonely", "update"),
                ("lonely", "delete"),
            ]
        )
        clauses = [self.clause(*kind) for kind in self.draw(st.lists(kinds, min_size=1, max_size=4))]
        clauses = [
            clause
            for index, clause in enumerate(clauses)
            if not any(before.kind == clause.kind and before.condition is None for before in clauses[:index])
        ]
        source = self.rows(5)
        on = Sql("t.k = s.k", lambda t, s: _compared(t["k"], lambda v: None if s["k"] is None else v == s["k"]))
        shape = self.draw(st.sampled_from(["key", "key", "and", "keys", "none"]))
        if shape == "keys":
            on = Sql("t.k <=> s.k and s.p = t.p", lambda t, s: t["k"] == s["k"] and t["p"] == s["p"])
        elif shape == "none":
            on = Sql("t.k > s.k + 3", lambda t, s: None if t["k"] is None or s["k"] is None else t["k"] > s["k"] + 3)
        elif shape == "and":
            first, second = on, self.condition("ts")
            on = Sql(f"{first.text} and ({second.text})", lambda t, s: both(first.of(t, s), second.of(t, s)))
        keyed = [row for row in self.model.rows if row["k"] is not None]
        if keyed and self.draw(st.integers(0, 3)) == 3:  # several for a row that is there
            there = self.draw(st.sampled_from(keyed))
            source = [row | {"k": there["k"], "p": there["p"]} for row in (self.row(), self.row(), *source[2:])]
            if self.draw(st.booleans()):
                clauses = [When("matched", "update", self.values("ts"))]
        elif self.draw(st.booleans()):  # each row once, so that updates go through
            source = list({row["k"]: row for row in source}.values())
        merge = self.table.merge([dict(row) for row in source], on=on.text)
        for clause in clauses:
            self._add(merge, clause)
        try:
            expected = self.model.merge(source, on, clauses)
        except MatchedTwice:
            with pytest.raises(InvalidInput, match="match one row of the table"):
                merge.execute()
            self.model.changed = set()
            self.done["matched twice"] += 1
            return
        result = merge.execute()
        assert (result.deleted, result.updated, result.inserted) == expected, (on, clauses, source)

    def _add(self, merge: Any, clause: When) -> None:
        condition = None if clause.condition is None else clause.condition.text
        values = None if clause.values is None else {name: value.text for name, value in clause.values.items()}
        name = {
            ("matched", "update"): "when_matched_update",
            ("matched", "delete"): "when_matched_delete",
            ("new", "insert"): "when_not_matched_insert",
            ("lonely", "update"): "when_not_matched_by_source_update",
            ("lonely", "delete"): "when_not_matched_by_source_delete",
        }[(clause.kind, clause.then)]
        if clause.then == "delete":
            getattr(merge, name)(condition)
        elif values is None:
            getattr(merge, f"{name}_all")(condition)
        else:
            getattr(merge, name)(values, condition)

    def evolve(self) -> None:
        """Columns come and go, get other names and wider types."""
        missing = [name for name in COLUMNS if name not in self.kinds]
        shape = self.draw(st.sampled_from(["add", "drop", "rename", "promote", "layout"]))
        if shape == "add" and missing:
            name = self.draw(st.sampled_from(missing))
            default = 3 if name == "n" and self.table.format_version > 2 and self.draw(st.booleans()) else None
            update = self.table.evolve()
            update = update.add_column(name, COLUMNS[name][0], **({} if default is None else {"default": default}))
            update.commit()
            self.kinds[name] = COLUMNS[name][1]
            self.model.columns.append(name)
            self.model.defaults[name] = default
            self.model.rows = [row | {name: default} for row in self.model.rows]
        elif shape == "drop" and self.kinds:
            name = self.draw(st.sampled_from(sorted(self.kinds)))
            self.table.evolve().drop_column(name).commit()
            del self.kinds[name]
            self.model.columns.remove(name)
            self.model.defaults.pop(name, None)
            self.model.rows = [{k: v for k, v in row.items() if k != name} for row in self.model.rows]
        elif shape == "layout":
            term = self.draw(st.sampled_from(["p", "bucket(2, k)", "truncate(2, k)"]))
            spec = self.table.update_spec()
            (spec.remove_field if term in self.layout else spec.add_field)(term).commit()
            self.layout ^= {term}
        elif shape == "rename" and (names := [name for name in sorted(self.kinds) if name in COLUMNS]):
            name = self.draw(st.sampled_from(names))
            new = f"{name}{len(self.model.columns)}"
            if new not in self.model.columns:
                self.table.evolve().rename_column(name, new).commit()
                self.kinds[new] = self.kinds.pop(name)
                self.model.columns = [new if column == name else column for column in self.model.columns]
                self.model.defaults[new] = self.model.defaults.pop(name, None)
                self.model.rows = [{new if k == name else k: v for k, v in row.items()} for row in self.model.rows]
        elif shape == "promote" and "n" in self.kinds:
            self.table.evolve().promote("n", "bigint").commit()
        self.model.changed = set()

    # looking ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        fresh = self.table.scan().to_arrow().to_pylist()
        assert _sorted(fresh) == _sorted(self.model.rows)
        assert self.table.scan().count() == len(self.model.rows)
        if self.table.format_version > 2:
            self.check_lineage()

    def check_lineage(self) -> None:
        """Rows have ids of their own, for life; the number of a row is that of the commit that last changed it."""
        rows = self.table.scan(columns=["uid", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
        assert len({row["_row_id"] for row in rows}) == len(rows)
        snapshot = self.table.current_snapshot
        for row in rows:
            uid, row_id, number = row["uid"], row["_row_id"], row["_last_updated_sequence_number"]
            assert self.row_ids.setdefault(uid, row_id) == row_id
            if uid in self.model.changed:
                assert snapshot is not None
                assert number == snapshot.sequence_number
            assert uid in self.model.changed or self.numbers[uid] == number
            self.numbers[uid] = number


def _compared(value: Any, test: Callable[[Any], Any]) -> Any:
    return None if value is None else test(value)


def _remainder(value: int, by: int) -> int:
    return value % by if value >= 0 else -(-value % by)


def _sorted(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(_plain(row)) for row in rows)


def _plain(value: Any) -> Any:
    return sorted((name, _plain(inner)) for name, inner in value.items()) if isinstance(value, dict) else value


def run(draw: Draw, version: int, mode: str) -> Counter[str]:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), max_size=4, unique=True))
    layout = draw(st.sampled_from(LAYOUTS))
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    columns = ", ".join(["uid bigint not null", "k int", "p int not null", *(f"{n} {COLUMNS[n][0]}" for n in names)])
    table = lake.create_table(
        "db.t",
        columns,
        partition_by=list(layout),
        format_version=version,
        properties={
            **{f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")},
            "write.delete.granularity": draw(st.sampled_from(["file", "partition"])),
            "write.format.default": draw(st.sampled_from(["parquet", "parquet", "avro", "orc"])),
        },
    )
    kinds = {name: COLUMNS[name][1] for name in names}
    world = World(table, ModelTable(["uid", "k", "p", *names]), draw, kinds, set(layout))
    world.append()
    world.check()
    for _ in range(draw(st.integers(3, 6))):
        world.step()
    return world.done


COW, MOR = "copy-on-write", "merge-on-read"
CONFIGURATIONS = [(1, COW), (2, COW), (2, MOR), (3, COW), (3, MOR)]
RELAXED = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate, Phase.shrink)
)


@pytest.mark.parametrize(("version", "mode"), CONFIGURATIONS)
def test_statements_do_what_sql_says(version: int, mode: str, request: pytest.FixtureRequest) -> None:
    _try(version, mode, 24, request)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(("version", "mode"), CONFIGURATIONS)
def test_statements_do_what_sql_says_again_and_again(
    version: int, mode: str, part: int, request: pytest.FixtureRequest
) -> None:
    _try(version, mode, 110, request, part)


def _try(version: int, mode: str, examples: int, request: pytest.FixtureRequest, part: int = 99) -> None:
    done: Counter[str] = Counter()

    @seed(1000 * version + 100 * (mode == MOR) + part)  # others for each, and the same in every run
    @settings(RELAXED, max_examples=examples)
    @given(st.data())
    def trying(data: st.DataObject) -> None:
        done["tables"] += 1
        done.update(run(data.draw, version, mode))

    trying()
    report_totals(request, **{f"statements_against_the_model_{name}".replace(" ", "_"): n for name, n in done.items()})
