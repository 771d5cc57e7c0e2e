"""Statements run again after conflicts: as often as `write.conflict.retries` of their table says, by default never.

What was refused has changed nothing, so the statement is analyzed and run anew on the table as it is then. That is done
where statements come in, `session.sql` and `df.mergeInto(…).merge()`: further inside, plans hold the table as it was.

Whether a table is loaded to have rows changed by UPDATE or MERGE.

A table that takes rows of any columns (`write.spark.accept-any-schema`) has Spark leave the columns of all statements
alone, also of those that it cannot carry out then. So such statements get it as a table that does not. Spark tells what
it loads a table for by the privileges that are needed. To insert, or to insert and delete, may be a MERGE or an
overwrite; and Spark 4.1 loads a table again, and says nothing, once a MERGE has added columns to it. These are known by
the place in the text that is being resolved, or by a mark where a data frame is merged.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeVar

from pyspark.errors import IllegalArgumentException, SparkRuntimeException
from pyspark.sql.merge import MergeIntoWriter

from floe.errors import ConflictingChange, InvalidUpdate
from floe.spark.bridge.jvm import Jvm, jvm_of
from floe.spec.properties import CONFLICT_RETRIES
from floe.table.table import Table

# Whether a table is loaded to have rows changed by UPDATE or MERGE.

_GAP: Final = r"(?:\s|/\*.*?\*/|--[^\n]*\n)+"
_EVOLVING: Final = rf"merge{_GAP}with{_GAP}schema{_GAP}evolution\b"
_BEFORE_TARGET: Final = re.compile(rf"\b(merge|{_EVOLVING}){_GAP}into{_GAP}\Z", re.IGNORECASE | re.DOTALL)
_STATEMENT: Final = re.compile(_EVOLVING, re.IGNORECASE | re.DOTALL)
_FRAME: Final = "floe.merging.a.frame"


@contextmanager
def merging_a_frame(jvm: Jvm) -> Iterator[None]:
    """What Spark loads meanwhile is for a MERGE. The mark is the thread's in the JVM, as the analysis is."""
    jvm.context.setLocalProperty(_FRAME, "true")
    try:
        yield
    finally:
        jvm.context.setLocalProperty(_FRAME, None)


def changes_rows(jvm: Jvm, how: Iterable[Any]) -> bool:
    """Whether the further arguments of `loadTable` are those of an UPDATE or a MERGE."""
    needed = {str(one.name()) for found in how for one in _privileges(jvm, found)}
    if "UPDATE" in needed or needed == {"DELETE"}:
        return True
    return jvm.context.getLocalProperty(_FRAME) is not None or _resolves_target_of_merge(jvm)


def _resolves_target_of_merge(jvm: Jvm) -> bool:
    """Whether what is being resolved is the name behind MERGE INTO, or a whole MERGE that adds columns."""
    origin = jvm.module("org.apache.spark.sql.catalyst.trees.CurrentOrigin").get()
    if origin.sqlText().isEmpty() or origin.startIndex().isEmpty():
        return False
    text, place = str(origin.sqlText().get()), int(origin.startIndex().get())
    return bool(_BEFORE_TARGET.search(text[:place]) or _STATEMENT.match(text, place))


def _privileges(jvm: Jvm, found: Any) -> Iterable[Any]:
    if isinstance(found, str | int):
        return ()
    if jvm.simple_name(found) == "TableContext":
        found = found.writePrivileges()
    return list(found) if jvm.reflected("java.util.Set").isInstance(found) else ()


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
        retries = max(at_least, CONFLICT_RETRIES.read(table.metadata.properties))
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
