"""Whether a table is loaded to have rows changed by UPDATE or MERGE.

A table that takes rows of any columns (`write.spark.accept-any-schema`) has Spark leave the columns of all statements
alone, also of those that it cannot carry out then. So such statements get it as a table that does not. Spark tells what
it loads a table for by the privileges that are needed. To insert, or to insert and delete, may be a MERGE or an
overwrite; and Spark 4.1 loads a table again, and says nothing, once a MERGE has added columns to it. These are known by
the place in the text that is being resolved, or by a mark where a data frame is merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from floe.spark.bridge.jvm import Jvm

__all__ = ["changes_rows", "merging_a_frame"]

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
