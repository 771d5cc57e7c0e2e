"""Changing a table's columns, partitioning and sort order, call by call.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id int not null, amount decimal(9, 2)")
>>> t.evolve().add_column("note", "string", after="id").rename_column("amount", "total").promote("id", "long").commit()
>>> print(t.schema)
table {
  1: id: required long
  3: note: optional string
  2: total: optional decimal(9, 2)
}
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Self

import pyarrow as pa

from floe.arrow.fitting import schema_for
from floe.arrow.incoming import is_data, reader_of
from floe.commit.change import Change
from floe.commit.operations.schema_update import UpdateSchema, schema_update_of
from floe.commit.operations.sort_order import UpdateSortOrder
from floe.commit.operations.spec_update import UpdateSpec, spec_update_of
from floe.errors import InvalidType
from floe.formats.arrow_types import schema_from_arrow
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.evolution import ColumnName
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder, build_order
from floe.spec.types import Type
from floe.table.actions import Actions, Builder
from floe.table.ddl import parse_column_type, parse_columns

__all__ = ["SchemaEvolution", "SpecEvolution", "as_schema", "sort_change"]

_NOT_NULL: Final = re.compile(r"(.*?\S)\s+(?:not\s+null|null|default\b.*)", re.I | re.S)


class SchemaEvolution(Builder):
    """Changes of the columns, made one after the other; see `floe.spec.schemas.evolution.SchemaUpdate` for the rules.

    Types are given as text (`"decimal(10, 2)"`, `"struct<a: int>"`) or as a type. Names are dotted (`"who.name"`) or
    paths. If somebody else changes the columns before the commit, it fails with `ConflictingChange`.
    """

    def __init__(self, actions: Actions, *, allow_incompatible: bool = False, case_sensitive: bool = True) -> None:
        self._seen = actions.metadata
        self._update = schema_update_of(
            self._seen, allow_incompatible=allow_incompatible, case_sensitive=case_sensitive
        )
        super().__init__(actions)

    @property
    def schema(self) -> Schema:
        """The schema that the calls so far make."""
        return self._update.apply()

    def change(self) -> Change | None:
        """The change of the schema, unless nothing was changed."""
        change = UpdateSchema.from_update(self._update, self._seen)
        return None if change.schema.same_columns(self._seen.schema) else change

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
        """Add a column, last in its struct unless a place is given; `"a.b"` adds `b` to the struct `a`."""
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
        """Drop a column; adding one of the same name later does not bring its values back."""
        self._step(lambda: self._update.drop_column(name))
        return self

    def rename_column(self, name: ColumnName, new_name: str) -> Self:
        """Give a column another name; within a struct only its own part of the name changes."""
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
        """Forbid nulls in a column; needs `evolve(allow_incompatible=True)` for a column that has rows."""
        self._step(lambda: self._update.require(name))
        return self

    def set_doc(self, name: ColumnName, doc: str | None) -> Self:
        """Change what a column's documentation says."""
        self._step(lambda: self._update.set_doc(name, doc))
        return self

    def set_default(self, name: ColumnName, default: Any) -> Self:
        """Change the value that writers fill in from now on (format version 3)."""
        self._step(lambda: self._update.set_default(name, default))
        return self

    def set_identifier_fields(self, *names: ColumnName) -> Self:
        """Say which columns identify a row; without names, none does."""
        self._step(lambda: self._update.set_identifier_fields(*names))
        return self

    def union_by_name(self, other: Schema | pa.Schema | str) -> Self:
        """Take in the columns of another schema: new ones are added, narrower ones widened."""
        self._step(lambda: self._update.union_by_name(as_schema(other)))
        return self


class SpecEvolution(Builder):
    """Changes of the partitioning; files that are there keep the one they were written with."""

    def __init__(self, actions: Actions, *, case_sensitive: bool = True) -> None:
        self._seen = actions.metadata
        self._update = spec_update_of(self._seen, case_sensitive=case_sensitive)
        super().__init__(actions)

    @property
    def spec(self) -> PartitionSpec:
        """The spec that the calls so far make."""
        return self._update.apply()

    def change(self) -> Change | None:
        """The change of the spec, unless nothing was changed."""
        change = UpdateSpec.from_update(self._update, self._seen)
        return None if change.spec.spec_id == self._seen.default_spec_id else change

    def add_field(self, term: str, name: str | None = None) -> Self:
        """Partition by a term too, such as `"day(ts)"`, `"bucket(16, id)"` or a column."""
        self._step(lambda: self._update.add_field(term, name=name))
        return self

    def remove_field(self, name_or_term: str) -> Self:
        """Stop partitioning by a field, given by its name or its term."""
        self._step(lambda: self._update.remove_field(name_or_term))
        return self

    def rename_field(self, name: str, new_name: str) -> Self:
        """Call a partition field by another name."""
        self._step(lambda: self._update.rename_field(name, new_name))
        return self


def sort_change(actions: Actions, order: Iterable[str] | SortOrder, *, case_sensitive: bool = True) -> Change:
    """The change that makes an order the one that writers use: terms such as `"ts desc"`, or none to stop sorting."""
    metadata = actions.metadata
    if not isinstance(order, SortOrder):
        terms = [order] if isinstance(order, str) else list(order)
        order = build_order(metadata.schema, terms, case_sensitive=case_sensitive)
    return UpdateSortOrder.of(order, metadata)


def as_schema(schema: Any, *, format_version: int = LATEST_FORMAT_VERSION) -> Schema:
    """A schema, given as one, as Arrow's, as the text of its columns, or as data whose columns are meant.

    >>> as_schema("id bigint").fields == as_schema(pa.schema({"id": pa.int64()})).fields
    True
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    if is_data(schema):
        return schema_for(reader_of(schema).schema, format_version=format_version)
    return parse_columns(schema)


def _as_type(type_: Type | str) -> Type:
    if isinstance(type_, str) and (found := _NOT_NULL.fullmatch(type_)):
        raise InvalidType(
            f"{type_!r:.80} says more than a type",
            hint=f"say it beside the type: add_column(name, {found[1]!r}, required=True, default=…); a required column "
            "needs a default, which the rows have that are there",
        )
    return type_ if isinstance(type_, Type) else parse_column_type(type_)
