"""Tables in every layout that DELETE, UPDATE and MERGE have to do with, for the cases of `dml_cases`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from floe import Lake, Table
from helpers.dml_cases import COLUMNS, FILES, TYPES, Case
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

    def __init__(self, session: Spark, namespace: str) -> None:
        self.session, self.namespace = session, namespace
        self.lake: Lake = session.lake("sq")
        self.begun: dict[Layout, str] = {}
        self.count = 0

    def new(self, layout: Layout) -> str:
        if layout not in self.begun:
            self.begun[layout] = self._begin(layout)
        self.count += 1
        name = f"{self.namespace}.case{self.count}"
        self.lake.register_table(name, self.begun[layout])
        return name

    def _begin(self, layout: Layout) -> str:
        table = self.lake.create_table(
            f"{self.namespace}.begun{len(self.begun)}",
            TYPES.lower(),
            partition_by=["dep"] if layout.partitioned else [],
            format_version=layout.version,
            properties={f"write.{kind}.mode": layout.mode for kind in ("delete", "update", "merge")},
        )
        for rows in FILES:
            table.append([dict(zip(COLUMNS, row, strict=True)) for row in rows])
        return table.metadata_location

    def run(self, case: Case, layout: Layout) -> str:
        """Run the statement of a case on a new table, and see that its rows are those that are expected."""
        name = self.new(layout)
        self.session(case.statement.sql(f"sq.{name}"))
        assert stored(self.lake.table(name)) == list(case.expected), f"{case.name} on {layout}"
        return name

    def run_in_all(self, case: Case, number: int, layouts: list[Layout]) -> None:
        """In all layouts, every other time in a partitioned table; and Spark reads what was stored in one of them."""
        for place in range(0, len(layouts), 2):
            layout = layouts[place + (number + place // 2) % 2]
            name = self.run(case, layout)
            if place // 2 == number % (len(layouts) // 2):
                assert self.session.sorted(f"SELECT * FROM sq.{name}") == list(case.expected), f"{layout}"


def stored(table: Table) -> list[tuple[Any, ...]]:
    """The rows as the embedded engine reads them."""
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)
