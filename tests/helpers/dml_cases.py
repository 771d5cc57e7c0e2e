"""Statements that change rows, and what they have to give: judged by SQLite and plain Python.

A case is SQL that SQLite and Spark both know. DELETE and UPDATE are run by SQLite as they are; for MERGE, which it does
not have, it judges conditions and values, and the clauses are applied here as the SQL standard says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

COLUMNS = ("id", "name", "dep", "salary", "bonus")
TYPES = "id INT, name STRING, dep STRING, salary INT, bonus DOUBLE"

ROWS: tuple[tuple[Any, ...], ...] = (
    (1, "ann", "hr", 100, 1.5),
    (2, "bob", "hr", 200, None),
    (3, "cat", "it", 300, 0.0),
    (4, "dan", "it", None, 2.5),
    (5, "eve", None, 500, -1.0),
    (6, "fay", "ops", 600, 6.25),
    (7, None, "ops", 700, None),
    (8, "hal", "ops", 100, 8.0),
    (9, "ivy", "it", 200, 1.5),
    (10, "jim", "hr", None, 10.0),
    (11, "kim", None, None, None),
    (12, "lee", "it", 0, 0.5),
)
FILES = (ROWS[:4], ROWS[4:8], ROWS[8:])
"""What each file of the table has, if it is not partitioned."""

SOURCE: tuple[tuple[Any, ...], ...] = (
    (2, "BOB", "hr", 250, 2.0),
    (3, "CAT", "ops", None, 3.0),
    (5, None, "it", 550, None),
    (9, "ivy", "it", 200, 1.5),
    (13, "max", "hr", 130, 13.0),
    (14, None, None, None, None),
    (None, "nul", "it", 1, 1.0),
)

When = Literal["matched", "not matched", "not matched by source"]


@dataclass(frozen=True)
class Clause:
    """WHEN … THEN …: `values` are None for DELETE, and `*` for all columns of the source."""

    when: When
    values: Mapping[str, str] | Literal["*"] | None
    condition: str | None = None

    def sql(self) -> str:
        test = "" if self.condition is None else f" AND {self.condition}"
        head = f"WHEN {self.when.upper()}{test} THEN "
        if self.values is None:
            return head + "DELETE"
        inserts = self.when == "not matched"
        if self.values == "*":
            return head + ("INSERT *" if inserts else "UPDATE SET *")
        if inserts:
            return head + f"INSERT ({', '.join(self.values)}) VALUES ({', '.join(self.values.values())})"
        return head + "UPDATE SET " + ", ".join(f"{name} = {value}" for name, value in self.values.items())


@dataclass(frozen=True)
class Delete:
    where: str

    def sql(self, table: str) -> str:
        return f"DELETE FROM {table} WHERE {self.where.replace('{t}', table).replace('{s}', 'source_rows')}"

    def run(self, base: sqlite3.Connection) -> None:
        base.execute(f"DELETE FROM t WHERE {self.where.replace('{t}', 't').replace('{s}', 's')}")


@dataclass(frozen=True)
class Update:
    values: Mapping[str, str]
    where: str | None = None

    def sql(self, table: str) -> str:
        return self._text(table, table, "source_rows")

    def run(self, base: sqlite3.Connection) -> None:
        base.execute(self._text("t", "t", "s"))

    def _text(self, target: str, table: str, source: str) -> str:
        sets = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        text = f"UPDATE {target} SET {sets}" + ("" if self.where is None else f" WHERE {self.where}")
        return text.replace("{t}", table).replace("{s}", source)


@dataclass(frozen=True)
class Merge:
    on: str
    clauses: Sequence[Clause]
    source: str = "SELECT * FROM {s}"

    def sql(self, table: str) -> str:
        source = self.source.replace("{t}", table).replace("{s}", "source_rows")
        clauses = " ".join(clause.sql() for clause in self.clauses)
        return f"MERGE INTO {table} t USING ({source}) s ON {self.on} {clauses}"

    def run(self, base: sqlite3.Connection) -> None:
        base.execute("CREATE TABLE u AS " + self.source.replace("{t}", "t").replace("{s}", "s"))
        pairs = base.execute(f"SELECT t.rowid, s.rowid FROM t, u AS s WHERE {self.on}").fetchall()
        matched: dict[int, int] = {}
        for target, source in pairs:
            if target in matched and not self._may_match_twice:
                raise AssertionError("a row of the table matches twice")
            matched[target] = source
        rows = {row[0]: row[1:] for row in base.execute(f"SELECT rowid, {', '.join(COLUMNS)} FROM t")}
        found: list[tuple[Any, ...]] = []
        for target, row in rows.items():
            found += self._target(base, target, row, matched.get(target))
        for (source,) in base.execute("SELECT rowid FROM u").fetchall():
            if source not in {one for _, one in pairs}:
                found += self._inserted(base, source)
        base.execute("DELETE FROM t")
        base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(COLUMNS))})", found)

    @property
    def _may_match_twice(self) -> bool:
        return [(c.values, c.condition) for c in self.clauses if c.when == "matched"] == [(None, None)]

    def _target(
        self, base: sqlite3.Connection, target: int, row: tuple[Any, ...], source: int | None
    ) -> list[tuple[Any, ...]]:
        when = "not matched by source" if source is None else "matched"
        other = "" if source is None else f"JOIN u AS s ON s.rowid = {source}"
        tables = f"t {other} WHERE t.rowid = {target}"
        for clause in self.clauses:
            if clause.when == when and _holds(base, clause, tables):
                if clause.values is None:
                    return []
                values = {name: f"s.{name}" for name in COLUMNS} if clause.values == "*" else clause.values
                made = [values.get(name, f"t.{name}") for name in COLUMNS]
                return list(base.execute(f"SELECT {', '.join(made)} FROM {tables}"))
        return [row]

    def _inserted(self, base: sqlite3.Connection, source: int) -> list[tuple[Any, ...]]:
        tables = f"u AS s WHERE s.rowid = {source}"
        for clause in self.clauses:
            if clause.when == "not matched" and _holds(base, clause, tables):
                assert clause.values is not None
                values = {name: f"s.{name}" for name in COLUMNS} if clause.values == "*" else clause.values
                made = [values.get(name, "NULL") for name in COLUMNS]
                return list(base.execute(f"SELECT {', '.join(made)} FROM {tables}"))
        return []


def _holds(base: sqlite3.Connection, clause: Clause, tables: str) -> bool:
    if clause.condition is None:
        return True
    ((found,),) = base.execute(f"SELECT ({clause.condition}) FROM {tables}").fetchall()
    return bool(found)


Statement = Delete | Update | Merge


@dataclass(frozen=True)
class Case:
    """A statement, and whether it changes anything."""

    name: str
    statement: Statement
    expected: tuple[tuple[Any, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected", _outcome(self.statement))


def _outcome(statement: Statement) -> tuple[tuple[Any, ...], ...]:
    with sqlite3.connect(":memory:") as base:
        for name, rows in (("t", ROWS), ("s", SOURCE)):
            base.execute(f"CREATE TABLE {name} (id INT, name TEXT, dep TEXT, salary INT, bonus REAL)")
            base.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?)", rows)
        base.execute("PRAGMA case_sensitive_like = ON")
        statement.run(base)
        found = base.execute(f"SELECT {', '.join(COLUMNS)} FROM t").fetchall()
    base.close()
    return tuple(sorted(found, key=repr))


CONDITIONS = {
    "one row": "id = 7",
    "no row": "id = 77",
    "all rows": "id > 0",
    "a partition": "dep = 'it'",
    "two partitions": "dep IN ('it', 'hr')",
    "null partition": "dep IS NULL",
    "all but a partition": "dep <> 'it'",
    "not null": "salary IS NOT NULL",
    "null": "salary IS NULL",
    "never true of null": "NOT (salary > 100)",
    "or with null": "salary > 500 OR dep = 'hr'",
    "and with null": "salary > 100 AND dep = 'hr'",
    "not in": "dep NOT IN ('hr', 'ops')",
    "not in with null": "dep NOT IN ('hr', NULL)",
    "in with null": "id IN (1, NULL, 3)",
    "between": "id BETWEEN 4 AND 9",
    "not between": "id NOT BETWEEN 4 AND 9",
    "like": "name LIKE '%a%'",
    "not like": "name NOT LIKE '_a%'",
    "range": "salary >= 200 AND salary < 600",
    "arithmetic": "salary * 2 + id > 610",
    "modulo": "id % 3 = 1",
    "case": "CASE WHEN dep = 'it' THEN salary > 100 ELSE id > 9 END",
    "coalesce": "coalesce(salary, -1) < 0",
    "distinct from": "dep IS DISTINCT FROM 'it'",
    "not distinct from null": "salary IS NOT DISTINCT FROM NULL",
    "double": "bonus < 1.0",
    "upper": "upper(name) = 'EVE'",
    "length": "length(name) + length(dep) = 6",
    "constant false": "1 = 2",
    "constant null": "CAST(NULL AS BOOLEAN)",  # Spark takes a bare NULL for no condition at all
    "subquery in": "id IN (SELECT id FROM {s})",
    "subquery not in": "id NOT IN (SELECT id FROM {s} WHERE id IS NOT NULL)",
    "subquery not in with null": "id NOT IN (SELECT id FROM {s})",
    "subquery scalar": "salary = (SELECT max(salary) FROM {s} WHERE dep = 'it' AND id IS NOT NULL) + 150",
    "subquery on itself": "salary > (SELECT avg(salary) FROM {t})",
    "subquery of itself": "id IN (SELECT max(id) FROM {t} GROUP BY dep)",
    "first file": "id < 5",
    "two files, one row each": "id IN (1, 12)",
    "whole table but one": "id <> 6",
    "exists": "EXISTS (SELECT 1 FROM {s} WHERE {s}.dep IS NULL)",
}
"""Conditions on the rows, in words that both engines know; `{t}` is the table and `{s}` the source."""

ASSIGNMENTS: Sequence[Mapping[str, str]] = (
    {"salary": "salary + 1"},
    {"dep": "'new'"},
    {"name": "upper(name)", "bonus": "NULL"},
    {"salary": "id * 10", "dep": "coalesce(dep, 'none')"},
    {"id": "-id"},
)


def _simple() -> list[Case]:
    found = [Case(f"DELETE {name}", Delete(where)) for name, where in CONDITIONS.items()]
    for number, (name, where) in enumerate(CONDITIONS.items()):
        values = ASSIGNMENTS[number % len(ASSIGNMENTS)]
        found.append(Case(f"UPDATE {' '.join(values)} where {name}", Update(values, where)))
    more = {
        "all rows without condition": Update({"salary": "0"}),
        "swap": Update({"salary": "id", "id": "salary"}, "salary IS NOT NULL"),
        "to null": Update({"dep": "NULL"}, "dep = 'hr'"),
        "partition of each its own": Update({"dep": "name"}, "name IS NOT NULL"),
        "to the same value": Update({"dep": "dep"}, "id < 6"),
        "value from a subquery": Update({"salary": "(SELECT max(salary) FROM {s})"}, "id = 4"),
        "value from itself": Update({"salary": "(SELECT min(id) FROM {t})"}, "salary IS NULL"),
        "case": Update({"bonus": "CASE WHEN salary > 150 THEN bonus * 2 ELSE 0.0 END"}, "dep IN ('it', 'ops')"),
        "all columns": Update(
            {"id": "id + 100", "name": "'x'", "dep": "'y'", "salary": "1", "bonus": "2.5"}, "id % 2 = 0"
        ),
        "nothing": Update({"salary": "1"}, "id IS NULL"),
        "of an empty text": Update({"name": "''"}, "name IS NULL OR dep IS NULL"),
        "by a subquery that is empty": Update({"salary": "(SELECT max(salary) FROM {s} WHERE id > 99)"}, "dep = 'hr'"),
        "exists": Update({"bonus": "0.25"}, "EXISTS (SELECT 1 FROM {s} WHERE {s}.salary > 500)"),
        "in a subquery": Update({"bonus": "bonus + 1"}, "id IN (SELECT id FROM {s} WHERE salary > 200)"),
    }
    return found + [Case(f"UPDATE {name}", statement) for name, statement in more.items()]


_UPDATE_ALL = Clause("matched", "*")
_INSERT_ALL = Clause("not matched", "*")
_DELETE = Clause("matched", None)
_RAISE = Clause("matched", {"salary": "coalesce(t.salary, 0) + s.salary"})
_SMALL = Clause("matched", {"bonus": "s.bonus"}, "s.salary < 300")
_GONE = Clause("not matched by source", None)
_GONE_IF = Clause("not matched by source", None, "t.dep = 'ops'")
_LEFT = Clause("not matched by source", {"dep": "'left'", "salary": "t.salary - 1"})
_LEFT_IF = Clause("not matched by source", {"name": "'left'"}, "t.salary > 150")
_NEW_IF = Clause("not matched", {"id": "s.id", "name": "s.name"}, "s.id > 13")
_NEW = Clause("not matched", {"id": "s.id", "dep": "'new'", "salary": "7"})

CLAUSES: Mapping[str, Sequence[Clause]] = {
    "upsert": [_UPDATE_ALL, _INSERT_ALL],
    "update": [_UPDATE_ALL],
    "insert": [_INSERT_ALL],
    "two inserts": [_NEW_IF, _NEW],
    "delete": [_DELETE],
    "raise": [_RAISE],
    "delete or raise": [Clause("matched", None, "s.salary > 500"), _RAISE],
    "first clause wins": [_SMALL, _DELETE],
    "conditions that nothing meets": [Clause("matched", None, "s.salary > 9999"), Clause("not matched", "*", "1 = 2")],
    "conditions that are null": [Clause("matched", None, "s.salary > 0"), Clause("not matched", "*", "s.salary > 0")],
    "gone": [_GONE],
    "gone if": [_GONE_IF],
    "left": [_LEFT],
    "left or gone": [_LEFT_IF, _GONE],
    "all three": [_UPDATE_ALL, _INSERT_ALL, _GONE],
    "all three with conditions": [_SMALL, _NEW_IF, _LEFT_IF],
    "everything": [
        Clause("matched", None, "s.id = 9"),
        _SMALL,
        _UPDATE_ALL,
        _NEW_IF,
        _NEW,
        _GONE_IF,
        _LEFT_IF,
        _LEFT,
    ],
    "moves partitions": [Clause("matched", {"dep": "s.name"}), Clause("not matched", {"id": "s.id", "dep": "s.name"})],
}

JOINS: Mapping[str, tuple[str, str]] = {
    "by id": ("t.id = s.id", "SELECT * FROM {s}"),
    "by id, of a partition": ("t.id = s.id AND t.dep = 'it'", "SELECT * FROM {s}"),
    "by id and partition": ("t.id = s.id AND t.dep = s.dep", "SELECT * FROM {s}"),
    "null is null": ("t.id IS NOT DISTINCT FROM s.id", "SELECT * FROM {s}"),
}


def _merges() -> list[Case]:
    found = []
    for join, (on, source) in JOINS.items():
        for name, clauses in CLAUSES.items():
            if join in ("by id", "by id, of a partition") or name in (
                "upsert",
                "delete or raise",
                "all three",
                "everything",
                "left or gone",
            ):
                found.append(Case(f"MERGE {join}: {name}", Merge(on, clauses, source)))
    more = {
        "of a query": Merge("t.id = s.id", [_UPDATE_ALL, _INSERT_ALL], "SELECT * FROM {s} WHERE salary > 200"),
        "of nothing": Merge("t.id = s.id", [_UPDATE_ALL, _INSERT_ALL, _LEFT_IF], "SELECT * FROM {s} WHERE 1 = 2"),
        "of itself": Merge(
            "t.id = s.id",
            [_RAISE, Clause("not matched", "*")],
            "SELECT id + 1 AS id, name, dep, salary, bonus FROM {t} WHERE dep = 'it'",
        ),
        "of a grouping of itself": Merge(
            "t.id = s.top",
            [Clause("matched", {"salary": "s.total"})],
            "SELECT max(id) AS top, sum(salary) AS total FROM {t} GROUP BY dep",
        ),
        "of a union": Merge(
            "t.id = s.id",
            [_DELETE, _INSERT_ALL],
            "SELECT * FROM {s} WHERE id = 2 UNION ALL SELECT 50, 'u', 'hr', 5, 5.0",
        ),
        "deletes what matches twice": Merge("t.dep = s.dep", [_DELETE]),
        "never matches": Merge("1 = 2", [_UPDATE_ALL, _NEW]),
        "by inequality": Merge("t.id = s.id AND t.salary < s.salary", [_UPDATE_ALL]),
        "by an expression": Merge("t.id + 1 = s.id", [Clause("matched", {"name": "s.name || '-' || t.name"}), _NEW_IF]),
    }
    return found + [Case(f"MERGE {name}", statement) for name, statement in more.items()]


CASES: Sequence[Case] = (*_simple(), *_merges())
