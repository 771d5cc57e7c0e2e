"""Offsets of streams and limits of batches, as Spark has them.

What streams of Spark's Python data sources have in some versions only: limits, and writers of Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from floe.spark.bridge.jvm import Jvm

_LIMIT: Final = "org.apache.spark.sql.connector.read.streaming.ReadLimit"
_OFFSETS: Final = (
    "org.apache.spark.sql.execution.streaming.runtime.SerializedOffset",
    "org.apache.spark.sql.execution.streaming.SerializedOffset",  # before Spark 4.1
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch has at most."""

    files: int | None = None
    rows: int | None = None


def java_offset(jvm: Jvm, json: str) -> Any:
    """An offset of its JSON: offsets are classes, so it is one of Spark's own."""
    name = jvm.once("class of offsets", lambda: next(name for name in _OFFSETS if jvm.has_class(name)))
    return jvm.named(name)(json)


def read_limit(jvm: Jvm, limits: Limits) -> Any:
    """Limits as a `ReadLimit`."""
    kind = jvm.named(_LIMIT)
    made = [] if limits.files is None else [kind.maxFiles(limits.files)]
    if limits.rows is not None:
        made.append(kind.maxRows(limits.rows))
    if len(made) == 2:
        return kind.compositeLimit(jvm.array(_LIMIT, made))
    return made[0] if made else kind.allAvailable()


def read_limits(jvm: Jvm, limit: Any) -> Limits:
    """What a `ReadLimit` says; limits of other kinds are none."""
    match jvm.simple_name(limit):
        case "CompositeReadLimit":
            found = [read_limits(jvm, one) for one in limit.getReadLimits()]
            files = [one.files for one in found if one.files is not None]
            rows = [one.rows for one in found if one.rows is not None]
            return Limits(min(files, default=None), min(rows, default=None))
        case "ReadMaxFiles":
            return Limits(files=limit.maxFiles())
        case "ReadMaxRows":
            return Limits(rows=limit.maxRows())
        case _:
            return Limits()


# What streams of Spark's Python data sources have in some versions only: limits, and writers of Arrow batches.

_ROWS: Final = 10_000

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before Spark 4.2
    limits = None  # type: ignore[assignment]

HAS_LIMITS: Final = limits is not None
"""Whether a source is told from where on a batch goes, and how much it may have."""

_BOUNDED: Any = (
    (DataSourceStreamReader,) if limits is None else (DataSourceStreamReader, limits.SupportsTriggerAvailableNow)
)

BoundedStreamReader: Any = type("BoundedStreamReader", _BOUNDED, {})
"""A reader that can be told to read what is there now and no more, where Spark has such."""


def unlimited(limit: Any) -> bool:
    """Whether a batch may have everything."""
    return limits is None or isinstance(limit, limits.ReadAllAvailable)


def limited(files: int | None, rows: int | None) -> Any:
    """How much a batch has, as Spark is told: it has no limit of both, so the source itself takes care."""
    assert limits is not None
    if files is not None:
        return limits.ReadMaxFiles(files)
    return limits.ReadAllAvailable() if rows is None else limits.ReadMaxRows(rows)


class _RowStreamWriter(DataSourceStreamWriter):
    """A writer that gets rows, and makes batches of them: before Spark 4.1."""

    schema: StructType

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return self.write_batches(self._batches(iterator))

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the batches of a task."""
        raise NotImplementedError

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        while some := list(islice(rows, _ROWS)):
            yield from LocalDataToArrowConversion.convert(some, self.schema, False).to_batches()


def _arrow_writer() -> Any:
    found = getattr(datasource, "DataSourceStreamArrowWriter", None)
    if found is None:
        return _RowStreamWriter

    def write(self: Any, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the batches of a task."""
        return self.write_batches(iterator)  # type: ignore[no-any-return]

    return type("ArrowStreamWriter", (found,), {"write": write})


ArrowStreamWriter: Any = _arrow_writer()
"""A writer of a stream that gets Arrow batches, by `write_batches`."""
