"""Changes of what a table is like, not of its rows: columns, partitioning, order, properties, location, version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from floe.commit.operations.format_version import UpgradeTable
from floe.commit.operations.location import UpdateLocation
from floe.commit.operations.properties import UpdateProperties
from floe.commit.operations.statistics import UpdateStatistics
from floe.spec.metadata.statistics import PartitionStatisticsFile, StatisticsFile
from floe.spec.sorting import SortOrder
from floe.storage.locations import parse
from floe.table.actions import Actions
from floe.table.evolution import SchemaEvolution, SpecEvolution, sort_change

__all__ = ["LayoutActions"]


class LayoutActions(Actions):
    """The methods for a table's layout; a table has them, and a transaction."""

    def evolve(self, *, allow_incompatible: bool = False, case_sensitive: bool = True) -> SchemaEvolution:
        """Change the columns: `t.evolve().add_column("note", "string").commit()`.

        `allow_incompatible` permits what may make rows already written invalid, such as requiring a column.
        """
        return SchemaEvolution(self, allow_incompatible=allow_incompatible, case_sensitive=case_sensitive)

    def update_spec(self, *, case_sensitive: bool = True) -> SpecEvolution:
        """Change the partitioning: `t.update_spec().add_field("day(ts)").commit()`."""
        return SpecEvolution(self, case_sensitive=case_sensitive)

    def update_sort(self, *order: str | SortOrder, case_sensitive: bool = True) -> None:
        """Change the order that writers use: `t.update_sort("ts desc", "id")`; without terms, none."""
        whole = order[0] if len(order) == 1 and isinstance(order[0], SortOrder) else [str(term) for term in order]
        self._do(sort_change(self, whole, case_sensitive=case_sensitive))

    def set_properties(self, properties: Mapping[str, Any]) -> None:
        """Set properties; those not named stay. Numbers, true and false need no quotes."""
        self._do(UpdateProperties(_texts(properties)))

    def remove_properties(self, *names: str) -> None:
        """Remove properties; those that are not there are no matter."""
        self._do(UpdateProperties(remove=names))

    def set_location(self, location: str) -> None:
        """Change where new files go; those that are there stay where they are."""
        self._do(UpdateLocation(parse(location).text, self._published.location))

    def upgrade(self, format_version: int) -> None:
        """Raise the format version; there is no way back."""
        self._do(UpgradeTable(format_version))

    def update_statistics(
        self,
        files: Iterable[StatisticsFile | PartitionStatisticsFile] = (),
        *,
        forget: Iterable[int] = (),
        forget_partition: Iterable[int] = (),
    ) -> None:
        """Register statistics files of snapshots, and forget those of the snapshots given.

        A file in the table's folders that is replaced or forgotten is deleted.
        """
        given = list(files)
        self._do(
            UpdateStatistics(
                [file for file in given if isinstance(file, StatisticsFile)],
                [file for file in given if isinstance(file, PartitionStatisticsFile)],
                tuple(forget),
                tuple(forget_partition),
            )
        )


def _texts(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties as text; numbers, true and false are written as the format has them."""
    return {
        name: str(value).lower() if isinstance(value, bool | int | float) else value
        for name, value in properties.items()
    }
