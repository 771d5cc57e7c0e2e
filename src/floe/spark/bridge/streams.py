"""Offsets of streams and limits of batches, as Spark has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from floe.spark.bridge.jvm import Jvm

__all__ = ["Limits", "java_offset", "read_limit", "read_limits"]

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
