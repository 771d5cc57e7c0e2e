"""The command as a test types it, and the rows of the table that the tests of the command share."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from floe import Lake


@dataclass
class Result:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Floe = Callable[..., Result]


@dataclass
class Warehouse:
    """A catalog, and how it is named on the command line."""

    lake: Lake
    uri: str
    files: str | None = None
    """Where files of new tables go, if the catalog has to be told."""

    def named(self, table: str) -> list[str]:
        options = [] if self.files is None else ["-O", f"warehouse={self.files}"]
        return [table, "--catalog", self.uri, *options]


def order(number: int, day: int, **others: Any) -> dict[str, Any]:
    """A row of the table that the tests share."""
    return {
        "id": number,
        "customer": [None, "ada", "bob"][number % 3],
        "amount": Decimal(number * 5) + Decimal("0.25"),
        "day": dt.date(2024, 5, day),
        **others,
    }


FIRST = [order(n, 17) for n in range(1, 5)]
SECOND = [order(n, 18) for n in range(5, 8)]
