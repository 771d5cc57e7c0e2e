"""What a read of changes reads, planned on the driver: files that were added or removed, and rows deleted of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import groupby
from typing import Any

from floe.arrow.reading.changes import with_change_columns
from floe.plan.changelog import AddedRows, ChangeTask, DeletedRows, plan_changelog
from floe.plan.splits import pack, split_settings
from floe.plan.tasks import content_size
from floe.spark.changes.ranges import ChangeRange
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.schemas.schema import Schema
from floe.table.table import Table

__all__ = ["ChangeSource", "Part"]


class Part(Enum):
    """Which of the changes: those of snapshots that add and delete rows may have rows that were only carried over."""

    ALL = "all changes"
    PLAIN = "changes of snapshots that only add or only delete"
    MIXED = "changes of snapshots that add and delete, with rows carried over"


@dataclass(frozen=True)
class ChangeSource:
    """The changes of a table in a range of its history."""

    name: str
    table: Table
    range: ChangeRange
    part: Part = Part.ALL
    where: Expression = TRUE
    """What rows must pass, in addition to a query's own filter."""

    _planned: dict[str, list[list[ChangeTask]]] = field(default_factory=dict, compare=False, repr=False)
    """The tasks of each snapshot, by the filter; parts of a source share them."""

    @property
    def key(self) -> Any:
        """What makes two sources the same."""
        return (self.table.uuid, self.table.metadata_location, self.range, self.part, str(self.where))

    @cached_property
    def schema(self) -> Schema:
        """The table's columns, and those that tell of the change."""
        return with_change_columns(self.table.schema)

    def only(self, part: Part, where: Expression = TRUE) -> ChangeSource:
        """Some of the changes."""
        return replace(self, part=part, where=and_(self.where, where))

    def tasks(self, where: Expression) -> list[ChangeTask]:
        """The changes of rows that may pass a filter."""
        return [task for group in self._groups(and_(self.where, where)) for task in _of_part(group, self.part)]

    def may_carry_over(self, where: Expression) -> bool:
        """Whether some snapshots add rows and delete rows: then some of them may only have been carried over."""
        return any(map(_is_mixed, self._groups(and_(self.where, where))))

    def _groups(self, where: Expression) -> list[list[ChangeTask]]:
        """The changes of each snapshot."""
        if self.range.until is None or self.range.until == self.range.after:
            return []
        found = self._planned.get(str(where))
        if found is None:
            plan = plan_changelog(
                self.table.metadata,
                self.table.storage,
                after=self.range.after,
                until=self.range.until,
                where=None if where is TRUE else where,
            )
            found = [list(group) for _, group in groupby(plan.tasks(), key=lambda task: task.ordinal)]
            self._planned[str(where)] = found
        return found

    def packed(self, tasks: list[ChangeTask]) -> Iterator[list[ChangeTask]]:
        """The tasks in bins of about equal work."""
        settings = split_settings(self.table.metadata.properties)

        def weight(task: ChangeTask) -> int:
            added = task.added_deletes if isinstance(task, DeletedRows) else ()
            files = task.task.files_count + len(added)
            return max(task.task.size + sum(map(content_size, added)), files * settings.open_file_cost)

        return pack(tasks, weight, settings.target_size, settings.lookback)


def _is_mixed(tasks: list[ChangeTask]) -> bool:
    """Whether the tasks of a snapshot add rows and delete some."""
    added = sum(isinstance(task, AddedRows) for task in tasks)
    return 0 < added < len(tasks)


def _of_part(tasks: list[ChangeTask], part: Part) -> list[ChangeTask]:
    return tasks if part is Part.ALL or _is_mixed(tasks) is (part is Part.MIXED) else []
