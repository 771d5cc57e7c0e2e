"""Column projection: choosing columns, and where a data file has their values (spec: Column Projection).

`select` and `project` choose parts of a schema, by name or by field id, at any depth.

>>> from floe.spec.types import INT, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG), Field(2, "x", INT), Field(3, "y", INT)))
>>> [field.name for field in select(schema, ["y", "id"])]
['id', 'y']

`resolve_columns` matches the fields of a schema with the columns of one data file by field id, at every depth. A field
that the file does not have takes, in this order: the file's partition value if the field is partitioned by identity,
the column that the name mapping gives, the initial default, or null. The result is a tree that a reader of any file
format can follow.

>>> schema = Schema((Field(1, "id", LONG), Field(2, "name", STRING), Field(3, "level", INT, initial_default=1)))
>>> file = [FileField("name", "string", STRING, id=2), FileField("key", "int", INT, id=1)]
>>> for source in resolve_columns(schema, file):
...     print(source)
id: column 1 of the file (key), promoted from int
name: column 0 of the file (name)
level: 1 in every row (initial default)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from floe.errors import CorruptFile, InvalidValue
from floe.spec.partitioning.transforms import Identity
from floe.spec.schemas.metadata_columns import is_metadata_column, metadata_column
from floe.spec.schemas.name_mapping import FileField, NameMapping, apply_mapping, has_ids
from floe.spec.schemas.promotion import TransformedField, can_promote
from floe.spec.schemas.schema import Schema, initial_value, with_children
from floe.spec.types import UUID, Field, FixedType, StructType, Type


def select(
    schema: Schema,
    names: str | Iterable[str | Sequence[str]],
    *,
    case_sensitive: bool = True,
    partition_type: StructType | None = None,
) -> Schema:
    """Return the part of a schema that names or paths select; a string is one name. The table's order is kept.

    The name of a struct, list or map selects all of it, that of a nested field (`st.a`) the structs around it with only
    the selected fields. `*` selects all columns. Metadata columns (`_file`, `_row_id`, …) may be selected too and come
    last, in the requested order; `_partition` needs the table's partition type.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT)))), Field(4, "c", INT)))
    >>> print(select(schema, ["_pos", "st.b"]))
    table {
      1: st: optional struct<3: b: optional int>
      2147483645: _pos: required long (position of the row in its file, from 0)
    }
    """
    ids: set[int] = set()
    metadata_columns: dict[int, Field] = {}
    for name in (names,) if isinstance(names, str) else names:
        if name == "*" and not schema.has("*", case_sensitive=case_sensitive):
            ids.update(field.id for field in schema.fields)
        elif (
            isinstance(name, str)
            and not schema.has(name, case_sensitive=case_sensitive)
            and (column := metadata_column(name if case_sensitive else name.lower(), partition_type=partition_type))
        ):
            metadata_columns[column.id] = column
        else:
            ids.add(schema.resolve(name, case_sensitive=case_sensitive).field.id)
    projection = project(schema, ids)
    return (
        replace(projection, fields=(*projection.fields, *metadata_columns.values())) if metadata_columns else projection
    )


def project(schema: Schema, ids: Collection[int]) -> Schema:
    """Return the part of a schema that field ids select; a selected struct, list or map is kept with all its fields.

    The keys of a map are never projected. The identifier fields stay only if all of them do. Ids that the schema does
    not have are ignored.

    >>> from floe.spec.types import INT
    >>> project(Schema((Field(1, "a", INT), Field(2, "b", INT))), {2}).fields[0].name
    'b'
    """
    return _with_fields(schema, _select_fields(schema.fields, frozenset(ids)))


def _with_fields(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    bare = replace(schema, fields=fields, identifier_field_ids=())
    if all(i in bare.by_id for i in schema.identifier_field_ids):
        return replace(bare, identifier_field_ids=schema.identifier_field_ids)
    return bare


def _select_fields(fields: tuple[Field, ...], ids: frozenset[int]) -> tuple[Field, ...]:
    projected = (field if field.id in ids else _select_nested(field, ids) for field in fields)
    return tuple(field for field in projected if field is not None)


def _select_nested(field: Field, ids: frozenset[int]) -> Field | None:
    children = _select_fields(field.type.fields, ids)
    if not children:
        return None
    if field.type.kind == "map":
        key, value = field.type.fields
        # Projected keys might become equal, so keys stay complete; and a key always comes with its value.
        children = (key, next((child for child in children if child.id == value.id), value))
    return replace(field, type=with_children(field.type, children))


# Where a data file has the values ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FromFile:
    """The values are in the file.

    `children` are the sources of nested fields, in the order of the field's type: a struct's fields, a list's element,
    a map's key and value. A struct may be in the file although none of its requested fields are: the file still says
    whether it is null.
    """

    field: Field
    column: FileField
    position: int
    """The index of the column among its siblings in the file."""

    conversion: Literal["promote", "reinterpret"] | None = None
    """How values stored as `column.stored` become the table's type: promoted, or reinterpreted as that type."""

    children: tuple[ColumnSource, ...] = ()

    def __str__(self) -> str:
        how = {"promote": "promoted from", "reinterpret": "stored as"}.get(self.conversion or "")
        words = f", {how} {self.column.stored}" if how else ""
        return f"{self.field.name}: column {self.position} of the file ({self.column.name}){words}"


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """Every row has the same value; inside a struct, every row whose struct is not null."""

    field: Field
    value: Any
    reason: Literal["partition value", "initial default", "null"]

    def __str__(self) -> str:
        return f"{self.field.name}: {self.value} in every row ({self.reason})"


