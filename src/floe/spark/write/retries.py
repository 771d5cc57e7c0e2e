"""Statements run again after conflicts: as often as `write.conflict.retries` of their table says, by default never.

What was refused has changed nothing, so the statement is analyzed and run anew on the table as it is then. That is done
where statements come in, `session.sql` and `df.mergeInto(…).merge()`: further inside, plans hold the table as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, TypeVar

from pyspark.errors import IllegalArgumentException, SparkRuntimeException
from pyspark.sql.merge import MergeIntoWriter

from floe.errors import ConflictingChange, InvalidUpdate
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spark.row_level.target import merging_a_frame
from floe.table.row_changes import retries_of
from floe.table.table import Table

__all__ = ["again_after_conflicts", "merge_frames_again", "noting_conflicts"]

T = TypeVar("T")

_MOST_NOTED: Final = 200


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
            _conflicts(jvm).note(str(error), retries)
        raise


def again_after_conflicts(jvm: Jvm, run: Callable[[], T]) -> T:
    """Run a statement, and again after conflicts that say so."""
    tries = 0
    while True:
        try:
            return run()
        except (SparkRuntimeException, IllegalArgumentException) as error:
            tries += 1
            if tries > _conflicts(jvm).retries(str(error)):
                raise


def merge_frames_again() -> None:
    """Have `df.mergeInto(…).merge()` run again after conflicts that say so, as `session.sql` does.

    Data frames have no class of ours, so the method of PySpark's is wrapped, once. It makes its plan anew each time
    that it is called. A conflict is known only if it is of a table of ours; for all others the method is what it was.
    """
    merge = MergeIntoWriter.merge
    if hasattr(merge, "__wrapped__"):
        return

    @wraps(merge)
    def again(writer: MergeIntoWriter) -> None:
        jvm = jvm_of(writer._spark)
        with merging_a_frame(jvm):
            again_after_conflicts(jvm, lambda: merge(writer))

    MergeIntoWriter.merge = again  # type: ignore[assignment, method-assign]


class _Conflicts:
    """The last conflicts of statements, by their messages: those of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: dict[str, int] = {}

    def note(self, message: str, retries: int) -> None:
        """Remember how often the statement may be run again; what nobody asked for is forgotten after a while."""
        with self._lock:
            self._noted.pop(message, None)
            self._noted[message] = retries
            if len(self._noted) > _MOST_NOTED:
                del self._noted[next(iter(self._noted))]

    def retries(self, message: str) -> int:
        """How often a statement that failed so may be run again."""
        with self._lock:
            return next((retries for told, retries in self._noted.items() if told in message), 0)


def _conflicts(jvm: Jvm) -> _Conflicts:
    return jvm.once("conflicts of statements", _Conflicts)
