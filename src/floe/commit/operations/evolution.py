"""Changing a table's schema.

Concurrency: the new schema was made from one that the user saw. If the current schema, or the ids given to columns,
have changed since, it is a `ConflictingChange`: two columns could get the same id, or one change undo the other.
Commits of data, properties, refs and all else are built upon. The table's specs and sort order are checked when it is
applied, so a column that somebody partitions by meanwhile cannot be dropped. Properties that speak of columns follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.commit.operations.column_properties import column_property_updates
from floe.errors import ConflictingChange
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSchema, SetCurrentSchema, TableUpdate
from floe.spec.schemas.evolution import SchemaUpdate
from floe.spec.schemas.schema import Schema

__all__ = ["EvolveSchema", "UpdateSchema", "schema_update_of"]


@dataclass(frozen=True, slots=True)
class UpdateSchema:
    """Makes a schema the current one, in place of the schema that it was made from.

    `last_column_id` is the highest column id after the change; `seen_schema_id` and `seen_last_column_id` are those of
    the table that it was made for. `from_update` takes all of them from a `SchemaUpdate`.
    """

    schema: Schema
    last_column_id: int
    seen_schema_id: int
    seen_last_column_id: int

    @staticmethod
    def from_update(update: SchemaUpdate, metadata: TableMetadata) -> UpdateSchema:
        """The change that a `SchemaUpdate`, begun with `schema_update_of(metadata)`, makes.

        >>> from floe.spec.metadata.creation import new_table_metadata
        >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
        >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0)
        >>> change = UpdateSchema.from_update(schema_update_of(table).add_column("x", "int"), table)
        >>> change.schema.has("x"), change.last_column_id
        (True, 1)
        """
        schema = update.apply()
        return UpdateSchema(schema, update.last_column_id, metadata.current_schema_id, metadata.last_column_id)

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The new schema, if the table still has the one that it was made from."""
        table = attempt.metadata
        if (table.current_schema_id, table.last_column_id) != (self.seen_schema_id, self.seen_last_column_id):
            raise ConflictingChange(
                f"the schema cannot be changed: the change was made for schema {self.seen_schema_id} with column ids "
                f"up to {self.seen_last_column_id}, and the table has schema {table.current_schema_id} with ids up to "
                f"{table.last_column_id} now",
                hint="look at the new schema, and make the change again if it is still wanted",
            )
        return _with_properties(table, self.schema, self.last_column_id)


class EvolveSchema:
    """A change of the schema that is made anew on every state of the table: steps on a `SchemaUpdate`.

    For what means the same whatever else changed, such as adding the columns of data that is written with them
    (`union_by_name`). If a step cannot be made any more, its error is raised.

    >>> change = EvolveSchema(lambda update: update.add_column("x", "int"))
    """

    def __init__(self, steps: Callable[[SchemaUpdate], object], *, allow_incompatible: bool = False) -> None:
        self._steps = steps
        self._allow_incompatible = allow_incompatible

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The schema that the steps make of the current one; nothing if it is the same."""
        update = schema_update_of(attempt.metadata, allow_incompatible=self._allow_incompatible)
        self._steps(update)
        schema = update.apply()
        if schema.same_columns(attempt.metadata.schema):
            return ()
        return _with_properties(attempt.metadata, schema, update.last_column_id)


def _with_properties(table: TableMetadata, schema: Schema, last_column_id: int) -> Sequence[TableUpdate]:
    """The new schema, and the properties that speak of its columns."""
    following = column_property_updates(table.properties, table.schema, schema)
    return (AddSchema(schema, last_column_id), SetCurrentSchema(), *following)


def schema_update_of(
    metadata: TableMetadata, *, allow_incompatible: bool = False, case_sensitive: bool = True
) -> SchemaUpdate:
    """A `SchemaUpdate` that begins with a table's current schema and knows its specs and sort order."""
    return SchemaUpdate(
        metadata.schema,
        format_version=metadata.format_version,
        last_column_id=metadata.last_column_id,
        partition_specs=metadata.partition_specs,
        current_spec=metadata.spec,
        sort_order=metadata.sort_order,
        allow_incompatible=allow_incompatible,
        case_sensitive=case_sensitive,
    )
