"""Where the values of each field come from when a schema is read from one data file (spec: Column Projection).

Fields are matched with the file's columns by field id, at every depth. A field that the file does not have takes, in
this order: the file's partition value if the field is partitioned by identity, the column that the name mapping leads
to, the initial default, or null. The result is a tree of plain values that a reader of any file format can follow.

>>> from floe.spec.types import INT, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG), Field(2, "name", STRING), Field(3, "level", INT, initial_default=1)))
>>> file = [FileField("name", "string", STRING, id=2), FileField("key", "int", INT, id=1)]
>>> for source in resolve_columns(schema, file):
...     print(source)
id: column 1 of the file (key), promoted from int
name: column 0 of the file (name)
level: 1 in every row (initial default)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from floe.errors import CorruptFile, InvalidValue
from floe.spec.partitioning.transforms import Identity
from floe.spec.schemas.defaults import initial_value
from floe.spec.schemas.file_fields import FileField, has_ids
from floe.spec.schemas.metadata_columns import is_metadata_column
from floe.spec.schemas.name_mapping import NameMapping, apply_mapping
from floe.spec.schemas.promotion import TransformedField, can_promote
from floe.spec.schemas.schema import Schema
from floe.spec.types import UUID, Field, FixedType, Type

__all__ = ["ColumnSource", "FromFile", "FromReader", "SameForAll", "identity_values", "resolve_columns"]


@dataclass(frozen=True, slots=True)
class FromFile:
    """The values are in the file.

    `children` say the same for what is nested, in the order of the field's type: a struct's fields, a list's element, a
    map's key and value. A struct may be there although none of its fields are: whether it is null is still the
    file's to say.
    """

    field: Field
    column: FileField
    position: int
    """The place of the column among its siblings in the file."""

    conversion: Literal["promote", "reinterpret"] | None = None
    """What is to be done with values stored as `column.stored`: promoted, or taken as what they mean to the table."""

    children: tuple[ColumnSource, ...] = ()

    def __str__(self) -> str:
        how = {"promote": "promoted from", "reinterpret": "stored as"}.get(self.conversion or "")
        words = f", {how} {self.column.stored}" if how else ""
        return f"{self.field.name}: column {self.position} of the file ({self.column.name}){words}"


@dataclass(frozen=True, slots=True)
class SameForAll:
    """Every row has the same value; inside a struct, every row whose struct is not null."""

    field: Field
    value: Any
    reason: Literal["partition value", "initial default", "null"]

    def __str__(self) -> str:
        return f"{self.field.name}: {self.value} in every row ({self.reason})"


@dataclass(frozen=True, slots=True)
class FromReader:
    """A metadata column, made by the reader; where `stored` is set, only for the rows that have null there.

    The row-lineage columns are the ones that files may store (spec: Row lineage assignment).
    """

    field: Field
    stored: FromFile | None = None

    def __str__(self) -> str:
        return f"{self.field.name}: made by the reader" + (" where the file has null" if self.stored else "")


ColumnSource: TypeAlias = FromFile | SameForAll | FromReader

_NOTHING: Mapping[int, Any] = MappingProxyType({})


def resolve_columns(
    schema: Schema,
    file_fields: Iterable[FileField],
    *,
    name_mapping: NameMapping | None = None,
    partition_values: Mapping[int, Any] = _NOTHING,
) -> tuple[ColumnSource, ...]:
    """For each column of the schema to read, where its values come from.

    `partition_values` are by source id, as `identity_values` gives them for the file's partition. They count only for
    ids that the file does not have: what the file stores is the truth. The name mapping is used only if the file has no
    ids at all. A required field without any value is an error, as is a column whose stored type cannot become the
    table's.

    >>> from floe.spec.types import STRING
    >>> print(*resolve_columns(Schema((Field(1, "day", STRING),)), [], partition_values={1: "mon"}))
    day: mon in every row (partition value)
    """
    columns = tuple(file_fields)
    by_name = name_mapping is not None and not has_ids(columns)
    if name_mapping is not None and by_name:
        columns = apply_mapping(columns, name_mapping)
    return _Resolver(partition_values, by_name).fields(schema.fields, columns, ())


def identity_values(fields: Iterable[TransformedField], partition: Sequence[Any]) -> dict[int, Any]:
    """The values that a file's partition gives to whole columns: by source id, of all identity transforms.

    >>> from collections import namedtuple
    >>> from floe.spec.partitioning.transforms import DAY, IDENTITY
    >>> PartitionField = namedtuple("PartitionField", "source_ids transform")
    >>> identity_values([PartitionField((1,), DAY), PartitionField((2,), IDENTITY)], (17486, "a"))
    {2: 'a'}
    """
    return {
        field.source_ids[0]: value
        for field, value in zip(fields, partition, strict=True)
        if isinstance(field.transform, Identity)
    }


@dataclass(frozen=True, slots=True)
class _Resolver:
    partition_values: Mapping[int, Any]
    ids_are_mapped: bool
    """Whether the file's ids come from a name mapping, which ranks behind partition values."""

    def fields(
        self, fields: tuple[Field, ...], columns: tuple[FileField, ...], path: tuple[str, ...]
    ) -> tuple[ColumnSource, ...]:
        found: dict[int, tuple[int, FileField]] = {}
        for position, column in enumerate(columns):
            if column.id is not None and found.setdefault(column.id, (position, column))[0] != position:
                raise CorruptFile(f"two columns of the file have the field id {column.id}", column=column.name)
        return tuple(self.field(field, found.get(field.id), (*path, field.name)) for field in fields)

    def field(self, field: Field, found: tuple[int, FileField] | None, path: tuple[str, ...]) -> ColumnSource:
        if is_metadata_column(field.id):
            return FromReader(field, self.from_file(field, *found, path) if found else None)
        if field.type.kind == "unknown":  # whatever a file may store for it (spec: Primitive Types)
            return SameForAll(field, None, "null")
        if field.id in self.partition_values and (found is None or self.ids_are_mapped):
            return _same_for_all(field, self.partition_values[field.id], "partition value", path)
        if found is None:
            return _missing(field, path)
        if found[1].kind == "unknown":
            return _same_for_all(field, None, "null", path)
        return self.from_file(field, *found, path)

    def from_file(self, field: Field, position: int, column: FileField, path: tuple[str, ...]) -> FromFile:
        if column.stored is not None:
            return FromFile(field, column, position, _conversion(column.stored, field.type, path))
        if column.kind != field.type.kind:
            raise _cannot_read(column.kind, field.type, path)
        if column.kind == "struct":
            children = self.fields(field.type.fields, column.children, path)
        else:
            children = self.collection(field, column, path)
        return FromFile(field, column, position, None, children)

    def collection(self, field: Field, column: FileField, path: tuple[str, ...]) -> tuple[ColumnSource, ...]:
        """The element of a list, or the key and value of a map: there is no doubt which they are."""
        sources = []
        for position, (child, stored) in enumerate(zip(field.type.fields, column.children, strict=True)):
            if stored.id not in (None, child.id):
                name = ".".join((*path, child.name))
                raise CorruptFile(f"{name!r} has id {stored.id} in the file, {child.id} in the table", column=name)
            sources.append(self.field(child, (position, stored), (*path, child.name)))
        return tuple(sources)


