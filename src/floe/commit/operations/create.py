"""Creating and replacing tables.

Concurrency:

- **Create**: the table must not exist. If two create it at the same time, one succeeds and the other gets
  `TableAlreadyExists`. The uuid of the new table is chosen before, so that a creation whose answer was lost is found.
- **Replace**: applied to the newest state, so that what others committed meanwhile stays in the history (snapshots,
  tags, other branches) and can be read and rolled back to. If the schema, partition spec, sort order or location
  changed since the caller looked at the table, it is a `ConflictingChange`.
- **Create or replace**: one or the other, depending on whether the table exists when the commit is attempted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from floe.commit.change import Attempt
from floe.commit.operations.metadata_changes import refuse_encryption
from floe.errors import ConflictingChange, TableAlreadyExists
from floe.spec.metadata.creation import creation_updates, replacement_updates
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionSpec
from floe.spec.properties import PARQUET_CODEC, check_properties
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED, SortOrder

NEW_TABLE_DEFAULTS: Final[Mapping[str, str]] = {PARQUET_CODEC.data.name: "zstd"}
"""The default properties of new tables, as in Java Iceberg: stored, so that all engines write in the same way."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The schema, layout and properties of a new table; ids of columns and fields are assigned when it is created.

    Without `format_version` a new table has version 2, and a replaced table keeps its version.
    """

    schema: Schema
    spec: PartitionSpec = UNPARTITIONED
    sort_order: SortOrder = UNSORTED
    properties: Mapping[str, str] = field(default_factory=dict)
    format_version: int | None = None

    def __post_init__(self) -> None:
        refuse_encryption(self.properties)
        check_properties(self.properties)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Creates a table with a new uuid.

    >>> change = CreateTable(
    ...     TableDefinition(Schema(())), location="s3://b/t", table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1"
    ... )
    >>> change.creation()[-1]
    SetProperties(updates={'write.parquet.compression-codec': 'zstd'})
    """

    definition: TableDefinition
    location: str
    table_uuid: str

    def creation(self) -> Sequence[TableUpdate]:
        """The updates that create the table."""
        definition = self.definition
        return creation_updates(
            definition.schema,
            definition.spec,
            definition.sort_order,
            location=self.location,
            uuid=self.table_uuid,
            properties={**NEW_TABLE_DEFAULTS, **definition.properties},
            format_version=definition.format_version,
        )

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """Raise `TableAlreadyExists`: updates are asked for only if the table exists."""
        raise TableAlreadyExists(
            "there is a table of that name already",
            hint="choose another name, or replace the table",
            uuid=attempt.metadata.table_uuid,
        )


class ReplaceTable:
    """Replaces schema, partitioning, sort order and properties; the table is empty then, and keeps its history.

    `expected` is the metadata that the caller looked at; by default that of the first attempt.
    """

    replaces = True

    def __init__(
        self, definition: TableDefinition, *, location: str | None = None, expected: TableMetadata | None = None
    ) -> None:
        self.definition = definition
        self.location = location
        self._expected = expected

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates that replace the current table; raises `ConflictingChange` if its layout changed."""
        start = attempt.start or attempt.metadata
        if self._expected is None:
            self._expected = start
        _check_layout_unchanged(self._expected, start)
        definition = self.definition
        missing = {k: v for k, v in NEW_TABLE_DEFAULTS.items() if k not in attempt.metadata.properties}
        return replacement_updates(
            attempt.metadata,
            definition.schema,
            definition.spec,
            definition.sort_order,
            location=self.location,
            properties={**missing, **definition.properties},
            format_version=definition.format_version,
        )


class CreateOrReplaceTable(ReplaceTable):
    """Creates the table, or replaces it if it exists; `new_location` and `table_uuid` are those of a new table.

    >>> change = CreateOrReplaceTable(
    ...     TableDefinition(Schema(())), new_location="s3://b/t", table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1"
    ... )
    >>> change.creation()[0].action
    'assign-uuid'
    """

    def __init__(
        self, definition: TableDefinition, *, new_location: str, table_uuid: str, location: str | None = None
    ) -> None:
        super().__init__(definition, location=location)
        self.table_uuid = table_uuid
        self._create = CreateTable(definition, location or new_location, table_uuid)

    def creation(self) -> Sequence[TableUpdate]:
        """The updates that create the table."""
        return self._create.creation()


def _check_layout_unchanged(expected: TableMetadata, current: TableMetadata) -> None:
    """Raise if the layout changed; snapshots, refs, properties and statistics may have changed."""
    for name, attribute in _LAYOUT.items():
        before, after = getattr(expected, attribute), getattr(current, attribute)
        if before != after:
            raise ConflictingChange(
                f"the table cannot be replaced: another commit changed its {name} from {before} to {after}",
                hint="load the table again, and replace it if that is still intended",
            )


_LAYOUT: Final[Mapping[str, str]] = {
    "uuid": "table_uuid",
    "format version": "format_version",
    "current schema id": "current_schema_id",
    "last column id": "last_column_id",
    "default partition spec id": "default_spec_id",
    "default sort order id": "default_sort_order_id",
    "location": "location",
}
