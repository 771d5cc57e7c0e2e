"""DELETE, UPDATE and MERGE give the rows that SQL says, however the table stores its changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from floe import Lake, Table
from helpers.dml_cases import CASES, COLUMNS, FILES, SOURCE, TYPES, Case
from helpers.spark import Spark

COW, MOR = "copy-on-write", "merge-on-read"


@dataclass(frozen=True)
class Layout:
    """How a table stores rows and changes."""

    version: int
    mode: str
    partitioned: bool

    def __str__(self) -> str:
        return f"v{self.version} {self.mode}{' partitioned' if self.partitioned else ''}"


LAYOUTS = [
    Layout(version, mode, partitioned)
    for (version, mode), partitioned in product(((1, COW), (2, COW), (2, MOR), (3, COW), (3, MOR)), (False, True))
]


class Tables:
    """Tables to change, all begun from one that was written once for each layout."""

    def __init__(self, session: Spark) -> None:
        self.lake: Lake = session.lake("sq")
        self.begun: dict[Layout, str] = {}
        self.count = 0

    def new(self, layout: Layout) -> str:
        if layout not in self.begun:
            self.begun[layout] = self._begin(layout)
        self.count += 1
        name = f"dml.case{self.count}"
        self.lake.register_table(name, self.begun[layout])
        return name

    def _begin(self, layout: Layout) -> str:
        table = self.lake.create_table(
            f"dml.begun{len(self.begun)}",
            TYPES.lower(),
            partition_by=["dep"] if layout.partitioned else [],
            format_version=layout.version,
            properties={f"write.{kind}.mode": layout.mode for kind in ("delete", "update", "merge")},
        )
        for rows in FILES:
            table.append([dict(zip(COLUMNS, row, strict=True)) for row in rows])
        return table.metadata_location


def stored(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)


@pytest.fixture(scope="module")
def tables(session: Spark) -> Iterator[Tables]:
    session("CREATE NAMESPACE IF NOT EXISTS sq.dml")
    session.session.createDataFrame(SOURCE, TYPES).createOrReplaceTempView("source_rows")
    yield Tables(session)
    session.session.catalog.dropTempView("source_rows")


def run(session: Spark, tables: Tables, case: Case, layout: Layout) -> str:
    name = tables.new(layout)
    session(case.statement.sql(f"sq.{name}"))
    assert stored(tables.lake.table(name)) == list(case.expected), f"{case.name} on {layout}"
    return name


@pytest.mark.parametrize("number", range(0, len(CASES), 4), ids=lambda n: CASES[n].name)
def test_statements(session: Spark, tables: Tables, number: int) -> None:
    run(session, tables, CASES[number], LAYOUTS[(number * 7 + number // 10) % len(LAYOUTS)])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: CASES[n].name)
def test_statements_in_every_layout(session: Spark, tables: Tables, number: int) -> None:
    """In every version and mode, every other time in a partitioned table; and Spark reads what was stored."""
    for place in range(0, len(LAYOUTS), 2):
        layout = LAYOUTS[place + (number + place // 2) % 2]
        name = run(session, tables, CASES[number], layout)
        if place // 2 == number % 5:
            assert session.sorted(f"SELECT * FROM sq.{name}") == list(CASES[number].expected), f"{layout}"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 150