def _missing(field: Field, path: tuple[str, ...]) -> SameForAll:
    try:
        value = initial_value(field)
    except InvalidValue as error:
        raise CorruptFile(
            f"the file has no column for the required field {'.'.join(path)!r}: {error.message}",
            hint="no partition value, name mapping or default provides it either",
            column=".".join(path),
        ) from error
    return SameForAll(field, value, "null" if value is None else "initial default")


def _same_for_all(
    field: Field, value: Any, reason: Literal["partition value", "null"], path: tuple[str, ...]
) -> SameForAll:
    if value is None and field.required:
        raise CorruptFile(f"the file has only null for the required field {'.'.join(path)!r}", column=".".join(path))
    return SameForAll(field, value, reason)


# Types that files may use for each other's values: older writers leave out what tells them apart.
_SAME_STORAGE = frozenset(
    {
        ("binary", "string"), ("string", "binary"), ("fixed", "binary"), ("uuid", "binary"), ("binary", "uuid"),
        ("binary", "geometry"), ("binary", "geography"),
        ("timestamp", "timestamptz"), ("timestamptz", "timestamp"),
        ("timestamp_ns", "timestamptz_ns"), ("timestamptz_ns", "timestamp_ns"),
    }
)  # fmt: skip


def _conversion(stored: Type, wanted: Type, path: tuple[str, ...]) -> Literal["promote", "reinterpret"] | None:
    if stored == wanted:
        return None
    if can_promote(stored, wanted, _NEWEST) and not wanted.is_nested:
        return "promote"
    if (stored.kind, wanted.kind) in _SAME_STORAGE or {stored, wanted} == _UUID_AS_FIXED:
        return "reinterpret"
    raise _cannot_read(str(stored), wanted, path)


_NEWEST = 3
"""A file is readable by the newest rules; whether the table's schema may change so is checked when it does."""

_UUID_AS_FIXED: set[Type] = {UUID, FixedType(16)}


def _cannot_read(stored: str, wanted: Type, path: tuple[str, ...]) -> CorruptFile:
    return CorruptFile(f"the file stores {stored}, which cannot be read as {wanted}", column=".".join(path))
