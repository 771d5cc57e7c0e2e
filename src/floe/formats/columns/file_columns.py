"""The columns of a data file: described by its Arrow schema, matched with the table's, and selected for the read.

A reader of any format takes three steps. It describes its columns (`file_fields`), matches them with the requested ones
(`resolve_file_columns`: by id, by name mapping, with defaults), and determines what has to be read (`select_columns`),
so that of a struct with a hundred fields only the requested ones are read.

>>> from floe.spec.types import Field, LONG
>>> stored = file_fields(pa.schema([pa.field("x", pa.int32(), metadata={"PARQUET:field_id": "7"}), ("y", pa.int8())]))
>>> sources, selection = select_columns(resolve_file_columns(Schema((Field(7, "renamed", LONG),)), stored))
>>> print(*sources)
renamed: column 0 of the file (x), promoted from int
>>> selection.children
{0: Selection(children=None)}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa

from floe.errors import CorruptFile, InvalidType
from floe.formats.columns.arrow_types import field_id_of, type_from_arrow
from floe.spec.schemas.column_projection import ColumnSource, FromFile, FromReader, resolve_columns
from floe.spec.schemas.name_mapping import FileField, NameMapping, apply_mapping, has_ids
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema
from floe.spec.types import VARIANT, PrimitiveType

_EMPTY: Mapping[int, Any] = MappingProxyType({})
_VARIANT_CHILDREN = frozenset({"metadata", "value", "typed_value"})


# Columns of a file ----------------------------------------------------------------------------------------------------


def file_fields(schema: Iterable[pa.Field], *, depth: int = 0) -> tuple[FileField, ...]:
    """The columns of an Arrow schema, with the field ids in its metadata.

    A column whose type tables do not support, such as Arrow's duration, has the name of that type; it cannot be read.

    >>> file_fields([pa.field("d", pa.duration("s"))])
    (FileField(name='d', kind='duration[s]', stored=DURATION[S], id=None, children=()),)
    """
    if depth > MAX_TYPE_DEPTH:
        raise CorruptFile(f"the columns of the file nest more than {MAX_TYPE_DEPTH} deep")
    return tuple(_file_field(field, depth) for field in schema)


def _file_field(field: pa.Field, depth: int) -> FileField:
    type_ = value_type(field.type)
    children = child_fields(type_)
    field_id = field_id_of(field)
    if children is not None:
        kind = "struct" if pa.types.is_struct(type_) else "map" if pa.types.is_map(type_) else "list"
        return FileField(field.name, kind, None, field_id, file_fields(children, depth=depth + 1))
    try:
        stored = type_from_arrow(field.type if isinstance(field.type, pa.BaseExtensionType) else type_)
    except InvalidType:
        stored = PrimitiveType(str(type_))
    return FileField(field.name, stored.kind, stored, field_id)


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values of dictionary, run-end encoded and extension types.

    >>> value_type(pa.dictionary(pa.int32(), pa.string()))
    DataType(string)
    """
    while True:
        if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            type_ = type_.value_type
        elif isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        else:
            return type_


def child_fields(type_: pa.DataType) -> list[pa.Field] | None:
    """The fields of a struct, the element of a list, or the key and value of a map; None for other types.

    >>> child_fields(pa.list_(pa.int32()))
    [pyarrow.Field<item: int32>]
    """
    if pa.types.is_struct(type_):
        return [type_.field(n) for n in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.value_field] if hasattr(type_, "value_field") else None


# Matching with the table ----------------------------------------------------------------------------------------------


def resolve_file_columns(
    schema: Schema,
    columns: Sequence[FileField],
    *,
    name_mapping: NameMapping | None = None,
    constants: Mapping[int, Any] = _EMPTY,
) -> tuple[ColumnSource, ...]:
    """The source of the values of each field of a schema: `resolve_columns`, with support for variants.

    A file stores a variant as a struct of metadata, value and shredded columns; only the table's schema says which
    structs are variants. Raises `CorruptFile` if such a struct has other children.
    """
    variants = {entry.field.id for entry in schema.by_id.values() if entry.field.type == VARIANT}
    if variants:
        mapped = columns
        if name_mapping is not None and not has_ids(columns):
            mapped = apply_mapping(tuple(columns), name_mapping)
        columns = tuple(_mark_variants(columns, mapped, variants))
    return resolve_columns(schema, columns, name_mapping=name_mapping, partition_values=constants)


