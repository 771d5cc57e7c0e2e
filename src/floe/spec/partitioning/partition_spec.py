"""Partition specs: how the rows of a table are grouped into files (spec: Partitioning; Appendix C, Partition Specs).

A spec is a list of fields, each with a transform of a column, a name and an id. The partition values of a file are a
tuple in the order of the spec's fields.

>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.partitioning.transforms import DAY, Bucket
>>> from floe.spec.types import Field, LONG, TIMESTAMP
>>> schema = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP)))
>>> by_day = PartitionField((2,), 1000, "ts_day", DAY)
>>> by_id = PartitionField((1,), 1001, "id_bucket", Bucket(16))
>>> spec = PartitionSpec((by_day, by_id))
>>> print(spec)
[1000: ts_day: day(2), 1001: id_bucket: bucket[16](1)]
>>> partition_tuple(spec, schema, {"id": 34, "ts": 1510871468000000})
(17486, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from floe.errors import InvalidMetadata, InvalidPartitionSpec, UnsupportedFeature
from floe.spec.partitioning.transforms import (
    Identity,
    Transform,
    Void,
    describe,
    int_from_json,
    object_from_json,
    source_ids_from_json,
    source_ids_to_json,
    text_from_json,
    transform_from_json,
)
from floe.spec.schemas.schema import Schema, SchemaField, write_value
from floe.spec.types import INT, UNKNOWN, Field, StructType, Type

PARTITION_FIELD_ID_START = 1000
"""The first id of a partition field; in v1 tables the ids of every spec start here."""

_SPEC_KEYS = frozenset({"spec-id", "fields"})
_FIELD_KEYS = frozenset({"source-id", "source-ids", "field-id", "name", "transform"})


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of a partition spec: a transform of a column.

    A field with several source columns (v3) has an `UnknownTransform`, because no such transform is known yet. `extra`
    has the JSON keys that this version does not know; it is ignored by comparisons.

    >>> from floe.spec.partitioning.transforms import DAY
    >>> print(PartitionField((2,), 1000, "ts_day", DAY))
    1000: ts_day: day(2)
    """

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: Transform
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_source_count(self.source_ids, self.transform)

    @property
    def source_id(self) -> int:
        """The id of the source column; the first of them if there are several."""
        return self.source_ids[0]

    @property
    def redundancy_key(self) -> tuple[tuple[int, ...], str]:
        """A key that is equal for fields that partition a column redundantly; year, month, day and hour are equal."""
        return self.source_ids, "time" if self.transform.is_time else str(self.transform)

    def same_source_and_transform(self, other: PartitionField) -> bool:
        """Whether two fields have the same values, regardless of their names and ids."""
        return self.source_ids == other.source_ids and self.transform == other.transform

    def __str__(self) -> str:
        return f"{self.field_id}: {self.name}: {self.transform}({', '.join(map(str, self.source_ids))})"


