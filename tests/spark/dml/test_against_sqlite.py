"""Random statements leave the rows that SQLite has after the same.

It judges conditions of three values, subqueries with nulls among their values, and which clause of a MERGE takes a row.
Meanwhile the table changes its partitioning, file format, mode and format version.
"""

import random
import sqlite3
from typing import Any

import pytest

from helpers.spark import Spark

STEPS = 30
TEXTS = [None, "a", "b", "c d", "é/=", "", "abc"]
NUMBERS = [None, 0, 1, 2, 3, 10, -5]
SUBQUERIES = [
    "t.id IN (SELECT id FROM {o})",
    "t.id NOT IN (SELECT id FROM {o})",
    "t.id NOT IN (SELECT id FROM {o} WHERE id IS NOT NULL AND k > 0)",
    "EXISTS (SELECT 1 FROM {o} o WHERE o.id = t.id AND o.k IS NOT NULL)",
    "NOT EXISTS (SELECT 1 FROM {o} o WHERE o.w = t.p)",
    "t.x >= (SELECT max(u.x) FROM {t} u)",
    "t.id IN (SELECT u.id + 1 FROM {t} u WHERE u.x > 1)",
    "t.x = (SELECT max(o.k) FROM {o} o WHERE o.id = t.id)",
]
ASSIGNED = {
    "x": ["t.x + 1", "coalesce(t.x, 0)", "NULL", "7"],
    "p": ["t.s", "coalesce(t.p, '') || 'z'", "NULL", "'a'"],
    "s": ["t.p", "substr(t.s, 1, 2)", "NULL", "'b'"],
}
TAKEN = {"x": "s.k", "p": "s.w", "s": "s.w"}
SOURCES = [
    "(SELECT * FROM {o})",
    "(SELECT * FROM {o} WHERE id < -5)",
    "(SELECT id + 2 AS id, x AS k, p AS w FROM {t} WHERE id % 3 = 1)",
    "(SELECT id + 1 AS id, k, s AS w FROM {t} JOIN (SELECT id AS other, k FROM {o}) v ON id = other)",
]
FIELDS = ["p", "truncate(1, s)", "bucket(3, id)", "x", "truncate(2, x)"]
MATCHES = [
    "t.id = s.id",
    "t.id = s.id",
    "t.id = s.id AND t.p <=> s.w",
    "t.id = s.id AND t.x > 1",
    "t.id <=> s.id AND s.k IS NOT NULL AND t.p IN ('a', 'b')",
    "t.p = s.w AND t.x = s.k",
]