def _mark_variants(
    columns: Iterable[FileField], mapped: Iterable[FileField], variants: set[int]
) -> Iterator[FileField]:
    """The columns, with structs that are variants marked as such; `mapped` has their ids."""
    for column, with_id in zip(columns, mapped, strict=True):
        if with_id.id in variants and column.kind == "struct":
            names = {child.name for child in column.children}
            if not names <= _VARIANT_CHILDREN or "metadata" not in names or len(names) < 2:
                raise CorruptFile(
                    f"a variant is stored as metadata and value, found {', '.join(sorted(names)[:12]) or 'nothing'}",
                    column=column.name,
                )
            yield FileField(column.name, VARIANT.kind, VARIANT, column.id)
        elif column.children:
            yield replace(column, children=tuple(_mark_variants(column.children, with_id.children, variants)))
        else:
            yield column


# Selection ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read of a column, or of a file: all of it, or the children at some indices."""

    children: Mapping[int, Selection] | None = None

    def indices(self, count: int) -> list[int]:
        """The indices of the children to read, of `count` children."""
        return list(range(count)) if self.children is None else sorted(self.children)


EVERYTHING = Selection()

Source = TypeVar("Source", bound=ColumnSource)


def select_columns(
    sources: Sequence[ColumnSource], *, nested: bool = True
) -> tuple[tuple[ColumnSource, ...], Selection]:
    """Determine which columns of a file have to be read for some sources.

    Returns the sources with positions among the selected columns instead of among all columns, and the selection. With
    `nested=False`, top-level columns are read in full or not at all.

    >>> select_columns(())[1]
    Selection(children={})
    """
    selection = _merge((_file_source(source) for source in sources), nested)
    return tuple(_renumber(source, selection) for source in sources), selection


def _file_source(source: ColumnSource) -> FromFile | None:
    """The column of the file that a source reads, if any."""
    if isinstance(source, FromReader):
        return source.stored
    return source if isinstance(source, FromFile) else None


def _merge(sources: Iterable[FromFile | None], nested: bool) -> Selection:
    """What the sources of one level need."""
    by_index: dict[int, list[FromFile]] = {}
    for source in sources:
        if source is not None:
            by_index.setdefault(source.position, []).append(source)
    return Selection({index: _needed(by_index[index]) if nested else EVERYTHING for index in sorted(by_index)})


def _needed(sources: list[FromFile]) -> Selection:
    """What the sources of one column need of it."""
    column = sources[0].column
    if not column.children:
        return EVERYTHING
    selection = _merge((_file_source(child) for source in sources for child in source.children), nested=True)
    chosen = dict(selection.children or {})
    if column.kind == "struct":
        # any child shows in which rows the struct is not null, and how many items a list has
        return (
            selection
            if chosen
            else Selection({_cheapest_child(column): _smallest_part(column.children[_cheapest_child(column)])})
        )
    for index, child in enumerate(column.children):
        chosen.setdefault(index, _smallest_part(child))
    return Selection(dict(sorted(chosen.items())))


def _cheapest_child(column: FileField) -> int:
    """The index of the first child that is not nested, or 0 without one."""
    return next((index for index, child in enumerate(column.children) if not child.children), 0)


def _smallest_part(column: FileField) -> Selection:
    """The smallest part of a column that can be read."""
    if not column.children:
        return EVERYTHING
    indices = [_cheapest_child(column)] if column.kind == "struct" else range(len(column.children))
    return Selection({index: _smallest_part(column.children[index]) for index in indices})


def _renumber(source: Source, selection: Selection) -> Source:
    """The source with positions among the selected columns."""
    if isinstance(source, FromReader):
        stored = source.stored
        return source if stored is None else replace(source, stored=_renumber(stored, selection))
    if not isinstance(source, FromFile) or selection.children is None:
        return source
    child_selection = selection.children[source.position]
    return replace(
        source,
        position=list(selection.children).index(source.position),
        children=tuple(_renumber(child, child_selection) for child in source.children),
    )
