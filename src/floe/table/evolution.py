"""Changing what a table is, apart from its rows: schema, partition spec, sort order, properties, location, version.

Schema and spec are changed by builders, call by call; everything else by one call.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id int not null, amount decimal(9, 2)")
>>> t.update_schema().add_column("note", "string", after="id").rename_column("amount", "total").promote(
...     "id", "long"
... ).commit()
>>> print(t.schema)
table {
  1: id: required long
  3: note: optional string
  2: total: optional decimal(9, 2)
}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import pyarrow as pa

from floe.arrow.input_data import batch_reader, is_data
from floe.arrow.schema_alignment import infer_schema
from floe.commit.change import Change
from floe.commit.operations.evolution import UpdateSchema, UpdateSortOrder, UpdateSpec, schema_update_of, spec_update_of
from floe.commit.operations.metadata_changes import UpdateLocation, UpdateProperties, UpdateStatistics, UpgradeTable
from floe.commit.target import ChangeBuilder, CommitTarget, Committer
from floe.errors import InvalidType
from floe.formats.columns.arrow_types import schema_from_arrow
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION, PartitionStatisticsFile, StatisticsFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_evolution import ColumnName
from floe.spec.sort_order import SortOrder, build_order
from floe.spec.types import Type
from floe.sql.columns import parse_column_type, parse_columns
from floe.storage.locations import parse

_NOT_NULL: Final = re.compile(r"(.*?\S)\s+(?:not\s+null|null|default\b.*)", re.I | re.S)


class Definition(Committer):
    """What a table is, and the methods that change it; in a transaction it shows the changes so far."""

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec of new files."""
        return self.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        """The sort order of new files."""
        return self.metadata.sort_order

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, read-only; `set_properties` changes them."""
        return MappingProxyType(self.metadata.properties)

    @property
    def location(self) -> str:
        """The folder that new files are written to."""
        return self.metadata.location

    @property
    def format_version(self) -> int:
        """The version of the table format: 1, 2 or 3."""
        return self.metadata.format_version

    def update_schema(self, *, allow_incompatible: bool = False, case_sensitive: bool = True) -> SchemaEvolution:
        """Change the columns: `t.update_schema().add_column("note", "string").commit()`.

        `allow_incompatible` permits changes that may make existing rows invalid, such as requiring a column.
        """
        return SchemaEvolution(self.commit_target, allow_incompatible=allow_incompatible, case_sensitive=case_sensitive)

    def evolve(self, *, allow_incompatible: bool = False, case_sensitive: bool = True) -> SchemaEvolution:
        """Another name of `update_schema`."""
        return self.update_schema(allow_incompatible=allow_incompatible, case_sensitive=case_sensitive)

    def update_spec(self, *, case_sensitive: bool = True) -> SpecEvolution:
        """Change the partitioning: `t.update_spec().add_field("day(ts)").commit()`."""
        return SpecEvolution(self.commit_target, case_sensitive=case_sensitive)

    def update_sort_order(self, *order: str | SortOrder, case_sensitive: bool = True) -> None:
        """Change the sort order of new files, at once: `t.update_sort_order("ts desc", "id")`; without terms, none."""
        is_order = len(order) == 1 and isinstance(order[0], SortOrder)
        terms = order[0] if is_order else [str(term) for term in order]
        change = sort_order_change(self.commit_target, terms, case_sensitive=case_sensitive)
        self.commit_target.commit([change])

    def update_sort(self, *order: str | SortOrder, case_sensitive: bool = True) -> None:
        """Another name of `update_sort_order`."""
        self.update_sort_order(*order, case_sensitive=case_sensitive)

    def set_properties(self, properties: Mapping[str, Any]) -> None:
        """Set properties; those not named stay. Numbers and booleans need no quotes."""
        self.commit_target.commit([UpdateProperties(_property_texts(properties))])

    def remove_properties(self, *names: str) -> None:
        """Remove properties; names that the table does not have are ignored."""
        self.commit_target.commit([UpdateProperties(remove=names)])

    def set_location(self, location: str) -> None:
        """Change the location of new files; existing files stay where they are."""
        self.commit_target.commit([UpdateLocation(parse(location).text, self.commit_target.published.location)])

    def upgrade(self, format_version: int) -> None:
        """Raise the format version; it cannot be lowered again."""
        self.commit_target.commit([UpgradeTable(format_version)])

    def update_statistics(
        self,
        files: Iterable[StatisticsFile | PartitionStatisticsFile] = (),
        *,
        forget: Iterable[int] = (),
        forget_partition: Iterable[int] = (),
    ) -> None:
        """Register statistics files, and unregister those of the snapshots in `forget` and `forget_partition`.

        A file in the table's folders that is replaced or unregistered is deleted.
        """
        registered = list(files)
        change = UpdateStatistics(
            [file for file in registered if isinstance(file, StatisticsFile)],
            [file for file in registered if isinstance(file, PartitionStatisticsFile)],
            tuple(forget),
            tuple(forget_partition),
        )
        self.commit_target.commit([change])


class SchemaEvolution(ChangeBuilder):
    """Changes of the columns, call by call; `floe.spec.schemas.schema_evolution.SchemaUpdate` has the rules.

    Types are given as text (`"decimal(10, 2)"`, `"struct<a: int>"`) or as a type. Names are dotted (`"who.name"`) or
    paths. If somebody else changes the columns before the commit, it is a `ConflictingChange`.
    """

    def __init__(self, target: CommitTarget, *, allow_incompatible: bool = False, case_sensitive: bool = True) -> None:
        self._base = target.metadata
        self._update = schema_update_of(
            self._base, allow_incompatible=allow_incompatible, case_sensitive=case_sensitive
        )
        super().__init__(target)

    @property
    def schema(self) -> Schema:
        """The schema after the calls so far."""
        return self._update.apply()

    def change(self) -> Change | None:
        """The change of the schema; None if the columns are the same."""
        change = UpdateSchema.from_update(self._update, self._base)
        return None if change.schema.same_columns(self._base.schema) else change

    def add_column(
        self,
        name: ColumnName,
        type_: Type | str,
        *,
        doc: str | None = None,
        required: bool = False,
        default: Any = None,
        first: bool = False,
        before: ColumnName | None = None,
        after: ColumnName | None = None,
    ) -> Self:
        """Add a column, as the last of its struct unless a position is given; `"a.b"` adds `b` to the struct `a`."""
        self._step(
            lambda: self._update.add_column(
                name,
                _as_type(type_),
                doc=doc,
                required=required,
                default=default,
                first=first,
                before=before,
                after=after,
            )
        )
        return self

    def drop_column(self, name: ColumnName) -> Self:
        """Drop a column; a column of the same name that is added later does not have its values."""
        self._step(lambda: self._update.drop_column(name))
        return self

    def rename_column(self, name: ColumnName, new_name: str) -> Self:
        """Rename a column; the new name of a nested column is the last part alone."""
        self._step(lambda: self._update.rename_column(name, new_name))
        return self

    def move_column(
        self,
        name: ColumnName,
        *,
        first: bool = False,
        before: ColumnName | None = None,
        after: ColumnName | None = None,
    ) -> Self:
        """Move a column within its struct."""
        self._step(lambda: self._update.move_column(name, first=first, before=before, after=after))
        return self

    def promote(self, name: ColumnName, type_: Type | str) -> Self:
        """Change a column to a wider type, such as `int` to `long`."""
        self._step(lambda: self._update.promote(name, _as_type(type_)))
        return self

    def make_optional(self, name: ColumnName) -> Self:
        """Allow nulls in a column."""
        self._step(lambda: self._update.make_optional(name))
        return self

    def require(self, name: ColumnName) -> Self:
        """Forbid nulls in a column; an existing column needs `update_schema(allow_incompatible=True)`."""
        self._step(lambda: self._update.require(name))
        return self

    def set_doc(self, name: ColumnName, doc: str | None) -> Self:
        """Change the documentation of a column."""
        self._step(lambda: self._update.set_doc(name, doc))
        return self

    def set_default(self, name: ColumnName, default: Any) -> Self:
        """Change the write default: the value that writers fill in from now on (format version 3)."""
        self._step(lambda: self._update.set_default(name, default))
        return self

    def set_identifier_fields(self, *names: ColumnName) -> Self:
        """Set the identifier fields: the columns that identify a row; without names there are none."""
        self._step(lambda: self._update.set_identifier_fields(*names))
        return self

    def union_by_name(self, other: Schema | pa.Schema | str) -> Self:
        """Merge the columns of another schema: new ones are added, narrower types are widened."""
        self._step(lambda: self._update.union_by_name(as_schema(other)))
        return self


class SpecEvolution(ChangeBuilder):
    """Changes of the partition spec, call by call; existing files keep the spec that they were written with."""

    def __init__(self, target: CommitTarget, *, case_sensitive: bool = True) -> None:
        self._base = target.metadata
        self._update = spec_update_of(self._base, case_sensitive=case_sensitive)
        super().__init__(target)

    @property
    def spec(self) -> PartitionSpec:
        """The spec after the calls so far."""
        return self._update.apply()

    def change(self) -> Change | None:
        """The change of the spec; None if it is the same."""
        change = UpdateSpec.from_update(self._update, self._base)
        return None if change.spec.spec_id == self._base.default_spec_id else change

    def add_field(self, term: str, name: str | None = None) -> Self:
        """Add a partition field by its term, such as `"day(ts)"`, `"bucket(16, id)"` or a column."""
        self._step(lambda: self._update.add_field(term, name=name))
        return self

    def remove_field(self, name_or_term: str) -> Self:
        """Remove a partition field, given by its name or its term."""
        self._step(lambda: self._update.remove_field(name_or_term))
        return self

    def rename_field(self, name: str, new_name: str) -> Self:
        """Rename a partition field."""
        self._step(lambda: self._update.rename_field(name, new_name))
        return self


def sort_order_change(target: CommitTarget, order: Iterable[str] | SortOrder, *, case_sensitive: bool = True) -> Change:
    """The change that makes a sort order the table's: terms such as `"ts desc"`, or none to stop sorting."""
    metadata = target.metadata
    if not isinstance(order, SortOrder):
        terms = [order] if isinstance(order, str) else list(order)
        order = build_order(metadata.schema, terms, case_sensitive=case_sensitive)
    return UpdateSortOrder.of(order, metadata)


def as_schema(schema: Any, *, format_version: int = LATEST_FORMAT_VERSION) -> Schema:
    """A schema from a `Schema`, an Arrow schema, the text of its columns, or data that has the columns.

    >>> as_schema("id bigint").fields == as_schema(pa.schema({"id": pa.int64()})).fields
    True
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    if is_data(schema):
        return infer_schema(batch_reader(schema).schema, format_version=format_version)
    return parse_columns(schema)


def _as_type(type_: Type | str) -> Type:
    if isinstance(type_, str) and (match := _NOT_NULL.fullmatch(type_)):
        raise InvalidType(
            f"{type_!r:.80} is more than a type",
            hint=f"pass the rest as arguments: add_column(name, {match[1]!r}, required=True, default=…); a required "
            "column needs a default, which existing rows get",
        )
    return type_ if isinstance(type_, Type) else parse_column_type(type_)


def _property_texts(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties with numbers and booleans as text."""
    return {
        name: str(value).lower() if isinstance(value, bool | int | float) else value
        for name, value in properties.items()
    }