class Life:
    """A table in Spark and its twin in SQLite; statements are the same text but for names and `<=>`."""

    def __init__(self, session: Spark, name: str, version: int, seed: str) -> None:
        self.session, self.name, self.version = session, name, version
        self.chance = random.Random(seed)
        self.twin = sqlite3.connect(":memory:")
        self.statements: list[str] = []
        self.next_id, self.field = 0, "p"
        modes = ", ".join(f"'write.{kind}.mode' = '{self.mode()}'" for kind in ("delete", "update", "merge"))
        self.tell(
            f"CREATE TABLE {name} (id BIGINT, p STRING, x INT, s STRING) PARTITIONED BY (p) "
            f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
        )
        self.tell(f"CREATE TABLE {name}_o (id BIGINT, k INT, w STRING)")
        self.twin.execute("CREATE TABLE t (id INTEGER, p TEXT, x INTEGER, s TEXT)")
        self.twin.execute("CREATE TABLE o (id INTEGER, k INTEGER, w TEXT)")
        others = [(n, self.chance.choice(NUMBERS), self.chance.choice(TEXTS)) for n in range(0, 30, 3)]
        self.both("INSERT INTO {o} VALUES " + rows_of([*others, (None, 1, "z"), (None, None, None)]))
        self.insert()
        self.insert()

    def tell(self, statement: str) -> None:
        self.statements.append(statement)
        self.session(statement)

    def spark(self, text: str) -> str:
        return text.format(t=self.name, o=f"{self.name}_o")

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        return self.twin.execute(text.format(t="t", o="o").replace("<=>", "IS")).fetchall()

    def both(self, text: str) -> None:
        self.ask(text)
        self.tell(self.spark(text))

    def mode(self) -> str:
        return self.chance.choice(["copy-on-write", "merge-on-read"])

    # parts of statements -----------------------------------------------------------------------------------------

    def condition(self, depth: int = 0) -> str:
        chance = self.chance
        simple = [
            f"t.x {chance.choice(['<', '>', '=', '<>'])} {chance.choice([0, 1, 2, 10])}",
            f"t.id {chance.choice(['<', '>', '='])} {chance.randrange(self.next_id)}",
            f"t.p <=> {literal(chance.choice(TEXTS))}",
            f"t.{chance.choice('pxs')} IS {chance.choice(['', 'NOT '])}NULL",
            f"t.x {chance.choice(['IN', 'NOT IN'])} ({', '.join(map(literal, chance.sample(NUMBERS, 3)))})",
            f"t.p {chance.choice(['IN', 'NOT IN'])} ({', '.join(map(literal, chance.sample(TEXTS, 3)))})",
            f"t.id % {chance.choice([2, 3])} = 0",
            "t.s = t.p",
        ]
        kind = chance.random()
        if depth == 2 or kind < 0.6:
            return chance.choice(simple)
        if kind < 0.75:
            return f"NOT ({self.condition(depth + 1)})"
        return f"({self.condition(depth + 1)} {chance.choice(['AND', 'OR'])} {self.condition(depth + 1)})"

    def where(self) -> str:
        found = self.condition()
        if self.chance.random() < 0.35:
            return f"{found} {self.chance.choice(['AND', 'OR'])} {self.chance.choice(SUBQUERIES)}"
        return found

    def assignments(self, *, taken: bool = False) -> dict[str, str]:
        columns = self.chance.sample(sorted(ASSIGNED), self.chance.randint(1, 3))
        return {
            name: TAKEN[name] if taken and self.chance.random() < 0.5 else self.chance.choice(ASSIGNED[name])
            for name in columns
        }

    # statements --------------------------------------------------------------------------------------------------

    def insert(self) -> None:
        chance = self.chance
        ids = range(self.next_id, self.next_id + chance.randint(1, 7))
        self.next_id = ids.stop
        rows = [(n, chance.choice(TEXTS), chance.choice(NUMBERS), chance.choice(TEXTS)) for n in ids]
        self.both("INSERT INTO {t} VALUES " + rows_of(rows))

    def delete(self) -> None:
        where = self.where()
        self.change([(None, row) for row in self.ask(f"SELECT t.rowid FROM {{t}} t WHERE {where}")])
        self.tell(self.spark(f"DELETE FROM {{t}} t WHERE {where}"))

    def update(self) -> None:
        where, assigned = self.where(), self.assignments()
        found = self.ask(f"SELECT t.rowid, {', '.join(assigned.values())} FROM {{t}} t WHERE {where}")
        self.change([(list(assigned), row) for row in found])
        self.tell(self.spark(f"UPDATE {{t}} t SET {setting(assigned)} WHERE {where}"))

    def change(self, rows: list[tuple[list[str] | None, tuple[Any, ...]]]) -> None:
        """Give columns of SQLite's rows other values, or delete the rows."""
        for columns, (number, *values) in rows:
            if columns is None:
                self.twin.execute("DELETE FROM t WHERE rowid = ?", (number,))
            else:
                names = ", ".join(f"{name} = ?" for name in columns)
                self.twin.execute(f"UPDATE t SET {names} WHERE rowid = ?", (*values, number))

    def merge(self) -> None:
        source, on = self.chance.choice(SOURCES), self.chance.choice(MATCHES)
        self.ask(f"CREATE TEMP TABLE source AS SELECT *, row_number() OVER () AS number FROM {source} s")
        pairs = self.ask(f"SELECT t.rowid, s.number FROM {{t}} t JOIN source s ON {on}")
        once = len({row for row, _ in pairs}) == len(pairs)
        # A row that is matched twice is refused, unless no clause is for matched rows; then too where files are copied
        # and rows inserted, if others are changed that nothing matches.
        matched = self.clauses(["s.k > 1", "s.w <=> t.p"], taken=True) if once else []
        unmatched = self.clauses([])
        matched_rows, found = {row for row, _ in pairs}, dict[int, tuple[list[str] | None, tuple[Any, ...]]]()
        for clauses, rows, belongs in (
            (matched, f"{{t}} t JOIN source s ON {on}", True),
            (unmatched, "{t} t", False),
        ):
            for condition, assigned in clauses:
                values = ["t.rowid", *(assigned or {}).values()]
                for row in self.ask(f"SELECT {', '.join(values)} FROM {rows} WHERE {condition or 'true'}"):
                    if (row[0] in matched_rows) is belongs:
                        found.setdefault(row[0], (None if assigned is None else list(assigned), row))
        condition = self.chance.choice([None, "s.k > 1", "s.id IS NOT NULL"])
        inserts = (once and self.chance.random() < 0.7) or not matched + unmatched
        known = {number for _, number in pairs}
        new = [row[1:] for row in self.ask(f"SELECT number, id, w, k FROM source s WHERE {condition or 'true'}")
               if row[0] not in known] if inserts else []  # fmt: skip
        self.change(list(found.values()))
        self.twin.executemany("INSERT INTO t VALUES (?, ?, ?, NULL)", new)
        self.twin.execute("DROP TABLE source")
        text = [f"WHEN MATCHED{also(one)} THEN {action(assigned)}" for one, assigned in matched]
        text += [f"WHEN NOT MATCHED{also(condition)} THEN INSERT (id, p, x) VALUES (s.id, s.w, s.k)"] * inserts
        text += [f"WHEN NOT MATCHED BY SOURCE{also(one)} THEN {action(assigned)}" for one, assigned in unmatched]
        self.tell(self.spark(f"MERGE INTO {{t}} t USING {source} s ON {on} " + " ".join(text)))

    def clauses(self, more: list[str], *, taken: bool = False) -> list[tuple[str | None, dict[str, str] | None]]:
        """Conditions with what is assigned, or None for a deletion; only the last one has no condition."""
        count = self.chance.choice([0, 1, 1, 2])
        conditions: list[str | None] = [self.chance.choice([self.condition(1), *more]) for _ in range(count)]
        if conditions and taken and self.chance.random() < 0.5:
            conditions[-1] = None
        return [(one, None if self.chance.random() < 0.3 else self.assignments(taken=taken)) for one in conditions]

    def evolve(self) -> None:
        kind = self.chance.choice(["delete", "update", "merge"])
        self.version = min(3, self.version + 1)
        properties = {
            f"write.{kind}.mode": self.mode(),
            "write.format.default": self.chance.choice(["parquet", "orc", "avro"]),
            "format-version": str(self.version),
        }
        statements = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.tell(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({statements})")
        before, self.field = self.field, self.chance.choice([one for one in FIELDS if one != self.field])
        self.tell(f"ALTER TABLE {self.name} REPLACE PARTITION FIELD {before} WITH {self.field}")


def literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def rows_of(rows: list[tuple[Any, ...]]) -> str:
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def also(condition: str | None) -> str:
    return "" if condition is None else f" AND {condition}"


def setting(assigned: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in assigned.items())


def action(assigned: dict[str, str] | None) -> str:
    return "DELETE" if assigned is None else f"UPDATE SET {setting(assigned)}"


@pytest.mark.slow
@pytest.mark.parametrize(("catalog_name", "version"), [("lake", 1), ("sq", 2), ("lake", 3)])
def test_rows_are_those_of_sqlite_after_each_statement(session: Spark, catalog_name: str, version: int) -> None:
    session(f"CREATE NAMESPACE IF NOT EXISTS {catalog_name}.twins")
    life = Life(session, f"{catalog_name}.twins.v{version}", version, f"{catalog_name} {version}")
    for _ in range(STEPS):
        steps = [life.insert, life.delete, life.update, life.merge, life.evolve]
        (step,) = life.chance.choices(steps, [3, 3, 4, 7, 2])
        step()
        expected = sorted(life.ask("SELECT id, p, x, s FROM {t}"), key=repr)
        assert session.sorted(f"SELECT id, p, x, s FROM {life.name}") == expected, ";\n".join(life.statements)
