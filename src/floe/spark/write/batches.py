"""How many rows go to a Python worker at a time.

After each row Spark computes how big the batch has become, to end it at a number of bytes; that takes longer than
putting the row there. So batches of writes end by their number of rows alone, unless rows have columns that are often
big. These are properties of the thread that starts the tasks, over which Spark puts whatever the session says itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import SparkContext

from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_fields import walk_fields

__all__ = ["sized_batches"]

_OFTEN_BIG: Final = frozenset({"binary", "variant", "geometry", "geography"})
_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_LIMIT: Final = str(2**31 - 1)
"""With just this number Spark does not compute sizes."""


@contextmanager
def sized_batches(context: SparkContext, schema: Schema) -> Iterator[None]:
    """Tasks that this thread starts meanwhile get rows of a table in batches that suit a writer of files."""
    limits = {_ROWS: "16384"}
    if not any(entry.field.type.kind in _OFTEN_BIG for entry in walk_fields(schema.fields)):
        limits[_BYTES] = _NO_LIMIT
    before = {name: context.getLocalProperty(name) for name in limits}
    try:
        for name, value in limits.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # None takes it away
