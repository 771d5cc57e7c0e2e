"""Statements run again after conflicts: as often as `write.conflict.retries` of their table says, by default never.

What was refused has changed nothing, so the statement is analyzed and run anew on the table as it is then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from pyspark.errors import IllegalArgumentException, SparkRuntimeException

from floe.errors import ConflictingChange, InvalidUpdate
from floe.spark.bridge.jvm import Jvm
from floe.table.row_changes import retries_of
from floe.table.table import Table

__all__ = ["again_after_conflicts", "noting_conflicts"]

T = TypeVar("T")

_KEY: Final = "conflicts of statements"


@contextmanager
def noting_conflicts(jvm: Jvm, table: Table, *, at_least: int = 0) -> Iterator[None]:
    """Remember a conflict for whoever runs the statement: Spark hands on only its message.

    A change by a filter alone may turn out to be impossible when it is made: it is run again `at_least` so often.
    """
    try:
        yield
    except (ConflictingChange, InvalidUpdate) as error:
        if isinstance(error, InvalidUpdate) and not at_least:
            raise
        retries = max(at_least, retries_of(table.metadata.properties))
        if retries:
            jvm.remembered.setdefault(_KEY, {})[str(error)] = retries
        raise


def again_after_conflicts(jvm: Jvm, run: Callable[[], T]) -> T:
    """Run a statement, and again after conflicts that say so."""
    tries = 0
    while True:
        try:
            return run()
        except (SparkRuntimeException, IllegalArgumentException) as error:
            tries += 1
            if tries > _retries(jvm, str(error)):
                raise


def _retries(jvm: Jvm, message: str) -> int:
    conflicts: dict[str, int] = jvm.remembered.get(_KEY, {})
    known = next((told for told in conflicts if told in message), None)
    return 0 if known is None else conflicts.pop(known)
