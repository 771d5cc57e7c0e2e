"""Changing how a table is partitioned.

Concurrency: the new spec was made from the specs that the user saw. If the default spec, the ids given to partition
fields, or the current schema have changed since, it is a `ConflictingChange`. Commits of data are built upon: files
keep the spec they were written with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.errors import ConflictingChange
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec, TableUpdate
from floe.spec.partitioning.evolution import SpecUpdate
from floe.spec.partitioning.partition_spec import PartitionSpec

__all__ = ["UpdateSpec", "spec_update_of"]


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """Makes a partition spec the default, in place of the one that it was made from; see `from_update`."""

    spec: PartitionSpec
    seen_spec_id: int
    seen_last_partition_id: int
    seen_schema_id: int

    @staticmethod
    def from_update(update: SpecUpdate, metadata: TableMetadata) -> UpdateSpec:
        """The change that a `SpecUpdate`, begun with `spec_update_of(metadata)`, makes.

        >>> from floe.spec.metadata.creation import new_table_metadata
        >>> from floe.spec.schemas.schema import Schema
        >>> from floe.spec.types import Field, LONG
        >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
        >>> schema = Schema((Field(1, "id", LONG),))
        >>> table = new_table_metadata(schema, location="s3://b/t", uuid=uuid, now_ms=0)
        >>> print(UpdateSpec.from_update(spec_update_of(table).add_field("bucket(8, id)"), table).spec)
        [1000: id_bucket_8: bucket[8](1)]
        """
        return UpdateSpec(
            update.apply(), metadata.default_spec_id, metadata.last_partition_id, metadata.current_schema_id
        )

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The new spec, if the table still has the specs and schema that it was made from."""
        table = attempt.metadata
        seen = (self.seen_spec_id, self.seen_last_partition_id, self.seen_schema_id)
        now = (table.default_spec_id, table.last_partition_id, table.current_schema_id)
        if seen != now:
            raise ConflictingChange(
                f"the partitioning cannot be changed: the change was made for spec {seen[0]} with field ids up to "
                f"{seen[1]} and schema {seen[2]}, and the table has spec {now[0]} with ids up to {now[1]} and schema "
                f"{now[2]} now",
                hint="look at the table again, and make the change again if it is still wanted",
            )
        return (AddPartitionSpec(self.spec), SetDefaultSpec())


def spec_update_of(metadata: TableMetadata, *, case_sensitive: bool = True) -> SpecUpdate:
    """A `SpecUpdate` that begins with a table's default spec and knows all others."""
    return SpecUpdate(
        metadata.partition_specs,
        metadata.schema,
        metadata.format_version,
        metadata.last_partition_id,
        default_spec_id=metadata.default_spec_id,
        case_sensitive=case_sensitive,
    )
