"""Spark for tests: a session, and statements with what they give."""

import warnings
from pathlib import Path
from typing import Any

import floe
from floe.spark.session import FloeSession
from floe.table.lake import Lake

CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.warehouse.dir": "/nowhere",
}


class Spark:
    """A session that answers statements with plain rows."""

    def __init__(self, session: FloeSession) -> None:
        self.session = session

    def __call__(self, statement: str, **names: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in their order."""
        return [tuple(row) for row in self.session.sql(statement.format(**names) if names else statement).collect()]

    def sorted(self, statement: str, **names: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, in the order of their texts."""
        return sorted(self(statement, **names), key=repr)

    def one(self, statement: str, **names: Any) -> Any:
        """The only value of a statement."""
        ((value,),) = self(statement, **names)
        return value

    def explained(self, statement: str) -> str:
        """What EXPLAIN says."""
        return str(self.one(f"EXPLAIN {statement}"))

    @property
    def version(self) -> tuple[int, int]:
        """Spark's version."""
        major, minor = self.session.version.split(".")[:2]
        return int(major), int(minor)

    def lake(self, name: str = "lake") -> Lake:
        """The lake behind a catalog."""
        return self.session.lakes[name]

    def stop(self) -> None:
        self.session.stop()


def start_session(warehouse: Path) -> Spark:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = floe.spark(
            {
                "lake": str(warehouse / "lake"),
                "sq": {"uri": f"sqlite:///{warehouse}/sq.db", "warehouse": str(warehouse / "sq")},
            },
            conf={**CONF, "spark.sql.warehouse.dir": str(warehouse / "hive")},
        )
    session.sparkContext.setLogLevel("OFF")
    return Spark(session)
