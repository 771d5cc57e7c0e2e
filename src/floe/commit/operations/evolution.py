"""Evolution of a table's schema, partition spec and sort order.

Each change was derived from the metadata that the caller had loaded (`base_…`). It is a `ConflictingChange` if another
commit changed that basis, because two columns or partition fields could get the same id, or one change could undo the
other. All other commits are compatible.

| change | derived from |
|---|---|
| `UpdateSchema` | the current schema and the last column id |
| `EvolveSchema` | nothing: its steps are applied to the newest schema on every attempt |
| `UpdateSpec` | the default spec, the last partition field id and the current schema |
| `UpdateSortOrder` | the default sort order and the current schema |

A new schema is checked against the specs and the sort order of the newest state, so a column cannot be dropped if
another commit has partitioned by it. Files keep the spec that they were written with, and no file depends on the order.

Properties that name columns follow the schema, as in Java Iceberg. The name mapping (`schema.name-mapping.default`)
maps the names in imported files to columns: it gets the new names, and keeps the old ones for the files that have them.
Properties of single columns, such as `write.metadata.metrics.column.<name>`, are renamed and dropped with their column.
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
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.spec_evolution import SpecUpdate
from floe.spec.properties import COLUMN_PROPERTIES, NAME_MAPPING
from floe.spec.schemas.name_mapping import (
    format_name_mapping,
    parse_name_mapping,
    update_mapping,
)
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_evolution import SchemaUpdate
from floe.spec.sort_order import SortOrder

# Properties that name columns -----------------------------------------------------------------------------------


def column_property_updates(properties: Mapping[str, str], before: Schema, after: Schema) -> Sequence[TableUpdate]:
    """The updates of properties that follow from a change of the schema.

    >>> from floe.spec.types import Field, INT
    >>> before, after = Schema((Field(1, "a", INT),)), Schema((Field(1, "b", INT),))
    >>> column_property_updates({"write.metadata.metrics.column.a": "full"}, before, after)
    (SetProperties(updates={'write.metadata.metrics.column.b': 'full'}),
     RemoveProperties(removals=('write.metadata.metrics.column.a',)))
    """
    following = _renamed_properties(properties, before, after) | _mapping(properties, before, after)
    changed = {name: value for name, value in following.items() if value is not None and properties.get(name) != value}
    removed = tuple(name for name, value in following.items() if value is None)
    return (
        *([SetProperties(changed)] if changed else []),
        *([RemoveProperties(removed)] if removed else []),
    )


def _renamed_properties(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str | None]:
    """The properties of renamed columns under their new names, and None for the old names and for dropped columns."""
    removed: dict[str, str | None] = {}
    added: dict[str, str | None] = {}
    for name, value in properties.items():
        prefix = next((each.prefix for each in COLUMN_PROPERTIES if name.startswith(each.prefix)), None)
        column = name.removeprefix(prefix or "")
        if prefix is None or not before.has(column):
            continue
        field_id = before.field(column).id
        new_name = after.name_of(field_id) if field_id in after.by_id else None
        if new_name != before.name_of(field_id):
            removed[name] = None
            if new_name is not None:
                added[prefix + new_name] = value
    return removed | added  # in this order, because two columns may have swapped their names


def _mapping(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str | None]:
    """The name mapping with the new names of columns."""
    text = NAME_MAPPING.read(properties)
    if text is None:
        return {}
    try:
        return {NAME_MAPPING.name: format_name_mapping(update_mapping(parse_name_mapping(text), before, after))}
    except FloeError:  # an unreadable mapping must not prevent a change of the schema
        return {}


# Schema ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateSchema:
    """Makes a schema the current one, in place of the schema that it was derived from.

    `last_column_id` is the highest column id after the change; `base_schema_id` and `base_last_column_id` are those of
    the metadata that it was derived from. `from_update` takes all of them from a `SchemaUpdate`.
    """

    schema: Schema
    last_column_id: int
    base_schema_id: int
    base_last_column_id: int

    @staticmethod
    def from_update(update: SchemaUpdate, metadata: TableMetadata) -> UpdateSchema:
        """The change of a `SchemaUpdate` that was created with `schema_update_of(metadata)`.

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
        """The updates that set the schema; raises `ConflictingChange` if the table has another schema by now."""
        table = attempt.metadata
        if (table.current_schema_id, table.last_column_id) != (self.base_schema_id, self.base_last_column_id):
            raise ConflictingChange(
                f"the schema cannot be changed: the change was made for schema {self.base_schema_id} with column ids "
                f"up to {self.base_last_column_id}, and the table has schema {table.current_schema_id} with ids up to "
                f"{table.last_column_id} now",
                hint="load the table again, and repeat the change if it is still needed",
            )
        return _with_properties(table, self.schema, self.last_column_id)


