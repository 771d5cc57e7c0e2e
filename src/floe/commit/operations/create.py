"""Creating a table, replacing one, and whichever of the two it takes.

Concurrency:

- **Create**: the table must not exist. Of two that create it at once one wins, the other gets `TableAlreadyExists`. The
  new table's uuid is fixed beforehand, so that a creation whose answer was lost is found again.
- **Replace**: made again on every newer state, so that what others committed meanwhile stays in the history (snapshots,
  tags, other branches) and can be read and rolled back to. If the schema, partition spec, sort order or location
  changed since the replacement was first made, it is a `ConflictingChange`: who replaces a table means the one he saw.
- **Create or replace**: whatever the table is when the commit is made.
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
"""Properties that a new table gets unless they are given, so that later writers of any engine do the same (as Java)."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table is to be. Ids of columns, partition fields and sort fields are given when it is made.

    `format_version` None means 2 for a new table, and that of the table that is replaced.
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
    """Creates a table; its uuid is a new one.

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
        made = self.definition
        return creation_updates(
            made.schema,
            made.spec,
            made.sort_order,
            location=self.location,
            uuid=self.table_uuid,
            properties={**NEW_TABLE_DEFAULTS, **made.properties},
            format_version=made.format_version,
        )

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """There is a table already."""
        raise TableAlreadyExists(
            "there is a table of that name already",
            hint="choose another name, or replace the table",
            uuid=attempt.metadata.table_uuid,
        )


class ReplaceTable:
    """Replaces a table's schema, partitioning, sort order and properties, and leaves it empty, with its history kept.

    `seen` is the metadata that the user looked at; without it, that of the first attempt.
    """

    replaces = True

    def __init__(
        self, definition: TableDefinition, *, location: str | None = None, seen: TableMetadata | None = None
    ) -> None:
        self.definition = definition
        self.location = location
        self._seen = seen

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The replacement, made for the table as it is now."""
        start = attempt.start or attempt.metadata
        if self._seen is None:
            self._seen = start
        _check_layout_unchanged(self._seen, start)
        made = self.definition
        missing = {k: v for k, v in NEW_TABLE_DEFAULTS.items() if k not in attempt.metadata.properties}
        return replacement_updates(
            attempt.metadata,
            made.schema,
            made.spec,
            made.sort_order,
            location=self.location,
            properties={**missing, **made.properties},
            format_version=made.format_version,
        )


class CreateOrReplaceTable(ReplaceTable):
    """Creates the table, or replaces it if there is one; `location` and `table_uuid` are those of a new one.

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


def _check_layout_unchanged(seen: TableMetadata, now: TableMetadata) -> None:
    """Snapshots, refs, properties and statistics may have changed, but not what the table looks like."""
    for what, attribute in _LAYOUT.items():
        before, after = getattr(seen, attribute), getattr(now, attribute)
        if before != after:
            raise ConflictingChange(
                f"the table cannot be replaced: its {what} changed from {before} to {after} meanwhile",
                hint="look at the table again, and replace it if that is still wanted",
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
