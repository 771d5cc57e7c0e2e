"""Tables for tests of statements, and things that happen to them in the middle of one."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from floe import Table
from floe.commit.target import TableTarget
from helpers.spark import Spark

COW, MOR = "copy-on-write", "merge-on-read"
_numbers = count(1)


class Target:
    """A table of its own for a test."""

    def __init__(self, spark: Spark, name: str) -> None:
        self.spark, self.name = spark, name

    @property
    def table(self) -> Table:
        return self.spark.lake().table(self.name.removeprefix("lake."))

    def rows(self, columns: str = "*", where: str = "true") -> list[tuple[Any, ...]]:
        return self.spark.sorted(f"SELECT {columns} FROM {self.name} WHERE {where}")

    def summary(self) -> dict[str, str]:
        snapshot = self.table.current_snapshot
        assert snapshot is not None
        return dict(snapshot.summary)


class Make:
    def __init__(self, spark: Spark) -> None:
        self._spark = spark

    def __call__(
        self,
        columns: str = "id INT, v STRING",
        *,
        version: int = 3,
        mode: str = MOR,
        by: str = "",
        rows: str = "",
        **properties: Any,
    ) -> Target:
        name = f"lake.changes.t{next(_numbers)}"
        given = {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
        given |= {"format-version": str(version)} | {
            key.replace("_", "."): str(value) for key, value in properties.items()
        }
        told = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        partitions = f"PARTITIONED BY ({by})" if by else ""
        self._spark(f"CREATE TABLE {name} ({columns}) {partitions} TBLPROPERTIES ({told})")
        if rows:
            self._spark(f"INSERT INTO {name} VALUES {rows}")
        return Target(self._spark, name)


class Meanwhile:
    """Runs something just before the next commit of a table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.todo: list[Any] = []
        before = TableTarget.commit

        def commit(target: TableTarget, *arguments: Any) -> Any:
            if self.todo:
                self.todo.pop()()
            return before(target, *arguments)

        monkeypatch.setattr(TableTarget, "commit", commit)

    def __call__(self, *todo: Any) -> None:
        self.todo = list(reversed(todo))