class EvolveSchema:
    """A change of the schema whose steps, on a `SchemaUpdate`, are applied to the newest schema on every attempt.

    For changes that do not depend on what others changed, such as adding the columns of data that is appended
    (`union_by_name`). If a step fails on the newest schema, its error is raised.

    >>> change = EvolveSchema(lambda update: update.add_column("x", "int"))
    """

    def __init__(self, steps: Callable[[SchemaUpdate], object], *, allow_incompatible: bool = False) -> None:
        self._steps = steps
        self._allow_incompatible = allow_incompatible

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates that set the new schema; none if the columns stay the same."""
        update = schema_update_of(attempt.metadata, allow_incompatible=self._allow_incompatible)
        self._steps(update)
        schema = update.apply()
        if schema.same_columns(attempt.metadata.schema):
            return ()
        return _with_properties(attempt.metadata, schema, update.last_column_id)


def _with_properties(table: TableMetadata, schema: Schema, last_column_id: int) -> Sequence[TableUpdate]:
    """The updates that set the schema, and those of properties that name its columns."""
    following = column_property_updates(table.properties, table.schema, schema)
    return (AddSchema(schema, last_column_id), SetCurrentSchema(), *following)


def schema_update_of(
    metadata: TableMetadata, *, allow_incompatible: bool = False, case_sensitive: bool = True
) -> SchemaUpdate:
    """A `SchemaUpdate` of a table's current schema, which checks changes against its specs and sort order."""
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


# Partition spec -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """Makes a partition spec the default one, in place of the spec that it was derived from."""

    spec: PartitionSpec
    base_spec_id: int
    base_last_partition_id: int
    base_schema_id: int

    @staticmethod
    def from_update(update: SpecUpdate, metadata: TableMetadata) -> UpdateSpec:
        """The change of a `SpecUpdate` that was created with `spec_update_of(metadata)`.

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
        """The updates that set the spec; raises `ConflictingChange` if the table has another spec or schema by now."""
        table = attempt.metadata
        base = (self.base_spec_id, self.base_last_partition_id, self.base_schema_id)
        now = (table.default_spec_id, table.last_partition_id, table.current_schema_id)
        if base != now:
            raise ConflictingChange(
                f"the partitioning cannot be changed: the change was made for spec {base[0]} with field ids up to "
                f"{base[1]} and schema {base[2]}, and the table has spec {now[0]} with ids up to {now[1]} and schema "
                f"{now[2]} now",
                hint="load the table again, and repeat the change if it is still needed",
            )
        return (AddPartitionSpec(self.spec), SetDefaultSpec())


def spec_update_of(metadata: TableMetadata, *, case_sensitive: bool = True) -> SpecUpdate:
    """A `SpecUpdate` of a table's default spec, which reuses the field ids of all its specs."""
    return SpecUpdate(
        metadata.partition_specs,
        metadata.schema,
        metadata.format_version,
        metadata.last_partition_id,
        default_spec_id=metadata.default_spec_id,
        case_sensitive=case_sensitive,
    )


# Sort order -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateSortOrder:
    """Makes a sort order the default one, in place of the order that the caller saw."""

    sort_order: SortOrder
    base_order_id: int
    base_schema_id: int

    @staticmethod
    def of(sort_order: SortOrder, metadata: TableMetadata) -> UpdateSortOrder:
        """The change for a sort order that was built for `metadata`.

        >>> from floe.spec.metadata.creation import new_table_metadata
        >>> from floe.spec.schemas.schema import Schema
        >>> from floe.spec.sort_order import UNSORTED
        >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
        >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0)
        >>> UpdateSortOrder.of(UNSORTED, table).base_order_id
        0
        """
        return UpdateSortOrder(sort_order, metadata.default_sort_order_id, metadata.current_schema_id)

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates that set the order; raises `ConflictingChange` if the table has another order or schema now."""
        table = attempt.metadata
        base = (self.base_order_id, self.base_schema_id)
        now = (table.default_sort_order_id, table.current_schema_id)
        if base != now:
            raise ConflictingChange(
                f"the sort order cannot be changed: the change was made for order {base[0]} and schema {base[1]}, and "
                f"the table has order {now[0]} and schema {now[1]} now",
                hint="load the table again, and repeat the change if it is still needed",
            )
        return (AddSortOrder(self.sort_order), SetDefaultSortOrder())
