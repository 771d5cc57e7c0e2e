"""Changing a table's schema.

Concurrency: the new schema was made from one that the user saw. If the current schema, or the ids given to columns,
have changed since, it is a `ConflictingChange`: two columns could get the same id, or one change undo the other.
Commits of data, properties, refs and all else are built upon. The table's specs and sort order are checked when it is
applied, so a column that somebody partitions by meanwhile cannot be dropped. Properties that speak of columns follow.

Properties that speak of columns by name: they follow when columns are renamed, dropped and added.

The name mapping (`schema.name-mapping.default`) leads from the names in imported files to columns: it learns new names,
and keeps the old ones for the files that have them. Settings of single columns, such as
`write.metadata.metrics.column.<name>`, go where their column goes, as in Java Iceberg.

Changing how a table is partitioned.

Concurrency: the new spec was made from the specs that the user saw. If the default spec, the ids given to partition
fields, or the current schema have changed since, it is a `ConflictingChange`. Commits of data are built upon: files
keep the spec they were written with.

Changing the order in which a table's rows are to be written.

Concurrency: if the default sort order or the current schema changed since the user looked, it is a `ConflictingChange`;
every other commit is built upon. An order is advice to writers, and no file depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from floe.commit.change import Attempt
from floe.errors import ConflictingChange, FloeError
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemoveProperties,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetProperties,
    TableUpdate,
)
from floe.spec.partitioning.evolution import SpecUpdate
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.properties import COLUMN_PROPERTIES, NAME_MAPPING
from floe.spec.schemas.evolution import SchemaUpdate
from floe.spec.schemas.name_mapping import (
    format_name_mapping,
    parse_name_mapping,
    update_mapping,
)
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder

# Properties that speak of columns by name: they follow when columns are renamed, dropped and added.


def column_property_updates(properties: Mapping[str, str], before: Schema, after: Schema) -> Sequence[TableUpdate]:
    """What a change of the schema means for a table's properties; mostly nothing.

    >>> from floe.spec.types import Field, INT
    >>> before, after = Schema((Field(1, "a", INT),)), Schema((Field(1, "b", INT),))
    >>> column_property_updates({"write.metadata.metrics.column.a": "full"}, before, after)
    (SetProperties(updates={'write.metadata.metrics.column.b': 'full'}),
     RemoveProperties(removals=('write.metadata.metrics.column.a',)))
    """
    wanted = _moved_settings(properties, before, after) | _mapping(properties, before, after)
    changed = {name: value for name, value in wanted.items() if value is not None and properties.get(name) != value}
    gone = tuple(name for name, value in wanted.items() if value is None)
    return (
        *([SetProperties(changed)] if changed else []),
        *([RemoveProperties(gone)] if gone else []),
    )


def _moved_settings(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str | None]:
    """The settings of columns that have another name now, or are gone (None)."""
    moved: dict[str, str | None] = {}
    added: dict[str, str | None] = {}
    for name, value in properties.items():
        prefix = next((each.prefix for each in COLUMN_PROPERTIES if name.startswith(each.prefix)), None)
        column = name.removeprefix(prefix or "")
        if prefix is None or not before.has(column):
            continue
        field_id = before.field(column).id
        now = after.name_of(field_id) if field_id in after.by_id else None
        if now != before.name_of(field_id):
            moved[name] = None
            if now is not None:
                added[prefix + now] = value
    return moved | added  # two columns may have swapped their names


def _mapping(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str | None]:
    text = NAME_MAPPING.read(properties)
    if text is None:
        return {}
    try:
        return {NAME_MAPPING.name: format_name_mapping(update_mapping(parse_name_mapping(text), before, after))}
    except FloeError:  # a mapping that nobody can read must not stand in the way of a new column
        return {}


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


# Changing how a table is partitioned.


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


# Changing the order in which a table's rows are to be written.


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
        >>> from floe.spec.sort_order import UNSORTED
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
