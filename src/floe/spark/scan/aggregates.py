"""Counts, minima and maxima told from metadata, where that is exact: no file is read then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from floe.plan.counts import count_rows, count_values, value_range
from floe.spark.bridge.interfaces.scans import LocalScan
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.predicates import Aggregates, Call, Column, Node
from floe.spark.bridge.values import internal_rows_of
from floe.spark.columns import ONLY_READ, spark_type
from floe.spark.scan.source import Source
from floe.spec.expressions.nodes import Expression
from floe.spec.types import LONG, Field, Type

__all__ = ["AggregateScan", "Answer", "answers"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The value of an aggregate."""

    name: str
    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class _Asked:
    """An aggregate: its name, and the column that it is of."""

    name: str
    field: Field | None


def answers(aggregates: Aggregates, source: Source, where: Expression) -> list[Answer] | None:
    """What the aggregates are; None unless metadata tells all of them exactly."""
    if aggregates.is_grouped:
        return None
    asked = []
    for function in aggregates.functions:
        one = _asked(function, source, aggregates.case_sensitive)
        if one is None:
            return None
        asked.append(one)
    plan = source.plan(where, metrics=[one.field.id for one in asked if one.field is not None])
    found = []
    for one in asked:
        if one.field is None:
            rows = count_rows(plan)
            known, made = rows.is_complete, Answer("count(*)", LONG, rows.count)
        elif one.name == "Count":
            values = count_values(plan, one.field.id)
            known, made = values.is_complete, Answer(f"count({one.field.name})", LONG, values.count)
        else:
            extent = value_range(plan, one.field.id)
            value = extent.lower if one.name == "Min" else extent.upper
            known = extent.is_complete
            made = Answer(f"{one.name.lower()}({one.field.name})", one.field.type, value)
        if not known:
            return None
        found.append(made)
    return found


def _asked(function: Node, source: Source, case_sensitive: bool) -> _Asked | None:
    match function:
        case Call("CountStar"):
            return _Asked("CountStar", None)
        case Call("Count" | "Min" | "Max" as name, (Column(path),)):
            pass
        case _:
            return None
    if not source.schema.has(path, case_sensitive=case_sensitive):
        return None
    entry = source.schema.resolve(path, case_sensitive=case_sensitive)
    type_ = entry.field.type
    is_told = not (entry.in_collection or type_.is_nested or type_.kind in ONLY_READ)
    return _Asked(name, entry.field) if is_told else None


class AggregateScan(LocalScan):
    """One row with the answers."""

    def __init__(self, jvm: Jvm, source: Source, found: Sequence[Answer], looked_at: Expression) -> None:
        super().__init__(jvm)
        self.source, self._found, self.looked_at = source, found, looked_at

    def readSchema(self) -> Any:
        """The answers as columns."""
        fields = [
            {"name": one.name, "type": spark_type(one.type), "nullable": True, "metadata": {}} for one in self._found
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def description(self) -> str:
        """What EXPLAIN says."""
        return f"Floe table {self.source.name}; {', '.join(one.name for one in self._found)} told by metadata"

    def rows(self) -> Any:
        """The row."""
        types = [spark_type(one.type) for one in self._found]
        return internal_rows_of(self.jvm, [[one.value for one in self._found]], types)
