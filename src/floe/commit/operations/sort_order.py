"""Changing the order in which a table's rows are to be written.

Concurrency: if the default sort order or the current schema changed since the user looked, it is a `ConflictingChange`;
every other commit is built upon. An order is advice to writers, and no file depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.errors import ConflictingChange
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSortOrder, SetDefaultSortOrder, TableUpdate
from floe.spec.sorting import SortOrder

__all__ = ["UpdateSortOrder"]


@dataclass(frozen=True, slots=True)
class UpdateSortOrder:
    """Makes a sort order the default; its columns are those of the table that the user saw."""

    sort_order: SortOrder
    seen_order_id: int
    seen_schema_id: int

    @staticmethod
    def of(sort_order: SortOrder, metadata: TableMetadata) -> UpdateSortOrder:
        """The change for the table as the user sees it.

        >>> from floe.spec.metadata.creation import new_table_metadata
        >>> from floe.spec.schemas.schema import Schema
        >>> from floe.spec.sorting import UNSORTED
        >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
        >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0)
        >>> UpdateSortOrder.of(UNSORTED, table).seen_order_id
        0
        """
        return UpdateSortOrder(sort_order, metadata.default_sort_order_id, metadata.current_schema_id)

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The new order, if the table still has the one that the user saw."""
        table = attempt.metadata
        seen, now = (
            (self.seen_order_id, self.seen_schema_id),
            (table.default_sort_order_id, table.current_schema_id),
        )
        if seen != now:
            raise ConflictingChange(
                f"the sort order cannot be changed: the change was made for order {seen[0]} and schema {seen[1]}, and "
                f"the table has order {now[0]} and schema {now[1]} now",
                hint="look at the table again, and make the change again if it is still wanted",
            )
        return (AddSortOrder(self.sort_order), SetDefaultSortOrder())
