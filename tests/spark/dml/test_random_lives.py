"""Tables that live through random statements and evolution have, after each, the rows that a plain model has.

Partitioning, names of columns and the file format change on the way, so files of many kinds meet in one statement.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from helpers.spark import Spark

STEPS = 40
Row = dict[str, Any]


def literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@dataclass
class Life:
    """A table and the rows that it must have; columns are `id`, `p`, a number under changing names, perhaps `extra`."""

    session: Spark
    table: str
    chance: random.Random
    number: str = "x"
    extra: bool = False
    bucketed: bool = False
    next_id: int = 0
    rows: list[Row] = field(default_factory=list)

    def step(self, step: int) -> str:
        """Change the model, and give the statement that does the same to the table."""
        kinds = [self.insert, self.delete, self.update, self.merge, self.drop_partition]
        evolutions = [self.rename, self.add_column, self.change_partitioning, self.change_format]
        if not self.rows:
            return self.insert(step)
        weights = [6, 3, 3, 4, 1] + [1] * len(evolutions)
        (kind,) = self.chance.choices([*kinds, *evolutions], weights)
        return kind(step)

    def partition(self) -> str | None:
        return self.chance.choice([None, "a", "b", "c d", "é/="])

    def insert(self, _: int) -> str:
        new = [
            {"id": self.next_id + n, "p": self.partition(), "x": self.chance.choice([None, 1, 2, 3, 10])}
            for n in range(self.chance.randint(1, 6))
        ]
        self.next_id += len(new)
        self.rows += new
        values = ", ".join(f"({row['id']}, {literal(row['p'])}, {literal(row['x'])})" for row in new)
        return f"INSERT INTO {self.table} (id, p, {self.number}) VALUES {values}"

    def delete(self, _: int) -> str:
        wanted = self.chance.choice([1, 2, 3])
        self.rows = [row for row in self.rows if not (row["x"] == wanted and row["id"] % 2 == 0)]
        return f"DELETE FROM {self.table} WHERE {self.number} = {wanted} AND id % 2 = 0"

    def drop_partition(self, _: int) -> str:
        wanted = self.partition()
        self.rows = [row for row in self.rows if row["p"] != wanted]
        return f"DELETE FROM {self.table} WHERE p <=> {literal(wanted)}"

    def update(self, _: int) -> str:
        wanted = self.partition()
        for row in self.rows:
            if row["p"] == wanted and row["id"] % 3 == 0:
                row["x"] = (row["x"] or 0) + 1
        name = self.number
        return f"UPDATE {self.table} SET {name} = coalesce({name}, 0) + 1 WHERE p <=> {literal(wanted)} AND id % 3 = 0"

    def merge(self, _: int) -> str:
        source = {self.chance.randint(0, self.next_id + 2): self.chance.choice([None, 7, 8]) for _ in range(4)}
        by_source = self.chance.random() < 0.3
        existing = {row["id"] for row in self.rows}
        remaining = []
        for row in self.rows:
            if row["id"] in source:
                if source[row["id"]] is None:
                    continue
                row.update(p="m", x=source[row["id"]])
            elif by_source and row["id"] % 5 == 0:
                row["x"] = -1
            remaining.append(row)
        new = [{"id": key, "p": "n", "x": x} for key, x in source.items() if key not in existing and x is not None]
        self.rows = remaining + new
        self.next_id = max(self.next_id, *(key + 1 for key in source))
        values = ", ".join(f"({key}L, CAST({literal(x)} AS INT))" for key, x in source.items())
        return (
            f"MERGE INTO {self.table} t USING (SELECT * FROM VALUES {values} AS v(id, x)) s ON t.id = s.id "
            "WHEN MATCHED AND s.x IS NULL THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {self.number} = s.x, p = 'm' "
            f"WHEN NOT MATCHED AND s.x IS NOT NULL THEN INSERT (id, p, {self.number}) VALUES (s.id, 'n', s.x)"
            + (f" WHEN NOT MATCHED BY SOURCE AND t.id % 5 = 0 THEN UPDATE SET {self.number} = -1" if by_source else "")
        )

    def rename(self, step: int) -> str:
        before, self.number = self.number, f"x{step}"
        return f"ALTER TABLE {self.table} RENAME COLUMN {before} TO {self.number}"

    def add_column(self, step: int) -> str:
        if self.extra:
            return self.rename(step)
        self.extra = True
        return f"ALTER TABLE {self.table} ADD COLUMN extra STRING"

    def change_partitioning(self, _: int) -> str:
        self.bucketed = not self.bucketed
        return f"ALTER TABLE {self.table} {'ADD' if self.bucketed else 'DROP'} PARTITION FIELD bucket(3, id)"

    def change_format(self, _: int) -> str:
        chosen = self.chance.choice(["orc", "parquet", "avro"])
        return f"ALTER TABLE {self.table} SET TBLPROPERTIES ('write.format.default' = '{chosen}')"

    def expected(self) -> list[tuple[Any, ...]]:
        return sorted(((row["id"], row["p"], row["x"]) for row in self.rows), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "mode"), [(1, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read"), (3, "copy-on-write")]
)
def test_rows_are_those_of_the_model_after_each_statement(session: Spark, version: int, mode: str) -> None:
    table = f"lake.lives.v{version}_{mode.replace('-', '_')}"
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    session("CREATE NAMESPACE IF NOT EXISTS lake.lives")
    session(
        f"CREATE TABLE {table} (id BIGINT, p STRING, x INT) PARTITIONED BY (p) "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    life = Life(session, table, random.Random(f"{version} {mode}"))
    statements = []
    for step in range(STEPS):
        statements.append(life.step(step))
        session(statements[-1])
        rows = session.sorted(f"SELECT id, p, {life.number} FROM {table}")
        assert rows == life.expected(), ";\n".join(statements)
    embedded = session.lake().table(table.removeprefix("lake.")).scan(columns=["id", "p", life.number]).to_arrow()
    assert sorted((tuple(row.values()) for row in embedded.to_pylist()), key=repr) == life.expected()
    if version >= 3:
        ids = [row[0] for row in session(f"SELECT _row_id FROM {table}")]
        assert None not in ids
        assert len(set(ids)) == len(ids)
