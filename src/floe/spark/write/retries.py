"""Retries of statements after conflicts, as often as the table property `write.conflict.retries` says (default: 0).

A statement that was refused has changed nothing, so it is analyzed and run again on the newer state of the table. That
happens where statements come in, in `session.sql` and `df.mergeInto(…).merge()`, because the plan of a statement holds
the table as it was.
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
from floe.spark.write.row_level import mark_merge
from floe.spec.properties import CONFLICT_RETRIES
from floe.table.table import Table

T = TypeVar("T")

_MAX_RECORDED: Final = 200


@contextmanager
def record_conflicts(jvm: Jvm, table: Table, *, at_least: int = 0) -> Iterator[None]:
    """Record a conflict inside the block for `retry_after_conflicts`: through Spark only its message gets there.

    The statement is then retried as often as the table allows, or `at_least` so often. With `at_least`, an
    `InvalidUpdate` counts as a conflict too: a delete of whole files may turn out to be impossible at its commit.
    """
    try:
        yield
    except (ConflictingChange, InvalidUpdate) as error:
        if isinstance(error, InvalidUpdate) and not at_least:
            raise
        retries = max(at_least, CONFLICT_RETRIES.read(table.metadata.properties))
        if retries:
            _recorded_conflicts(jvm).record(str(error), retries)
        raise


def retry_after_conflicts(jvm: Jvm, run: Callable[[], T]) -> T:
    """Run a statement, and run it again after recorded conflicts."""
    failures = 0
    while True:
        try:
            return run()
        except (SparkRuntimeException, IllegalArgumentException) as error:
            failures += 1
            if failures > _recorded_conflicts(jvm).retries(str(error)):
                raise


def patch_merge_into() -> None:
    """Have `df.mergeInto(…).merge()` retry after conflicts, as `session.sql` does.

    Floe has no data frame class of its own, so the method of PySpark is wrapped, once. It builds its plan again each
    time. Conflicts are recorded for tables of Floe only; for all others the method does what it did before.
    """
    merge = MergeIntoWriter.merge
    if hasattr(merge, "__wrapped__"):
        return

    @wraps(merge)
    def merge_with_retries(writer: MergeIntoWriter) -> None:
        jvm = jvm_of(writer._spark)
        with mark_merge(jvm):
            retry_after_conflicts(jvm, lambda: merge(writer))

    MergeIntoWriter.merge = merge_with_retries  # type: ignore[assignment, method-assign]


class _RecordedConflicts:
    """The last conflicts of statements of all threads, by their messages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retries: dict[str, int] = {}

    def record(self, message: str, retries: int) -> None:
        """Record how often the statement may be retried; the oldest entries are dropped, as nobody may ask for them."""
        with self._lock:
            self._retries.pop(message, None)
            self._retries[message] = retries
            if len(self._retries) > _MAX_RECORDED:
                del self._retries[next(iter(self._retries))]

    def retries(self, message: str) -> int:
        """How often a statement may be retried that failed with a message; it contains the recorded message."""
        with self._lock:
            return next((retries for recorded, retries in self._retries.items() if recorded in message), 0)


def _recorded_conflicts(jvm: Jvm) -> _RecordedConflicts:
    return jvm.once("conflicts of statements", _RecordedConflicts)
