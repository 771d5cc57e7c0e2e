"""The command line as tests call it, and the rows of the table that these tests share."""

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from floe import Lake


@dataclass
class Result:
    """The exit code and output of a command."""

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
    """A catalog, and the arguments that name it on the command line."""

    lake: Lake
    uri: str
    files: str | None = None
    """The folder of new tables, if the catalog needs the option `warehouse`."""

    def arguments(self, table: str) -> list[str]:
        options = [] if self.files is None else ["-O", f"warehouse={self.files}"]
        return [table, "--catalog", self.uri, *options]


def order(number: int, day: int, **columns: Any) -> dict[str, Any]:
    """A row of the table that the tests share."""
    return {
        "id": number,
        "customer": [None, "ada", "bob"][number % 3],
        "amount": Decimal(number * 5) + Decimal("0.25"),
        "day": dt.date(2024, 5, day),
        **columns,
    }


FIRST = [order(n, 17) for n in range(1, 5)]
SECOND = [order(n, 18) for n in range(5, 8)]
