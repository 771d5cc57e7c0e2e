"""The columns of a data file: told by its Arrow schema, found for the wanted fields, and cut down to what is read.

A reader of any format goes three steps. It tells its columns (`file_fields`), has them matched with what is wanted
(`find_columns`: by id, by name mapping, with defaults), and asks which of them to read at all (`select_columns`), so
that of a struct with a hundred fields the one that is wanted is read alone.

>>> from floe.spec.types import Field, LONG
>>> stored = file_fields(pa.schema([pa.field("x", pa.int32(), metadata={"PARQUET:field_id": "7"}), ("y", pa.int8())]))
>>> sources, selection = select_columns(find_columns(Schema((Field(7, "renamed", LONG),)), stored))
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
from floe.formats.arrow_types import field_id_of, type_from_arrow
from floe.spec.schemas.column_projection import ColumnSource, FromFile, FromReader, resolve_columns
from floe.spec.schemas.name_mapping import FileField, NameMapping, apply_mapping, has_ids
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema
from floe.spec.types import VARIANT, PrimitiveType

_NOTHING: Mapping[int, Any] = MappingProxyType({})
_VARIANT_PARTS = frozenset({"metadata", "value", "typed_value"})


# what a file has ------------------------------------------------------------------------------------------------------


def file_fields(schema: Iterable[pa.Field], *, depth: int = 0) -> tuple[FileField, ...]:
    """The columns that an Arrow schema tells, with the field ids in its metadata.

    A type that tables have not (Arrow's duration, say) is named as it is: such a column may be there, but not be read.

    >>> file_fields([pa.field("d", pa.duration("s"))])
    (FileField(name='d', kind='duration[s]', stored=DURATION[S], id=None, children=()),)
    """
    if depth > MAX_TYPE_DEPTH:
        raise CorruptFile(f"the columns of the file nest more than {MAX_TYPE_DEPTH} deep")
    return tuple(_file_field(field, depth) for field in schema)


def _file_field(field: pa.Field, depth: int) -> FileField:
    type_ = value_type(field.type)
    children = stored_children(type_)
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
    """The type of the values themselves, without dictionaries, run ends and extensions.

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


def stored_children(type_: pa.DataType) -> list[pa.Field] | None:
    """The fields of a struct, the element of a list, the key and value of a map; None of anything else.

    >>> stored_children(pa.list_(pa.int32()))
    [pyarrow.Field<item: int32>]
    """
    if pa.types.is_struct(type_):
        return [type_.field(n) for n in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.value_field] if hasattr(type_, "value_field") else None


# what is wanted of it -------------------------------------------------------------------------------------------------


def find_columns(
    schema: Schema,
    columns: Sequence[FileField],
    *,
    name_mapping: NameMapping | None = None,
    constants: Mapping[int, Any] = _NOTHING,
) -> tuple[ColumnSource, ...]:
    """Where the values of each wanted field come from: `resolve_columns`, which also knows variants.

    A file stores a variant as a struct of its parts, with any shredded columns beside them; which structs are variants
    is the table's to say.
    """
    variants = {entry.field.id for entry in schema.by_id.values() if entry.field.type == VARIANT}
    if variants:
        mapped = columns
        if name_mapping is not None and not has_ids(columns):
            mapped = apply_mapping(tuple(columns), name_mapping)
        columns = tuple(_with_variants(columns, mapped, variants))
    return resolve_columns(schema, columns, name_mapping=name_mapping, partition_values=constants)


def _with_variants(
    columns: Iterable[FileField], mapped: Iterable[FileField], variants: set[int]
) -> Iterator[FileField]:
    for column, with_id in zip(columns, mapped, strict=True):
        if with_id.id in variants and column.kind == "struct":
            names = {child.name for child in column.children}
            if not names <= _VARIANT_PARTS or "metadata" not in names or len(names) < 2:
                raise CorruptFile(
                    f"a variant is stored as metadata and value, found {', '.join(sorted(names)[:12]) or 'nothing'}",
                    column=column.name,
                )
            yield FileField(column.name, VARIANT.kind, VARIANT, column.id)
        elif column.children:
            yield replace(column, children=tuple(_with_variants(column.children, with_id.children, variants)))
        else:
            yield column


# what is read of it ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read of a column, or of a file: all of it, or the children at some places among their siblings."""

    children: Mapping[int, Selection] | None = None

    def places(self, count: int) -> list[int]:
        """The places that are read, of so many."""
        return list(range(count)) if self.children is None else sorted(self.children)


EVERYTHING = Selection()

Source = TypeVar("Source", bound=ColumnSource)


def select_columns(
    sources: Sequence[ColumnSource], *, nested: bool = True
) -> tuple[tuple[ColumnSource, ...], Selection]:
    """The sources with the places that columns have among those that are read, and which those are.

    With `nested` false, columns at the top are read whole or not at all.

    >>> select_columns(())[1]
    Selection(children={})
    """
    selection = _merged((_stored(source) for source in sources), nested)
    return tuple(_renumbered(source, selection) for source in sources), selection


def _stored(source: ColumnSource) -> FromFile | None:
    if isinstance(source, FromReader):
        return source.stored
    return source if isinstance(source, FromFile) else None


def _merged(sources: Iterable[FromFile | None], nested: bool) -> Selection:
    """What several sources at the same level need."""
    by_place: dict[int, list[FromFile]] = {}
    for source in sources:
        if source is not None:
            by_place.setdefault(source.position, []).append(source)
    return Selection({place: _needed(by_place[place]) if nested else EVERYTHING for place in sorted(by_place)})


def _needed(sources: list[FromFile]) -> Selection:
    """What sources of one column need of it."""
    column = sources[0].column
    if not column.children:
        return EVERYTHING
    inside = _merged((_stored(child) for source in sources for child in source.children), nested=True)
    chosen = dict(inside.children or {})
    if column.kind == "struct":
        # which rows have the struct, and how many items a list has, is told by any of what lies inside
        return inside if chosen else Selection({_cheapest(column): _any_part(column.children[_cheapest(column)])})
    for place, child in enumerate(column.children):
        chosen.setdefault(place, _any_part(child))
    return Selection(dict(sorted(chosen.items())))


def _cheapest(column: FileField) -> int:
    """The place of a child without children, if there is one."""
    return next((place for place, child in enumerate(column.children) if not child.children), 0)


def _any_part(column: FileField) -> Selection:
    """As little of a column as can be read."""
    if not column.children:
        return EVERYTHING
    places = [_cheapest(column)] if column.kind == "struct" else range(len(column.children))
    return Selection({place: _any_part(column.children[place]) for place in places})


def _renumbered(source: Source, selection: Selection) -> Source:
    if isinstance(source, FromReader):
        stored = source.stored
        return source if stored is None else replace(source, stored=_renumbered(stored, selection))
    if not isinstance(source, FromFile) or selection.children is None:
        return source
    inside = selection.children[source.position]
    return replace(
        source,
        position=list(selection.children).index(source.position),
        children=tuple(_renumbered(child, inside) for child in source.children),
    )
