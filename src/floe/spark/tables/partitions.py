"""The partitions of a table for SHOW PARTITIONS: values of partition fields as the folders of files say them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from floe.errors import UnsupportedFeature
from floe.plan.metadata_tables.tables import metadata_table
from floe.plan.snapshots import choose_snapshot
from floe.spark.bridge.interfaces.tables import SupportsPartitionManagement
from floe.spark.bridge.rows import internal_rows
from floe.spark.names import Selected
from floe.spec.partitioning.partition_spec import PartitionField
from floe.spec.partitioning.transforms import Void
from floe.spec.types import UNKNOWN, Type
from floe.spec.values.conversion import convert
from floe.table.table import Table

__all__ = ["ListedPartitions"]

_HINT: Final = "use INSERT, and DELETE FROM … WHERE"


class ListedPartitions(SupportsPartitionManagement):
    """The part of a table that lists its partitions: every value is a text, null where there is none."""

    table: Table
    selected: Selected

    def partitionSchema(self) -> Any:
        """The partition fields of all specs, as texts."""
        fields = [
            {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in self._partition_fields()
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """The partitions with these values of these fields."""
        wanted = {
            name: None if values.isNullAt(place) else values.getUTF8String(place).toString()
            for place, name in enumerate(self.jvm.read_strings(names))
        }
        found = [row for row in self._partition_rows() if all(row[name] == value for name, value in wanted.items())]
        return internal_rows(self.jvm, list(self._partition_fields()), found)

    def partitionExists(self, partition: Any) -> bool:
        """Whether there are rows in such a partition."""
        return len(self.listPartitionIdentifiers(self.jvm.strings(self._partition_fields()), partition)) > 0

    def createPartition(self, partition: Any, properties: Any) -> None:
        """Partitions come with their rows."""
        raise UnsupportedFeature("a partition is there when rows of it are", hint=_HINT)

    def dropPartition(self, partition: Any) -> bool:
        """Partitions go with their rows."""
        raise UnsupportedFeature("a partition goes when its rows do", hint=_HINT)

    purgePartition = dropPartition
    truncatePartition = dropPartition

    def _partition_fields(self) -> dict[str, PartitionField]:
        """The fields of all specs by name, the current one's first; those that split nothing any more are left out."""
        metadata = self.table.metadata
        specs = sorted(metadata.partition_specs, key=lambda spec: spec.spec_id != metadata.default_spec_id)
        found: dict[int, PartitionField] = {}
        for spec in specs:
            for field in spec.fields:
                if not isinstance(field.transform, Void):
                    found.setdefault(field.field_id, field)
        return {field.name: field for field in found.values()}

    def _partition_rows(self) -> list[dict[str, str | None]]:
        metadata, as_of = self.table.metadata, self.selected.as_of
        snapshot = choose_snapshot(metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms)
        listed = metadata_table(
            "partitions", metadata, self.table.metadata_location, self.table.storage, snapshot=snapshot
        )
        fields = self._partition_fields()
        if not fields:
            return []
        partitions: Sequence[dict[str, Any]] = listed.column("partition").to_pylist()
        rows = [
            {name: self._partition_text(field, values.get(name)) for name, field in fields.items()}
            for values in partitions
        ]
        return list({tuple(row.values()): row for row in rows}.values())

    def _partition_text(self, field: PartitionField, value: Any) -> str | None:
        """A value as it stands in the path of a file."""
        if value is None:
            return None
        source = self._source_type(field.source_id)
        return field.transform.to_human(source, convert(field.transform.result_type(source), value))

    def _source_type(self, field_id: int) -> Type:
        schemas = (self.table.schema, *self.table.metadata.schemas)
        return next((found.type for schema in schemas if (found := schema.find(field_id))), UNKNOWN)