@dataclass(frozen=True, slots=True)
class FromReader:
    """A metadata column that the reader produces; if `stored` is set, only for the rows where that is null.

    The row-lineage columns are the ones that files may store (spec: Row lineage assignment).
    """

    field: Field
    stored: FromFile | None = None

    def __str__(self) -> str:
        return f"{self.field.name}: produced by the reader" + (" where the file has null" if self.stored else "")


ColumnSource: TypeAlias = FromFile | ConstantColumn | FromReader

_NOTHING: Mapping[int, Any] = MappingProxyType({})


def resolve_columns(
    schema: Schema,
    file_fields: Iterable[FileField],
    *,
    name_mapping: NameMapping | None = None,
    partition_values: Mapping[int, Any] = _NOTHING,
) -> tuple[ColumnSource, ...]:
    """Return the source of the values of each column of the schema to read.

    `partition_values` are by source id, as `identity_values` returns them for the file's partition. They are used only
    for ids that the file does not have. The name mapping is used only if the file has no ids at all. A required field
    without any value is an error, as is a column whose stored type cannot become the table's.

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
    """Return the column values that a file's partition determines: by source id, of all identity transforms.

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
    """Whether the file's ids come from a name mapping, which partition values take precedence over."""

    def fields(
        self, fields: tuple[Field, ...], columns: tuple[FileField, ...], path: tuple[str, ...]
    ) -> tuple[ColumnSource, ...]:
        by_id: dict[int, tuple[int, FileField]] = {}
        for position, column in enumerate(columns):
            if column.id is not None and by_id.setdefault(column.id, (position, column))[0] != position:
                raise CorruptFile(f"two columns of the file have the field id {column.id}", column=column.name)
        return tuple(self.field(field, by_id.get(field.id), (*path, field.name)) for field in fields)

    def field(self, field: Field, located: tuple[int, FileField] | None, path: tuple[str, ...]) -> ColumnSource:
        if is_metadata_column(field.id):
            return FromReader(field, self.from_file(field, *located, path) if located else None)
        if field.type.kind == "unknown":  # even if the file stores something for it (spec: Primitive Types)
            return ConstantColumn(field, None, "null")
        if field.id in self.partition_values and (located is None or self.ids_are_mapped):
            return _constant(field, self.partition_values[field.id], "partition value", path)
        if located is None:
            return _missing_column(field, path)
        if located[1].kind == "unknown":
            return _constant(field, None, "null", path)
        return self.from_file(field, *located, path)

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
        """Resolve the element of a list, or the key and value of a map, which are matched by position."""
        sources = []
        for position, (child, stored) in enumerate(zip(field.type.fields, column.children, strict=True)):
            if stored.id not in (None, child.id):
                name = ".".join((*path, child.name))
                raise CorruptFile(f"{name!r} has id {stored.id} in the file, {child.id} in the table", column=name)
            sources.append(self.field(child, (position, stored), (*path, child.name)))
        return tuple(sources)


def _missing_column(field: Field, path: tuple[str, ...]) -> ConstantColumn:
    try:
        value = initial_value(field)
    except InvalidValue as error:
        raise CorruptFile(
            f"the file has no column for the required field {'.'.join(path)!r}: {error.message}",
            hint="no partition value, name mapping or default provides it either",
            column=".".join(path),
        ) from error
    return ConstantColumn(field, value, "null" if value is None else "initial default")


def _constant(
    field: Field, value: Any, reason: Literal["partition value", "null"], path: tuple[str, ...]
) -> ConstantColumn:
    if value is None and field.required:
        raise CorruptFile(f"the file has only null for the required field {'.'.join(path)!r}", column=".".join(path))
    return ConstantColumn(field, value, reason)


# Types that files may use for each other's values: older writers omit the annotation that distinguishes them.
_SAME_STORAGE = frozenset(
    {
        ("binary", "string"), ("string", "binary"), ("fixed", "binary"), ("uuid", "binary"), ("binary", "uuid"),
        ("binary", "geometry"), ("binary", "geography"),
        ("timestamp", "timestamptz"), ("timestamptz", "timestamp"),
        ("timestamp_ns", "timestamptz_ns"), ("timestamptz_ns", "timestamp_ns"),
    }
)  # fmt: skip


def _conversion(stored: Type, target: Type, path: tuple[str, ...]) -> Literal["promote", "reinterpret"] | None:
    if stored == target:
        return None
    if can_promote(stored, target, _PROMOTION_RULES) and not target.is_nested:
        return "promote"
    if (stored.kind, target.kind) in _SAME_STORAGE or {stored, target} == _UUID_AS_FIXED:
        return "reinterpret"
    raise _cannot_read(str(stored), target, path)


_PROMOTION_RULES = 3
"""Files are read by the promotions of the latest format version; `SchemaUpdate` checks what a table allows."""

_UUID_AS_FIXED: set[Type] = {UUID, FixedType(16)}


def _cannot_read(stored: str, target: Type, path: tuple[str, ...]) -> CorruptFile:
    return CorruptFile(f"the file stores {stored}, which cannot be read as {target}", column=".".join(path))
