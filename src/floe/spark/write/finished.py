"""Files of tasks that have finished, known to the driver while others still run.

When a task of a query fails, what the others gave is lost with the query. So each also tells its files by an
accumulator of Spark's, which arrives with the end of the task, and a write that fails deletes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from floe.formats.writers.rolling import discard, leave_nothing
from floe.storage.protocol import Storage

__all__ = ["FinishedFiles"]

_MOST_WRITES: Final = 1000
"""Tasks may end after their query has failed: what they tell is asked for by nobody, and forgotten some day."""

ByWrite = dict[str, list[str]]


class _Gathered(AccumulatorParam[ByWrite]):
    """Puts locations of files together, by the ids of writes."""

    def zero(self, value: ByWrite) -> ByWrite:
        return {}

    def addInPlace(self, value1: ByWrite, value2: ByWrite) -> ByWrite:
        for write_id, files in value2.items():
            value1[write_id] = value1.get(write_id, []) + files
        while len(value1) > _MOST_WRITES:
            del value1[next(iter(value1))]
        return value1


class FinishedFiles:
    """The files of finished tasks, by writes; there is one for each Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self.told: Accumulator[ByWrite] = context.accumulator({}, _Gathered())
        """What tasks add their files to."""

    @contextmanager
    def deleted_on_error(self, storage: Storage, write_id: str) -> Iterator[None]:
        """What tasks of a write have told is deleted if what is inside fails, in which nothing may be committed."""
        try:
            yield
        except BaseException as error:
            leave_nothing(error, discard(storage, self.told.value.get(write_id, [])))
            raise
        finally:
            self.told.value.pop(write_id, None)
