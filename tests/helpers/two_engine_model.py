"""Random steps of two engines in one table: statements, and a plain model of what they leave.

Each step is a statement that either engine can run, `{t}` standing for the table, and what it does to the model.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[int, Any]
"""The values of a row by the numbers of its columns, which a column keeps when it gets another name."""

Step = tuple[str, str]
"""What the step is, and its statement."""

TERMS = ("bucket(4, id)", "k", "truncate(1, s)", "bucket(2, s)")
ID, K, S, N = range(4)


@dataclass
class Walk:
    """The model of a table, and steps at random."""

    seed: int
    can_rename: bool = True
    """Whether the catalog can give a table another name."""

    names: dict[int, str] = field(default_factory=lambda: {ID: "id", K: "k", S: "s", N: "n"})
    types: dict[int, str] = field(default_factory=lambda: {ID: "BIGINT", K: "INT", S: "STRING", N: "INT"})
    branches: dict[str, list[Row]] = field(default_factory=lambda: {"main": []})
    table: str = "t"
    version: int = 2

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._next_id, self._next_column = 0, 4
        self._terms: list[str] = []

    def create(self) -> str:
        """The statement that makes the table."""
        columns = ", ".join(f"{self.names[one]} {self.types[one]}" for one in self.names)
        return f"CREATE TABLE {{t}} ({columns}) USING iceberg"

    def expected(self, branch: str = "main") -> list[tuple[Any, ...]]:
        """The rows of a branch, in the order of their texts."""
        return sorted((tuple(row.get(one) for one in self.names) for row in self.branches[branch]), key=repr)

    def step(self) -> Step:
        """The next one."""
        steps: list[tuple[int, Callable[[], Step | None]]] = [
            (6, self._insert),
            (2, self._insert_select),
            (4, self._delete),
            (4, self._update),
            (4, self._merge),
            (1, self._overwrite),
            (2, self._add_column),
            (1, self._rename_column),
            (1, self._drop_column),
            (1, self._widen),
            (2, self._add_term),
            (1, self._drop_term),
            (3, self._modes),
            (1, self._order),
            (1, self._upgrade),
            (2, self._make_branch),
            (2, self._insert_into_branch),
            (1, self._drop_branch),
            (1, self._rename_table),
        ]
        while True:
            (chosen,) = self._random.choices([one for _, one in steps], [weight for weight, _ in steps])
            found = chosen()
            if found is not None:
                return found

    # rows --------------------------------------------------------------------------------------------------------

    def _new_row(self) -> Row:
        self._next_id += 1
        row: Row = {}
        for column, type_ in self.types.items():
            row[column] = self._value(column, type_)
        row[ID] = self._next_id
        return row

    def _value(self, column: int, type_: str) -> Any:
        if self._random.random() < 0.15:
            return None
        if column == K:
            return self._random.randrange(5)
        match type_:
            case "STRING":
                return self._random.choice(["", "a", "b'c", "ü", "long text"])
            case "DOUBLE":
                return self._random.choice([0.5, -1.25, 1e300])
            case "BIGINT":
                return self._random.randrange(-(2**40), 2**40)
            case _:
                return self._random.randrange(100)

    def _values(self, rows: list[Row]) -> str:
        return ", ".join(
            "(" + ", ".join(self._text(row[one], self.types[one]) for one in self.names) + ")" for row in rows
        )

    @staticmethod
    def _text(value: Any, type_: str) -> str:
        text = (
            "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else "NULL" if value is None else str(value)
        )
        return f"CAST({text} AS {type_})"

    def _insert(self) -> Step:
        rows = [self._new_row() for _ in range(self._random.randrange(1, 8))]
        self.branches["main"] += rows
        return "insert", f"INSERT INTO {{t}} VALUES {self._values(rows)}"

    def _insert_select(self) -> Step | None:
        rows = self.branches["main"]
        if not rows or len(rows) > 60:
            return None
        shift = self._next_id
        self._next_id = 2 * shift
        chosen = [row for row in rows if row[ID] % 2 == 0]
        self.branches["main"] = rows + [{**row, ID: row[ID] + shift} for row in chosen]
        columns = ", ".join(f"{name} + {shift}" if one == ID else name for one, name in self.names.items())
        return "insert select", f"INSERT INTO {{t}} SELECT {columns} FROM {{t}} WHERE {self.names[ID]} % 2 = 0"

    def _condition(self, prefix: str = "") -> tuple[str, Callable[[Row], bool]]:
        value, part = self._random.randrange(5), self._random.randrange(3)
        chosen: tuple[str, Callable[[Row], bool]] = self._random.choice(
            [
                (f"{prefix}{self.names[K]} = {value}", lambda row: row[K] == value),
                (f"{prefix}{self.names[ID]} % 3 = {part}", lambda row: row[ID] % 3 == part),
                (f"{prefix}{self.names[K]} IS NULL", lambda row: row[K] is None),
                (
                    f"{prefix}{self.names[N]} > 50 OR {prefix}{self.names[S]} = 'a'",
                    lambda row: (row[N] is not None and row[N] > 50) or row[S] == "a",
                ),
            ]
        )
        return chosen

    def _delete(self) -> Step:
        text, passes = self._condition()
        self.branches["main"] = [row for row in self.branches["main"] if not passes(row)]
        return "delete", f"DELETE FROM {{t}} WHERE {text}"

    def _update(self) -> Step:
        text, passes = self._condition()
        self.branches["main"] = [
            {**row, N: None if row[N] is None else int(row[N] / 2), S: "new"} if passes(row) else row
            for row in self.branches["main"]
        ]
        changes = f"{self.names[N]} = {self.names[N]} DIV 2, {self.names[S]} = 'new'"
        return "update", f"UPDATE {{t}} SET {changes} WHERE {text}"

    def _merge(self) -> Step:
        known = [row[ID] for row in self.branches["main"]]
        hit = self._random.sample(known, min(len(known), self._random.randrange(4)))
        rows = [{**self._new_row(), ID: one} for one in hit] + [
            self._new_row() for _ in range(self._random.randrange(3))
        ]
        if not rows:
            rows = [self._new_row()]
        by_id = {row[ID]: row for row in rows}
        merged = []
        for row in self.branches["main"]:
            new = by_id.pop(row[ID], None)
            if new is None or new[K] is None:
                merged.append(row if new is None else {**row, N: new[N]})
            elif new[K] != 0:
                merged.append(new)
        self.branches["main"] = merged + list(by_id.values())
        key, k, n = self.names[ID], self.names[K], self.names[N]
        columns = ", ".join(self.names.values())
        return "merge", (
            f"MERGE INTO {{t}} AS t USING (SELECT * FROM VALUES {self._values(rows)} AS v({columns})) AS s "
            f"ON t.{key} = s.{key} WHEN MATCHED AND s.{k} IS NULL THEN UPDATE SET t.{n} = s.{n} "
            f"WHEN MATCHED AND s.{k} = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def _overwrite(self) -> Step:
        rows = [self._new_row() for _ in range(20)]
        self.branches["main"] = rows
        return "overwrite", f"INSERT OVERWRITE {{t}} VALUES {self._values(rows)}"

    # columns -----------------------------------------------------------------------------------------------------

    def _add_column(self) -> Step | None:
        if len(self.names) > 8:
            return None
        column, self._next_column = self._next_column, self._next_column + 1
        self.names[column], self.types[column] = f"c{column}", self._random.choice(["INT", "STRING", "DOUBLE"])
        return "add column", f"ALTER TABLE {{t}} ADD COLUMN {self.names[column]} {self.types[column]}"

    def _added(self) -> int | None:
        added = [one for one in self.names if one > N]
        return self._random.choice(added) if added else None

    def _rename_column(self) -> Step | None:
        column = self._added()
        if column is None:
            return None
        before, self.names[column] = self.names[column], f"r{self._random.randrange(10**6)}"
        return "rename column", f"ALTER TABLE {{t}} RENAME COLUMN {before} TO {self.names[column]}"

    def _drop_column(self) -> Step | None:
        column = self._added()
        if column is None:
            return None
        name = self.names.pop(column)
        del self.types[column]
        return "drop column", f"ALTER TABLE {{t}} DROP COLUMN {name}"

    def _widen(self) -> Step | None:
        narrow = [one for one, type_ in self.types.items() if type_ == "INT" and one != K]
        if not narrow:
            return None
        column = self._random.choice(narrow)
        self.types[column] = "BIGINT"
        return "widen", f"ALTER TABLE {{t}} ALTER COLUMN {self.names[column]} TYPE BIGINT"

    # layout ------------------------------------------------------------------------------------------------------

    def _add_term(self) -> Step | None:
        left = [term for term in TERMS if term not in self._terms]
        if not left or len(self._terms) == 2:
            return None
        term = self._random.choice(left)
        self._terms.append(term)
        return "add partition field", f"ALTER TABLE {{t}} ADD PARTITION FIELD {term}"

    def _drop_term(self) -> Step | None:
        if not self._terms:
            return None
        term = self._terms.pop(self._random.randrange(len(self._terms)))
        return "drop partition field", f"ALTER TABLE {{t}} DROP PARTITION FIELD {term}"

    def _modes(self) -> Step:
        modes = ", ".join(
            f"'write.{what}.mode' = '{self._random.choice(['copy-on-write', 'merge-on-read'])}'"
            for what in ("delete", "update", "merge")
        )
        return "modes", f"ALTER TABLE {{t}} SET TBLPROPERTIES ({modes})"

    def _order(self) -> Step:
        how = self._random.choice(
            ["ORDERED BY id DESC", "LOCALLY ORDERED BY k, id", "UNORDERED", "DISTRIBUTED BY PARTITION"]
        )
        return "write order", f"ALTER TABLE {{t}} WRITE {how}"

    def _upgrade(self) -> Step | None:
        if self.version == 3:
            return None
        self.version = 3
        return "upgrade", "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')"

    # branches and names ------------------------------------------------------------------------------------------

    def _make_branch(self) -> Step | None:
        if len(self.branches) > 2 or not self.branches["main"]:
            return None
        name = f"b{self._random.randrange(10**6)}"
        self.branches[name] = list(self.branches["main"])
        return "make branch", f"ALTER TABLE {{t}} CREATE BRANCH {name}"

    def _other_branch(self) -> str | None:
        others = [name for name in self.branches if name != "main"]
        return self._random.choice(others) if others else None

    def _insert_into_branch(self) -> Step | None:
        branch = self._other_branch()
        if branch is None:
            return None
        rows = [self._new_row() for _ in range(3)]
        self.branches[branch] = self.branches[branch] + rows
        return "insert into branch", f"INSERT INTO {{t}}.branch_{branch} VALUES {self._values(rows)}"

    def _drop_branch(self) -> Step | None:
        branch = self._other_branch()
        if branch is None:
            return None
        del self.branches[branch]
        return "drop branch", f"ALTER TABLE {{t}} DROP BRANCH {branch}"

    def _rename_table(self) -> Step | None:
        if not self.can_rename:
            return None
        before, self.table = self.table, f"t{self._random.randrange(10**6)}"
        return "rename table", f"ALTER TABLE {{c}}.walk.{before} RENAME TO walk.{self.table}"