def check_source_count(source_ids: tuple[int, ...], transform: Transform) -> None:
    """Raise unless a transform can have that many source columns; all known transforms have one."""
    if not source_ids:
        raise InvalidPartitionSpec(f"{transform} needs a source column, found none")
    if len(source_ids) > 1 and transform.is_known:
        raise InvalidPartitionSpec(f"{transform} takes one source column, found {len(source_ids)}")


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """The fields of a partition tuple, in order."""

    fields: tuple[PartitionField, ...] = ()
    spec_id: int = 0
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all fields are void, so that there is one partition."""
        return all(isinstance(f.transform, Void) for f in self.fields)

    @property
    def last_assigned_field_id(self) -> int:
        """The highest field id, or 999 for a spec without fields."""
        return max((f.field_id for f in self.fields), default=PARTITION_FIELD_ID_START - 1)

    @property
    def has_sequential_ids(self) -> bool:
        """Whether the ids are consecutive from 1000, as v1 requires."""
        return all(f.field_id == PARTITION_FIELD_ID_START + n for n, f in enumerate(self.fields))

    @property
    def unknown_fields(self) -> tuple[PartitionField, ...]:
        """The fields with a transform that this version does not know."""
        return tuple(f for f in self.fields if not f.transform.is_known)

    @property
    def identity_source_ids(self) -> frozenset[int]:
        """The ids of the columns with an identity transform, which are constant in each file."""
        return frozenset(f.source_id for f in self.fields if isinstance(f.transform, Identity))

    def field_named(self, name: str) -> PartitionField | None:
        """Return the field with a name, or None."""
        return next((f for f in self.fields if f.name == name), None)

    def fields_of(self, source_id: int) -> tuple[PartitionField, ...]:
        """The fields that are computed from a column."""
        return tuple(f for f in self.fields if source_id in f.source_ids)

    def compatible_with(self, other: PartitionSpec) -> bool:
        """Whether two specs are equivalent: same source columns, transforms and names in the same order.

        Ids do not matter. A table never gets a second spec that is equivalent to one it has.
        """
        return len(self.fields) == len(other.fields) and all(
            mine.same_source_and_transform(theirs) and mine.name == theirs.name
            for mine, theirs in zip(self.fields, other.fields, strict=True)
        )

    def with_id(self, spec_id: int) -> PartitionSpec:
        """Return the same spec with another id."""
        return replace(self, spec_id=spec_id)

    def partition_type(self, schema: Schema, earlier: Iterable[Schema] = ()) -> StructType:
        """Return the struct type of the partition tuple; its fields have the ids of the spec's fields and are optional.

        Source columns are looked up in `schema`, then in the `earlier` schemas. If a source column is in none of them,
        the type is that of the transform's results if it is fixed, or else unknown.

        >>> from floe.spec.partitioning.transforms import DAY, IDENTITY
        >>> from floe.spec.types import Field, STRING, TIMESTAMP
        >>> schema = Schema((Field(1, "name", STRING), Field(2, "ts", TIMESTAMP)))
        >>> spec = PartitionSpec(
        ...     (PartitionField((2,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "name", IDENTITY))
        ... )
        >>> print(spec.partition_type(schema))
        struct<1000: ts_day: optional date, 1001: name: optional string>
        >>> print(spec.partition_type(Schema(())))
        struct<1000: ts_day: optional date, 1001: name: optional unknown>
        """
        schemas = (schema, *earlier)
        return StructType(tuple(Field(f.field_id, f.name, _result_type(f, schemas)) for f in self.fields))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.fields))}]"


UNPARTITIONED = PartitionSpec()
"""The spec without fields."""


def _result_type(partition_field: PartitionField, schemas: Sequence[Schema]) -> Type:
    transform = partition_field.transform
    if transform.fixed_result is not None:
        return transform.fixed_result
    source = next((column.type for s in schemas if (column := s.find(partition_field.source_id))), UNKNOWN)
    if isinstance(transform, Void) and not source.is_primitive:
        return INT  # spec: source type or int; a partition tuple has only primitives
    # the type of a dropped column is unknown, and truncate has the type of its source
    return source if source.kind == "unknown" else transform.result_type(source)


# Checks ----------------------------------------------------------------------------------------------------------


def check_spec(spec: PartitionSpec, schema: Schema, format_version: int) -> None:
    """Raise `InvalidPartitionSpec` unless a table with this schema and format version can have this spec.

    >>> from floe.spec.partitioning.transforms import Bucket
    >>> from floe.spec.types import Field, FLOAT
    >>> schema = Schema((Field(1, "x", FLOAT),))
    >>> check_spec(PartitionSpec((PartitionField((1,), 1000, "x_bucket", Bucket(4)),)), schema, 2)
    Traceback (most recent call last):
    floe.errors.InvalidPartitionSpec: bucket[4] cannot be applied to values of type float (column: x, ...
    """
    check_names(spec)
    _check_ids(spec, format_version)
    for partition_field in spec.fields:
        if len(partition_field.source_ids) > 1 and format_version < 3:
            raise InvalidPartitionSpec(
                f"partition field {partition_field.name!r} has several source columns, which needs format version 3; "
                f"the table has {format_version}"
            )
        check_source(partition_field, schema)
    check_name_conflicts(spec, schema)


def check_writable(spec: PartitionSpec) -> None:
    """Raise `UnsupportedFeature` unless all transforms are known, so that data can be written (spec: Partitioning)."""
    if unknown := spec.unknown_fields:
        raise UnsupportedFeature(
            f"cannot write with partition spec {spec.spec_id}: this version does not know its transform "
            f"{str(unknown[0].transform)[:80]!r}",
            hint="the table can be read; to write, set a default spec without the field",
            **{"partition field": unknown[0].name},
        )


def check_names(spec: PartitionSpec) -> None:
    """Raise unless all fields have names, and the names are unique."""
    names: set[str] = set()
    for partition_field in spec.fields:
        if not partition_field.name:
            raise InvalidPartitionSpec(f"partition field {partition_field.field_id} has an empty name")
        if partition_field.name in names:
            raise InvalidPartitionSpec(
                f"two partition fields are named {partition_field.name!r}",
                hint="give one another name, as in `bucket(16, id) as shard`",
            )
        names.add(partition_field.name)


def _check_ids(spec: PartitionSpec, format_version: int) -> None:
    names_by_id: dict[int, str] = {}
    for partition_field in spec.fields:
        if other := names_by_id.get(partition_field.field_id):
            raise InvalidPartitionSpec(
                f"partition field id {partition_field.field_id} is used by both {other!r} and {partition_field.name!r}"
            )
        names_by_id[partition_field.field_id] = partition_field.name
    if format_version < 2 and not spec.has_sequential_ids:
        raise InvalidPartitionSpec(
            f"partition field ids of a v1 table must count up from {PARTITION_FIELD_ID_START}, "
            f"found {[f.field_id for f in spec.fields]}"
        )


def check_source(partition_field: PartitionField, schema: Schema) -> None:
    """Raise unless the source columns of a field are valid (spec: Partitioning).

    They must exist, be primitive, not be inside a list or map, and have a type that the transform accepts.
    """
    if isinstance(partition_field.transform, Void):
        return  # the placeholder of a dropped field, whose column may be dropped, too
    for source_id in partition_field.source_ids:
        entry = schema.by_id.get(source_id)
        if entry is None:
            raise InvalidPartitionSpec(
                f"the source column of partition field {partition_field.name!r} does not exist: "
                f"the schema has no field with id {source_id}"
            )
        where = {"column": entry.name, "partition field": partition_field.name}
        if not entry.field.type.is_primitive:
            raise InvalidPartitionSpec(
                f"cannot partition by a {entry.field.type.kind}: source columns are primitive",
                hint="use one of its fields" if entry.field.type.kind == "struct" else None,
                **where,
            )
        if entry.in_collection:
            raise InvalidPartitionSpec(
                "cannot partition by a part of a list or map: a row may have many values of it", **where
            )
        try:
            partition_field.transform.result_type(entry.field.type)
        except InvalidPartitionSpec as error:
            raise error.with_context(**where) from None


def check_name_conflicts(spec: PartitionSpec, schema: Schema) -> None:
    """Raise if a field has the name of a column that is not its source, unless its source was dropped.

    This applies to all specs of a table: Java cannot read a table with an old spec that violates it.
    """
    for partition_field in spec.fields:
        if not schema.has(partition_field.name) or schema.find(partition_field.source_id) is None:
            continue
        if schema.field(partition_field.name).id not in partition_field.source_ids:
            raise InvalidPartitionSpec(
                f"partition field {partition_field.name!r} has the name of a column that is not its source",
                hint="rename the partition field or the column",
                column=partition_field.name,
            )


# Unified partition type ------------------------------------------------------------------------------------------


def unified_partition_type(
    specs: Iterable[PartitionSpec], schemas: Sequence[Schema], *, active_in: Schema | None = None
) -> StructType:
    """Return a struct type for the partition tuples of all specs: their fields by id, with their newest names.

    The types of source columns are looked up in `schemas`: the current one first, then older ones. With `active_in`,
    fields whose source column is not in that schema are omitted, as in the metadata tables of other implementations. If
    two fields with different ids have the same name, the id is appended to the older one's name.

    >>> from floe.spec.partitioning.transforms import DAY, MONTH
    >>> from floe.spec.types import Field, TIMESTAMP
    >>> schema = Schema((Field(1, "ts", TIMESTAMP),))
    >>> by_month = PartitionSpec((PartitionField((1,), 1000, "ts_month", MONTH),))
    >>> by_day = PartitionSpec((PartitionField((1,), 1001, "ts_day", DAY),), 1)
    >>> print(unified_partition_type([by_month, by_day], [schema]))
    struct<1000: ts_month: optional int, 1001: ts_day: optional date>
    """
    newest: dict[int, PartitionField] = {}
    typed: dict[int, PartitionField] = {}
    for spec in sorted(specs, key=lambda s: s.spec_id, reverse=True):
        for partition_field in spec.fields:
            if active_in is not None and active_in.find(partition_field.source_id) is None:
                continue
            field_id = partition_field.field_id
            first = newest.setdefault(field_id, partition_field)
            typed_field = typed.setdefault(field_id, partition_field)
            if isinstance(typed_field.transform, Void):
                typed[field_id] = partition_field  # v1: the void field has the id of the one that it replaced
            elif not isinstance(partition_field.transform, Void) and not typed_field.same_source_and_transform(
                partition_field
            ):
                raise InvalidPartitionSpec(
                    f"partition field id {field_id} means different things in two specs: {first} and {partition_field}",
                    hint="specs of old v1 tables may reuse ids; such tables have no common partition type",
                )
    names: dict[int, str] = {}
    used_names: set[str] = set()
    for field_id, partition_field in newest.items():  # newest spec first
        name = partition_field.name
        while name in used_names:
            name = f"{name}_{field_id}"
        names[field_id] = name
        used_names.add(name)
    return StructType(tuple(Field(i, names[i], _result_type(typed[i], schemas)) for i in sorted(newest)))


# Partition tuples of rows ----------------------------------------------------------------------------------------


def partition_value_fn(spec: PartitionSpec, schema: Schema) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return a function from a row to its partition tuple.

    A row is a mapping by column name, with structs as nested mappings. A column that the row does not have has its
    write default.
    """
    check_writable(spec)
    steps = [
        (
            _no_source if isinstance(f.transform, Void) else column_reader(schema.entry(f.source_id)),
            _bind_transform(f, schema),
        )
        for f in spec.fields
    ]
    return lambda row: tuple([transform(read(row)) for read, transform in steps])


def partition_tuple(spec: PartitionSpec, schema: Schema, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the partition tuple of one row; for many rows use `partition_value_fn`.

    >>> from floe.spec.partitioning.transforms import Truncate
    >>> from floe.spec.types import Field, STRING
    >>> schema = Schema((Field(1, "at", StructType((Field(2, "city", STRING),))),))
    >>> spec = PartitionSpec((PartitionField((2,), 1000, "at.city_trunc", Truncate(3)),))
    >>> partition_tuple(spec, schema, {"at": {"city": "Reykjavík"}}), partition_tuple(spec, schema, {"at": None})
    (('Rey',), (None,))
    """
    return partition_value_fn(spec, schema)(row)


def _bind_transform(partition_field: PartitionField, schema: Schema) -> Callable[[Any], Any]:
    source = schema.find(partition_field.source_id)
    return partition_field.transform.bind(source.type if source else UNKNOWN)


def _no_source(row: Mapping[str, Any]) -> None:
    return None


def column_reader(entry: SchemaField) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads a column's value from a row; it is null if an enclosing struct is null.

    A column or struct that the row does not have has its write default.
    """
    steps = (*entry.ancestors, entry.field)

    def read(row: Mapping[str, Any]) -> Any:
        value: Any = row
        for step in steps:
            if value is None:
                return None
            value = value[step.name] if step.name in value else write_value(step)
        return value

    return read


# JSON ------------------------------------------------------------------------------------------------------------


def spec_from_json(json: Any) -> PartitionSpec:
    """Parse a spec from a JSON object; raises `InvalidMetadata` with the JSON path of the problem.

    >>> print(
    ...     spec_from_json(
    ...         {
    ...             "spec-id": 3,
    ...             "fields": [{"source-id": 4, "field-id": 1000, "name": "ts_day", "transform": "day"}],
    ...         }
    ...     )
    ... )
    [1000: ts_day: day(4)]
    """
    obj = object_from_json(json)
    spec_id = int_from_json(obj.get("spec-id", 0), ".spec-id")
    if "fields" not in obj:
        raise InvalidMetadata("is missing").at(".fields")
    try:
        fields = fields_from_json(obj["fields"])
    except InvalidMetadata as error:
        raise error.at(".fields") from None
    return PartitionSpec(fields, spec_id, {k: v for k, v in obj.items() if k not in _SPEC_KEYS})


def spec_to_json(spec: PartitionSpec) -> dict[str, Any]:
    """Return a spec as a JSON object.

    >>> spec_to_json(UNPARTITIONED)
    {'spec-id': 0, 'fields': []}
    """
    return {"spec-id": spec.spec_id, "fields": fields_to_json(spec.fields)} | spec.extra


def fields_from_json(json: Any) -> tuple[PartitionField, ...]:
    """Parse partition fields from a JSON list, such as `partition-spec` of v1 metadata.

    Old metadata has no field ids; they are numbered from 1000. Either all fields of a list have ids, or none.

    >>> [f.field_id for f in fields_from_json([{"source-id": 1, "name": "id", "transform": "identity"}])]
    [1000]
    """
    if not isinstance(json, list):
        raise InvalidMetadata(f"must be a list of partition fields, found {describe(json)}")
    fields = []
    for n, item in enumerate(json):
        try:
            fields.append(_field_from_json(item, PARTITION_FIELD_ID_START + n))
        except InvalidMetadata as error:
            raise error.at(f"[{n}]") from None
    missing = [n for n, item in enumerate(json) if "field-id" not in item]
    if missing and len(missing) != len(json):
        raise InvalidMetadata(f"is missing, while {len(json) - len(missing)} other fields of the spec have it").at(
            f"[{missing[0]}]", ".field-id"
        )
    return tuple(fields)


def fields_to_json(fields: Iterable[PartitionField]) -> list[dict[str, Any]]:
    """Return partition fields as a JSON list."""
    return [
        {
            "name": f.name,
            "transform": str(f.transform),
            **source_ids_to_json(f.source_ids),
            "field-id": f.field_id,
        }
        | f.extra
        for f in fields
    ]


def _field_from_json(json: Any, implied_id: int) -> PartitionField:
    obj = object_from_json(json)
    source_ids = source_ids_from_json(obj)
    return PartitionField(
        source_ids,
        int_from_json(obj.get("field-id", implied_id), ".field-id"),
        text_from_json(obj, "name"),
        transform_from_json(obj, source_ids),
        {k: v for k, v in obj.items() if k not in _FIELD_KEYS},
    )
